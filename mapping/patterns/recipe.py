"""Patterns written as what JSON can hold, so that a table can say what its samples sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from toruscast.errors import InputError

from ..workload import Workload, as_workload
from .all_to_alls import all_to_all, sub_all_to_all
from .applications import pf3d
from .halos import halo_2d, halo_3d, ring

PATTERNS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        function.__name__: function
        for function in (all_to_all, halo_2d, halo_3d, pf3d, ring, sub_all_to_all)
    }
)


def from_recipe(recipe: Mapping[str, Any], name: str = "") -> Workload:
    """Return the workload of a pattern and its arguments.

    Parameters
    ----------
    recipe : mapping
        ``pattern``, the name of a function of `toruscast.patterns`, and its arguments.
    name : str
        Name of the workload; the pattern's own if not given.

    Raises
    ------
    InputError
        If there is no such pattern, or it does not take these arguments.

    Examples
    --------
    >>> from_recipe({"pattern": "halo_2d", "grid": [4, 4], "nbytes": 8, "periodic": True}).total
    CommGraph(halo-4x4: 16 tasks, 64 edges, 512 bytes, 64 messages)
    """
    pattern = recipe.get("pattern") if isinstance(recipe, Mapping) else None
    if not isinstance(pattern, str) or pattern not in PATTERNS:
        expected = f"one of {', '.join(PATTERNS)}"
        raise InputError("unknown pattern", found=recipe, expected=expected)
    arguments = {key: value for key, value in recipe.items() if key != "pattern"}
    try:
        made = as_workload(PATTERNS[pattern](**arguments))
    except TypeError as error:
        raise InputError(f"bad arguments of pattern {pattern}", found=error) from None
    return Workload(made.phases, name or made.name)
