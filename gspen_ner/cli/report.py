"""The command `gspen-ner report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gspen_ner.cli.shared import (
    GOLD_DATA,
    Model,
    Scheme,
    Strict,
    TagColumn,
    TokenColumn,
    check_gold,
    clear_errors,
    console,
    in_existing_folder,
    read_tagged,
)

if TYPE_CHECKING:
    from gspen_ner.recipe.schema import Data


@clear_errors
def report(
    model: Model,
    data: Annotated[
        str | None, typer.Argument(help=GOLD_DATA, show_default="the test data of the run")
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="HTML file to write.", dir_okay=False, callback=in_existing_folder
        ),
    ] = Path("report.html"),
    token_column: TokenColumn = "0",
    tag_column: TagColumn = "-1",
    scheme: Scheme = "auto",
    strict: Strict = False,
) -> None:
    """Write an HTML report of a model's predictions on gold data: one file that needs no network.

    The report shows F1 by entity type with confidence intervals, learning curves (if the model is a run's
    folder), calibration, confusion of entity types, convergence of inference, and a browser of all sentences
    with the errors that the global term fixed and made, and the label probabilities before and after it.

    Examples:
        gspen-ner report runs/quickstart

        gspen-ner report runs/quickstart newswire:80:7

        gspen-ner report runs/conll03_fast test.txt -o conll03.html
    """
    from gspen_ner.files import write_whole
    from gspen_ner.hosts.loading import load_tagger
    from gspen_ner.recipe import expand
    from gspen_ner.report.page import report_page
    from gspen_ner.report.statistics import measure, read_curves

    curves = read_curves(Path(model))
    tagger = load_tagger(model)
    if data is None:
        recipe = _data_of_run(Path(model))
        data = expand(str(recipe.test))
        file = read_tagged(
            data, str(recipe.token_column), str(recipe.tag_column), recipe.scheme, recipe.strict
        )
    else:
        file = read_tagged(data, token_column, tag_column, scheme, strict)
    check_gold(data, file, tagger.labels.types)
    predictions = tagger.tag_sentences(file.sentences, workings=True)
    statistics = measure(file, predictions, tagger.labels.types, tagger.system, curves)
    page = report_page(model, data, tagger.labels, statistics, file.sentences, predictions)
    write_whole(output, page)
    console.print(f"wrote {output} ({len(page) / 1e6:.1f} MB): open it in a browser", highlight=False)


def _data_of_run(run: Path) -> Data:
    """Return the data section of a run's recipe, which must name test data."""
    from gspen_ner.recipe import Experiment, load_recipe

    file = run / "recipe.yaml"
    if not file.is_file():
        raise ValueError(f"{run}: not a run's folder (no recipe.yaml): give the DATA argument")
    recipe = load_recipe(file)
    if not isinstance(recipe, Experiment) or recipe.data.test is None:
        raise ValueError(f"{file}: the recipe has no test data: give the DATA argument")
    return recipe.data
