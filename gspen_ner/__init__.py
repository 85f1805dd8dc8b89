"""gspen_ner: global scores over whole label sequences, with the exact chain structure of a CRF.

The flow: scorer -> potentials (`Parts`) -> `solve(Objective, solver)` over a polytope -> marginals ->
loss or decoder. Importing this package imports torch, but neither flair nor transformers.
"""

from gspen_ner.graphs import CountingNumbers, FactorGraph
from gspen_ner.head import GSPENHead
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
    "use_backend",
]
