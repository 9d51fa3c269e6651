"""Every example of docs/reference/formats.md is read as the page says."""

import re
from pathlib import Path

import numpy as np
import pytest

from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.mapping.formats import read_comm, read_mappings, read_times

PAGE = (Path(__file__).parents[2] / "docs/reference/formats.md").read_text()
GRAPHS, MAPPINGS, TIMES = (
    re.findall(r"```text\n(.*?)```", part, re.S)
    for part in re.split("## Task mappings|## Measured times", PAGE)
)


def test_graphs(tmp_path):
    path = tmp_path / "app.txt"
    edges, named, either = GRAPHS
    path.write_text(edges)
    assert (read_comm(path).n_tasks, read_comm(path).n_edges) == (4, 5)
    path.write_text(named)
    assert (read_comm(path).n_tasks, read_comm(path).grid) == (8, (4, 2))
    path.write_text(either)
    with pytest.raises(InputError, match="or a matrix"):
        read_comm(path)
    assert read_comm(path, format="edges").dst.tolist() == [1, 0, 2]
    assert read_comm(path, format="matrix").n_tasks == 3


@pytest.mark.parametrize("text", MAPPINGS)
def test_mappings(tmp_path, text):
    path = tmp_path / "a.map"
    path.write_text(text)
    np.testing.assert_array_equal(read_mappings(path, Torus((2, 2)))[-1].node, [1, 0, 3, 2])


@pytest.mark.parametrize("text", [*TIMES, TIMES[0].partition("\n")[2].replace(",", " ")])
def test_times(tmp_path, text):
    path = tmp_path / "times.csv"
    path.write_text(text)
    assert read_times(path) == {"identity": 0.00125, "turned": 0.00214}


@pytest.mark.parametrize(("text", "width"), [("0,1\n1,0\n", 2), ("0 1 0\n1 0 0\n", 3)])
def test_columns_without_names_are_told_how_to_get_them(tmp_path, text, width):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_mappings(path, Torus((2, 2, 2)))
    assert str(caught.value) == (
        f"{path}:1: columns of a mapping without names: found {width} columns: "
        f"{text.splitlines()[0]}, expected 4 (coordinates, slot) or 1 (node), or names above them "
        "such as task,node"
    )
