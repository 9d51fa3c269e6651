"""The packet simulator, its iterations, and the choice of the coarsening."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus, Workload
from toruscast.mapping.problem import as_problem
from toruscast.routing.loads import check_routes
from toruscast.routing.messages import Messages, list_messages, max_message_packets
from toruscast.text import seconds
from toruscast.typing import Floats
from toruscast.validation import (
    SEED,
    Progress,
    Routing,
    Seed,
    progress_of,
    real_number,
    seed_number,
    whole_number,
)

from . import state as records
from .loop_kernels import run as run_events
from .loop_kernels import start
from .results import PacketSpan, Simulation, Snapshot, Span, log_simulation
from .setup import build_state
from .state import CHECK_INTERVAL, LARGEST_PACKET, PLACES, waits_too_long

if TYPE_CHECKING:
    from toruscast.mapping.problem import MappingLike, ProblemLike, TorusLike

Phases = tuple[int, ...]
StretchMessages = list[tuple[Phases, Messages]]
S = TypeVar("S", bound=Span)

# Each iteration adds at least one phase with messages of its own.
_MAX_ITERATIONS = 100_000


class RunSchedule(NamedTuple):
    """Stretches of a run: each is a tuple of numbers of phases without a barrier in between."""

    run: MappingProblem  # the problem with its phases repeated for each iteration
    # Stretches of the first iteration when simulated alone; empty if there is only one iteration.
    first_iteration: list[Phases]
    # Stretches of the run. An iteration's last phase and the next iteration's first share a
    # stretch.
    all_iterations: list[Phases]
    problems: Mapping[Phases, MappingProblem]  # by stretch; equal stretches share a problem

    def list_messages(
        self, stretches: list[Phases], mapping: TaskMapping, coarsening: int = 1
    ) -> StretchMessages:
        """Return each stretch with its messages."""
        return [
            (phases, list_messages(self.problems[phases], mapping, coarsening))
            for phases in stretches
        ]

    def run_in_turn(
        self,
        stretch_messages: StretchMessages,
        run: Callable[[Phases, Messages, float], S],
    ) -> tuple[S, ...]:
        """Run stretches in sequence. Each starts at the end of the previous one."""
        spans: list[S] = []
        for phases, messages in stretch_messages:
            begin = spans[-1].end if spans else 0.0
            if messages.task.size:
                begin += self.run.torus.network.start
            spans.append(run(phases, messages, begin))
        return tuple(spans)


def schedule_run(problem: MappingProblem, iterations: int = 1) -> RunSchedule:
    """Return the stretches of a run; schedules of several iterations are cached."""
    iterations = whole_number(iterations, "iterations", 1, _MAX_ITERATIONS)
    # The schedule of one iteration refers to the problem, so caching it there would form a cycle.
    if iterations == 1:
        return _schedule_run(problem, 1)
    return problem.derive(_schedule_run, iterations)


def _schedule_run(problem: MappingProblem, iterations: int) -> RunSchedule:
    """Return the stretches of a run, and the problem of each stretch."""
    workload, run = problem.workload, problem
    n_phases = len(workload)
    first_iteration: list[Phases] = []
    if iterations > 1:
        # Iterations of a single phase have no barriers between them, so they run as rounds.
        dependent = workload.dependent or n_phases == 1
        phases = tuple(workload.phases) * iterations
        repeated = replace(workload, phases=phases, dependent=dependent)
        run = MappingProblem(repeated, problem.torus, problem.routing)
        numbers = range(n_phases)
        first_iteration = [tuple(numbers)] if workload.dependent else [(i,) for i in numbers]
    n_run_phases = len(run.workload)
    barriers = [phase for phase in range(1, n_run_phases) if phase % n_phases]
    if run.workload.dependent:
        barriers = []
    all_iterations = [tuple(range(i, j)) for i, j in pairwise([0, *barriers, n_run_phases])]
    problem_of_phases: dict[Phases, MappingProblem] = {}
    problems = {}
    for stretch in (*first_iteration, *all_iterations):
        key = tuple(id(run.workload.phases[i]) for i in stretch)
        if key not in problem_of_phases:
            problem_of_phases[key] = _select_phases(run, stretch)
        problems[stretch] = problem_of_phases[key]
    return RunSchedule(run, first_iteration, all_iterations, problems)


def _select_phases(problem: MappingProblem, numbers: Phases) -> MappingProblem:
    """Return the problem of some phases, as dependent rounds if there are several."""
    if len(numbers) == 1:
        return problem.phases[numbers[0]]
    if len(numbers) == len(problem.workload):
        return problem
    phases = [problem.workload.phases[i] for i in numbers]
    return MappingProblem(Workload(phases, dependent=True), problem.torus, problem.routing)


# Packet-hops between two calls of `progress`, and between two checks for Ctrl-C: about 0.1 s.
_SLICE = 2**20
# A tick after the end of any run.
_NEVER = 2**62
# Difference between the seeds of two phases, much larger than seeds that users choose.
SEED_STEP = 0x1E3779B97F4A7C15
# Maximum number and bytes of snapshots.
_MAX_SNAPSHOTS = 100_000
_MAX_SNAPSHOT_BYTES = 2 * 10**9
# Approximate bytes of a snapshot, and additional bytes for each link.
_SNAPSHOT_BYTES, _BYTES_PER_LINK = 1000, 12


def packet_hops(messages: Messages, torus: Torus) -> int:
    """Return the total hops of all packets, including questions and answers of rendezvous."""
    hops = torus.distance(messages.src, messages.dst)
    # A question and its answer are one packet each.
    return int((messages.packets * hops).sum() + 2 * hops[messages.asks].sum())


@dataclass
class PacketRun:
    """Options and progress of a simulation with one coarsening."""

    problems: Mapping[Phases, MappingProblem]  # of each stretch
    mapping: TaskMapping
    seed: int
    interval: float | None
    progress: Callable[[int, int], object] | None
    min_places: int
    total: int = 0  # packet-hops of all stretches
    finished: int = 0  # packet-hops of finished stretches
    reported: int = 0  # packet-hops of the last report
    n_snapshots: int = 0

    def report(self, done: int) -> None:
        """Report the finished packet-hops of this stretch."""
        if self.progress is not None:
            # Progress must not decrease when a stretch is restarted.
            self.reported = max(self.reported, min(self.finished + done, self.total))
            self.progress(self.reported, self.total)

    def run_stretch(self, numbers: Phases, messages: Messages, begin: float) -> PacketSpan:
        """Simulate the phases of one stretch, which begins at ``begin`` seconds.

        The simulation is repeated with longer ticks if a packet waited too long for the clock.
        """
        problem = self.problems[numbers]
        # Use different random numbers after each barrier.
        seed = (self.seed + numbers[0] * SEED_STEP) % 2**63
        snapshots = None
        n_halvings = 0
        while snapshots is None:
            state, tick = build_state(
                messages,
                len(numbers),
                problem.torus,
                self.mapping,
                problem.phases[0].routing,
                seed=seed,
                min_places=self.min_places,
                reads_counters=self.interval is not None,
                n_halvings=n_halvings,
            )
            snapshots = self._run_to_end(state, tick, begin, max_snapshots(problem.torus))
            n_halvings += 1
        if state.packets.receipt["left"].any():
            raise RuntimeError("packets left without an event")
        n, counter, packets = messages.task.size, state.links.counter, state.packets
        finish = packets.receipt["finish"][:n] * tick
        last = float(finish.max(initial=0.0))
        if self.interval is not None:
            snapshots.append(_take_snapshot(state, last, begin))
        hops = int(state.events.clock[records.HOPS])
        self.report(hops)
        self.finished += hops
        return PacketSpan(
            phases=numbers,
            begin=begin,
            end=begin + last,
            messages=messages,
            handed_over=begin + packets.message["ready"][state.rounds.first] * tick,
            arrived=np.asarray(begin + finish, dtype=np.float64),
            packets=counter["packets"].astype(np.int64),
            wire_bytes=counter["wire_bytes"].copy(),
            max_packets=counter["max_packets"].astype(np.int64),
            waited=counter["waited"] * tick,
            fifo_waited=_sum_by_queue(packets.fifo["waited"] * tick, state.rules.shared_by),
            fifo_max_edges=packets.filling["max_length"].copy(),
            fifo_stay=packets.filling["stay"] * tick,
            snapshots=tuple(snapshots),
        )

    def _run_to_end(
        self, state: records.State, tick: float, begin: float, max_kept: int
    ) -> list[Snapshot] | None:
        """Run all events; return the snapshots, or None if a packet waited too long.

        ``tick`` is the seconds of a tick, and ``max_kept`` the maximum number of snapshots.
        """
        start(state)
        snapshots: list[Snapshot] = []
        interval_ticks = _NEVER
        if self.interval is not None:
            interval_ticks = round(min(max(1.0, self.interval / tick), _NEVER))
        next_snapshot = interval_ticks
        next_check = CHECK_INTERVAL
        n_before = self.n_snapshots
        while run_events(state, min(next_snapshot, next_check), _SLICE):
            self.report(int(state.events.clock[records.HOPS]))
            next_event = int(state.events.clock[records.NEXT_EVENT])
            if next_event > next_check:
                if waits_too_long(state, next_check):
                    self.n_snapshots = n_before
                    return None
                # Without events no packet waits.
                next_check = next_event + CHECK_INTERVAL
            if next_event > next_snapshot:
                self.n_snapshots += 1
                if self.n_snapshots > max_kept:
                    raise InputError(
                        "interval too short: too many snapshots",
                        found=seconds(interval_ticks * tick),
                        expected=f"at most {max_kept} in a run",
                    )
                snapshots.append(_take_snapshot(state, next_snapshot * tick, begin))
                next_snapshot = min(next_snapshot + interval_ticks, _NEVER)
        return snapshots


def _sum_by_queue(values: Floats, shared_by: int) -> Floats:
    """Sum the values of FIFOs that share a queue, and store each sum at the first FIFO."""
    sums = np.zeros_like(values)
    sums[::shared_by] = values.reshape(-1, shared_by).sum(axis=1)
    return sums


def max_snapshots(torus: Torus) -> int:
    """Return the maximum number of snapshots of a run."""
    snapshot_bytes = _SNAPSHOT_BYTES + _BYTES_PER_LINK * torus.n_links
    return min(_MAX_SNAPSHOTS, _MAX_SNAPSHOT_BYTES // snapshot_bytes)


def _take_snapshot(state: records.State, now: float, begin: float) -> Snapshot:
    """Return a snapshot ``now`` seconds after the beginning of the stretch."""
    counter = state.links.counter
    return Snapshot(begin + now, counter["wire_bytes"].copy(), state.links.link["occupied"].copy())


# Maximum change of the time when the coarsening is halved, as a share of the accepted error. If
# errors halved with the coarsening, a share of 1/2 would suffice, but in a full network errors jump
# (docs/reference/simulator.md). With 1/8, twice in a row, one mapping of fifty was off by 15 %.
_CHANGE_SHARE = 1 / 16
# Required number of small changes in a row, because one or two may be chance.
_N_STABLE = 3
# From this coarsening on, two more halvings cost about as much as simulating real packets.
_SMALL_COARSENING = 8
# With fewer packet-hops, a simulation takes less than a second, so packets are not merged.
_FEW_PACKET_HOPS = 2**22
# Minimum packets of the longest message in the coarsest simulation. Fewer packets would fit into
# the buffers of a route. The time would then change little for several steps, and yet be wrong.
_MIN_MESSAGE_PACKETS = 64
# If a buffer has fewer places for packets than this, a simulation with this many must give nearly
# the same time. With 8 places, one mapping had an error of 20 %; with 16, none had.
_MANY_PLACES = 16
# Maximum difference between the two times, as a share of the accepted error.
_PLACES_SHARE = 1 / 8


def candidate_coarsenings(longest: int, max_coarsening: float = math.inf) -> list[int]:
    """Return the coarsenings that `refine` may simulate, the largest first.

    ``longest`` is the number of packets of the longest message.
    """
    coarsening = 2 ** int(math.log2(max(1, min(longest / _MIN_MESSAGE_PACKETS, max_coarsening))))
    if coarsening <= _SMALL_COARSENING:
        return [1]
    return [2**k for k in range(coarsening.bit_length() - 1, -1, -1)]


def refine(
    error: float,
    longest: int,
    hops: int,
    buffer_packets: int,
    run: Callable[[int, int], Simulation],
    max_coarsening: float = math.inf,
) -> tuple[Simulation, float]:
    """Halve the coarsening until the time changes little three times in a row.

    Return the last simulation and its relative change. ``run`` takes a coarsening and a minimum
    number of places for packets in a buffer. ``longest`` counts the packets of the longest message.

    After a change larger than the error, six small changes in a row are required, because the time
    of such a network may jump. In a full network the time depends on the number of places in a
    buffer more than on the coarsening. If there are few places, a simulation with many must give
    nearly the same time.
    """
    coarsening = 1 if hops < _FEW_PACKET_HOPS else candidate_coarsenings(longest, max_coarsening)[0]
    result = run(coarsening, PLACES)
    change = math.inf
    n_stable = 0
    while coarsening > 1 and n_stable < _N_STABLE:
        coarsening = 1 if n_stable <= 0 and coarsening <= _SMALL_COARSENING else coarsening // 2
        finer = run(coarsening, PLACES)
        change = _relative_change(result, finer)
        if change <= error * _CHANGE_SHARE:
            n_stable += 1
        else:
            # A negative count requires additional small changes.
            n_stable = 0 if change <= error else -_N_STABLE
        result = finer
        has_few_places = coarsening > 1 and buffer_packets / coarsening < _MANY_PLACES
        if (
            n_stable == _N_STABLE
            and has_few_places
            and _relative_change(run(coarsening, _MANY_PLACES), finer) > error * _PLACES_SHARE
        ):
            n_stable = 0
    return result, 0.0 if coarsening == 1 else change


def _relative_change(before: Simulation, after: Simulation) -> float:
    return abs(after.time - before.time) / after.time if after.time else 0.0


def simulate(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    mapping: MappingLike | None = None,
    *,
    routing: Routing = "deterministic",
    coarsening: int = 1,
    error: float | None = None,
    iterations: int = 1,
    seed: Seed = SEED,
    interval: float | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Simulate the packets of every message, with counters of links and FIFOs.

    Parameters
    ----------
    comm : Workload, CommGraph, MappingProblem, or traffic in another form that it accepts
        Phases run one after the other, with a barrier between them. The phases of a workload with
        ``dependent=True`` are rounds: each task enters a round when it has finished the previous
        one. An edge sends `CommGraph.whole_messages` messages, with its bytes spread evenly over
        their packets. An edge of half a message or less sends nothing.
    torus : Torus, str or sequence of int
        The simulation uses the bandwidths of the torus and the constants of ``torus.network``.
    mapping : TaskMapping or array-like of int
        Node of each task.
    routing : {"deterministic", "adaptive", "by_size"}
        "deterministic" follows the dimension order. "adaptive" is minimal: a packet takes the
        emptiest productive link of its zone, or the next link in dimension order. "by_size" is
        adaptive for phases with a message of more than ``torus.network.deterministic_limit`` bytes,
        and deterministic for other phases (dependent rounds count as one phase).
    coarsening : int
        Number of real packets merged into one simulated packet, with all their headers and
        payloads; a message with fewer is one packet. Buffers hold fewer merged than real packets,
        but at least three if they hold three real ones. With ``first_come``, a merged packet from a
        FIFO yields to others as often as its real packets would. Loads do not change; pipelining
        becomes coarser.
    error : float, optional
        Accepted relative error of the time, such as 0.03. The coarsening is halved until the time
        changes by much less than this three times in a row (six times after a jump), and also with
        larger buffers; or until packets are real. Cannot be combined with `coarsening`.
    iterations : int
        Number of times that all phases run. There is no barrier between iterations: a task begins
        the next one when it has handed over its messages and received the messages sent to it. The
        time is the mean of all iterations but the first, which begins on an idle network and is
        also simulated alone; see `Simulation.time`. Counters include all iterations.
    seed : int
        Seed of random choices: the direction at ties if the torus has a random tie rule; and, with
        datelines, the channel of packets that cross no dateline.
    interval : float, optional
        Seconds between the snapshots of `Simulation.series`; at most 100,000 snapshots and 2 GB.
    progress : callable, optional
        Called from time to time with "packets", the number of finished packet-hops, and the total.

    Notes
    -----
    A task prepares its messages one after the other, in cyclic order of their receivers from the
    next higher task on, and hands each to an injection FIFO. A FIFO sends one packet after the
    other. A router forwards a packet when its head has arrived (virtual cut-through) and the buffer
    after the next link has space; a packet from a slower link leaves no faster than it arrives. A
    packet's buffer space is free again when the packet begins to leave. With the bubble rule, a
    packet needs space for two packets to enter a ring, but only for one to stay on it, so a ring
    never fills up. With datelines there are two channels: one for packets that cross the edge of
    the ring, and one for packets that cross its middle; other packets take either.
    `docs/reference/simulator.md` has the full model with its sources.

    The first call on a machine compiles the simulator, which takes 10 to 15 seconds.

    A tick of the clock is at most 1/1024 of the time that a full packet takes on the fastest link.
    Ticks are longer only if a run would otherwise need more than 2**31 of them.

    Examples
    --------
    One packet: overhead + hops x latency + serialisation.

    >>> torus = Torus((8,))
    >>> result = simulate(CommGraph(2, [0], [1], [512]), torus, TaskMapping([0, 3], 8))
    >>> round(result.time * 1e9), 500 + 3 * 40 + 544 // 2
    (892, 892)
    """
    began = time.perf_counter()
    problem = as_problem(comm, torus, routing)
    mapping = problem.mapping(mapping)
    schedule = schedule_run(problem, iterations)
    check_routes(problem, mapping)
    coarsening = whole_number(coarsening, "coarsening", 1, 2**53)
    seed = seed_number(seed)
    if error is not None and coarsening != 1:
        raise InputError("both error and coarsening given", expected="one of them")
    if error is not None and not 0 < real_number(error, "error", 0) < 1:
        raise InputError("bad error", found=error, expected="more than 0, less than 1")
    if interval is not None and not real_number(interval, "interval", 0) > 0:
        raise InputError("bad interval", found=interval, expected="seconds, more than 0")
    report = progress_of(progress, "packets")

    def run(coarsening: int, min_places: int = PLACES) -> Simulation:
        """Simulate the run with one coarsening, preceded by the first iteration alone."""
        first_iteration = schedule.list_messages(schedule.first_iteration, mapping, coarsening)
        all_iterations = schedule.list_messages(schedule.all_iterations, mapping, coarsening)
        packets = PacketRun(schedule.problems, mapping, seed, None, report, min_places)
        if report is not None:
            simulated = (*first_iteration, *all_iterations)
            packets.total = sum(packet_hops(messages, problem.torus) for _, messages in simulated)
        before = schedule.run_in_turn(first_iteration, packets.run_stretch)
        packets.interval = interval
        spans = schedule.run_in_turn(all_iterations, packets.run_stretch)
        alone = before[-1].end if before else 0.0
        return Simulation(
            schedule.run, mapping, spans, coarsening, iterations=iterations, alone=alone
        )

    if error is None:
        return log_simulation(run(coarsening), "packets", began)
    network = problem.torus.network
    result, change = refine(
        error,
        longest=schedule.run.derive(max_message_packets),
        hops=packet_hops(list_messages(schedule.run, mapping), problem.torus),
        buffer_packets=network.buffer_packets,
        run=run,
        max_coarsening=LARGEST_PACKET // (network.payload + network.header),
    )
    return log_simulation(replace(result, error=error, change=change), "packets", began)
