"""The package as a whole: what importing it does, what it exports, and that its demo runs."""

import subprocess
import sys
from pathlib import Path

import pytest

import gspen_ner

ROOT = Path(__file__).parent.parent


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_it_imports_no_host_library():
    loaded = python(
        "import sys, gspen_ner; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    ).split()
    assert "torch" in loaded
    for heavy in ("flair", "transformers", "numba", "scipy", "typer", "rich", "datasets", "matplotlib"):
        assert heavy not in loaded


def test_every_public_name_exists_and_is_documented():
    for name in gspen_ner.__all__:
        assert getattr(gspen_ner, name).__doc__, name


def test_imports_point_only_upwards():
    """No module imports from a room further down the list in the README."""
    order = [
        "parts", "labels", "graphs", "kernels", "polytopes", "terms", "objective", "solvers", "losses",
        "decode", "scorers", "head", "systems", "files", "tasks", "recipe", "hosts", "experiments", "report",
        "bench", "cli",
    ]  # fmt: skip
    for file in (ROOT / "gspen_ner").rglob("*.py"):
        room = file.relative_to(ROOT / "gspen_ner").parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        for line in file.read_text().splitlines():
            words = line.replace("from gspen_ner import ", "import gspen_ner.").split()
            if len(words) > 1 and words[0] in ("from", "import") and words[1].startswith("gspen_ner."):
                other = words[1].split(".")[1]
                if other == "__version__":
                    continue
                assert order.index(other) <= order.index(room), f"{file}: {line}"


@pytest.mark.slow
def test_the_inference_demo():
    shown = subprocess.run(
        [sys.executable, ROOT / "recipes" / "inference_demo.py"], capture_output=True, text=True, check=True
    ).stdout
    assert "converged" in shown
    assert shown.count("LOC (0.99)") == 2  # the two mentions that the document mends
