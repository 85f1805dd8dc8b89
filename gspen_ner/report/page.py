"""The report as one self-contained HTML page: template, style, scripts and data in a single file.

The page loads nothing: its security policy forbids it, and allows only its own style and scripts, which are
given by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from gspen_ner.labels import Labels
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.predictions import Prediction
from gspen_ner.report.sections import figures, overview
from gspen_ner.report.sentences import sentence_entries
from gspen_ner.report.statistics import Statistics

SCRIPTS = ("entities.js", "marginals.js", "details.js", "browser.js", "printing.js")


def report_page(
    model: str,
    data: str,
    labels: Labels,
    statistics: Statistics,
    sentences: Sequence[TaggedSentence],
    predictions: Sequence[Prediction],
) -> str:
    """Return the page of predictions with their workings; model and data are named as the user typed them."""
    content = {
        "names": statistics.names,
        "types": statistics.types,
        "labels": labels.names,
        "sentences": sentence_entries(sentences, predictions, statistics.types, statistics.has_term),
    }
    style = _template("style.css")
    script = '(() => {\n"use strict";\n' + "\n".join(map(_template, SCRIPTS)) + "})();\n"
    return Template(_template("page.html")).substitute(
        policy=escape(_policy(style, script)),
        title=escape(f"{model} on {data}"),
        model=escape(model),
        data=escape(data),
        style=style,
        overview=overview(statistics),
        figures=figures(statistics),
        content=as_data(content),
        script=script,
    )


def as_data(content: Any) -> str:
    r"""Return JSON that cannot close the HTML element that contains it.

    Example:
        >>> print(as_data("</script>"))
        "\u003c/script>"
    """
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _template(name: str) -> str:
    return (files("gspen_ner.report") / "template" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return the content security policy."""
    rules = {
        "default-src": "'none'",
        "connect-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "img-src": "data:",
        "style-src": f"'sha256-{_hash(style)}'",
        "script-src": f"'sha256-{_hash(script)}'",
    }
    return "; ".join(f"{rule} {allowed}" for rule, allowed in rules.items())


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
