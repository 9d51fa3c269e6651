"""Lower bounds of simulated times: the bounds of `routing.bounds` minus the clock's rounding.

They are valid for any routes of packets, for merged packets and for several iterations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping
from toruscast.routing.bounds import Bounds, MappingBounds, StretchBounds
from toruscast.routing.messages import Messages, packet_counts, prepare_edges, software_times

from .simulator import RunSchedule, schedule_run
from .state import LONGEST_WAIT, PARTS, busiest_node_seconds, choose_tick

# Relative rounding errors: of a sum in a different order, and of packet bytes in single precision.
_SUM_ROUNDING, _SINGLE_ROUNDING = 1e-9, 2.0**-24
# Rounding errors in a phase, in half ticks, in addition to those of its messages and hops. A FIFO
# or a reception port begins a packet in the tick in which the previous packet ended, and rounds the
# end of the packet.
_HALF_TICKS_PER_PHASE = 5
# A run restarts with longer ticks if a packet waits too long. These are the maximum wait, as a
# multiple of the busiest node's time, and the maximum number of restarts.
_MAX_WAIT_FACTOR, _MAX_HALVINGS = 256, 3


class ClockLoss(NamedTuple):
    """Maximum rounding of the clock for phases without a barrier."""

    # Relative loss on links and in FIFOs: half of a part of a tick for each packet.
    on_links: float
    at_ports: float  # relative loss at reception ports
    seconds: float  # half a tick for each event on a chain of messages
    keeps_order: bool  # whether edges become ready in the order of their exact times

    def reduce(self, seconds: float, share: float) -> float:
        """Return a bound in seconds minus the loss; ``share`` is one of the relative losses."""
        return max(0.0, seconds * (1 - share) - self.seconds)


def sure_bounds(
    bounds: MappingBounds, stretches: RunSchedule, coarsenings: Sequence[int]
) -> Bounds:
    """Return lower bounds of the end of a run that hold for each of the coarsenings.

    The link bound is an estimate if packets may choose their route. The total is always valid: it
    uses the release bound if routes follow the dimension order, and the cut bound if packets may
    choose.
    """
    bounds_of_problem: dict[int, Bounds] = {}
    sure: list[Bounds] = []
    end = 0.0
    for numbers in stretches.all_iterations:
        problem = stretches.problems[numbers]
        if id(problem) not in bounds_of_problem:
            bounds_of_problem[id(problem)] = _sure_stretch(bounds.stretch(problem), coarsenings)
        sure.append(bounds_of_problem[id(problem)])
        # Add in the same order as a simulation, to get the same rounding.
        if sure[-1].total:
            end = end + bounds.problem.torus.network.start + sure[-1].total
    return Bounds(*(sum(column) for column in zip(*sure, strict=True)))._replace(total=end)


def sure_mean(
    bounds: MappingBounds,
    iterations: int,
    coarsenings: Sequence[int],
    time_of_first: Callable[[int], float],
    *,
    is_of_one: bool,
) -> float:
    """Return a lower bound of the mean time of all iterations but the first; 0 if none is known.

    ``time_of_first`` takes a coarsening and returns the simulated seconds of the first iteration
    alone. With random routes, these seconds depend on the seed, so the bound uses only the
    stretches that begin after the first iteration. With ``is_of_one``, the bound uses these seconds
    anyway, but holds only for the simulation in which they are the same.
    """
    stretches = schedule_run(bounds.problem, iterations)
    torus, n_phases = bounds.problem.torus, len(bounds.problem.workload)
    draws = torus.draws_ways and not is_of_one
    if draws:
        later = [numbers for numbers in stretches.all_iterations if numbers[0] >= n_phases]
        if not later:
            return 0.0
        stretches = stretches._replace(all_iterations=later)
    means = []
    for coarsening in coarsenings:
        with suppress(InputError):
            # As in `Simulation.time`.
            first = 0.0 if draws else time_of_first(coarsening)
            total = sure_bounds(bounds, stretches, [coarsening]).total
            # The simulated sum also includes the first iteration, so its rounding differs.
            total *= 1 - _SUM_ROUNDING * draws
            means.append((total - first) / (iterations - 1))
    return max(0.0, min(means, default=0.0))


def _sure_stretch(bounds: StretchBounds, coarsenings: Sequence[int]) -> Bounds:
    """Return lower bounds of phases without a barrier; the bounds hold for all coarsenings.

    Each is the minimum of the exact bound and, for each coarsening, the exact bound minus the
    clock's rounding.
    """
    exact, links, release = bounds.resources, bounds.sure_link, bounds.sure_release
    candidates = [exact._replace(total=max(links, *exact[1:4], release))]
    for coarsening in coarsenings:
        loss = clock_loss(bounds.problem, bounds.mapping, coarsening)
        if loss is not None:
            spans = (exact.link, exact.injection, exact.latency, links, release)
            link, injection, latency, link_sure, released = (
                loss.reduce(seconds, loss.on_links) for seconds in spans
            )
            reception = loss.reduce(exact.reception, loss.at_ports)
            total = max(link_sure, injection, reception, latency, released * loss.keeps_order)
            candidates.append(Bounds(link, injection, reception, latency, total))
    return Bounds(*np.min(candidates, axis=0).tolist())


def clock_loss(problem: MappingProblem, mapping: TaskMapping, coarsening: int) -> ClockLoss | None:
    """Return the clock's rounding for phases without a barrier; None if beyond its range.

    Each event on a chain of messages rounds a time by at most half a tick. Each packet on a link
    rounds its time by at most half a part (a tick has 2**PARTS parts).
    """
    comm, torus, network = problem.unrolled.comm, problem.torus, problem.torus.network
    node = problem.placed(mapping).node
    src, dst = node[comm.src], node[comm.dst]
    packets, wire = packet_counts(problem, coarsening)
    # `choose_tick` reads only these columns.
    columns: dict[str, Any] = dict.fromkeys(Messages._fields)
    columns |= {"src": src, "dst": dst, "nbytes": comm.nbytes, "packets": packets, "wire": wire}
    messages = Messages(**columns | {"software": software_times(comm, network)})
    try:
        tick, _ = choose_tick(messages, torus)
    except InputError:
        return None
    if _MAX_WAIT_FACTOR * busiest_node_seconds(messages, torus) >= LONGEST_WAIT * tick:
        tick *= 2**_MAX_HALVINGS
    smallest = float(wire.min(where=(src != dst) & (wire > 0), initial=math.inf))
    half_part = tick / 2 ** (PARTS + 1) / smallest
    n_handed_over = sum(_max_edges_of_task(phase) for phase in problem.workload)
    n_phases = len(problem.workload)
    n_events = n_handed_over + n_phases * (torus.diameter + _HALF_TICKS_PER_PHASE)
    rounding = _SUM_ROUNDING + _SINGLE_ROUNDING
    return ClockLoss(
        on_links=rounding + half_part * max(torus.bandwidth),
        at_ports=rounding + half_part * network.memory_bandwidth / network.reception_ports,
        seconds=n_events * tick / 2,
        keeps_order=n_phases == 1 and _keeps_order(problem.phases[0], tick),
    )


def _max_edges_of_task(phase: CommGraph) -> int:
    """Return the maximum number of edges that leave the same task."""
    return int(np.diff(phase.first).max(initial=0))


def _keeps_order(problem: MappingProblem, tick: float) -> bool:
    """Return whether distinct hand-over times are further apart than the rounding of ticks."""
    comm = problem.comm
    software = software_times(comm, problem.torus.network)
    if (software == software[:1]).all():
        return True
    ready = prepare_edges(problem).queue.ready
    gaps = np.diff(ready)
    is_distinct = gaps > _SUM_ROUNDING * ready[1:]
    return bool((gaps[is_distinct] > _max_edges_of_task(comm) * tick).all())
