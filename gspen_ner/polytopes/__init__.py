"""The sets that marginals live in: each supplies the same few operations to every solver."""

from gspen_ner.polytopes.chain import Chain
from gspen_ner.polytopes.polytope import Polytope
from gspen_ner.polytopes.simplex import Simplex

__all__ = ["Chain", "Polytope", "Simplex"]
