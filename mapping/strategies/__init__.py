"""Mapping strategies: named and seeded functions that place tasks on a torus.

`patterns` lists the strategies, `make` returns one mapping by name, and `sample` returns many
mappings of different quality.
"""

from toruscast import plugins

# Importing the modules registers their strategies.
from . import nested, permute, sampling, traffic_driven  # noqa: F401
from .registry import STRATEGIES, Placement, Strategy, make, names, patterns, register, variants
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

# Put the strategies in the order in which `sample` uses them.
for _family in (
    *("identity", "permute", "zigzag", "tilt", "stride", "bisect", "curve", "tile", "blocked"),
    *("greedy", "random", "swap", "nth", "spectral", "reflect", "nested"),
):
    STRATEGIES[_family] = STRATEGIES.pop(_family)
# Importing plug-in modules registers their strategies.
plugins.load("strategies")
