"""Upgrade the base tagger of a Flair run with `train_term`, and compare the result with the recipe's tagger.

    python recipes/upgrade_flair.py RUN OUTPUT

RUN is a finished run of a recipe with `host: flair`, a frozen base and cross-fitted scores. `train_term`
upgrades its base tagger on a `ColumnCorpus` that Flair reads from the same files. The script prints the
strict seqeval F1 on the test data of the base tagger, the recipe's tagger and the upgraded tagger.
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from flair.datasets import ColumnCorpus
from flair.models import SequenceTagger

from gspen_ner.hosts.flair import GSPENTagger, train_term
from gspen_ner.recipe import FlairRecipe, expand, load_recipe
from gspen_ner.solvers import SOLVERS
from gspen_ner.terms import TERMS
from gspen_ner.training import SCORE_SOURCES


def main(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.", exists=True, file_okay=False)],
    output: Annotated[Path, typer.Argument(help="Folder of the upgraded tagger's training.")],
) -> None:
    """Upgrade the base tagger of a run as a Flair user would, and compare both taggers."""
    recipe = load_recipe(run / "recipe.yaml")
    if not isinstance(recipe, FlairRecipe) or recipe.data.test is None:
        raise ValueError(f"{run}: expected the run of a recipe with host: flair and test data")
    splits = {name: Path(expand(getattr(recipe.data, name))) for name in ("train", "dev", "test")}
    corpus = ColumnCorpus(
        splits["train"].parent,
        {0: "text", 3: "ner"},
        train_file=splits["train"].name,
        dev_file=splits["dev"].name,
        test_file=splits["test"].name,
        document_separator_token="-DOCSTART-",
    )
    base = SequenceTagger.load(run / "base" / "best" / "model.pt")
    inference = recipe.inference.model_dump()
    (term,) = (entry.model_dump() for entry in recipe.terms)
    upgraded = train_term(
        base,
        corpus,
        output,
        term=partial(TERMS.classes[term.pop("name")], **term),
        scores=SCORE_SOURCES.make(recipe.term_training.scores.model_dump()),
        base_training=recipe.base_training,
        training=recipe.term_training,
        seed=recipe.seed,
        solver=SOLVERS.make(inference.pop("solver")),
        inference=inference,
    )
    test = [sentence for sentence in corpus.test if len(sentence)]
    taggers = {
        "base tagger": GSPENTagger.from_sequence_tagger(base),
        "recipe": GSPENTagger.load(run / "term" / "best" / "model.pt"),
        "train_term": upgraded,
    }
    for name, tagger in taggers.items():
        print(f"{name}: {100 * tagger.seqeval_score(test, 'ner').micro.f1:.2f}")


if __name__ == "__main__":
    typer.run(main)
