"""Corpora of any size: read row by row, tagged part by part, ranked by uncertainty.

    files -> rows -> plan (parts of whole documents) -> workers, in any number, on any machine -> part files

rows           the rows of a corpus, and their sentences
line_files     corpus files of JSON lines, text and CoNLL columns
parquet_files  corpus files that are parquet tables
reading        finds the files of a corpus and detects their format
plan           divides a corpus into parts
manifest       describes an output: read by workers, and compared when a run is resumed
worker         tags one part and writes it
engines        runs workers: in this process, in several, or on a Ray cluster (`gspen_ner.hosts.ray`)
tagging        tags a whole corpus with all of these
ranking        ranks the sentences of a corpus by how uncertain a model is about them
"""
