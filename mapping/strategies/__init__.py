"""Mapping strategies: named, seeded ways to place the tasks of an application on a torus.

A strategy is a registered function; `patterns` lists them, `make` gives one mapping by its name and
`sample` many of very different quality.
"""

from toruscast import plugins

# The modules register their strategies when they are imported.
from . import nested, permute, sampling, traffic_driven  # noqa: F401
from .registry import (
    STRATEGIES,
    Placement,
    Strategy,
    make,
    names,
    patterns,
    register,
    variants,
)
from .sampling import sample

__all__ = [
    "STRATEGIES",
    "Placement",
    "Strategy",
    "make",
    "names",
    "patterns",
    "register",
    "sample",
    "variants",
]

# `sample` turns to them in this order.
for _family in (
    *("identity", "permute", "zigzag", "tilt", "stride", "bisect", "curve", "tile", "blocked"),
    *("greedy", "random", "swap", "nth", "spectral", "nested"),
):
    STRATEGIES[_family] = STRATEGIES.pop(_family)
# Modules of other packages register their strategies when they are loaded.
plugins.load("strategies")
