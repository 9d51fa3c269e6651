import hashlib

import numpy as np
import pytest

from toruscast import datasets
from toruscast.errors import InputError
from toruscast.formats import read_comm

KINDS = {"point_to_point": "point_to_point", "collective": "inside_collectives"}


def test_names_are_those_of_the_main_demonstration_and_more():
    assert {"lammps-lj-64", "lammps-lj-512"} < set(datasets.names())
    assert datasets.names() == sorted(datasets.names())


@pytest.mark.parametrize("name", datasets.names())
def test_file_is_the_one_described(name):
    record = datasets.provenance(name)
    data = datasets.path(name).read_bytes()
    assert record["name"] == name
    assert record["bytes"] == len(data)
    assert record["sha256"] == hashlib.sha256(data).hexdigest()
    assert record["licence"] == "BSD-3-Clause"
    assert record["iterations"] > 0


@pytest.mark.parametrize("include", KINDS)
@pytest.mark.parametrize("name", datasets.names())
def test_traffic_is_the_one_described(name, include):
    record = datasets.provenance(name)
    graph = datasets.load(name, include=include)
    expected = record["traffic"][KINDS[include]]
    assert graph.name == name
    assert graph.n_tasks == record["ranks"]
    assert graph.n_edges == expected["edges"]
    assert graph.nbytes.sum() == expected["bytes"]
    assert graph.n_messages.sum() == expected["messages"]


@pytest.mark.parametrize("include", ["all", *KINDS])
@pytest.mark.parametrize("name", datasets.names())
def test_the_arrays_hold_the_graph_of_the_text(name, include):
    text = read_comm(datasets.path(name), include=include)
    graph = datasets.load(name, include=include)
    assert graph.equals(text)
    assert graph.nbytes.dtype == text.nbytes.dtype == np.float64


def test_an_unknown_part_of_the_traffic_is_refused():
    with pytest.raises(InputError, match="bad include"):
        datasets.load("lammps-lj-64", include="both")


def test_all_traffic_is_the_sum_of_both_kinds():
    parts = [datasets.load("lammps-lj-64", include=include) for include in KINDS]
    whole = datasets.load("lammps-lj-64")
    assert whole.nbytes.sum() == sum(part.nbytes.sum() for part in parts)


@pytest.mark.parametrize("name", ["lammps-lj-64", "lammps-lj-512"])
def test_lennard_jones_melt_is_a_periodic_halo_on_its_grid(name):
    graph = datasets.load(name, include="point_to_point")
    assert graph.grid is not None
    shape = graph.grid
    expected = set()
    # Ranks in C order; six neighbours each, since every dimension has more than two ranks.
    for rank in range(graph.n_tasks):
        z = rank % shape[2]
        y = rank // shape[2] % shape[1]
        x = rank // (shape[2] * shape[1])
        for step in (-1, 1):
            for a, b, c in ((x + step, y, z), (x, y + step, z), (x, y, z + step)):
                neighbour = (a % shape[0] * shape[1] + b % shape[1]) * shape[2] + c % shape[2]
                expected.add((rank, neighbour))
    assert set(zip(graph.src.tolist(), graph.dst.tolist(), strict=True)) == expected
    assert len(expected) == 6 * graph.n_tasks


def test_provenance_is_the_callers_own_copy():
    datasets.provenance("lammps-lj-64")["ranks"] = 0
    assert datasets.provenance("lammps-lj-64")["ranks"] == 64


@pytest.mark.parametrize("ask", [datasets.path, datasets.provenance, datasets.load])
def test_unknown_name_lists_the_known_ones(ask):
    with pytest.raises(InputError, match=r"bad dataset: found nosuch.*lammps-lj-512") as error:
        ask("nosuch")
    assert error.value.found == "nosuch"
