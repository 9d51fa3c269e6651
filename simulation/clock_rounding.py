"""How much sooner than a lower bound a simulation may end, because its clock has ticks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload
from toruscast.routing.edges import prepare
from toruscast.routing.messages import Messages
from toruscast.routing.packets import packet_counts, software_times
from toruscast.routing.route_kernels import take_turns

from ._clock import _LONGEST_WAIT, carrying, clock_of
from ._state import PARTS

Floats = NDArray[np.float64]
# Sums of floating-point numbers in another order differ by less than this part of them.
SUMS = 1e-9
# Ticks by which the end of a packet is rounded, and those that are lost at most on its way: a FIFO
# and a reception port begin a packet in the tick in which the last one ends.
_AT_THE_END = 0.5
_ON_THE_WAY = 2.0
# A run begins again with longer ticks if a packet waited for too many, but no packet waits for
# longer than all take one after the other, nor for so many times what the busiest node needs.
_HALVED = 3
_LONGER_THAN_A_NODE = 256
_MOST_KEPT = 8
_KEPT: WeakKeyDictionary[CommGraph, dict[object, Rounding]] = WeakKeyDictionary()


class Rounding(NamedTuple):
    """What ticks change about the messages of phases, whichever mapping places them."""

    share: float
    """Part by which links, FIFOs and reception ports may work less long."""
    software: float
    """Seconds by which messages may be handed over earlier, summed over the phases."""
    ready: Floats
    """Seconds at which each edge is handed over, in whole ticks."""
    in_order: bool
    """Whether edges become ready in the order that they have without ticks."""


class ClockRounding(NamedTuple):
    """The clock of a stretch of one or more phases without a barrier between them."""

    tick: float
    n_phases: int
    rounding: Rounding
    hops: float
    """Seconds by which a message may cross the network earlier."""

    def after(self, working: float, arriving: float, *, in_ticks: bool = False) -> float:
        """Return seconds before which the simulation does not end.

        ``working`` is the time of the busiest link, ``arriving`` that of a chain of messages, or of
        FIFOs and reception ports. In the latter, software and hops count ``in_ticks`` already if
        they were found so.
        """
        share = self.rounding.share + SUMS
        lost = _ON_THE_WAY * self.tick * self.n_phases
        if not in_ticks:
            lost += self.rounding.software + self.hops * self.n_phases
        least = max(working * (1 - share) - _AT_THE_END * self.tick, arriving * (1 - share) - lost)
        # A simulation ends with a tick.
        return max(0, math.ceil(least / self.tick)) * self.tick


def clock_roundings(
    together: Workload,
    torus: Torus,
    mapping: TaskMapping,
    coarsening: int,
) -> list[ClockRounding]:
    """Return how the clock of phases without a barrier rounds; several where it may begin again.

    None are returned where the clock cannot count it: then nothing is simulated.
    """
    comm = together.unrolled.comm
    node = together.unrolled.placed(mapping).node
    packets, wire = packet_counts(comm, torus, coarsening)
    # Of messages, all that the clock looks at.
    columns: dict[str, Any] = dict.fromkeys(Messages._fields)
    columns |= {"src": node[comm.src], "dst": node[comm.dst], "nbytes": comm.nbytes}
    columns |= {"packets": packets, "wire": wire, "software": software_times(comm, torus.network)}
    every = Messages(**columns)
    crosses = (every.src != every.dst) & (every.packets > 0)
    smallest = float(every.wire.min(where=crosses, initial=math.inf))
    found: list[ClockRounding] = []
    for halved in range(1 + _HALVED):
        try:
            tick, _ = clock_of(every, torus, halved)
        except InputError:
            break
        rounded = _rounding(together, torus, wire, tick, smallest)
        latency = torus.network.hop_latency
        early = max(0.0, latency - round(latency / tick) * tick)
        found.append(ClockRounding(tick, len(together), rounded, early * torus.diameter))
        if _longest_wait(every, torus) < _LONGEST_WAIT * tick:
            break
    return found


def _longest_wait(messages: Messages, torus: Torus) -> float:
    """Seconds that no packet waits longer than."""
    slowest = min(float(torus.link_bandwidth.min()), torus.network.memory_bandwidth)
    work = float((messages.packets * messages.wire).sum()) / slowest
    on_way = float(messages.packets.sum()) * torus.diameter * torus.network.hop_latency
    return min(work * torus.diameter + on_way, _LONGER_THAN_A_NODE * carrying(messages, torus))


def _rounding(
    together: Workload, torus: Torus, wire: Floats, tick: float, smallest: float
) -> Rounding:
    """Return what ticks change about phases; it is kept with their graph, for a few clocks."""
    key = (torus.network, torus.bandwidth, torus.holes, tick, smallest)
    kept = _KEPT.setdefault(together.unrolled.comm, {})
    found = kept.get(key)
    if found is None:
        found = _round(together, torus, wire, tick, smallest)
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[key] = found
    return found


def _round(
    together: Workload, torus: Torus, wire: Floats, tick: float, smallest: float
) -> Rounding:
    comm, network = together.unrolled.comm, torus.network
    # A message without a byte may be a packet without one.
    sent = wire[wire >= max(smallest, np.finfo(float).tiny)]
    share = 0.0
    slow = [bandwidth for _, bandwidth in torus.holes.slow]
    for bandwidth in {*torus.bandwidth, *slow, network.memory_bandwidth / network.reception_ports}:
        exact = sent * (2**PARTS / tick / bandwidth)
        # As the kernels do.
        counted = np.floor(sent.astype(np.float32) * (2**PARTS / tick / bandwidth) + 0.5)
        share = max(share, float((1 - counted / exact).max(initial=0.0)))
    exact_ready = prepare(comm, torus).edges.ready
    order = np.empty(comm.n_edges, dtype=np.int64)
    ready = np.empty(comm.n_edges)
    whole = np.rint(software_times(comm, network) / tick)
    take_turns(comm.first, comm.dst, whole, order, ready)
    ready *= tick
    goes = wire > 0
    earlier = np.zeros(len(together))
    np.maximum.at(earlier, together.unrolled.phase[goes], (exact_ready - ready)[goes])
    in_order = _same_order(exact_ready[goes], ready[goes])
    return Rounding(share, float(earlier.sum()), ready, in_order)


def _same_order(exact: Floats, ticked: Floats) -> bool:
    """Whether numbers that differ are in the same order in ticks, and differ there."""
    order = np.argsort(exact, kind="stable")
    before, now = exact[order][:-1], exact[order][1:]
    highest = np.maximum.accumulate(ticked[order])[:-1]
    least = np.minimum.accumulate(ticked[order][::-1])[::-1][1:]
    differ = now > before * (1 + SUMS)
    return bool((least > highest)[differ].all())
