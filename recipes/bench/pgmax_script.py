"""Run PGMax on one problem; a script for an interpreter that has PGMax, independent of `gspen_ner`.

    python pgmax_script.py FOLDER

FOLDER holds `problem.npz`: nodes [B, N, L], tables [B, E, L, L], edges [E, 2], iterations. The script
compiles, runs once, writes `beliefs.npy` [B, N, L] there, and prints the version of PGMax as JSON. For each
line of its input it then runs once more and prints the seconds, until its input ends.
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
    """Select XLA's older runtime, which runs PGMax 1.3 to 2.1 times as fast; call it before importing jax."""
    if "XLA_FLAGS" not in os.environ and version("jaxlib") in ("0.4.32", "0.4.33", "0.4.34", "0.4.35"):
        os.environ["XLA_FLAGS"] = "--xla_cpu_use_thunk_runtime=false"


def marginals_of(nodes: int, labels: int, edges: np.ndarray, iterations: int) -> Callable:
    """Return compiled sum-product: a batch's scores of nodes and edges to marginals of nodes."""
    import jax  # type: ignore[import-not-found, unused-ignore]
    from pgmax import fgraph, fgroup, infer, vgroup  # type: ignore[import-not-found, unused-ignore]

    variables = vgroup.NDVarArray(num_states=labels, shape=(nodes,))
    pairs = fgroup.PairwiseFactorGroup(
        variables_for_factors=[[variables[int(first)], variables[int(second)]] for first, second in edges]
    )
    graph = fgraph.FactorGraph(variables)
    graph.add_factors(pairs)
    propagation = infer.BP(graph.bp_state, temperature=1.0)

    def beliefs(scores: jax.Array, tables: jax.Array) -> jax.Array:
        start = propagation.init(evidence_updates={variables: scores}, log_potentials_updates={pairs: tables})
        end = propagation.run(start, num_iters=iterations, damping=0.0)
        return infer.get_marginals(propagation.get_beliefs(end))[variables]

    return jax.jit(jax.vmap(beliefs))


def main(folder: Path) -> None:
    """Compile, then run once for each line of the input."""
    choose_runtime()
    import jax

    with np.load(folder / "problem.npz") as problem:
        nodes, tables = jax.device_put(problem["nodes"]), jax.device_put(problem["tables"])
        edges, iterations = problem["edges"], int(problem["iterations"])
    run = marginals_of(nodes.shape[1], nodes.shape[2], edges, iterations)
    np.save(folder / "beliefs.npy", np.asarray(run(nodes, tables)))
    print(json.dumps({"version": version("pgmax")}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        run(nodes, tables).block_until_ready()
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
