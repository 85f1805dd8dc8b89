"""Tag a corpus: plan, manifest, workers, and perhaps one file in the end.

    OUTPUT/_manifest.json, part-000000.jsonl, ...     each part is written whole, by the worker that tagged it

Killed at any moment, a run leaves whole parts; resumed, it does those that are missing. So no row is lost and
none is there twice.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from gspen_ner.corpora.engines import Engine
from gspen_ner.corpora.manifest import NAME, Manifest, Settings
from gspen_ner.corpora.plan import make_plan
from gspen_ner.corpora.reading import open_corpus
from gspen_ner.corpora.worker import Outcome
from gspen_ner.files import write_file


class Tagged(NamedTuple):
    """What was done: rows of this run and of an earlier one, cuts in documents; memory of a worker in MB."""

    rows: int
    sentences: int
    entities: int
    earlier: int
    cuts: int
    peak: int


class CorpusJob:
    """A corpus to be tagged, or to be tagged on.

    Args:
        model: folder of a model or of a run.
        source: a file or a folder of files.
        output: a folder of parts; or a file, whose name ends in .jsonl or .parquet, joined from the parts in
            the end.
        settings: see there.
        resume: go on with what an earlier run left.
    """

    def __init__(
        self, model: str, source: str, output: Path, settings: Settings, resume: bool = False
    ) -> None:
        self.output = output.absolute()
        single = self.output.suffix in (".jsonl", ".parquet")
        self.folder = self.output.with_name(self.output.name + ".parts") if single else self.output
        self._refuse_what_is_there(resume)
        files = open_corpus(source, settings.kind, settings.columns)
        if single and self.output.suffix != files[0].suffix:
            raise ValueError(f"{output}: parts of this corpus end in {files[0].suffix}; call the output so")
        self.manifest = Manifest.of(model, files, settings)
        if (self.folder / NAME).exists():
            earlier = Manifest.load(self.folder)
            if changed := earlier.differences(self.manifest):
                raise ValueError(
                    f"{self.folder} was begun with something else ({', '.join(changed)}): resume with what "
                    "it was begun with, or choose another output"
                )
            self.manifest = replace(self.manifest, parts=earlier.parts, cuts=earlier.cuts)
        else:
            plan = make_plan(files, settings.part_rows, settings.longest_document)
            self.manifest = replace(self.manifest, parts=plan.parts, cuts=plan.cuts)
        self.manifest.save(self.folder)
        self.missing: list[int] = [] if self._joined else self.manifest.missing(self.folder)

    def _refuse_what_is_there(self, resume: bool) -> None:
        if self.folder != self.output and self.output.exists() and not (resume and self._joined):
            raise ValueError(f"{self.output}: exists already; choose another output")
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"{self.folder}: a file, expected a folder, or a name that ends in .jsonl or .parquet"
            )
        if self.folder.exists() and any(self.folder.iterdir()):
            if not (self.folder / NAME).exists():
                raise ValueError(f"{self.folder}: not empty; choose another output")
            if not resume:
                raise ValueError(
                    f"{self.folder}: begun already; go on with --resume, or choose another output"
                )

    @property
    def _joined(self) -> bool:
        """Whether a run was killed when it had joined its parts, and had them still to remove."""
        return self.folder != self.output and self.output.exists() and (self.folder / NAME).exists()

    @property
    def rows(self) -> int:
        """How many there are to tag in this run."""
        return sum(self.manifest.parts[number].rows for number in self.missing)

    def run(self, engine: Engine, report: Callable[[Outcome], object] = lambda outcome: None) -> Tagged:
        """Tag what is missing.

        Args:
            engine: where the workers are.
            report: is told of each part.
        """
        total = sum(part.rows for part in self.manifest.parts)
        done = Tagged(0, 0, 0, total - self.rows, 0, 0)
        coupled = False
        for outcome in engine(self.folder, self.missing) if self.missing else ():
            if outcome.error:
                raise ValueError(outcome.error)
            coupled |= outcome.coupled
            rows, sentences = done.rows + outcome.rows, done.sentences + outcome.sentences
            entities, cuts = done.entities + outcome.entities, done.cuts + outcome.cuts
            done = Tagged(rows, sentences, entities, done.earlier, cuts, max(done.peak, outcome.peak))
            report(outcome)
        if self.folder != self.output:
            if not self._joined:
                self._join()
            _remove(self.folder)
        return done._replace(cuts=done.cuts + coupled * self.manifest.cuts)

    def _join(self) -> None:
        """Make one file of the parts."""
        parts = [self.manifest.part_file(self.folder, n) for n in range(len(self.manifest.parts))]
        join = _join_tables if self.manifest.suffix == ".parquet" else _join_lines
        write_file(self.output, lambda new: join(parts, new))


def _remove(folder: Path) -> None:
    """Remove the parts, and what says that they were parts at the very end."""
    for file in folder.iterdir():
        if file.name != NAME:
            file.unlink()
    shutil.rmtree(folder)


def _join_lines(parts: Sequence[Path], file: Path) -> None:
    with file.open("wb") as out:
        for part in parts:
            with part.open("rb") as lines:
                shutil.copyfileobj(lines, out)


def _join_tables(parts: Sequence[Path], file: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, pq.read_schema(parts[0])) as out:
        for part in parts:
            out.write_table(pq.read_table(part))
