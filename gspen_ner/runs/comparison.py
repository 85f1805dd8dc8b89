"""Runs that share base models, compared seed by seed.

    gain of a system = mean over seeds of (its F1 - its own base model's F1)

Systems are told apart by the names of their run folders, NAME-SEED; the base models of runs whose base was
frozen, and runs without a term, are one more system that all others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gspen_ner.ner.intervals import Gain, paired_gain
from gspen_ner.ner.metrics import Assessment, Spans
from gspen_ner.recipe import Experiment, load_recipe
from gspen_ner.runs.entities_file import FoundEntities
from gspen_ner.runs.over_seeds import OverSeeds
from gspen_ner.runs.run import read_results
from gspen_ner.runs.tables import BASE_NAMES


@dataclass(frozen=True)
class Candidate:
    """What a system did with one seed."""

    name: str
    seed: int
    dev: Assessment
    test: Assessment
    gold: Spans
    found: Spans


@dataclass(frozen=True)
class ComparedSystem:
    """A system over its seeds, F1 and ECE in per cent.

    Args:
        name: of its runs.
        candidates: one for each seed.
        bases: the base models of the same seeds; empty for the base models themselves.
    """

    name: str
    candidates: tuple[Candidate, ...]
    bases: tuple[Candidate, ...] = ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of its runs."""
        return tuple(candidate.seed for candidate in self.candidates)

    @property
    def dev_f1(self) -> OverSeeds:
        """On the development set."""
        return OverSeeds(tuple(100 * candidate.dev.score.f1 for candidate in self.candidates))

    @property
    def test_f1(self) -> OverSeeds:
        """On the test set."""
        return OverSeeds(tuple(100 * candidate.test.score.f1 for candidate in self.candidates))

    @property
    def ece(self) -> OverSeeds:
        """How far confidences on the test set are off."""
        return OverSeeds(tuple(100 * candidate.test.calibration.ece for candidate in self.candidates))

    @property
    def reliability(self) -> dict[int, tuple[float, float, int]]:
        """Mean confidence, accuracy and number of entities, by tenths of confidence, all seeds together."""
        found: dict[int, list[tuple[float, float, int]]] = {}
        for candidate in self.candidates:
            for said in candidate.test.calibration.bins:
                found.setdefault(min(int(10 * said[0]), 9), []).append(said)
        return {tenth: _pooled(bins) for tenth, bins in found.items()}

    @property
    def gains(self) -> OverSeeds | None:
        """Test F1 less the base model's, seed by seed."""
        if not self.bases:
            return None
        pairs = zip(self.candidates, self.bases, strict=True)
        return OverSeeds(tuple(100 * (one.test.score.f1 - base.test.score.f1) for one, base in pairs))

    @cached_property
    def bootstrap(self) -> Gain | None:
        """The gain over sentences drawn with replacement."""
        if not self.bases:
            return None
        found, before = ([one.found for one in side] for side in (self.candidates, self.bases))
        return paired_gain(self.candidates[0].gold, before, found)


def _pooled(bins: Sequence[tuple[float, float, int]]) -> tuple[float, float, int]:
    size = sum(number for _, _, number in bins)
    confidence, accuracy = (sum(said[place] * said[2] for said in bins) / size for place in (0, 1))
    return confidence, accuracy, size


def compare_runs(folders: Sequence[Path]) -> list[ComparedSystem]:
    """Read finished runs and put each beside the base model of its seed.

    Raises:
        ValueError: a folder is not a finished run with a test set, runs of a seed do not share their base
            model, or were tested on other data.
    """
    if not folders:
        raise ValueError("no runs to compare")
    bases: dict[int, Candidate] = {}
    systems: dict[str, dict[int, Candidate]] = {}
    for folder in folders:
        for candidate, is_base in _candidates(folder):
            group = bases if is_base else systems.setdefault(candidate.name, {})
            other = group.get(candidate.seed)
            if other is not None and not (is_base and other.found == candidate.found):
                what = "base models that differ" if is_base else f"runs of {candidate.name}"
                raise ValueError(f"{folder}: two {what} with seed {candidate.seed}")
            group[candidate.seed] = candidate
    _check_gold([*bases.values(), *(one for group in systems.values() for one in group.values())])
    compared = []
    for name, group in systems.items():
        missing = sorted(group.keys() - bases.keys())
        if missing:
            raise ValueError(f"{name}: no base model with seed {missing[0]} among the runs: name its run too")
        seeds = sorted(group)
        pairs = tuple(group[seed] for seed in seeds), tuple(bases[seed] for seed in seeds)
        compared.append(ComparedSystem(name, *pairs))
    own = tuple(bases[seed] for seed in sorted(bases))
    return [ComparedSystem(own[0].name, own), *compared] if own else compared


def best_on_dev(systems: Sequence[ComparedSystem]) -> ComparedSystem | None:
    """What one would choose without a look at test: of the systems that have all seeds, the best on dev."""
    seeds = {seed for system in systems for seed in system.seeds}
    complete = [system for system in systems if set(system.seeds) == seeds]
    return max(complete, key=lambda system: system.dev_f1.mean, default=None)


def _candidates(folder: Path) -> Iterable[tuple[Candidate, bool]]:
    """The systems of a run, and whether each is a base model to compare with."""
    recipe, results = load_recipe(folder / "recipe.yaml"), read_results(folder / "results.json")
    if not isinstance(recipe, Experiment):
        raise ValueError(f"{folder}: expected the run of a tagger, got one of {recipe.task}")
    if results.test is None:
        raise ValueError(f"{folder}: the run has no test set")
    found = FoundEntities.load(folder, "test")

    def candidate(name: str, dev: Assessment, test: Assessment, spans: Spans) -> Candidate:
        return Candidate(name, results.seed, dev, test, found.gold, spans)

    if results.dev.full is None or results.test.full is None or found.full is None:
        yield candidate(BASE_NAMES[results.system], results.dev.base, results.test.base, found.base), True
        return
    if recipe.term_training.freeze == "base":
        yield candidate(BASE_NAMES[results.system], results.dev.base, results.test.base, found.base), True
    name = folder.resolve().name.removesuffix(f"-{results.seed}")
    yield candidate(name, results.dev.full, results.test.full, found.full), False


def _check_gold(candidates: Sequence[Candidate]) -> None:
    for candidate in candidates[1:]:
        if candidate.gold != candidates[0].gold:
            raise ValueError(f"{candidate.name}, seed {candidate.seed}: tested on other data than the others")
