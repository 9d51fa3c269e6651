"""Formats, features, strategies and machines that other installed packages bring.

A package names them as entry points in its pyproject.toml::

    [project.entry-points."toruscast.formats"]
    arrows = "my_package.arrows:DIALECT"

    [project.entry-points."toruscast.features"]
    mine = "my_package.metrics"
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from .errors import InputWarning

Group = Literal["formats", "features", "strategies", "machines"]


@cache
def load(group: Group) -> tuple[tuple[str, Any], ...]:
    """Return the name and the object of each entry point of a group; each is loaded once.

    A module that registers its features or strategies needs only to be loaded. A package that
    cannot be loaded is left out, with an `InputWarning` that names it.
    """
    found = []
    for point in sorted(entry_points(group=f"toruscast.{group}")):
        try:
            found.append((point.name, point.load()))
        except Exception as error:  # Whatever a stranger's module raises.
            warnings.warn(_fault(group, point, error), InputWarning, stacklevel=2)
    return tuple(found)


def _fault(group: Group, point: EntryPoint, error: Exception) -> str:
    package = point.dist.name if point.dist else "a package"
    reason = " ".join(str(error).split()) or type(error).__name__
    return f"{group} of {package} are left out: {point.value} cannot be loaded: {reason}"
