"""Events of a program become rounds; the recorder sees what real MPI programs send."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi_programs import trace_file

from toruscast.cli.mpi import TRACER
from toruscast.errors import InputError, InputWarning
from toruscast.formats import read_workload
from toruscast.formats.rounds import COLLECTIVES, Events, build_rounds, choose_algorithm
from toruscast.formats.tracer import OPERATIONS
from toruscast.mapping.collectives import names

PROGRAMS = Path(__file__).parents[1] / "data" / "mpi"
SEND, RECEIVE, COLLECTIVE, MARK, END = 1, 2, 3, 6, 8


def events_of(ranks, members=None):
    """Events from lists of (kind, peer, nbytes) a rank; a collective's peer names the operation."""
    rows = [row for rank in ranks for row in rank]
    kind = np.array([row[0] for row in rows], np.uint8)
    is_call = kind == COLLECTIVE
    peer = np.array([-1 if row[0] == COLLECTIVE else row[1] for row in rows], np.int64)
    names = [OPERATIONS.index(row[1]) if row[0] == COLLECTIVE else 0 for row in rows]
    return Events(
        np.concatenate([[0], np.cumsum([len(rank) for rank in ranks])]),
        kind,
        peer,
        np.zeros(kind.size, np.int64),
        np.where(is_call, 0, 5),
        np.array([float(row[2]) for row in rows]),
        np.array(names, np.int64),
        members or {0: tuple(range(len(ranks)))},
        OPERATIONS,
    )


def naive_rounds(ranks):
    """Round of each send: the longest path of rounds, with those in a cycle as one."""
    graph, sends = nx.MultiDiGraph(), {}
    for rank, rows in enumerate(ranks):
        for at, (kind, peer, _) in enumerate(rows):
            if kind == SEND:
                sends.setdefault((rank, peer), []).append((rank, at))
                graph.add_node((rank, at))
    taken = dict.fromkeys(sends, 0)
    for rank, rows in enumerate(ranks):
        own, received = [], []
        for at, (kind, peer, _) in enumerate(rows):
            if kind == SEND:
                graph.add_edges_from((each, (rank, at), {"later": 0}) for each in own)
                graph.add_edges_from((each, (rank, at), {"later": 1}) for each in received)
                own.append((rank, at))
            else:
                message = sends[peer, rank][taken[peer, rank]]
                taken[peer, rank] += 1
                graph.add_edges_from((each, message, {"later": 0}) for each in own)
                received.append(message)
    joined = nx.condensation(graph)
    number = {}
    for node in nx.topological_sort(joined):
        members = joined.nodes[node]["members"]
        arcs = [arc for arc in graph.in_edges(members, data="later") if arc[0] not in members]
        round_number = max((number[source] + later for source, _, later in arcs), default=1)
        number |= dict.fromkeys(members, round_number)
    return number


@given(
    st.integers(2, 5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=25),
)
def test_rounds_are_those_of_the_naive_twin(n, messages):
    ranks, late = [[] for _ in range(n)], []
    for src, dst, is_late in messages:
        # Received in the order of sending by each pair, so that nobody waits for ever.
        if src < n and dst < n and src != dst:
            ranks[src].append((SEND, dst, 8))
            if is_late or (src, dst) in late:
                late.append((src, dst))
            else:
                ranks[dst].append((RECEIVE, src, 8))
    for src, dst in late:
        ranks[dst].append((RECEIVE, src, 8))
    number = naive_rounds(ranks)
    if not number:
        with pytest.raises(InputError, match="without a message"):
            build_rounds(events_of(ranks))
        return
    found = build_rounds(events_of(ranks), fold=False)
    sizes = np.bincount(list(number.values()))
    assert [int(phase.n_messages.sum()) for phase in found.workload] == sizes[sizes > 0].tolist()
    assert found.unmatched == 0


def test_the_planes_of_a_pipeline_stay_apart():
    ranks = [[(SEND, 1, 8)] * 3, [(RECEIVE, 0, 8), (SEND, 2, 8)] * 3, [(RECEIVE, 1, 8)] * 3]
    phases = build_rounds(events_of(ranks), fold=False).workload.phases
    assert [phase.src.tolist() for phase in phases] == [[0], [0, 1], [0, 1], [1]]


def test_an_exchange_that_is_awaited_behind_a_collective_shares_its_round():
    each = (COLLECTIVE, "allreduce", 16)
    ranks = [[(SEND, 1 - r, 4), each, (RECEIVE, 1 - r, 4), (SEND, 1 - r, 2)] for r in range(2)]
    phases = build_rounds(events_of(ranks), fold=False).workload.phases
    # The two steps of the ring send 8 bytes each.
    assert [phase.nbytes.tolist() for phase in phases] == [[20.0, 20.0], [2.0, 2.0]]


def test_a_collective_begins_when_its_last_task_is_there():
    late = [(RECEIVE, 1, 4), (COLLECTIVE, "allreduce", 16), (SEND, 1, 2)]
    early = [(SEND, 0, 4), (COLLECTIVE, "allreduce", 16), (RECEIVE, 0, 2)]
    phases = build_rounds(events_of([late, early]), fold=False, library="MPICH").workload
    assert [phase.nbytes.tolist() for phase in phases] == [[4.0], [16.0, 16.0], [2.0]]


def test_collectives_take_the_algorithm_of_the_library():
    ranks = [[(COLLECTIVE, "alltoall", 160_000)] for _ in range(4)]
    once = build_rounds(events_of(ranks), library="Open MPI v4.1.4")
    assert dict(once.algorithms) == {"alltoall/linear": 1}
    assert [int(phase.nbytes.sum()) for phase in once.workload] == [480_000]
    pairs = build_rounds(events_of(ranks), library="MPICH Version: 4.0.2")
    assert dict(pairs.algorithms) == {"alltoall/pairwise": 1}
    assert [int(phase.nbytes.sum()) for phase in pairs.workload] == [160_000] * 3
    ranks = [[(COLLECTIVE, "bcast", 2**20)] for _ in range(8)]
    both = build_rounds(events_of(ranks), library="MPICH Version: 4.0.2")
    assert dict(both.algorithms) == {"scatter/binomial+allgather/ring": 1}
    assert sum(phase.nbytes.sum() for phase in both.workload) == 2**20 * (12 / 8 + 7)


@given(st.integers(2, 5000), st.floats(1, 1e9), st.sampled_from(["Open MPI", "MPICH", ""]))
def test_every_rule_names_an_algorithm_that_there_is(n, nbytes, family):
    for collective in COLLECTIVES:
        for name in choose_algorithm(family, collective, n, nbytes).split("+"):
            assert name in names()


def test_what_repeats_but_sends_little_is_no_iteration():
    # A factorisation has a few small equal steps beside large ones that are not equal.
    small = [(SEND, 1, 10), (RECEIVE, 1, 10)] * 5
    back = [(RECEIVE, 0, 10), (SEND, 0, 10)] * 5
    ranks = [[(SEND, 2, 10**6), *small], back, [(RECEIVE, 0, 10**6)]]
    found = build_rounds(events_of(ranks))
    assert found.iterations == 1
    assert sum(phase.nbytes.sum() for phase in found.workload) == 10**6 + 100


def test_what_has_no_other_side_is_counted():
    ranks = [[(SEND, 1, 4), (SEND, 1, 4), (COLLECTIVE, "bcast", 8)], [(RECEIVE, 0, 4)]]
    found = build_rounds(events_of(ranks))
    assert found.unmatched == 2
    assert sum(phase.n_messages.sum() for phase in found.workload) == 2
    assert [(each.what, each.nbytes) for each in found.omitted] == [
        ("bcast missing on other ranks", 8.0)
    ]
    found = build_rounds(events_of([[(SEND, 1, 4)], [(RECEIVE, 0, 4), (RECEIVE, 0, 6)]]))
    assert [(each.what, each.nbytes) for each in found.omitted] == [("receive without a send", 6.0)]


def test_a_cyclic_wait_ends_its_tasks_and_those_that_wait_for_them():
    call = (COLLECTIVE, "allreduce", 16)
    ranks = [
        [(SEND, 2, 4), (RECEIVE, 1, 4), (SEND, 1, 4), call],
        [(RECEIVE, 0, 4), (SEND, 0, 4), call],
        [(RECEIVE, 0, 4), (SEND, 3, 6), call, (SEND, 3, 8)],
        [(RECEIVE, 2, 6), call, (RECEIVE, 2, 8)],
    ]
    found = build_rounds(events_of(ranks))
    assert [phase.nbytes.tolist() for phase in found.workload] == [[4.0], [6.0]]
    assert found.unreached == 10
    assert [(each.what, each.times) for each in found.omitted] == [("send in a cyclic wait", 3)]


def test_an_iteration_is_found_between_start_and_end():
    step = [(SEND, 1, 100), (RECEIVE, 1, 100), (COLLECTIVE, "allreduce", 8)]
    back = [(RECEIVE, 0, 100), (SEND, 0, 100), (COLLECTIVE, "allreduce", 8)]
    start = [(SEND, 1, 1), (RECEIVE, 1, 1)], [(RECEIVE, 0, 1), (SEND, 0, 1)]
    ranks = [[*start[0], *step * 9], [*start[1], *back * 9]]
    found = build_rounds(events_of(ranks), library="MPICH")
    assert found.iterations == 9
    assert found.n_rounds == 2 + 9 * 3
    assert sum(phase.nbytes.sum() for phase in found.workload) == 216


def test_the_rounds_of_one_collective_are_no_iteration():
    ranks = [[(COLLECTIVE, "allreduce", 900_000)] for _ in range(6)]
    found = build_rounds(events_of(ranks))
    assert (found.iterations, len(found.workload)) == (1, 10)
    twice = build_rounds(events_of([rank * 2 for rank in ranks]))
    assert (twice.iterations, len(twice.workload)) == (2, 10)
    for each in (found, twice):
        assert sum(phase.nbytes.sum() for phase in each.workload) == 10 * 900_000


def two_ranks(folder, tail=b"", end=True):
    last = [{"kind": END}] if end else []
    times = ({"nanoseconds": int(second * 1e9)} for second in (1, 2, 3))
    sends = [{"kind": SEND, "peer": 1, "nbytes": 10 * i} | t for i, t in enumerate(times, 1)]
    marks = [{"kind": MARK, "tag": 1}, {"kind": MARK, "tag": 0}]
    trace_file(folder, 0, 2, [sends[0], marks[0], sends[1], marks[1], sends[2], *last], tail)
    received = [{"kind": RECEIVE, "peer": 0} | {"nbytes": s["nbytes"]} for s in sends]
    for receive, second in zip(received, (1, 2, 3), strict=True):
        receive["nanoseconds"] = int(second * 1e9)
    rows = [received[0], marks[0], received[1], marks[1], received[2], *last]
    trace_file(folder, 1, 2, rows, tail)


@pytest.mark.parametrize(
    ("region", "nbytes"), [("all", 60), ("marked", 20), ("1.5-2.5", 20), ("0-2.5", 30)]
)
def test_a_region_is_read_alone(tmp_path, region, nbytes):
    two_ranks(tmp_path)
    (tmp_path / "trace.json").write_text(f'{{"region": "{region}"}}')
    assert read_workload(tmp_path).total.nbytes.sum() == nbytes


def test_a_killed_run_leaves_what_it_had(tmp_path):
    two_ranks(tmp_path, tail=b"half a record", end=False)
    with pytest.warns(InputWarning, match="2 ranks did not finish"):
        assert read_workload(tmp_path).total.nbytes.sum() == 60


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda f: (f / "rank-1.trace").unlink(), "missing trace file of a rank"),
        (lambda f: (f / "rank-1.trace").write_bytes(b"x"), "damaged trace"),
        (lambda f: shutil.copy(f / "rank-0.trace", f / "rank-1.trace"), "trace of another run"),
        (lambda f: two_ranks(f, tail=bytes([99] * 32)), "no record at byte"),
    ],
)
def test_a_damaged_trace_is_refused(tmp_path, damage, said):
    two_ranks(tmp_path)
    damage(tmp_path)
    with pytest.raises(InputError, match=said):
        read_workload(tmp_path)


def compilers(language):
    names = {"c": "mpicc", "f90": "mpif90"}
    return [
        pytest.param(kind, id=kind.strip(".") or "default")
        for kind in ("", ".openmpi", ".mpich")
        if shutil.which(names[language] + kind) and shutil.which("mpirun" + kind)
    ] or [pytest.param("", marks=pytest.mark.skip(reason=f"no {names[language]}"))]


def traced(tmp_path, kind, language, name="ring"):
    compiler = {"c": "mpicc", "f90": "mpif90"}[language] + kind
    source = PROGRAMS / f"{name}.{language}"
    built = subprocess.run([compiler, source, "-o", tmp_path / name], capture_output=True)
    if built.returncode:
        pytest.skip(f"{compiler} does not compile {language}")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    several = {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
    words = ["trace", "--mpicc", "mpicc" + kind, "--", "mpirun" + kind, "-np", "4", f"./{name}"]
    done = subprocess.run(
        [sys.executable, "-c", "from toruscast.cli import main; main()", *words],
        cwd=tmp_path,
        env=os.environ | root | several,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", compilers("c"))
def test_a_program_in_c_is_recorded_whole(tmp_path, kind):
    said = traced(tmp_path, kind, "c")
    assert "4 ranks of" in said
    assert "5 of 102 rounds repeat 20 times" in said
    assert "without a matching send or receive" not in said
    phases = read_workload(tmp_path / "trace").phases
    assert [int(phase.nbytes.sum()) for phase in phases] == [20_000, 32, 32, 1200, 256]


@pytest.mark.parametrize("kind", compilers("c"))
def test_messages_of_all_modes_find_their_other_side(tmp_path, kind):
    said = traced(tmp_path, kind, "c", "modes")
    assert "without a matching send or receive" not in said
    left_out = "MPI_Get, MPI_Neighbor_alltoall, MPI_Put"
    assert f"Not counted: 120 call ({left_out}), size unknown" in said
    phases = read_workload(tmp_path / "trace").phases
    # One round is read: the mean of four modes.
    assert sum(phase.nbytes.sum() for phase in phases) == 4 * (1000 + 300 + 200 + 10) / 4


@pytest.mark.parametrize("kind", compilers("f90"))
def test_a_program_in_fortran_is_recorded_whole(tmp_path, kind):
    said = traced(tmp_path, kind, "f90")
    # 8,000 bytes among two ranks: Open MPI goes round a ring, MPICH halves and doubles.
    assert "rounds repeat 15 times" in said
    assert "without a matching send or receive" not in said
    phases = read_workload(tmp_path / "trace").phases
    assert [int(phase.nbytes.sum()) for phase in phases] == [32_000, 160, 16_000, 16_000]


def test_what_cannot_be_recorded_is_told_in_a_line(tmp_path):
    def said(*words):
        command = [sys.executable, "-c", "from toruscast.cli import main; main()", "trace", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert said("--mpicc", "no-such-cc", "--", "true") == (
        2,
        "toruscast: error: no MPI compiler: found no-such-cc, expected the MPI library's compiler, "
        "such as mpicc of a development package (--mpicc)\n",
    )
    code, line = said("--out", "my trace", "--", "true")
    assert code == 2
    assert "expected --out with a path without ' '" in line
    code, line = said("--region", "middle", "--", "true")
    assert code == 2
    assert "bad region: found middle" in line


def test_the_recorder_is_part_of_the_package():
    source = TRACER.read_text(encoding="utf-8")
    assert "#include <mpi.h>" in source
    assert "MPI_Send" in source
