"""The paper's table of run times: an epoch of every system on every task, as a multiple of Struct's.

Systems of a task are trained in turns, in one process; a time is the median of rounds. Struct is timed twice:
as recipes run it (exact), and by message passing with the paper's number of sweeps, as the paper's own is.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from recipes.bench.epochs import BY_MESSAGES, TimedTask
from recipes.bench.training import CRF_EPOCH, run_training

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
    """A system's epoch; ratios are None for Struct itself, and where there is nothing to compare with."""

    task: str
    data: str
    system: str
    seconds: float
    """Of a whole epoch; scaled, if a part of one was timed."""
    steps: float
    """Of inference, of a training example."""
    times_struct: float | None
    times_messages: float | None
    """Times the epoch of Struct by message passing."""
    paper: float | None
    """The paper's ratio."""


def time_task(
    task: TimedTask, rows: int, rounds: int, tick: Callable[[], None] = lambda: None
) -> list[EpochRow]:
    """Time all systems of a task in turns, after a round that does not count.

    Args:
        task: which.
        rows: training examples that are used, of those that there are.
        rounds: that count.
        tick: called after each round.
    """
    used = min(rows, task.rows)
    seconds: dict[str, list[float]] = {}
    steps: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        contestants = list(task.contestants(Path(place), used))
        for turn in range(rounds + 1):
            for contestant in contestants:
                batch = contestant.training.batch_size
                updates = -(-used // batch)
                found = contestant.train(updates)
                if turn:
                    an_update = found.seconds_an_epoch / updates
                    seconds.setdefault(contestant.name, []).append(an_update * -(-task.rows // batch))
                steps[contestant.name] = found.inference_steps
            tick()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return list(_rows(task.name, task.data, medians, steps))


def time_ner(rows: int, rounds: int) -> list[EpochRow]:
    """The CRF of CoNLL-2003 (or of generated news) and the paper's term on top of it."""
    case, found, steps = run_training(max(2, rows // _SENTENCES_A_DOCUMENT), rounds, terms=("padded_mlp",))
    over_crf = [row for row in found if row.peer == CRF_EPOCH]
    medians = {"Struct": over_crf[0].peer_ms / 1e3} | {row.what: row.ours_ms / 1e3 for row in over_crf}
    return list(_rows("NER", f"{case}, not scaled", medians, steps))


def _rows(task: str, data: str, seconds: dict[str, float], steps: dict[str, float]) -> Iterator[EpochRow]:
    paper = PAPER_SECONDS[task]
    for name, value in seconds.items():
        system = name.partition(" ")[0]
        own = None if name == "Struct" else value / seconds["Struct"]
        theirs = value / seconds[BY_MESSAGES] if BY_MESSAGES in seconds and name != BY_MESSAGES else None
        ratio = paper[system] / paper["Struct"] if system in paper and system != "Struct" else None
        yield EpochRow(task, data, name, value, steps.get(name, 0.0), own, theirs, ratio)


def as_table(rows: Sequence[EpochRow]) -> Table:
    """The rows for people; a ratio that is not below the paper's is marked."""
    table = Table(title="an epoch of training, and as a multiple of Struct's", title_justify="left")
    for name in ("task", "data", "system"):
        table.add_column(name)
    for name in ("seconds", "steps", "times Struct", "times Struct by messages", "the paper's"):
        table.add_column(name, justify="right")
    previous = None
    for row in rows:
        if row.task != previous and previous is not None:
            table.add_section()
        first = (row.task, row.data) if row.task != previous else ("", "")
        previous = row.task
        ratios = [_ratio(value, row.paper) for value in (row.times_struct, row.times_messages)]
        paper = "" if row.paper is None else f"{row.paper:.2f}"
        table.add_row(*first, row.system, f"{row.seconds:.3g}", f"{row.steps:.1f}", *ratios, paper)
    return table


def _ratio(value: float | None, paper: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" + ("" if paper is None or value < paper else " ABOVE")


def write_json(rows: Sequence[EpochRow], file: Path) -> None:
    """The rows as a JSON list."""
    file.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
