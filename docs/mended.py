"""Draw the picture of the front page from a report: a name that only the rest of its document disambiguates.

    gspen-ner report runs/demo newswire:100:7 -o report.html
    python docs/mended.py report.html Lancaster docs/mended.png

The picture shows the first sentence in which the only change by the global term corrects this name, and the
first two other sentences of its document in which the CRF alone is right about the name. Needs playwright and
Chromium.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from html import escape
from pathlib import Path
from typing import Any

from gspen_ner.report.sentences import unpacked

STYLE = """
body { margin: 0; background: #fff; color: #1d2125; font: 19px/1.9 system-ui, sans-serif; }
main { display: grid; grid-template-columns: 9rem 1fr; gap: .55rem 1.4rem; }
main { padding: 1.1rem 1.4rem; width: 960px; }
h2, p { margin: 0; font-size: 1rem; font-weight: 400; }
h2 { color: #5d646c; text-align: right; }
mark { color: inherit; border-radius: .25rem; padding: .12rem .35rem; font-weight: 600; }
mark small { font-size: .72rem; font-weight: 400; margin-left: .3rem; }
hr { grid-column: 1 / -1; width: 100%; border: 0; border-top: 1px solid #e2dfd8; margin: .2rem 0; }
.bar { display: flex; gap: 2px; align-self: center; width: 34rem; font-size: .85rem; line-height: 1.9rem; }
.bar span { padding-left: .5rem; white-space: nowrap; overflow: hidden; }
.bar span { border-radius: .2rem; box-sizing: border-box; }
.open { background: #eceae5; }
.LOC { background: #a5cbe4; } .MISC { background: #f7c9ab; }
.ORG { background: #99d6cf; } .PER { background: #ddb4d6; }
"""


def page(report: str, word: str) -> str:
    """Return the picture as HTML."""
    data = json.loads(re.findall(r'id="data">(.*?)</script>', report, re.DOTALL)[0])
    sentences = data["sentences"]
    number = next(n for n, sentence in enumerate(sentences) if _is_mended(sentence, word))
    others = [
        sentence
        for sentence in sentences
        if sentence["d"] == sentences[number]["d"]
        and any(_is_right(sentence, span, word) for span in sentence["b"])
    ]
    before, after = (_by_type(data, sentences[number], lane, word) for lane in (0, 1))
    rows = [
        ("One sentence", _line(data, sentences[number], [], word)),
        ("CRF", _bar(before)),
        ("", "<hr>"),
        *(
            ("Its document" if not row else "", _line(data, sentence, sentence["b"], word))
            for row, sentence in enumerate(others[:2])
        ),
        ("CRF + document", _bar(after)),
    ]
    cells = [content if content == "<hr>" else f"<h2>{escape(name)}</h2>{content}" for name, content in rows]
    return f"<!doctype html><meta charset=utf-8><style>{STYLE}</style><main>{''.join(cells)}</main>"


def _is_mended(sentence: dict[str, Any], word: str) -> bool:
    """Return whether the type of this word is the only error of the CRF, and the only one that was fixed."""
    wrong = [span for span in sentence["b"] if span[:3] not in sentence["g"]]
    return sentence["x"] == [2, 0, 0] and [sentence["t"][span[0]] for span in wrong] == [word]


def _is_right(sentence: dict[str, Any], span: list[Any], word: str) -> bool:
    """Return whether a predicted entity is this word, with the gold type."""
    return sentence["t"][span[0]] == word and span[:3] in sentence["g"]


def _by_type(data: dict[str, Any], sentence: dict[str, Any], lane: int, word: str) -> dict[str, float]:
    """Return the probability of each type of a word, largest first; lane 0 is the CRF, 1 the full model."""
    table = unpacked(sentence["m"][lane], len(sentence["t"]), len(data["labels"]))
    row = table[sentence["t"].index(word)]
    shares = {
        entity_type: sum(p for p, label in zip(row, data["labels"], strict=True) if label[2:] == entity_type)
        for entity_type in data["types"]
    }
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _bar(shares: dict[str, float]) -> str:
    """Return a bar that is divided by the probabilities of the types."""
    parts = [
        f'<span class="{name}" style="flex: {share:.3f} 1 0">{name if share > 0.1 else ""} {share:.2f}</span>'
        for name, share in shares.items()
        if share > 0.02
    ]
    return f'<div class="bar">{"".join(parts)}</div>'


def _line(data: dict[str, Any], sentence: dict[str, Any], spans: list[list[float]], word: str) -> str:
    """Return a sentence with its entities marked; without entities, `word` is marked as open."""
    tokens = [escape(token) for token in sentence["t"]]
    for start, end, number, _ in reversed(spans):
        name, text = data["types"][number], " ".join(tokens[start:end])
        tokens[start:end] = [f'<mark class="{name}">{text}<small>{name}</small></mark>']
    if not spans:
        tokens[tokens.index(word)] = f'<mark class="open">{word}<small>?</small></mark>'
    text = re.sub(r" ([.,])", r"\1", " ".join(tokens))
    return f"<p>{text}</p>"


def main(report: str, word: str, picture: str) -> None:
    """Draw the picture of a report into a file."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(device_scale_factor=1.5)
        tab.set_content(page(Path(report).read_text(encoding="utf-8"), word))
        tab.locator("main").screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
