"""Formats, features, strategies and machines from other installed packages.

A package declares them as entry points in its pyproject.toml::

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
    """Return the name and the object of each entry point of a group.

    Loading a module registers its features and strategies. A package that cannot be loaded is
    skipped with an `InputWarning`.
    """
    plugins = []
    for point in sorted(entry_points(group=f"toruscast.{group}")):
        try:
            plugins.append((point.name, point.load()))
        except Exception as error:  # other packages may raise any error
            warnings.warn(_describe_fault(group, point, error), InputWarning, stacklevel=2)
    return tuple(plugins)


def _describe_fault(group: Group, point: EntryPoint, error: Exception) -> str:
    package = point.dist.name if point.dist else "a package"
    reason = " ".join(str(error).split()) or type(error).__name__
    return f"{group} of {package} are left out: {point.value} cannot be loaded: {reason}"
