"""The report in a real browser: it loads without errors, and filters, search, keys and details work."""

import os
import re
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from gspen_ner.labels import spans_of_tags
from tests.report.report_examples import EVIL, evil_news, many_types, news

PHONE = {"width": 360, "height": 740}
CONTRAST = (Path(__file__).parent / "contrast.js").read_text()
LABELS_IN_WORDS = r"[\w-]+ \d\.\d\d(, [\w-]+ \d\.\d\d)*"
CHART_WORDS = (Path(__file__).parent / "chart_words.js").read_text()
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip


def absent(what):
    """Skip the tests, but not where all must run."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{what} is not installed")


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        absent("playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        absent("Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


class Opened:
    """A page in the browser, and what it complained about or asked for."""

    def __init__(self, browser, folder, text, **options):
        (folder / "report.html").write_text(text, encoding="utf-8")
        self.context = browser.new_context(viewport={"width": 1200, "height": 800}, **options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto((folder / "report.html").as_uri())

    def __getattr__(self, name):
        return getattr(self.page, name)

    @property
    def numbers(self):
        """Of the sentences on this page of the list."""
        return [int(text) for text in self.page.locator("#list .number").all_inner_texts()]

    @property
    def count(self):
        return int(self.page.locator("#count").inner_text().split()[0].replace(",", ""))

    @property
    def focused(self):
        return self.page.evaluate("document.activeElement.getAttribute('aria-label')")

    def show(self, status):
        self.page.check(f"input[value={status}]")


@pytest.fixture(scope="module")
def example():
    return news(20)


@pytest.fixture
def open_page(browser, tmp_path):
    opened = []

    def open_(text, **options):
        opened.append(Opened(browser, tmp_path, text, **options))
        return opened[-1]

    yield open_
    for page in opened:
        page.context.close()


@pytest.fixture
def page(open_page, example):
    page = open_page(example.page)
    yield page
    assert page.complaints == []


def golds(example):
    return [set(spans_of_tags(sentence.tags, "BIO")) for sentence in example.file.sentences]


def founds(example, which="entities"):
    return [{entity.span for entity in getattr(row, which)} for row in example.predictions]


def changed(example, name):
    """The numbers of sentences in which the term fixed or broke something."""
    rows = zip(golds(example), founds(example, "base_entities"), founds(example), strict=True)
    errors = [(gold ^ before, gold ^ after) for gold, before, after in rows]
    gone = [before - after if name == "fixed" else after - before for before, after in errors]
    return [number for number, some in enumerate(gone, 1) if some]


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}, {"reduced_motion": "reduce"}])
def test_it_loads_without_errors_and_asks_for_nothing(open_page, example, options):
    page = open_page(example.page, **options)
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith("data:")] == [page.url]
    assert page.count == len(example.file.sentences)


def test_dark_and_light_differ(open_page, example):
    shades = []
    for scheme in ("light", "dark"):
        page = open_page(example.page, color_scheme=scheme)
        shades.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shades[0] != shades[1]


@pytest.mark.parametrize("name", ["fixed", "broken"])
def test_changes_are_found(page, example, name):
    page.show(name)
    wanted = changed(example, name)
    assert page.count == len(wanted)
    assert page.numbers == wanted[:20]


def test_low_confidence_and_its_limit(page, example):
    page.show("low")
    for limit in (0.5, 0.8):
        page.locator("#limit").fill(str(limit))
        least = [min((e.probability for e in p.entities), default=1) for p in example.predictions]
        assert page.count == sum(round(p, 3) < limit for p in least)
    page.show("all")
    assert not page.locator("#limit").is_visible()


def test_a_type_is_chosen(page, example):
    page.select_option("#type", label="MISC")
    rows = zip(golds(example), founds(example, "base_entities"), founds(example), strict=True)
    assert page.count == sum(any(span.type == "MISC" for span in set.union(*row)) for row in rows)


def test_orders(page, example):
    page.select_option("#order", "unsure")
    least = [min((e.probability for e in p.entities), default=1) for p in example.predictions]
    assert [round(least[number - 1], 3) for number in page.numbers] == sorted(round(p, 3) for p in least)[:20]
    page.select_option("#order", "errors")
    wrong = [len(s ^ t) for s, t in zip(golds(example), founds(example), strict=True)]
    assert [wrong[number - 1] for number in page.numbers] == sorted(wrong, reverse=True)[:20]


def test_words_are_searched_whatever_their_case(page, example):
    word = example.file.sentences[7].tokens[0]
    page.fill("#query", f" {word.upper()} ")
    wanted = [
        number
        for number, sentence in enumerate(example.file.sentences, 1)
        if word.lower() in " ".join(sentence.tokens).lower()
    ]
    assert page.count == len(wanted)
    assert page.numbers == wanted[:20]
    assert page.locator("#list .match").first.inner_text().lower() == word.lower()
    hits = " ".join(example.file.sentences[wanted[0] - 1].tokens).lower().count(word.lower())
    lanes = page.locator("#list li").first.locator(".lane")
    assert lanes.first.locator(".match").count() == hits


def test_where_nothing_is_found_all_can_be_shown_again(page, example):
    assert not page.locator("#nothing").is_visible()
    page.show("fixed")
    page.fill("#query", "no such words")
    assert (page.count, page.numbers) == (0, [])
    assert not page.locator("#pages").is_visible()
    page.get_by_role("button", name="Show all", exact=True).click()
    assert page.count == len(example.file.sentences)
    assert page.evaluate("document.activeElement.id") == "query"
    assert not page.locator("#nothing").is_visible()


def test_filters_add_up(page, example):
    page.show("fixed")
    page.select_option("#type", label="PER")
    both = page.count
    page.select_option("#type", "")
    assert 0 < both < page.count


def test_details_show_marginals_and_the_document(page, example):
    number = changed(example, "fixed")[0]
    page.show("fixed")
    page.locator("#list .row button").first.click()
    assert page.locator("#list li").first.locator(".lane b").all_inner_texts() == [
        "Gold",
        "CRF",
        "CRF + GSPEN",
    ]
    more = page.locator(".more")
    assert "B: begins an entity, I: inside, E: ends, S: single-token entity, O: outside." in more.inner_text()
    sentence, prediction = example.file.sentences[number - 1], example.predictions[number - 1]
    if more.get_by_text("others").count():
        more.get_by_text("others").click()
    assert more.locator(".marginals tbody tr").count() == len(sentence.tokens)
    label = more.locator(".marginals .stack").first.get_attribute("aria-label")
    best = float(prediction.workings.base_marginals[0].max())
    assert float(label.split(", ")[0].split()[1]) == pytest.approx(best, abs=0.01)
    assert f"{len(prediction.workings.residuals) - 1} step" in more.inner_text()
    document = [s for s in example.file.sentences if s.document == sentence.document]
    assert more.locator(".document p").count() == len(document)
    assert "here" in more.locator(".document p[aria-current]").get_attribute("class")


def test_a_click_leads_to_another_sentence_of_the_document(page, example):
    number = changed(example, "fixed")[0]
    page.show("fixed")
    page.locator("#list .row button").first.click()
    hidden = [
        other
        for other, sentence in enumerate(example.file.sentences, 1)
        if sentence.document == example.file.sentences[number - 1].document
        and other not in changed(example, "fixed")
    ]
    page.get_by_label(f"Go to sentence {hidden[0]}", exact=True).click()
    assert page.count == len(example.file.sentences), "filters are taken away"
    assert page.focused == f"Details of sentence {hidden[0]}"
    assert page.locator(".more").count() == 1


def test_everything_is_reached_by_keys(page):
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.press("ArrowDown")
    assert page.focused == "Details of sentence 1"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator(".row button[aria-expanded=true]").get_attribute("data-number") == "1"
    page.keyboard.press("Escape")
    assert page.locator(".more").count() == 0
    assert page.focused == "Details of sentence 2"
    page.keyboard.press("ArrowRight")
    assert page.focused == "Details of sentence 21"
    assert page.locator("#page").inner_text().startswith("Page 2 of")
    page.keyboard.press("ArrowLeft")
    assert page.numbers[0] == 1


def test_pages_end_where_the_sentences_end(page):
    assert page.locator("#previous").is_disabled()
    page.fill("#query", "said")
    while page.locator("#next").is_enabled():
        page.click("#next")
    assert len(page.numbers) == (page.count - 1) % 20 + 1


def test_text_is_never_run_as_a_script(open_page):
    page = open_page(evil_news().page)
    page.locator("#list .row button").first.click()
    assert page.evaluate("window.evil") is None
    assert page.complaints == []
    for text in EVIL:
        assert text in page.locator("#list").inner_text()
    assert page.locator("img").count() == 0
    assert EVIL[0] in page.title()


def test_the_policy_stops_other_scripts(open_page, example):
    page = open_page(example.page)
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.evil = 1";
        document.body.append(script);
    }""")
    assert page.evaluate("window.evil") is None
    assert "Content Security Policy" in page.complaints[0]


def test_a_plain_crf_has_no_filters_of_changes(open_page):
    page = open_page(news(4, system="struct", curves=[]).page)
    assert page.complaints == []
    assert page.locator("#status input").count() == 3
    page.locator("#list .row button").first.click()
    assert page.locator(".marginals thead th").all_inner_texts() == ["token", "CRF"]


def test_it_fits_a_phone(page):
    page.set_viewport_size(PHONE)
    page.show("fixed")
    page.locator("#list .row button").first.click()
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}])
def test_all_text_has_enough_contrast(open_page, example, options):
    page = open_page(example.page, **options)
    page.show("broken")
    page.locator("#list .row button").first.click()
    page.evaluate("document.querySelectorAll('details').forEach((more) => { more.open = true; })")
    assert page.evaluate(CONTRAST) == []
    page.evaluate("document.documentElement.style.setProperty('--soft', '#777')")
    assert page.evaluate(CONTRAST), "grey on any ground is seen"


def test_headings_go_down_one_level_at_a_time(page):
    page.locator("#list .row button").first.click()
    levels = page.evaluate(
        "[...document.querySelectorAll('h1, h2, h3, h4')].map((h) => Number(h.tagName[1]))"
    )
    assert levels[0] == 1
    assert {3} < set(levels)
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_a_screen_reader_has_a_name_for_every_control_and_words_for_every_picture(page):
    page.locator("#list .row button").first.click()
    page.show("low")
    page.locator("#list .row button").first.click()
    page.evaluate("document.querySelectorAll('details').forEach((more) => { more.open = true; })")
    tree = page.context.new_cdp_session(page.page).send("Accessibility.getFullAXTree")["nodes"]
    seen = [Seen(node) for node in tree if not node.get("ignored")]
    controls = [node for node in seen if node.focusable and node.role != "RootWebArea"]
    assert {node.role for node in controls} >= {
        "searchbox", "combobox", "radio", "slider", "button", "region", "link", "DisclosureTriangle"
    }  # fmt: skip
    assert [node for node in controls if not node.name] == []
    assert {"Search words", "Type", "Order", "Details of sentence 1", "The document"} <= {
        n.name for n in controls
    }
    pictures = [node for node in seen if node.role in ("image", "img", "graphics-document")]
    charts = {node.name for node in pictures if node.description}
    assert charts == {
        "What the global term changed", "F1 by type", "Reliability of confidences",
        "Learning curve: F1 on dev", "Training loss", "Steps", "Residuals",
    }  # fmt: skip
    bars = [node for node in pictures if not node.description]
    assert bars
    assert [bar.name for bar in bars if not re.fullmatch(LABELS_IN_WORDS, bar.name)] == []
    tables = [node for node in seen if node.role == "table"]
    assert len(tables) == page.locator("table:visible").count()


class Seen:
    """A node of the tree that a screen reader gets."""

    def __init__(self, node):
        self.role = node["role"]["value"]
        self.name = node.get("name", {}).get("value", "")
        self.description = node.get("description", {}).get("value", "")
        flags = {entry["name"]: entry["value"].get("value") for entry in node.get("properties", ())}
        self.focusable = flags.get("focusable", False)


@pytest.mark.parametrize("width", [1200, 390])
def test_no_words_of_a_chart_are_cut_or_overlap(open_page, width):
    page = open_page(many_types().page)
    page.set_viewport_size({"width": width, "height": 800})
    cut, overlaps = page.evaluate(CHART_WORDS)
    assert (cut, overlaps) == ([], [])


def test_of_many_types_all_columns_are_seen(open_page):
    page = open_page(many_types().page)
    for name in ("CRF", "CRF + GSPEN"):
        region = page.get_by_label(f"Confusions of {name}", exact=True)
        assert region.evaluate("it => it.scrollWidth - it.clientWidth") == 0


class TestPrinting:
    """What is on paper."""

    @pytest.fixture
    def on_paper(self, page):
        def print_():
            page.emulate_media(media="print")
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            return page

        return print_

    def test_there_are_no_controls(self, on_paper):
        page = on_paper()
        for control in ("#controls", "#pages", ".keys", ".row button"):
            assert not page.locator(control).first.is_visible()
        assert page.locator("#list li").first.is_visible()

    def test_all_chosen_sentences_are_there_and_said_in_words(self, page, on_paper, example):
        page.show("fixed")
        page.select_option("#type", label="PER")
        page.select_option("#order", "unsure")
        count = page.count
        assert 20 < count < 100
        on_paper()
        assert len(page.numbers) == count
        heading = f"Fixed, with an entity of type PER, lowest confidence first: {count} sentences"
        assert page.locator("#printed").inner_text() == heading

    def test_many_are_cut_from_the_page_that_is_shown_on(self, page, on_paper):
        total = page.count
        page.click("#next")
        on_paper()
        assert page.numbers == list(range(21, 121))
        assert page.locator("#printed").inner_text() == f"All: 21 to 120 of {total} sentences"

    def test_what_is_open_stays_open_and_the_screen_is_as_before(self, page, on_paper):
        page.locator("#list .row button").nth(2).click()
        on_paper()
        assert page.locator("#sentence-3 .more").is_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert len(page.numbers) == 20
        assert page.locator("#sentence-3 .more").count() == 1

    def test_a_browser_sends_these_events(self, page):
        page.evaluate(
            "window.sent = []; for (const name of ['beforeprint', 'afterprint']) "
            "addEventListener(name, () => sent.push([name, document.querySelectorAll('#list > li').length]))"
        )
        assert page.pdf().startswith(b"%PDF")
        assert page.evaluate("sent") == [["beforeprint", 100], ["afterprint", 20]]


def test_many_sentences_are_few_elements(open_page):
    example = news(125)
    assert len(example.file.sentences) >= 1000
    assert len(example.page) < 5e6
    page = open_page(example.page)
    assert page.complaints == []
    assert page.count == len(example.file.sentences)
    assert len(page.numbers) == 20
    assert page.evaluate("document.querySelectorAll('*').length") < 3000
    page.fill("#query", example.file.sentences[-1].tokens[0])
    assert 0 < page.count < len(example.file.sentences)
