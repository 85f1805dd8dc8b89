"""The sets of marginals that solvers optimise over, all with the same interface (`Polytope`)."""

from gspen_ner.polytopes.chain import Chain
from gspen_ner.polytopes.local import LocalPolytope
from gspen_ner.polytopes.polytope import POLYTOPES, Polytope
from gspen_ner.polytopes.simplex import Simplex
from gspen_ner.polytopes.tree import Tree

__all__ = ["POLYTOPES", "Chain", "LocalPolytope", "Polytope", "Simplex", "Tree"]
