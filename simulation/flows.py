"""The flow simulator, and a ranking of collective algorithms by it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus, collectives
from toruscast.mapping.problem import as_problem
from toruscast.routing import time_bounds
from toruscast.routing.loads import check_routes, link_loads
from toruscast.routing.messages import Messages, packet_counts
from toruscast.routing.route_kernels import list_links
from toruscast.routing.routing import grid_of, list_routes
from toruscast.typing import Ints
from toruscast.validation import Progress, progress_of, real_number

from ._flow_kernels import (
    CAPACITY,
    CLOCK,
    LOAD,
    MESSAGE,
    NOT_FLOWING,
    FlowInputs,
    FlowState,
    advance,
    begin,
)
from .results import MessageTimes, Span, link_table, log_simulation
from .setup import pack_contiguously
from .simulator import schedule_run

if TYPE_CHECKING:
    from toruscast.mapping.problem import MappingLike, ProblemLike, TorusLike

# Number of steps of the event loop before the first call of `progress`. The number doubles until
# the steps take this many seconds, because a step takes from a microsecond to tens of milliseconds.
_FIRST_STEPS, _MIN_REPORT_SECONDS = 64, 0.05
# Maximum total hops of all messages, and maximum number of rounds times tasks: about 4 GB.
_MAX_HOPS = 2**27
_MAX_TASK_ROUNDS = 2**28
# Maximum ratio of the seconds per byte of two routes; above it, rounded sums lose small weights.
_MAX_RATE_RATIO = 1e12


@dataclass(frozen=True, eq=False, repr=False)
class FlowSimulation(MessageTimes[Span]):
    """Times of a workload simulated by flows; made by `simulate_flows`.

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

    error: float  # requested, relative to the time of a message

    def links(self) -> pd.DataFrame:
        """Return a table of existing links, indexed by link number.

        Columns: ``node``, ``dimension``, ``direction``, ``wire_bytes`` (including packet headers)
        and ``busy_share``, the bytes' time at the link's bandwidth as a share of the total time.
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
    """Simulate messages as flows that share links, and return their arrival times.

    There are no packets, so the cost depends on the number of messages, not on their bytes. (With
    an error of 0, the cost grows with the square of the number of messages if no two end together.)
    The model describes connections that share links without filling buffers, for example by windows
    or adaptive rates. Full buffers delay packets, and only `simulate` models this delay
    (`docs/reference/simulator.md`).

    Parameters
    ----------
    comm : Workload, CommGraph, MappingProblem, or traffic in another form that it accepts
        As for `simulate`: phases one after the other, or dependent rounds.
    torus : Torus, str or sequence of int
        Routes are in dimension order; if the torus splits ties or draws them at random, half of a
        message goes each way. The simulation uses these parts of ``torus.network``: packet sizes
        (for the headers), latency, software, whether the tasks of a node share a thread, injection
        FIFOs (with ``first_free``, those of a node share a queue), memory bandwidth and the eager
        limit. It ignores buffers, arbitration and the number of reception ports.
    mapping : TaskMapping or array-like of int
        Node of each task.
    error : float
        Accepted mean error of the arrival times relative to exact shares, from 0 (exact shares at
        every time) to less than 1. The error of a single message may be several times as large, and
        even larger in dependent rounds. The time between two computations of shares is proportional
        to ``error``.
    iterations : int
        Number of times that the phases run, without a barrier in between, as for `simulate`.
    progress : callable, optional
        Called from time to time with "messages", the number of arrived messages, and the total.

    Notes
    -----
    A message begins to flow after the latency of its hops, and after the question and the answer of
    a rendezvous. All flowing messages share the links, the FIFOs and the memory bandwidth of
    receivers by weighted max-min fairness: no message can get a higher rate without slowing one
    with a smaller rate per weight (Bertsekas and Gallager, *Data Networks*, 1992). The weight is
    one over the sum of 1 / bandwidth along the route, because connections with a window of bytes
    are slower if their round trip is longer (Lakshman and Madhow, IEEE/ACM Trans. Networking 5,
    1997). Short messages do not wait behind long ones, unlike packets in a queue. Such flow-level
    models are validated in Velho, Schnorr, Casanova and Legrand, ACM Trans. Modeling and Computer
    Simulation 23, 2013.

    Examples
    --------
    Two messages share a link, and the third has its own link:

    >>> torus = Torus((8,))
    >>> comm = CommGraph(4, [0, 1, 3], [2, 2, 2], [10**9] * 3)
    >>> result = simulate_flows(comm, torus, TaskMapping([0, 1, 2, 3], 8))
    >>> [round(t, 2) for t in result.message_times[0].tolist()]
    [1.06, 0.8, 0.53]
    """
    started = time.perf_counter()
    problem = as_problem(comm, torus)
    mapping, torus = problem.mapping(mapping), problem.torus
    schedule = schedule_run(problem, iterations)
    check_routes(problem, mapping)
    if not 0 <= real_number(error, "error", 0) < 1:
        raise InputError("bad error", found=error, expected="from 0 to less than 1")
    report = progress_of(progress, "messages") or (lambda arrived, total: None)
    first_iteration = schedule.list_messages(schedule.first_iteration, mapping)
    all_iterations = schedule.list_messages(schedule.all_iterations, mapping)
    total = sum(messages.task.size for _, messages in (*first_iteration, *all_iterations))
    n_done = 0

    def run(phases: tuple[int, ...], messages: Messages, start: float) -> Span:
        """Simulate the phases of one stretch, which begins at ``start`` seconds."""
        nonlocal n_done
        flows, message = _build_inputs(messages, torus, mapping)
        state = pack_contiguously(_build_state(flows, message, messages, len(phases)))
        flows = pack_contiguously(flows)
        begin(flows, state)
        steps, last_report = _FIRST_STEPS, time.perf_counter()
        while advance(flows, state, error, steps):
            steps *= 1 + (time.perf_counter() - last_report < _MIN_REPORT_SECONDS)
            report(n_done + int(state.clock["n_arrived"][0]), total)
            last_report = time.perf_counter()
        n_done += messages.task.size
        arrived = state.message["arrived_at"].copy()
        end = start + float(arrived.max(initial=0.0))
        return Span(phases, start, end, messages, start + state.handed_over, start + arrived)

    before = schedule.run_in_turn(first_iteration, run)
    spans = schedule.run_in_turn(all_iterations, run)
    alone = before[-1].end if before else 0.0
    report(total, total)
    result = FlowSimulation(schedule.run, mapping, spans, error, iterations=iterations, alone=alone)
    return log_simulation(result, "flows", started)


def _build_inputs(
    messages: Messages, torus: Torus, mapping: TaskMapping
) -> tuple[FlowInputs, NDArray[np.void]]:
    """Return the inputs of the kernels, and the initial record of each message.

    The used resources are numbered in this order: links, FIFOs, receivers.
    """
    network = torus.network
    remote = messages.src != messages.dst
    hops = torus.distance(messages.src, messages.dst)
    if int(hops.sum()) > _MAX_HOPS:
        raise InputError(
            "too many messages for the flow simulator",
            found=f"{messages.task.size} messages",
            expected=f"at most {_MAX_HOPS} hops in total",
        )
    first, resource, share = _list_routes(messages, torus)
    seconds_per_byte = np.ones(remote.size)
    if remote.any():
        link_seconds = share / torus.link_bandwidth[resource]
        seconds_per_byte[remote] = np.add.reduceat(link_seconds, first[:-1][remote])
        min_seconds, max_seconds = seconds_per_byte[remote].min(), seconds_per_byte[remote].max()
        if max_seconds > _MAX_RATE_RATIO * min_seconds:
            raise InputError(
                "routes of messages too unequal for the flow simulator",
                found=f"{min_seconds:g} to {max_seconds:g} seconds a byte",
                expected=f"within a factor of {_MAX_RATE_RATIO:g}; change the bandwidths",
            )
    latency = np.asarray(hops * network.hop_latency, dtype=np.float64)
    question = latency + network.header / max(torus.bandwidth)
    n_fifos = torus.n_nodes * network.fifos
    # With ``first_free``, the FIFOs of a node share the queue of the first FIFO.
    n_fifos_per_queue = network.fifos if network.fifo_rule == "first_free" else 1
    fifo = torus.n_links + messages.src.astype(np.int64) * network.fifos + messages.fifo
    receiver = torus.n_links + n_fifos + messages.dst.astype(np.int64)
    # A message in halves lists the FIFO and the receiver twice, because each half uses them.
    copies = round(1 / share)
    endpoints = [fifo[remote]] * copies + [receiver[remote]] * copies
    position = np.repeat(first[1:][remote], len(endpoints))
    resource = np.insert(resource, position, np.ravel(endpoints, "F"))
    first = first + len(endpoints) * np.append(0, np.cumsum(remote))
    # Number only the used resources, because a large torus has many that are unused.
    used, index = np.unique(resource, return_inverse=True)
    capacity = np.full(used.size, network.memory_bandwidth)
    capacity[used < torus.n_links + n_fifos] = n_fifos_per_queue * max(torus.bandwidth)
    links = used[used < torus.n_links]
    capacity[: links.size] = torus.link_bandwidth[links]
    tasks = np.arange(mapping.node.size)
    flows = FlowInputs(
        round=messages.round,
        task=messages.task,
        receiver=messages.receiver,
        software=messages.software,
        copying=np.where(remote, -1.0, messages.nbytes / network.memory_bandwidth),
        asking=np.where(messages.asks, question, -1.0),
        latency=latency,
        resource=index.astype(np.int32),
        share=share,
        capacity=capacity,
        sharers=np.append(0, np.cumsum(np.bincount(index, minlength=used.size))),
        thread=mapping.node.astype(np.int64) if network.feeding == "messages" else tasks,
    )
    message = np.zeros(remote.size, dtype=MESSAGE)
    message["weight"] = 1.0 / seconds_per_byte
    message["first"], message["last"] = first[:-1], first[1:]
    message["left"] = messages.packets * messages.wire
    return flows, message


def _list_routes(messages: Messages, torus: Torus) -> tuple[Ints, Ints, float]:
    """Return the links of each message, like `routes`, and the share of a message on each link.

    If messages are split at ties, the links of both halves are listed.
    """
    first, links = list_routes(torus, messages.src, messages.dst)
    if not torus.ties_are_open:
        return first, links, 1.0
    # At each tie, one half of a message goes plus, and the other half goes minus.
    other_links = np.empty_like(links)
    list_links(grid_of(torus), messages.src, messages.dst, first, other_links, 1)
    all_links = np.ravel([links, other_links], "F")
    return 2 * first, all_links, 0.5


def _build_state(
    flows: FlowInputs, message: NDArray[np.void], messages: Messages, n_rounds: int
) -> FlowState:
    """Return the state before any task has begun its first round."""
    n, n_tasks, n_resources = flows.task.size, flows.thread.size, flows.capacity.size
    if n_rounds * n_tasks > _MAX_TASK_ROUNDS:
        raise InputError(
            "too many rounds",
            found=f"{n_rounds} of {n_tasks} tasks",
            expected=f"at most {_MAX_TASK_ROUNDS} rounds times tasks",
        )
    sender = messages.round * n_tasks + messages.task
    receiver = messages.round * n_tasks + messages.receiver
    missing = np.bincount(receiver, minlength=n_rounds * n_tasks)
    # A task also waits for its own hand-over and for the answers to its questions.
    missing += 1 + np.bincount(sender[messages.asks], minlength=n_rounds * n_tasks)
    available = np.zeros(n_resources, dtype=CAPACITY)
    available["free"] = flows.capacity
    return FlowState(
        clock=np.zeros(1, dtype=CLOCK),
        missing=missing.reshape(n_rounds, n_tasks).astype(np.int32),
        entered=np.full(n_tasks, -1),
        following=np.searchsorted(messages.task, np.arange(n_tasks)),
        free=np.zeros(flows.thread.max(initial=0) + 1),
        asked=np.full(n_tasks, -1),
        next_asked=np.full(n, -1),
        handed_over=np.zeros(n),
        message=message,
        stamp=np.full(n, NOT_FLOWING, dtype=np.uint8),
        event_time=np.empty(n + n_tasks),
        event=np.empty(n + n_tasks, dtype=np.int64),
        available=available,
        load=np.zeros(n_resources, dtype=LOAD),
        sharer=np.empty(flows.resource.size, dtype=np.int32),
        n_sharers=np.zeros(n_resources, dtype=np.int64),
        unrated=np.empty(np.diff(flows.sharers).max(initial=0) + 1, dtype=np.int32),
        lowest=np.empty(n_resources, dtype=np.int64),
        height=np.empty(n_resources),
        ending=np.empty(n, dtype=np.int64),
        end_time=np.empty(n),
    )


# Algorithms with more messages are not simulated, because that would take too long.
_MAX_MESSAGES = 2_000_000
_EMPTY_ROW: dict[str, object] = {"time": math.nan, "lower_bound": math.nan, "rounds": 0}
_EMPTY_ROW |= {"messages": 0, "GBps": math.nan, "why": ""}


def rank_collectives(
    collective: str,
    nbytes: float,
    torus: Torus,
    mapping: TaskMapping,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Return a table of the algorithms of a collective by simulated flows, the fastest first.

    Each algorithm is simulated with one port, with two, and with one for each direction of the
    torus (at most six), if it supports them. Algorithms use the shape of the torus if each node has
    exactly one task.
    """
    names = collectives.names(collective)
    if not names or "/" in collective:
        kinds = sorted({name.split("/")[0] for name in collectives.names()})
        raise InputError("unknown collective", found=collective, expected=" or ".join(kinds))
    mapping.check(mapping.n_tasks, torus)
    shape = torus.shape if mapping.n_tasks == torus.n_nodes else None
    directions = min(2 * sum(size > 1 for size in torus.shape), 6) if shape else 2
    port_counts = sorted({1, 2, max(directions, 1)})
    rows, candidates = [], [(name, ports) for name in names for ports in port_counts]
    for n_done, (name, ports) in enumerate(candidates):
        row = _simulate_algorithm(name, ports, nbytes, shape, torus, mapping)
        if row is not None:
            rows.append({"algorithm": name, "ports": ports, **row})
        if progress is not None:
            progress(n_done + 1, len(candidates))
    table = pd.DataFrame(rows)
    return table.sort_values("time", kind="stable", ignore_index=True)


def _simulate_algorithm(
    name: str,
    ports: int,
    nbytes: float,
    shape: tuple[int, ...] | None,
    torus: Torus,
    mapping: TaskMapping,
) -> dict[str, object] | None:
    """Return the row of an algorithm in the table of `rank_collectives`.

    The result is None if the algorithm does not support that many ports. If the algorithm cannot be
    simulated, the row gives the reason instead of a time.
    """
    try:
        schedule = collectives.schedule(name, mapping.n_tasks, nbytes, shape, ports=ports)
        rounds = list(schedule.rounds())
    except InputError as refusal:
        return None if ports > 1 else _EMPTY_ROW | {"why": str(refusal)}
    messages = sum(times * step.src.size for times, steps in rounds for step in steps)
    if messages > _MAX_MESSAGES:
        return _EMPTY_ROW | {"messages": messages, "why": "too many messages to simulate"}
    workload = schedule.workload()
    problem = MappingProblem(workload, torus)
    bound = time_bounds(problem, mapping).total
    # Because of the accepted error, the simulated time may be below the lower bound.
    seconds = max(simulate_flows(problem, mapping=mapping).time, bound)
    return _EMPTY_ROW | {
        "time": seconds,
        "lower_bound": bound,
        "rounds": len(workload),
        "messages": messages,
        "GBps": nbytes / seconds / 1e9 if seconds else math.nan,
    }
