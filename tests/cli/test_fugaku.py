"""Rank orders of launchers: jobs on Fugaku, blocks of Blue Gene."""

import json
from itertools import product

import numpy as np
import pytest

from toruscast.cli import main
from toruscast.mapping import Torus
from toruscast.mapping.patterns import halo_3d, ring
from toruscast.mapping.strategies.permute import job_mappings, job_torus, map_ranks
from toruscast.simulation import simulate_flows


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code, *capsys.readouterr()


def test_orders_as_the_system_lays_ranks_out():
    # The first letter varies fastest; ranks beyond the nodes start again.
    shape = (2, 3, 4)
    for order in ("XYZ", "ZYX", "YXZ"):
        sizes = [shape["XYZ".index(letter)] for letter in reversed(order)]
        expected = []
        for place in product(*map(range, sizes)):
            at = dict(zip(reversed(order), place, strict=True))
            expected.append((at["X"] * 3 + at["Y"]) * 4 + at["Z"])
        made = map_ranks(f"rank-map-bynode={order}", job_torus(shape)[0], 30)
        assert made.node.tolist() == expected + expected[:6]


def test_the_order_of_the_application_is_faster():
    # The last dimension of the halo varies fastest and has 8 ranks, as Z has nodes.
    comm = halo_3d((4, 6, 8), 1e6)
    mappings, in_job = job_mappings(comm, (4, 6, 8))
    found = {each.name: each for each in mappings}
    torus, _ = job_torus((4, 6, 8))
    time = {
        order: simulate_flows(comm, torus, found[f"rank-map-bynode={order}"]).time
        for order in ("XYZ", "ZYX")
    }
    assert time["ZYX"] < time["XYZ"]
    assert sorted(in_job["rank-map-bynode=ZYX"].node.tolist()) == list(range(192))
    assert in_job["rank-map-bynode=ZYX"].torus == Torus((4, 6, 8))


def test_nodes_that_are_not_contiguous():
    coords = np.array([[5, 7, 9, a, b, 0] for a in range(2) for b in range(3)])
    coords[3:, 0] = 8
    torus, place = job_torus((2, 3), coords)
    assert torus.shape == (4, 1, 1, 2, 3, 2)
    assert not any(torus.wrap[:3])
    assert torus.coords[place].tolist() == (coords - [5, 7, 9, 0, 0, 0]).tolist()
    mappings, in_job = job_mappings(halo_3d((1, 2, 3), 1e5), (2, 3), coords)
    assert sorted(in_job) == ["loop", "rank-map-bynode=XY", "rank-map-bynode=YX", "snake"]
    for mapping in mappings:
        assert mapping.torus == torus
        assert mapping.node.tolist() == place[in_job[mapping.name].node].tolist()


@pytest.mark.parametrize("shape", [(4, 6, 8), (3, 4), (12,)])
def test_a_ring_of_ranks_is_folded_into_the_job(shape):
    n = int(np.prod(shape))
    _, in_job = job_mappings(ring(n, 1e5), shape)
    torus, _ = job_torus(shape)
    if len(shape) == 1:
        assert "loop" not in in_job
        return
    around = in_job["loop"].node
    assert sorted(around) == list(range(n))
    assert (torus.distance(around, np.roll(around, 1)) == 1).all()


def test_rank_writes_a_vcoordfile(capsys, tmp_path):
    file = tmp_path / "best.vcoord"
    words = "rank --comm lammps-lj-64 --torus fugaku:4x4x4 --candidates orders --no-simulation"
    code, out, _ = run(capsys, *words.split(), "--out", str(file), "--json", "-", "-q")
    assert code == 0
    answer = json.loads(out)
    named = {row["mapping"] for row in answer["ranking"]}
    assert {"rank-map-bynode=XYZ", "rank-map-bynode=ZYX", "loop", "snake"} < named
    assert answer["default_order"] == "rank-map-bynode=XYZ"
    lines = file.read_text().splitlines()
    assert len(set(lines)) == 64
    assert all(line[0] == "(" and line.count(",") == 2 for line in lines)


def test_a_scattered_job_is_written_in_its_own_shape(capsys, tmp_path):
    coords, file = tmp_path / "coords", tmp_path / "best.vcoord"
    places = [(x, 0, 0, a, b, 0) for x in (3, 7) for a in range(2) for b in range(2)]
    # Coordinates as printed by several programs: with blanks, as tuples, in two brackets.
    forms = ["{} {} {} {} {} {}\n", "({}, {}, {}, {}, {}, {}),\n", "({},{},{})({},{},{})\n"]
    coords.write_text("".join(forms[i % 3].format(*place) for i, place in enumerate(places)))
    (tmp_path / "ring.csv").write_text(
        "src,dst,nbytes\n" + "".join(f"{i},{(i + 1) % 8},4096\n" for i in range(8))
    )
    words = f"rank --comm {tmp_path}/ring.csv --torus fugaku:2x4 --no-simulation --coords {coords}"
    code, out, _ = run(capsys, *words.split(), "--out", str(file), "--json", "-", "-q")
    assert code == 0
    assert json.loads(out)["torus"]["name"] == "tofu_d 5mx1mx1mx2mx3x2m"
    found = {tuple(map(int, line.strip("()").split(","))) for line in file.read_text().split()}
    assert found == set(product(range(2), range(4)))


def test_orders_of_blue_gene_are_its_letters(capsys):
    words = "features --comm lammps-lj-64 --torus bluegene_p:4mx4mx4m --candidates orders --json -"
    code, out, _ = run(capsys, *words.split(), "-q")
    assert code == 0
    named = {row["mapping"] for row in json.loads(out)["features"]}
    assert {"XYZT", "TXYZ"} < named
    assert len(named) == 24
