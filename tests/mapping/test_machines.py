"""The presets' published facts, and how a host is written."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import toruscast as tc
from toruscast.errors import InputError
from toruscast.mapping import Torus, machines


@pytest.mark.parametrize(
    ("block", "order"),
    [
        # As recorded on Vesta and Mira.
        ("2x2x2x2x2", "DCBAE"),
        ("2x2x4x2x2", "DBACE"),
        ("2x2x4x4x2", "BACDE"),
        ("4x2x4x4x2", "BACDE"),
        ("4x4x4x4x2", "ABCDE"),
        ("4x4x4x8mx2", "DABCE"),
        # By the same rule: longest way first, and what the sorting by exchanges leaves of the rest.
        ("4x4x4x8x2", "DBCAE"),
        ("4x4x8x16x2", "DCABE"),
    ],
)
def test_bluegene_q_routing_order(block, order):
    host = machines.torus_from_text(f"bluegene_q:{block}")
    assert "".join("ABCDE"[d] for d in host.routing_order) == order
    assert machines.bluegene_q(nodes=host.n_nodes, wrap=host.wrap) == host


def test_bluegene_q_facts():
    block = machines.bluegene_q()
    assert block.n_nodes == 512
    assert block.bandwidth == (2e9,) * 5
    assert block.tie_break == "bluegene"
    assert (block.network.payload, block.network.header) == (512, 32)
    assert (block.network.fifos, block.network.fifo_rule) == (10, "bluegene_q")
    assert all(block.wrap)
    mira = machines.bluegene_q(nodes=1024, wrap=(True, True, True, False, True))
    assert mira == machines.torus_from_text("bluegene_q:4x4x4x8mx2")


def test_other_presets():
    assert machines.gemini((4, 4, 4)).bandwidth == (5.7e9, 2.85e9, 9.1e9)
    assert machines.tofu_d((3, 3)).bandwidth == (6.8e9, 6.8e9)
    assert machines.tofu_d((3, 3)).network.fifos == 6
    assert machines.tofu_d((4, 4, 4, 2, 3, 2)).wrap == (True, True, True, False, True, False)
    assert machines.tofu_d((4, 5), wrap=(True, False)).wrap == (True, False)
    # Tofu-D has ten ports a node: two in X, Y, Z and b, one in a and c.
    inner = machines.tofu_d((3, 3, 3, 2, 3, 2))
    assert (inner.neighbors >= 0).sum(axis=1).tolist() == [10] * inner.n_nodes
    assert machines.bluegene_p((8, 8, 8)).wrap == (True,) * 3
    assert machines.bluegene_p((4, 4, 8)).wrap == (False, False, True)
    assert machines.tpu_v4((4, 4, 8)).wrap == (True,) * 3
    assert machines.tpu_v5p((2, 4, 4)).wrap == (False,) * 3


def test_interconnect_of_a_chip():
    # What vendors publish: GB/s a chip, both ways together.
    torus = machines.torus_from_text("trainium1")
    assert sum(torus.bandwidth) * 2 * 2 == 384e9
    assert sum(machines.trainium2((4, 4)).bandwidth) * 2 * 2 == 1024e9
    assert machines.trainium2().bandwidth[2] * 2 * 2 == 256e9


@pytest.mark.parametrize(
    ("text", "wrap"),
    [
        ("1x1", (False, False)),
        ("2x2", (False, False)),
        ("2x4", (False, True)),
        ("4x2", (True, False)),
        ("4x4", (True, True)),
    ],
)
@pytest.mark.parametrize("machine", ["trainium1", "trainium2"])
def test_parts_of_an_instance_close_where_they_span_it(machine, text, wrap):
    torus = machines.torus_from_text(f"{machine}:{text}")
    assert torus.wrap == wrap
    assert torus.bandwidth == machines.Machine.from_name(machine)((4, 4)).bandwidth
    assert machines.torus_from_text(str(torus)) == torus
    # Between two devices of a chip it is six times one of its links of 100 GB/s.
    chip = machines.tpu7x()
    assert chip.bandwidth[3] == 600e9
    assert (chip.neighbors >= 0).sum(axis=1).tolist() == [7] * chip.n_nodes
    # Gbit/s a lane.
    assert machines.anton3().bandwidth[0] == 16 * 29e9 / 8
    assert machines.tpu_v2().bandwidth[0] == 496e9 / 8
    assert machines.tpu_v3().bandwidth[0] == 656e9 / 8


def test_what_a_put_attains_on_fugaku():
    torus = machines.torus_from_text("fugaku")
    packet = torus.network.payload + torus.network.header
    assert round(torus.bandwidth[0] * torus.network.payload / packet / 1e9, 2) == 6.35


@pytest.mark.parametrize(
    ("text", "wrap"),
    [
        ("tpu_v5e:16x16", (True, True)),
        ("tpu_v6e:8x16", (False, True)),
        ("tpu_v6e:4x8", (False, False)),
        ("tpu_v3:16x32", (False, True)),
        ("tpu_v4:4x4x8", (True,) * 3),
        ("tpu_v4:2x4x4", (False,) * 3),
        ("tpu7x:4x4x8", (True, True, True, False)),
        ("tpu7x:2x2x4", (False,) * 4),
        ("bluegene_l:4x8x16", (False, True, True)),
        ("galaxy:8x4", (True, True)),
        ("galaxy:16mx4", (False, True)),
        ("seastar:4x4x8m", (True, True, False)),
        ("k_computer:2x2x2mx2mx3x2m", (True, True, False, False, True, False)),
    ],
)
def test_what_wraps(text, wrap):
    assert machines.torus_from_text(text).wrap == wrap


def test_links_between_galaxies_are_slower():
    assert machines.galaxy((16, 8)).bandwidth == (25e9, 25e9)
    assert machines.galaxy((16, 4)).bandwidth == (25e9, 50e9)


def test_mira_of_8192_nodes():
    block = machines.torus_from_text("bluegene_q:8192")
    assert block.shape == (4, 4, 16, 16, 2)


@pytest.mark.parametrize("name", machines.names())
def test_every_machine_says_where_its_numbers_come_from(name):
    machine = machines.Machine.from_name(name)
    assert machine.title
    assert {source.how for source in machine.sources} >= {"published", "assumed"}
    keys = {key for key in machine.content if key not in ("shape", "name")} | {*machine.network} - {
        "unknown_rules"
    }
    plain = machines.ShapeRules()
    keys |= {
        item.name
        for item in fields(plain)
        if getattr(machine.shapes, item.name) != getattr(plain, item.name)
    }
    assert keys <= {key for source in machine.sources for key in source.of}
    for source in machine.sources:
        assert source.source or source.how in ("assumed", "differs")
        assert bool(source.date) == bool(source.source)
        assert source.how != "assumed" or source.says


@pytest.mark.parametrize(
    ("preset", "gigabytes"),
    [
        ("bluegene_p", 13.6),
        ("tofu_d", 1024),
        ("tpu_v4", 1200),
        ("tpu_v5p", 2765),
        ("trainium2", 2900),
        ("bluegene_l", 5.6),
        ("tpu_v5e", 819),
        ("tpu_v6e", 1638),
        ("tpu7x", 7380 / 2),
        ("k_computer", 64),
    ],
)
def test_published_memory_bandwidths(preset, gigabytes):
    assert machines.torus_from_text(preset).network.memory_bandwidth == gigabytes * 1e9


@pytest.mark.parametrize("text", ["bluegene_p", "tpu_v4", "tpu_v5p", "trainium2", "trainium2:4x4"])
def test_a_fifo_a_port(text):
    torus = machines.torus_from_text(text)
    assert torus.network.fifos == 2 * torus.ndim
    assert torus.network.fifo_rule == "first_dimension"


def test_every_preset_is_found_by_name():
    for name in machines.names():
        torus = machines.torus_from_text(name)
        assert torus.name == name
        assert tc.torus(f" {name.upper()} ") == torus
        assert str(torus).startswith(name)


@pytest.mark.parametrize("text", ["8x8x8", "8x8x8m", "3", "1mx2"])
def test_plain_torus(text):
    host = tc.torus(text)
    assert str(host) == text
    assert isinstance(host, Torus)


BAD_HOSTS = """
8x8x 8x0 -3x3 x8 m8 cray:8x8 tpu_v6e:17x2 tpu_v5e:4x4x4 tpu7x:4x4x4x3 tpu7x:4x4x4x2mm tpu_v6e:8x16m
trainium1:4x8 trainium3 anton3:9x8x8 galaxy:8 bluegene_q:777 bluegene_q:4x4x4 bluegene_q:32m
gemini:2x2m bluegene_q:9999999999999999999999999999999 tofu_d:2x2x2x2 tofu_d:2x2x2x3x2x2
tpu_v4:32x32x32 tpu_v4:4x4x4m trainium2:4x4x8 gemini:2x2 bluegene_p:4mx4x8 tofu_d:2x2x2x2x3mx2
"""


@pytest.mark.parametrize("text", ["", *BAD_HOSTS.split()])
def test_bad_hosts(text):
    with pytest.raises(InputError):
        tc.torus(text)


def test_bluegene_q_takes_a_shape_or_a_size():
    with pytest.raises(InputError, match="both"):
        machines.bluegene_q((4, 4, 4, 4, 2), nodes=512)
    for wrong in ({"nodes": 512, "wrap": (True, False)}, {"nodes": "512"}):
        with pytest.raises(InputError):
            machines.bluegene_q(**wrong)


@pytest.mark.parametrize("wrap", ["no", ("False", "True"), float("nan"), 2], ids=str)
def test_what_wraps_is_said_by_true_or_false(wrap):
    for preset, shape in ((machines.tofu_d, (4, 4)), (machines.bluegene_q, (2,) * 5)):
        with pytest.raises(InputError, match="bad wrap"):
            preset(shape, wrap=wrap)
    assert machines.tofu_d((4, 4), wrap=(np.False_, 1)).wrap == (False, True)
