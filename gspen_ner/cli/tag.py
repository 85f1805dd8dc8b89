"""`gspen-ner tag`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gspen_ner.cli.shared import (
    CorpusKind,
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
    source: Annotated[str, typer.Argument(metavar="INPUT", help="A file, or a folder of files of one kind.")],
    output: Annotated[
        Path, typer.Argument(help="A folder to be made; or a file, NAME.jsonl or NAME.parquet.")
    ],
    engine: Annotated[
        EngineName, typer.Option(help="Processes of this machine, or actors of a Ray cluster.")
    ] = EngineName.local,
    workers: Annotated[int, typer.Option(min=1, help="How many, each with a model of its own.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads of each worker.", show_default="1; a single local worker: torch's"),
    ] = None,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of each worker (ray).")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was begun.")] = False,
    kind: CorpusKind = "auto",
    column: WordsColumn = None,
    document_column: DocumentColumn = None,
    entities_column: Annotated[str, typer.Option(help="What the new column is called.")] = "entities",
    token_column: Annotated[int, typer.Option(help="Column of the tokens in CoNLL input.")] = 0,
    part_rows: Annotated[int, typer.Option(min=1, help="Rows of a part, about.")] = PART_ROWS,
    longest_document: Annotated[
        int, typer.Option(min=1, help="Sentences of a document that are inferred together, at most.")
    ] = LONGEST_DOCUMENT,
) -> None:
    """Find the entities of a corpus of any size, in constant memory, with any number of workers.

    Parquet tables and JSON lines keep their columns and get one more, `entities`: a list of start, end, type,
    text and confidence (the exact probability of the entity). Start and end count characters if the row is a
    text, tokens if it is a list of tokens. Lines of plain text, and sentences of CoNLL columns, become JSON
    lines.

    The whole input is checked before anything is tagged. Rows that follow each other with the same value of
    the document column are a document; without one, each row is. In plain text, blank lines end documents.
    Parts never cut a document, unless it has more than --longest-document sentences: then it is tagged in
    pieces that know nothing of each other, and that is said.

    A run that was killed goes on with --resume; no row is lost or there twice. With --engine ray, the cluster
    of RAY_ADDRESS is used, or one is started on this machine; all its machines must see input, output and
    model under the same names.

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
    settings = Settings(kind, columns, part_rows, longest_document)
    work = make_engine(engine.value, workers, threads, gpus)
    with errors.status("checking the corpus"):
        job = CorpusJob(model, source, output, settings, resume)
    begun = time.perf_counter()
    try:
        done = _watch(job, work)
    except (ValueError, OSError) as error:
        raise ValueError(f"{error}\nFinished parts are kept in {job.folder}: go on with --resume.") from None
    _tell(job, done, time.perf_counter() - begun, longest_document)


def _watch(job: CorpusJob, work: Engine) -> Tagged:
    counts = (MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.fields[found]:,} entities"))
    columns = (TextColumn("tagging"), BarColumn(), *counts)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("tagging", total=job.rows, found=0)
        found = 0

        def report(outcome: Outcome) -> None:
            nonlocal found
            found += outcome.entities
            progress.update(task, advance=outcome.rows, found=found)

        return job.run(work, report)


def _tell(job: CorpusJob, done: Tagged, seconds: float, longest: int) -> None:
    earlier = f", besides {done.earlier:,} of an earlier run" if done.earlier else ""
    console.print(
        f"{done.rows:,} rows{earlier}: {done.sentences:,} sentences, {done.entities:,} entities in "
        f"{seconds:.1f} s, {done.peak} MB a worker -> {job.output}",
        highlight=False,
        soft_wrap=True,
    )
    if done.cuts:
        console.print(
            f"documents of more than {longest} sentences were cut at {done.cuts:,} places; the model's "
            "global term does not look across them (--longest-document)",
            style="yellow",
            highlight=False,
        )
