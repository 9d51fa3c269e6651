import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toruscast.errors import InputError
from toruscast.formats import read_mapping, read_mappings, write_mapping, write_mappings
from toruscast.mapping import TaskMapping, Torus

SHAPES = st.sampled_from([(5,), (2, 4), (3, 1, 2), (2, 2, 2, 2, 2)])


@st.composite
def placed(draw):
    """A torus and a mapping onto it, its tasks in any places."""
    torus = Torus(draw(SHAPES))
    per_node = draw(st.integers(1, 3))
    places = draw(st.permutations(range(torus.n_nodes * per_node)))
    places = places[: draw(st.integers(1, len(places)))]
    node, slot = zip(*(divmod(place, per_node) for place in places), strict=True)
    return torus, TaskMapping(node, torus, slot=slot)


def same(a, b):
    return a.node.tolist() == b.node.tolist() and a.slot.tolist() == b.slot.tolist()


@given(case=placed(), suffix=st.sampled_from([".map", ".txt", ".csv"]))
def test_round_trip(tmp_path_factory, case, suffix):
    torus, mapping = case
    path = tmp_path_factory.mktemp("round") / f"swaps 0.25{suffix}"
    write_mapping(mapping, path, torus=torus)
    back = read_mapping(path, torus)
    assert same(back, mapping)
    assert back.n_nodes == torus.n_nodes
    assert back.name == "swaps 0.25"


TORUS = Torus((2, 4))
# Four tasks, the first two on node 1, then nodes 7 and 0.
EXPECTED = TaskMapping([1, 1, 7, 0], TORUS, tasks_per_node=2)


@pytest.mark.parametrize(
    "text",
    [
        "0 1 0\n0 1 1\n1 3 0\n0 0 0\n",
        "\ufeff# A B T\r\n0 1 0\r\n\r\n0 1 1\r\n1 3 0 # far\r\n0 0 0",
        "0,1,0\n0,1,1\n1,3,0\n0,0,0\n",
        "1\n1\n7\n0\n",
        "1 1 7 0\n",
        "1, 1, 7, 0\n",
        "task,node\n3,0\n0,1\n1,1\n2,7\n",
        "slot,task,node\n0,3,0\n0,0,1\n1,1,1\n0,2,7\n",
        "node slot\n1 0\n1 1\n7 0\n0 0\n",
        "Rank Node\n0 1\n1 1\n2 7\n3 0\n",
        "scan\nx_coord y_coord number process_id(s)\n0 1 2 0 1\n1 3 1 2\n0 0 1 3\n1 1 0\n",
        "x y n process_id(s)\n0 0 1 3\n0 1 2 1,0\n1 3 1 2\n",
        "hand,1,1,7,0\n",
    ],
)
def test_formats(tmp_path, text):
    (tmp_path / "hand.map").write_bytes(text.encode())
    mapping = read_mapping(tmp_path / "hand.map", TORUS, tasks_per_node=2)
    assert same(mapping, EXPECTED)
    assert mapping.name == ("scan" if text.startswith("scan") else "hand")
    (tmp_path / "hand.map.gz").write_bytes(gzip.compress(text.encode()))
    packed = read_mapping(tmp_path / "hand.map.gz", TORUS, tasks_per_node=4)
    assert same(packed, EXPECTED)
    assert packed.name == mapping.name
    assert packed.tasks_per_node == 4


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("1\n1\n7\n0\n", 2),
        ("1 1 7 0\n", 1),
        ("0 1\n0 1\n1 3\n0 0\n", 2),
        ("task,node\n3,0\n1,1\n0,1\n2,7\n", 3),
        ("hand,1,1,7,0\n", 1),
        ("(0,1)\n(0,1)\n(1,3)\n(0,0)\n", 2),
        ("0: 1\n1: 1\n2: 7\n3: 0\n", None),
        ("0 1 0\n0 1 1\n1 3 0\n0 0 0\n", None),
        ("task,node,slot\n3,0,0\n0,1,0\n1,1,1\n2,7,0\n", None),
        ("x y n process_id(s)\n0 0 1 3\n0 1 2 1,0\n1 3 1 2\n", None),
        ("3;0,1;;;;;;2\n", None),
        ("[[1,1,2,1],[7,1,1,1],[0,1,1,1]]\n", None),
        ("# MPICH_RANK_REORDER_METHOD=3, 2 ranks a node\n2,3,0,1\n", None),
    ],
)
def test_two_tasks_share_a_node_only_where_the_file_states_it(tmp_path, text, line):
    path = tmp_path / "hand.map"
    path.write_text(text)
    if line is None:
        assert read_mapping(path, TORUS).tasks_per_node == 2
        return
    with pytest.raises(InputError, match=r"tasks 0 and 1 share node 1; --tasks-per-node 2") as said:
        read_mapping(path, TORUS)
    assert said.value.line == line
    assert read_mapping(path, TORUS, tasks_per_node=2).node.tolist() == [1, 1, 7, 0]
    # Three tasks have no place on two nodes but two a node.
    small = TORUS.without(nodes=[2, 3, 4, 5, 6])
    assert read_mapping(path, small).tasks_per_node == 2


def test_lone_line_of_coordinates_is_one_task(tmp_path):
    (tmp_path / "a.map").write_text("1 3 0\n")
    assert read_mapping(tmp_path / "a.map", TORUS).node.tolist() == [7]


def test_folder(tmp_path):
    mappings = [
        TaskMapping([1, 0, 2], TORUS, name="b 50%"),
        TaskMapping([0, 1, 2], TORUS, name="a#1"),
    ]
    write_mappings(mappings, tmp_path / "new" / "maps", torus=TORUS)
    folder = tmp_path / "new" / "maps"
    (folder / "README").write_text("not a mapping")
    (folder / ".hidden.map").write_text("not a mapping")
    (folder / "c.csv").write_text("task,node\n0,7\n1,5\n2,6\n")
    back = read_mappings(folder, TORUS)
    assert [mapping.name for mapping in back] == ["a#1", "b 50%", "c"]
    assert [mapping.node.tolist() for mapping in back] == [[0, 1, 2], [1, 0, 2], [7, 5, 6]]
    assert [mapping.name for mapping in read_mappings(folder / "c.csv", TORUS)] == ["c"]


def test_many_in_one_file(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text("# two\nswap 5%,0,1,2\nreverse, 2, 1, 0\n")
    back = read_mappings(path, TORUS)
    assert [mapping.name for mapping in back] == ["swap 5%", "reverse"]
    assert back[1].node.tolist() == [2, 1, 0]


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "a\n", "a\0b", "ok"])
def test_bad_names_write_nothing(tmp_path, name):
    mappings = [TaskMapping([0], TORUS, name="ok"), TaskMapping([1], TORUS, name=name)]
    with pytest.raises(InputError, match="mapping name"):
        write_mappings(mappings, tmp_path / "maps", torus=TORUS)
    assert list(tmp_path.iterdir()) == []


def test_bad_targets(tmp_path):
    with pytest.raises(InputError, match="unknown suffix"):
        write_mapping(EXPECTED, tmp_path / "a.xyz", torus=TORUS)
    with pytest.raises(InputError, match="does not fit the torus"):
        write_mapping(EXPECTED, tmp_path / "a.map", torus=Torus((2, 2)))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="folder cannot be created"):
        write_mappings([EXPECTED.renamed("a")], tmp_path / "file", torus=TORUS)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_columns_on_a_line_of_nodes_may_be_task_and_node(tmp_path):
    path, torus = tmp_path / "a.map", Torus((8,))
    lines = "0 3\n1 7\n2 1\n3 0\n"
    path.write_text(lines)
    for reader in (read_mapping, read_mappings):
        with pytest.raises(InputError, match=r"ambiguous columns: .* task,node or node,slot"):
            reader(path, torus)
    path.write_text("task node\n" + lines)
    assert read_mapping(path, torus).node.tolist() == [3, 7, 1, 0]
    path.write_text("node slot\n" + lines)
    assert read_mapping(path, torus).slot.tolist() == [3, 7, 1, 0]


@pytest.mark.parametrize(
    ("lines", "node", "slot"),
    [
        ("0 0\n1 0\n2 0\n", [0, 1, 2], [0, 0, 0]),
        ("0 0\n0 1\n1 0\n", [0, 0, 1], [0, 1, 0]),
        ("1 2\n3 0\n", [1, 3], [2, 0]),
        ("0 8\n1 0\n", [0, 1], [8, 0]),
    ],
)
def test_coordinates_and_slots_that_are_no_tasks_and_nodes(tmp_path, lines, node, slot):
    path = tmp_path / "a.map"
    path.write_text(lines)
    mapping = read_mapping(path, Torus((8,)))
    assert (mapping.node.tolist(), mapping.slot.tolist()) == (node, slot)


@pytest.mark.parametrize(
    "text", ["x y\n0 0\n0 1\n1 1\n1 0\n", "X,Y,slot\n0,0,0\n0,1,0\n1,1,0\n1,0,0\n"]
)
def test_named_coordinates_are_those_of_the_tasks_in_order(text, tmp_path):
    path = tmp_path / "places.txt"
    path.write_text(text)
    assert read_mapping(path, Torus((2, 2))).node.tolist() == [0, 1, 3, 2]


def test_two_columns_of_which_the_first_counts_are_asked_about(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("0 0\n1 1\n2 2\n3 3\n")
    with pytest.raises(InputError, match="a header such as task,node or x,y"):
        read_mapping(path, Torus((2, 2)))
