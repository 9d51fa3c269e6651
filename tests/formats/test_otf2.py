"""OTF2 traces, written and read with the package of that name."""

import pytest
from graph_files import edges

from toruscast.errors import InputError
from toruscast.formats import read_comm, read_workload

otf2 = pytest.importorskip("otf2", reason="the package otf2 is not installed")


@pytest.fixture
def trace(tmp_path):
    """Three ranks: a send in the world, one in a communicator of ranks 2 and 0, an allreduce."""
    path = tmp_path / "trace"
    enums = otf2.enums
    with otf2.writer.open(str(path), timer_resolution=1000000) as archive:
        d = archive.definitions
        node = d.system_tree_node("node")
        locations = [
            d.location(f"Master {r}", group=d.location_group(f"R{r}", system_tree_parent=node))
            for r in range(3)
        ]
        writers = [archive.event_writer_from_location(location) for location in locations]
        how = {"paradigm": enums.Paradigm.MPI, "group_flags": enums.GroupFlag.NONE}
        kinds = enums.GroupType
        d.group("", group_type=kinds.COMM_LOCATIONS, members=locations, **how)
        world, part = (
            d.comm(name, group=d.group(name, group_type=kinds.COMM_GROUP, members=ranks, **how))
            for name, ranks in (("world", [0, 1, 2]), ("part", [2, 0]))
        )
        writers[0].mpi_send(1, 1, world, 0, 4096)
        writers[1].mpi_recv(2, 0, world, 0, 4096)
        writers[2].mpi_isend(2, 1, part, 0, 64, 7)
        for writer in writers:
            writer.mpi_collective_begin(3)
            writer.mpi_collective_end(4, enums.CollectiveOp.ALLREDUCE, world, 0, 900, 900)
    return path


def test_sends_and_collectives(trace):
    for path in (trace, trace / "traces.otf2"):
        sent = read_comm(path, include="point_to_point")
        assert edges(sent) == {(0, 1): 4096, (2, 0): 64}
        inside = read_comm(path, include="collective")
        assert edges(inside) == {(0, 1): 400, (1, 2): 400, (2, 0): 400}
        assert read_comm(path).nbytes.sum() == 4160 + 1200


def test_a_trace_becomes_rounds(trace):
    rounds = read_workload(trace)
    assert rounds.dependent
    assert edges(rounds.phases[0]) == {(0, 1): 4096, (2, 0): 64}
    # Rank 1 reaches the all-reduce behind its message: a ring of three in four rounds.
    assert [edges(each) for each in rounds.phases[1:]] == [
        {(0, 1): 100, (1, 2): 100, (2, 0): 100}
    ] * 4


def test_a_trace_that_is_cut_is_refused(trace):
    anchor = trace / "traces.otf2"
    anchor.write_bytes(anchor.read_bytes()[:20])
    with pytest.raises(InputError, match="damaged OTF2 trace"):
        read_comm(anchor)
