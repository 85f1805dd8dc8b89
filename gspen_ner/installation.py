"""The checks of `gspen-ner doctor`: what is installed, and whether it works.

Requirements and extras are read from the metadata of the installed package.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

PACKAGE = "gspen-ner"
Status = Literal["ok", "note", "missing", "broken"]


@dataclass(frozen=True)
class Check:
    """Result of one installation check.

    Args:
        group: heading under which the check is listed, such as `"requirements"` or `"extra flair"`.
        name: name of the package, backend or device that was checked.
        status: `"ok"`; `"note"` for information; `"missing"` and `"broken"` are failures if `needed`.
        detail: the version found, or the problem and its solution.
        needed: whether the package requires it; default False.
    """

    group: str
    name: str
    status: Status
    detail: str
    needed: bool = False


def check_all() -> list[Check]:
    """Run all checks; failures become results and are never raised."""
    checks: list[Check] = []
    for group in (_versions, _requirements, _backends, _threads, _caches, _devices):
        try:
            checks += list(group())
        except Exception as error:  # a broken installation can raise anything
            name = group.__name__.removeprefix("_")
            checks.append(Check(name, name, "broken", f"{type(error).__name__}: {error}", needed=True))
    return checks


def healthy(checks: list[Check]) -> bool:
    """Return whether everything required is installed and works."""
    return not any(check.needed and check.status in ("missing", "broken") for check in checks)


def _versions() -> Iterator[Check]:
    from gspen_ner import __version__

    yield Check("versions", "gspen-ner", "ok", f"{__version__} in {Path(__file__).parent}")
    yield Check("versions", "python", "ok", f"{platform.python_version()} on {platform.platform()}")


def _requirements() -> Iterator[Check]:
    """Check the packages that this one requires, and those that each extra requires."""
    try:
        requirements = [Requirement(text) for text in metadata.requires(PACKAGE) or []]
        extras = metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        detail = "not installed as a package (no metadata): requirements and extras cannot be checked"
        yield Check("requirements", PACKAGE, "note", detail)
        return
    required = [r for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    optional = [requirement for requirement in requirements if requirement not in required]
    for requirement in required:
        yield _requirement("requirements", requirement, needed=True)
    for extra in sorted(extras):
        for requirement in optional:
            if requirement.marker is not None and requirement.marker.evaluate({"extra": extra}):
                yield _requirement(f"extra {extra}", requirement, needed=False)


def _requirement(group: str, requirement: Requirement, needed: bool) -> Check:
    """Check that a package is installed in a version that the requirement allows."""
    name, specifier = requirement.name, requirement.specifier
    expected = f" (expected {specifier})" if specifier else ""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(group, name, "missing", f"not installed{expected}", needed)
    if not specifier.contains(version, prereleases=True):
        return Check(group, name, "broken", f"version {version} does not fit{expected}", needed)
    return Check(group, name, "ok", version, needed)


def _backends() -> Iterator[Check]:
    """Check each backend by a computation whose result is known: 3 x 3 labellings of two nodes."""
    import torch

    from gspen_ner.kernels import available_backends, log_partition, use_backend

    nodes, edges, lengths = torch.zeros(1, 2, 3), torch.zeros(1, 1, 3, 3), torch.tensor([2])
    for name in available_backends():
        try:
            with use_backend(name):
                partition = log_partition(nodes, edges, lengths).exp().item()
            correct = abs(partition - 9) < 1e-6
            status: Status = "ok" if correct else "broken"
            detail = "works" if correct else f"wrong result: expected 9, got {partition:g}"
        except Exception as error:  # a compiler can raise anything
            status, detail = "broken", f"{type(error).__name__}: {error}"
        yield Check("backends", name, status, detail, needed=True)


def _threads() -> Iterator[Check]:
    import torch

    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads, variable = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    source = f", OMP_NUM_THREADS={variable}" if variable else ""
    status: Status = "ok" if threads <= cpus else "note"
    yield Check("threads", "torch", status, f"{threads} threads on {cpus} CPUs{source}")


def _caches() -> Iterator[Check]:
    from huggingface_hub.constants import HF_HUB_CACHE

    from gspen_ner.kernels.loops import interleaved

    numba_cache = interleaved.scaled_forward_backward.stats.cache_path  # type: ignore[attr-defined]
    if numba_cache and _is_writable(numba_cache):
        yield Check("caches", "numba", "ok", f"{numba_cache} can be written")
    else:
        detail = f"{numba_cache or 'no folder'} cannot be written: every process compiles the kernels again"
        yield Check("caches", "numba", "note", f"{detail}; set NUMBA_CACHE_DIR to a writable folder")
    writable = _is_writable(HF_HUB_CACHE)
    detail = "can be written" if writable else "cannot be written: set HF_HOME to a writable folder"
    yield Check("caches", "hugging face", "ok" if writable else "note", f"{HF_HUB_CACHE} {detail}")


def _is_writable(folder: str) -> bool:
    """Return whether a folder, or the nearest existing folder above it, can be written."""
    path = Path(folder)
    return os.access(next(p for p in (path, *path.absolute().parents) if p.exists()), os.W_OK)


def _devices() -> Iterator[Check]:
    import torch

    yield Check("devices", "cpu", "ok", platform.processor() or platform.machine())
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            yield Check("devices", f"cuda:{number}", "ok", torch.cuda.get_device_name(number))
    else:
        build = "torch is built with CUDA" if torch.version.cuda else "torch is built without CUDA"
        yield Check("devices", "cuda", "note", f"no CUDA device found ({build})")
    if torch.backends.mps.is_available():
        yield Check("devices", "mps", "note", "available, but not used by this package")
