"""The meaning of other tools' files: sizes of collectives, labels, and ambiguous rows."""

import json

import numpy as np
import pytest
from graph_files import edges, message, varint, write

from toruscast._mesh.hlo import parse_program
from toruscast._mesh.hlo_groups import parse_groups
from toruscast.errors import InputError
from toruscast.formats import read_comm
from toruscast.formats.graphs import GraphOptions
from toruscast.formats.readers import graph_facts
from toruscast.formats.source import as_text
from toruscast.formats.traces import buffer_size
from toruscast.mapping import Workload, sum_edges


@pytest.mark.parametrize(
    ("kind", "each", "whole"),
    [
        ("ALL_GATHER", 4 * 3 * 1000, 3 * 1000),
        ("GATHER", 3 * 1000, 3 * 250),
        ("ALL_REDUCE", 6 * 1000, 6 * 1000),
        ("REDUCE_SCATTER", 3 * 1000, 3 * 1000),
        ("ALL_TO_ALL", 4 * 3 * 250, 4 * 3 * 250),
        ("BROADCAST", 3 * 1000, 3 * 1000),
        ("SCATTER", 3 * 250, 3 * 250),
    ],
)
def test_sizes_of_chakra_are_what_a_rank_puts_in(tmp_path, kind, each, whole):
    node = {"id": 1, "type": "COMM_COLL_NODE", "comm_type": kind, "comm_size": 1000}
    path = write(tmp_path, json.dumps({"nodes": [node]}), "run.json")
    assert read_comm(path, n_tasks=4).nbytes.sum() == each
    assert read_comm(path, n_tasks=4, gathered="whole").nbytes.sum() == whole


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        message((1, "0.0.4")),
        message((2, message((1, "schema"), (29, "1.1.0"))), (2, message((1, "pid"), (13, 7)))),
        message((2, message((1, "input_file"), (29, "<algo>\n" * 20_000)))),
    ],
    ids=["empty", "version", "attributes", "long"],
)
def test_chakra_is_known_whatever_its_metadata(tmp_path, metadata):
    attributes = ((1, "comm_dst"), (9, 1)), ((1, "comm_size"), (9, 64))
    node = message((1, 5), (2, "s"), (3, 5), *((10, message(*each)) for each in attributes))
    parts = [metadata, node]
    path = write(tmp_path, b"".join(varint(len(p)) + p for p in parts), "run.0.et")
    assert edges(read_comm(path)) == {(0, 1): 64.0}


@pytest.mark.parametrize(
    ("collective", "sent", "received", "size"),
    [
        # Four ranks with a vector or block of 100 bytes, as Score-P writes them.
        ("allreduce", 400, 400, 100),
        ("bcast", 400, 100, 100),
        ("reduce", 100, 400, 100),
        ("gather", 100, 400, 400),
        ("scatter", 400, 100, 400),
        ("allgather", 400, 400, 400),
        ("alltoall", 400, 400, 400),
        ("reduce_scatter", 400, 400, 400),
        # In place: without a rank's own block of 99 bytes.
        ("allreduce", 297, 297, 99),
        ("allgather", 297, 297, 396),
    ],
)
def test_sizes_of_otf2_are_those_of_score_p(collective, sent, received, size):
    assert buffer_size(collective, 4, sent, received) == size


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("mesh['a'=2,'b'=4] {'b'}", [[0, 1, 2, 3], [4, 5, 6, 7]]),
        ("mesh['a'=2,'b'=4] {'b':(1)2,'a'}", [[0, 4, 2, 6], [1, 5, 3, 7]]),
        ("mesh['a'=8] {'a':(1)2,'a':(4)2}", [[0, 1, 4, 5], [2, 3, 6, 7]]),
        ("mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'x'}", [[0, 1], [2, 3]]),
        ("mesh[a=2,b=4], device_ids=([4,2]T(1,0)) {b}", [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ("@mesh<u=2,v=2>(devices=[2,2]<=[2,2]T(1,0)) {v}", [[0, 2], [1, 3]]),
        ("mesh['a'=1,'b'=2] {'a'}", [[0], [1]]),
    ],
)
def test_groups_of_named_meshes(text, groups):
    assert parse_groups(text, 8).tolist() == groups
    line = f"a = f32[8] all-reduce(x), channel_id=1, replica_groups={text}, to_apply=add"
    program = parse_program(as_text("HLO text", line.encode()), GraphOptions())
    assert program.collectives[0].groups.tolist() == groups


def test_facts_are_of_all_phases_together():
    rng, phases = np.random.default_rng(1), []
    for _ in range(3):
        src, dst = rng.integers(0, 9, (2, 40))
        phases.append(sum_edges(12, src, dst, rng.integers(1, 9, 40)))
    workload = Workload(phases)
    facts, total = graph_facts(workload), workload.total
    assert (facts["edges"], facts["bytes"]) == (total.n_edges, total.nbytes.sum())
    both = sum_edges(
        12, *(np.concatenate(c) for c in ((total.src, total.dst), (total.dst, total.src))),
        np.tile(total.nbytes, 2),
    )  # fmt: skip
    assert not facts["symmetric"]
    assert graph_facts(both)["symmetric"]
    assert facts["isolated"] == 12 - np.unique([total.src, total.dst]).size


def test_labels_order_the_tasks(tmp_path):
    text = ",0,2,1\n0,0.0,5.0,7.0\n2,0.0,0.0,3.0\n1,1.0,0.0,0.0\n"
    expected = {(0, 1): 7.0, (0, 2): 5.0, (1, 0): 1.0, (2, 1): 3.0}
    for mark in ",;\t":
        assert edges(read_comm(write(tmp_path, text.replace(",", mark)))) == expected
    names = text.replace(",0,2,1\n", ",a,c,b\n").replace("\n0,", "\na,")
    names = names.replace("\n2,", "\nc,").replace("\n1,", "\nb,")
    assert edges(read_comm(write(tmp_path, names)))[0, 1] == 5.0


def test_arrays_of_numpy(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([[0, 64], [8, 0]]))
    assert edges(read_comm(path)) == {(0, 1): 64.0, (1, 0): 8.0}
    np.savez(tmp_path / "b.npz", i=[0, 0], j=[1, 1], v=[3, 4])
    names = {"src": "i", "dst": "j", "nbytes": "v"}
    with pytest.raises(InputError, match="duplicate edge"):
        read_comm(tmp_path / "b.npz", columns=names)
    summed = read_comm(tmp_path / "b.npz", columns=names, duplicates="sum")
    assert edges(summed) == {(0, 1): 7.0}


def test_labels_of_scotch_number_the_neighbours(tmp_path):
    text = "0\n3 4\n0 110\n2 1 5 0\n0 2 5 2 7 1\n1 1 7 0\n"
    assert edges(read_comm(write(tmp_path, text))) == {
        (0, 1): 7, (0, 2): 5, (1, 0): 7, (2, 0): 5,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["0 1 8,5\n1 2 3\n", "0;1;8,5\n1;2;3\n", "# x\n0\t1\t8,5\n"])
def test_decimal_commas_are_named_with_their_line(tmp_path, text):
    line = text.count("#") + 1
    with pytest.raises(InputError, match=rf":{line}: .*found 8,5.*decimal point"):
        read_comm(write(tmp_path, text))


def test_semicolons_separate_edges(tmp_path):
    assert edges(read_comm(write(tmp_path, "0;1;64\n1;2;8.5\n"))) == {(0, 1): 64.0, (1, 2): 8.5}
