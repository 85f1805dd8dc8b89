"""`gspen-ner rank`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.progress import track

from gspen_ner.cli.shared import (
    CorpusKind,
    DocumentColumn,
    Model,
    WordsColumn,
    check_writable,
    clear_errors,
    errors,
)
from gspen_ner.corpora.plan import LONGEST_DOCUMENT, PART_ROWS, make_plan


@clear_errors
def rank(
    model: Model,
    data: Annotated[str, typer.Argument(help="A file, or a folder of files of one kind.")],
    by: Annotated[
        Literal["entropy", "margin", "span"],
        typer.Option(help="Entropy of the labellings, margin of the two best, or the least sure entity."),
    ] = "entropy",
    per_token: Annotated[bool, typer.Option("--per-token", help="Divide the entropy by the tokens.")] = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only the N most uncertain.", show_default="all")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="File to write; standard output if not given.", dir_okay=False)
    ] = None,
    output_format: Annotated[
        Literal["jsonl", "csv"] | None,
        typer.Option("--format", help="Default: by the output's name, else jsonl.", show_default=False),
    ] = None,
    kind: CorpusKind = "auto",
    column: WordsColumn = None,
    document_column: DocumentColumn = None,
    token_column: Annotated[int, typer.Option(help="Column of the tokens in CoNLL input.")] = 0,
) -> None:
    """Rank sentences by how unsure a model is of them: what to annotate next.

    Plain text, CoNLL columns, JSON lines or parquet; tags, if there are any, are not looked at. Uncertainty
    is that of the distribution the model decodes with, its global term included. Each sentence comes with
    what the model found, to be corrected: tokens and BIO tags, and entities by their characters in `text`.
    With --top, memory does not grow with the corpus.

    Examples:
        gspen-ner rank runs/quickstart pool.txt --top 100 --output next.jsonl

        gspen-ner rank runs/quickstart pool.parquet --by margin --top 500 --output next.csv

        gspen-ner rank runs/quickstart test.conll --by entropy --per-token --top 20
    """
    check_writable(output, "--output")
    from gspen_ner.corpora import ranking
    from gspen_ner.corpora.reading import open_corpus
    from gspen_ner.corpora.rows import Columns
    from gspen_ner.files import write_whole
    from gspen_ner.hosts.loading import load_tagger

    if per_token and by != "entropy":
        raise ValueError(f"--per-token is for --by entropy, got {by}")
    tagger = load_tagger(model)
    columns = Columns(column, document_column, entities="", token=token_column)  # none is added
    with errors.status("checking the corpus"):
        files = open_corpus(data, kind, columns)
        plan = make_plan(files, PART_ROWS, LONGEST_DOCUMENT)
    kept = ranking.Ranking(top)
    unseen = not errors.is_terminal
    for part in track(plan.parts, "ranking", console=errors, transient=True, disable=unseen):
        for doubt in ranking.doubts(tagger, files, part, by, per_token, LONGEST_DOCUMENT):
            kept.add(doubt)
    by_name = "csv" if output is not None and output.suffix == ".csv" else "jsonl"
    write = ranking.as_csv if (output_format or by_name) == "csv" else ranking.as_json_lines
    written = write(kept.entries())
    if output is not None:
        write_whole(output, written)
    else:
        sys.stdout.write(written)
