"""Rounds of messages, built from the events of all ranks and the algorithms of MPI libraries.

An event is a send, a completed receive or a collective of one task. A call consists of the
matching collectives of all tasks of a communicator. Its algorithm sends messages in several steps.
"""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.mapping.collectives import merged, schedule
from toruscast.mapping.collectives.schedules import ALL_PAIRS, collective_total, copy_to_groups
from toruscast.mapping.comm_graph import CommGraph, Workload, sum_edges
from toruscast.mapping.omissions import Omission
from toruscast.mapping.task_mapping import cumcount
from toruscast.text import counted
from toruscast.typing import Bools, Floats, Int32s, Ints

from ._round_kernels import COLLECTIVE, RECEIVE, SEND, trace_paths

# Algorithms for unknown libraries: those that most libraries use for large messages.
_DEFAULT_ALGORITHMS = {
    "allreduce": "ring",
    "alltoall": "pairwise",
    "allgather": "ring",
    "bcast": "binomial",
    "reduce": "binomial",
    "reduce_scatter": "ring",
    "gather": "linear",
    "scatter": "linear",
}
COLLECTIVES = tuple(_DEFAULT_ALGORITHMS)
"""Collectives that are expanded to the messages of an algorithm."""
# Algorithms that consist of one or two algorithms of other collectives, which run in turn.
_COMPOSED = {
    "allreduce/nonoverlapping": "reduce/binomial+bcast/binomial",
    "bcast/scatter_doubling": "scatter/binomial+allgather/recursive_doubling",
    "bcast/scatter_ring": "scatter/binomial+allgather/ring",
    "reduce/halving": "reduce_scatter/recursive_halving+gather/binomial",
    "reduce_scatter/nonoverlapping": "reduce/binomial+scatter/linear",
    "reduce_scatter/pairwise": "alltoall/pairwise",
}
_ELEMENT_BYTES = 8
# MPICH's default for MPIR_CVAR_ALLGATHER_SHORT_MSG_SIZE, in bytes.
_MPICH_ALLGATHER_SHORT = 81920
_RULES_FILE = Path(__file__).parent / "collective_rules.toml"
Rules = list[tuple[float, list[tuple[float, str]]]]


@cache
def _read_rules(family: str, collective: str) -> tuple[bool, Rules]:
    """Return whether the rules for a collective count the bytes of one block, and the rules.

    A rule is an upper limit of ranks, and a list of algorithms with an upper limit of bytes each.
    """
    content = tomllib.loads(_RULES_FILE.read_text(encoding="utf-8"))[family][collective]
    rules: Rules = []
    for line in content["rules"]:
        max_ranks, _, entries = line.rpartition(":")
        bounds = (entry.rpartition(" ") for entry in entries.strip().split(", "))
        row = [(float(max_bytes or "inf"), name) for max_bytes, _, name in bounds]
        rules.append((float(max_ranks or "inf"), row))
    return content["bytes_of"] == "a block", rules


def library_family(library: str) -> str:
    """Return the family of an MPI library from its name; "" if unknown."""
    if "open mpi" in library.lower():
        return "Open MPI"
    derived = ("mpich", "intel", "mvapich")
    return "MPICH" if any(name in library.lower() for name in derived) else ""


def choose_algorithm(family: str, collective: str, n: int, nbytes: float) -> str:
    """Return the algorithm of a collective over ``n`` ranks with a buffer of ``nbytes``.

    A "+" joins two algorithms that run one after the other.
    """
    if not family:
        return f"{collective}/{_DEFAULT_ALGORITHMS[collective]}"
    of_block, rules = _read_rules(family, collective)
    size = nbytes / n if of_block else nbytes
    entries = next(row for max_ranks, row in rules if n < max_ranks)
    name = next(name for max_bytes, name in entries if size < max_bytes)
    is_power = n & (n - 1) == 0
    if name == "recursive_doubling" and collective == "allgather" and not is_power:
        is_short = nbytes < _MPICH_ALLGATHER_SHORT
        name = "bruck" if family == "Open MPI" or is_short else "ring"
    if name == "scatter_doubling" and not is_power:
        name = "scatter_ring"
    if name == "neighbor_exchange" and n % 2:
        name = "ring"
    # Open MPI has a fallback for fewer elements than ranks; an element is assumed to have 8 bytes.
    if family == "Open MPI" and collective == "allreduce" and nbytes < _ELEMENT_BYTES * n:
        name = {"ring": "recursive_doubling", "rabenseifner": "linear"}.get(name, name)
    full_name = f"{collective}/{name}"
    return _COMPOSED.get(full_name, full_name)


# Maximum length of an iteration in rounds.
MAX_PERIOD = 4096
# A repeated sequence of rounds is an iteration only if it sends at least this share of all bytes.
MIN_SHARE = 0.25
# A longer period may be a multiple of a shorter one, so it must cover this many times the rounds.
_MIN_COVERAGE_RATIO = 1.1
# In the mark of a collective's round, the step starts at this bit; lower bits mark the collective.
_STEP_BIT = 45


@dataclass(frozen=True)
class Events:
    """Events of all ranks, sorted by rank and, within a rank, in program order."""

    first: Ints  # (n_tasks + 1,), events of task t are first[t] to first[t + 1]
    # Columns of shape (n_events,).
    kind: NDArray[np.uint8]  # SEND, RECEIVE (a completed one) or COLLECTIVE
    peer: Ints  # receiver, sender or root; -1 for none
    communicator: Ints
    tag: Ints
    nbytes: Floats  # of a message, a task's contribution to a collective, or its whole vector
    operation: Ints  # index into `operations` for a collective, otherwise 0
    members: Mapping[int, tuple[int, ...]]  # tasks of each communicator
    operations: tuple[str, ...]  # names of collectives; "" for barriers and other events
    # For collectives with unequal amounts: bytes to each member, by the index of the event.
    blocks: Mapping[int, Floats] = field(default_factory=dict)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.first.size - 1

    @property
    def task(self) -> Ints:
        """Task of each event."""
        return np.repeat(np.arange(self.n_tasks), np.diff(self.first))


@dataclass(frozen=True)
class Rounds:
    """The workload of a program in rounds, and counts of events that could not be used."""

    workload: Workload  # of the repeated iteration, if there is one
    n_rounds: int  # of the whole trace
    iterations: int  # repetitions of the iteration; 1 if there is none
    unmatched: int  # sends without a receive, receives without a send, and incomplete collectives
    unreached: int  # events that never occur because tasks wait for each other
    algorithms: Mapping[str, int]  # number of collective calls by algorithm
    omitted: Sequence[Omission]  # events whose messages are in no round

    @property
    def repeats_text(self) -> str:
        """Message about a repeated iteration; "" if there is none."""
        if self.iterations == 1:
            return ""
        rounds = f"{len(self.workload)} of {self.n_rounds} rounds"
        return f"{rounds} repeat {self.iterations} times; the mean iteration is used"

    @property
    def unmatched_text(self) -> str:
        """Message about unmatched events; "" if there are none."""
        if not self.unmatched:
            return ""
        return f"{counted(self.unmatched, 'message')} without a matching send or receive"


def build_rounds(
    events: Events,
    *,
    name: str = "",
    algorithms: Mapping[str, str] | None = None,
    library: str = "",
    fold: bool = True,
    max_messages: int | None = None,
) -> Rounds:
    """Return the messages of a program in rounds.

    Collectives use the given ``algorithms``, such as ``{"allreduce": "ring"}``, or else those of
    the MPI ``library``. With ``fold``, the mean iteration replaces repeated iterations. If all
    collectives together have more than ``max_messages`` messages, each call is a single round.
    """
    partner, unmatched = _match_messages(events)
    calls, n_incomplete = _match_collectives(events, partner)
    unmatched += n_incomplete
    family = library_family(library)
    plans = [_plan_call(events, call, algorithms or {}, family) for call in calls]
    n_messages = sum(
        _count_messages(algorithm, plan.ranks.size, plan.nbytes)
        for plan in plans
        for algorithm in plan.algorithms
    )
    at_once = max_messages is not None and n_messages > max_messages
    planned = zip(calls, plans, strict=True)
    steps_of_calls = [_build_call(events, call, plan, at_once) for call, plan in planned]
    task = events.task
    n_steps = np.array([len(steps) for steps in steps_of_calls], np.int64)
    rounds, call_rounds, is_reached = _number_rounds(events, partner, n_steps)
    graphs: dict[int, list[CommGraph]] = defaultdict(list)
    sends = np.flatnonzero((events.kind == SEND) & (rounds > 0) & (events.peer >= 0))
    sends = sends[np.argsort(rounds[sends], kind="stable")]
    for sent in np.split(sends, np.flatnonzero(np.diff(rounds[sends])) + 1):
        if sent.size:
            graph = sum_edges(events.n_tasks, task[sent], events.peer[sent], events.nbytes[sent])
            graphs[int(rounds[sent[0]])].append(graph)
    # Rounds with equal marks are equal. A mark identifies a sender and receiver, or one step of a
    # collective on a communicator.
    marks = [(rounds[sends], task[sends] * events.n_tasks + events.peer[sends])]
    for (first, last), call, steps in zip(call_rounds.T, calls, steps_of_calls, strict=True):
        step_number = np.arange(len(steps) if first > 0 else 0)
        step_rounds = np.minimum(first + step_number, last)
        for round_number, graph in zip(step_rounds.tolist(), steps, strict=False):
            if graph.n_edges:
                graphs[round_number].append(graph)
        call_mark = int(events.communicator[call[0]]) * len(events.operations)
        call_mark += int(events.operation[call[0]]) + events.n_tasks**2
        marks.append((step_rounds, call_mark + ((step_number + 1) << _STEP_BIT)))
    if not graphs:
        raise InputError("trace without a message")
    phases, times = _fold_iterations(graphs, marks, fold)
    # Repeated rounds of an algorithm are one object, and they stay one object after renaming.
    named_phases = {id(phase): phase.renamed(name) for phase in phases}
    workload = Workload([named_phases[id(phase)] for phase in phases], name, dependent=True)
    n_calls = Counter("+".join(plan.algorithms) for plan in plans if plan.algorithms)
    unreached = int((~is_reached).sum())
    omitted = _list_omissions(events, partner, rounds)
    return Rounds(workload, len(graphs), times, unmatched, unreached, n_calls, omitted)


def _list_omissions(events: Events, partner: Ints, rounds: Ints) -> list[Omission]:
    """Return the count and bytes of each kind of event that has no partner or no round."""
    is_unmatched = partner < 0
    kinds = {
        "receive without a send": (events.kind == RECEIVE) & is_unmatched & (events.peer >= 0),
        "send in a cyclic wait": (events.kind == SEND) & (rounds == 0),
    }
    is_incomplete = (events.kind == COLLECTIVE) & is_unmatched
    for operation in np.unique(events.operation[is_incomplete]):
        if word := events.operations[operation]:
            selected = is_incomplete & (events.operation == operation)
            kinds[f"{word} missing on other ranks"] = selected
    return [
        Omission(description, "", int(selected.sum()), float(events.nbytes[selected].sum()) or None)
        for description, selected in kinds.items()
        if selected.any()
    ]


def _fold_iterations(
    graphs: Mapping[int, Sequence[CommGraph]], marks: Sequence[tuple[Ints, Ints]], fold: bool
) -> tuple[list[CommGraph], int]:
    """Return the rounds of one iteration, with mean amounts, and how often it repeats.

    ``graphs`` are the messages by round, and ``marks`` are pairs of rounds and their marks. If no
    iteration repeats, or ``fold`` is false, all rounds are returned, once.
    """
    used = np.array(sorted(graphs))
    number = np.concatenate([rounds for rounds, _ in marks])
    mark = np.concatenate([marks_of_rounds for _, marks_of_rounds in marks])
    has_messages = np.isin(number, used)
    number, mark = np.searchsorted(used, number[has_messages]), mark[has_messages]
    begin, period, times = _find_iteration(mark, number, used.size) if fold else (0, used.size, 1)
    sent = np.array([sum(float(graph.nbytes.sum()) for graph in graphs[r]) for r in used])
    if times == 1 or sent[begin : begin + period * times].sum() < MIN_SHARE * sent.sum():
        begin, period, times = 0, used.size, 1
    phases = []
    for first in range(begin, begin + period):
        repeats = used[first : first + times * period : period]
        phases.append(_average_graphs([graph for r in repeats for graph in graphs[r]], times))
    return phases, times


def _match_messages(events: Events) -> tuple[Ints, int]:
    """Return the index of each receive's send, (n_events,), and the number of unmatched messages.

    Other events, and receives without a send, have the index -1. MPI delivers messages of the same
    source, destination, communicator and tag in order.
    """
    indexes = np.flatnonzero(np.isin(events.kind, (SEND, RECEIVE)) & (events.peer >= 0))
    is_send = events.kind[indexes] == SEND
    endpoints = events.task[indexes], events.peer[indexes]
    columns = (*endpoints, events.communicator[indexes], events.tag[indexes])
    table = pd.DataFrame(dict(enumerate(columns)))
    # Columns 0 and 1 become the source and the destination of the message.
    table[0], table[1] = np.where(is_send, endpoints, endpoints[::-1])
    channel = table.groupby([*table], sort=False).ngroup().to_numpy()
    # The n-th send of a channel has the key of its n-th receive.
    key = channel * indexes.size + cumcount(2 * channel + is_send)
    sends, receives = indexes[is_send], indexes[~is_send]
    _, sent, received = np.intersect1d(
        key[is_send], key[~is_send], assume_unique=True, return_indices=True
    )
    partner = np.full(events.kind.size, -1, np.int64)
    partner[receives[received]] = sends[sent]
    return partner, indexes.size - 2 * sent.size


def _match_collectives(events: Events, partner: Ints) -> tuple[list[Ints], int]:
    """Return the events of each collective call, and the number of incomplete calls.

    For each event of a complete call, also sets ``partner`` to the index of the call.
    """
    indexes = np.flatnonzero(events.kind == COLLECTIVE)
    if not indexes.size:
        return [], 0
    communicator = events.communicator[indexes]
    call_number = cumcount(communicator * events.n_tasks + events.task[indexes])
    order = np.lexsort([call_number, communicator])
    indexes, communicator, call_number = indexes[order], communicator[order], call_number[order]
    begins = np.flatnonzero(np.diff(communicator, prepend=-1) | np.diff(call_number, prepend=-1))
    calls: list[Ints] = []
    for call in np.split(indexes, begins[1:]):
        n_members = len(events.members[int(events.communicator[call[0]])])
        if call.size >= n_members and np.ptp(events.operation[call]) == 0:
            partner[call] = len(calls)
            calls.append(call)
    return calls, begins.size - len(calls)


def _number_rounds(events: Events, partner: Ints, n_steps: Ints) -> tuple[Ints, Ints, Bools]:
    """Return each event's round, each call's first and last round, and which events are reached.

    The arrays have shapes (n_events,), (2, n_calls) and (n_events,). Rounds count from 1; 0 means
    none. Events that wait for each other are not reached.

    In a workload, a task starts a round after it has received all messages of lower rounds. This
    gives two rules. A send, or the first step of a collective, is one round after the messages that
    its task received before. A message that a task receives after a send has at least the round of
    that send; otherwise the send would wait for it. Rounds are the longest paths in the graph of
    these rules.

    If a message overtakes another one, the rules contradict each other along a cycle. All events of
    the cycle then share a round, since no task may wait for more than it does in the program.
    """
    n_events, n_calls = events.kind.size, n_steps.size
    is_send = events.kind == SEND
    is_receive = (events.kind == RECEIVE) & (partner >= 0)
    is_call = (events.kind == COLLECTIVE) & (partner >= 0)
    has_sends = is_send.copy()
    has_sends[is_call] = n_steps[partner[is_call]] > 0
    # The nodes of the graph are the events, then the first rounds of calls, then their last rounds.
    # A collective event is entered at the first round of its call and left at the last one.
    entry_node = np.where(is_call, n_events + partner, np.arange(n_events))
    exit_node = entry_node + n_calls * is_call
    calls = np.arange(n_events, n_events + n_calls)
    waits = [
        _list_arcs(partner[is_receive], entry_node[is_receive]),
        _list_arcs(calls, calls + n_calls, np.maximum(n_steps - 1, 0)),
    ]
    # First find out which events occur, given that each waits for the previous one of its task.
    previous = _find_latest_before(events, np.ones_like(is_send), exit_node)
    program = _list_arcs(previous, entry_node)
    n_nodes = n_events + 2 * n_calls
    is_reached = trace_paths(np.hstack([program, *waits]), np.zeros(n_nodes, np.int64))
    received = _find_latest_before(events, is_receive | is_call, exit_node)
    sent = np.where(has_sends | is_receive, _find_latest_before(events, has_sends, exit_node), -1)
    later_sends = _list_arcs(sent, np.where(is_receive, partner, entry_node))
    arcs = np.hstack([*waits, _list_arcs(received, entry_node, has_sends), later_sends])
    arcs = arcs[:, is_reached[arcs[0]] & is_reached[arcs[1]]]
    ones = np.ones(arcs.shape[1], np.bool_)
    graph = scipy.sparse.csr_array((ones, arcs[:2]), shape=(n_nodes, n_nodes))
    n_components, component = scipy.sparse.csgraph.connected_components(graph, connection="strong")
    arcs[:2] = component[arcs[:2]]
    is_used = np.concatenate([is_send, n_steps > 0, n_steps > 0]) & is_reached
    length = np.zeros(n_components, np.int64)
    length[component[is_used]] = 1
    trace_paths(arcs[:, arcs[0] != arcs[1]], length)
    rounds = np.where(is_used, length[component], 0)
    return rounds[:n_events], rounds[n_events:].reshape(2, n_calls), is_reached[exit_node]


def _find_latest_before(events: Events, is_selected: Bools, node: Ints) -> Ints:
    """Return for each event the node of its task's latest selected event before it, or -1."""
    latest = np.where(is_selected, np.arange(is_selected.size), -1)
    latest = np.maximum.accumulate(np.concatenate([[-1], latest])[:-1])
    return np.where(latest >= events.first[events.task], node[latest], -1)


def _list_arcs(source: Ints, target: Ints, length: Ints | Bools | int = 0) -> Int32s:
    """Return rows of sources, targets and lengths, ``(3, n)``; omit arcs whose source is -1."""
    arcs = np.empty((3, source.size), np.int32)
    arcs[0], arcs[1], arcs[2] = source, target, length
    return arcs[:, source >= 0]


class _CallPlan(NamedTuple):
    """How a collective call is expanded to messages."""

    ranks: Ints  # tasks of the communicator, the root first
    algorithms: tuple[str, ...] = ()  # run one after the other; empty if nothing is sent
    nbytes: float = 0.0  # of the whole buffer


def _plan_call(events: Events, call: Ints, chosen: Mapping[str, str], family: str) -> _CallPlan:
    """Return the plan of a collective call, with the ``chosen`` or the library's algorithm."""
    collective = events.operations[int(events.operation[call[0]])]
    ranks = np.array(events.members[int(events.communicator[call[0]])], np.int64)
    is_sum = collective in ("allgather", "gather", "scatter")
    nbytes = float(events.nbytes[call].sum() if is_sum else events.nbytes[call].max())
    if not collective or not nbytes or ranks.size < 2 or int(call[0]) in events.blocks:
        return _CallPlan(ranks)
    root = int(events.peer[call].max())
    if root >= 0:
        ranks = np.roll(ranks, -int(np.flatnonzero(ranks == root)[0]))
    if collective in chosen:
        algorithm = f"{collective}/{chosen[collective]}"
    else:
        algorithm = choose_algorithm(family, collective, ranks.size, nbytes)
    return _CallPlan(ranks, tuple(algorithm.split("+")), nbytes)


def _build_call(events: Events, call: Ints, plan: _CallPlan, at_once: bool) -> list[CommGraph]:
    """Return a call's messages: a graph per step or, with ``at_once``, a single graph."""
    n_tasks, ranks = events.n_tasks, plan.ranks
    if int(call[0]) in events.blocks:
        nbytes = np.stack([events.blocks[int(event)][: ranks.size] for event in call])
        # The events of a call are sorted by task, the blocks by rank.
        is_remote = np.sort(ranks)[:, None] != ranks
        src, dst = np.nonzero(is_remote & (nbytes > 0))
        return [sum_edges(n_tasks, np.sort(ranks)[src], ranks[dst], nbytes[src, dst])]
    members = tuple(ranks.tolist())
    return [
        graph
        for algorithm in plan.algorithms
        for graph in _build_steps(algorithm, members, plan.nbytes, n_tasks, at_once)
    ]


@lru_cache(maxsize=4096)
def _count_messages(algorithm: str, n_ranks: int, nbytes: float) -> int:
    if algorithm in ALL_PAIRS:
        return n_ranks * (n_ranks - 1)
    rounds = schedule(algorithm, n_ranks, nbytes).rounds()
    return sum(times * sum(step.src.size for step in steps) for times, steps in rounds)


@lru_cache(maxsize=64)
def _build_steps(
    algorithm: str, ranks: tuple[int, ...], nbytes: float, n_tasks: int, at_once: bool
) -> tuple[CommGraph, ...]:
    """Return a graph per step of an algorithm or, with ``at_once``, one graph for all steps."""
    tasks = np.array(ranks, np.int64)
    plan = None if at_once else schedule(algorithm, len(ranks), nbytes)
    if plan is None or plan.at_once:
        return (collective_total(algorithm, tasks[None], nbytes, n_tasks),)
    graphs: list[CommGraph] = []
    for times, steps in plan.rounds():
        graphs += [copy_to_groups(merged(len(ranks), steps), tasks[None], n_tasks)] * times
    return tuple(graphs)


def _average_graphs(graphs: Sequence[CommGraph], times: int) -> CommGraph:
    """Return the sum of the graphs, with all amounts divided by ``times``."""
    if len(graphs) == 1:
        return graphs[0]
    total = Workload(graphs).total
    amounts = total.nbytes / times, total.n_messages / times
    return CommGraph(total.n_tasks, total.src, total.dst, *amounts)


def _find_iteration(mark: Ints, number: Ints, n_rounds: int) -> tuple[int, int, int]:
    """Find the repeated sequence that covers the most rounds; rounds with equal marks are equal.

    The mark ``mark[i]`` is one of the marks of round ``number[i]``. Return the first round of the
    sequence, its length in rounds, and how often it occurs; (0, 0, 1) if none is repeated.
    """
    unique_marks = pd.DataFrame({"number": number, "mark": mark}).drop_duplicates()
    # Rounds are compared by the sum of the hashes of their marks.
    sums = np.zeros(n_rounds, np.uint64)
    np.add.at(sums, unique_marks["number"], pd.util.hash_array(unique_marks["mark"].to_numpy()))
    best, covered = (0, 0, 1), 0
    for period in range(1, min(MAX_PERIOD, n_rounds // 2) + 1):
        # Find the longest run of rounds in which each equals the round one period later.
        is_repeated = np.concatenate([[False], sums[period:] == sums[:-period], [False]])
        begins, ends = np.flatnonzero(np.diff(is_repeated.astype(np.int8))).reshape(-1, 2).T
        if not begins.size:
            continue
        longest = int(np.argmax(ends - begins))
        times = int(ends[longest] - begins[longest]) // period + 1
        if times >= 2 and times * period > _MIN_COVERAGE_RATIO * covered:
            covered = times * period
            best = (int(begins[longest]), period, times)
    return best
