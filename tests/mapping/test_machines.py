"""The presets' published facts, and how a host is written."""

from __future__ import annotations

import numpy as np
import pytest

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
    host = machines.get(f"bluegene_q:{block}")
    assert "".join("ABCDE"[d] for d in host.order) == order
    assert machines.bluegene_q(nodes=host.n_nodes, wrap=host.wrap) == host


def test_bluegene_q_facts():
    block = machines.bluegene_q()
    assert block.n_nodes == 512
    assert block.bandwidth == (2e9,) * 5
    assert block.tie == "source_parity"
    assert (block.network.payload, block.network.header) == (512, 32)
    assert (block.network.fifos, block.network.fifo_rule) == (10, "bluegene_q")
    assert all(block.wrap)
    mira = machines.bluegene_q(nodes=1024, wrap=(True, True, True, False, True))
    assert mira == machines.get("bluegene_q:4x4x4x8mx2")


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
    # Six links, two ways: the published 300 and 1,200 GB/s a chip.
    assert machines.tpu_v4((4, 4, 8)).bandwidth[0] * 6 == 300e9
    assert machines.tpu_v5p((4, 4, 8)).bandwidth[0] * 6 * 2 == 1200e9
    assert machines.tpu_v4((4, 4, 8)).wrap == (True,) * 3
    assert machines.tpu_v5p((2, 4, 4)).wrap == (False,) * 3
    assert machines.trainium2().n_nodes == 64
    assert sum(machines.trainium2((4, 4)).bandwidth) * 2 * 2 == 1024e9


@pytest.mark.parametrize(
    ("preset", "gigabytes"),
    [
        ("bluegene_p", 13.6),
        ("tofu_d", 1024),
        ("tpu_v4", 1200),
        ("tpu_v5p", 2765),
        ("trainium2", 2900),
    ],
)
def test_published_memory_bandwidths(preset, gigabytes):
    assert machines.get(preset).network.memory_bandwidth == gigabytes * 1e9


@pytest.mark.parametrize("text", ["bluegene_p", "tpu_v4", "tpu_v5p", "trainium2", "trainium2:4x4"])
def test_a_fifo_a_port(text):
    torus = machines.get(text)
    assert torus.network.fifos == 2 * torus.ndim
    assert torus.network.fifo_rule == "first_dimension"


def test_every_preset_is_found_by_name():
    for name in machines.names():
        torus = machines.get(name)
        assert torus.name == name
        assert machines.parse_torus(f" {name.upper()} ") == torus
        assert str(torus).startswith(name)


@pytest.mark.parametrize("text", ["8x8x8", "8x8x8m", "3", "1mx2"])
def test_plain_torus(text):
    host = machines.parse_torus(text)
    assert str(host) == text
    assert isinstance(host, Torus)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "bad torus: found , expected sizes such as"),
        ("8x8x", "bad torus: found 8x8x"),
        ("8x0", "bad torus shape"),
        ("-3x3", "bad torus"),
        ("x8", "bad torus: found x8, expected sizes such as"),
        (" X8x8m ", "bad torus: found X8x8m"),
        ("m8", "bad torus: found m8"),
        ("cray:8x8", "unknown machine: found cray, expected bluegene_p or"),
        ("bluegene_q:777", "unknown block size: found 777, expected 32, 64"),
        ("bluegene_q:4x4x4", "bad Blue Gene/Q shape: found 4x4x4, expected 5 sizes"),
        ("bluegene_q:4mx4x4", "bad Blue Gene/Q shape: found 4mx4x4, expected 5 sizes"),
        ("bluegene_q:32m", "found 32m, expected five sizes, .* or a number of nodes alone"),
        ("bluegene_q 32M", "found 32M, expected five sizes"),
        ("gemini:2x2m", "bad Gemini shape: found 2x2m, expected 3 sizes"),
        ("bluegene_q:9" + "9" * 30, "bad torus"),
        ("tofu_d:2x2x2x2", "bad Tofu-D shape"),
        ("tofu_d:2x2x2x3x2x2", "end in 2, 3, 2"),
        ("tpu_v4:32x32x32", "slice too large"),
        ("tpu_v4:4x4x4m", "decides itself which dimensions wrap"),
        ("trainium2:4x4x8", "bad Trainium2 shape"),
        ("gemini:2x2", "bad Gemini shape"),
    ],
)
def test_bad_hosts(text, fault):
    with pytest.raises(InputError, match=fault):
        machines.parse_torus(text)


def test_bluegene_q_takes_a_shape_or_a_size():
    with pytest.raises(InputError, match="both"):
        machines.bluegene_q((4, 4, 4, 4, 2), nodes=512)
    with pytest.raises(InputError, match="bad wrap"):
        machines.bluegene_q(nodes=512, wrap=(True, False))
    with pytest.raises(InputError, match="bad wrap"):
        machines.tofu_d((4, 4), wrap=(True,) * 3)
    with pytest.raises(InputError, match="bad number of nodes: found '512', expected 1 or more"):
        machines.bluegene_q(nodes="512")


@pytest.mark.parametrize("wrap", [None, "no", ("False", "True"), float("nan"), 2], ids=str)
def test_what_wraps_is_said_by_true_or_false(wrap):
    for preset, shape in ((machines.tofu_d, (4, 4)), (machines.bluegene_q, (2,) * 5)):
        with pytest.raises(InputError, match="bad wrap"):
            preset(shape, wrap=wrap)
    assert machines.tofu_d((4, 4), wrap=(np.False_, 1)).wrap == (False, True)
