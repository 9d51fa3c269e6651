"""The hottest links of a mapping, and the resource that limits it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toruscast._slow import pandas as pd
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.simulation import Simulation

from . import RoutedTraffic


@dataclass(frozen=True, eq=False)
class Reasons:
    """The resources that limit a mapping, and its hottest links.

    ``links`` is indexed by link number, with columns ``label``, ``nbytes``, ``over_mean`` (bytes
    divided by the mean of all links) and ``busy`` (seconds at full bandwidth, with headers).
    """

    # Seconds of each resource in one iteration; for links, an estimate if packets choose routes.
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
    """Return what limits a mapping; if a simulation is given, the bounds use its coarsening."""
    traffic = RoutedTraffic(problem, mapping)
    if simulation is not None:
        traffic = traffic.simulated_as(simulation)
    seconds = traffic.sure._asdict()
    del seconds["total"]
    binding = max(seconds, key=lambda name: seconds[name])
    return Reasons(seconds, traffic.sure_bound, binding, hottest_links(traffic, n))


def hottest_links(traffic: RoutedTraffic, n: int) -> pd.DataFrame:
    """Return a table of the ``n`` links with the longest busy times, as in `Reasons`."""
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
