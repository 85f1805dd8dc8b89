"""Modules that score labels: what turns features into potentials."""

from gspen_ner.scorers.crf import LinearChainCRF

__all__ = ["LinearChainCRF"]
