"""Bounds that no simulation falls below: those of `routing.bounds`, less what its clock rounds off.

They hold whichever way packets choose, for merged packets and for several iterations.
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
from toruscast.routing.messages import Messages, packet_counts, prepare, software_times

from .simulator import Stretches, stretches_of
from .state import LONGEST_WAIT, PARTS, carrying, clock_of

# Sums of floating-point numbers in another order differ by less than this part of them; packets
# keep their bytes in single precision.
SUMS, _SINGLE = 1e-9, 2.0**-24
# Half ticks a phase besides its messages and hops: a FIFO and a reception port begin a packet in
# the tick in which the last one ends, and the end of a packet is rounded.
_A_PHASE = 5
# A run begins again with longer ticks if a packet waited for too many. No packet waits for so many
# times what the busiest node needs, and no run begins again more often.
_LONGER_THAN_A_NODE, _HALVED = 256, 3


class ClockLoss(NamedTuple):
    """What a simulation of phases without a barrier may end before their exact bounds."""

    on_links: float
    """Part of the time of links and FIFOs: half of a part of a tick for each packet."""
    at_ports: float
    """The same for reception ports."""
    seconds: float
    """Half a tick for each event on a chain of messages."""
    keeps_order: bool
    """Whether edges become ready in the order that they have without ticks."""

    def off(self, seconds: float, share: float) -> float:
        """Return a bound less what the clock loses, with one of the shares."""
        return max(0.0, seconds * (1 - share) - self.seconds)


def sure_bounds(bounds: MappingBounds, stretches: Stretches, coarsenings: Sequence[int]) -> Bounds:
    """Return bounds of the end of a run, with so many real packets in a simulated one.

    That of the links is an estimate where routes are open. The total is sure: it has the release
    bound in dimension order, and what the cuts of the torus need where routes are open.
    """
    problems = [stretches.problems[numbers] for numbers in stretches.together]
    each = {id(problem): problem for problem in problems}
    known = {
        key: _sure_stretch(bounds.stretch(problem), coarsenings) for key, problem in each.items()
    }
    found = [known[id(problem)] for problem in problems]
    link, injection, reception, latency, totals = zip(*found, strict=True)
    end = 0.0
    for total in totals:
        # Added as a simulation does, which rounds alike.
        if total:
            end = end + bounds.problem.torus.network.start + total
    return Bounds(sum(link), sum(injection), sum(reception), sum(latency), end)


def sure_mean(
    bounds: MappingBounds,
    iterations: int,
    coarsenings: Sequence[int],
    time_of_first: Callable[[int], float],
    *,
    is_of_one: bool,
) -> float:
    """Return a bound of the mean time of all iterations but the first; 0 if there is none.

    ``time_of_first`` returns the simulated seconds of the first iteration alone, with so many real
    packets in one. Where packets draw, those of another seed may be more. Unless the bound
    ``is_of_one`` simulation with those seconds, it then is that of the stretches that begin after
    the first iteration has ended.
    """
    stretches = stretches_of(bounds.problem, iterations)
    torus, n_phases = bounds.problem.torus, len(bounds.problem.workload)
    draws = torus.draws_ways and not is_of_one
    if draws:
        later = tuple(numbers for numbers in stretches.together if numbers[0] >= n_phases)
        if not later:
            return 0.0
        stretches = stretches._replace(together=later)
    found = []
    for merged in coarsenings:
        with suppress(InputError):
            # As `Simulation.time` is worked out.
            alone = 0.0 if draws else time_of_first(merged)
            total = sure_bounds(bounds, stretches, [merged]).total
            # The run adds the first iteration too, which rounds.
            total *= 1 - SUMS * draws
            found.append((total - alone) / (iterations - 1))
    return max(0.0, min(found, default=0.0))


def _sure_stretch(bounds: StretchBounds, coarsenings: Sequence[int]) -> Bounds:
    """Return the bounds of phases without a barrier, of any simulation that they may get."""
    exact, links, release = bounds.resources, bounds.certain_links, bounds.certain_release
    found = [exact._replace(total=max(links, *exact[1:4], release))]
    for each in coarsenings:
        loss = clock_loss(bounds.routes.problem, bounds.routes.mapping, each)
        if loss is not None:
            spans = (exact.link, exact.injection, exact.latency, links, release)
            link, injection, latency, working, released = (
                loss.off(seconds, loss.on_links) for seconds in spans
            )
            reception = loss.off(exact.reception, loss.at_ports)
            total = max(working, injection, reception, latency, released * loss.keeps_order)
            found.append(Bounds(link, injection, reception, latency, total))
    return Bounds(*map(min, zip(*found, strict=True)))


def clock_loss(problem: MappingProblem, mapping: TaskMapping, coarsening: int) -> ClockLoss | None:
    """Return what the clock of phases without a barrier may lose; None if it cannot count them."""
    comm, torus, network = problem.unrolled.comm, problem.torus, problem.torus.network
    node = problem.placed(mapping).node
    src, dst = node[comm.src], node[comm.dst]
    packets, wire = packet_counts(problem, coarsening)
    # The clock reads these columns only.
    columns: dict[str, Any] = dict.fromkeys(Messages._fields)
    columns |= {"src": src, "dst": dst, "nbytes": comm.nbytes, "packets": packets, "wire": wire}
    messages = Messages(**columns | {"software": software_times(comm, network)})
    try:
        tick, _ = clock_of(messages, torus)
    except InputError:
        return None
    if _LONGER_THAN_A_NODE * carrying(messages, torus) >= LONGEST_WAIT * tick:
        tick *= 2**_HALVED
    smallest = float(wire.min(where=(src != dst) & (wire > 0), initial=math.inf))
    half_part = tick / 2 ** (PARTS + 1) / smallest
    n_handed_over = sum(_most_of_a_task(phase) for phase in problem.workload)
    n_phases = len(problem.workload)
    n_events = n_handed_over + n_phases * (torus.diameter + _A_PHASE)
    return ClockLoss(
        SUMS + _SINGLE + half_part * max(torus.bandwidth),
        SUMS + _SINGLE + half_part * network.memory_bandwidth / network.reception_ports,
        n_events * tick / 2,
        n_phases == 1 and _keeps_order(problem.phases[0], tick),
    )


def _most_of_a_task(phase: CommGraph) -> int:
    """Return the most edges of a task."""
    return int(np.diff(phase.first).max(initial=0))


def _keeps_order(problem: MappingProblem, tick: float) -> bool:
    """Whether hand-over times that differ are further apart than ticks may move them."""
    comm = problem.comm
    software = software_times(comm, problem.torus.network)
    if (software == software[:1]).all():
        return True
    ready = prepare(problem).queue.ready
    apart = np.diff(ready)
    differ = apart > SUMS * ready[1:]
    return bool((apart[differ] > _most_of_a_task(comm) * tick).all())
