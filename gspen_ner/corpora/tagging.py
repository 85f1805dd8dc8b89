"""Tagging a whole corpus: plan, manifest, workers and, if requested, one file in the end.

    OUTPUT/_manifest.json, part-000000.jsonl, ...     each part is written atomically by its worker

A run that is killed at any moment leaves complete parts; resumed, it tags the missing ones. So no row is lost
or duplicated.
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
    """Result of tagging a corpus.

    Args:
        rows: number of rows tagged in this run.
        sentences: number of their sentences.
        entities: number of their entities.
        earlier: number of rows tagged by an earlier run.
        cuts: number of cuts inside documents.
        peak: largest peak memory of a worker, in MB.
    """

    rows: int
    sentences: int
    entities: int
    earlier: int
    cuts: int
    peak: int


class CorpusJob:
    """A corpus to tag, from the start or from where an earlier run stopped.

    Args:
        model: folder of a model or of a run.
        source: a file or a folder of files.
        output: folder for the parts; or a file NAME.jsonl or NAME.parquet, into which the parts are joined.
        settings: settings of the output.
        resume: continue an earlier run; default False.
    """

    def __init__(
        self, model: str, source: str, output: Path, settings: Settings, resume: bool = False
    ) -> None:
        self.output = output.absolute()
        single = self.output.suffix in (".jsonl", ".parquet")
        self.folder = self.output.with_name(self.output.name + ".parts") if single else self.output
        self._check_output(resume)
        files = open_corpus(source, settings.input_format, settings.columns)
        if single and self.output.suffix != files[0].suffix:
            raise ValueError(
                f"{output}: this corpus is written as {files[0].suffix}: give the output this suffix"
            )
        self.manifest = Manifest.of(model, files, settings)
        if (self.folder / NAME).exists():
            earlier = Manifest.load(self.folder)
            if changed := earlier.differences(self.manifest):
                raise ValueError(
                    f"{self.folder}: the earlier run differs in {', '.join(changed)}: resume it with the "
                    "same input, model and settings, or choose another output"
                )
            parts, cuts = earlier.parts, earlier.cuts
        else:
            parts, cuts = make_plan(files, settings.part_rows, settings.longest_document)
        self.manifest = replace(self.manifest, parts=parts, cuts=cuts)
        self.manifest.save(self.folder)
        self.missing: list[int] = [] if self._joined else self.manifest.missing(self.folder)

    def _check_output(self, resume: bool) -> None:
        """Refuse an existing output, except when resuming its run."""
        if self.folder != self.output and self.output.exists() and not (resume and self._joined):
            raise ValueError(f"{self.output}: exists already; choose another output")
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"{self.folder}: is a file; expected a folder, or a name that ends in .jsonl or .parquet"
            )
        if self.folder.exists() and any(self.folder.iterdir()):
            if not (self.folder / NAME).exists():
                raise ValueError(f"{self.folder}: not empty; choose another output")
            if not resume:
                raise ValueError(
                    f"{self.folder}: contains an earlier run; continue it with --resume, or choose another "
                    "output"
                )

    @property
    def _joined(self) -> bool:
        """Whether a run was killed after it joined its parts and before it removed them."""
        return self.folder != self.output and self.output.exists() and (self.folder / NAME).exists()

    @property
    def rows(self) -> int:
        """Number of rows to tag in this run."""
        return sum(self.manifest.parts[number].rows for number in self.missing)

    def run(self, engine: Engine, report: Callable[[Outcome], object] = lambda outcome: None) -> Tagged:
        """Tag the missing parts.

        Args:
            engine: runs the workers.
            report: called with the outcome of each part.
        """
        total = sum(part.rows for part in self.manifest.parts)
        outcomes: list[Outcome] = []
        for outcome in engine(self.folder, self.missing) if self.missing else ():
            if outcome.error:
                raise ValueError(outcome.error)
            outcomes.append(outcome)
            report(outcome)
        if self.folder != self.output:
            if not self._joined:
                self._join()
            _remove(self.folder)
        coupled = any(outcome.coupled for outcome in outcomes)
        return Tagged(
            rows=sum(outcome.rows for outcome in outcomes),
            sentences=sum(outcome.sentences for outcome in outcomes),
            entities=sum(outcome.entities for outcome in outcomes),
            earlier=total - self.rows,
            cuts=sum(outcome.cuts for outcome in outcomes) + coupled * self.manifest.cuts,
            peak=max((outcome.peak for outcome in outcomes), default=0),
        )

    def _join(self) -> None:
        """Join the parts into one file."""
        parts = [self.manifest.part_file(self.folder, n) for n in range(len(self.manifest.parts))]
        join = _join_tables if self.manifest.suffix == ".parquet" else _join_lines
        write_file(self.output, lambda new: join(parts, new))


def _remove(folder: Path) -> None:
    """Remove the parts and, last, the manifest: a kill in between leaves a run that can be resumed."""
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
