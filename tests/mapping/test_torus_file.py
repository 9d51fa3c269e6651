"""A torus of one's own in TOML."""

import pytest

import toruscast as tc
from toruscast.errors import InputError


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
        order = [2, 1, 0]
        tie = "plus"
        name = "ours"
        axes = "abc"
        twisted = true
        [network]
        hop_latency = 2e-7
        payload = 256
        """
    )
    torus = tc.read_torus(path)
    assert torus == tc.parse_torus(str(path))
    assert torus == tc.Torus(
        (4, 4, 8),
        bandwidth=(50e9, 50e9, 25e9),
        order=(2, 1, 0),
        tie="plus",
        name="ours",
        axes="abc",
        twist=((0, 0, 4), (0, 0, 4), (0, 0, 0)),
    ).with_network(hop_latency=2e-7, payload=256)


def test_a_machine_with_changes(written):
    torus = tc.read_torus(written('machine = "tpu_v4:4x4x8"\nbandwidth = 45e9\ntwisted = false'))
    assert torus.bandwidth == (45e9,) * 3
    assert not torus.twist
    assert torus.network == tc.machine("tpu_v4").network


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty file"),
        ("shape = [4,", "no TOML"),
        ("shape = [4, 0]", "bad torus shape"),
        ("shape = 'x'", "bad torus shape"),
        ("shape = [4]\nspeed = 1", "unknown key of a torus: found speed"),
        ("shape = [4]\nnetwork = 3", "bad network"),
        ("shape = [4]\n[network]\nlatency = 3", r"unknown key of \[network\]: found latency"),
        ("shape = [4]\n[network]\nhop_latency = -1", "hop_latency"),
        ("shape = [4]\ntwisted = true", "no twist for these sizes"),
        ("shape = [4]\ntwisted = 1", "bad twisted"),
        ("machine = 'none'", "unknown machine"),
        ("machine = 7", "bad machine"),
        ("machine = 'tpu_v4'\nshape = [4]", "both a machine and a shape"),
        ("shape = [4]\nwrap = [[true]]", "bad wrap"),
        ("shape = [4]\nbandwidth = 'fast'", "bandwidth"),
        ("shape = [4]\nname = 7", "bad name"),
    ],
)
def test_faults_name_the_file(written, text, fault):
    with pytest.raises(InputError, match=fault) as caught:
        tc.read_torus(written(text))
    assert "mine.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml.*no such file"):
        tc.parse_torus(str(tmp_path / "none.toml"))
