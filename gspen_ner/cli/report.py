"""`gspen-ner report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gspen_ner.cli.shared import (
    Model,
    Scheme,
    Strict,
    TagColumn,
    TokenColumn,
    check_writable,
    clear_errors,
    console,
    read_tagged,
    say_what_is_odd,
)

if TYPE_CHECKING:
    from gspen_ner.recipe.schema import Data


@clear_errors
def report(
    model: Model,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A tagged file, a dataset, hub:NAME:SPLIT or newswire:N:SEED.",
            show_default="the test data of a run",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.", dir_okay=False)] = Path(
        "report.html"
    ),
    token_column: TokenColumn = "0",
    tag_column: TagColumn = "-1",
    scheme: Scheme = "auto",
    strict: Strict = False,
) -> None:
    """Write a page on what a model does with gold data: one file, to be opened in a browser, without network.

    F1 by type with confidence intervals, learning curves (of a run's folder), the truth of confidences,
    confusion of types, convergence of inference, and a browser of all sentences: what the global term fixed
    and broke, and the label probabilities before and after it.

    Examples:
        gspen-ner report runs/quickstart

        gspen-ner report runs/quickstart newswire:80:7

        gspen-ner report runs/conll03_fast test.txt -o conll03.html
    """
    check_writable(output, "--output")
    from gspen_ner.files import write_whole
    from gspen_ner.hosts.loading import load_tagger
    from gspen_ner.recipe import expand
    from gspen_ner.report.ner.learning_curves import read_curves
    from gspen_ner.report.ner.page import report_page
    from gspen_ner.report.ner.statistics import measure

    curves = read_curves(Path(model))
    tagger = load_tagger(model)
    if data is None:
        own = _own_data(Path(model))
        data = expand(str(own.test))
        file = read_tagged(data, str(own.token_column), str(own.tag_column), own.scheme, own.strict)
    else:
        file = read_tagged(data, token_column, tag_column, scheme, strict)
    say_what_is_odd(data, file, tagger.labels.types)
    documents = [sentence.document for sentence in file.sentences]
    predictions = tagger.tag([sentence.tokens for sentence in file.sentences], documents, workings=True)
    statistics = measure(file, predictions, tagger.labels.types, tagger.system, curves)
    page = report_page(model, data, tagger.labels, statistics, file.sentences, predictions)
    write_whole(output, page)
    console.print(f"wrote {output} ({len(page) / 1e6:.1f} MB): open it in a browser", highlight=False)


def _own_data(run: Path) -> Data:
    """What a run's recipe says of its data, with test data among them."""
    from gspen_ner.recipe import Experiment, load_recipe

    file = run / "recipe.yaml"
    if not file.is_file():
        raise ValueError(f"{run}: not a run's folder, which would tell its test data: name the data, too")
    recipe = load_recipe(file)
    if not isinstance(recipe, Experiment) or recipe.data.test is None:
        raise ValueError(f"{file}: names no test data: name the data, too")
    return recipe.data
