"""A worker loads a model, tags parts of a corpus, and writes each part atomically."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch

from gspen_ner.corpora.manifest import Manifest
from gspen_ner.corpora.rows import Entity, Rows, sentences_of
from gspen_ner.files import write_file
from gspen_ner.hosts.loading import load_tagger
from gspen_ner.ner.predictions import SentenceTagger, predict_all


class Outcome(NamedTuple):
    """Result of tagging a part.

    Args:
        part: number of the part.
        rows: number of rows.
        sentences: number of sentences.
        entities: number of predicted entities.
        cuts: number of cuts inside documents in this part, if the model uses whole documents.
        coupled: whether the model uses whole documents.
        peak: peak memory of the worker so far, in MB.
        error: error message; empty if the part was written.
    """

    part: int
    rows: int = 0
    sentences: int = 0
    entities: int = 0
    cuts: int = 0
    coupled: bool = False
    peak: int = 0
    error: str = ""


class PartTagger:
    """Tags the parts of the corpus whose manifest is in a folder.

    Args:
        folder: folder of the output.
        threads: CPU threads for torch; None, the default, leaves torch's own default.
    """

    def __init__(self, folder: str | Path, threads: int | None = None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.folder = Path(folder)
        self.manifest = Manifest.load(self.folder)
        self.files = self.manifest.open_files()
        self.tagger = load_tagger(self.manifest.model)

    def __call__(self, number: int) -> Outcome:
        """Tag and write a part; an error is returned, not raised, so that every engine can pass it on."""
        part = self.manifest.parts[number]
        file = self.files[part.file]
        try:
            rows = file.read(part.start, part.stop)
            if len(rows.words) != part.rows:
                raise ValueError(f"expected {part.rows} rows, got {len(rows.words)}: the file has changed")
            entities, sentences, cuts = tag_rows(self.tagger, rows, self.manifest.settings.longest_document)
            write_file(self.manifest.part_file(self.folder, number), lambda new: rows.write(new, entities))
        except (ValueError, OSError) as error:
            where = f"{file.path}: part {number}, which begins at line {part.start.line}"
            return Outcome(number, error=str(error) if str(file.path) in str(error) else f"{where}: {error}")
        coupled = self.tagger.uses_documents
        count = sum(map(len, entities))
        return Outcome(number, part.rows, sentences, count, cuts if coupled else 0, coupled, peak_memory())


def peak_memory() -> int:
    """Return the peak memory of this process, in MB."""
    with suppress(OSError, StopIteration):  # Linux, where getrusage includes the time before exec
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (
        1 << 20 if sys.platform == "darwin" else 1024
    )


def tag_rows(tagger: SentenceTagger, rows: Rows, longest: int) -> tuple[list[list[Entity]], int, int]:
    """Return the entities of each row, the number of sentences, and the number of cuts inside documents."""
    sentences, cuts = sentences_of(rows, longest)
    tokens = [sentence.tokens for sentence in sentences]
    documents = [sentence.document for sentence in sentences]
    batches = (batch.without_base() for batch in tagger.scores(tokens, documents))
    predictions = predict_all(tokens, batches, tagger.labels)
    entities: list[list[Entity]] = [[] for _ in rows.words]
    for sentence, prediction in zip(sentences, predictions, strict=True):
        words = rows.words[sentence.row]
        entities[sentence.row] += [sentence.entity(words, scored) for scored in prediction.entities]
    return entities, len(sentences), cuts
