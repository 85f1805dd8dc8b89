"""gspen_ner: global scores over whole label sequences, with the exact chain structure of a CRF.

The flow: scorer -> potentials (`Parts`) -> `solve(Objective, solver)` over a polytope -> marginals ->
loss or decoder. Importing this package imports torch, but neither flair nor transformers.
"""

from gspen_ner.decode import ScoredSpan, decode_spans, likely_spans, span_probabilities
from gspen_ner.graphs import CompiledGraph, CountingNumbers, FactorGraph
from gspen_ner.head import GSPENHead, HeadLoss
from gspen_ner.kernels import Backend, available_backends, register_backend, unregister_backend, use_backend
from gspen_ner.labels import Labels, Span, spans_of_tags, tags_of_spans
from gspen_ner.losses import (
    fixed_point_f1,
    fixed_point_likelihood,
    linear_hinge,
    negative_log_likelihood,
    structured_hinge,
)
from gspen_ner.ner.metrics import conll_f1
from gspen_ner.objective import Objective, hamming_cost
from gspen_ner.parts import Parts
from gspen_ner.polytopes import Chain, LocalPolytope, Polytope, Simplex, Tree
from gspen_ner.scorers import BiLSTMCNN, LinearChainCRF, Vocabulary
from gspen_ner.solvers import FrankWolfe, MirrorDescent, SaddlePoint, Solution, Solver, Trace, solve
from gspen_ner.terms import (
    Context,
    Convolution,
    DocumentConsistency,
    GlobalTerm,
    NLStruct,
    PaddedMLP,
    RegionMLP,
    Sharpness,
    TermSum,
    match_mentions,
)

__version__ = "0.1.0"

__all__ = [
    "Backend",
    "BiLSTMCNN",
    "Chain",
    "CompiledGraph",
    "Context",
    "Convolution",
    "CountingNumbers",
    "DocumentConsistency",
    "FactorGraph",
    "FrankWolfe",
    "GSPENHead",
    "GlobalTerm",
    "HeadLoss",
    "Labels",
    "LinearChainCRF",
    "LocalPolytope",
    "MirrorDescent",
    "NLStruct",
    "Objective",
    "PaddedMLP",
    "Parts",
    "Polytope",
    "RegionMLP",
    "SaddlePoint",
    "ScoredSpan",
    "Sharpness",
    "Simplex",
    "Solution",
    "Solver",
    "Span",
    "TermSum",
    "Trace",
    "Tree",
    "Vocabulary",
    "available_backends",
    "conll_f1",
    "decode_spans",
    "fixed_point_f1",
    "fixed_point_likelihood",
    "hamming_cost",
    "likely_spans",
    "linear_hinge",
    "match_mentions",
    "negative_log_likelihood",
    "register_backend",
    "solve",
    "span_probabilities",
    "spans_of_tags",
    "structured_hinge",
    "tags_of_spans",
    "unregister_backend",
    "use_backend",
]
