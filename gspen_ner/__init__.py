"""gspen_ner: global scores over whole label sequences, with the exact chain structure of a CRF.

The flow: scorer -> potentials (`Parts`) -> `solve(Objective, solver)` over a polytope -> marginals ->
loss or decoder. Importing this package imports torch, but neither flair nor transformers.
"""

from typing import TYPE_CHECKING

from gspen_ner.graphs import CountingNumbers, FactorGraph
from gspen_ner.head import GSPENHead
from gspen_ner.hosts import upgrade
from gspen_ner.kernels import use_backend
from gspen_ner.labels import Labels, spans_of_tags
from gspen_ner.ner.metrics import conll_f1
from gspen_ner.objective import Objective
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain, LocalPolytope, Polytope, Simplex, Tree
from gspen_ner.scorers import LinearChainCRF
from gspen_ner.solvers import FrankWolfe, MirrorDescent, solve
from gspen_ner.terms import (
    Context,
    Convolution,
    DocumentConsistency,
    GlobalTerm,
    PaddedMLP,
    RegionMLP,
    match_mentions,
)
from gspen_ner.training import CrossFit, DropoutDraws, Plain, System

__version__ = "0.1.0"

_MOVED = {
    "decode": "ScoredSpan decode_spans likely_spans span_probabilities",
    "graphs": "CompiledGraph",
    "head": "HeadLoss",
    "kernels": "Backend available_backends register_backend unregister_backend",
    "labels": "Span tags_of_spans",
    "losses": "fixed_point_f1 fixed_point_likelihood linear_hinge negative_log_likelihood structured_hinge",
    "objective": "hamming_cost",
    "scorers": "BiLSTMCNN Vocabulary",
    "solvers": "SaddlePoint Solution Solver Trace",
    "terms": "NLStruct Sharpness TermSum",
}
"""Names that this module exported before, by the module that exports them now."""
_MOVED_MODULES = {
    "bench": "python -m recipes.bench in a clone of the repository",
    "experiments": "gspen_ner.runs, and the folder recipes/ of a clone of the repository",
    "systems": "gspen_ner.training.System, and recipes/studies/ of a clone of the repository",
    "tasks": "gspen_ner.ner, and the folder recipes/ of a clone of the repository",
}

__all__ = [
    "Chain",
    "Context",
    "Convolution",
    "CountingNumbers",
    "CrossFit",
    "DocumentConsistency",
    "DropoutDraws",
    "FactorGraph",
    "FrankWolfe",
    "GSPENHead",
    "GlobalTerm",
    "Labels",
    "LinearChainCRF",
    "LocalPolytope",
    "MirrorDescent",
    "Objective",
    "PaddedMLP",
    "Parts",
    "Plain",
    "Polytope",
    "RegionMLP",
    "Simplex",
    "System",
    "Tree",
    "conll_f1",
    "match_mentions",
    "solve",
    "spans_of_tags",
    "upgrade",
    "use_backend",
]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> None:
        """Raise an ImportError that tells where a name of an earlier version is now."""
        for module, names in _MOVED.items():
            if name in names.split():
                raise ImportError(f"gspen_ner.{name} moved: from gspen_ner.{module} import {name}")
        if name in _MOVED_MODULES:
            raise ImportError(f"gspen_ner.{name} moved: use {_MOVED_MODULES[name]}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
