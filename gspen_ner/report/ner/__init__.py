"""The HTML report of a tagger's predictions on gold data: statistics, charts, tables, sentence browser."""
