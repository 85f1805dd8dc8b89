"""The report's page without a browser: complete, well-formed, self-contained, and only ever text."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from gspen_ner.labels import Labels
from gspen_ner.ner.confusion import Confusion
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.metrics import Calibration
from gspen_ner.report.sections import figures
from gspen_ner.report.sentences import unpacked
from gspen_ner.report.statistics import Curve
from gspen_ner.report.tables import confusion_table
from tests.report.report_examples import EVIL, evil_news, make_example, news

VOID = ("meta", "link", "input")


class Page(HTMLParser):
    """A page as a browser sees it; refuses tags that do not balance."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text, self.scripts, self.styles = [], [], [], "", [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *attribute) for attribute in attributes]
        if tag == "script":
            self.scripts.append([dict(attributes), ""])
        if tag == "style":
            self.styles.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            self.scripts[-1][1] += data
        elif self.open[-1:] == ["style"]:
            self.styles[-1] += data
        else:
            self.text += data

    @property
    def data(self):
        (content,) = [
            text for attributes, text in self.scripts if attributes.get("type") == "application/json"
        ]
        return json.loads(content)

    @property
    def policy(self):
        (policy,) = [value for tag, name, value in self.attributes if (value or "").startswith("default-src")]
        return dict(rule.split(" ", 1) for rule in policy.split("; "))


@pytest.fixture(scope="module")
def example():
    return news()


@pytest.fixture(scope="module")
def page(example):
    return Page(example.page)


def test_the_page_shows_the_figures_that_were_measured(example, page):
    statistics = example.statistics
    for name, assessment in zip(statistics.names, statistics.assessments, strict=True):
        assert name in page.text
        assert f"{100 * assessment.score.f1:.2f}" in page.text
        assert f"{100 * assessment.calibration.ece:.2f} %" in page.text
    assert f"{statistics.evaluation.changes.fixed:,} errors fixed" in page.text
    for title in ("F1 by type", "Calibration", "Learning curves", "Convergence", "Confusion"):
        assert title in page.text


def test_errors_before_calibration_stand_beside_those_after(example):
    evaluation, before = example.statistics.evaluation, Calibration(0.12345, [])
    assessed = {name: replace(getattr(evaluation, name), uncalibrated=before) for name in ("base", "full")}
    calibrated = replace(example.statistics, evaluation=replace(evaluation, **assessed))
    words = "; of the exact probabilities, before calibration: CRF 12.35 %, CRF + GSPEN 12.35 %."
    assert words in figures(calibrated)
    assert "before calibration" not in figures(example.statistics)


def test_every_chart_has_words_and_a_table(page):
    assert page.tags.count("svg") == 1 + 1 + 1 + 3 + 2  # changes, F1, reliability, curves, inference
    assert page.tags.count("desc") == page.tags.count("svg")
    # scores; reliability, curves and inference; related tokens; confusions
    assert page.tags.count("table") == 1 + 3 + 1 + 2
    assert "<caption>" in news(3).page


def test_every_axis_has_a_name(example):
    assert re.findall(r'class="axis">(.*?)</text>', example.page) == [
        "F1, %",
        *("share of correct entities", "confidence"),
        *("F1 on dev, %", "base model, epoch", "global term, epoch"),
        *("training loss", "base model, epoch"),
        *("training loss", "global term, epoch"),
        *("sentences", "inference steps"),
        *("residual (logarithmic)", "inference steps"),
    ]


def test_one_invented_entity_is_a_faint_cell():
    counts = Confusion(("LOC", "ORG"), [[90, 0], [0, 50]], [0, 0], [0, 0], [1, 0])
    shades = re.findall(r'<td class="(?:right)? ?heat-(\d)">(\S+?)</td>', confusion_table(counts, "CRF"))
    assert ("8", "90") in shades
    assert ("1", "1") in shades


def test_the_data_are_those_of_the_sentences(example, page):
    data = page.data
    assert [tuple(entry["t"]) for entry in data["sentences"]] == [s.tokens for s in example.file.sentences]
    for entry, prediction in zip(data["sentences"], example.predictions, strict=True):
        for key, entities in (("b", prediction.base_entities), ("f", prediction.entities)):
            spans = [(start, end, data["types"][number]) for start, end, number, _ in entry[key]]
            assert spans == [tuple(entity.span) for entity in entities]
            assert [p for *_, p in entry[key]] == pytest.approx([e.probability for e in entities], abs=1e-3)
        before, after = (unpacked(text, len(entry["t"]), len(data["labels"])) for text in entry["m"])
        np.testing.assert_allclose(before, prediction.workings.base_marginals, atol=0.003)
        np.testing.assert_allclose(after, prediction.workings.marginals, atol=0.003)
        assert entry["s"] == len(prediction.workings.residuals) - 1


def test_the_page_loads_nothing(page):
    links = [value for _, name, value in page.attributes if name in ("src", "href")]
    assert set(links) == {"data:,", "#sentences"}
    own = "".join(page.styles + [text for attributes, text in page.scripts if not attributes])
    for outside in ("http", "@import", "url(", "fetch(", "XMLHttpRequest", "import("):
        assert outside not in own
    policy = page.policy
    assert (policy["default-src"], policy["connect-src"]) == ("'none'", "'none'")
    assert "unsafe" not in str(policy)


def test_only_this_style_and_this_script_are_allowed(page):
    (script,) = [text for attributes, text in page.scripts if not attributes]
    for rule, text in (("script-src", script), ("style-src", page.styles[0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert page.policy[rule] == f"'sha256-{digest}'"
    assert not [name for _, name, _ in page.attributes if name == "style" or name.startswith("on")]


def test_a_plain_crf_has_no_columns_of_another_system():
    page = Page(news(system="struct").page)
    assert "GSPEN" not in page.text
    assert "Convergence" not in page.text
    assert page.data["names"] == ["CRF"]
    assert all("f" not in entry and len(entry["m"]) == 1 for entry in page.data["sentences"])


def test_a_model_without_a_run_has_no_curves():
    assert "Learning curves" not in Page(news(3, curves=[]).page).text


def test_text_is_escaped():
    example = evil_news()
    page = Page(example.page)
    plain = Page(news(3).page)
    assert set(page.tags) <= set(plain.tags)
    assert page.tags.count("script") == 2
    assert f"{EVIL[0]} on {EVIL[1]}" in page.text
    assert page.data["sentences"][0]["t"] == EVIL
    assert EVIL[0] in page.data["types"]
    assert not re.search(r"<img|<script>window", example.page)


def test_words_of_any_language_and_half_a_character():
    tokens = ("東京", "🎉", "\u2028", "\ud800", "a\u0000b")
    sentence = TaggedSentence(tokens, ("B-LOC", "O", "O", "O", "O"), 0)
    example = make_example([sentence])
    example.page.encode()
    assert tuple(Page(example.page).data["sentences"][0]["t"]) == tokens


@pytest.mark.parametrize("system", ["struct", "gspen"])
def test_little_data(system):
    nothing = TaggedSentence(("a", "b"), ("O", "O"), 0)
    empty = TaggedSentence((), (), 1)
    for sentences in ([nothing], [empty], [nothing, empty]):
        assert "Sentences" in Page(make_example(sentences, system=system).page).text
    curve = [Curve("term", [(1.0, 0.0)], [(1.0, 0.0)])]
    assert "Learning curves" in Page(make_example([nothing], system=system, curves=curve).page).text


def test_types_that_the_model_does_not_know_and_long_names():
    types = ["LOC", "a rather long name of a type"]
    sentence = TaggedSentence(("Rome", "won"), (f"B-{types[1]}", "B-UNKNOWN"), 0)
    page = Page(make_example([sentence], Labels.of_types(types, "BIO")).page)
    assert page.data["types"] == [*types, "UNKNOWN"]
    assert "a rather long …" in page.text
    assert "UNKNOWN" in page.text
