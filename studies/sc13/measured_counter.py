"""A counter that was measured under each mapping as a feature: a file of mapping and value.

The file is ``counters.csv`` in the current folder, with the columns ``mapping`` and ``queue``; the
names are those of the mappings' files.
"""

import functools

import pandas as pd

from toruscast._features import RoutedTraffic, register_feature


@functools.cache
def _values() -> dict[str, float]:
    return (
        pd.read_csv("counters.csv", dtype={"mapping": str}).set_index("mapping")["queue"].to_dict()
    )


@register_feature("queue", description="measured queue length")
def queue(traffic: RoutedTraffic) -> float:
    """Return what was measured under this mapping."""
    return _values()[traffic.mapping.name]
