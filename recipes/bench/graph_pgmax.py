"""PGMax: sum-product in JAX, run by `pgmax_script` in a separate interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gspen_ner.polytopes.tree import Tree
from recipes.bench.graph_problem import GraphProblem
from recipes.bench.timing import Contest, Peer, clock

PGMAX_VERSION = "0.6.1"


class PGMax(Peer[GraphProblem]):
    """Loopy sum-product without damping, `vmap` over the batch.

    On a graph with loops its objective (Bethe entropy) differs from ours, so beliefs are compared on trees
    only, with `Tree`. One iteration updates all messages once, like one of our sweeps.

    Args:
        python: an interpreter that has PGMax; None is this one.
    """

    name = f"PGMax {PGMAX_VERSION}"

    def __init__(self, python: Path | None = None) -> None:
        self.python = python

    def missing(self) -> str | None:
        if self.python is None and find_spec("pgmax") is None:
            return f"{self.name} is not installed here; name an interpreter that has it with --pgmax-python"
        try:
            for contest in self.contests(GraphProblem("pair", 2, 3, ((0, 1),), batch=2, sweeps=5)):
                contest.check()
        except (OSError, ValueError, AssertionError) as error:
            return f"{self.name}: {error}"
        return None

    def contests(self, problem: GraphProblem) -> Generator[Contest]:
        python, scores, polytope = self.python or Path(sys.executable), problem.scores, problem.local()
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
            nodes, tables = problem.arrays
            file, edges = Path(folder, "problem.npz"), np.array(problem.edges)
            np.savez(file, nodes=nodes, tables=tables, edges=edges, iterations=problem.sweeps)
            command = [str(python), str(Path(__file__).with_name("pgmax_script.py")), folder]
            pipe = subprocess.PIPE
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True)

            def answer() -> dict[str, Any]:
                """Return the next line of the script's output."""
                assert process.stdout is not None
                line = process.stdout.readline()
                if line:
                    return json.loads(line)
                process.wait()
                errors.seek(0)
                *_, last = ["ended without an error message", *errors.read().strip().splitlines()]
                raise ValueError(f"{python}: {last}")

            def run() -> float:
                with suppress(BrokenPipeError):  # the missing answer is reported
                    print("run", file=process.stdin, flush=True)
                return float(answer()["seconds"])

            def beliefs() -> tuple[Any, Any]:
                theirs = np.load(Path(folder, "beliefs.npy"))
                return Tree(problem.graph).sums(scores)[
                    1
                ].nodes if problem.graph.is_forest else theirs, theirs

            try:
                installed = answer()["version"]
                if installed != PGMAX_VERSION:
                    raise ValueError(
                        f"{python}: expected PGMax {PGMAX_VERSION}, but {installed} is installed"
                    )
                ours = clock(lambda: polytope.sums(scores))
                yield Contest(problem.all_sweeps, self.name, ours, run, beliefs, tolerance=1e-3)
            finally:
                process.communicate()  # closes the script's input, which ends it
