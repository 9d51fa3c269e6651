"""Files of launchers: what is written reads back, what is known of them is read as it is meant."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toruscast.errors import InputError, InputWarning
from toruscast.mapping import Hosts, TaskMapping, Torus
from toruscast.mapping.formats import read_hosts, read_mapping, write_mapping
from toruscast.mapping.formats.registry import dialects

SHAPES = st.sampled_from([(6,), (2, 4), (3, 1, 2), (2, 2, 2)])
WRITTEN = [dialect.name for dialect in dialects("mapping") if dialect.write]
# Those that keep the slot of each task; the others give slots in rank order.
WITH_SLOTS = {"bluegene", "table", "rank-order", "rankfile", "device-ids"}


@st.composite
def placed(draw, *, packed):
    """A mapping, its slots in rank order, and the hosts of all nodes in any order.

    ``packed`` ones fill host after host, as some launchers do.
    """
    torus = Torus(draw(SHAPES))
    per_node = draw(st.integers(1, 3))
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


@pytest.mark.parametrize("name", WRITTEN)
@given(data=st.data())
def test_what_is_written_reads_back(tmp_path_factory, name, data):
    torus, mapping, hosts = data.draw(placed(packed=name == "rank-order"))
    path = tmp_path_factory.mktemp("round") / "best"
    if name == "device-ids":
        # Numbers of devices are those of hosts where there are hosts.
        hosts = None
    write_mapping(mapping, path, name, hosts=hosts)
    back = read_mapping(
        path,
        torus,
        hosts=hosts,
        # On a line of nodes it stands below names of columns.
        format="auto" if (name, torus.ndim) == ("bluegene", 1) else name,
        n_tasks=mapping.n_tasks,
        tasks_per_node=mapping.tasks_per_node,
    )
    np.testing.assert_array_equal(back.node, mapping.node)
    if name in WITH_SLOTS:
        np.testing.assert_array_equal(back.slot, mapping.slot)


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_is_recognised(tmp_path, name):
    torus = Torus((4, 4))
    mapping = TaskMapping(np.random.default_rng(3).permutation(16), torus)
    hosts = None if name == "device-ids" else Hosts([f"n{k}" for k in range(16)], range(16), torus)
    write_mapping(mapping, tmp_path / "best", name, hosts=hosts)
    back = read_mapping(tmp_path / "best", torus, hosts=hosts)
    np.testing.assert_array_equal(back.node, mapping.node)


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
    path.write_text("0,1,3,2\n")
    with pytest.raises(InputError, match=r"found nodes .* and rank-order .*--mapping-format"):
        read_mapping(path, Torus((4,)))
    path.write_text("# grid_order\n0,1,3\n")
    with pytest.raises(InputError, match="task 2 missing"):
        read_mapping(path, Torus((4,)))


def test_a_launcher_that_fills_node_after_node_takes_no_holes(tmp_path):
    torus = Torus((4,))
    with pytest.raises(InputError, match="fills node after node: found node 1 with 0 tasks"):
        write_mapping(TaskMapping([2, 0], torus), tmp_path / "MPICH_RANK_ORDER")
    hosts = Hosts(["a", "b"], [2, 0], torus)
    write_mapping(TaskMapping([0, 2], torus), tmp_path / "MPICH_RANK_ORDER", hosts=hosts)
    assert (tmp_path / "MPICH_RANK_ORDER").read_text().endswith("1,0\n")


def test_a_map_of_a_whole_partition_serves_a_smaller_job(tmp_path):
    path = tmp_path / "full.map"
    path.write_text("".join(f"{x} {y} 0\n" for x in range(4) for y in range(4)))
    for torus in (Torus((4, 4)), Torus((4, 4, 1))):
        with pytest.warns(InputWarning, match="16 places, of which the 4 tasks of the job take"):
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host,x\nc00,0\n", "1: table of hosts without places|2: table of hosts without places"),
        ("host,x,y\nc00,0,0\nc00,0,1\n", "3: host stands twice: found c00, also on line 2"),
        ("host,x,y\nc00,0,2\n", "2: bad coordinate y: found 2"),
        ("host,x,y\nc00,0\n", "2: wrong number of columns"),
        ("c0[0-9]\n", "names of hosts without places: found 10, expected 4"),
    ],
)
def test_tables_of_hosts_at_fault(tmp_path, text, message):
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(InputError, match=message):
        read_hosts(tmp_path / "hosts", Torus((2, 2)))


def test_hosts_that_are_not_known(tmp_path):
    path = tmp_path / "rankfile"
    path.write_text("rank 0=c00 slot=0\nrank 1=c9 slot=0\n")
    with pytest.raises(InputError, match=r"1: names of hosts without a table .*--hosts"):
        read_mapping(path, Torus((2, 2)))
    (tmp_path / "hosts.csv").write_text(HOSTS)
    with pytest.raises(InputError, match="2: host that is not in the table of hosts: found c9"):
        read_mapping(path, Torus((2, 2)), hosts=tmp_path / "hosts.csv")
    with pytest.raises(InputError, match="names of hosts, so it needs their table"):
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
    with pytest.raises(InputError, match="job's own coordinates"):
        write_mapping(TaskMapping([0], Torus((2, 2, 2, 2))), tmp_path / "best.vcoord")


@pytest.mark.parametrize("name", ["rank-order", "flux"])
def test_positions_count_the_nodes_that_are_ours(tmp_path, name):
    torus = Torus((6,)).without(nodes=[1, 4])
    mapping = TaskMapping([5, 0, 3, 2], torus)
    write_mapping(mapping, tmp_path / "best", name)
    assert read_mapping(tmp_path / "best", torus, format=name).node.tolist() == [5, 0, 3, 2]
    with pytest.raises(InputError, match="a node of others"):
        write_mapping(TaskMapping([1], Torus((6,))), tmp_path / "best", name, torus=torus)
