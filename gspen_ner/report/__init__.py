"""Pages: the report of a tagger's predictions on gold data, and predicted entities."""
