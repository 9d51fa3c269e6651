"""Recorded simulated times that replace simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from toruscast.decision.simulations import CandidateNetwork, CandidateSimulator
from toruscast.mapping import Torus

Floats = NDArray[np.float64]


class RecordedTimes(CandidateSimulator):
    """Simulated times of n mappings, ``(n,)``, by the number of packets merged into one."""

    def __init__(
        self,
        recorded: Mapping[int, Floats],
        lower: Floats,
        release: Floats,
        packets: float = 1.0,
        costs: Mapping[int, float] | None = None,
    ) -> None:
        self.recorded, self.lower, self.release, self.packets = recorded, lower, release, packets
        self.networks, self.n_jobs = [CandidateNetwork("recorded", Torus((1,)))], 1
        self.bounds = lower[:, None]
        self.times = np.full_like(self.bounds, np.nan)
        self.costs = {level: 1 / level for level in recorded} if costs is None else costs

    def simulate(self, candidates: NDArray[np.int64], coarsening: int = 1) -> Floats:
        """Return the recorded seconds."""
        times = self.recorded[coarsening][candidates]
        self.times[candidates, 0] = times
        return times

    def hops(self, coarsening: int = 1) -> float:
        """Return the given cost, or the cost of real packets divided by the number merged."""
        return self.costs[coarsening]

    @property
    def levels(self) -> Sequence[int]:
        """The recorded numbers of packets merged into one."""
        return sorted(self.recorded)
