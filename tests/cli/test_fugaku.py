"""Rank orders of a job on Fugaku."""

import json
from itertools import product

import numpy as np
import pytest

from toruscast.cli import main
from toruscast.mapping.patterns import halo_3d, ring
from toruscast.simulation.rank_orders import job_torus, rank_order, rank_orders


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code, *capsys.readouterr()


def test_orders_as_the_system_lays_ranks_out():
    # The first letter runs fastest; more ranks than nodes begin anew.
    shape = (2, 3, 4)
    for order in ("XYZ", "ZYX", "YXZ"):
        sizes = [shape["XYZ".index(letter)] for letter in reversed(order)]
        expected = []
        for place in product(*map(range, sizes)):
            at = dict(zip(reversed(order), place, strict=True))
            expected.append((at["X"] * 3 + at["Y"]) * 4 + at["Z"])
        assert rank_order(shape, order, 30).tolist() == expected + expected[:6]


def test_the_order_of_the_application_wins():
    # Ranks of the halo run fastest along its last dimension, of 8 as Z has.
    comm = halo_3d((4, 6, 8), 1e6)
    table, nodes = rank_orders(comm, (4, 6, 8))
    assert table["order"].iloc[0] in ("ZYX", "bisect-refined", "greedy-heaviest")
    times = table.set_index("order")["time"]
    assert times["ZYX"] < times["XYZ"]
    gain = table.set_index("order")["gain"]
    assert gain["XYZ"] == 0
    assert gain["ZYX"] == pytest.approx(1 - times["ZYX"] / times["XYZ"])
    assert sorted(nodes["ZYX"].tolist()) == list(range(192))


def test_nodes_that_are_not_contiguous():
    coords = np.array([[5, 7, 9, a, b, 0] for a in range(2) for b in range(3)])
    coords[3:, 0] = 8
    torus, place = job_torus((2, 3), coords)
    assert torus.shape == (4, 1, 1, 2, 3, 2)
    assert not any(torus.wrap[:3])
    assert torus.coords[place].tolist() == (coords - [5, 7, 9, 0, 0, 0]).tolist()
    table, _ = rank_orders(halo_3d((1, 2, 3), 1e5), (2, 3), coords=coords)
    assert sorted(table["order"]) == ["XY", "YX", "loop", "snake"]


@pytest.mark.parametrize("shape", [(4, 6, 8), (3, 4), (12,)])
def test_a_ring_of_ranks_is_folded_into_the_job(shape):
    n = int(np.prod(shape))
    table, nodes = rank_orders(ring(n, 1e5), shape)
    time = table.set_index("order")["time"]
    torus, _ = job_torus(shape)
    default = "XYZ"[: len(shape)]
    assert time.min() <= time[default]
    if len(shape) == 1:
        assert "loop" not in nodes
        return
    around = nodes["loop"]
    assert sorted(around) == list(range(n))
    assert (torus.distance(around, np.roll(around, 1)) == 1).all()
    assert time["loop"] == time.min()


def test_the_command_writes_a_vcoordfile(capsys, tmp_path):
    file = tmp_path / "best.vcoord"
    words = ["4x4x4", "--comm", "lammps-lj-64", "--vcoordfile", str(file), "--json", "-", "-q"]
    code, out, _ = run(capsys, "fugaku", *words)
    assert code == 0
    ranking = json.loads(out)["ranking"]
    assert {row["order"] for row in ranking} >= {"XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX"}
    assert all(row["time"] >= row["lower_bound"] for row in ranking)
    lines = file.read_text().splitlines()
    assert len(set(lines)) == 64
    assert all(line[0] == "(" and line.count(",") == 2 for line in lines)


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["4x4xx", "--comm", "lammps-lj-64"], "bad job shape"),
        (["4x4x4x4", "--comm", "lammps-lj-64"], "bad Fugaku job shape"),
        (["4x4x4"], "Missing option '--comm'"),
        (["4x4x4", "--comm", "lammps-lj-64", "--coords", "none.txt"], "none.txt: no such file"),
    ],
)
def test_wrong_words(capsys, words, fault):
    code, _, err = run(capsys, "fugaku", *words)
    assert code == 2
    assert fault in err
    assert len(err.strip().splitlines()) == 1


def test_bad_coordinates_name_their_line(capsys, tmp_path):
    file = tmp_path / "coords"
    file.write_text("(0,0,0,0,0,0)\n0 0 0 1 0\n")
    words = ["2", "--comm", "lammps-lj-64", "--coords", str(file)]
    code, _, err = run(capsys, "fugaku", *words)
    assert code == 2
    assert "line 2" in err or f"{file}:2" in err
    file.write_text("0 0 0 0 0 0\n" * 2)
    code, _, err = run(capsys, "fugaku", *words)
    assert code == 2
    assert "different nodes" in err
