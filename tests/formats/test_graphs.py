"""Graphs of profilers, partitioners and simulators: what they hold, and what is refused."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from graph_files import edges, message, varint, write
from hypothesis import given, settings
from hypothesis import strategies as st

from toruscast.errors import InputError, InputWarning
from toruscast.formats import read_comm, read_workload, write_comm
from toruscast.mapping import CommGraph

K4 = {(0, 1): 7, (0, 2): 5, (0, 3): 5, (1, 2): 9, (1, 3): 5, (2, 3): 2}
BOTH = K4 | {(b, a): w for (a, b), w in K4.items()}


def metis(code, weights=1):
    """The complete graph of four, with sizes and weights of vertices as the code says."""
    rows = []
    for v in range(4):
        extra = ([9] if code[0] == "1" else []) + [7] * (weights if code[1] == "1" else 0)
        ends = [(d, BOTH[v, d]) for d in range(4) if d != v]
        pairs = [x for d, w in ends for x in ((d + 1, w) if code[2] == "1" else (d + 1,))]
        rows.append(" ".join(map(str, extra + pairs)))
    count = f" {weights}" if weights > 1 else ""
    return f"% all to all\n4 6 {code}{count}\n" + "\n".join(rows) + "\n"


@pytest.mark.parametrize("code", ["000", "001", "010", "011", "100", "101", "110", "111"])
@pytest.mark.parametrize("weights", [1, 2])
def test_metis_codes(tmp_path, code, weights):
    comm = read_comm(write(tmp_path, metis(code, weights if code[1] == "1" else 1), "app.graph"))
    assert edges(comm) == (BOTH if code[2] == "1" else dict.fromkeys(BOTH, 1))


def test_metis_vertices_without_edges_have_empty_lines(tmp_path):
    comm = read_comm(write(tmp_path, "4 1\n2\n1\n\n\n", "app.graph"))
    assert (comm.n_tasks, edges(comm)) == (4, {(0, 1): 1, (1, 0): 1})


def test_what_fits_metis_and_edges_is_asked_for(tmp_path):
    path = write(tmp_path, "2 1 11\n1 2 5\n1 1 5\n")
    with pytest.raises(InputError, match=r"--format edges .*--format metis"):
        read_comm(path)
    assert edges(read_comm(path, format="metis")) == {(0, 1): 5, (1, 0): 5}
    with pytest.warns(InputWarning, match="count tasks from 1"):
        assert read_comm(path, format="edges").n_edges == 3


@pytest.mark.parametrize("flags", ["000", "001", "010", "011", "100", "111"])
@pytest.mark.parametrize("base", [0, 1])
def test_scotch_flags(tmp_path, flags, base):
    rows = []
    for v in range(4):
        head = ([v + base] if flags[0] == "1" else []) + ([3] if flags[2] == "1" else [])
        ends = [(BOTH[v, d], d + base) for d in range(4) if d != v]
        pairs = [x for w, d in ends for x in ((w, d) if flags[1] == "1" else (d,))]
        rows.append(" ".join(map(str, [*head, 3, *pairs])))
    comm = read_comm(write(tmp_path, f"0\n4 12\n{base} {flags}\n" + "\n".join(rows) + "\n"))
    assert edges(comm) == (BOTH if flags[1] == "1" else dict.fromkeys(BOTH, 1))


@st.composite
def symmetric(draw):
    """Graphs that a partitioner's format holds."""
    n = draw(st.integers(1, 9))
    pairs = [(a, b) for a in range(n) for b in range(a)]
    some = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    weights = [draw(st.integers(1, 2**52)) for _ in some]
    src, dst = [a for a, _ in some], [b for _, b in some]
    return CommGraph(n, src + dst, dst + src, weights * 2)


@settings(deadline=None, max_examples=60)
@given(comm=symmetric(), suffix=st.sampled_from([".graph", ".grf"]))
def test_round_trip_of_partitioners(tmp_path_factory, comm, suffix):
    path = tmp_path_factory.mktemp("round") / f"a{suffix}"
    write_comm(comm, path)
    assert read_comm(path, format="metis" if suffix == ".graph" else "scotch").equals(comm)


def test_directions_that_differ_are_told(tmp_path):
    comm = CommGraph(3, [0, 1, 2], [1, 0, 2], [10, 21, 5], [1, 1, 1])
    with pytest.warns(
        InputWarning, match=r"self-messages, differences between directions .* fractions"
    ):
        write_comm(comm, tmp_path / "a.graph")
    assert edges(read_comm(tmp_path / "a.graph")) == {(0, 1): 16, (1, 0): 16}


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("Rank_From,Rank_To,Volume,Count", "0,1,10,3"),
        ("Source;Target;Weight", "0;1;10"),
        ("Source,Target,Type,Id,Label,timeset,Weight", "0,1,Directed,0,,,10"),
        ("sender\treceiver\tbytes", "0\t1\t10"),
    ],
)
def test_tables_of_other_tools(tmp_path, head, row):
    comm = read_comm(write(tmp_path, f"{head}\n{row}\n"))
    assert edges(comm) == {(0, 1): 10}
    assert comm.n_messages.tolist() == [3 if "Count" in head else 1]


def test_columns_are_named(tmp_path):
    path = write(tmp_path, "time,a,b,tag,n\n0.5,0,1,x,10\n0.7,0,1,y,20\n", "app.csv")
    with pytest.raises(InputError, match=r"bad column names: .*--columns src=NAME"):
        read_comm(path)
    columns = {"src": "a", "dst": "b", "nbytes": "n"}
    with pytest.raises(InputError, match=r"duplicate edge: .*--duplicates sum"):
        read_comm(path, columns=columns)
    comm = read_comm(path, columns=columns, duplicates="sum")
    assert (edges(comm), comm.n_messages.tolist()) == ({(0, 1): 30}, [2])


def test_one_way_hops_are_not_taken_for_counts_without_a_word(tmp_path):
    path = tmp_path / "one-way.edges"
    path.write_text("0 1 5000 1\n0 5 5000 2\n3 12 5000 3\n")
    with pytest.warns(InputWarning, match="may be hops"):
        assert read_comm(path).n_messages.tolist() == [1, 2, 3]
    # Counts that differ there and back, or are no whole numbers, are no hops.
    for text in ("0 1 5000 1\n1 0 5000 3\n3 12 5000 2\n", "0 1 5000 1.5\n3 12 5000 2\n"):
        path.write_text(text)
        read_comm(path)


def test_hops_are_no_message_counts(tmp_path):
    path = write(tmp_path, "0 0 960 0\n0 1 64 1\n1 0 64 1\n")
    with pytest.warns(InputWarning, match=r"column \(4\).*bytes in 0 messages on line 1"):
        assert read_comm(path).n_messages.tolist() == [1, 1, 1]
    path = write(tmp_path, "0 1 64 1\n1 0 32 1\n0 2 8 2\n2 0 8 2\n2 2 1 1\n")
    with pytest.warns(InputWarning, match="may be hops"):
        assert read_comm(path).n_messages.tolist() == [1, 2, 1, 2, 1]
    assert read_comm(path, columns={"src": "1", "dst": "2", "nbytes": "3"}).n_messages.sum() == 5


def test_tasks_counted_from_1_are_told(tmp_path):
    with pytest.warns(InputWarning, match="count tasks from 1"):
        read_comm(write(tmp_path, "1 2 5\n2 3 5\n3 1 5\n1 3 6\n"))


def mpip(n, entry):
    """A report whose matrix has the entries of a function of source and target."""
    rows = [(s, d, *entry(s, d)) for s in range(n) for d in range(n) if s != d]
    rows += [(s, s, sum(r[2] for r in rows if r[0] == s), 9) for s in range(n)]
    lines = "\n".join("\t".join(map(str, row)) for row in sorted(rows))
    head = "@ mpiP\n------- Start Communication Matrix -------------\n\nStatistics of rank: 0\n\n"
    return f"{head}Source\tTarget\tTotal Amount\tTotal Count\n{lines}\n" + (
        "\n------- End Communication Matrix -------------\n"
    )


def test_mpip_collectives_at_the_root_are_kept_apart(tmp_path):
    def entry(s, d):
        ring = 1000 if abs(s - d) in (1, 7) else 0
        return (ring + 8 * (s == 0 or d == 0), bool(ring) + (s == 0 or d == 0))

    path = write(tmp_path, mpip(8, entry))
    with pytest.warns(InputWarning, match="112 bytes between task 0 and all others"):
        every = read_comm(path)
    sent, inside = (read_comm(path, include=i) for i in ("point_to_point", "collective"))
    assert every.nbytes.sum() == sent.nbytes.sum() + inside.nbytes.sum()
    assert set(edges(sent).values()) == {1000}
    assert sent.n_edges == 16
    assert edges(inside) == {(s, d): 8 for s in range(8) for d in range(8) if (s == 0) != (d == 0)}
    assert not (every.src == every.dst).any()


def test_mpip_all_to_all_is_no_rooted_collective(tmp_path):
    comm = read_comm(write(tmp_path, mpip(6, lambda s, d: (64, 1))))
    assert comm.n_edges == 30


def test_goal_rounds(tmp_path):
    text = """num_ranks 3
    rank 0 {
    l1: calc 100
    l2: send 8b to 1 tag 7 cpu 0
    l3: recv 16b from 2
    l2 requires l1
    }
    rank 1 {
    l1: recv 8b from 0 tag 7
    l2: send 4b to 2 tag 1
    l2 requires l1
    }
    rank 2 { // waits twice
    l1: recv 4b from 1 tag 1
    l2: calc 5
    l3: send 16b to 0
    l2 requires l1
    l3 irequires l2
    }
    """
    workload = read_workload(write(tmp_path, text))
    assert workload.dependent
    assert [edges(phase) for phase in workload] == [{(0, 1): 8}, {(1, 2): 4}, {(2, 0): 16}]


def et(*nodes):
    """A trace: metadata, then nodes of a type and attributes."""
    parts = [message((1, "0.0.4"))]
    for i, (kind, attributes) in enumerate(nodes):
        attrs = [(10, message((1, name), (field, v))) for name, field, v in attributes]
        parts.append(message((1, i), (2, "n"), (3, kind), *attrs))
    return b"".join(varint(len(part)) + part for part in parts)


RING = (7, [("comm_type", 9, 0), ("comm_size", 9, 1024), ("involved_dim", 28, b"\x08\x01")])


def test_chakra_traces_of_all_ranks(tmp_path):
    for rank in range(4):
        send = (5, [("comm_src", 7, rank), ("comm_dst", 7, (rank + 2) % 4), ("comm_size", 13, 5)])
        write(tmp_path, et((4, []), send, RING, RING), f"run.{rank}.et")
    for path in (tmp_path, tmp_path / "run"):
        comm = read_comm(path)
        # A ring sends each of four pieces on, three times to add and three times to collect.
        assert edges(comm) == {(r, (r + 1) % 4): 2 * 6 * 256 for r in range(4)} | {
            (r, (r + 2) % 4): 5 for r in range(4)
        }
    halves = read_comm(tmp_path, collectives={"allreduce": "recursive_doubling"})
    assert edges(halves)[0, 1] == 2 * 1024


def test_chakra_of_one_rank_needs_the_number_of_tasks(tmp_path):
    path = write(tmp_path, et(RING), "run.et")
    assert read_comm(path, n_tasks=4).nbytes.sum() == 4 * 6 * 256
    node = {"id": "1", "type": "COMM_COLL_NODE", "attr": [{"name": "comm_type", "int64Val": "0"}]}
    node["attr"].append({"name": "comm_size", "int64Val": "1024"})
    text = json.dumps({"version": "0.0.4"}) + "\n" + json.dumps(node)
    assert read_comm(write(tmp_path, text), n_tasks=4).nbytes.sum() == 4 * 6 * 256


def test_pairs_of_both_directions(tmp_path):
    text = "-- Graph Information --\n2 , 0 = 100.0\n1 , 1 = 7.0\nAverage Degree: 1.0\n"
    assert edges(read_comm(write(tmp_path, text))) == {(0, 2): 50, (1, 1): 7, (2, 0): 50}


def collective(group=None, **others):
    node = {"id": 1, "type": "COMM_COLL_NODE", "comm_type": 0, "comm_size": 1024, **others}
    return node if group is None else node | {"pg_name": group}


def test_chakra_process_groups_are_those_in_whose_traces_they_stand(tmp_path):
    # Two groups of two, and one all-reduce of everyone: a ring of two sends each half there twice.
    for rank in range(4):
        nodes = [collective(f"{7 + rank % 2}"), collective("0")]
        write(tmp_path, json.dumps({"nodes": nodes}), f"run.{rank}.json")
    comm = read_comm(tmp_path)
    everyone = {(r, (r + 1) % 4): 6 * 256.0 for r in range(4)}
    pairs = {(0, 2): 1024.0, (2, 0): 1024.0, (1, 3): 1024.0, (3, 1): 1024.0}
    assert edges(comm) == everyone | pairs


def test_chakra_groups_of_one_rank_need_their_list(tmp_path):
    path = write(tmp_path, json.dumps({"nodes": [collective("1")]}), "run.json")
    write(tmp_path, '{"1": [1, 3]}', "comm_group.json")
    assert edges(read_comm(path, n_tasks=4)) == {(1, 3): 1024.0, (3, 1): 1024.0}
    for text in ('{"1": [1, 9]}', '{"1": 3}', '{"1"'):
        write(tmp_path, text, "comm_group.json")
        with pytest.raises(InputError):
            read_comm(path, n_tasks=4)


def chakra_node(number, kind, after=(), **attributes):
    return {"id": number, "type": f"COMM_{kind}_NODE", "data_deps": [*after], **attributes}


def test_chakra_nodes_wait_for_those_that_they_name(tmp_path):
    # Messages go round; what waits for nothing is sent at once, wherever it stands.
    for rank in range(4):
        back = chakra_node(1, "RECV", comm_src=(rank - 1) % 4, comm_dst=rank, comm_tag=7)
        on = chakra_node(
            *(2, "SEND", [1, 4] if rank else []), comm_dst=(rank + 1) % 4, comm_tag=7, comm_size=8
        )
        free = chakra_node(3, "SEND", comm_dst=rank ^ 2, comm_tag=1, comm_size=5)
        got = chakra_node(4, "RECV", comm_src=rank ^ 2, comm_dst=rank, comm_tag=1)
        write(tmp_path, json.dumps({"nodes": [back, on, got, free]}), f"run.{rank}.json")
    workload = read_workload(tmp_path)
    assert workload.dependent
    first = {(0, 1): 8, (0, 2): 5, (1, 3): 5, (2, 0): 5, (3, 1): 5}
    assert [edges(phase) for phase in workload] == [first, {(1, 2): 8}, {(2, 3): 8}, {(3, 0): 8}]


def test_chakra_collectives_are_rounds_of_one_order(tmp_path):
    # Rank 0 lists the all-gather first, but it waits for the all-reduce as everywhere.
    reduce = collective("0", id=1)
    gather = collective("0", id=2, comm_type="ALL_GATHER", comm_size=10, data_deps=[1])
    for rank in range(3):
        nodes = [gather, reduce] if rank == 0 else [reduce, gather]
        write(tmp_path, json.dumps({"nodes": nodes}), f"run.{rank}.json")
    sizes = [phase.nbytes.tolist() for phase in read_workload(tmp_path)]
    assert sizes == [[1024 / 3] * 3] * 4 + [[10.0] * 3] * 2


@pytest.mark.parametrize(("n", "kind"), [(4096, "ALL_REDUCE"), (1200, "ALL_TO_ALL")])
def test_a_collective_of_very_many_is_one_round(tmp_path, n, kind):
    path = write(tmp_path, json.dumps([collective(comm_type=kind, comm_size=n * 100)]), "r.json")
    workload = read_workload(path, n_tasks=n)
    assert len(workload) == 1
    every = 2 * 100 * n * (n - 1) if kind == "ALL_REDUCE" else 100 * n * (n - 1)
    assert workload.total.nbytes.sum() == every


def test_a_long_trace_is_read_as_one_iteration(tmp_path):
    nodes = [collective(id=i, comm_type=kind) for i in range(200) for kind in (0, "ALL_GATHER")]
    path = write(tmp_path, json.dumps({"nodes": nodes}), "run.json")
    with pytest.warns(InputWarning, match="9 of 1800 rounds repeat 200 times"):
        workload = read_workload(path, n_tasks=4)
    assert len(workload) == 9
    assert workload.total.nbytes.sum() == 6 * 1024 + 4 * 3 * 1024


def test_a_dense_matrix_is_written(tmp_path):
    path = tmp_path / "app.mat"
    write_comm(CommGraph(3, [0, 2], [1, 0], [2.5, 64], [4, 1]), path)
    assert path.read_text() == "0 2.5 0\n0 0 0\n64 0 0\n"
    assert edges(read_comm(path, format="matrix")) == {(0, 1): 2.5, (2, 0): 64.0}
    with pytest.raises(InputError, match="too many tasks for a dense matrix: found 100000"):
        write_comm(CommGraph(100000, [0], [1], [8]), path)


NIC = "num_ranks 2\nrank 0 {{\n{}\n}}\nrank 1 {{\n{}\n}}\n"


def test_the_gpus_of_goal_are_tasks(tmp_path):
    first = (
        "send 1000b to 1 tag 1 nic 0\nsend 8b to 0 tag 3 nic 1\nrecv 8b from 0 tag 3 cpu 1 nic 0"
    )
    text = NIC.format(first, "recv 1000b from 0 nic 1 tag 1")
    comm = read_comm(write(tmp_path, text))
    assert (comm.n_tasks, edges(comm)) == (4, {(0, 3): 1000, (1, 0): 8})
    plain = read_comm(write(tmp_path, text.replace("nic 1", "nic 0")))
    assert (plain.n_tasks, edges(plain)) == (2, {(0, 0): 8, (0, 1): 1000})


@pytest.mark.parametrize("words", ["gpu 1", "nic 1 nic 1", "tag x"])
def test_other_words_behind_a_send_of_goal_are_refused(tmp_path, words):
    text = NIC.format(f"send 8b to 1 {words}", "recv 8b from 0")
    with pytest.raises(InputError, match="bad GOAL line") as caught:
        read_comm(write(tmp_path, text))
    assert caught.value.line == 3


def omissions(path, **how):
    return {(each.what, each.where): each.nbytes for each in read_workload(path, **how).omitted}


def test_profilers_list_collective_calls_with_their_bytes(tmp_path):
    sent = '<hent call="MPI_Send" bytes="8" orank="{}" count="2"/>'
    calls = '<hent call="MPI_Alltoall" bytes="64" count="10" nic="1"/><hent call="MPI_Barrier"/>'
    tasks = (f'<task mpi_rank="{r}"><hash>{sent.format(1 - r)}</hash></task>' for r in (0, 1))
    text = f'<ipm>{"".join(tasks)}<task mpi_rank="0"><hash>{calls}</hash></task><x a="1"/></ipm>'
    path = write(tmp_path, text)
    assert omissions(path) == {
        ("<x>", ""): None,
        ("attribute nic of <hent>", ""): None,
        ("call", "MPI_Alltoall"): 640.0,
    }
    report = mpip(4, lambda s, d: (8, 1)) + (
        "@--- Callsite Message Sent statistics (all, sent bytes) ---\n"
        "Name Site Rank Count Max Mean Min Sum\nAllreduce 3 0 5 8 8 8 4.5e+01\n"
        "Bcast 4 0 5 8 8 8 40\nIsend 5 0 5 8 8 8 40\nAllreduce 3 * 5 8 8 8 45\n"
        "@--- Weather ---\n@--- End of Report ---\n"
    )
    path = write(tmp_path, report)
    assert omissions(path) == {
        ("collective operation", "MPI_Allreduce"): 45.0,
        ("section", "Weather"): None,
    }


def test_monitoring_without_the_messages_of_collectives_lists_their_bytes(tmp_path):
    both = "\n".join(f"E\t{r}\t{1 - r}\t8 bytes\t1 msgs sent" for r in (0, 1))
    calls = "C\t0\t1\t100 bytes\t4 msgs sent"
    path = write(tmp_path, f"{both}\n{calls}\n")
    assert omissions(path) == {("collective operations", "C"): 100.0}
    inside = "I\t0\t1\t100 bytes\t4 msgs sent"
    assert not omissions(write(tmp_path, f"{both}\n{calls}\n{inside}\n"))


def test_ranks_of_communicators_in_ipm_are_warned_of(tmp_path):
    sent = '<hent call="MPI_Send" bytes="8" orank="{}" count="2"/>'
    entry = f'<task mpi_rank="{{}}"><hash>{sent}</hash></task>'
    text = "".join(entry.format(*pair) for pair in ((0, 1), (1, 0), (2, 1), (3, 0)))
    with pytest.warns(InputWarning, match="2 pairs of ranks .* such as 2 -> 1: IPM logs ranks"):
        read_workload(write(tmp_path, f"<ipm>{text}</ipm>"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".npy"])
def test_columns_of_numbers_that_are_not_read_are_listed(tmp_path, suffix):
    table = pd.DataFrame({"s": [0, 1], "d": [1, 0], "b": [8, 8], "put": [7, 7], "id": 0, "of": "x"})
    path = tmp_path / f"a{suffix}"
    numbers = table.drop(columns="of")
    if suffix == ".csv":
        table.to_csv(path, index=False)
    elif suffix == ".parquet":
        table.to_parquet(path)
    elif suffix == ".npz":
        np.savez(path, **{name: numbers[name].to_numpy() for name in numbers})
    else:
        np.save(path, numbers.to_records(index=False))
    found = omissions(path, columns={"src": "s", "dst": "d", "nbytes": "b"})
    assert found == {("column", "put"): None}


def test_lines_of_graph_statistics_of_no_known_section_are_listed(tmp_path):
    text = "--- Graph Information ---\n0 , 1 = 8\nAverage Degree: 1\nBytes: 9\n"
    assert omissions(write(tmp_path, text)) == {("line", "4: Bytes: 9"): None}


def test_chakra_lists_what_it_does_not_count(tmp_path):
    send = {"id": 1, "type": "COMM_SEND_NODE", "comm_src": 0, "comm_dst": 1, "comm_size": 64}
    nodes = [
        send | {"rail": 3},
        {"id": 2, "type": "COMP_NODE", "comm_size": 8},
        {"id": 3, "type": "COMM_RECV_NODE", "comm_size": 8},
        {"id": 4, "type": "COMM_RECV_NODE", "comm_size": 16, "comm_src": 1},
    ]
    assert omissions(write(tmp_path, json.dumps({"nodes": nodes, "rails": 4}))) == {
        ("key of the trace", "rails"): None,
        ("attribute of a node", "rail"): None,
        ("COMP_NODE with comm_size", ""): 8.0,
        ("receive", "node 3"): 0.0,
        ("receive without a send", ""): 16.0,
    }
    with pytest.raises(InputError, match="bad node"):
        read_comm(write(tmp_path, json.dumps({"nodes": [send, {"rail": 3}]})))


def test_dependencies_in_the_json_of_protobuf_are_read(tmp_path):
    send = {"type": "COMM_SEND_NODE", "comm_src": 0, "comm_dst": 1, "comm_size": 64}
    back = {"type": "COMM_RECV_NODE", "comm_src": 1, "comm_size": 8, "id": "2"}
    first = [back, send | {"id": "1", "ctrlDeps": ["2"]}]
    second = [send | {"comm_src": 1, "comm_dst": 0, "comm_size": 8, "id": "3"}]
    for rank, nodes in enumerate((first, second)):
        write(tmp_path, json.dumps({"nodes": nodes}), f"run.{rank}.json")
    assert [edges(phase) for phase in read_workload(tmp_path)] == [{(1, 0): 8}, {(0, 1): 64}]


def test_binary_traces_of_chakra_need_no_suffix(tmp_path):
    send = (5, [("comm_src", 7, 0), ("comm_dst", 7, 1), ("comm_size", 13, 5)])
    assert edges(read_comm(write(tmp_path, et(send), "trace.bin"))) == {(0, 1): 5}
    plain = message((1, 2), (2, "n"), (3, 5), (11, 7))
    whole = et(send) + varint(len(plain)) + plain
    with pytest.raises(InputError, match="bad comm_dst"):
        read_comm(write(tmp_path, whole, "trace.bin"))


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_what_networkx_writes_is_read(tmp_path, kind):
    graph = kind([(0, 1), (2, 1), (1, 3), (5, 0)])
    graph.add_node(6)
    sent = dict.fromkeys(graph.edges, 1)
    nx.write_adjlist(graph, tmp_path / "a.adjlist")
    nx.write_edgelist(graph, tmp_path / "a.edgelist")
    for file, n_tasks in (("a.adjlist", 7), ("a.edgelist", 6)):
        with pytest.warns(InputWarning, match="4 edges without bytes, read as one byte each"):
            comm = read_comm(tmp_path / file)
        assert (comm.n_tasks, edges(comm)) == (n_tasks, sent)
    for u, v in graph.edges:
        graph.edges[u, v].update(weight=10 * u + v, messages=2, hops=3, id=4)
    nx.write_edgelist(graph, tmp_path / "a.edgelist")
    workload = read_workload(tmp_path / "a.edgelist")
    assert edges(workload.total) == {(u, v): 10 * u + v for u, v in graph.edges}
    assert [(each.what, each.where, each.times) for each in workload.omitted] == [
        ("attribute of an edge", "hops", 4)
    ]
    wrong = {
        "bad weight": {"weight": -1},
        "duplicate attribute of nbytes": {"weight": 1, "size": 2},
    }
    for fault, attributes in wrong.items():
        nx.write_edgelist(nx.Graph([(0, 1, attributes)]), tmp_path / "a.edgelist")
        with pytest.raises(InputError, match=fault):
            read_comm(tmp_path / "a.edgelist")


def test_columns_of_numbers_are_listed_though_their_first_cells_are_empty(tmp_path):
    path = write(tmp_path, "src,dst,nbytes,note,got,lost\n0,1,8,a,,n/a\n1,0,8,b,64,2\n")
    columns = {name: name for name in ("src", "dst", "nbytes")}
    workload = read_workload(path, columns=columns)
    assert [each.where for each in workload.omitted] == ["got", "lost"]
