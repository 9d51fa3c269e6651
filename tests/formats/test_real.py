"""Files that other projects and machines wrote."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from toruscast.errors import InputWarning
from toruscast.formats import read_comm, read_mapping, read_mappings
from toruscast.mapping import Torus

CAPTURES = sorted((Path(__file__).parents[2] / "datasets").glob("*.prof.gz"))
APPS = ("amg", "btmz", "cg", "lulesh")
# Their authors ran this strategy again after they had recorded its hop-bytes.
RERUN = {("amg", "bokhari"), ("btmz", "bokhari")}
# The statistics call some strategies otherwise than the mapping files do.
OTHER_NAMES = {
    "fast_high_greedy": "FHGreedy",
    "greedy_all_c": "greedyALLC",
    "greedy_graph_embedding": "greedy",
    "recursive_bipartitioning": "bipartition",
    "topology_aware": "topo_aware",
}


@pytest.mark.parametrize("app", APPS)
def test_maplib_hop_bytes(shared_data, app):
    matrices = shared_data / "maplib" / "mapping-matters-commMatrices" / f"{app}CMatrices"
    comm = read_comm(
        matrices / "comm_matrix.p2p.size.csv", messages=matrices / "comm_matrix.p2p.count.csv"
    )
    folder = shared_data / "maplib" / "mapping-matters-Mappings" / "size" / f"{app}MAPtorus"
    statistics = (folder / f"{app}TorusMapSizeStatistics").read_text()
    rows = re.findall(r"Mapping: (\S+) .*?IePLC +: \((\d+),.*?IeNPC +: \((\d+),", statistics, re.S)
    totals = {name: int(hop_bytes) for name, _, hop_bytes in rows}
    assert {int(total) for _, total, _ in rows} == {comm.nbytes.sum()}
    torus = Torus((4, 4, 4))
    mappings = read_mappings(folder, torus)
    assert len(mappings) == 12
    for mapping in mappings:
        hops = torus.distance(mapping.node[comm.src], mapping.node[comm.dst])
        hop_bytes = (comm.nbytes * np.where(comm.src == comm.dst, 1, hops)).sum()
        recorded = totals[OTHER_NAMES.get(mapping.name, mapping.name)]
        if (app, mapping.name) not in RERUN:
            assert hop_bytes == recorded, mapping.name


def test_maplib_file(shared_data):
    folder = shared_data / "maplib" / "mapping-matters-Mappings" / "size" / "cgMAPtorus"
    mapping = read_mapping(
        folder / "Mapping.p2p.size.csv.hilbert.torus.4x4x4.csv", Torus((4, 4, 4))
    )
    assert mapping.name == "hilbert"
    assert sorted(mapping.node.tolist()) == list(range(64))


def test_analmap(shared_data):
    comm = read_comm(shared_data / "analmap" / "sp.D.1024.topo")
    # Each of the 1024 processes of SP has six neighbours.
    assert (comm.n_tasks, comm.n_edges) == (1024, 6144)
    assert (np.bincount(comm.src) == 6).all()
    assert comm.nbytes.sum() == 3209578288128


def test_par_comm_data(shared_data):
    files = sorted((shared_data / "par-comm-data" / "hopbyte").iterdir())
    assert files
    for file in files:
        # The fourth column holds hops: it is omitted, or a warning says how it is read.
        with pytest.warns(InputWarning, match="Not counted: 1 column|may be hops"):
            comm = read_comm(file)
        comm = read_comm(file, columns={"src": "1", "dst": "2", "nbytes": "3"})
        rows = np.loadtxt(file)
        assert comm.n_tasks == 1 + rows[:, :2].max()
        assert comm.n_edges == len(rows)
        assert comm.nbytes.sum() == rows[:, 2].sum()
        assert (comm.n_messages == 1).all()


@pytest.mark.parametrize("file", CAPTURES, ids=lambda file: file.name)
def test_captures(file):
    everything, sent, inside = (
        read_comm(file, include=part) for part in ("all", "point_to_point", "collective")
    )
    assert everything.name == file.name.removesuffix(".prof.gz")
    assert everything.n_tasks == int(everything.name.rsplit("-", 1)[1])
    assert everything.nbytes.sum() == sent.nbytes.sum() + inside.nbytes.sum()
    assert everything.n_messages.sum() == sent.n_messages.sum() + inside.n_messages.sum()
    text = gzip.decompress(file.read_bytes()).decode()
    assert sent.nbytes.sum() == sum(map(int, re.findall(r"^E\t.*?(\d+) bytes", text, re.M)))
    assert inside.n_messages.sum() == sum(map(int, re.findall(r"^I\t.*?(\d+) msgs", text, re.M)))
