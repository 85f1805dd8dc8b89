"""Run the command line by `python -m gspen_ner.cli`."""

from gspen_ner.cli import main

main()
