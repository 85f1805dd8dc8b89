"""Draw the gain of a document term against how often entities occur again in their document.

    python recipes/recurrence.py RUN RUN ... --output recurrence

Runs are finished runs of `gspen-ner train` with a global term and test data, of any corpora and seeds. Writes
a picture, and its figures as JSON beside it.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Annotated, Any

import matplotlib as mpl
import typer

from gspen_ner.cli.shared import clear_errors, console
from gspen_ner.files import write_file, write_whole
from gspen_ner.ner.files import TaggedSentence
from gspen_ner.ner.sources import read_source
from gspen_ner.recipe import expand, load_recipe
from gspen_ner.runs.run import read_results


def recurrence(sentences: list[TaggedSentence]) -> float:
    """Return the share of entities whose text, in any case, is an entity elsewhere in their document.

    Example:
        >>> tags = ("B-PER", "O")
        >>> recurrence([TaggedSentence((name, "left"), tags, document=0) for name in ("Ann", "Bob", "ANN")])
        0.6666666666666666
    """
    names = [
        (s.document, " ".join(s.tokens[span.start : span.end]).lower()) for s in sentences for span in s.spans
    ]
    counts = Counter(names)
    return sum(counts[name] > 1 for name in names) / len(names)


@clear_errors
def main(
    runs: Annotated[list[Path], typer.Argument(help="Folders of finished runs.", exists=True)],
    output: Annotated[Path, typer.Option(help="Picture and figures, without suffix.")],
) -> None:
    """Draw the gain of a document term against how often entities occur again in their document."""
    corpora: defaultdict[str, dict[str, Any]] = defaultdict(lambda: {"recurrence": 0.0, "seeds": {}})
    for run in runs:
        recipe: Any = load_recipe(run / "recipe.yaml")
        results = read_results(run / "results.json")
        if results.test is None or results.test.full is None:
            raise ValueError(f"{run}: expected a run with a global term and test data")
        name = Path(recipe.data.test).parent.name
        base, full = (100 * system.score.micro.f1 for system in (results.test.base, results.test.full))
        if not corpora[name]["seeds"]:
            corpora[name]["recurrence"] = recurrence(read_source(expand(recipe.data.test)).sentences)
        corpora[name]["seeds"][recipe.seed] = {"base": base, "full": full}
        console.print(f"{name}, seed {recipe.seed}: {base:.2f} -> {full:.2f} ({full - base:+.2f})")
    write_whole(output.with_suffix(".json"), json.dumps(corpora, indent=2) + "\n")
    write_file(output.with_suffix(".png"), lambda file: draw(corpora, file))


def draw(corpora: dict[str, dict[str, Any]], file: Path) -> None:
    """Draw a point for each seed, and the mean of each corpus with its name."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.axhline(0, color="#999999", linewidth=0.8)
    for name, corpus in corpora.items():
        gains = [seed["full"] - seed["base"] for seed in corpus["seeds"].values()]
        share, mean = 100 * corpus["recurrence"], sum(gains) / len(gains)
        axes.scatter([share] * len(gains), gains, color="#56B4E9", s=18)
        axes.scatter(share, mean, color="#0072B2", s=48)
        axes.annotate(f"{name} ({len(gains)})", (share, mean), (7, 4), textcoords="offset points", fontsize=9)
    axes.set_xlabel("entities that occur again in their document (% of test)")
    axes.set_ylabel("gain in test F1 by the document term")
    axes.set_title("corpora (number of seeds): gain of each seed, and the mean", fontsize=10)
    axes.margins(x=0.2, y=0.15)
    figure.savefig(file, format="png", dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    typer.run(main)
