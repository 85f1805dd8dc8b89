"""The documentation: it builds without a warning, says something of everything, and fetches nothing."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from pydantic import BaseModel

import gspen_ner
from gspen_ner.recipe import AnyRecipe, recipe_names
from gspen_ner.report.sentences import packed

ROOT = Path(__file__).parents[1]


def sections(kind):
    """A section of recipes and all that are in it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
        for field in kind.model_fields.values():
            yield from sections(field.annotation)
    for part in get_args(kind):
        yield from sections(part)


@pytest.mark.parametrize("kind", get_args(AnyRecipe), ids=lambda kind: kind.__name__)
def test_every_entry_of_a_recipe_is_described(kind):
    for section in sections(kind):
        for name, field in section.model_fields.items():
            marks_a_kind = re.fullmatch(r"typing\.Literal\['\w+'\]", str(field.annotation))
            described = field.description or marks_a_kind or list(sections(field.annotation))
            assert described, f"{section.__name__}.{name}"


def test_the_front_page_s_picture_shows_what_the_report_has(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    import mended

    def sentence(words, marginals, **found):
        tables = [packed(np.array(table)) for table in marginals]
        return {"t": words.split(), "d": 0, "m": tables, **found}

    outside, sure = [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]
    before, after = [[0.0, 0.6, 0.4], outside, outside], [[0.0, 0.2, 0.8], outside, outside]
    asked = sentence("Elgin <won> .", [before, after], g=[[0, 1, 1]], b=[[0, 1, 0, 0.6]], x=[2, 0, 0])
    told = sentence(
        "shares of Elgin", [[outside, outside, sure]] * 2, g=[[2, 3, 1]], b=[[2, 3, 1, 1.0]], x=[0] * 3
    )
    data = {"types": ["LOC", "ORG"], "labels": ["O", "S-LOC", "S-ORG"], "sentences": [told, asked]}
    picture = mended.page(f'<script id="data">{json.dumps(data)}</script>', "Elgin")
    shown = re.sub(r"<style>.*</style>|<.*?>", "|", picture, flags=re.DOTALL)
    assert re.findall(r"[^|]+", shown) == [
        *("One sentence", "Elgin", "?", " &lt;won&gt;."),
        *("CRF", "LOC 0.60", "ORG 0.40"),
        *("Its document", "shares of ", "Elgin", "ORG"),
        *("CRF + document", "ORG 0.80", "LOC 0.20"),
    ]


@pytest.mark.slow
def test_it_builds_and_fetches_nothing(tmp_path):
    pytest.importorskip("mkdocstrings")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # of what its authors make next
    built = subprocess.run(build, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    pages = {file.name: file.read_text(encoding="utf-8") for file in (tmp_path / "site").rglob("*.html")}
    for page in ("index.html", "ways_in.html", "results.html", "contributing.html"):
        assert page in pages
    assert all(f"<code>{name}</code>" in pages["recipes.html"] for name in recipe_names())
    assert "gspen-ner train" in pages["command_line.html"]
    whole = "".join(pages.values())
    for name in ("MirrorDescent", "LinearChainCRF", "DocumentConsistency", "GSPENTagger", "StageTrainer"):
        assert re.search(rf'id="gspen_ner\.[\w.]*{name}"', whole), name
    assert "argmax &lt;theta, p&gt; + H(p)" in whole, "formulas are not taken for HTML"
    api = (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8")
    for name in gspen_ner.__all__:
        assert re.search(rf'href="\d\d_\w+\.html#gspen_ner\.[\w.]*{name}"', api), name
    assert not re.search(r'<(?:script|img|iframe)[^>]* src="(?:https?:)?//', whole)
    assert not re.search(r'<link[^>]* rel="(?:stylesheet|preconnect)"[^>]* href="(?:https?:)?//', whole)
