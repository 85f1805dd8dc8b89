"""Checks of a model's folder before anything in it is loaded: a folder may come from anybody.

Only config.json, safetensors and a vocabulary or tokenizer are read. Files that are links to somewhere else,
entries by which transformers would run code or read other files, and sizes that the weights do not have are
refused, before memory is taken for them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

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
        ValueError: names the file or entry that is refused.
    """
    for file in sorted(folder.iterdir()):
        _check_link(folder, file)
    if (folder / "adapter_config.json").exists():
        raise ValueError(f"{folder}: expected a model, got an adapter of another (adapter_config.json)")
    entries = _entries(folder / "config.json")
    _check_layout(entries)
    tensors = dict(_tensors(folder))
    _check_entries("config.json", entries)
    _check_sizes(entries, len(tensors), sum(tensors.values()))
    if (folder / TOKENIZER_CONFIG).exists():
        _check_tokenizer(_entries(folder / TOKENIZER_CONFIG))


def size_limit(folder: Path) -> int:
    """Return an upper limit on the model size, derived from the stored weights.

    Of a model with an encoder and a decoder, only the encoder is kept; construction needs more memory.
    """
    return 4 * sum(dict(_tensors(folder)).values()) + SPARE


@contextmanager
def refuse_larger(limit: int | None) -> Iterator[None]:
    """Within this context, refuse to make a model of more weights, before memory is taken for them.

    Raises:
        ValueError: as soon as the modules made here have more weights than the limit.
    """
    if limit is None:
        yield
        return
    thread, count = threading.get_ident(), 0

    def add(module: object, name: str, tensor: Tensor | None) -> None:
        nonlocal count
        if tensor is None or threading.get_ident() != thread:
            return
        count += tensor.numel()
        if count > limit:
            raise ValueError(
                f"the weights do not fit config.json, which describes a model of more than {limit:,} numbers"
            )

    hooks = [register_module_parameter_registration_hook(add), register_module_buffer_registration_hook(add)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _check_link(folder: Path, file: Path) -> None:
    """Refuse a link out of the folder, unless into the cache of the hub, which consists of links."""
    if not file.is_symlink():
        if not (file.is_file() or file.is_dir()):
            raise ValueError(f"{file.name} is neither a file nor a folder")
        return
    home = folder.resolve()
    allowed = [home, *([home.parents[1] / "blobs"] if home.parent.name == "snapshots" else [])]
    target = file.resolve()
    if not any(target.is_relative_to(root) for root in allowed) or not target.is_file():
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
    model_type, layout = entries.get("model_type"), entries.get("layout", LAYOUT)
    expected = GSPENConfig.model_type
    if model_type != expected:
        raise ValueError(f"config.json: expected a model of type {expected}, got {model_type!r:.100}")
    if type(layout) is not int or layout > LAYOUT:
        raise ValueError(
            f"config.json: written by a newer version of gspen_ner: layout {layout!r:.100}, expected {LAYOUT}"
        )
    if not entries.get("chain_labels"):
        raise ValueError(
            "config.json: written by an older version of gspen_ner (no chain_labels): train the model again"
        )


def _tensors(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and the size of each weight tensor; the tensors are not read."""
    names = [WEIGHTS]
    if not (folder / WEIGHTS).exists() and (folder / WEIGHTS_INDEX).exists():
        file_of = _entries(folder / WEIGHTS_INDEX).get("weight_map")
        names = sorted({str(name) for name in file_of.values()}) if isinstance(file_of, dict) else []
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ValueError(f"{WEIGHTS_INDEX}: expected files beside it, got {name!r:.100}")
        if not (folder / name).is_file():
            raise ValueError(f"{name}: no such file")
        with safe_open(folder / name, "pt") as file:
            for tensor in file.keys():  # noqa: SIM118
                yield tensor, torch.Size(file.get_slice(tensor).get_shape()).numel()


def _check_entries(name: str, entries: Mapping[str, Any]) -> None:
    """Refuse entries by which transformers runs code of the folder or the hub, or reads other files."""
    for path, key, value in _walk(entries):
        if key in REFUSED and value:
            raise ValueError(f"{name}: {path} is not read: a model must not bring code or other files along")
        if key in ("attn_implementation", "_attn_implementation") and value not in ATTENTION:
            raise ValueError(f"{name}: {path}: expected one of {ATTENTION[1:]}, got {value!r:.100}")


def _check_sizes(entries: Mapping[str, Any], tensors: int, elements: int) -> None:
    labels = entries["chain_labels"]
    if not isinstance(labels, list) or len(labels) > MOST_LABELS:
        raise ValueError(f"config.json: expected a list of at most {MOST_LABELS} chain_labels")
    parts = {key: entries.get(key) for key in ("scorer", "encoder", "terms", "inference", "num_labels")}
    for path, key, value in _walk(parts):
        if not isinstance(value, int) or "label2id" in path:
            continue
        most = max(SMALL, elements)
        if any(word in key for word in ("layer", "block", "expert", "depth")):
            most = max(tensors, 64)
        elif key == "num_labels":
            most = MOST_LABELS
        if abs(value) > most:
            raise ValueError(f"config.json: {path}: the weights are not of a model of {value!r:.40}")


def _check_tokenizer(entries: Mapping[str, Any]) -> None:
    _check_entries(TOKENIZER_CONFIG, entries)
    for key, value in entries.items():
        if key.endswith(("_file", "_files")) and value is not None:
            raise ValueError(f"{TOKENIZER_CONFIG}: {key} is not read: a tokenizer's files have fixed names")


def _walk(entries: object, path: str = "", key: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield every value with its path of keys and the last key of it."""
    yield path, key, entries
    if isinstance(entries, Mapping):
        for name, value in entries.items():
            yield from _walk(value, f"{path}.{name}" if path else str(name), str(name))
    elif isinstance(entries, list):
        for value in entries:
            yield from _walk(value, path, key)
