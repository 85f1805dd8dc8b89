"""Inference on chains and on factor graphs.

chains    `inference` checks the input, chooses a backend (`backends`) and makes results differentiable; its
          functions are exported here. The backends are `reference` (torch, log space, any device) and
          `numba_backend` (compiled, CPU).
graphs    `messages` computes marginals (`messages_log_space` for scores with a large spread). `linear_scores`
          computes best labellings or points.
"""

from gspen_ner.kernels.backends import (
    Backend,
    ChainSums,
    available_backends,
    register_backend,
    unregister_backend,
    use_backend,
)
from gspen_ner.kernels.inference import (
    forward_backward,
    k_best,
    log_likelihood,
    log_partition,
    sample,
    sequence_score,
    viterbi,
)
from gspen_ner.kernels.numba_backend import NumbaBackend
from gspen_ner.kernels.reference import ReferenceBackend, fold_boundaries

register_backend(NumbaBackend())
register_backend(ReferenceBackend())

__all__ = [
    "Backend",
    "ChainSums",
    "available_backends",
    "fold_boundaries",
    "forward_backward",
    "k_best",
    "log_likelihood",
    "log_partition",
    "register_backend",
    "sample",
    "sequence_score",
    "unregister_backend",
    "use_backend",
    "viterbi",
]
