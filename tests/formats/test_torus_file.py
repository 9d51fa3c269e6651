"""A torus of one's own in TOML."""

import pytest

import toruscast as tc


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return path

    return write


def test_all_of_a_torus(written):
    path = written(
        """
        shape = [4, 4, 8]
        wrap = [true, true, true]
        bandwidth = [50e9, 50e9, 25e9]
        routing_order = [2, 1, 0]
        tie_break = "plus"
        name = "ours"
        axes = "abc"
        twisted = true
        [network]
        hop_latency = 2e-7
        payload = 256
        """
    )
    torus = tc.read_torus(path)
    assert torus == tc.torus(str(path))
    assert torus == tc.Torus(
        (4, 4, 8),
        bandwidth=(50e9, 50e9, 25e9),
        routing_order=(2, 1, 0),
        tie_break="plus",
        name="ours",
        axes="abc",
        twist=((0, 0, 4), (0, 0, 4), (0, 0, 0)),
    ).with_network(hop_latency=2e-7, payload=256)


def test_a_machine_with_changes(written):
    torus = tc.read_torus(written('machine = "tpu_v4:4x4x8"\nbandwidth = 45e9\ntwisted = false'))
    assert torus.bandwidth == (45e9,) * 3
    assert not torus.twist
    assert torus.network == tc.torus("tpu_v4").network
