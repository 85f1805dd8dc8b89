"""PGMax on one problem: a script for an interpreter that has PGMax; it needs nothing of ours.

    python pgmax_script.py FOLDER

FOLDER holds `problem.npz`: nodes [B, N, L], tables [B, E, L, L], edges [E, 2], iterations. It compiles, runs
once, writes `beliefs.npy` [B, N, L] there, and says in a line of JSON which PGMax it is; then it answers each
line of its input by a run and the seconds that it took, until its input ends.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np


def choose_runtime() -> None:
    """XLA's older runtime, on which PGMax is 1.3 to 2.1 times as fast; to be set before jax is imported."""
    if "XLA_FLAGS" not in os.environ and version("jaxlib") in ("0.4.32", "0.4.33", "0.4.34", "0.4.35"):
        os.environ["XLA_FLAGS"] = "--xla_cpu_use_thunk_runtime=false"


def marginals_of(nodes: int, labels: int, edges: np.ndarray, iterations: int) -> Callable:
    """Sum-product as one compiled function: scores of a batch's nodes and edges to marginals of nodes."""
    import jax  # type: ignore[import-not-found, unused-ignore]
    from pgmax import fgraph, fgroup, infer, vgroup  # type: ignore[import-not-found, unused-ignore]

    variables = vgroup.NDVarArray(num_states=labels, shape=(nodes,))
    pairs = fgroup.PairwiseFactorGroup(
        variables_for_factors=[[variables[int(first)], variables[int(second)]] for first, second in edges]
    )
    graph = fgraph.FactorGraph(variables)
    graph.add_factors(pairs)
    propagation = infer.BP(graph.bp_state, temperature=1.0)

    def one(scores: jax.Array, tables: jax.Array) -> jax.Array:
        start = propagation.init(evidence_updates={variables: scores}, log_potentials_updates={pairs: tables})
        found = propagation.run(start, num_iters=iterations, damping=0.0)
        return infer.get_marginals(propagation.get_beliefs(found))[variables]

    return jax.jit(jax.vmap(one))


def main(folder: Path) -> None:
    """Compile, then run whenever asked to."""
    choose_runtime()
    import jax

    with np.load(folder / "problem.npz") as problem:
        nodes, tables = jax.device_put(problem["nodes"]), jax.device_put(problem["tables"])
        edges, iterations = problem["edges"], int(problem["iterations"])
    run = marginals_of(nodes.shape[1], nodes.shape[2], edges, iterations)
    np.save(folder / "beliefs.npy", np.asarray(run(nodes, tables)))
    print(json.dumps({"version": version("pgmax"), "jax": jax.__version__}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run(nodes, tables).block_until_ready()
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
