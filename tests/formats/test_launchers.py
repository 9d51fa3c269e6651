"""Files of launchers: written files read back, and files of other tools are read correctly."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toruscast as tc
from toruscast._mesh.devices import read_devices
from toruscast.errors import InputError, InputWarning
from toruscast.formats import read_hosts, read_mapping, read_times, write_mapping
from toruscast.formats.registry import dialects, find_dialect
from toruscast.mapping import CommGraph, Hosts, MappingProblem, TaskMapping, Torus

SHAPES = st.sampled_from(
    [(1,), (6,), (2, 4), (3, 1, 2), (2, 2, 2), (2, 1, 2, 2), (2, 1, 1, 2, 2), (1, 2, 1, 2, 1, 2)]
)
WRITTEN = [dialect.name for dialect in dialects("mapping") if dialect.write]
# Those that keep the slot of each task; the others give slots in rank order.
WITH_SLOTS = {"bluegene", "table", "rank-order", "rankfile", "device-ids"}


@st.composite
def placed(draw, *, packed, most=3):
    """A mapping, its slots in rank order, and the hosts of all nodes in any order.

    ``packed`` ones fill host after host, as some launchers do.
    """
    shape = draw(SHAPES)
    # A torus with a last dimension C numbers the devices of a chip side by side.
    axes = ("XYZAB"[: len(shape) - 1] + "C") if len(shape) > 1 and draw(st.booleans()) else ""
    torus = Torus(shape, wrap=draw(st.booleans()), axes=axes)
    per_node = draw(st.integers(1, most))
    order = np.array(draw(st.permutations(range(torus.n_nodes))))
    hosts = Hosts([f"n{k:02d}" for k in range(order.size)], order, torus)
    places = np.repeat(order, per_node)
    places = places[: draw(st.integers(1, places.size))]
    if packed:
        rank = np.argsort(draw(st.permutations(range(places.size))))
        node, slot = places[rank], (np.arange(places.size) % per_node)[rank]
        return torus, TaskMapping(node, torus, slot=slot, tasks_per_node=per_node), hosts
    node = np.array(draw(st.permutations(places.tolist())))
    return torus, TaskMapping(node, torus, tasks_per_node=per_node), hosts


def test_hosts_of_a_node_take_slots_by_rank_whatever_the_order_of_the_lines(tmp_path):
    hosts = Hosts(["a0", "a1", "b0", "b1"], [0, 0, 1, 1], Torus((2,)))
    lines = ["5: a1", "4: a0", "1: a1", "0: a0", "3: b1", "2: b0"]
    files = {
        "labelled": "\n".join(lines),
        "flux-hosts": "a0: 0,4\na1: 1,5\nb0: 2\nb1: 3\n",
        "flux": "0,4-4;1,5;2;3",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        found = read_mapping(tmp_path / name, hosts.torus, hosts=hosts, format=name)
        assert found.node.tolist() == [0, 0, 1, 1, 0, 0]
        assert found.slot.tolist() == [0, 2, 0, 2, 1, 3]


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_written_reads_back(tmp_path_factory, name, data):
    most = 1 if name == "tt-rank-bindings" else 3
    torus, mapping, hosts = data.draw(placed(packed=name == "rank-order", most=most))
    path = tmp_path_factory.mktemp("round") / "best"
    if name == "device-ids":
        # Numbers of devices are those of hosts where there are hosts.
        hosts = None
    if name == "vcoord" and torus.ndim > 3:
        with pytest.raises(InputError, match="too many dimensions"):
            write_mapping(mapping, path, name, hosts=hosts)
        return
    write_mapping(mapping, path, name, hosts=hosts)
    back = read_mapping(
        path,
        torus,
        hosts=hosts,
        format=name,
        n_tasks=mapping.n_tasks,
        tasks_per_node=mapping.tasks_per_node,
    )
    np.testing.assert_array_equal(back.node, mapping.node)
    if name in WITH_SLOTS:
        np.testing.assert_array_equal(back.slot, mapping.slot)


@pytest.mark.parametrize("name", WRITTEN)
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_ranked_is_what_the_file_says(tmp_path_factory, name, data):
    shape = data.draw(SHAPES)
    whole = Torus(shape)
    ours = data.draw(st.permutations(range(whole.n_nodes)))
    ours = ours[: data.draw(st.integers(1, len(ours)))]
    torus = whole.without(nodes=sorted({*range(whole.n_nodes)} - {*ours}))
    share = 1 if name in ("tt-rank-bindings", "device-ids") else data.draw(st.integers(1, 3))
    places = data.draw(st.permutations(sorted(ours * share)))
    node = places[: data.draw(st.integers(1, len(places)))]
    mapping = TaskMapping(node, torus, tasks_per_node=share)
    names = find_dialect(name, "mapping").on_hosts or (name == "flux" and data.draw(st.booleans()))
    hosts = Hosts([f"n{k}" for k in range(len(ours))], ours, torus) if names else None
    path = tmp_path_factory.mktemp("ranked") / "best"
    fault = ""
    try:
        write_mapping(mapping, path, name, hosts=hosts)
    except InputError as error:
        fault = str(error)
    if fault:
        refused = {"rank-order": "cannot apply", "vcoord": "too many dimensions"}
        assert refused[name] in fault
        return
    how = {"hosts": hosts, "format": name, "n_tasks": len(node)}
    try:
        back = read_mapping(path, torus, **how)
    except InputError as error:
        fault = str(error)
    if fault:
        # The format keeps no slots, and fewer tasks a node would do.
        assert name not in WITH_SLOTS | {"flux"}
        most = max(map(node.count, node))
        assert most > -(-len(node) // len(ours))
        assert f"--tasks-per-node {most} allows it" in fault
        back = read_mapping(path, torus, tasks_per_node=most, **how)
    comm = CommGraph(len(node), [0], [len(node) - 1], [8])
    for each in (back, MappingProblem(comm, torus).mapping(back)):
        assert each.node.tolist() == node


@pytest.mark.parametrize("name", ["rank-order", "rankfile", "hostfile", "slurm", "table"])
def test_two_hosts_of_a_router_share_its_tasks(tmp_path, name):
    torus = Torus((2,))
    hosts = Hosts(["a0", "a1", "b0", "b1"], [0, 0, 1, 1], torus)
    mapping = TaskMapping([1, 0, 0, 1, 0, 1, 0, 1], torus, tasks_per_node=4)
    write_mapping(mapping, tmp_path / "best", name, hosts=hosts)
    back = read_mapping(tmp_path / "best", torus, hosts=hosts, tasks_per_node=4, format=name)
    np.testing.assert_array_equal(back.node, mapping.node)
    np.testing.assert_array_equal(hosts.places(back), hosts.places(mapping))
    assert [hosts.of_tasks(mapping)[task] for task in (1, 2, 4, 6)] == ["a0", "a0", "a1", "a1"]


def test_a_rank_order_is_the_inverse_of_a_map(tmp_path):
    path = tmp_path / "MPICH_RANK_ORDER"
    path.write_text("# grid_order -R -c 2,1 -g 4,4\n0,4,1,5,2,6,3,7,8,12,9,13,10,14,11,15\n")
    mapping = read_mapping(path, Torus((4, 4)))
    right = [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]
    assert mapping.node.tolist() == right
    path.write_text("0-3,7,6,\n5,4\n")
    two = read_mapping(path, Torus((4,)), tasks_per_node=2)
    assert two.node.tolist() == [0, 0, 1, 1, 3, 3, 2, 2]
    # The file's name is the sign where the numbers have none.
    path.write_text("1,2,3,0\n")
    assert read_mapping(path, Torus((4,))).node.tolist() == [3, 0, 1, 2]
    assert read_mapping(path.rename(tmp_path / "nodes"), Torus((4,))).node.tolist() == [1, 2, 3, 0]


def test_a_launcher_that_fills_node_after_node_takes_no_holes(tmp_path):
    torus = Torus((4,))
    with pytest.raises(InputError, match="cannot apply the mapping: found node 1 with 0 tasks"):
        write_mapping(TaskMapping([2, 0], torus), tmp_path / "MPICH_RANK_ORDER")
    hosts = Hosts(["a", "b"], [2, 0], torus)
    write_mapping(TaskMapping([0, 2], torus), tmp_path / "MPICH_RANK_ORDER", hosts=hosts)
    assert (tmp_path / "MPICH_RANK_ORDER").read_text().endswith("1,0\n")


def test_a_map_of_a_whole_partition_serves_a_smaller_job(tmp_path):
    path = tmp_path / "full.map"
    path.write_text("".join(f"{x} {y} 0\n" for x in range(4) for y in range(4)))
    for torus in (Torus((4, 4)), Torus((4, 4, 1))):
        with pytest.warns(InputWarning, match="16 rows; the 4 tasks of the job use"):
            mapping = read_mapping(path, torus, n_tasks=4)
        assert mapping.node.tolist() == [0, 1, 2, 3]


def test_one_line_of_numbers_is_read_by_the_number_of_tasks(tmp_path):
    path, torus = tmp_path / "line.txt", Torus((4, 4, 1))
    path.write_text("3,1,0,2\n")
    assert read_mapping(path, torus, n_tasks=4).node.tolist() == [3, 1, 0, 2]
    assert read_mapping(path, torus, n_tasks=1).node.tolist() == [torus.node([3, 1, 0])]


DEVICES = """[TpuDevice(id=0, process_index=0, coords=(0,0,0), core_on_chip=0),
 TpuDevice(id=2, process_index=0, coords=(0,1,0), core_on_chip=0),
 TpuDevice(id=3, process_index=0, coords=(1,1,0), core_on_chip=0)]
"""


@pytest.mark.parametrize(
    "text",
    [
        DEVICES,
        DEVICES.replace("[T", "array([[T").replace(")]", ")]], dtype=object)"),
        "[0, 2, 3]",
        "[[0], [2], [3]]",
        "array([[0],\n       [2], [3]])",
        "[[0 2 3]]",
        "[TPU_0(process=0,(0,0,0,0)), TPU_2(process=0,(0,1,0,0)), TPU_3(process=0,(1,1,0,0))]",
        '[{"id": 0, "coords": [0, 0, 0]}, {"id": 2, "coords": [0, 1, 0]}, '
        '{"id": 3, "coords": [1, 1, 0]}]',
    ],
)
def test_device_lists(tmp_path, text):
    (tmp_path / "devices.txt").write_text(text)
    for torus in (Torus((2, 2, 1)), Torus((2, 2))):
        mapping = read_mapping(tmp_path / "devices.txt", torus)
        assert mapping.node.tolist() == [0, 1, 3]


def test_device_cores_are_the_fourth_dimension_or_slots(tmp_path):
    path = tmp_path / "devices.txt"
    path.write_text("[TpuDevice(id=3, coords=(1,0,0), core_on_chip=1)]")
    torus = Torus((2, 1, 1, 2), axes="XYZC")
    assert read_mapping(path, torus).node.tolist() == [3]
    mapping = read_mapping(path, Torus((2, 1, 1)))
    assert (mapping.node.tolist(), mapping.slot.tolist()) == ([1], [1])
    path.write_text("[3]")
    assert read_mapping(path, torus).node.tolist() == [3]


HOSTS = "host,x,y\nc00,0,0\nc01,0,1\nc02,1,0\nc03,1,1\n"


@pytest.mark.parametrize(
    "text",
    [
        "rank 0=c00 slot=0\nrank 1=c01 slot=0\nrank 3=c02 slot=0:1\nrank 2=+n3 slot=0\n",
        "c00 slots=1\nc01\nc03:1\nc02\n",
        "c0[0-1],c03,c02",
        "rank,host\n0,c00\n1,c01\n2,c03\n3,c02.site.org\n",
        "rank x y\n0 0 0\n1 0 1\n2 1 1\n3 1 0\n",
        "[[0,2,1,1],[3,1,1,1],[2,1,1,1]]",
        '{"version":1,"map":[[0,2,1,1],[3,1,1,1],[2,1,1,1]]}',
        "(vector,(0,2,1),(3,1,1),(2,1,1))",
        "(0,0)\n(0,1) core=1\n(1,1)\n(1,0)\n",
        "4\n0 0\n1 2\n2 3\n3 1\n",
        "4\n0\n2\n3\n1\n",
        "TreeMatch: 0,1,3,2",
        "3: c02\n0: c00\n1: c01\n2: c03\n",
        "[1,0]<stdout>:c00\n[1,2]<stdout>:c03\n[1,1]<stdout>:c01\n[1,3]<stdout>:c02\n",
        "0: 0\n1: 1\n2: 3\n3: 2\n",
        "0-0;1;3;2",
        "rank,nid,x,y\n0,900,0,0\n1,901,0,1\n2,977,1,1\n3,976,1,0\n",
        "rank_bindings:\n  - {rank: 0, mesh_id: 0, mesh_host_rank: 0}\n"
        "  - {rank: 1, mesh_host_rank: 1}\n  - {rank: 2, mesh_host_rank: 3}\n"
        "  - {rank: 3, mesh_host_rank: 2}\nmesh_graph_desc_path: x\n",
    ],
)
def test_one_mapping_in_every_launchers_words(tmp_path, text):
    torus = Torus((2, 2))
    (tmp_path / "hosts.csv").write_text(HOSTS)
    (tmp_path / "best").write_text(text)
    mapping = read_mapping(tmp_path / "best", torus, hosts=tmp_path / "hosts.csv", n_tasks=4)
    assert mapping.node.tolist() == [0, 1, 3, 2]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (HOSTS, ["c00", "c01", "c02", "c03"]),
        ("c0[0-3]\n", ["c00", "c01", "c02", "c03"]),
        (
            "NID (HEX) NODENAME TYPE X Y\n3 0x3 c0-0c0s0n3 compute 0 0\n4 0x4 c0-0c0s1n0 c 1 1\n",
            ["nid00003", "nid00004"],
        ),
        ("processor_id=3,x_coord=0,y_coord=0\nprocessor_id=4,x_coord=1,y_coord=1\n", None),
    ],
)
def test_tables_of_hosts(tmp_path, text, names):
    (tmp_path / "hosts").write_text(text)
    hosts = read_hosts(tmp_path / "hosts", Torus((2, 2)))
    assert list(hosts.names) == (names or ["nid00003", "nid00004"])
    assert hosts.node[-1] == 3
    if "NODENAME" in text:
        assert hosts.place("c0-0c0s1n0") == 1


def test_hosts_that_are_not_known(tmp_path):
    with pytest.raises(InputError, match="host names and needs the host table"):
        write_mapping(TaskMapping([0], Torus((2, 2))), tmp_path / "best.rankfile")
    hosts = Hosts(["c00"], [0], Torus((2, 2)))
    with pytest.raises(InputError, match="no host at the node of task 0"):
        write_mapping(TaskMapping([3], Torus((2, 2))), tmp_path / "best.rankfile", hosts=hosts)
    assert not (tmp_path / "best.rankfile").exists()


def test_coordinates_need_a_torus(tmp_path):
    with pytest.raises(InputError, match="needs the torus"):
        write_mapping(TaskMapping([0], 4), tmp_path / "best.vcoord")
    advice = write_mapping(TaskMapping([3], Torus((2, 2))), tmp_path / "best.vcoord")
    assert advice == f"mpiexec --vcoordfile {tmp_path / 'best.vcoord'}"
    with pytest.raises(InputError, match="too many dimensions"):
        write_mapping(TaskMapping([0], Torus((2, 2, 2, 2))), tmp_path / "best.vcoord")


@pytest.mark.parametrize("name", ["rank-order", "flux"])
def test_positions_count_the_nodes_that_are_ours(tmp_path, name):
    torus = Torus((6,)).without(nodes=[1, 4])
    mapping = TaskMapping([5, 0, 3, 2], torus)
    write_mapping(mapping, tmp_path / "best", name)
    assert read_mapping(tmp_path / "best", torus, format=name).node.tolist() == [5, 0, 3, 2]
    with pytest.raises(InputError, match="an excluded node"):
        write_mapping(TaskMapping([1], Torus((6,))), tmp_path / "best", name, torus=torus)


def known():
    """Two hosts and their nodes."""
    return Hosts([f"tuolumne100{k}" for k in range(5, 7)], [0, 1], Torus((2,)))


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("tuolumne1005: 0-3\ntuolumne1006: 4-7\n", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("tuolumne1006: 0,2\ntuolumne1005: 1,3\n", [1, 0, 1, 0]),
        ("tuolumne1006: 0-1\n", [1, 1]),
        ("tuolumne1005: 0\ntuolumne1006: 1\ntuolumne1005: 2-3\n", [0, 1, 0, 0]),
    ],
)
def test_tasks_of_hosts_as_flux_prints_them(tmp_path, text, nodes):
    (tmp_path / "map.txt").write_text(text)
    mapping = read_mapping(tmp_path / "map.txt", Torus((2,)), hosts=known())
    assert mapping.node.tolist() == nodes


def test_devices_by_their_older_name(tmp_path):
    path = tmp_path / "ranks.yaml"
    rows = (f'  - rank: {k}\n    env: {{TT_METAL_VISIBLE_DEVICES: "{7 - k}"}}\n' for k in range(4))
    path.write_text("rank_bindings:\n" + "".join(rows))
    assert read_mapping(path, Torus((2, 4))).node.tolist() == [7, 6, 5, 4]
    with pytest.raises(InputError, match="one rank per device"):
        write_mapping(TaskMapping([3, 3], Torus((2, 2)), tasks_per_node=2), path)


def test_coordinates_below_their_count(tmp_path):
    path = tmp_path / "coords.txt"
    path.write_text("4 3\n1 0 0\n0 1 0\n0 0 1\n2 0 0\n")
    torus = Torus((4, 2, 2))
    assert (
        read_mapping(path, torus).node.tolist()
        == torus.node([[1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 0]]).tolist()
    )
    path.write_text("4 2\n1 1\n0 1\n0 0\n1 0\n")
    big = Torus((8, 8))
    assert read_mapping(path, big, n_tasks=4).node.tolist() == [9, 1, 0, 8]
    by_name = read_mapping(path, big, n_tasks=5, format="bluegene")
    assert by_name.node.tolist() == [34, 9, 1, 0, 8]
    with pytest.raises(InputError, match="--format bluegene or --format sst-coordinates"):
        read_mapping(path, big)
    assert read_mapping(path, big, format="sst-coordinates").n_tasks == 4
    # The last number is the node of a switch.
    path.write_text("3 3\n0 0 0\n0 0 1\n1 0 0\n")
    both = read_mapping(path, Torus((2, 2)))
    assert (both.node.tolist(), both.slot.tolist()) == ([0, 0, 2], [0, 1, 0])


SHARDINGS = [
    "devices=[4,2]0,4,1,5,2,6,3,7",
    "{devices=[4,2]<=[2,4]T(1,0)}",
    "sharding={devices=[4,1,2]0,4,1,5,2,6,3,7 last_tile_dim_replicate}",
    'mhlo.sharding = "{devices=[4,2]<=[2,4]T(1,0) last_tile_dims={replicated}}"',
    'sdy.mesh @mesh = <["x"=4, "y2"=2], device_ids=[0, 4, 1, 5, 2, 6, 3, 7]>',
]


@pytest.mark.parametrize("text", SHARDINGS)
def test_devices_of_a_sharding(tmp_path, text):
    path = tmp_path / "sharding.txt"
    path.write_text(text + "\n")
    ids = [0, 4, 1, 5, 2, 6, 3, 7]
    assert read_mapping(path, Torus((8,))).node.tolist() == ids
    (tmp_path / "ids.json").write_text(str(ids))
    for torus in (Torus((2, 4)), Torus((2, 2, 2))):
        expected = read_mapping(tmp_path / "ids.json", torus).node
        np.testing.assert_array_equal(read_mapping(path, torus).node, expected)


ATTRIBUTES = (
    "[{'core_on_chip': 0, 'coords': [1, 0, 0], 'name': 'TPU:1'}, "
    "{'core_on_chip': 0, 'coords': [0, 0, 0], 'name': 'TPU:0', 'megacore': True}, "
    "{'core_on_chip': 0, 'coords': (1, 1, 0), 'name': 'TPU:3'}, "
    "{'core_on_chip': 0, 'coords': [0, 1, 0], 'name': 'TPU:2', 'host': None}]"
)


def test_device_attributes_are_sorted_by_name(tmp_path):
    path = tmp_path / "devices.txt"
    path.write_text(ATTRIBUTES)
    for torus in (Torus((2, 2, 1)), Torus((2, 2))):
        assert read_mapping(path, torus).node.tolist() == [0, 2, 1, 3]
        assert read_devices(path, torus).nodes.tolist() == [0, 2, 1, 3]


def test_one_reader_of_devices(tmp_path):
    path = tmp_path / "devices.txt"
    path.write_text(
        "[TpuDevice(id=4, process_index=1, coords=(4,0,0), core_on_chip=0),\n"
        " TpuDevice(id=5, process_index=1, coords=(5,0,0), core_on_chip=0),\n"
        " TpuDevice(id=6, process_index=1, coords=(4,1,0), core_on_chip=0),\n"
        " TpuDevice(id=7, process_index=1, coords=(5,1,0), core_on_chip=0)]\n"
    )
    torus = Torus((4, 2, 1))
    assert read_devices(path, torus).nodes.tolist() == [0, 2, 1, 3]
    assert read_mapping(path, torus).node.tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("proc,where\n0,2\n1,0\n", {"task": "proc", "node": "where"}),
        ("rank,East,North\n0,1,0\n1,0,0\n", {"task": "rank", "x": "East", "y": "North"}),
        ("node,task\n1,0\n0,2\n", {"task": "node", "node": "task"}),
    ],
)
def test_columns_of_other_names(tmp_path, text, columns):
    path = tmp_path / "map.csv"
    path.write_text(text)
    if columns["task"] == "node":
        assert read_mapping(path, Torus((4,)), columns=columns).node.tolist() == [2, 0]
    else:
        assert read_mapping(path, Torus((2, 2)), columns=columns).node.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("0\n1\n2\n3\n", "nodes"),
        ("task,node\n3,3\n0,0\n1,1\n2,2\n", "table"),
        ("0-3\n", "rank-order"),
        ("[[0,4,1,1]]", "flux"),
        ("[0,1,2,3]", "device-ids"),
        ("(0)\n(1)\n(2)\n(3)\n", "vcoord"),
        ("4\n0 0\n1 1\n2 2\n3 3\n", "scotch-map"),
        ("c0\nc1\nc2\nc3\n", "hostfile"),
        ("one,0,1,2,3\n", "named-lines"),
    ],
)
def test_more_places_than_tasks_are_cut_with_a_note(tmp_path, text, form):
    path, torus = tmp_path / "map.txt", Torus((4,))
    path.write_text(text)
    hosts = Hosts([f"c{k}" for k in range(4)], range(4), torus)
    given = None if form == "device-ids" else hosts
    with pytest.warns(InputWarning, match="4 rows; the 2 tasks of the job use"):
        mapping = read_mapping(path, torus, n_tasks=2, format=form, hosts=given)
    assert mapping.node.tolist() == [0, 1]


BY_SUFFIX = [
    (dialect.name, suffix)
    for dialect in dialects("mapping")
    if dialect.write
    for suffix in dialect.suffixes
]


@pytest.mark.parametrize(("name", "suffix"), BY_SUFFIX)
@settings(max_examples=40)
@given(data=st.data())
def test_a_suffix_is_read_without_a_word_or_asked_about(tmp_path_factory, name, suffix, data):
    torus, mapping, hosts = data.draw(placed(packed=name == "rank-order", most=1))
    folder = tmp_path_factory.mktemp("suffix")
    path = folder / (f"best{suffix}" if suffix.startswith(".") else suffix.upper())
    hosts = None if name == "device-ids" else hosts
    try:
        write_mapping(mapping, path, hosts=hosts)
    except InputError:
        assert list(folder.iterdir()) == []
        return
    try:
        back = read_mapping(path, torus, hosts=hosts)
    except InputError as error:
        assert "cannot identify" in error.message  # noqa: PT017
        return
    np.testing.assert_array_equal(back.node, mapping.node)


def test_a_rank_order_says_how_many_ranks_a_node_takes(tmp_path):
    mapping = TaskMapping([0, 0, 1], Torus((6,)), tasks_per_node=2)
    write_mapping(mapping, tmp_path / "MPICH_RANK_ORDER")
    assert read_mapping(tmp_path / "MPICH_RANK_ORDER", Torus((6,))).node.tolist() == [0, 0, 1]


def test_numbers_of_several_devices_a_chip(tmp_path):
    torus = Torus((2, 2, 2), axes="XYC")
    mapping = TaskMapping([7, 2, 2], torus, tasks_per_node=2)
    advice = write_mapping(mapping, tmp_path / "ids.json")
    assert "--tasks-per-node 2" in advice
    back = read_mapping(tmp_path / "ids.json", torus, tasks_per_node=2)
    assert (back.node.tolist(), back.slot.tolist()) == ([7, 2, 2], [0, 0, 1])


STYLES = [
    "rank_bindings:\n- {rank: 0, env_overrides: {TT_VISIBLE_DEVICES: '3'}}\n"
    "- {rank: 1, env_overrides: {TT_VISIBLE_DEVICES: '2'}}\n",
    "rank_bindings: [{rank: 0, mesh_id: 0, mesh_host_rank: 3}, {mesh_host_rank: 2, rank: 1}]\n",
    "rank_bindings:\n  [ {rank: 0,\n     TT_VISIBLE_DEVICES: 3},\n"
    "    {rank: 1, TT_VISIBLE_DEVICES: 2} ]\nother: {rank: 7}\n",
    "rank_bindings:\n  - mesh_host_rank: 3\n    rank: 0\n  - mesh_host_rank: 2\n    rank: 1\n",
]


@pytest.mark.parametrize("text", STYLES)
def test_bindings_are_read_in_each_style_of_yaml(tmp_path, text):
    path = tmp_path / "b.yaml"
    path.write_text(text)
    assert read_mapping(path, Torus((2, 2))).node.tolist() == [3, 2]


def test_ranges_a_line_may_be_tasks_of_nodes_or_an_order(tmp_path):
    path = tmp_path / "ranks.map"
    path.write_text("0-3\n4-7\n")
    torus = Torus((2, 4))
    with pytest.raises(InputError, match=r"wrong number of columns|cannot identify"):
        read_mapping(path, torus)
    assert read_mapping(path, torus, format="rank-order").node.tolist() == [*range(8)]
    for text in ("# MPICH_RANK_ORDER\n0-3\n4-7\n", "0-3,\n4-7\n"):
        path.write_text(text)
        assert read_mapping(path, torus).node.tolist() == [*range(8)]
    for text in ("0-3;4-7\n", "0-3;4,5-7\n"):
        path.write_text(text)
        assert read_mapping(path, torus).node.tolist() == [0] * 4 + [1] * 4


PRINTED = {
    "srun": "1: c01\n0: c00\n2: c01\n3: c03\n",
    "mpich": "[1] c01\n[0] c00\n[2] c01\n[3] c03\n",
    "tags of 5": "".join(
        f"[prterun-c00-4242@1,{rank}]<stdout>: c0{host}\n" for rank, host in enumerate((0, 1, 1, 3))
    ),
    "cray": "[PE_0]: MPI rank order: Using a custom rank order from file: MPICH_RANK_ORDER\n"
    "[PE_0]: rank 0 is on c00\n[PE_0]: rank 1 is on c01\n[PE_0]: rank 2 is on c01\n"
    "[PE_0]: rank 3 is on c03; originally was on c02\n",
    "xthi": "Hello from rank 3, on c03. (core affinity = 0-63)\n"
    "Hello from rank 0, on c00. (core affinity = 0-63)\n"
    "Hello from rank 1, thread 0, on c01. (core affinity = 0-7)\n"
    "Hello from rank 1, thread 1, on c01. (core affinity = 0-7)\n"
    "Hello from rank 2, on c01.site.org. (core affinity = 8)\n",
    "xthi of nodes": "Node summary for    3 nodes:\n"
    "Node    0, hostname c00, mpi   1, omp   1, executable xthi\n"
    "Node    1, hostname c01, mpi   2, omp   2, executable xthi\n"
    "Node    2, hostname c03, mpi   1, omp   1, executable xthi\nMPI summary: 4 ranks\n"
    "Node    0, rank    0, thread   0, (affinity =  0)\n"
    "Node    1, rank    1, thread   0, (affinity =  0)\n"
    "Node    1, rank    1, thread   1, (affinity =  1)\n"
    "Node    1, rank    2, thread   0, (affinity =  2)\n"
    "Node    2, rank    3, thread   0, (affinity =  0)\n",
    "bindings of 4": "[c00:01] MCW rank 0 bound to socket 0[core 0[hwt 0]]: [B/.]\n"
    "[c01:02] MCW rank 1 bound to socket 0[core 0[hwt 0]]: [B/.]\n"
    "[c01:02] MCW rank 2 is not bound (or bound to all available processors)\n"
    "[c03:07] MCW rank 3 bound to socket 0[core 0[hwt 0]]: [B/.]\n",
    "bindings of 5": "".join(
        f"[c0{host}:1] Rank {rank} bound to package[0][core:0]\n"
        for rank, host in enumerate((0, 1, 1, 3))
    ),
    "map": "Data for JOB [123,1] offset 0 Total slots allocated 4\n\n"
    " ========================   JOB MAP   ========================\n\n"
    + "".join(
        f" Data for node: {host}\tNum slots: 2\tMax slots: 0\tNum procs: {len(ranks)}\n"
        + "".join(
            f" \tProcess OMPI jobid: [1,1] App: 0 Process rank: {r} Bound: N/A\n" for r in ranks
        )
        for host, ranks in (("c00", [0]), ("c01", [1, 2]), ("c03", [3]))
    )
    + " =============================================================\n",
    "intel": "[0] MPI startup(): Intel(R) MPI Library, Version 2021.6\n"
    "[0] MPI startup(): Rank    Pid      Node name  Pin cpu\n"
    + "".join(
        f"[0] MPI startup(): {rank}       399{rank}     c0{host}        {{0,1}}\n"
        for rank, host in enumerate((0, 1, 1, 3))
    ),
}


def four_hosts():
    """Hosts on the nodes of a torus of four, in reverse."""
    return Hosts([f"c0{k}" for k in range(4)], [3, 2, 1, 0], Torus((2, 2)))


@pytest.mark.parametrize("program", PRINTED)
def test_ranks_as_programs_print_them(tmp_path, program):
    path = tmp_path / "printed.txt"
    path.write_text(PRINTED[program])
    mapping = read_mapping(path, Torus((2, 2)), hosts=four_hosts())
    assert mapping.node.tolist() == four_hosts().node[[0, 1, 1, 3]].tolist()
    # The job ran as printed, so that sharing a node is intended.
    assert mapping.tasks_per_node == 2
    path.write_text(PRINTED[program] + "and so on\n")
    with pytest.raises(InputError, match="unknown form of line: found and so on"):
        read_mapping(path, Torus((2, 2)), hosts=four_hosts(), format="labelled")


@pytest.mark.parametrize("text", ["c00\n^c01\nc02\n", "^c00\nc01\n", "c00 slot=2\n", "c00 2\n"])
def test_hosts_that_are_left_out_and_unknown_words_are_refused(tmp_path, text):
    for name in ("a.hosts", "a.txt"):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=r"hostfile|cannot identify"):
            read_mapping(tmp_path / name, Torus((2, 2)), hosts=four_hosts())


def test_users_of_hosts_and_limits_of_slots_do_not_count(tmp_path):
    (tmp_path / "a.hosts").write_text("me@c00 max_slots=4\nyou@c01 slots=2 max-slots=8\nc03\n")
    mapping = read_mapping(tmp_path / "a.hosts", Torus((2, 2)), hosts=four_hosts())
    assert mapping.node.tolist() == four_hosts().node[[0, 1, 1, 3]].tolist()


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("GSPMDSharding({devices=[4,2]<=[2,4]T(1,0)})", [0, 4, 1, 5, 2, 6, 3, 7]),
        ('<["x"=4, "y"=2], device_ids=[0, 4, 1, 5, 2, 6, 3, 7]>', [0, 4, 1, 5, 2, 6, 3, 7]),
        ('sdy.mesh @mesh = <["x"=2, "y"=4]>', range(8)),
        ("DeviceMesh('cuda', [[0, 1, 2, 3], [4, 5, 6, 7]], mesh_dim_names=('dp', 'tp'))", range(8)),
        ("DeviceMesh([[3, 1], [2, 0]])", [3, 1, 2, 0]),
        ("DeviceMesh((dp=2, tp=4), device: 'cuda', stride: (4, 1))", range(8)),
        ("mesh = DeviceMesh((2, 4), 'xla', stride: (1, 2))\n", [0, 2, 4, 6, 1, 3, 5, 7]),
    ],
)
def test_meshes_as_frameworks_print_them(tmp_path, text, ids):
    (tmp_path / "mesh.txt").write_text(text)
    (tmp_path / "ids.json").write_text(str([*ids]))
    found = read_mapping(tmp_path / "mesh.txt", Torus((2, 4)))
    assert found.node.tolist() == read_mapping(tmp_path / "ids.json", Torus((2, 4))).node.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NamedSharding(mesh=Mesh('x': 2), spec=P('x'))", r"JAX .*expected print\(mesh.device_ids"),
        ("mesh = Mesh(axis_sizes=(2, 4), axis_names=('x', 'y'))", r"print\(mesh.device_ids\)"),
        ("DeviceMesh((dp=2, tp=4), device: 'cuda', stride: (4,))", "a stride for each size"),
        ("DeviceMesh([[0, 1], [2, 3]]) of 4", "text besides the mesh"),
        ("DeviceMesh([0, 1])\nDeviceMesh([2, 3])", "one sharding"),
        ("=== OTF2-PRINT ===\n\n=== Events ===\n", "the trace, such as"),
    ],
)
def test_texts_without_placement_name_what_has_it(tmp_path, text, message):
    (tmp_path / "mesh.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        read_mapping(tmp_path / "mesh.txt", Torus((2, 4)))


@pytest.mark.parametrize(
    "form",
    [
        "TpuDevice(id={i}, coords=({x},0,0), core_on_chip=0, slice_index={s})",
        "MegaScalePjRtDevice(wrapped=TpuDevice(id={i}, coords=({x},0,0), core_on_chip=0), "
        "slice_id={s})",
    ],
)
def test_devices_of_several_slices(tmp_path, form):
    path = tmp_path / "devices.txt"
    for slices in (1, 2):
        each = [(4 * s + x, x, s) for s in range(slices) for x in range(4)]
        path.write_text(f"[{', '.join(form.format(i=i, x=x, s=s) for i, x, s in each)}]")
        if slices == 1:
            assert read_mapping(path, Torus((4,))).node.tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match="devices of several slices: found 0, 1"):
        read_mapping(path, Torus((4,)))


def test_tasks_of_each_node_between_semicolons(tmp_path):
    path = tmp_path / "map.txt"

    def nodes(text, torus, **how):
        path.write_text(text)
        return read_mapping(path, torus, **how).node.tolist()

    assert nodes("0,1,4,5;2,3,6,7", "2") == [0, 0, 1, 1, 0, 0, 1, 1]
    assert nodes("1;;0", "3") == [2, 0]
    # Each its own inverse.
    assert nodes("0;1;3;2", "4") == [0, 1, 3, 2]
    with pytest.raises(InputError, match="--format nodes or --format flux"):
        nodes("0;3;1;2", "4")
    assert nodes("0;3;1;2", "4", format="flux") == [0, 2, 3, 1]
    assert nodes("0;3;1;2", "4", format="nodes") == [0, 3, 1, 2]


def test_empty_fields_are_idle_cores(tmp_path):
    path = tmp_path / "reorder_file"
    path.write_text("0,2,,3,\n1,4,,5\n")
    with pytest.warns(InputWarning, match="2 empty fields, the first on line 1"):
        mapping = read_mapping(path, "2")
    assert mapping.node.tolist() == [0, 1, 0, 0, 1, 1]
    assert mapping.slot.tolist() == [0, 0, 1, 3, 1, 3]
    with pytest.raises(InputError, match=r"idle cores: .*--tasks-per-node"):
        read_mapping(path, "8")
    with pytest.warns(InputWarning):
        assert read_mapping(path, "8", tasks_per_node=4).node.tolist() == mapping.node.tolist()


@pytest.mark.parametrize(
    "name", ["MPICH_RANK_ORDER", "mpich_rank_order.txt", "MPICH_RANK_ORDER.gz"]
)
def test_the_name_of_a_file_decides_between_formats_that_fit(tmp_path, name):
    path = tmp_path / name
    for text, nodes in (("0-7", [*range(8)]), ("3,1,0,2", [2, 1, 3, 0]), ("1\n0\n", [1, 0])):
        path.write_text(text)
        assert read_mapping(path, "2x2x2").node.tolist() == nodes


def test_columns_that_are_not_used_are_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("task,node,weight\n0,1,5\n1,0,5\n")
    with pytest.warns(InputWarning, match="unused columns: weight"):
        read_mapping(path, "2")
    path.write_text("(0) core=2\n(1) core=2\n")
    with pytest.warns(InputWarning, match="unused words: core"):
        read_mapping(path, "2")
    path.write_text("host,x,rack\nc0,1,a\nc1,0,a\n")
    with pytest.warns(InputWarning, match="unused columns: rack"):
        read_hosts(path, "2")
    path.write_text("mapping,time,note,time_std\na,1.5,x,2\nb,1.25,y,3\n")
    with pytest.warns(InputWarning, match="unused columns: time_std$"):
        assert read_times(path) == {"a": 1.5, "b": 1.25}


@pytest.mark.parametrize("content", ["host,node\nn#1,0\nn#2,1 # last\n", "n#1 # first\nn#2\n"])
def test_names_of_hosts_may_hold_hashes(tmp_path, content):
    (tmp_path / "job.hosts").write_text(content)
    assert read_hosts(tmp_path / "job.hosts", Torus((2,))).names == ("n#1", "n#2")


@pytest.mark.parametrize("read", [tc.read_workload, partial(tc.read_mapping, torus="2x2")])
def test_names_of_columns_are_texts(tmp_path, read):
    path = tmp_path / "table.csv"
    path.write_text("task,node\n0,0\n")
    with pytest.raises(InputError, match="bad name of a column: found 1"):
        read(path, columns={"task": 1})


def test_columns_of_hosts_stand_once(tmp_path):
    path = tmp_path / "hosts.csv"
    path.write_text("host,x,y,x\nc00,0,0,1\n")
    with pytest.raises(InputError, match="duplicate column: found x"):
        read_hosts(path, "2x2")
