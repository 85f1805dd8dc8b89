"""Corpora of any size: read row by row, tagged part by part, ranked by uncertainty.

    files -> rows -> plan (parts of whole documents) -> workers, in any number, on any machine -> part files

rows        what a corpus is made of, and its rows as sentences
line_files  JSON lines, text and CoNLL columns; parquet_files: tables
reading     which files a corpus has, and of what kind they are
plan        where one part ends and the next begins
manifest    what an output was made of: it is what workers are told, and what a resumed run is held to
worker      tags a part and writes it, whole
processes   workers on this machine
engines     where workers are: there, or on a Ray cluster (`gspen_ner.hosts.ray`)
tagging     all of it together
ranking     the same rows without an output: which sentences a model is least sure of
"""
