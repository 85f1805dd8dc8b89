"""The command `gspen-ner predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gspen_ner.cli.shared import ConllTokenColumn, Model, OutputFile, clear_errors, write_output

OutputFormat = Literal["conll", "jsonl", "html"]


@clear_errors
def predict(
    model: Model,
    source: Annotated[str, typer.Argument(metavar="INPUT", help="File to tag, or - to read standard input.")],
    output_format: Annotated[
        OutputFormat | None,
        typer.Option(
            "--format",
            help="Output format.",
            show_default="by the output's suffix (.jsonl, .html), otherwise conll",
        ),
    ] = None,
    output: OutputFile = None,
    input_format: Annotated[
        Literal["auto", "text", "conll", "jsonl"],
        typer.Option("--input", help="Input format; auto detects it from the name and the content."),
    ] = "auto",
    token_column: ConllTokenColumn = 0,
    k_best: Annotated[
        int,
        typer.Option(
            min=0, metavar="K", help="Also write the K best labellings of each sentence (needs jsonl)."
        ),
    ] = 0,
) -> None:
    """Tag the entities of a text or a file, with the confidence in each entity.

    The input is plain text (a blank line starts a new document), CoNLL columns (gold tags are ignored) or
    JSON lines with `tokens`. The output is CoNLL columns (token, probability, tag), JSON lines, or an HTML
    page. To tag large corpora, use `gspen-ner tag`.

    Examples:
        echo 'Ms. Anna Halden spoke.' | gspen-ner predict runs/quickstart -

        gspen-ner predict runs/quickstart news.txt --output news.html

        gspen-ner predict runs/conll03_fast test.txt --format jsonl --k-best 3 --output test.jsonl
    """
    from gspen_ner.hosts.loading import load_tagger
    from gspen_ner.ner.plain_text import read_untagged

    output_format = output_format or _format_of(output)
    if k_best and output_format != "jsonl":
        raise ValueError(f"--k-best needs --format jsonl, got {output_format}")
    sentences = read_untagged(source, input_format, token_column)
    tagger = load_tagger(model)
    predictions = tagger.tag_sentences(sentences, k_best)
    documents = [sentence.document for sentence in sentences]
    if output_format == "html":
        from gspen_ner.report.entities_page import entities_page

        text = entities_page(predictions, documents)
    else:
        from gspen_ner.ner.predictions import as_conll, as_json_lines

        write = as_json_lines if output_format == "jsonl" else as_conll
        text = write(predictions, documents)
    write_output(output, text)


def _format_of(output: Path | None) -> OutputFormat:
    """Return the format that the suffix of the output file stands for."""
    formats: dict[str, OutputFormat] = {".html": "html", ".htm": "html", ".jsonl": "jsonl"}
    return formats.get(output.suffix, "conll") if output else "conll"
