"""What is installed here, and what works: the checks of `gspen-ner doctor`.

Requirements and extras are read from the package's own metadata, so that nothing has to be kept in step.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

PACKAGE = "gspen-ner"
Status = Literal["ok", "note", "missing", "broken"]


@dataclass(frozen=True)
class Check:
    """Something that was looked at.

    Args:
        group: what it belongs to.
        name: of the thing.
        status: `"missing"` and `"broken"` matter if the thing is needed.
        detail: in words.
        needed: whether the package works without.
    """

    group: str
    name: str
    status: Status
    detail: str
    needed: bool = False


def check_all() -> list[Check]:
    """Look at everything. What fails is told, never raised."""
    parts = (_versions, _requirements, _backends, _threads, _caches, _devices)
    return [check for part in parts for check in _guarded(part)]


def healthy(checks: list[Check]) -> bool:
    """Whether all that is needed is there and works."""
    return not any(check.needed and check.status in ("missing", "broken") for check in checks)


def _guarded(part: Callable[[], Iterator[Check]]) -> list[Check]:
    try:
        return list(part())
    except Exception as error:  # a broken installation can raise anything
        name = part.__name__.removeprefix("_")
        return [Check(name, name, "broken", f"{type(error).__name__}: {error}", needed=True)]


def _versions() -> Iterator[Check]:
    from gspen_ner import __version__

    yield Check("versions", "gspen-ner", "ok", f"{__version__} in {Path(__file__).parent}")
    yield Check("versions", "python", "ok", f"{platform.python_version()} on {platform.platform()}")


def _requirements() -> Iterator[Check]:
    """The package's own requirements, and those of each of its extras."""
    try:
        wanted = [Requirement(text) for text in metadata.requires(PACKAGE) or []]
        extras = metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        detail = "the package itself is not installed: what its extras need is not known"
        yield Check("requirements", PACKAGE, "note", detail)
        return
    always = [one for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    for one in always:
        yield _requirement("requirements", one, needed=True)
    for extra in sorted(extras):
        for one in wanted:
            if one not in always and one.marker is not None and one.marker.evaluate({"extra": extra}):
                yield _requirement(f"extra {extra}", one, needed=False)


def _requirement(group: str, wanted: Requirement, needed: bool) -> Check:
    name, bounds = wanted.name, f" (wanted: {wanted.specifier})" if wanted.specifier else ""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(group, name, "missing", f"not installed{bounds}", needed)
    if not wanted.specifier.contains(version, prereleases=True):
        return Check(group, name, "broken", f"{version} does not fit{bounds}", needed)
    return Check(group, name, "ok", version, needed)


def _backends() -> Iterator[Check]:
    """Let each backend compute something whose result is known."""
    import torch

    from gspen_ner.kernels import available_backends, log_partition, use_backend

    nodes, edges, lengths = torch.zeros(1, 2, 3), torch.zeros(1, 1, 3, 3), torch.tensor([2])
    for name in available_backends():
        try:
            with use_backend(name):
                right = abs(log_partition(nodes, edges, lengths).exp().item() - 9) < 1e-6
            status: Status = "ok" if right else "broken"
            detail = "computes" if right else "computes something wrong"
        except Exception as error:  # whatever a compiler may raise
            status, detail = "broken", f"{type(error).__name__}: {error}"
        yield Check("backends", name, status, detail, needed=True)


def _threads() -> Iterator[Check]:
    import torch

    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads, told = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    source = f", OMP_NUM_THREADS={told}" if told else ""
    status: Status = "ok" if threads <= cpus else "note"
    yield Check("threads", "torch", status, f"{threads} threads on {cpus} CPUs{source}")


def _caches() -> Iterator[Check]:
    from huggingface_hub.constants import HF_HUB_CACHE

    from gspen_ner.kernels.loops import interleaved

    place = interleaved.scaled_forward_backward.stats.cache_path  # type: ignore[attr-defined]
    if place and os.access(_existing(Path(place)), os.W_OK):
        yield Check("caches", "numba", "ok", f"{place} can be written")
    else:
        detail = f"{place or 'no place'} cannot be written: kernels are compiled anew by every process"
        yield Check("caches", "numba", "note", f"{detail}; set NUMBA_CACHE_DIR")
    writable = os.access(_existing(Path(HF_HUB_CACHE)), os.W_OK)
    there = "can be written" if writable else "cannot be written: set HF_HOME"
    yield Check("caches", "hugging face", "ok" if writable else "note", f"{HF_HUB_CACHE} {there}")


def _existing(path: Path) -> Path:
    """The nearest folder above that exists."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


def _devices() -> Iterator[Check]:
    import torch

    yield Check("devices", "cpu", "ok", platform.processor() or platform.machine())
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            yield Check("devices", f"cuda:{number}", "ok", torch.cuda.get_device_name(number))
    else:
        built = "torch is built with CUDA" if torch.version.cuda else "torch is built without CUDA"
        yield Check("devices", "cuda", "note", f"none ({built})")
    if torch.backends.mps.is_available():
        yield Check("devices", "mps", "note", "there, but not used")
