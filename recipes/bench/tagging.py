"""Memory of tagging corpora of growing size, and the gain by more workers.

Each run is a separate process with one thread per worker. The time of a run includes starting (imports,
models, Ray); the rate between the smallest and the largest corpus does not.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.table import Table

from gspen_ner.cli.shared import EngineName
from gspen_ner.ner.newswire import generate_newswire
from recipes.studies.results import make_table

DOCUMENTS = 2000
"""Number of generated documents; larger corpora repeat them."""


@dataclass(frozen=True)
class TagRun:
    """One measurement; `peak_mb` is the memory of the largest process."""

    engine: str
    workers: int
    sentences: int
    seconds: float
    peak_mb: int


def write_corpus(file: Path, sentences: int) -> None:
    """Write generated news as JSON lines with documents."""
    news = generate_newswire(min(DOCUMENTS, sentences // 6 + 1), seed=11)
    with file.open("w", encoding="utf-8") as out:
        for number in range(sentences):
            copy, index = divmod(number, len(news))
            document = f"{copy}-{news[index].document}"
            out.write(json.dumps({"id": number, "tokens": news[index].tokens, "document": document}) + "\n")


def run_tagging(
    model: str, folder: Path, sizes: list[int], workers: list[int], engines: list[EngineName]
) -> Iterator[TagRun]:
    """Tag generated corpora, each of a number of sentences, in a folder; each run is a new process."""
    for size in sizes:
        write_corpus(folder / f"{size}.jsonl", size)
    for engine, count, size in product(engines, workers, sizes):
        output = folder / f"{engine.value}-{count}-{size}"
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            yield process.submit(_run, model, folder / f"{size}.jsonl", output, engine, count).result()


def _run(model: str, corpus: Path, output: Path, engine: EngineName, workers: int) -> TagRun:
    from gspen_ner.corpora.engines import make_engine
    from gspen_ner.corpora.manifest import Settings
    from gspen_ner.corpora.tagging import CorpusJob
    from gspen_ner.corpora.worker import peak_memory

    start = time.perf_counter()
    result = CorpusJob(model, str(corpus), output, Settings()).run(
        make_engine(engine.value, workers, threads=1)
    )
    seconds = time.perf_counter() - start
    return TagRun(engine.value, workers, result.rows, seconds, max(result.peak, peak_memory()))


def as_table(runs: list[TagRun]) -> Table:
    """Return the runs with two ratios: memory to the smallest corpus, rate to one worker."""
    rows = []
    for run in runs:
        same = [r for r in runs if (r.engine, r.workers) == (run.engine, run.workers)]
        single = [r for r in runs if (r.engine, r.workers) == (run.engine, 1)]
        last = run is same[-1]
        rows.append(
            {
                "engine": run.engine,
                "workers": run.workers,
                "sentences": run.sentences,
                "s": f"{run.seconds:.1f}",
                "sentences/s": f"{rate(same):,.0f}" if last else "",
                "peak MB": run.peak_mb,
                "x memory": f"{run.peak_mb / same[0].peak_mb:.2f}",
                "gain": f"{rate(same) / rate(single):.2f}" if last and single else "",
            }
        )
    return make_table("tagging, one thread per worker", rows, text=("engine",), sections=True)


def rate(runs: list[TagRun]) -> float:
    """Return sentences per second, without the time to start if there are two sizes."""
    first, last = runs[0], runs[-1]
    if first is last:
        return last.sentences / last.seconds
    return (last.sentences - first.sentences) / (last.seconds - first.seconds)
