"""Multilabel classification (Bibtex, Bookmarks): the five systems of the paper."""
