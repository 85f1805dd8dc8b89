"""The notebooks: stored without outputs, and without an error from the first cell to the last."""

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
SECONDS = 600
CHECKS = {
    "flair_upgrade": [
        "assert f1_after > f1_before + 0.03, (f1_before, f1_after)",
        "assert strict_after > strict_before + 0.03, (strict_before, strict_after)",
        "assert same and abs(loss - loss_before) < 1e-4 * loss_before",
        "assert mended.total() > 2 * broken.total()",
        "assert list(results.values()) == [f1_after, f1_before, f1_before]",
        "assert not folder.exists()",
    ]
}
"""What holds when a notebook has run, in its own variables."""

every_notebook = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def test_every_check_has_its_notebook():
    assert set(CHECKS) <= {file.stem for file in NOTEBOOKS}


@every_notebook
def test_is_stored_without_outputs(file):
    notebook = json.loads(file.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    for cell in notebook["cells"]:
        assert cell["cell_type"] in ("markdown", "code")
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
@every_notebook
def test_runs_without_error(file, tmp_path):
    for needed in ("flair", "ipykernel", "matplotlib"):
        pytest.importorskip(needed)
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(file, as_version=4)
    checks = [nbformat.v4.new_code_cell(check) for check in CHECKS.get(file.stem, [])]
    notebook.cells += checks
    resources = {"metadata": {"path": str(tmp_path)}}
    client = nbclient.NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=resources)
    client.execute()  # raises at the first cell that fails
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert not list(tmp_path.iterdir())
