"""Reading tagged sentences from any source, which is given by one string.

path/to/file.txt, file.jsonl     CoNLL columns, JSON lines; see `gspen_ner.ner.files`
path/to/file.parquet, folder     a `datasets` table with a column of tokens and a column of tags
hub:NAME:SPLIT                   a dataset of the Hugging Face hub
newswire:DOCUMENTS:SEED          generated documents; see `gspen_ner.ner.newswire`
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gspen_ner.ner.files import FileScheme, RawSentence, TaggedFile, convert_to_bio, read_tagged_file

Column = int | str


def read_source(
    source: str,
    *,
    token_column: Column = 0,
    tag_column: Column = -1,
    scheme: FileScheme = "auto",
    strict: bool = False,
) -> TaggedFile:
    """Read tagged sentences from any source.

    Args:
        source: see the header of this module.
        token_column: index of the token column in a CoNLL file, default 0; name of the token column in a
            dataset, where an index stands for `tokens` or `words`.
        tag_column: index of the tag column in a CoNLL file, default -1; name of the tag column in a dataset,
            where an index stands for the first of `ner_tags`, `tags` and `labels` that exists.
        scheme: tagging scheme; `"auto"`, the default, detects it.
        strict: refuse tag sequences that the scheme does not allow instead of repairing them.

    Example:
        >>> len(read_source("newswire:3:0").sentences) > 10
        True
    """
    prefix, _, rest = source.partition(":")
    if prefix == "newswire" and rest:
        return _newswire(source, rest)
    if prefix == "hub" and rest:
        name, _, split = rest.partition(":")
        return _from_dataset(source, _hub(name, split or "train"), token_column, tag_column, scheme, strict)
    path = Path(source)
    if path.is_dir() or path.suffix == ".parquet":
        return _from_dataset(source, _local(path), token_column, tag_column, scheme, strict)
    if not (isinstance(token_column, int) and isinstance(tag_column, int)):
        raise ValueError(
            f"{source}: the columns of a CoNLL file are numbers, got {token_column!r} and {tag_column!r}"
        )
    return read_tagged_file(
        path, token_column=token_column, tag_column=tag_column, scheme=scheme, strict=strict
    )


def _newswire(source: str, rest: str) -> TaggedFile:
    from gspen_ner.ner.newswire import generate_newswire

    documents, _, seed = rest.partition(":")
    if not documents.isdigit() or not (seed or "0").isdigit():
        raise ValueError(f"{source}: expected newswire:DOCUMENTS or newswire:DOCUMENTS:SEED")
    sentences = generate_newswire(int(documents), int(seed or "0"))
    return TaggedFile(Path(source), sentences, "BIO", has_documents=True)


def _hub(name: str, split: str) -> Any:
    import datasets

    try:
        return datasets.load_dataset(name, split=split)
    except Exception as error:  # the network and the hub can raise anything
        raise ValueError(f"hub:{name}:{split}: cannot be loaded: {error}") from None


def _local(path: Path) -> Any:
    import datasets

    if not path.exists():
        raise ValueError(f"{path}: no such file")
    try:
        if path.is_dir():
            return datasets.load_from_disk(str(path))
        return datasets.Dataset.from_parquet(str(path))
    except Exception as error:  # pyarrow has exceptions of its own
        raise ValueError(f"{path}: not a dataset: {error}") from None


def _from_dataset(
    source: str, dataset: Any, token_column: Column, tag_column: Column, scheme: FileScheme, strict: bool
) -> TaggedFile:
    if not hasattr(dataset, "features"):
        raise ValueError(f"{source}: contains several splits ({', '.join(dataset)}): give the folder of one")
    token_name = _column(source, dataset, token_column, ("tokens", "words"))
    tag_name = _column(source, dataset, tag_column, ("ner_tags", "tags", "labels"))
    features = dataset.features[tag_name]
    names = getattr(features.feature, "names", None) if hasattr(features, "feature") else None
    documents: dict[object, int] = {}
    raw = []
    for number, row in enumerate(_rows(source, dataset), 1):
        tokens, tags = row[token_name], row[tag_name]
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError(f"{source}:{number}: expected a list of strings as {token_name}, got {tokens!r}")
        if not isinstance(tags, list):
            raise ValueError(f"{source}:{number}: expected a list of tags as {tag_name}, got {tags!r}")
        if names:  # datasets without gold tags contain -1 or null, which is refused below
            tags = [names[tag] if tag in range(len(names)) else tag for tag in tags]
        name = row.get("document")
        document = -1 if name is None else documents.setdefault(str(name), len(documents))
        if tokens or tags:
            raw.append(RawSentence(tokens, tags, document, number))
    return convert_to_bio(Path(source), raw, scheme, strict)


def _rows(source: str, dataset: Any) -> Iterator[dict[str, Any]]:
    try:
        yield from dataset
    except Exception as error:  # pyarrow's own, and those of columns that datasets cannot decode
        raise ValueError(f"{source}: cannot be read: {error}") from None


def _column(source: str, dataset: Any, column: Column, usual: tuple[str, ...]) -> str:
    """Return the name of a column: the given one, or the first usual name that the dataset has."""
    names = [column] if isinstance(column, str) else usual
    for name in names:
        if name in dataset.column_names:
            return str(name)
    raise ValueError(
        f"{source}: no column {' or '.join(map(str, names))}; the columns are {dataset.column_names}"
    )
