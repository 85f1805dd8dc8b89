"""The paper's table of run times: an epoch of every system on every task, as a multiple of Struct's.

All systems of a task are trained in alternating rounds in one process; a time is their median. Struct is
timed twice: with exact inference, as in the recipes, and by message passing with the paper's sweeps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.table import Table

from recipes.bench.epochs import BY_MESSAGES, Contestant, TimedTask
from recipes.bench.timing import take_rounds
from recipes.bench.training import CRF_EPOCH, run_training
from recipes.studies.results import make_table

PAPER_SECONDS = {
    "OCR": {"Struct": 0.40, "SPEN": 0.60, "NLStruct": 68.56, "GSPEN": 8.41},
    "tagging": {"Struct": 18.85, "SPEN": 30.49, "NLStruct": 208.96, "GSPEN": 171.65},
    "Bibtex": {"Struct": 0.36, "SPEN": 11.75, "GSPEN": 13.87},
    "Bookmarks": {"Struct": 6.05, "SPEN": 94.44, "GSPEN": 234.33},
    "NER": {"Struct": 29.16, "GSPEN": 99.83},
}
"""Table 1 of the paper, on its authors' hardware."""
_SENTENCES_A_DOCUMENT = 15  # of CoNLL-2003


@dataclass(frozen=True)
class EpochRow:
    """An epoch of a system; ratios are None for Struct itself and where there is nothing to compare with."""

    task: str
    data: str
    system: str
    seconds: float
    """Seconds of a whole epoch, scaled if a part of one was timed."""
    steps: float
    """Mean number of inference steps of a training example."""
    times_struct: float | None
    times_messages: float | None
    """Time relative to Struct by message passing."""
    paper: float | None
    """The paper's ratio."""


def time_task(
    task: TimedTask, rows: int, rounds: int, tick: Callable[[], None] = lambda: None
) -> list[EpochRow]:
    """Time all systems of a task in alternating rounds, after a warm-up round.

    Args:
        task: the task.
        rows: largest number of training examples to use.
        rounds: number of rounds that count.
        tick: called after each round.
    """
    used, steps = min(rows, task.rows), dict[str, float]()
    with tempfile.TemporaryDirectory() as folder:
        contestants = list(task.contestants(Path(folder), used))

        def epoch(contestant: Contestant) -> float:
            batch = contestant.training.batch_size
            updates = -(-used // batch)
            trained = contestant.train(updates)
            steps[contestant.name] = trained.inference_steps
            if contestant is contestants[-1]:
                tick()
            return trained.seconds_an_epoch / updates * -(-task.rows // batch)

        milliseconds = take_rounds({one.name: partial(epoch, one) for one in contestants}, rounds)
    seconds = {name: value / 1e3 for name, value in milliseconds.items()}
    return list(_rows(task.name, task.data, seconds, steps))


def time_ner(rows: int, rounds: int) -> list[EpochRow]:
    """Time the CRF of CoNLL-2003 (or of generated news) and the paper's term on top of it."""
    documents = max(2, rows // _SENTENCES_A_DOCUMENT)
    case, measured, steps = run_training(documents, rounds, terms=("padded_mlp",))
    over_crf = [row for row in measured if row.peer == CRF_EPOCH]
    seconds = {"Struct": over_crf[0].peer_ms / 1e3} | {row.what: row.ours_ms / 1e3 for row in over_crf}
    return list(_rows("NER", f"{case}, not scaled", seconds, steps))


def _rows(task: str, data: str, seconds: dict[str, float], steps: dict[str, float]) -> Iterator[EpochRow]:
    paper = PAPER_SECONDS[task]
    for name, value in seconds.items():
        system = name.partition(" ")[0]
        to_struct = None if name == "Struct" else value / seconds["Struct"]
        compared = BY_MESSAGES in seconds and name != BY_MESSAGES
        to_messages = value / seconds[BY_MESSAGES] if compared else None
        ratio = paper[system] / paper["Struct"] if system in paper and system != "Struct" else None
        yield EpochRow(task, data, name, value, steps.get(name, 0.0), to_struct, to_messages, ratio)


def as_table(rows: Sequence[EpochRow]) -> Table:
    """Return the rows as a table that marks each ratio that is not below the paper's."""
    cells = [
        {
            "task": row.task,
            "data": row.data,
            "system": row.system,
            "seconds": f"{row.seconds:.3g}",
            "steps": f"{row.steps:.1f}",
            "times Struct": _ratio(row.times_struct, row.paper),
            "times Struct by messages": _ratio(row.times_messages, row.paper),
            "the paper's": "" if row.paper is None else f"{row.paper:.2f}",
        }
        for row in rows
    ]
    title = "an epoch of training, and as a multiple of Struct's"
    return make_table(title, cells, text=("task", "data", "system"), sections=True)


def _ratio(value: float | None, paper: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" + ("" if paper is None or value < paper else " ABOVE")
