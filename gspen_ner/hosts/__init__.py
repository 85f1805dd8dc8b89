"""Where other libraries plug in; each is imported only where it is used."""

from gspen_ner.hosts.upgrading import suited_strength, tagger_of, upgrade

__all__ = ["suited_strength", "tagger_of", "upgrade"]
