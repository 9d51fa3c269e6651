"""Tori in the files of other tools."""

import numpy as np
import pytest
from format_examples import example_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast.errors import InputError, InputWarning
from toruscast.formats import read_torus, write_torus
from toruscast.formats.registry import dialects
from toruscast.mapping.twist import default_twist
from toruscast.validation import read_bandwidth, read_seconds

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
    "codes": ("4x4x2", (2e9, 2e9, 2e9)),
    "booksim": ("4x4x4", (2e9, 2e9, 2e9)),
}
WRITTEN = [name for name, dialect in KNOWN.items() if dialect.write]
# How a file of each may be called, besides by the dialect's name.
BY_SUFFIX = [(name, suffix) for name in WRITTEN for suffix in (None, *KNOWN[name].suffixes)]


@pytest.mark.parametrize("name", KNOWN)
def test_examples(tmp_path, name):
    path = tmp_path / "torus.txt"
    path.write_bytes(example_bytes(KNOWN[name]))
    torus = read_torus(path)
    sizes, bandwidth = EXAMPLES[name]
    assert str(torus).split()[-1] == sizes
    assert torus.bandwidth == bandwidth
    assert tc.torus(str(path)) == torus


@st.composite
def tori(draw):
    """A torus or mesh of any kind: twisted, with nodes and links left out, of any name."""
    shape = draw(
        st.lists(st.integers(1, 5), min_size=1, max_size=6).map(tuple) | st.just((2, 2, 4))
    )
    same = draw(st.booleans())
    wrap = tuple(same or draw(st.booleans()) for _ in shape)
    speed = draw(st.sampled_from([1e9, 12.5e9, 5e10]) | st.floats(1, 1e12))
    bandwidth = tuple(speed * (draw(st.integers(1, 4)) if same else 1) for _ in shape)
    twist = default_twist(shape) if all(wrap) and draw(st.booleans()) else ()
    name = draw(st.sampled_from(["", "mine"]) | st.text(st.characters(exclude_categories=["Cs"])))
    torus = tc.Torus(shape, wrap=wrap, bandwidth=bandwidth, twist=twist, name=name)
    torus = torus.with_network(hop_latency=draw(st.sampled_from([0, 4e-8, 1.5e-6])))
    links = np.flatnonzero(torus.link_exists).tolist()
    if links and draw(st.integers(0, 3)) == 0:
        torus = torus.without(links=[draw(st.sampled_from(links))])
    if torus.n_nodes > 1 and draw(st.integers(0, 3)) == 0:
        torus = torus.without(nodes=[draw(st.integers(0, torus.n_nodes - 1))])
    return torus


@pytest.mark.parametrize(("name", "suffix"), BY_SUFFIX)
@settings(max_examples=40)
@given(torus=tori())
def test_what_is_written_reads_back_or_is_refused(tmp_path_factory, name, suffix, torus):
    folder = tmp_path_factory.mktemp("round")
    path = folder / f"torus{suffix or ''}"
    try:
        write_torus(torus, path, name if suffix is None else None)
    except InputError:
        assert list(folder.iterdir()) == []
        return
    back = read_torus(path)
    assert (back.shape, back.twist, back.exclusions) == (torus.shape, torus.twist, torus.exclusions)
    assert [w for w, k in zip(back.wrap, back.shape, strict=True) if k > 1] == [
        w for w, k in zip(torus.wrap, torus.shape, strict=True) if k > 1
    ]
    if name in ("toml", "machine-json"):
        assert back == torus
    elif name not in ("scotch-target", "tt-mesh"):
        assert back.bandwidth == pytest.approx(torus.bandwidth)
        assert back.network.hop_latency == pytest.approx(torus.network.hop_latency)


# Files in the form of the tools' own: what each says, and what it is.
OWN_FILES = {
    "merlin's own test": (
        'import sst\nfrom sst.merlin import *\n\nif __name__ == "__main__":\n'
        "    topo = topoTorus()\n    endPoint = TestEndPoint()\n"
        '    sst.merlin._params["torus:shape"] = "4x4x8"\n'
        '    sst.merlin._params["torus:width"] = "2x1x1"\n'
        '    sst.merlin._params["torus:local_ports"] = "1"\n'
        '    sst.merlin._params["link_bw"] = "4GB/s"\n'
        '    #sst.merlin._params["link_bw"] = "9GB/s"\n'
        '    sst.merlin._params["xbar_bw"] = "8GB/s"\n'
        '    sst.merlin._params["link_lat"] = "20ns"\n',
        ("4x4x8", (8e9, 4e9, 4e9), 2e-8),
    ),
    "merlin's keys with dots": (
        'import sst\nsst.merlin._params["torus.shape"] = "4x4"\nparams["link_bw"] = "1GB/s"\n'
        "topo = topoTorus()\n",
        ("4x4", (1e9, 1e9), 4e-8),
    ),
    "merlin's parameters in a dictionary": (
        'p = {}\np["num_dims"]=1\np["torus:shape"]="5"\np["torus:width"]="1"\n'
        'p["torus:local_ports"]=1\nsst.merlin._params.update(p)\ntopo = topoTorus()\n',
        ("5", (2e9,), 4e-8),
    ),
    "merlin's classes": (
        "from sst.merlin.topology import topoTorus, topoMesh\ntopo = topoMesh()\n"
        'topo.shape = size\nsize = "2x4"\ntopo.local_ports = 1\nrouter.link_bw = "4GB/s"\n'
        'networkif.link_bw = "1GB/s"\n',
        ("2mx4m", (4e9, 4e9), 4e-8),
    ),
    "sections, and more bandwidths than that of the links": (
        "switch {\n link {\n  bandwidth = 0.8GB/s\n  latency = 100ns\n }\n"
        " xbar {\n  bandwidth = 10GB/s\n }\n logp {\n  bandwidth = 4GB/s\n }\n"
        " geometry = [8,6]\n}\n"
        "topology {\n geometry = [4,4,4]\n name = torus\n redundant = [8,4,8]\n"
        " injection_redundant = 4\n}\n"
        "node {\n nic {\n  injection {\n   redundant = 8\n   bandwidth = 10.0GB/s\n"
        "   latency = 1us\n  }\n }\n memory {\n  total_bandwidth = 10GB/s\n  latency = 15ns\n"
        " }\n}\n",
        ("4x4x4", (6.4e9, 3.2e9, 6.4e9), 1e-7),
    ),
    "sections on one line": (
        "topology { name = torus; geometry = [4,4,2] }\nswitch { link { bandwidth = 1GB/s } }\n",
        ("4x4x2", (1e9, 1e9, 1e9), 4e-8),
    ),
    "keys with dots": (
        "topology.name = torus\ntopology.geometry = [4,4,4]\ntopology.redundant = [2,1,2]\n"
        "switch.link.bandwidth = 1.0GB/s\nswitch.link.latency = 100ns\n"
        "memory.bandwidth = 10GB/s\nnic.injection.latency = 1us\n",
        ("4x4x4", (2e9, 1e9, 2e9), 1e-7),
    ),
    "keys of older versions": (
        "topology_name = hdtorus\ntopology_geometry = 4,4\nnetwork_bandwidth = 1.0GB/s\n"
        "network_hop_latency = 100ns\n",
        ("4x4", (1e9, 1e9), 1e-7),
    ),
    "dictionaries of Python": (
        'topoParams = {\n "name" : "torus",\n "geometry" : "2 2 2",\n}\n'
        'swParams = {\n "link" : {\n  "sendLatency" : "100ns",\n  "bandwidth" : "10GB/s",\n },\n'
        ' "xbar" : {\n  "bandwidth" : "20GB/s",\n },\n}\n'
        'memParams = {\n "latency" : "10ns",\n "bandwidth" : "15GB/s",\n}\n',
        ("2x2x2", (1e10, 1e10, 1e10), 1e-7),
    ),
    "CODES": (
        'LPGROUPS\n{\n MODELNET_GRP\n {\n  repetitions="16";\n  server="2";\n'
        '  modelnet_torus="1";\n'
        ' }\n}\nPARAMS\n{\n n_dims="2";\n dim_length="4,4";\n link_bandwidth="5.0";\n}\n',
        ("4x4", (5e9, 5e9), 4e-8),
    ),
    "BookSim": (
        "// Copyright\ntopology = torus;\nk = 8;\nn = 2;\nrouting_function = dim_order;\n",
        ("8x8", (2e9, 2e9), 4e-8),
    ),
    "BookSim's mesh": (
        "num_vcs     = 8;\ntopology = mesh;\nk  = 4;\n",
        ("4mx4m", (2e9, 2e9), 4e-8),
    ),
    "two meshes of Tenstorrent, one used": (
        'mesh_descriptors {\n name: "A"\n'
        " device_topology { dims: [ 8, 4 ] dim_types: [ RING, LINE ] }\n"
        ' channels { count: 4 }\n}\nmesh_descriptors {\n name: "B"\n'
        " device_topology { dims: [ 2, 4 ], "
        "dim_types: [ LINE, LINE ] }\n host_topology { dims: [ 1, 1 ] }\n"
        " channels { count: 2 }\n}\n"
        'top_level_instance { mesh { mesh_descriptor: "B" mesh_id: 0 } }\n',
        ("2mx4m", (25e9, 25e9), 7.3e-7),
    ),
    "a mesh with a key for each dimension": (
        "mesh_descriptors { name: 'M' device_topology { dims: 8 dims: 4 dim_types: RING\n"
        "dim_types: LINE } channels { count: 1 } }\n",
        ("8x4m", (12.5e9, 12.5e9), 7.3e-7),
    ),
    "a graph of one mesh": (
        'mesh_descriptors { name: "M" device_topology { dims: [ 8, 4 ] dim_types: [ RING, RING '
        "] }\n"
        'channels { count: 2 } }\ngraph_descriptors { name: "G" type: "FABRIC"\n'
        ' instances { mesh { mesh_descriptor: "M" mesh_id: 0 } } }\n'
        'top_level_instance { graph { graph_descriptor: "G" graph_id: 0 } }\n',
        ("8x4", (25e9, 25e9), 7.3e-7),
    ),
}


@pytest.mark.parametrize("name", OWN_FILES)
def test_the_tools_own_files(tmp_path, name):
    text, (sizes, bandwidth, latency) = OWN_FILES[name]
    path = tmp_path / "torus.any"
    path.write_text(text)
    torus = read_torus(path)
    assert str(torus).split()[-1] == sizes
    assert torus.bandwidth == pytest.approx(bandwidth)
    assert torus.network.hop_latency == pytest.approx(latency)


def test_settings_that_include_others_say_so(tmp_path):
    path = tmp_path / "app.ini"
    path.write_text("include small_torus.ini\ntopology {\n name = torus\n geometry = [4,4]\n}\n")
    with pytest.warns(InputWarning, match=r"small_torus\.ini is not read"):
        assert read_torus(path).shape == (4, 4)
    path.write_text("include small_torus.ini\nnode {\n app1 {\n  name = ping\n }\n}\n")
    with pytest.raises(InputError, match=r"no shape: found include small_torus\.ini"):
        read_torus(path)


@pytest.mark.parametrize("name", ["bluegene_q:512", "tpu_v4:4x4x8", "tofu_d:4x6x8", "tpu7x:4x4x4"])
def test_machines_survive_a_machine_file(tmp_path, name):
    torus = tc.torus(name)
    write_torus(torus, tmp_path / "mine.toml")
    assert read_torus(tmp_path / "mine.toml") == torus


def test_a_torus_that_a_format_cannot_hold(tmp_path):
    half = tc.Torus((4, 4), wrap=(True, False))
    for name in ("scotch-target", "simgrid", "sst"):
        with pytest.raises(InputError, match="torus not supported"):
            write_torus(half, tmp_path / "torus", name)
    twisted = tc.torus("tpu_v4:4x4x8")
    for name in ("scotch-target", "simgrid", "sst", "astra-sim", "tt-mesh"):
        with pytest.raises(InputError, match="not supported by"):
            write_torus(twisted, tmp_path / "torus", name)
    assert not (tmp_path / "torus").exists()


def test_dimensions_that_differ_in_latency_take_the_longest(tmp_path):
    path = tmp_path / "net.yml"
    path.write_text(
        "topology:\n  - Ring\n  - FullyConnected\nnpus_count: [4, 2]\nbandwidth: [1, 1]\n"
        "latency: [100, 500]\n"
    )
    with pytest.warns(InputWarning, match="the longest, 500 ns"):
        torus = read_torus(path)
    assert torus.network.hop_latency == pytest.approx(5e-7)
    assert torus.wrap == (True, False)


def test_units():
    assert read_bandwidth("1.5GiBps") == 1.5 * 2**30
    assert read_bandwidth("8kbps") == 1000
    assert read_seconds("20ns") == 2e-8
    for read, text in ((read_bandwidth, "1.2.3GBps"), (read_seconds, "1 week")):
        with pytest.raises(InputError):
            read(text)


def test_a_name_that_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "8x8").write_text("torus2D 4 4")
    assert tc.torus("8x8").shape == (8, 8)
    with pytest.raises(InputError, match=r"absent\.yml: no such file"):
        tc.torus("absent.yml")


@pytest.mark.parametrize("name", ["mine.toml", "mine.json"])
def test_holes_stand_in_a_machine_file(tmp_path, name):
    torus = tc.Torus((4, 4)).without(nodes=[3, 7], links=[5]).with_links({9: 1e9})
    write_torus(torus, tmp_path / name)
    assert read_torus(tmp_path / name) == torus
    with pytest.raises(InputError, match="scotch-target cannot store missing or slow links"):
        write_torus(torus, tmp_path / "mine.tgt")


def test_the_largest_machine_is_read(tmp_path):
    path = tmp_path / "big.toml"
    path.write_text("shape = [24, 23, 24, 2, 3, 2]\n")
    assert read_torus(path).n_nodes == 158_976


def test_settings_of_sst_that_are_not_read_are_named(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(
        'import sst\ntopo = topoTorus()\ntopo.shape = "4x4"\nnic.speed = 3\n'
        'router.link_bw = "4GB/s"\nrouter.link_failures = 2\nzorblax 7 8\n[zorblax]\n'
    )
    with pytest.warns(InputWarning, match=r"not used: router.link_failures, zorblax 7 8, \[zorb"):
        assert read_torus(path).shape == (4, 4)
