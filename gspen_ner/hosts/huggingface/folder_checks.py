"""What is checked of a model's folder before anything in it is loaded: a folder may come from anybody.

Only config.json, safetensors and a vocabulary or tokenizer are read. Files that are links to somewhere else,
entries by which transformers would run code or read other files, and sizes that the weights do not have are
refused, before memory is taken for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from gspen_ner.hosts.huggingface.config import LAYOUT, GSPENConfig

WEIGHTS, WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
REFUSED = ("auto_map", "custom_pipelines", "quantization_config", "transformers_weights", "peft_config")
ATTENTION = (None, "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
MOST_LABELS = 4096
SMALL = 1 << 20  # numbers up to this are sizes that any model may have
SPARE = 1 << 24  # elements that a model may have besides its weights: tables of positions and the like


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not a model of this version, or that would do more than hold one.

    Raises:
        ValueError: says what was found.
    """
    for file in sorted(folder.iterdir()):
        _check_place(folder, file)
    if (folder / "adapter_config.json").exists():
        raise ValueError(f"{folder}: expected a model, got an adapter of another (adapter_config.json)")
    entries = _entries(folder / "config.json")
    _check_layout(entries)
    tensors = dict(_tensors(folder))
    _check_entries("config.json", entries)
    _check_sizes(entries, len(tensors), sum(tensors.values()))
    if (folder / TOKENIZER_CONFIG).exists():
        _check_tokenizer(_entries(folder / TOKENIZER_CONFIG))


def check_sizes(config: GSPENConfig, model_class: type[nn.Module], folder: Path) -> None:
    """Refuse a configuration of a model much larger than the weights, without making that model."""
    with torch.device("meta"):
        model = model_class(config)
    parts = [*model.parameters(), *model.buffers()]
    wanted, given = sum(part.numel() for part in parts), sum(dict(_tensors(folder)).values())
    if wanted > 2 * given + SPARE:
        raise ValueError(
            f"the weights do not fit config.json: {given:,} numbers, and it speaks of {wanted:,}"
        )


def _check_place(folder: Path, file: Path) -> None:
    """A link may lead to where it stands, or into the cache of the hub, which is made of links."""
    if not file.is_symlink():
        if not (file.is_file() or file.is_dir()):
            raise ValueError(f"{file.name} is neither a file nor a folder")
        return
    home = folder.resolve()
    allowed = [home, *([home.parents[1] / "blobs"] if home.parent.name == "snapshots" else [])]
    target = file.resolve()
    if not any(target.is_relative_to(place) for place in allowed) or not target.is_file():
        raise ValueError(f"{file.name} is a link out of the folder")


def _entries(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ValueError(f"{file.name}: no such file")
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name}: not JSON: {error}") from None
    if not isinstance(entries, dict):
        raise ValueError(f"{file.name}: expected entries, got {type(entries).__name__}")
    return entries


def _check_layout(entries: Mapping[str, Any]) -> None:
    kind, layout = entries.get("model_type"), entries.get("layout", LAYOUT)
    if kind != GSPENConfig.model_type:
        raise ValueError(f"config.json: expected a model of type {GSPENConfig.model_type}, got {kind!r:.100}")
    if type(layout) is not int or layout > LAYOUT:
        raise ValueError(
            f"config.json: written by a newer version of gspen_ner: layout {layout!r:.100}, expected {LAYOUT}"
        )
    if not entries.get("chain_labels"):
        raise ValueError(
            "config.json: written by an older version of gspen_ner (no chain_labels): train the model again"
        )


def _tensors(folder: Path) -> Iterator[tuple[str, int]]:
    """The weights by name, and how many numbers each has; nothing of them is read."""
    names = [WEIGHTS]
    if not (folder / WEIGHTS).exists() and (folder / WEIGHTS_INDEX).exists():
        places = _entries(folder / WEIGHTS_INDEX).get("weight_map")
        names = sorted({str(name) for name in places.values()}) if isinstance(places, dict) else []
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(f"{WEIGHTS_INDEX}: expected files beside it, got {name!r:.100}")
        if not (folder / name).is_file():
            raise ValueError(f"{name}: no such file")
        with safe_open(folder / name, "pt") as file:
            for tensor in file.keys():  # noqa: SIM118
                yield tensor, torch.Size(file.get_slice(tensor).get_shape()).numel()


def _check_entries(name: str, entries: Mapping[str, Any]) -> None:
    """Entries by which transformers runs code of the folder or of the hub, or reads other files."""
    for place, key, value in _walk(entries):
        if key in REFUSED and value:
            raise ValueError(f"{name}: {place} is not read: a model must not bring code or other files along")
        if key in ("attn_implementation", "_attn_implementation") and value not in ATTENTION:
            raise ValueError(f"{name}: {place}: expected one of {ATTENTION[1:]}, got {value!r:.100}")


def _check_sizes(entries: Mapping[str, Any], tensors: int, elements: int) -> None:
    labels = entries["chain_labels"]
    if not isinstance(labels, list) or len(labels) > MOST_LABELS:
        raise ValueError(f"config.json: expected a list of at most {MOST_LABELS} chain_labels")
    parts = {key: entries.get(key) for key in ("scorer", "encoder", "terms", "inference", "num_labels")}
    for place, key, value in _walk(parts):
        if not isinstance(value, int) or "label2id" in place:
            continue
        most = max(SMALL, elements)
        if any(word in key for word in ("layer", "block", "expert", "depth")):
            most = max(tensors, 64)
        elif key == "num_labels":
            most = MOST_LABELS
        if abs(value) > most:
            raise ValueError(f"config.json: {place}: the weights are not of a model of {value!r:.40}")


def _check_tokenizer(entries: Mapping[str, Any]) -> None:
    _check_entries(TOKENIZER_CONFIG, entries)
    for key, value in entries.items():
        if key.endswith(("_file", "_files")) and value is not None:
            raise ValueError(f"{TOKENIZER_CONFIG}: {key} is not read: a tokenizer's files have fixed names")


def _walk(entries: object, place: str = "", key: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every value with its place and the last name on the way to it."""
    yield place, key, entries
    if isinstance(entries, Mapping):
        for name, value in entries.items():
            yield from _walk(value, f"{place}.{name}" if place else str(name), str(name))
    elif isinstance(entries, list):
        for value in entries:
            yield from _walk(value, place, key)
