"""Algorithms that maximise an objective over a polytope, and the loop that runs them.

Every module in this folder is imported automatically, so a solver that registers itself in `SOLVERS` is
available by its name in recipes.
"""

import importlib
import pkgutil

from gspen_ner.solvers.frank_wolfe import FrankWolfe
from gspen_ner.solvers.mirror_descent import MirrorDescent
from gspen_ner.solvers.saddle_point import SaddlePoint
from gspen_ner.solvers.solve import SOLVERS, Solution, Solver, Trace, solve

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["SOLVERS", "FrankWolfe", "MirrorDescent", "SaddlePoint", "Solution", "Solver", "Trace", "solve"]
