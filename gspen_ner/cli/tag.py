"""The command `gspen-ner tag`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gspen_ner.cli.shared import (
    ConllTokenColumn,
    CorpusFormat,
    CorpusInput,
    DocumentColumn,
    EngineName,
    Model,
    WordsColumn,
    clear_errors,
    console,
    errors,
)
from gspen_ner.corpora.plan import LONGEST_DOCUMENT, PART_ROWS

if TYPE_CHECKING:
    from gspen_ner.corpora.engines import Engine
    from gspen_ner.corpora.tagging import CorpusJob, Tagged
    from gspen_ner.corpora.worker import Outcome


@clear_errors
def tag(
    model: Model,
    source: CorpusInput,
    output: Annotated[
        Path, typer.Argument(help="Folder to create, or a file NAME.jsonl or NAME.parquet to write.")
    ],
    engine: Annotated[
        EngineName, typer.Option(help="Where workers run: processes of this machine, or a Ray cluster.")
    ] = EngineName.local,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers; each loads the model.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="CPU threads of each worker.",
            show_default="1; for a single local worker torch's default",
        ),
    ] = None,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of each worker (only with --engine ray).")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    input_format: CorpusFormat = "auto",
    column: WordsColumn = None,
    document_column: DocumentColumn = None,
    entities_column: Annotated[
        str, typer.Option(help="Name of the column that is added for the entities.")
    ] = "entities",
    token_column: ConllTokenColumn = 0,
    part_rows: Annotated[
        int, typer.Option(min=1, help="Approximate number of rows in each part.")
    ] = PART_ROWS,
    longest_document: Annotated[
        int, typer.Option(min=1, help="Maximum number of sentences of a document inferred together.")
    ] = LONGEST_DOCUMENT,
) -> None:
    """Tag the entities of a corpus of any size, in constant memory, with one or more workers.

    Parquet tables and JSON lines keep their columns and get the column `entities`: a list of objects with
    start, end, type, text and confidence. Start and end count
    characters if the row is a text, tokens if it is a list of tokens. Plain text lines and CoNLL sentences
    become JSON lines.

    The whole input is checked before tagging starts. Consecutive rows with the same value of the document
    column are one document; without such a column, each row is a document. In plain text, blank lines
    separate documents. Documents are never cut between parts, unless they have more than --longest-document
    sentences: these are tagged in independent pieces, and the number of cuts is reported.

    An interrupted run continues with --resume; no row is lost or duplicated. With --engine ray, the cluster
    at RAY_ADDRESS is used, or a new one is started on this machine; all machines must see the input, output
    and model at the same paths.

    Examples:
        gspen-ner tag runs/quickstart news.parquet news_tagged.parquet --column body --document-column url

        gspen-ner tag runs/quickstart corpus/ tagged/ --workers 4

        gspen-ner tag runs/quickstart corpus/ tagged/ --workers 4 --resume

        RAY_ADDRESS=auto gspen-ner tag runs/quickstart corpus/ tagged/ --engine ray --workers 32 --gpus 0.5
    """
    from gspen_ner.corpora.engines import make_engine
    from gspen_ner.corpora.manifest import Settings
    from gspen_ner.corpora.rows import Columns
    from gspen_ner.corpora.tagging import CorpusJob

    columns = Columns(column, document_column, entities_column, token_column)
    settings = Settings(input_format, columns, part_rows, longest_document)
    run_parts = make_engine(engine.value, workers, threads, gpus)
    with errors.status("checking the corpus"):
        job = CorpusJob(model, source, output, settings, resume)
    start = time.perf_counter()
    try:
        tagged = _run_with_progress(job, run_parts)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{error}\nFinished parts are kept in {job.folder}: continue with --resume"
        ) from None
    _print_summary(job, tagged, time.perf_counter() - start, longest_document)


def _run_with_progress(job: CorpusJob, engine: Engine) -> Tagged:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    counts = (MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[entities]:,} entities"))
    columns = (TextColumn("tagging"), BarColumn(), *counts)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("tagging", total=job.rows, entities=0)
        entities = 0

        def report(outcome: Outcome) -> None:
            nonlocal entities
            entities += outcome.entities
            progress.update(task, advance=outcome.rows, entities=entities)

        return job.run(engine, report)


def _print_summary(job: CorpusJob, tagged: Tagged, seconds: float, longest_document: int) -> None:
    earlier = f", after {tagged.earlier:,} of an earlier run" if tagged.earlier else ""
    console.print(
        f"{tagged.rows:,} rows{earlier}: {tagged.sentences:,} sentences, {tagged.entities:,} entities in "
        f"{seconds:.1f} s, {tagged.peak} MB per worker -> {job.output}",
        highlight=False,
        soft_wrap=True,
    )
    if tagged.cuts:
        console.print(
            f"documents of more than {longest_document} sentences were cut at {tagged.cuts:,} positions; the "
            "model does not see across a cut (increase --longest-document to avoid it)",
            style="yellow",
            highlight=False,
        )
