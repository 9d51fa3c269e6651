"""Lines of busy links: what they show, and that only a wide terminal gets them."""

import io

import numpy as np
import pytest
from rich.console import Console

import toruscast as tc
from toruscast.answers.heat import STEPS, heat_lines
from toruscast.cli.rank.report import print_heat
from toruscast.features import RoutedTraffic


@pytest.fixture(scope="module")
def found():
    halo, torus = tc.patterns.halo_2d((4, 4), 4096, periodic=True), tc.Torus((2, 4, 2))
    return tc.forecast(halo, torus, tc.strategies.sample(halo, torus, n=4))


@pytest.mark.parametrize("width", [2, 3, 40])
def test_each_character_is_the_busiest_link_of_its_coordinates(found, width):
    torus = found.torus
    routed = RoutedTraffic(found.workload, torus, found.mappings[-1])
    busy = routed.all_wire_bytes / torus.link_bandwidth
    for k, (axis, *lines) in enumerate(heat_lines(routed, width)):
        assert axis == torus.axes[k]
        parts = np.array_split(np.arange(torus.shape[k]), min(width, torus.shape[k]))
        for way, line in enumerate(lines):
            most = [
                max(
                    busy[node * 2 * torus.ndim + 2 * k + way]
                    for node in range(torus.n_nodes)
                    if torus.coords[node, k] in part
                )
                for part in parts
            ]
            shown = [STEPS[int(np.ceil(8 * each / busy.max()))] for each in most]
            assert line == "".join(shown)


def test_nothing_sent_is_all_blank():
    torus = tc.Torus((3, 2))
    routed = RoutedTraffic(
        tc.Workload([tc.CommGraph(2, [0], [1], [8])]), torus, tc.TaskMapping([4, 4], torus)
    )
    assert {char for _, *lines in heat_lines(routed, 9) for line in lines for char in line} == {" "}


def printed(found, **console):
    file = io.TextIOWrapper(io.BytesIO(), encoding=console.pop("encoding", "utf-8"))
    print_heat(found, Console(file=file, highlight=False, markup=False, **console))
    file.seek(0)
    return file.read()


def test_only_a_wide_terminal_shows_them(found):
    shown = printed(found, force_terminal=True, width=100)
    assert "Links of the best" in shown
    assert "Links of the worst" in shown
    assert "full block" in shown
    assert "█" in shown
    assert printed(found, force_terminal=True, width=70) == ""
    assert printed(found, force_terminal=False, width=100) == ""
    assert printed(found, force_terminal=True, width=100, encoding="ascii") == ""
