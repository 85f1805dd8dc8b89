"""Modules that score labels: from features to potentials."""

from gspen_ner.scorers.bilstm_cnn import BiLSTMCNN
from gspen_ner.scorers.crf import LinearChainCRF
from gspen_ner.scorers.vocabulary import Vocabulary, WordVectors, spell_out

__all__ = ["BiLSTMCNN", "LinearChainCRF", "Vocabulary", "WordVectors", "spell_out"]
