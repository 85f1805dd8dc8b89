"""`gspen-ner predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from gspen_ner.cli.shared import Model, check_writable, clear_errors

OutputFormat = Literal["conll", "jsonl", "html"]


@clear_errors
def predict(
    model: Model,
    source: Annotated[str, typer.Argument(metavar="INPUT", help="A file, or - for standard input.")],
    output_format: Annotated[
        OutputFormat | None,
        typer.Option("--format", help="Default: by the output's name, else conll.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write; standard output if not given.", dir_okay=False)
    ] = None,
    input_format: Annotated[
        Literal["auto", "text", "conll", "jsonl"],
        typer.Option("--input", help="What the input is; auto looks at it."),
    ] = "auto",
    token_column: Annotated[int, typer.Option(help="Column of the tokens in CoNLL input.")] = 0,
    k_best: Annotated[
        int, typer.Option(min=0, help="Also give the K best labellings of each sentence (jsonl).")
    ] = 0,
) -> None:
    """Find the entities of a text, with the exact probability of each.

    Plain text (a blank line begins a new document), CoNLL columns (gold tags, if any, are not looked at) or
    JSON lines with `tokens`. Output: CoNLL columns with the tag and the entity's probability, JSON lines, or
    a page to look at.

    Examples:
        echo 'Ms. Anna Halden spoke.' | gspen-ner predict runs/quickstart -

        gspen-ner predict runs/quickstart news.txt --output news.html

        gspen-ner predict runs/conll03_fast test.txt --format jsonl --k-best 3 --output test.jsonl
    """
    check_writable(output, "--output")
    from gspen_ner.files import write_whole
    from gspen_ner.hosts.loading import load_tagger
    from gspen_ner.ner.plain_text import read_untagged
    from gspen_ner.ner.prediction_formats import as_conll, as_json_lines
    from gspen_ner.report.entities_page import entities_page

    kind = output_format or _by_name(output)
    if k_best and kind != "jsonl":
        raise ValueError(f"--k-best needs --format jsonl, got {kind}")
    sentences = read_untagged(source, input_format, token_column)
    tagger = load_tagger(model)
    documents = [sentence.document for sentence in sentences]
    predictions = tagger.tag([sentence.tokens for sentence in sentences], documents, k_best)
    writers = {"conll": as_conll, "jsonl": as_json_lines, "html": entities_page}
    written = writers[kind](predictions, documents)
    if output is not None:
        write_whole(output, written)
    else:
        sys.stdout.write(written)


def _by_name(output: Path | None) -> OutputFormat:
    suffixes: dict[str, OutputFormat] = {".html": "html", ".htm": "html", ".jsonl": "jsonl"}
    return suffixes.get(output.suffix, "conll") if output else "conll"
