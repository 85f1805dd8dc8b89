"""Factor graphs: a builder, and the immutable index arrays to which it compiles."""

from gspen_ner.graphs.builder import FactorGraph
from gspen_ner.graphs.compiled import CompiledGraph
from gspen_ner.graphs.counting_numbers import CountingNumbers

__all__ = ["CompiledGraph", "CountingNumbers", "FactorGraph"]
