"""The package as a whole: what importing it does, what it exports, and that its demo runs."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import UnionType

import pytest
import yaml

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


ROOMS_WITH_EXAMPLES = [
    "gspen_ner",
    "gspen_ner.kernels",
    "gspen_ner.recipe",
    "gspen_ner.hosts.flair",
    "gspen_ner.hosts.huggingface",
]


@pytest.mark.parametrize("module", ROOMS_WITH_EXAMPLES)
def test_every_public_name_has_an_example_that_doctest_finds(module):
    if module.endswith("flair"):
        pytest.importorskip("flair")
    public = importlib.import_module(module)
    for name in public.__all__:
        public_object = getattr(public, name)
        if isinstance(public_object, UnionType):  # such as AnyRecipe: an alias has no docstring
            continue
        home = importlib.import_module(public_object.__module__)
        tests = {test.name: test.examples for test in doctest.DocTestFinder().find(home)}
        examples = tests[f"{home.__name__}.{public_object.__qualname__}"]
        assert examples, f"{module}.{name}"
        assert not any(doctest.SKIP in example.options for example in examples), f"{module}.{name}"


def test_names_that_moved_say_where_they_are():
    for module, names in gspen_ner._MOVED.items():
        for name in names.split():
            assert hasattr(importlib.import_module(f"gspen_ner.{module}"), name)
            with pytest.raises(
                ImportError, match=f"^gspen_ner.{name} moved: from gspen_ner.{module} import {name}$"
            ):
                exec(f"from gspen_ner import {name}")
    rooms = {"tasks": "gspen_ner.ner", "experiments": "gspen_ner.runs", "bench": "recipes.bench"}
    for module, instead in rooms.items():
        with pytest.raises(ImportError, match=instead):
            exec(f"from gspen_ner import {module}")
    assert not hasattr(gspen_ner, "no_such_name")


def test_documentation_uses_every_exported_name():
    files = [ROOT / "README.md", ROOT / "docs" / "guide.md", *ROOT.glob("notebooks/*.ipynb")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    assert [name for name in gspen_ner.__all__ if not re.search(rf"\b{name}\b", text)] == []


def rooms():
    """The modules and folders of the package, in the order of the map in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = re.search(r"^\| room .*?\n(?=\n)", text, re.DOTALL | re.MULTILINE)[0]
    firsts = [row.split("|")[1] for row in table.splitlines()]
    return [name for first in firsts for name in re.findall(r"`(\w+)(?:/|\.py)`", first)]


def test_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == gspen_ner.__version__
    assert citation["references"][0]["title"] == "Graph Structured Prediction Energy Networks"


def test_the_map_shows_every_room():
    present = {path.stem for path in (ROOT / "gspen_ner").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert sorted(rooms()) == sorted(present - {"__init__", "__pycache__", "recipes"})


def test_imports_point_only_upwards():
    """No module imports from a room further down the map."""
    order = rooms()
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


def test_the_package_imports_no_studies():
    """No module of the package imports `recipes` or `tests`, which are not installed."""
    for file in (ROOT / "gspen_ner").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {name.split(".")[0] for name in names} & {"recipes", "tests"}, file


@pytest.mark.slow
def test_the_inference_demo():
    script = ROOT / "recipes" / "inference_demo.py"
    output = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    assert "converged" in output
    assert output.count("LOC (0.99)") == 2  # the two mentions that the document term corrects
