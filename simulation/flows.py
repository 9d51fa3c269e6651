"""The flow simulator, and the algorithms of a collective ranked by it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus, collectives
from toruscast.mapping.problem import as_problem
from toruscast.routing import time_bounds
from toruscast.routing.loads import check_ways, link_loads
from toruscast.routing.messages import Messages, packet_counts
from toruscast.routing.routing import routes
from toruscast.validation import Progress, check_call, progress_of, real_number

from ._flow_kernels import advance, begin
from ._sharing_kernels import (
    ARRIVED,
    CAME,
    CLOCK_FIELDS,
    COUNTS,
    FIRST,
    FREE,
    LAST,
    LEFT,
    MESSAGE_FIELDS,
    NOT_FLOWING,
    PLACE_FIELDS,
    WEIGHT,
    Flows,
    FlowState,
)
from .results import MessageTimes, Span, link_table, noted
from .setup import side_by_side
from .simulator import stretches_of

if TYPE_CHECKING:
    from toruscast.mapping.problem import MappingLike, ProblemLike, TorusLike

# Steps before the first call of `progress`; a step takes from a microsecond to tens of
# milliseconds. They double while they take less than these seconds.
_FEWEST, _BRIEF = 64, 0.05
# Most places of all messages of a run, and of all tasks in all rounds: about 4 GB.
_MOST_PLACES = 2**27
_MOST_ROUNDS = 2**28
# With a larger ratio, sums of weights would lose those of some messages.
_MOST_UNLIKE = 1e12


@dataclass(frozen=True, eq=False, repr=False)
class FlowSimulation(MessageTimes[Span]):
    """Times of a workload whose messages flow; made by `simulate_flows`.

    Examples
    --------
    >>> from toruscast.mapping.patterns import halo_2d
    >>> comm, torus = halo_2d((4, 4), 2**30), Torus((4, 4))
    >>> result = simulate_flows(comm, torus, TaskMapping(range(16), torus))
    >>> round(result.time, 4)
    0.5704
    >>> result.links()["busy_share"].max().round(3)
    np.float64(1.0)
    """

    error: float  # requested, as a part of a message's own time

    def links(self) -> pd.DataFrame:
        """Return every existing link, one a row, indexed by link number.

        Columns: ``node``, ``dimension``, ``direction``, ``wire_bytes`` (with the headers of
        packets) and ``busy_share``, the share of the time that the bytes take at its bandwidth.
        """
        packets, wire = packet_counts(self.problem)
        return link_table(self, link_loads(self.problem, self.mapping, packets * wire))


def simulate_flows(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    mapping: MappingLike | None = None,
    *,
    error: float = 0.01,
    iterations: int = 1,
    progress: Progress | None = None,
) -> FlowSimulation:
    """Simulate messages that flow side by side, and return when each has arrived.

    There are no packets: the cost depends on the number of messages, not on their bytes. (With an
    error of 0 it grows with the square of that number if no two end together.) The times are those
    of connections that share the links and fill no buffers, such as those with windows or adaptive
    rates. Where full buffers stop other packets, packets take longer; only `simulate` shows by how
    much (`docs/reference/flows.md`).

    Parameters
    ----------
    comm : Workload, CommGraph, or what `MappingProblem` takes, or such a problem
        As for `simulate`: phases one after the other, or dependent rounds.
    torus : Torus, str or sequence of int
        Routes are in dimension order; half of a message goes each way where
        the torus splits ties or draws them at random. These parts of ``torus.network`` count: sizes
        of packets (for the headers), latency, software, whether a node's tasks share a thread,
        injection FIFOs (those of a node together with ``first_free``), memory bandwidth and the
        limit of eager messages. Buffers, arbitration and the number of reception
        ports do not count.
    mapping : TaskMapping or array-like of int
        Where the tasks run; an array holds the node of each.
    error : float
        Accepted error of the messages' arrival times relative to exact shares, on average over
        all messages. A single one may be off by several times as much, and in dependent rounds
        what follows may move by more. Shares are computed again in steps that are in proportion to
        this error. From 0, for shares that are exact at every moment, to less than 1.
    iterations : int
        How many times the phases are run, without a barrier between, as for `simulate`.
    progress : callable, optional
        Called from time to time with "messages", those arrived and those of the whole run.

    Notes
    -----
    A message flows when its head has come through: after hops times latency, and before that the
    ways of question and answer if it asks first. All flowing messages share the links, the FIFOs
    and the memory bandwidth of receivers by max-min fairness: no message can get more unless one
    with a smaller rate for its weight gets less (Bertsekas and Gallager, *Data Networks*, 1992).
    The weight is one over the sum of 1 / bandwidth along the way, because connections with a window
    of bytes get less if their round trip is longer (Lakshman and Madhow, IEEE/ACM Trans. Networking
    5, 1997). Short messages do not wait behind long ones, unlike packets in a queue. Such
    flow-level models are validated in Velho, Schnorr, Casanova and Legrand, ACM Trans. Modeling and
    Computer Simulation 23, 2013.

    Examples
    --------
    Two messages share a link, and the third has one to itself:

    >>> torus = Torus((8,))
    >>> comm = CommGraph(4, [0, 1, 3], [2, 2, 2], [10**9] * 3)
    >>> result = simulate_flows(comm, torus, TaskMapping([0, 1, 2, 3], 8))
    >>> [round(t, 2) for t in result.message_times[0].tolist()]
    [1.06, 0.8, 0.53]
    """
    problem = as_problem(comm, torus)
    return flow_messages(
        problem,
        problem.mapping(mapping),
        error=error,
        iterations=iterations,
        progress=progress_of(progress, "messages"),
    )


def flow_messages(
    problem: MappingProblem,
    mapping: TaskMapping,
    *,
    error: float = 0.01,
    iterations: int = 1,
    progress: Callable[[int, int], object] | None = None,
) -> FlowSimulation:
    """Simulate flows of a problem in dimension order under a checked mapping."""
    started = time.perf_counter()
    torus = problem.torus
    stretches = stretches_of(problem, iterations)
    check_ways(problem, mapping)
    if not 0 <= real_number(error, "error", 0) < 1:
        raise InputError("bad error", found=error, expected="from 0 to less than 1")
    check_call(progress)
    first, together = stretches.list_messages(mapping)
    total = sum(messages.task.size for _, messages in (*first, *together))
    report = progress or (lambda arrived, total: None)
    done = 0

    def run(numbers: tuple[int, ...], messages: Messages, start: float) -> Span:
        nonlocal done
        flows, message = _flows(messages, torus, mapping)
        state = side_by_side(_state(flows, message, messages, len(numbers)))
        flows = side_by_side(flows)
        begin(flows, state)
        steps, called = _FEWEST, time.perf_counter()
        while advance(flows, state, error, steps):
            steps *= 1 + (time.perf_counter() - called < _BRIEF)
            report(done + int(state.counts[ARRIVED]), total)
            called = time.perf_counter()
        done += messages.task.size
        arrived = state.message[:, CAME].copy()
        end = start + float(arrived.max(initial=0.0))
        return Span(numbers, start, end, messages, start + state.handed_over, start + arrived)

    before = stretches.run_in_turn(first, run)
    spans = stretches.run_in_turn(together, run)
    alone = before[-1].end if before else 0.0
    report(total, total)
    found = FlowSimulation(stretches.run, mapping, spans, error, iterations=iterations, alone=alone)
    return noted(found, "flows", started)


def _flows(
    messages: Messages, torus: Torus, mapping: TaskMapping
) -> tuple[Flows, NDArray[np.float64]]:
    """Return the messages as the kernels see them, and what changes of each."""
    network = torus.network
    remote = messages.src != messages.dst
    if int(torus.distance(messages.src, messages.dst).sum()) > _MOST_PLACES:
        raise InputError(
            "too many messages to let flow",
            found=f"{messages.task.size} messages",
            expected=f"at most {_MOST_PLACES} hops of them all",
        )
    first, place, part = _ways(messages, torus)
    along = np.ones(remote.size)
    if remote.any():
        along[remote] = np.add.reduceat(part / torus.link_bandwidth[place], first[:-1][remote])
        least, most = along[remote].min(), along[remote].max()
        if most > _MOST_UNLIKE * least:
            raise InputError(
                "ways of messages too unlike to share links",
                found=f"{least:g} to {most:g} seconds a byte",
                expected=f"within a factor of {_MOST_UNLIKE:g}: other bandwidths",
            )
    hops = np.where(remote, torus.distance(messages.src, messages.dst), 0)
    latency = hops * network.hop_latency
    question = latency + network.header / max(torus.bandwidth)
    n_fifos = torus.n_nodes * network.fifos
    # With this rule all FIFOs of a node take from one queue, the first.
    feeds = network.fifos if network.fifo_rule == "first_free" else 1
    fifo = torus.n_links + messages.src.astype(np.int64) * network.fifos + messages.fifo
    receiver = torus.n_links + n_fifos + messages.dst.astype(np.int64)
    # Of a message in halves, its FIFO and its receiver are listed twice, as all its links are.
    both = [column[remote] for column in (fifo, receiver) for _ in range(round(1 / part))]
    place = np.insert(place, np.repeat(first[1:][remote], len(both)), np.ravel(both, "F"))
    first = first + len(both) * np.append(0, np.cumsum(remote))
    # Only used links, FIFOs and nodes get a place, because a large torus has many.
    used, number = np.unique(place, return_inverse=True)
    capacity = np.full(used.size, network.memory_bandwidth)
    capacity[used < torus.n_links + n_fifos] = feeds * max(torus.bandwidth)
    links = used[used < torus.n_links]
    capacity[: links.size] = torus.link_bandwidth[links]
    tasks = np.arange(mapping.node.size)
    flows = Flows(
        round=messages.round,
        task=messages.task,
        receiver=messages.receiver,
        software=messages.software,
        copying=np.where(remote, -1.0, messages.nbytes / network.memory_bandwidth),
        asking=np.where(messages.asks, question, -1.0),
        latency=latency,
        place=number.astype(np.int32),
        part=part,
        capacity=capacity,
        sharers=np.append(0, np.cumsum(np.bincount(number, minlength=used.size))),
        thread=mapping.node.astype(np.int64) if network.feeding == "messages" else tasks,
    )
    message = np.zeros((remote.size, MESSAGE_FIELDS))
    message[:, WEIGHT] = 1.0 / along
    message[:, FIRST], message[:, LAST] = first[:-1], first[1:]
    message[:, LEFT] = messages.packets * messages.wire
    return flows, message


def _ways(messages: Messages, torus: Torus) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
    """Return where each message's links begin, the links, and the part of it on each."""
    if not torus.ties_are_open:
        first, links = routes(torus, messages.src, messages.dst)
        return first, links, 1.0
    # One half takes the plus way of each tie, the other the minus way, which is the plus way in
    # reversed coordinates.
    plus = replace(torus, tie_break="plus")
    mirrored = torus.node(np.array(torus.shape) - 1 - torus.coords)
    first, links = routes(plus, messages.src, messages.dst)
    _, others = routes(plus, mirrored[messages.src], mirrored[messages.dst])
    node, port = np.divmod(others, 2 * torus.ndim)
    others = mirrored[node].astype(np.int64) * 2 * torus.ndim + (port ^ 1)
    both = np.empty(2 * links.size, dtype=np.int64)
    both[0::2], both[1::2] = links, others
    return 2 * first, both, 0.5


def _state(
    flows: Flows, message: NDArray[np.float64], messages: Messages, rounds: int
) -> FlowState:
    """Return the state before anything has happened."""
    n, tasks, places = flows.task.size, flows.thread.size, flows.capacity.size
    if rounds * tasks > _MOST_ROUNDS:
        raise InputError(
            "too many rounds",
            found=f"{rounds} of {tasks} tasks",
            expected=f"at most {_MOST_ROUNDS} rounds times tasks",
        )
    sender = messages.round * tasks + messages.task
    missing = np.bincount(messages.round * tasks + messages.receiver, minlength=rounds * tasks)
    # The hand-over of a round, and all messages whose answers a task waits for.
    missing += 1 + np.bincount(sender[messages.asks], minlength=rounds * tasks)
    shared = np.zeros((places, 2))
    shared[:, FREE] = flows.capacity
    return FlowState(
        clock=np.zeros(CLOCK_FIELDS),
        counts=np.zeros(COUNTS, dtype=np.int64),
        missing=missing.reshape(rounds, tasks).astype(np.int32),
        entered=np.full(tasks, -1),
        following=np.searchsorted(messages.task, np.arange(tasks)),
        free=np.zeros(flows.thread.max(initial=0) + 1),
        asked=np.full(tasks, -1),
        behind=np.full(n, -1),
        handed_over=np.zeros(n),
        message=message,
        stamp=np.full(n, NOT_FLOWING, dtype=np.uint8),
        event_time=np.empty(n + tasks),
        event=np.empty(n + tasks, dtype=np.int64),
        shared=shared,
        moved=np.zeros((places, PLACE_FIELDS)),
        sharer=np.empty(flows.place.size, dtype=np.int32),
        n_sharers=np.zeros(places, dtype=np.int64),
        without=np.empty(np.diff(flows.sharers).max(initial=0) + 1, dtype=np.int32),
        lowest=np.empty(places, dtype=np.int64),
        height=np.empty(places),
        soon=np.empty(n, dtype=np.int64),
        soon_end=np.empty(n),
    )


# Algorithms with more messages are not simulated, so that the table takes little time.
_MOST_MESSAGES = 2_000_000
_NOT_RUN: dict[str, object] = {"time": math.nan, "lower_bound": math.nan, "rounds": 0}
_NOT_RUN |= {"messages": 0, "GBps": math.nan, "why": ""}


def rank_collectives(
    collective: str,
    nbytes: float,
    torus: Torus,
    mapping: TaskMapping,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Return the algorithms of a collective, the fastest first, by simulated flows.

    Each runs on one port, and on as many as the torus has directions, or both ways round a ring, if
    it can. Algorithms know the torus if there is a task on every node.
    """
    names = collectives.names(collective)
    if not names or "/" in collective:
        known = sorted({name.split("/")[0] for name in collectives.names()})
        raise InputError("unknown collective", found=collective, expected=" or ".join(known))
    mapping.check(mapping.n_tasks, torus)
    shape = torus.shape if mapping.n_tasks == torus.n_nodes else None
    directions = min(2 * sum(size > 1 for size in torus.shape), 6) if shape else 2
    ways = sorted({1, 2, max(directions, 1)})
    rows, tries = [], [(name, ports) for name in names for ports in ways]
    for done, (name, ports) in enumerate(tries):
        row = _try(name, ports, nbytes, shape, torus, mapping)
        if row is not None:
            rows.append({"algorithm": name, "ports": ports, **row})
        if progress is not None:
            progress(done + 1, len(tries))
    table = pd.DataFrame(rows)
    return table.sort_values("time", kind="stable", ignore_index=True)


def _try(
    name: str,
    ports: int,
    nbytes: float,
    shape: tuple[int, ...] | None,
    torus: Torus,
    mapping: TaskMapping,
) -> dict[str, object] | None:
    """Return an algorithm's time or the reason for none; None for ports it does not drive."""
    try:
        plan = collectives.schedule(name, mapping.n_tasks, nbytes, shape, ports=ports)
        rounds = list(plan.rounds())
    except InputError as refusal:
        return None if ports > 1 else _NOT_RUN | {"why": str(refusal)}
    messages = sum(times * step.src.size for times, steps in rounds for step in steps)
    if messages > _MOST_MESSAGES:
        return _NOT_RUN | {"messages": messages, "why": "too many messages to simulate here"}
    workload = plan.workload()
    problem = MappingProblem(workload, torus)
    bound = time_bounds(problem, mapping).total
    # The accepted error may give a time below the lower bound.
    time = max(flow_messages(problem, mapping).time, bound)
    return _NOT_RUN | {
        "time": time,
        "lower_bound": bound,
        "rounds": len(workload),
        "messages": messages,
        "GBps": nbytes / time / 1e9 if time else math.nan,
    }
