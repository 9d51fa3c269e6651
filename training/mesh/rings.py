"""Rings in the order of the groups, one way or two."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.mapping.mesh import MeshTraffic
from toruscast.routing.pairs import pair_loads

from .scored import Score, on_the_wire

# Halves of an allreduce.
PARTS = {"allreduce": 2, "allgather": 1, "reduce_scatter": 1}


class _Pace(NamedTuple):
    """The busiest link of a round, its seconds for a byte of every message, and most messages."""

    link: int
    seconds: float
    messages: float


class RingSteps:
    """What a step round all groups asks of the links. Arrays are not kept: there are many of these.

    Parameters
    ----------
    lines : ndarray of int, shape (n_groups, n)
        Nodes of each group in its order.
    torus : Torus
    """

    def __init__(self, lines: NDArray[np.int64], torus: Torus) -> None:
        self.torus = torus
        self.lines = lines
        onward, back = self._loads
        self.paces = {1: self._pace(onward), 2: self._pace(onward + back)}
        hops = torus.distance(*self._ends)
        self.hops = float(hops.mean())
        self.farthest = int(hops.max())
        del self._loads

    @property
    def _ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.lines.ravel(), np.roll(self.lines, -1, axis=1).ravel()

    @cached_property
    def _loads(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        src, dst = self._ends
        return pair_loads(self.torus, src, dst), pair_loads(self.torus, dst, src)

    def _pace(self, load: NDArray[np.float64]) -> _Pace:
        seconds = load / self.torus.link_bandwidth
        link = int(seconds.argmax())
        return _Pace(link, float(seconds[link]), float(load.max()))

    def link_seconds(self, ways: int) -> NDArray[np.float64]:
        """Seconds of every link for a byte of every message of a round, ``(n_links,)``."""
        src, dst = self._ends
        load = pair_loads(self.torus, src, dst)
        if ways == 2:
            load = load + pair_loads(self.torus, dst, src)
        return np.asarray(load / self.torus.link_bandwidth)


def ring_score(steps: RingSteps, traffic: MeshTraffic, ways: int) -> Score:
    """Return what rounds round the ring take, each way its share of each block.

    The score has no seconds of links; `with_links` adds them.
    """
    torus, n = steps.torus, steps.lines.shape[1]
    pace = steps.paces[ways]
    wire = on_the_wire(traffic.nbytes / n / ways, torus)
    rounds = PARTS[traffic.collective] * (n - 1)
    latency = ways * torus.network.overhead + steps.hops * torus.network.hop_latency
    return Score(
        time=rounds * (pace.seconds * wire + latency),
        algorithm="ring" if ways == 1 else "two-way-ring",
        link_seconds=np.zeros(0),
        busiest=pace.link,
        busy=rounds * pace.seconds * wire,
        hops=steps.hops,
        farthest=steps.farthest,
        sharing=pace.messages,
    )


def ring_seconds(
    traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus, ways: int
) -> NDArray[np.float64]:
    """Return the seconds that each link works for all rounds, ``(n_links,)``."""
    n = lines.shape[1]
    wire = on_the_wire(traffic.nbytes / n / ways, torus)
    rounds = PARTS[traffic.collective] * (n - 1)
    return np.asarray(RingSteps(lines, torus).link_seconds(ways) * (rounds * wire))
