"""Algorithms that maximise an objective over a polytope, and the one loop that runs them."""

from gspen_ner.solvers.frank_wolfe import FrankWolfe
from gspen_ner.solvers.mirror_descent import MirrorDescent
from gspen_ner.solvers.saddle_point import SaddlePoint
from gspen_ner.solvers.solve import Solution, Solver, Trace, solve

__all__ = ["FrankWolfe", "MirrorDescent", "SaddlePoint", "Solution", "Solver", "Trace", "solve"]
