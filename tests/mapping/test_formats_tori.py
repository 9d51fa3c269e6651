"""Tori in the files of other tools."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toruscast as tc
from toruscast.errors import InputError, InputWarning
from toruscast.mapping.formats import read_torus, write_torus
from toruscast.mapping.formats.page import example_bytes
from toruscast.mapping.formats.registry import dialects
from toruscast.mapping.formats.tori.simulators import bytes_a_second, seconds

KNOWN = {dialect.name: dialect for dialect in dialects("torus")}
# What each example says: sizes with m for a mesh, bandwidths.
EXAMPLES = {
    "toml": ("8x8x16m", (50e9, 50e9, 25e9)),
    "machine-json": ("4x4m", (2e9, 2e9)),
    "scotch-target": ("4x4x8", (2e9, 2e9, 2e9)),
    "simgrid": ("4x4x4", (2e9, 2e9, 2e9)),
    "astra-sim": ("4x8", (50 * 2**30, 25 * 2**30)),
    "sst": ("4x4x8", (8e9, 8e9, 4e9)),
    "tt-mesh": ("8x4m", (50e9, 50e9)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_examples(tmp_path, name):
    path = tmp_path / "torus.txt"
    path.write_bytes(example_bytes(KNOWN[name]))
    torus = read_torus(path)
    sizes, bandwidth = EXAMPLES[name]
    assert str(torus).split()[-1] == sizes
    assert torus.bandwidth == bandwidth
    assert tc.parse_torus(str(path)) == torus


@st.composite
def tori(draw, name):
    """A torus that a format can hold, so far as it can."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    wrap, bandwidth = (True,) * len(shape), (2e9,) * len(shape)
    if name in ("toml", "machine-json", "astra-sim", "tt-mesh"):
        wrap = tuple(draw(st.booleans()) for _ in shape)
    if name in ("toml", "machine-json", "astra-sim"):
        bandwidth = tuple(draw(st.floats(1, 1e12)) for _ in shape)
    if name == "sst":
        bandwidth = tuple(4e9 * draw(st.integers(1, 4)) for _ in shape)
    torus = tc.Torus(shape, wrap=wrap, bandwidth=bandwidth)
    torus = torus.with_network(hop_latency=draw(st.sampled_from([0, 4e-8, 1.5e-6])))
    if name in ("toml", "machine-json"):
        torus = torus.with_network(payload=draw(st.integers(1, 999)), arbitration="age")
    return torus


@pytest.mark.parametrize("name", KNOWN)
@given(data=st.data())
def test_what_is_written_reads_back(tmp_path_factory, name, data):
    torus = data.draw(tori(name))
    path = tmp_path_factory.mktemp("round") / "torus"
    write_torus(torus, path, name)
    back = read_torus(path)
    assert (back.shape, back.wrap) == (torus.shape, torus.wrap)
    if name in ("toml", "machine-json"):
        assert back == torus
    elif name not in ("scotch-target", "tt-mesh"):
        assert back.bandwidth == pytest.approx(torus.bandwidth)
        assert back.network.hop_latency == pytest.approx(torus.network.hop_latency)


@pytest.mark.parametrize("name", ["bluegene_q:512", "tpu_v4:4x4x8", "tofu_d:4x6x8", "tpu7x:4x4x4"])
def test_machines_survive_a_machine_file(tmp_path, name):
    torus = tc.machine(name)
    write_torus(torus, tmp_path / "mine.toml")
    assert read_torus(tmp_path / "mine.toml") == torus


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("torusXD 2 4 4 4\n", "1: wrong number of sizes: found 3 sizes after 2"),
        ("torus3D 4 4\n", "1: wrong number of sizes: found 2, expected 3"),
        ("mesh2D 4 x\n", "1: bad size: found x"),
        ("topology: [ Switch ]\nnpus_count: [ 8 ]\nbandwidth: [ 1 ]\nlatency: [ 1 ]\n", "no torus"),
        ("topology: [ Ring, Ring ]\nnpus_count: [ 8 ]\n", "2: dimensions differ"),
        ("topology: [ Ring ]\nnpus_count: [ 8 ]\nlatency: [ 1 ]\n", "bad bandwidth: found none"),
        ("topo = topoTorus()\ntopo.shape='4x4'\ntopo.width='2x2x2'\n", "3: bad width: found 2x2x2"),
        ("topo = topoTorus()\ntopo.shape='4x4'\ntopo.local_ports=2\n", "3: bad local_ports"),
        ("topo = topoTorus()\ntopo.shape='4x4'\nr.link_bw='fast'\n", "3: bad link_bw: found fast"),
        (
            '<platform version="4.1">\n<cluster topology="FAT_TREE" bw="1GBps"/>\n</platform>',
            "no single torus",
        ),
        (
            '<platform>\n<cluster topology="TORUS" topo_parameters="4,4" radical="0-7" bw="1Bps"/>',
            "2: hosts and torus differ: found 8 hosts",
        ),
        ('<platform>\n<cluster topology="TORUS" topo_parameters="4,4" bw="x"/>', "2: bad bw"),
        ("mesh_descriptors { device_topology { dims: [ 8, x ] } }", "1: bad dims"),
        (
            "mesh_descriptors { device_topology { dims: [ 8, 4 ] dim_types: [ RING ] } }",
            "1: bad dim_types",
        ),
        ('{"shape": [4, 4], "speed": 3}', "unknown key of a torus: found speed"),
        ('{"shape": [4, 4]', "no JSON"),
        ("what is this\n", "torus in an unknown format"),
    ],
)
def test_faults(tmp_path, text, message):
    path = tmp_path / "torus.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_torus(path)
    assert str(path) in str(caught.value)


def test_a_torus_that_a_format_cannot_hold(tmp_path):
    half = tc.Torus((4, 4), wrap=(True, False))
    for name in ("scotch-target", "simgrid", "sst"):
        with pytest.raises(InputError, match="no such torus"):
            write_torus(half, tmp_path / "torus", name)
    twisted = tc.machine("tpu_v4:4x4x8")
    for name in ("scotch-target", "simgrid", "sst", "astra-sim", "tt-mesh"):
        with pytest.raises(InputError, match="no such"):
            write_torus(twisted, tmp_path / "torus", name)
    assert not (tmp_path / "torus").exists()


def test_dimensions_that_differ_in_latency_take_the_longest(tmp_path):
    path = tmp_path / "net.yml"
    path.write_text(
        "topology:\n  - Ring\n  - FullyConnected\nnpus_count: [4, 2]\nbandwidth: [1, 1]\n"
        "latency: [100, 500]\n"
    )
    with pytest.warns(InputWarning, match="500 ns, the longest"):
        torus = read_torus(path)
    assert torus.network.hop_latency == pytest.approx(5e-7)
    assert torus.wrap == (True, False)


def test_units():
    assert bytes_a_second("1.5GiBps") == 1.5 * 2**30
    assert bytes_a_second("8kbps") == 1000
    assert bytes_a_second("1.2.3GBps") is None
    assert seconds("20ns") == 2e-8
    assert seconds("1 week") is None


def test_a_name_that_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "8x8").write_text("torus2D 4 4")
    assert tc.parse_torus("8x8").shape == (8, 8)
    with pytest.raises(InputError, match=r"absent\.yml: no such file"):
        tc.parse_torus("absent.yml")


@pytest.mark.parametrize("name", ["mine.toml", "mine.json"])
def test_holes_stand_in_a_machine_file(tmp_path, name):
    torus = tc.Torus((4, 4)).without(nodes=[3, 7], links=[5]).with_links({9: 1e9})
    write_torus(torus, tmp_path / name)
    assert read_torus(tmp_path / name) == torus
    with pytest.raises(InputError, match="scotch-target holds no missing or slow links"):
        write_torus(torus, tmp_path / "mine.tgt")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("holes = 3", "bad holes"),
        ("[holes]\nnode = [1]", "unknown key of .holes.: found node"),
        ("[holes]\nnodes = [99]", "out of range"),
        ('[holes]\nlinks = ["x"]', "bad link: found x"),
        ("[holes]\nslow = [[1]]", "bad slow links"),
        ('[holes]\nslow = [["(0,1) +1", 9e99]]', "faster than its dimension"),
        ("[holes]\nlinks = 3", "bad torus"),
    ],
)
def test_holes_at_fault(tmp_path, text, fault):
    path = tmp_path / "mine.toml"
    path.write_text(f"shape = [4, 4]\n{text}\n")
    with pytest.raises(InputError, match=fault):
        read_torus(path)
