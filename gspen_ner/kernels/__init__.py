"""Inference on chains and on factor graphs: the hot loops behind one door for each.

chains    `inference` checks input, picks a backend (`backends`) and makes results differentiable; its names
          are this room's. `reference` (torch, log space) and `numba_backend` (compiled, CPU) do the work.
graphs    `messages` (marginals; `messages_log_space` where they spread too far), and best points or
          labellings: `max_product` on forests, `minimum_cut` and `linear_program` on others.
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
