"""Mapping strategies: named, seeded ways to place the tasks of an application on a torus.

A strategy is a registered function; `names` lists them, `make` gives one mapping by its name and
`sample` many of very different quality.
"""

from toruscast import plugins

# The modules register their strategies in the order in which `sample` is to turn to them.
# isort: off
from . import permute, bisect, curves, greedy, chance, spectral, nested  # noqa: F401

# isort: on
from .placement import Placement
from .registry import STRATEGIES, Strategy, examples, make, names, register, variants
from .sampling import iter_sample, sample

__all__ = [
    "STRATEGIES",
    "Placement",
    "Strategy",
    "examples",
    "iter_sample",
    "make",
    "names",
    "register",
    "sample",
    "variants",
]

# Modules of other packages register their strategies when they are loaded.
plugins.load("strategies")
