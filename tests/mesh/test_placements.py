"""Every place of a smaller mesh in a torus."""

import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner

import toruscast as tc
from toruscast._mesh import step_time
from toruscast._mesh.devices import Devices
from toruscast._mesh.ranking import list_placements
from toruscast.cli import main
from toruscast.errors import InputError


def boxes(shape, wrap, box):
    """Node sets of all boxes of these sizes, slowly."""
    found = set()
    for corner in itertools.product(*map(range, shape)):
        cells = []
        for cell in itertools.product(*map(range, box)):
            place = [c + k for c, k in zip(corner, cell, strict=True)]
            if any(x >= n and not w for x, n, w in zip(place, shape, wrap, strict=True)):
                break
            cells.append(tuple(x % n for x, n in zip(place, shape, strict=True)))
        else:
            found.add(frozenset(cells))
    return found


@pytest.mark.parametrize("wrap", [(False, False), (True, False), (True, True)])
def test_all_places_are_given_once(wrap):
    torus = tc.Torus((6, 4), wrap=wrap, bandwidth=1e9)
    answer = tc.mesh(torus, {"x": 2, "y": 3}, "x:allreduce:4MB,y:allgather:4MB", top=1, simulate=0)
    found = list_placements(answer)
    coords = {
        frozenset(map(tuple, torus.coords[each.layout.nodes.ravel()].tolist())) for each in found
    }
    box = np.ptp(torus.coords[answer.best.nodes.ravel()], axis=0) + 1
    assert coords == boxes((6, 4), wrap, box)
    assert len(coords) == len(found)
    times = [each.time for each in found]
    assert times == pytest.approx(sorted(times))
    for each in found:
        assert each.time == pytest.approx(
            step_time(each.layout.nodes, torus, answer.axes, answer.problem.traffic)
        )


def test_layouts_are_turned_where_dimensions_are_alike():
    torus = tc.Torus((4, 4), wrap=False, bandwidth=1e9)
    for kind, shapes in (("permute", {(1, 1)}), ("pipeline", {(0, 3), (3, 0)})):
        answer = tc.mesh(torus, {"x": 4}, f"x:{kind}:4MB", top=1, simulate=0)
        found = list_placements(answer)
        assert {tuple(np.ptp(torus.coords[each.layout.nodes], axis=0)) for each in found} == shapes


def test_of_equal_places_that_which_leaves_most_free_comes_first():
    torus = tc.Torus((2, 6), wrap=False, bandwidth=1e9)
    answer = tc.mesh(torus, {"x": 4}, "x:exchange:4MB", top=1, simulate=0)
    found = list_placements(answer)
    assert [each.corner for each in found] == [(0, 0), (0, 4), (0, 1), (0, 3), (0, 2)]
    assert [each.free_box for each in found] == [8, 8, 6, 6, 4]


def test_places_keep_to_the_devices_that_are_there():
    torus = tc.Torus((4, 4), wrap=False, bandwidth=1e9)
    there = np.setdiff1d(np.arange(16), [5])
    answer = tc.mesh(
        torus,
        {"x": 4},
        "x:exchange:4MB",
        devices=Devices(np.arange(15), there),
        top=1,
        simulate=0,
    )
    found = list_placements(answer)
    assert len(found) == 5
    assert all(5 not in each.layout.nodes for each in found)


def test_very_many_places_are_refused():
    torus = tc.Torus((20, 20, 20))
    answer = tc.mesh(torus, {"x": 2}, "x:exchange:4MB", top=1, simulate=0)
    with pytest.raises(InputError, match="too many placements"):
        list_placements(answer)


def test_the_command_lists_places_and_writes_the_first(tmp_path):
    words = "mesh --torus galaxy:8mx4m --axes x=2,y=4 --traffic x:allgather:4MB,y:allreduce:8MB"
    path = tmp_path / "bindings.yaml"
    words += f" --top 1 --placements --write tt-rank-bindings={path}"
    ran = CliRunner().invoke(main, words.split())
    assert ran.exit_code == 0, ran.stderr
    assert "placements in galaxy" in ran.stdout
    ran = CliRunner().invoke(main, [*words.split()[:-2], "--json", "-"])
    first = json.loads(ran.stdout)["placements"][0]
    written = tc.read_mapping(path, tc.torus("galaxy:8mx4m"), n_tasks=8)
    assert written.node.tolist() == np.ravel(first["nodes"]).tolist()
    assert first["free_box"] == 24
