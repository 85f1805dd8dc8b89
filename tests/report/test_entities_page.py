"""The page of entities: complete, well-formed, self-contained, and safe to open whatever the tokens say."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gspen_ner.decode import ScoredSpan
from gspen_ner.labels import Span
from gspen_ner.ner.predictions import Prediction
from gspen_ner.report.entities_page import entities_page

EVIL = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'",
    "&lt;",
    "</mark>",
    "--></style>",
    "{title}",
]


class Page(HTMLParser):
    """A page as a browser sees it; refuses tags that do not balance."""

    VOID = ("meta",)

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.marks, self.documents, self.paragraphs, self.title, self.style = [], [], [], "", ""
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)
        given = dict(attributes)
        if tag == "mark":
            self.marks.append({"text": "", "small": "", "document": len(self.documents), **given})
        if tag == "div":
            assert given == {"class": "document"}
            assert "div" not in self.open[:-1]
            self.documents.append([])
        if tag == "p":
            self.paragraphs.append("")
            if self.documents:
                self.documents[-1].append(len(self.paragraphs) - 1)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "title" in self.open:
            self.title += data
        if "style" in self.open:
            self.style += data
        if "small" in self.open:
            self.marks[-1]["small"] += data
        elif "mark" in self.open:
            self.marks[-1]["text"] += data
        if "p" in self.open and "small" not in self.open:
            self.paragraphs[-1] += data

    @property
    def entities(self):
        """Marks outside the legend."""
        return [mark for mark in self.marks if mark["document"]]

    @property
    def sentences(self):
        return [[self.paragraphs[at] for at in rows] for rows in self.documents]


def prediction(tokens, entities=(), base=None):
    scored = [ScoredSpan(Span(*entity[:3]), entity[3]) for entity in entities]
    return Prediction(tuple(tokens), scored, scored if base is None else base, [])


ANN = prediction(["Ann", "Lee", "saw", "Rome", "."], [(0, 2, "PER", 0.98765), (3, 4, "LOC", 0.5)])
HI = prediction(["Hi", "there"])


def test_every_entity_appears_with_its_type_and_probability():
    page = Page(entities_page([ANN, HI], [0, 0]))
    ann, rome = page.entities
    assert (ann["text"], ann["small"], ann["title"]) == ("Ann Lee", "PER 0.99", "PER, probability 0.9877")
    assert (rome["text"], rome["small"], rome["title"]) == ("Rome", "LOC 0.50", "LOC, probability 0.5000")
    assert page.sentences == [["Ann Lee saw Rome .", "Hi there"]]


def test_types_have_colours_of_their_own_that_the_legend_explains():
    page = Page(entities_page([ANN, ANN], [0, 0]))
    legend = {mark["text"]: mark["class"] for mark in page.marks if not mark["document"]}
    assert list(legend) == ["PER", "LOC", "changed by the global term"]
    assert [mark["class"] for mark in page.entities] == [legend["PER"], legend["LOC"]] * 2
    for name in (legend["PER"], legend["LOC"], "changed"):
        assert f".{name} {{" in page.style


def test_more_types_than_colours():
    tokens = [f"w{k}" for k in range(30)]
    page = Page(entities_page([prediction(tokens, [(k, k + 1, f"T{k}", 1.0) for k in range(30)])], [0]))
    assert len({mark["class"] for mark in page.entities}) == 30
    assert all(f".{mark['class']} {{" in page.style for mark in page.entities)


def test_a_smaller_probability_is_fainter():
    row = prediction(["a", "b", "c"], [(0, 1, "X", 0.0), (1, 2, "X", 0.5), (2, 3, "X", 1.0)])
    styles = [float(mark["style"].removeprefix("--p:")) for mark in Page(entities_page([row], [0])).entities]
    assert 0 < styles[0] < styles[1] < styles[2] <= 1


def test_entities_that_the_term_changed_are_outlined():
    base = [ScoredSpan(Span(0, 2, "PER"), 0.4), ScoredSpan(Span(3, 4, "PER"), 0.6)]
    page = Page(entities_page([prediction(ANN.tokens, [(0, 2, "PER", 0.9), (3, 4, "LOC", 0.9)], base)], [0]))
    assert ["changed" in mark["class"].split() for mark in page.entities] == [False, True]
    assert all("changed" not in mark["class"].split() for mark in Page(entities_page([ANN], [0])).entities)


def test_documents_are_separated():
    page = Page(entities_page([HI, ANN, HI, HI], [3, 3, 7, 1]))
    assert [len(rows) for rows in page.sentences] == [2, 1, 1]


def test_no_sentences():
    page = Page(entities_page([], []))
    assert "No sentences." in page.paragraphs
    assert page.documents == []


def test_sentences_without_entities_and_without_tokens():
    page = Page(entities_page([HI, prediction([])], [0, 1]))
    assert page.entities == []
    assert page.sentences == [["Hi there"], [""]]


def test_the_title_is_shown_and_escaped():
    page = Page(entities_page([HI], [0], title="<b>News & views</b>"))
    assert page.title == "<b>News & views</b>"
    assert "b" not in page.tags


@pytest.mark.parametrize("text", EVIL)
def test_tokens_types_and_titles_are_escaped(text):
    row = prediction([text, "plain", text], [(0, 1, text, 0.5), (1, 3, "PER", 0.5)])
    page = Page(entities_page([row], [0], title=text))
    assert [mark["text"] for mark in page.entities] == [text, f"plain {text}"]
    assert page.entities[0]["title"] == f"{text}, probability 0.5000"
    assert page.entities[0]["small"] == f"{text} 0.50"
    assert page.title == text
    assert set(page.tags) == {
        "html", "head", "meta", "title", "style", "body", "h1", "p", "div", "mark", "small"
    }  # fmt: skip
    assert {name for name, _ in page.attributes} <= {
        "lang", "charset", "name", "content", "class", "style", "title"
    }  # fmt: skip


def test_the_page_is_self_contained():
    text = entities_page([ANN, HI], [0, 1]).lower()
    for outside in ("http", "<script", "<link", "<img", "@import", "url(", "src=", "href=", "//"):
        assert outside not in text
    assert text.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in text


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6),
)
def test_any_text_appears_on_the_page(rows, entity_type):
    page = Page(
        entities_page([prediction(tokens, [(0, 1, entity_type, 0.5)]) for tokens in rows], range(len(rows)))
    )
    assert page.sentences == [[" ".join(tokens)] for tokens in rows]
    assert [mark["text"] for mark in page.entities] == [tokens[0] for tokens in rows]


def test_entities_that_the_term_removed_are_outlined():
    gone = ScoredSpan(Span(0, 1, "PER"), 0.6)
    page = entities_page([Prediction(("Halden", "won"), [], [gone], [])], [0])
    assert 'title="PER without the global term">Halden</mark>' in page
