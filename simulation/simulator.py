"""Level 2: the packet simulator, its iterations, and how long its packets are."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, Torus, Workload
from toruscast.mapping.problem import as_problem
from toruscast.routing.loads import check_ways
from toruscast.routing.messages import Messages, list_messages, longest_message
from toruscast.validation import (
    SEED,
    Progress,
    Routing,
    Seed,
    check_call,
    progress_of,
    real_number,
    seed_number,
    whole_number,
)

from . import state as records
from .loop_kernels import run as run_events
from .loop_kernels import start
from .results import Simulation, Snapshot, Span, Stretch, noted
from .setup import build_state
from .state import BETWEEN_LOOKS, LARGEST_PACKET, PLACES, waits_too_long

if TYPE_CHECKING:
    from toruscast.mapping.problem import MappingLike, ProblemLike, TorusLike

Listed = list[tuple[tuple[int, ...], Messages]]
S = TypeVar("S", bound=Span)

# Each iteration is a phase at least, and holds messages of its own.
_MOST = 100_000


class Stretches(NamedTuple):
    """Phases of a run of several iterations, those together that no barrier separates."""

    run: MappingProblem
    """The phases once for each iteration."""
    first: tuple[tuple[int, ...], ...]
    """Phases of the first of several iterations, as if no other followed."""
    together: tuple[tuple[int, ...], ...]
    """Phases of the run. The last of an iteration and the first of the next are together."""
    problems: Mapping[tuple[int, ...], MappingProblem]
    """The problem of each of them; equal ones share one."""

    def list_messages(self, mapping: TaskMapping, coarsening: int = 1) -> tuple[Listed, Listed]:
        """Return the messages of each stretch, of the first iteration and of the run."""
        first, together = (
            [(part, list_messages(self.problems[part], mapping, coarsening)) for part in several]
            for several in (self.first, self.together)
        )
        return first, together

    def run_in_turn(
        self, listed: Listed, run: Callable[[tuple[int, ...], Messages, float], S]
    ) -> tuple[S, ...]:
        """Run stretches one after the other, each from the end of the one before."""
        done: list[S] = []
        for numbers, messages in listed:
            begin = done[-1].end if done else 0.0
            if messages.task.size:
                begin += self.run.torus.network.start
            done.append(run(numbers, messages, begin))
        return tuple(done)


def stretches_of(problem: MappingProblem, iterations: int = 1) -> Stretches:
    """Return the stretches of a run between barriers; several iterations are kept with it."""
    iterations = whole_number(iterations, "iterations", 1, _MOST)
    # One iteration holds the problem itself, which is not kept in itself.
    return (
        _stretches_of(problem, 1) if iterations == 1 else problem.derive(_stretches_of, iterations)
    )


def _stretches_of(problem: MappingProblem, iterations: int) -> Stretches:
    workload, run = problem.workload, problem
    each = len(workload)
    first: list[tuple[int, ...]] = []
    if iterations > 1:
        # A single phase has no barrier at all, so that all are rounds.
        dependent = workload.dependent or each == 1
        phases = tuple(workload.phases) * iterations
        repeated = replace(workload, phases=phases, dependent=dependent)
        run = MappingProblem(repeated, problem.torus, problem.routing)
        first = [tuple(range(each))] if workload.dependent else [(phase,) for phase in range(each)]
    parts: list[tuple[int, ...]] = []
    if run.workload.dependent:
        parts.append(tuple(range(len(run.workload))))
    else:
        for phase in range(len(run.workload)):
            if phase and phase % each == 0:
                parts[-1] += (phase,)
            else:
                parts.append((phase,))
    made: dict[tuple[int, ...], MappingProblem] = {}
    problems = {}
    for numbers in (*first, *parts):
        key = tuple(id(run.workload.phases[i]) for i in numbers)
        if key not in made:
            made[key] = _part_of(run, numbers)
        problems[numbers] = made[key]
    return Stretches(run, tuple(first), tuple(parts), problems)


def _part_of(problem: MappingProblem, numbers: tuple[int, ...]) -> MappingProblem:
    """Return the phases of these numbers, which no barrier separates."""
    if len(numbers) == 1:
        return problem.phases[numbers[0]]
    if len(numbers) == len(problem.workload):
        return problem
    phases = [problem.workload.phases[i] for i in numbers]
    return MappingProblem(Workload(phases, dependent=True), problem.torus, problem.routing)


# Packet-hops between two calls of `progress`, and between two looks for Ctrl-C: about a tenth of a
# second.
_SLICE = 2**20
_NEVER = 2**62
# Difference of the seeds of two phases; such seeds are far from those that people choose.
SEED_STEP = 0x1E3779B97F4A7C15
# Most snapshots, and most bytes that they may take together.
_MOST_SNAPSHOTS = 100_000
_MOST_SNAPSHOT_BYTES = 2 * 10**9
# Approximate bytes of a snapshot.
_SNAPSHOT_BYTES, _BYTES_A_LINK = 1000, 12


def packet_hops(messages: Messages, torus: Torus) -> int:
    """Return the hops of all packets, including questions and answers."""
    hops = torus.distance(messages.src, messages.dst)
    # A question and its answer are a packet each.
    return int((messages.packets * hops).sum() + 2 * hops[messages.asks].sum())


@dataclass
class PacketRun:
    """Options of a simulation with packets of one length, and how far it is."""

    problems: Mapping[tuple[int, ...], MappingProblem]  # of each stretch
    mapping: TaskMapping
    seed: int
    interval: float | None
    progress: Callable[[int, int], object] | None
    places: int
    total: int = 0  # packet-hops of all stretches
    before: int = 0  # those of the stretches that are done
    told: int = 0
    n_snapshots: int = 0

    def report(self, done: int) -> None:
        """Report how many packet-hops of this stretch are done."""
        if self.progress is not None:
            # Progress does not go back if a stretch starts again.
            self.told = max(self.told, min(self.before + done, self.total))
            self.progress(self.told, self.total)

    def run_stretch(self, numbers: tuple[int, ...], messages: Messages, begin: float) -> Stretch:
        """Simulate phases that no barrier separates, of these numbers in the run."""
        problem = self.problems[numbers]
        # Random draws differ after each barrier.
        seed = (self.seed + numbers[0] * SEED_STEP) % 2**63
        snapshots = None
        halved = 0
        while snapshots is None:
            state, tick = build_state(
                messages,
                len(numbers),
                problem.torus,
                self.mapping,
                problem.phases[0].routing,
                seed=seed,
                places=self.places,
                looked_at=self.interval is not None,
                halved=halved,
            )
            snapshots = self._pass(state, tick, begin, max_snapshots(problem.torus))
            halved += 1
        if state.packets.receipt["left"].any():
            raise RuntimeError("packets are left that no event moves")
        n, counter, packets = messages.task.size, state.links.counter, state.packets
        finish = packets.receipt["finish"][:n] * tick
        last = float(finish.max(initial=0.0))
        if self.interval is not None:
            snapshots.append(_snapshot(state, last, begin))
        hops = int(state.events.clock[records.HOPS])
        self.report(hops)
        self.before += hops
        return Stretch(
            phases=numbers,
            begin=begin,
            end=begin + last,
            messages=messages,
            handed_over=begin + packets.message["ready"][state.rounds.first] * tick,
            arrived=np.asarray(begin + finish, dtype=np.float64),
            packets=counter["packets"].astype(np.int64),
            wire_bytes=counter["wire_bytes"].copy(),
            most=counter["most"].astype(np.int64),
            waited=counter["waited"] * tick,
            fifo_waited=_by_queue(packets.fifo["waited"] * tick, state.rules.shared_by),
            fifo_most=packets.filling["most"].copy(),
            fifo_stay=packets.filling["stay"] * tick,
            snapshots=tuple(snapshots),
        )

    def _pass(
        self, state: records.State, tick: float, begin: float, kept: int
    ) -> list[Snapshot] | None:
        """Run to the end; return the snapshots, or None if a packet waits too long."""
        start(state)
        snapshots: list[Snapshot] = []
        every = _NEVER
        if self.interval is not None:
            every = round(min(max(1.0, self.interval / tick), _NEVER))
        snapshot = every
        look = BETWEEN_LOOKS
        taken = self.n_snapshots
        while run_events(state, min(snapshot, look), _SLICE):
            self.report(int(state.events.clock[records.HOPS]))
            following = int(state.events.clock[records.HELD])
            if following > look:
                if waits_too_long(state, look):
                    self.n_snapshots = taken
                    return None
                # If nothing happens, nothing waits.
                look = following + BETWEEN_LOOKS
            if following > snapshot:
                self.n_snapshots += 1
                if self.n_snapshots > kept:
                    raise InputError(
                        "interval too short: too many snapshots",
                        found=f"{every * tick:.3g} s",
                        expected=f"at most {kept} of them in a run",
                    )
                snapshots.append(_snapshot(state, snapshot * tick, begin))
                snapshot = min(snapshot + every, _NEVER)
        return snapshots


def _by_queue(values: NDArray[np.float64], shared_by: int) -> NDArray[np.float64]:
    """Return the sum over the FIFOs of one queue, at the first of them."""
    sums = np.zeros_like(values)
    sums[::shared_by] = values.reshape(-1, shared_by).sum(axis=1)
    return sums


def max_snapshots(torus: Torus) -> int:
    """Return the most snapshots that a run keeps."""
    each = _SNAPSHOT_BYTES + _BYTES_A_LINK * torus.n_links
    return min(_MOST_SNAPSHOTS, _MOST_SNAPSHOT_BYTES // each)


def _snapshot(state: records.State, now: float, begin: float) -> Snapshot:
    counter = state.links.counter
    return Snapshot(begin + now, counter["wire_bytes"].copy(), state.links.link["occupied"].copy())


# Part of the accepted error by which the time may change when packets are halved once more. Half
# would be enough if errors fell evenly, but they do not in a full network
# (docs/reference/simulator-cost.md). With an eighth, twice in a row, one mapping of fifty was 15 %
# off.
_STEP = 1 / 16
# How often in a row; once or twice may be chance.
_TIMES = 3
# From here on, two more steps cost about as much as real packets, which are certain.
_NEARLY_REAL = 8
# Fewer packet-hops take less than a second, so nothing is merged.
_CHEAP = 2**22
# Packets of the longest message in the first, coarsest attempt. Fewer would fit into the buffers on
# its way; the time would then change little for several steps, far from the true one.
_FEWEST = 64
# With fewer places than this, the time must be nearly the same as with this many. With eight, one
# mapping was 20 % off that was right with sixteen.
_MANY = 16
# Part of the accepted error by which the time may differ then.
_ROOM = 1 / 8


def attempts(longest: int, most: float = math.inf) -> list[int]:
    """Return the numbers of real packets in one that `refine` may simulate, the largest first.

    ``longest`` is the number of packets of the longest message, ``most`` that in one at most.
    """
    coarsening = 2 ** int(math.log2(max(1, min(longest / _FEWEST, most))))
    if coarsening <= _NEARLY_REAL:
        return [1]
    return [2**k for k in range(coarsening.bit_length() - 1, -1, -1)]


def refine(
    error: float,
    longest: int,
    hops: int,
    depth: int,
    run: Callable[[int, int], Simulation],
    most: float = math.inf,
) -> tuple[Simulation, float]:
    """Simulate with shorter and shorter packets until the time changes little, three times running.

    After a change by more than the error it must be six times, because such a network may change
    abruptly. In a full network the places behind links decide the time, which then does not change
    while packets are halved: with few places, it must stay nearly the same with many.
    """
    coarsening = 1 if hops < _CHEAP else attempts(longest, most)[0]
    result = run(coarsening, PLACES)
    change = math.inf
    calm = 0
    while coarsening > 1 and calm < _TIMES:
        coarsening = 1 if calm <= 0 and coarsening <= _NEARLY_REAL else coarsening // 2
        finer = run(coarsening, PLACES)
        change = _change(result, finer)
        if change <= error * _STEP:
            calm += 1
        else:
            # A negative count asks for as many more small changes.
            calm = 0 if change <= error else -_TIMES
        result = finer
        few = coarsening > 1 and depth / coarsening < _MANY
        if calm == _TIMES and few and _change(run(coarsening, _MANY), finer) > error * _ROOM:
            calm = 0
    return result, 0.0 if coarsening == 1 else change


def _change(before: Simulation, after: Simulation) -> float:
    """Return the relative change of the time; 0 if the time is 0."""
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
    """Send the messages of each phase packet by packet and count what links and FIFOs see.

    Parameters
    ----------
    comm : Workload, CommGraph, or what `MappingProblem` takes, or such a problem
        Phases run one after the other, with a barrier between them. Those of a workload with
        ``dependent=True`` are rounds: each task enters a round when it has finished the one before.
        An edge sends its bytes in `CommGraph.whole_messages`, spread evenly over their packets; an
        edge of half a message or less sends nothing.
    torus : Torus, str or sequence of int
        The constants are those of ``torus.network``.
    mapping : TaskMapping or array-like of int
        Where the tasks run; an array holds the node of each.
    routing : {"deterministic", "adaptive", "by_size"}
        Dimension order. Or minimal adaptive: a packet takes the emptiest productive output of its
        zone, and falls back to dimension order. Or the second for phases whose longest message has
        more than ``torus.network.deterministic_limit`` bytes, and the first for the others
        (dependent rounds are one phase here).
    coarsening : int
        Real packets that one simulated packet carries, with header and payload of each; a shorter
        message is one packet. Buffers hold fewer of the longer packets, but at least three if they
        held as many real ones. With ``first_come``, a longer packet of a FIFO lets others go first
        as often as the real packets would. Loads do not change; pipelining becomes coarser.
    error : float, optional
        Accepted relative error of the time, such as 0.03. Packets are halved until the time changes
        by much less, three times in a row (six after a jump) and with more room behind the links,
        or until they are real ones. Not together with `coarsening`.
    iterations : int
        How many times all phases are run. No barrier stands between two iterations: a task begins
        the next when it has handed over its messages, and all that are sent to it have arrived. The
        time is then the mean of all but the first, which begins on an idle network and is simulated
        once more alone; see `Simulation.time`. The result counts the phases of all iterations.
    seed : int
        Seed of random choices: the way round at ties if the torus has that rule, and with datelines
        the channel of packets that cross none.
    interval : float, optional
        Seconds between the snapshots that `Simulation.series` shows: at most 100,000 of them and
        2 GB.
    progress : callable, optional
        Called from time to time with "packets", the packet-hops done and those of the whole run.

    Notes
    -----
    A task prepares its messages one after the other, starting with its next higher partner and
    going round, and hands each to an injection FIFO. A FIFO sends one packet after the other. A
    router forwards a packet when its head has arrived (virtual cut-through) and the buffer behind
    the next link has room; a packet from a slower link goes on no faster than it comes. A place is
    free again when its packet begins to leave. With the bubble rule, entering a ring takes two free
    places and staying on it one, so that a ring never fills up. With datelines there are two
    channels: one for packets that cross the ring's edge, one for packets that cross its middle;
    other packets take either. `docs/reference/simulator.md` has the model in full, with its
    sources.

    The first call on a machine compiles the simulator, which takes 10 to 15 seconds.

    Time runs in ticks of at most 1/1024 of a full packet's time on the fastest link. Ticks are
    longer if the run would take more than 2**31 of them.

    Examples
    --------
    One packet: overhead + hops x latency + serialisation.

    >>> torus = Torus((8,))
    >>> result = simulate(CommGraph(2, [0], [1], [512]), torus, TaskMapping([0, 3], 8))
    >>> round(result.time * 1e9), 500 + 3 * 40 + 544 // 2
    (892, 892)
    """
    problem = as_problem(comm, torus, routing)
    return simulate_packets(
        problem,
        problem.mapping(mapping),
        coarsening=coarsening,
        error=error,
        iterations=iterations,
        seed=seed_number(seed),
        interval=interval,
        progress=progress_of(progress, "packets"),
    )


def simulate_packets(
    problem: MappingProblem,
    mapping: TaskMapping,
    *,
    coarsening: int = 1,
    error: float | None = None,
    iterations: int = 1,
    seed: int = SEED,
    interval: float | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Simulation:
    """Simulate a problem under a checked mapping, as `simulate`."""
    began = time.perf_counter()
    stretches = stretches_of(problem, iterations)
    check_ways(problem, mapping)
    coarsening = whole_number(coarsening, "coarsening", 1, 2**53)
    seed = seed_number(seed)
    if error is not None and coarsening != 1:
        raise InputError("both error and coarsening given", expected="one of them")
    if error is not None and not 0 < real_number(error, "error", 0) < 1:
        raise InputError("bad error", found=error, expected="more than 0, less than 1")
    if interval is not None and not real_number(interval, "interval", 0) > 0:
        raise InputError("bad interval", found=interval, expected="seconds, more than 0")
    check_call(progress)

    def run(coarsening: int, places: int = PLACES) -> Simulation:
        first, together = stretches.list_messages(mapping, coarsening)
        packets = PacketRun(stretches.problems, mapping, seed, None, progress, places)
        if progress is not None:
            packets.total = sum(packet_hops(each, problem.torus) for _, each in (*first, *together))
        before = stretches.run_in_turn(first, packets.run_stretch)
        packets.interval = interval
        done = stretches.run_in_turn(together, packets.run_stretch)
        alone = before[-1].end if before else 0.0
        return Simulation(
            stretches.run, mapping, done, coarsening, iterations=iterations, alone=alone
        )

    if error is None:
        return noted(run(coarsening), "packets", began)
    network = problem.torus.network
    result, change = refine(
        error,
        stretches.run.derive(longest_message),
        packet_hops(list_messages(stretches.run, mapping), problem.torus),
        network.buffer_packets,
        run,
        LARGEST_PACKET // (network.payload + network.header),
    )
    return noted(replace(result, error=error, change=change), "packets", began)
