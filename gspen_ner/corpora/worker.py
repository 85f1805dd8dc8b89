"""A worker: holds a model, tags a part of a corpus, and writes it whole."""

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
    """What came of a part; `error` is empty if all went well."""

    part: int
    rows: int = 0
    sentences: int = 0
    entities: int = 0
    cuts: int = 0
    """Places inside the part at which a document was cut although the model's term looks at documents."""
    coupled: bool = False
    """Whether it does."""
    peak: int = 0
    """Most memory, in MB, that the worker has had so far."""
    error: str = ""


class PartTagger:
    """Tags the parts of the corpus whose manifest lies in a folder.

    Args:
        folder: of the output.
        threads: that torch may use; None leaves them as they are.
    """

    def __init__(self, folder: str | Path, threads: int | None = None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.folder = Path(folder)
        self.manifest = Manifest.load(self.folder)
        self.files = self.manifest.open_files()
        self.tagger = load_tagger(self.manifest.model)

    def __call__(self, number: int) -> Outcome:
        """Tag a part. What is wrong with it is told, not raised, so that every engine can pass it on."""
        part = self.manifest.parts[number]
        file = self.files[part.file]
        try:
            rows = file.read(part.start, part.stop)
            if len(rows.words) != part.rows:
                raise ValueError(f"{len(rows.words)} rows where there were {part.rows}: the file has changed")
            entities, sentences, cuts = tag_rows(self.tagger, rows, self.manifest.settings.longest_document)
            write_file(self.manifest.part_file(self.folder, number), lambda new: rows.write(new, entities))
        except (ValueError, OSError) as error:
            where = f"{file.path}: part {number}, which begins at line {part.start.line}"
            return Outcome(number, error=str(error) if str(file.path) in str(error) else f"{where}: {error}")
        coupled = self.tagger.couples_documents
        found = sum(map(len, entities))
        return Outcome(number, part.rows, sentences, found, cuts if coupled else 0, coupled, peak_memory())


def peak_memory() -> int:
    """The most memory, in MB, that this process has had at once."""
    with suppress(OSError, StopIteration):  # Linux; getrusage there counts what was before exec, too
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (
        1 << 20 if sys.platform == "darwin" else 1024
    )


def tag_rows(tagger: SentenceTagger, rows: Rows, longest: int) -> tuple[list[list[Entity]], int, int]:
    """The entities of rows, the number of their sentences, and at how many places documents were cut."""
    sentences, cuts = sentences_of(rows, longest)
    tokens = [sentence.tokens for sentence in sentences]
    documents = [sentence.document for sentence in sentences]
    # Nobody asks what the base model said.
    batches = (batch.without_base() for batch in tagger.scores(tokens, documents))
    predictions = predict_all(tokens, batches, tagger.labels)
    entities: list[list[Entity]] = [[] for _ in rows.words]
    for sentence, prediction in zip(sentences, predictions, strict=True):
        words = rows.words[sentence.row]
        entities[sentence.row] += [sentence.entity(words, scored) for scored in prediction.entities]
    return entities, len(sentences), cuts
