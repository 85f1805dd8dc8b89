"""Experiments: NER recipes (`ner/*.yaml`), the studies of the paper beyond NER, and benchmarks."""
