"""Notebooks run, and give what they show."""

import copy
from pathlib import Path

import pytest
from documented import agree

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
NOTEBOOKS = sorted(Path(__file__).parents[2].glob("docs/notebooks/*.ipynb"))


def shown(notebook):
    """What each output shows, as text and as HTML."""
    data = [
        output.get("data", {"text/plain": output.get("text")})
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    return [each.get(kind) or "" for each in data for kind in ("text/html", "text/plain")]


def test_there_are_two():
    assert len(NOTEBOOKS) == 2


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_what_it_shows(path, tmp_path):
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    again = copy.deepcopy(stored)
    places = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(again, timeout=300, kernel_name="python3", resources=places).execute()
    pairs = zip(shown(stored), shown(again), strict=True)
    assert [(ours, theirs) for ours, theirs in pairs if not agree(ours, theirs)] == []
    assert list(tmp_path.iterdir()) == []
