"""The tools accept written files, and the files that they write are read correctly."""

import os
import re
import shutil
import socket
import subprocess

import numpy as np
import pytest

from toruscast.formats import (
    read_comm,
    read_mapping,
    read_torus,
    write_comm,
    write_mapping,
    write_torus,
)
from toruscast.mapping import CommGraph, Hosts, TaskMapping, Torus


def run(folder, *command):
    """Return the output of a tool; skip the test if the tool is not installed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture
def graph():
    rng = np.random.default_rng(1)
    a, b = np.triu_indices(24, 1)
    kept = rng.random(a.size) < 0.2
    weight = rng.integers(1, 99, kept.sum())
    ends = np.concatenate([a[kept], b[kept]]), np.concatenate([b[kept], a[kept]])
    return CommGraph(24, *ends, np.concatenate([weight, weight]))


@pytest.mark.parametrize("mesh", [False, True])
def test_scotch_counts_nodes_as_is_read(tmp_path, graph, mesh):
    torus = Torus((2, 3, 4), wrap=not mesh)
    write_comm(graph, tmp_path / "app.grf")
    write_torus(torus, tmp_path / "torus.tgt")
    said = run(tmp_path, "scotch_gmap", "app.grf", "torus.tgt", "best.txt", "-vm")
    mapping = read_mapping(tmp_path / "best.txt", torus)
    hops = torus.distance(mapping.node[graph.src], mapping.node[graph.dst])
    # Scotch sums weights times hops over the edges, of which each goes both ways here.
    told = int(re.search(r"CommExpan=\S+\s*\((\d+)\)", said)[1])
    assert told == (hops * graph.nbytes).sum() / 2
    assert float(re.search(r"CommDilat=(\S+)", said)[1]) == pytest.approx(hops.mean(), abs=1e-6)


def test_scotch_reads_back_a_written_mapping(tmp_path, graph):
    torus = Torus((2, 3, 4))
    write_comm(graph, tmp_path / "app.grf")
    write_torus(torus, tmp_path / "torus.tgt")
    mapping = TaskMapping(np.random.default_rng(2).permutation(24), torus)
    write_mapping(mapping, tmp_path / "best.txt", "scotch-map")
    if shutil.which("gmtst") is None and shutil.which("scotch_gmtst") is None:
        pytest.skip("gmtst is not installed")
    tool = "gmtst" if shutil.which("gmtst") else "scotch_gmtst"
    said = run(tmp_path, tool, "app.grf", "torus.tgt", "best.txt")
    hops = torus.distance(mapping.node[graph.src], mapping.node[graph.dst])
    assert float(re.search(r"CommDilat=(\S+)", said)[1]) == pytest.approx(hops.mean(), abs=1e-6)


def test_metis_parts_are_nodes(tmp_path, graph):
    write_comm(graph, tmp_path / "app.graph")
    run(tmp_path, "gpmetis", "app.graph", "4")
    mapping = read_mapping(tmp_path / "app.graph.part.4", Torus((2, 2)), n_tasks=24)
    inside = mapping.node[graph.src] == mapping.node[graph.dst]
    assert mapping.n_tasks == 24
    assert graph.nbytes[inside].sum() > graph.nbytes.sum() / 4
    assert read_comm(tmp_path / "app.graph").n_edges == graph.n_edges


@pytest.mark.parametrize(
    ("file", "options"),
    [("best.rankfile", ["--rankfile"]), ("best.hosts", ["--map-by", "seq", "--hostfile"])],
)
def test_mpirun_lays_out_ranks(tmp_path, file, options):
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one processor: no second slot")
    hosts = Hosts([socket.gethostname()], [0], Torus((2,)))
    write_mapping(TaskMapping([0, 0], Torus((2,)), tasks_per_node=2), tmp_path / file, hosts=hosts)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    command = ["sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK"]
    said = run(tmp_path, "mpirun", *root, *options, file, "-np", "2", *command)
    assert sorted(re.findall(r"rank (\d)", said)) == ["0", "1"]


def test_simgrid_loads_the_platform(tmp_path):
    torus = Torus((2, 3, 4), bandwidth=1e9)
    write_torus(torus, tmp_path / "torus.xml")
    run(tmp_path, "simgrid-graphicator", "torus.xml", "torus.dot")
    hosts = set(re.findall(r"node-\d+", (tmp_path / "torus.dot").read_text()))
    assert len(hosts) == torus.n_nodes
    assert read_torus(tmp_path / "torus.xml").shape == torus.shape
