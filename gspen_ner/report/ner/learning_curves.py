"""The learning curves of a run, from its metrics.jsonl."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

METRICS_FILE = "metrics.jsonl"


@dataclass(frozen=True)
class Curve:
    """What one stage of training wrote.

    Args:
        stage: `"base"` or `"term"`.
        f1: epoch and F1 on dev.
        loss: epoch and training loss; empty where the trainer does not write it.
    """

    stage: str
    f1: list[tuple[float, float]]
    loss: list[tuple[float, float]]


def read_curves(folder: Path) -> list[Curve]:
    """The curves of a run's stages, in their order; none if the folder is not a run's.

    Raises:
        ValueError: for a line that is no metrics.
    """
    file = folder / METRICS_FILE
    if not file.is_file():
        return []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 text: {error}") from None
    entries = [_entry(line, f"{file}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    stages = dict.fromkeys(entry["stage"] for entry in entries)
    return [
        Curve(stage, _points(entries, stage, "eval_f1"), _points(entries, stage, "loss")) for stage in stages
    ]


def _entry(line: str, where: str) -> dict[str, Any]:
    try:
        entry = json.loads(line, parse_int=float)  # integers may be too large for one
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("stage"), str):
        raise ValueError(f"{where}: expected an object with a stage, got {line[:80]}")
    for name in ("epoch", "eval_f1", "loss"):
        if not isinstance(entry.get(name, 0), int | float):
            raise ValueError(f"{where}: expected a number as {name}, got {entry[name]!r}")
    return entry


def _points(entries: Sequence[dict[str, Any]], stage: str, name: str) -> list[tuple[float, float]]:
    found = [entry for entry in entries if entry["stage"] == stage and name in entry and "epoch" in entry]
    points = [(float(entry["epoch"]), float(entry[name])) for entry in found]
    return [point for point in points if all(map(math.isfinite, point))]  # a loss may have been NaN
