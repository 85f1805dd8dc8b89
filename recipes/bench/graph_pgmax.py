"""PGMax: sum-product in JAX, in an interpreter of its own that runs `pgmax_script`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gspen_ner.polytopes.tree import Tree
from recipes.bench.graph_peers import GraphContest, GraphPeer, GraphProblem, check_close

PGMAX_VERSION = "0.6.1"


class PGMax(GraphPeer):
    """Loopy sum-product without damping, `vmap` over the batch, in its own interpreter.

    On a graph with loops it seeks another point than ours (of Bethe's entropy), so beliefs are compared on
    trees only, with `Tree`'s. An iteration updates all messages once, as a sweep of ours does.

    Args:
        python: an interpreter that has PGMax; None is this one.
    """

    name = f"PGMax {PGMAX_VERSION}"

    def __init__(self, python: Path | None = None) -> None:
        self.python = python

    def missing(self) -> str | None:
        if self.python is None and find_spec("pgmax") is None:
            return f"{self.name} is not installed here; --pgmax-python names an interpreter that has it"
        pair = GraphProblem("pair", 2, 3, ((0, 1),), batch=2, sweeps=5)
        try:
            for contest in self.contests(pair):
                contest.check()
        except (OSError, ValueError, AssertionError) as error:
            return f"{self.name}: {error}"
        return None

    def contests(self, problem: GraphProblem) -> Generator[GraphContest]:
        polytope, scores = problem.local(), problem.scores

        def check() -> None:
            if problem.graph.is_forest:
                check_close(Tree(problem.graph).sums(scores)[1].nodes, session.beliefs, 1e-3)

        with _session(problem, self.python or Path(sys.executable)) as session:
            yield GraphContest(
                problem.all_sweeps, self.name, lambda: polytope.sums(scores), session.turn, check
            )


@dataclass(frozen=True)
class _Session:
    """A running script that has compiled its problem."""

    python: Path
    process: subprocess.Popen[str]
    complaints: Path
    beliefs: np.ndarray

    def turn(self) -> float:
        """Let it run once."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # then there is no answer either
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        return float(self.answer()["seconds"])

    def answer(self) -> dict[str, Any]:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            said = self.complaints.read_text(encoding="utf-8").strip().splitlines()
            raise ValueError(f"{self.python}: {said[-1] if said else 'ended without a word'}")
        return json.loads(line)


@contextmanager
def _session(problem: GraphProblem, python: Path) -> Iterator[_Session]:
    script = Path(__file__).with_name("pgmax_script.py")
    assert problem.scores.edges is not None
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        np.savez(
            folder / "problem.npz",
            nodes=problem.scores.nodes.numpy(),
            tables=problem.scores.edges.numpy(),
            edges=np.array(problem.edges),
            iterations=problem.sweeps,
        )
        complaints = folder / "complaints.txt"
        with complaints.open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                [str(python), str(script), place],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
            )  # fmt: skip
            try:
                session = _Session(python, process, complaints, np.zeros(0))
                found = session.answer()["version"]
                if found != PGMAX_VERSION:
                    raise ValueError(f"{python} has {found}, which is not what is compared")
                yield replace(session, beliefs=np.load(folder / "beliefs.npy"))
            finally:
                process.communicate()  # the end of its input is the end of the script
