"""So that `python -m gspen_ner.cli` works as well."""

from gspen_ner.cli import main

main()
