"""What is found out about a collective in a layout."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus


@dataclass(frozen=True, eq=False)
class Score:
    """What a collective takes, all its groups at once.

    Attributes
    ----------
    time : float
        Seconds.
    algorithm : str
        The one that is fastest, of those that were asked for.
    link_seconds : ndarray, shape (n_links,)
        How long each link works for it; empty where nobody asks for it.
    busiest, busy : int, float
        The link that works longest, and the seconds that it does.
    hops, farthest : float, int
        Hops of its messages on average and at most.
    sharing : float
        The most messages of a step that go over the same link.
    """

    time: float
    algorithm: str
    link_seconds: NDArray[np.float64]
    busiest: int
    busy: float
    hops: float
    farthest: int
    sharing: float

    def without_links(self) -> Score:
        """The same without the array, of which there would be many."""
        return replace(self, link_seconds=np.zeros(0))


def made(
    time: float,
    algorithm: str,
    seconds: NDArray[np.float64],
    hops: NDArray[np.integer] | NDArray[np.float64],
    sharing: float,
) -> Score:
    """Return a score from the seconds of every link and the hops of every message."""
    busiest = int(seconds.argmax())
    mean = float(hops.mean()) if hops.size else 0.0
    farthest = int(hops.max(initial=0))
    busy = float(seconds[busiest])
    return Score(time, algorithm, seconds, busiest, busy, mean, farthest, sharing)


def on_the_wire(nbytes: float, torus: Torus) -> float:
    """Return the bytes of a message with the headers of its packets."""
    network = torus.network
    return nbytes + network.header * max(math.ceil(nbytes / network.payload), 1)
