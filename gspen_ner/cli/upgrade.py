"""The command `gspen-ner upgrade`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gspen_ner.cli.shared import ConllTokenColumn, clear_errors, console


@clear_errors
def upgrade(
    model: Annotated[
        str,
        typer.Argument(
            help="Folder of a model or of a run, a file of Flair's, or a token classifier's folder or name.",
            show_default=False,
        ),
    ],
    output: Annotated[Path, typer.Option(help="Folder of the upgraded model.", show_default=False)],
    strength: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Factor of the term's weights; 0 changes nothing.",
            show_default="suited to --text; a careful one without it",
        ),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Documents like those that will be tagged (text, CoNLL, JSON lines); gold tags are ignored.",
        ),
    ] = None,
    token_column: ConllTokenColumn = 0,
) -> None:
    """Put the pretrained document term on a trained tagger, without training data.

    The tagger may be a CRF tagger of Flair, a token classifier of transformers, or a model of this package.
    The upgraded model predicts consistently within a document; sentences by themselves are tagged nearly as
    before.

    Examples:
        gspen-ner upgrade my-flair-tagger/final-model.pt --output upgraded

        gspen-ner upgrade my-classifier --text news.txt --output upgraded

        gspen-ner evaluate upgraded test.conll
    """
    import logging

    from rich.logging import RichHandler

    from gspen_ner.files import write_folder
    from gspen_ner.hosts import upgrading
    from gspen_ner.ner.plain_text import read_untagged

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ValueError(f"{output} exists already: give another --output")
    log = logging.getLogger("gspen_ner")
    log.setLevel(logging.INFO)
    log.handlers = [RichHandler(console=console, show_path=False, show_level=False, show_time=False)]
    known = None
    if text is not None:
        sentences = read_untagged(text, "auto", token_column)
        known = upgrading.Text([s.tokens for s in sentences], [s.document for s in sentences])
    upgraded = upgrading.tagger_of(upgrading.upgrade(model, strength, text=known))
    write_folder(output, upgraded.save)
    console.print(f"The upgraded model is in {output}. Compare it with its base model, without the term:")
    console.print(f"  gspen-ner evaluate {output} FILE", soft_wrap=True)
