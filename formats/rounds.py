"""From the events of all ranks to rounds, with the algorithms that MPI libraries choose."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping.collectives import merged, schedule
from toruscast.mapping.collectives.schedules import ALL_PAIRS, collective_total
from toruscast.mapping.comm_graph import CommGraph, Workload, sum_edges
from toruscast.mapping.omissions import Omission
from toruscast.mapping.task_mapping import cumcount
from toruscast.text import counted

from ._round_kernels import COLLECTIVE, RECEIVE, SEND, set_rounds

# Lines are "ranks below: bytes below algorithm, ..."; the last entry of both has no bound. A
# message of Open MPI's knomial tree and its segments of no size are as in the algorithm named.
# Source: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c of v4.1.4, commutative operations, and the
# algorithms that coll/base takes instead where there are too few ranks or elements.
_OPEN_MPI = """
allreduce of all
4: 8 ring, 4096 recursive_doubling, 8192 ring, 16384 recursive_doubling, 262144 ring, rabenseifner
8: 16 ring, 8192 recursive_doubling, rabenseifner
16: 8192 recursive_doubling, rabenseifner
32: 64 ring, 4096 recursive_doubling, rabenseifner
64: 128 ring, rabenseifner
128: 262144 recursive_doubling, rabenseifner
256: 131072 nonoverlapping, 262144 recursive_doubling, rabenseifner
512: 4096 nonoverlapping, rabenseifner
2048: 2048 nonoverlapping, 16384 recursive_doubling, rabenseifner
4096: 2048 nonoverlapping, 4096 ring, 16384 recursive_doubling, rabenseifner
2048 nonoverlapping, 16384 ring, 32768 recursive_doubling, rabenseifner
alltoall of a block
3: pairwise
8: 524288 linear, 1048576 pairwise, linear
16: linear
32: 4 linear, 512 bruck, linear
64: 512 bruck, linear
128: 1024 bruck, 262144 linear, pairwise
256: 1024 bruck, 262144 linear, pairwise
512: 1024 bruck, 32768 linear, pairwise
1024: 512 bruck, 262144 linear, pairwise
2048: 512 bruck, linear
4096: 1024 bruck, linear
2048 bruck, linear
allgather of a block
3: ring
32: recursive_doubling
64: 1024 recursive_doubling, 65536 neighbor_exchange, ring
128: 512 recursive_doubling, 65536 neighbor_exchange, ring
256: 512 recursive_doubling, 131072 neighbor_exchange, 524288 ring, 1048576 neighbor_exchange, ring
512: 32 recursive_doubling, 128 bruck, 1024 recursive_doubling, 131072 neighbor_exchange, ring
1024: 64 recursive_doubling, 256 bruck, 2048 recursive_doubling, neighbor_exchange
2048: 256 recursive_doubling, 512 bruck, 4096 recursive_doubling, neighbor_exchange
512 bruck, 4096 recursive_doubling, neighbor_exchange
bcast of all
4: 32 pipeline, 256 binary, 512 pipeline, 1024 binomial, 32768 linear, 131072 binary, \
262144 chain, 524288 linear, 1048576 binomial, binary
8: 64 binary, 128 binomial, 2048 binary, 8192 binomial, 1048576 linear, chain
16: 8 binomial, 64 binary, 4096 binomial, 16384 binary, 32768 binomial, linear
32: 1048576 binomial, scatter_doubling
128: binomial
256: 2 binomial, 16384 binary, 32768 linear, 65536 binary, binomial
1024: 16384 binomial, 32768 split_binary, binomial
2048: 524288 binomial, scatter_doubling
4096: 262144 binomial, scatter_doubling
8192 binomial, 16384 binary, 262144 binomial, scatter_doubling
reduce of all
4: 8 halving, 16 binary, 32 pipeline, 262144 linear, 524288 pipeline, 1048576 chain, pipeline
8: 4096 binary, 65536 chain, 262144 binomial, 524288 linear, 1048576 binomial, linear
16: 8192 binary, binomial
32: 4096 binary, binomial
256: binomial
512: 8192 binomial, 16384 in_order_binary, binomial
binomial
reduce_scatter of all
4: ring
8: 8 nonoverlapping, 262144 recursive_halving, ring
32: 262144 recursive_halving, ring
64: 64 nonoverlapping, 524288 recursive_halving, ring
512: 256 nonoverlapping, recursive_halving
512 nonoverlapping, recursive_halving
gather of a block
4: 4 linear, 32768 binomial, 65536 linear, 131072 binomial, linear
8: 1024 binomial, 8192 linear, 32768 binomial, linear
binomial
scatter of a block
4: linear
8: 2048 binomial, 4096 linear, 8192 binomial, linear
32: 16384 binomial, linear
64: 512 binomial, 8192 linear, 16384 binomial, linear
512 binomial, linear
"""
# Source: the defaults of MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE and its like in src/mpi/coll of MPICH
# 4.0, from which those of Cray, Intel and Ohio State descend.
_MPICH = """
allreduce of all
2049 recursive_doubling, rabenseifner
alltoall of a block
8: 32769 linear, pairwise
257 bruck, 32769 linear, pairwise
allgather of all
524288 recursive_doubling, ring
bcast of all
8: binomial
12288 binomial, 524288 scatter_doubling, scatter_ring
reduce of all
2049 binomial, halving
reduce_scatter of all
524288 recursive_halving, pairwise
gather of all
binomial
scatter of all
binomial
"""
# Where the library is not known: what most take for large messages.
_OTHERS = {
    "allreduce": "ring",
    "alltoall": "pairwise",
    "allgather": "ring",
    "bcast": "binomial",
    "reduce": "binomial",
    "reduce_scatter": "ring",
    "gather": "linear",
    "scatter": "linear",
}
COLLECTIVES = tuple(_OTHERS)
"""Collectives that become the messages of an algorithm."""
# Algorithms made of two of ours, or of one of another collective.
_MADE_OF = {
    "allreduce/nonoverlapping": "reduce/binomial+bcast/binomial",
    "bcast/scatter_doubling": "scatter/binomial+allgather/recursive_doubling",
    "bcast/scatter_ring": "scatter/binomial+allgather/ring",
    "reduce/halving": "reduce_scatter/recursive_halving+gather/binomial",
    "reduce_scatter/nonoverlapping": "reduce/binomial+scatter/linear",
    "reduce_scatter/pairwise": "alltoall/pairwise",
}
_ELEMENT = 8
Rules = list[tuple[float, list[tuple[float, str]]]]


@lru_cache
def _library_rules(family: str) -> dict[str, tuple[bool, Rules]]:
    """By collective: whether bytes are those of a block; rows of ranks, of bytes and algorithm."""
    text = _OPEN_MPI if family == "Open MPI" else _MPICH
    found: dict[str, tuple[bool, Rules]] = {}
    for line in text.strip().splitlines():
        collective, of, unit = line.partition(" of ")
        if of:
            rows: Rules = []
            found[collective] = (unit == "a block", rows)
            continue
        ranks, colon, entries = line.rpartition(":")
        each = []
        for entry in entries.split(","):
            *below, name = entry.split()
            each.append((float(below[0]) if below else float("inf"), name))
        rows.append((float(ranks) if colon else float("inf"), each))
    return found


def family_of(library: str) -> str:
    """Return whose rules a library follows, by the name that it gives itself; "" if not known."""
    if "open mpi" in library.lower():
        return "Open MPI"
    heirs = ("mpich", "intel", "mvapich")
    return "MPICH" if any(name in library.lower() for name in heirs) else ""


def algorithm_of(family: str, collective: str, n: int, nbytes: float) -> str:
    """Return the algorithm of a collective; of two that follow each other, with + between."""
    if not family:
        return f"{collective}/{_OTHERS[collective]}"
    of_block, rows = _library_rules(family)[collective]
    size = nbytes / n if of_block else nbytes
    entries = next(each for below, each in rows if n < below)
    name = next(name for below, name in entries if size < below)
    is_power = n & (n - 1) == 0
    if name == "recursive_doubling" and collective == "allgather" and not is_power:
        name = "bruck" if family == "Open MPI" or nbytes < 81920 else "ring"
    if name == "scatter_doubling" and not is_power:
        name = "scatter_ring"
    if name == "neighbor_exchange" and n % 2:
        name = "ring"
    # Fewer elements than ranks; an element is taken for 8 bytes.
    if family == "Open MPI" and collective == "allreduce" and nbytes < _ELEMENT * n:
        name = {"ring": "recursive_doubling", "rabenseifner": "linear"}.get(name, name)
    whole = f"{collective}/{name}"
    return _MADE_OF.get(whole, whole)


MAX_PERIOD = 4096
# An iteration is that of the program only if it sends so much of all bytes.
MIN_SHARE = 0.25


@dataclass(frozen=True)
class Events:
    """What all ranks did, rank after rank, in each rank's own order; e events of t tasks."""

    # (t + 1): events of task i are first[i] to first[i + 1].
    first: NDArray[np.int64]
    # (e): SEND, RECEIVE (one that was completed) or COLLECTIVE.
    kind: NDArray[np.uint8]
    # (e): receiver, sender or root; -1 for none.
    peer: NDArray[np.int64]
    communicator: NDArray[np.int64]
    tag: NDArray[np.int64]
    # (e): of a collective, what this task puts in, or the vector that all hold.
    nbytes: NDArray[np.float64]
    # (e): place in `operations` of a collective, 0 else.
    operation: NDArray[np.int64]
    # Tasks of each communicator.
    members: Mapping[int, tuple[int, ...]]
    # Names of the collectives; "" for none and for barriers.
    operations: tuple[str, ...]
    # Bytes to each member of collectives whose tasks send different amounts, by event.
    blocks: Mapping[int, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.first.size - 1

    @property
    def task(self) -> NDArray[np.int64]:
        """Task of each event."""
        return np.repeat(np.arange(self.n_tasks), np.diff(self.first))


@dataclass(frozen=True)
class Rounds:
    """Messages by round, and how well the events fit each other."""

    # Rounds of the iteration that repeats, if ``fold`` found one.
    workload: Workload
    # Of the whole trace.
    n_rounds: int
    # How often the iteration repeats; 1 where none was found.
    iterations: int
    # Messages that one side has and the other has not, and collectives that a task lacks.
    unmatched: int
    # Events that never come, for tasks wait for each other in a circle.
    unreached: int
    # Calls of collectives by the algorithm that they are taken for.
    algorithms: Mapping[str, int]
    # Events whose messages are in no round.
    omitted: Sequence[Omission]

    @property
    def repeats_text(self) -> str:
        """What was read of an iteration that repeats; empty where none does."""
        if self.iterations == 1:
            return ""
        rounds = f"{len(self.workload)} of {self.n_rounds} rounds"
        return f"{rounds} repeat {self.iterations} times: one iteration is read, the mean of all"

    @property
    def unmatched_text(self) -> str:
        """How many messages have one side only; empty where none has."""
        if not self.unmatched:
            return ""
        return f"{counted(self.unmatched, 'message')} without its other side"


def rounds_of(
    events: Events,
    *,
    name: str = "",
    algorithms: Mapping[str, str] | None = None,
    library: str = "",
    fold: bool = True,
    most: int | None = None,
) -> Rounds:
    """Return the rounds of a program's messages.

    Collectives take the ``algorithms`` that are given, such as ``{"allreduce": "ring"}``, or those
    of the ``library``, as it names itself. ``fold`` looks for the iteration that repeats and
    returns one, the mean of all. Where collectives have more than ``most`` messages, each is one
    round.
    """
    partner, unmatched = _match_messages(events)
    calls, missing = _match_collectives(events, partner)
    unmatched += missing
    family = family_of(library)
    named = [_algorithm_of(events, call, algorithms or {}, family) for call in calls]
    n_messages = sum(
        _n_messages(name, each.ranks.size, each.nbytes)
        for each in named
        if each.name
        for name in each.name.split("+")
    )
    at_once = most is not None and n_messages > most
    plans = [_plan_rounds(events, *each, at_once) for each in zip(calls, named, strict=True)]
    sizes = np.array([len(call) for call in calls], np.int64)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    task = events.task
    members = task[np.concatenate(calls)] if calls else np.zeros(0, np.int64)
    rounds = np.zeros(events.kind.size, np.int64)
    reached = set_rounds(
        events.kind,
        partner,
        events.first,
        task,
        sizes,
        np.array([len(plan) for plan in plans], np.int64),
        members,
        start,
        rounds,
    )
    parts: dict[int, list[CommGraph]] = defaultdict(list)
    sends = np.flatnonzero((events.kind == SEND) & (rounds > 0) & (events.peer >= 0))
    sends = sends[np.argsort(rounds[sends], kind="stable")]
    for part in np.split(sends, np.flatnonzero(np.diff(rounds[sends])) + 1):
        if part.size:
            graph = sum_edges(events.n_tasks, task[part], events.peer[part], events.nbytes[part])
            parts[int(rounds[part[0]])].append(graph)
    # Marks that tell rounds apart: sender and receiver, or the step of a collective.
    marks = [(rounds[sends], task[sends] * events.n_tasks + events.peer[sends])]
    for call, plan in zip(calls, plans, strict=True):
        begins = int(rounds[call[0]])
        for turn, graph in enumerate(plan, begins):
            if begins > 0 and graph.n_edges:
                parts[turn].append(graph)
        what = int(events.communicator[call[0]]) * len(events.operations)
        what += int(events.operation[call[0]]) + events.n_tasks**2
        steps = np.arange(len(plan) if begins > 0 else 0)
        marks.append((begins + steps, what + (steps + 1) * 2**45))
    if not parts:
        raise InputError("trace without a message")
    phases, times = _one_iteration(parts, marks, fold)
    # Equal rounds of an algorithm are the same object, and stay it.
    named_phases = {id(phase): phase.renamed(name) for phase in phases}
    workload = Workload([named_phases[id(phase)] for phase in phases], name, dependent=True)
    taken = Counter(each.name for each in named if each.name)
    unreached = events.kind.size - reached
    omitted = _omitted_events(events, partner, rounds)
    return Rounds(workload, len(parts), times, unmatched, unreached, taken, omitted)


def _omitted_events(
    events: Events, partner: NDArray[np.int64], rounds: NDArray[np.int64]
) -> list[Omission]:
    """Receives without a send, collectives that ranks lack, and sends that never come."""
    alone = partner < 0
    kinds = {
        "receive without its send": (events.kind == RECEIVE) & alone & (events.peer >= 0),
        "send of ranks that wait for each other": (events.kind == SEND) & (rounds == 0),
    }
    lacking = (events.kind == COLLECTIVE) & alone
    for place in np.unique(events.operation[lacking]):
        if word := events.operations[place]:
            kinds[f"{word} that other ranks lack"] = lacking & (events.operation == place)
    return [
        Omission(what, "", int(which.sum()), float(events.nbytes[which].sum()) or None)
        for what, which in kinds.items()
        if which.any()
    ]


def _one_iteration(
    parts: Mapping[int, Sequence[CommGraph]],
    marks: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
    fold: bool,
) -> tuple[list[CommGraph], int]:
    """The rounds of the iteration that repeats, and how often it does; else all rounds, once."""
    used = np.array(sorted(parts))
    number, mark = (np.concatenate(column) for column in zip(*marks, strict=True))
    kept = np.isin(number, used)
    number, mark = np.searchsorted(used, number[kept]), mark[kept]
    begin, period, times = _find_iteration(mark, number, used.size) if fold else (0, used.size, 1)
    sent = np.array([sum(float(each.nbytes.sum()) for each in parts[number]) for number in used])
    if times == 1 or sent[begin : begin + period * times].sum() < MIN_SHARE * sent.sum():
        begin, period, times = 0, used.size, 1
    return [
        _mean_graph(
            [each for turn in range(times) for each in parts[used[first + turn * period]]], times
        )
        for first in range(begin, begin + period)
    ], times


def _match_messages(events: Events) -> tuple[NDArray[np.int64], int]:
    """The send of each receive, the n-th with the n-th of one source, destination and tag."""
    which = np.flatnonzero(np.isin(events.kind, (SEND, RECEIVE)) & (events.peer >= 0))
    is_send = events.kind[which] == SEND
    ends = events.task[which], events.peer[which]
    columns = (*ends, events.communicator[which], events.tag[which])
    table = pd.DataFrame(dict(enumerate(columns)))
    table[0], table[1] = np.where(is_send, ends, ends[::-1])
    channel = table.groupby([*table], sort=False).ngroup().to_numpy()
    key = channel * which.size + cumcount(2 * channel + is_send)
    sends, receives = which[is_send], which[~is_send]
    _, sent, received = np.intersect1d(
        key[is_send], key[~is_send], assume_unique=True, return_indices=True
    )
    partner = np.full(events.kind.size, -1, np.int64)
    partner[receives[received]] = sends[sent]
    return partner, which.size - 2 * sent.size


def _match_collectives(
    events: Events, partner: NDArray[np.int64]
) -> tuple[list[NDArray[np.int64]], int]:
    """The events of each collective call, a task each; ``partner`` of an event is its call."""
    which = np.flatnonzero(events.kind == COLLECTIVE)
    if not which.size:
        return [], 0
    communicator = events.communicator[which]
    turn = cumcount(communicator * events.n_tasks + events.task[which])
    order = np.lexsort([turn, communicator])
    which, communicator, turn = which[order], communicator[order], turn[order]
    begins = np.flatnonzero(np.diff(communicator, prepend=-1) | np.diff(turn, prepend=-1))
    calls: list[NDArray[np.int64]] = []
    missing = 0
    for call in np.split(which, begins[1:]):
        kinds = set(events.operation[call].tolist())
        if len(kinds) > 1 or call.size < len(events.members[int(events.communicator[call[0]])]):
            missing += 1
            continue
        partner[call] = len(calls)
        calls.append(call)
    return calls, missing


class _CallPlan(NamedTuple):
    """The algorithm of a collective call, "" where nothing is sent; its ranks, the root first."""

    name: str
    ranks: NDArray[np.int64]
    nbytes: float


def _algorithm_of(
    events: Events, call: NDArray[np.int64], chosen: Mapping[str, str], family: str
) -> _CallPlan:
    collective = events.operations[int(events.operation[call[0]])]
    ranks = np.array(events.members[int(events.communicator[call[0]])], np.int64)
    if not collective or ranks.size < 2 or int(call[0]) in events.blocks:
        return _CallPlan("", ranks, 0.0)
    amount = float(events.nbytes[call].max())
    if collective in ("allgather", "gather", "scatter"):
        amount = float(events.nbytes[call].sum())
    if not amount:
        return _CallPlan("", ranks, 0.0)
    root = int(events.peer[call].max())
    if root >= 0:
        ranks = np.roll(ranks, -int(np.flatnonzero(ranks == root)[0]))
    if collective in chosen:
        return _CallPlan(f"{collective}/{chosen[collective]}", ranks, amount)
    return _CallPlan(algorithm_of(family, collective, ranks.size, amount), ranks, amount)


def _plan_rounds(
    events: Events, call: NDArray[np.int64], named: _CallPlan, at_once: bool
) -> list[CommGraph]:
    """Messages of each round of a collective call, between tasks of the program."""
    n_tasks, ranks = events.n_tasks, named.ranks
    if int(call[0]) in events.blocks:
        nbytes = np.stack([events.blocks[int(event)][: ranks.size] for event in call])
        at, to = np.nonzero(nbytes)
        # Members are sorted by task in the call, as blocks are by rank.
        own = np.sort(ranks)
        away = own[at] != ranks[to]
        return [sum_edges(n_tasks, own[at][away], ranks[to][away], nbytes[at, to][away])]
    if not named.name:
        return []
    members = tuple(ranks.tolist())
    parts = [
        _algorithm_steps(n, members, named.nbytes, n_tasks, at_once) for n in named.name.split("+")
    ]
    return [graph for part in parts for graph in part]


@lru_cache(maxsize=4096)
def _n_messages(name: str, n: int, nbytes: float) -> int:
    if name in ALL_PAIRS:
        return n * (n - 1)
    rounds = schedule(name, n, nbytes).rounds()
    return sum(times * sum(step.src.size for step in steps) for times, steps in rounds)


@lru_cache(maxsize=64)
def _algorithm_steps(
    name: str, ranks: tuple[int, ...], nbytes: float, n_tasks: int, at_once: bool
) -> tuple[CommGraph, ...]:
    tasks = np.array(ranks, np.int64)
    plan = None if at_once else schedule(name, len(ranks), nbytes)
    if plan is None or plan.at_once:
        return (collective_total(name, tasks[None], nbytes, n_tasks),)
    found: list[CommGraph] = []
    for times, steps in plan.rounds():
        graph = merged(len(ranks), steps)
        ends = tasks[graph.src], tasks[graph.dst]
        found += [CommGraph(n_tasks, *ends, graph.nbytes, graph.n_messages)] * times
    return tuple(found)


def _mean_graph(graphs: Sequence[CommGraph], times: int) -> CommGraph:
    """The sum of graphs, a share of it for each of so many times."""
    if len(graphs) == 1:
        return graphs[0]
    whole = Workload(graphs).total
    amounts = whole.nbytes / times, whole.n_messages / times
    return CommGraph(whole.n_tasks, whole.src, whole.dst, *amounts)


def _find_iteration(
    mark: NDArray[np.int64], number: NDArray[np.int64], n_rounds: int
) -> tuple[int, int, int]:
    """First round, length and count of the rounds that repeat most; counts below 2 mean none."""
    sent = pd.DataFrame({"number": number, "mark": mark}).drop_duplicates()
    sums = np.zeros(n_rounds, np.uint64)
    np.add.at(sums, sent["number"], pd.util.hash_array(sent["mark"].to_numpy()))
    best = (0, 0, 1)
    covered = 0
    for period in range(1, min(MAX_PERIOD, n_rounds // 2) + 1):
        same = np.concatenate([[False], sums[period:] == sums[:-period], [False]])
        edges = np.flatnonzero(np.diff(same.astype(np.int8)))
        if not edges.size:
            continue
        lengths = edges[1::2] - edges[::2]
        longest = int(np.argmax(lengths))
        times = int(lengths[longest]) // period + 1
        # A longer period has to cover clearly more: it is often a multiple of a shorter one.
        if times >= 2 and times * period > 1.1 * covered:
            covered = times * period
            best = (int(edges[::2][longest]), period, times)
    return best
