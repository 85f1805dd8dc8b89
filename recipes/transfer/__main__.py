"""The command line of the transfer study; see the package."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from safetensors.torch import save_file

from gspen_ner.cli.shared import clear_errors, console
from gspen_ner.files import write_file, write_whole
from gspen_ner.recipe import Recipe, load_recipe

HELP = "Train base models, learn the pretrained document term, and compare models before and after."
app = typer.Typer(no_args_is_help=True, add_completion=False, help=HELP)
Corpus = Annotated[str, typer.Argument(help="Recipe of the corpus, such as bc5cdr.")]


class Library(StrEnum):
    """A library that trains base models."""

    flair = "flair"
    transformers = "transformers"


@app.command()
@clear_errors
def base(
    corpus: Corpus,
    output: Annotated[Path, typer.Argument(help="Folder of the model.")],
    library: Annotated[Library, typer.Option(help="Library that trains it.")],
    encoder: Annotated[str, typer.Option(help="Transformer: name or folder.")] = "",
    seed: Annotated[int, typer.Option(help="Seed.")] = 1,
) -> None:
    """Train a base model with transformers or Flair alone."""
    from recipes.transfer.stock import train_classifier, train_flair

    recipe = _recipe(corpus, seed)
    if library is Library.flair:
        train_flair(recipe, output)
    elif encoder:
        train_classifier(recipe, encoder, output)
    else:
        raise ValueError("transformers needs --encoder, the name or the folder of a transformer")


@app.command()
@clear_errors
def learn(
    runs: Annotated[list[Path], typer.Argument(help="Finished runs of BiLSTM-CNN recipes.", exists=True)],
    output: Annotated[Path, typer.Option(help="File to write.")],
    cache: Annotated[Path, typer.Option(help="Folder of the scores that the term learns from.")],
    seed: Annotated[int, typer.Option(help="Seed.")] = 1,
) -> None:
    """Learn one document term on the cross-fitted scores of several runs."""
    from recipes.transfer.learning import Member
    from recipes.transfer.learning import learn as learned

    members = [Member(run, cache) for run in runs]
    before = [member.dev_f1() for member in members]
    term = learned(members, seed)
    for member, old in zip(members, before, strict=True):
        console.print(f"{member.name}: dev F1 {100 * old:.2f} -> {100 * member.dev_f1():.2f} (Viterbi)")
    weights = {name: weight.detach().contiguous() for name, weight in term.named_parameters()}
    corpora = " ".join(member.corpus for member in members)
    metadata = {"relations": " ".join(term.relations), "learned_on": corpora}
    write_file(output, lambda file: save_file(weights, file, metadata))


@app.command()
@clear_errors
def compare(
    model: Annotated[Path, typer.Argument(help="Folder of a base model.", exists=True)],
    corpus: Corpus,
    term: Annotated[Path | None, typer.Option(help="File of the term.", show_default="the package's")] = None,
    split: Annotated[str, typer.Option(help="dev or test.")] = "dev",
    output: Annotated[Path | None, typer.Option("--json", help="Also write the figures here.")] = None,
) -> None:
    """Compare a base model with its upgrade, at several strengths."""
    from gspen_ner.runs.run import Corpus as Sentences
    from recipes.transfer.comparison import compare as compared

    sentences = getattr(Sentences.read(_recipe(corpus)), split)
    result = compared(model, sentences, term)
    console.print(
        f"{model.name}, {split}: F1 {100 * result.base:.2f} (legal labellings {100 * result.legal:.2f}); "
        f"contradicts itself {100 * result.contradiction:.1f} %"
    )
    for strength, f1 in result.upgraded.items():
        mark = " (suited)" if strength == result.suited else ""
        console.print(f"  strength {strength}: {100 * f1:.2f} ({100 * (f1 - result.base):+.2f}){mark}")
    if output is not None:
        write_whole(output, json.dumps({"model": model.name, "split": split} | vars(result)) + "\n")


def _recipe(name: str, seed: int = 1) -> Recipe:
    recipe = load_recipe(name, [f"seed={seed}"])
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{name}: expected a recipe of a BiLSTM-CNN")
    return recipe


if __name__ == "__main__":
    app()
