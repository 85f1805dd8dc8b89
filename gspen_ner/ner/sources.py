"""Where tagged sentences come from, by one string.

path/to/file.txt, file.jsonl     CoNLL columns, JSON lines; see `ner_files`
path/to/file.parquet, folder     a `datasets` table with a column of tokens and one of tags
hub:NAME:SPLIT                   a dataset of the Hugging Face hub
newswire:DOCUMENTS:SEED          generated documents; see `newswire`
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gspen_ner.ner.files import FileScheme, RawSentence, TaggedFile, read_tagged_file, tagged
from gspen_ner.ner.newswire import generate_newswire

Column = int | str


def read_source(
    source: str,
    *,
    token_column: Column = 0,
    tag_column: Column = -1,
    scheme: FileScheme = "auto",
    strict: bool = False,
) -> TaggedFile:
    """Read sentences from any source.

    Args:
        source: see this module's header.
        token_column: number in a file of columns; name in a dataset, where a number stands for `tokens`.
        tag_column: likewise; in a dataset a number stands for `ner_tags` or `tags`, whichever there is.
        scheme: how the tags are written; `"auto"` finds out.
        strict: refuse illegal tag sequences instead of repairing them.

    Example:
        >>> len(read_source("newswire:3:0").sentences) > 10
        True
    """
    kind, _, rest = source.partition(":")
    if kind == "newswire" and rest:
        return _newswire(source, rest)
    if kind == "hub" and rest:
        name, _, split = rest.partition(":")
        return _from_dataset(source, _hub(name, split or "train"), token_column, tag_column, scheme, strict)
    path = Path(source)
    if path.is_dir() or path.suffix == ".parquet":
        return _from_dataset(source, _local(path), token_column, tag_column, scheme, strict)
    if not (isinstance(token_column, int) and isinstance(tag_column, int)):
        raise ValueError(f"{source}: columns of a file are numbers, got {token_column!r} and {tag_column!r}")
    return read_tagged_file(
        path, token_column=token_column, tag_column=tag_column, scheme=scheme, strict=strict
    )


def _newswire(source: str, rest: str) -> TaggedFile:
    documents, _, seed = rest.partition(":")
    if not documents.isdigit() or not (seed or "0").isdigit():
        raise ValueError(f"{source}: expected newswire:DOCUMENTS or newswire:DOCUMENTS:SEED")
    sentences = generate_newswire(int(documents), int(seed or "0"))
    return TaggedFile(Path(source), sentences, "BIO", has_documents=True)


def _hub(name: str, split: str) -> Any:
    import datasets

    try:
        return datasets.load_dataset(name, split=split)
    except Exception as error:  # whatever the network or the hub may answer
        raise ValueError(f"hub:{name}:{split}: cannot be loaded: {error}") from None


def _local(path: Path) -> Any:
    import datasets

    if not path.exists():
        raise ValueError(f"{path}: no such file")
    try:
        if path.is_dir():
            return datasets.load_from_disk(str(path))
        return datasets.Dataset.from_parquet(str(path))
    except Exception as error:  # pyarrow has errors of its own
        raise ValueError(f"{path}: not a dataset: {error}") from None


def _from_dataset(
    source: str, dataset: Any, token_column: Column, tag_column: Column, scheme: FileScheme, strict: bool
) -> TaggedFile:
    if not hasattr(dataset, "features"):
        raise ValueError(f"{source}: holds several splits ({', '.join(dataset)}); name the folder of one")
    tokens = _column(source, dataset, token_column, ("tokens", "words"))
    tags = _column(source, dataset, tag_column, ("ner_tags", "tags", "labels"))
    inner = dataset.features[tags].feature if hasattr(dataset.features[tags], "feature") else None
    names = getattr(inner, "names", None)
    documents: dict[object, int] = {}
    raw = []
    for number, row in enumerate(_rows(source, dataset), 1):
        words, found = row[tokens], row[tags]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{source}:{number}: expected a list of strings as {tokens}, got {words!r}")
        if not isinstance(found, list):
            raise ValueError(f"{source}:{number}: expected a list of tags as {tags}, got {found!r}")
        if names:  # datasets without gold tags have -1 or null instead
            found = [names[tag] if tag in range(len(names)) else tag for tag in found]
        document = row.get("document")
        place = -1 if document is None else documents.setdefault(str(document), len(documents))
        if words or found:
            raw.append(RawSentence(words, found, place, number))
    return tagged(Path(source), raw, scheme, strict)


def _rows(source: str, dataset: Any) -> Iterator[dict[str, Any]]:
    try:
        yield from dataset
    except Exception as error:  # pyarrow's own, and those of columns that datasets cannot decode
        raise ValueError(f"{source}: cannot be read: {error}") from None


def _column(source: str, dataset: Any, wanted: Column, usual: tuple[str, ...]) -> str:
    names = [wanted] if isinstance(wanted, str) else usual
    for name in names:
        if name in dataset.column_names:
            return str(name)
    raise ValueError(f"{source}: no column {' or '.join(map(str, names))}; it has {dataset.column_names}")
