"""The report of a tagger on gold data: one page, made of statistics, charts, tables and sentences."""
