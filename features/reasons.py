"""Why a mapping is fast or slow: its hottest links, and which resource bounds its time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toruscast._slow import pandas as pd
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.simulation import Simulation

from . import RoutedTraffic


@dataclass(frozen=True, eq=False)
class Reasons:
    """What limits a mapping.

    ``links`` are the hottest, by number: ``label``, ``nbytes``, ``over_mean`` (bytes over the mean
    of all links) and ``busy`` (seconds at full bandwidth, headers included).
    """

    # Seconds of each resource in one iteration; that of the links is an estimate where routes are
    # open.
    bounds: dict[str, float]
    lower_bound: float  # `RoutedTraffic.sure_bound`
    binding: str  # resource with the largest bound
    links: pd.DataFrame


def explain(
    problem: MappingProblem,
    mapping: TaskMapping,
    *,
    n: int = 5,
    simulation: Simulation | None = None,
) -> Reasons:
    """Return why a mapping takes its time, of this simulation's packets if it is given."""
    routed = RoutedTraffic(problem, mapping)
    if simulation is not None:
        routed = routed.simulated_as(simulation)
    seconds = routed.sure._asdict()
    del seconds["total"]
    binding = max(seconds, key=lambda name: seconds[name])
    return Reasons(seconds, routed.sure_bound, binding, hottest_links(routed, n))


def hottest_links(traffic: RoutedTraffic, n: int) -> pd.DataFrame:
    """Return the ``n`` links that are busy longest, as in `Reasons`."""
    torus, load = traffic.torus, traffic.all_link_bytes
    busy = traffic.all_wire_bytes / torus.link_bandwidth
    hottest = np.argsort(-busy, kind="stable")[:n]
    hottest = hottest[busy[hottest] > 0]
    mean = float(load[torus.link_exists].mean()) if torus.link_exists.any() else 0.0
    return pd.DataFrame(
        {
            "label": [torus.link_label(int(link)) for link in hottest],
            "nbytes": load[hottest],
            "over_mean": load[hottest] / (mean or 1.0),
            "busy": busy[hottest],
        },
        index=pd.Index(hottest, name="link"),
    )
