"""`gspen-ner bench tag`: the memory of tagging corpora of growing size, and what more workers gain.

Each run is a process of its own. Its memory is the most that a worker, or the process that gives out the
work, had at once. Starting (imports, models, Ray) is in the seconds; the rate between the smallest and the
largest corpus is without it.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.table import Table

from gspen_ner.ner.newswire import generate_newswire

EngineName = Literal["local", "ray"]
DOCUMENTS = 2000  # that are written; larger corpora repeat them


@dataclass(frozen=True)
class TagRun:
    """One measurement; `peak_mb` is of the largest process."""

    engine: str
    workers: int
    sentences: int
    seconds: float
    peak_mb: int


def write_corpus(file: Path, sentences: int) -> None:
    """Generated news as JSON lines, with documents."""
    made = generate_newswire(min(DOCUMENTS, sentences // 6 + 1), seed=11)
    with file.open("w", encoding="utf-8") as out:
        for number in range(sentences):
            turn, place = divmod(number, len(made))
            sentence = made[place]
            row = {"id": number, "tokens": sentence.tokens, "document": f"{turn}-{sentence.document}"}
            out.write(json.dumps(row) + "\n")


def run_tagging(
    model: str,
    folder: Path,
    sizes: list[int],
    workers: list[int],
    engines: list[EngineName],
) -> Iterator[TagRun]:
    """Tag generated corpora of several sizes, each in a new process.

    Args:
        model: folder of a model or of a run.
        folder: for corpora and outputs.
        sizes: sentences of each corpus.
        workers: how many, each with one thread.
        engines: that are measured.
    """
    for size in sizes:
        write_corpus(folder / f"{size}.jsonl", size)
    for engine in engines:
        for count in workers:
            for size in sizes:
                output = folder / f"{engine}-{count}-{size}"
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                    job = alone.submit(_run, model, folder / f"{size}.jsonl", output, engine, count)
                    yield job.result()


def _run(model: str, corpus: Path, output: Path, engine: EngineName, workers: int) -> TagRun:
    from gspen_ner.corpora.engines import make_engine
    from gspen_ner.corpora.manifest import Settings
    from gspen_ner.corpora.tagging import CorpusJob
    from gspen_ner.corpora.worker import peak_memory

    begun = time.perf_counter()
    job = CorpusJob(model, str(corpus), output, Settings())
    done = job.run(make_engine(engine, workers, threads=1))
    seconds = time.perf_counter() - begun
    return TagRun(engine, workers, done.rows, seconds, max(done.peak, peak_memory()))


def as_table(runs: list[TagRun]) -> Table:
    """The runs, with ratios: of memory to the smallest corpus, of the rate to that of one worker."""
    table = Table(title="tagging, one thread a worker")
    for name in ("engine", "workers", "sentences", "s", "sentences/s", "peak MB", "x memory", "gain"):
        table.add_column(name, justify="left" if name == "engine" else "right")
    for run in runs:
        same = [r for r in runs if (r.engine, r.workers) == (run.engine, run.workers)]
        single = [r for r in runs if (r.engine, r.workers) == (run.engine, 1)]
        memory = run.peak_mb / same[0].peak_mb
        gain = f"{rate(same) / rate(single):.2f}" if run is same[-1] and single else ""
        speed = f"{rate(same):,.0f}" if run is same[-1] else ""
        cells = (run.engine, run.workers, f"{run.sentences:,}", f"{run.seconds:.1f}", speed, run.peak_mb)
        table.add_row(*map(str, cells), f"{memory:.2f}", gain)
    return table


def rate(runs: list[TagRun]) -> float:
    """Sentences a second, without the time to start if there are two sizes."""
    first, last = runs[0], runs[-1]
    if first is last:
        return last.sentences / last.seconds
    return (last.sentences - first.sentences) / (last.seconds - first.seconds)
