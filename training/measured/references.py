"""Times that a model of the network gives a mapping, which those of a machine may follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType

import pandas as pd

from toruscast.features import RoutedTraffic, extract
from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.routing import Routing
from toruscast.simulation import simulate_flows

BOUNDS = ("release_bound", "lower_bound")
"""Features of the routes alone."""
SIMULATED: MappingProxyType[str, Callable[[RoutedTraffic], float]] = MappingProxyType(
    {
        "simulated_time": lambda routed: routed.simulation.time,
        "flow_time": lambda routed: (
            simulate_flows(routed.workload, routed.torus, routed.mapping).time
        ),
    }
)
"""Times of a simulation by packets and of one by flows, by name. They are no features: learned
times are often simulated ones themselves."""
REFERENCES = (*BOUNDS, "sketch_time", *SIMULATED)
"""Names of all, the cheapest first."""
_IN_WORDS = {
    "release_bound": "the lower bound that knows when messages are released",
    "lower_bound": "the lower bound",
    "sketch_time": "the time of a coarser simulation",
    "simulated_time": "the simulated time",
    "flow_time": "the time of simulated flows",
}


def in_words(reference: str) -> str:
    """Return what a reference is.

    Examples
    --------
    >>> in_words("flow_time")
    'the time of simulated flows'
    """
    return _IN_WORDS.get(reference, reference)


def with_references(
    workload: Workload,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    names: Iterable[str],
    *,
    routing: Routing,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Return these features and references of each mapping, indexed by its name.

    Raises
    ------
    InputError
        If a mapping does not fit or a name is neither.
    """
    wanted = tuple(dict.fromkeys(names))
    return extract(
        workload,
        torus,
        mappings,
        routing=routing,
        features=tuple(name for name in wanted if name not in SIMULATED),
        also={name: SIMULATED[name] for name in wanted if name in SIMULATED},
        n_jobs=n_jobs,
        progress=progress,
    )


def references_to_try(routing: Routing, simulate: bool) -> tuple[str, ...]:
    """Return the references that there are under a routing, with or without a simulation.

    Flows know of dimension order only.
    """
    if not simulate:
        return BOUNDS
    return tuple(name for name in REFERENCES if name != "flow_time" or routing == "deterministic")
