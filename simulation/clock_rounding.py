"""How much sooner than a lower bound a simulation may end, because its clock has ticks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload
from toruscast.routing.edges import prepare
from toruscast.routing.messages import Messages
from toruscast.routing.packets import packet_counts, software_times

from ._clock import _LONGEST_WAIT, carrying, clock_of
from ._state import PARTS

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


def clock_loss(
    together: Workload, torus: Torus, mapping: TaskMapping, coarsening: int
) -> ClockLoss | None:
    """Return what the clock of phases without a barrier may lose; None if it cannot count them."""
    comm, network = together.unrolled.comm, torus.network
    node = together.unrolled.placed(mapping).node
    src, dst = node[comm.src], node[comm.dst]
    packets, wire = packet_counts(comm, torus, coarsening)
    # Of messages, all that the clock looks at.
    columns: dict[str, Any] = dict.fromkeys(Messages._fields)
    columns |= {"src": src, "dst": dst, "nbytes": comm.nbytes, "packets": packets, "wire": wire}
    messages = Messages(**columns | {"software": software_times(comm, network)})
    try:
        tick, _ = clock_of(messages, torus)
    except InputError:
        return None
    if _LONGER_THAN_A_NODE * carrying(messages, torus) >= _LONGEST_WAIT * tick:
        tick *= 2**_HALVED
    smallest = float(wire.min(where=(src != dst) & (wire > 0), initial=math.inf))
    half_part = tick / 2 ** (PARTS + 1) / smallest
    n_handed_over = sum(_most_of_a_task(phase) for phase in together)
    n_events = n_handed_over + len(together) * (torus.diameter + _A_PHASE)
    return ClockLoss(
        SUMS + _SINGLE + half_part * max(torus.bandwidth),
        SUMS + _SINGLE + half_part * network.memory_bandwidth / network.reception_ports,
        n_events * tick / 2,
        len(together) == 1 and _keeps_order(comm, torus, tick),
    )


def _most_of_a_task(phase: CommGraph) -> int:
    """Return the most edges of a task."""
    return int(np.diff(phase.first).max(initial=0))


def _keeps_order(comm: CommGraph, torus: Torus, tick: float) -> bool:
    """Whether hand-over times that differ are further apart than ticks may move them."""
    software = software_times(comm, torus.network)
    if (software == software[:1]).all():
        return True
    ready = prepare(comm, torus).queue.ready
    apart = np.diff(ready)
    differ = apart > SUMS * ready[1:]
    return bool((apart[differ] > _most_of_a_task(comm) * tick).all())
