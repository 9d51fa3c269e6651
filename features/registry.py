"""The named features, open to a user's own, and the entities that stand out."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from .traffic import RoutedTraffic

FeatureFunction = Callable[[RoutedTraffic], float]


@dataclass(frozen=True)
class Feature:
    """A number computed from routed traffic.

    Attributes
    ----------
    name : str
    function : callable
        Takes a `RoutedTraffic`, returns a float.
    level : {1, 2}
        1 if the routes are enough, 2 if it needs the simulation.
    unit : str
        Empty for a pure number.
    description : str
        One line.
    """

    name: str
    function: FeatureFunction
    level: int
    unit: str
    description: str

    @property
    def is_built_in(self) -> bool:
        """Whether it comes with toruscast."""
        return (self.function.__module__ or "").startswith("toruscast.")


FEATURES: dict[str, Feature] = {}


def register(
    name: str, *, level: int = 1, unit: str = "", description: str = ""
) -> Callable[[FeatureFunction], FeatureFunction]:
    """Register a function of routed traffic as a named feature; use it as a decorator.

    Examples
    --------
    >>> @register("busiest_share", description="busiest link's share of all link bytes")
    ... def busiest_share(traffic):
    ...     return traffic.link_bytes.max() / traffic.link_bytes.sum()
    >>> FEATURES["busiest_share"].level
    1
    >>> unregister("busiest_share")
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError("bad feature name", found=name, expected="a Python identifier")
    if name in FEATURES:
        raise InputError("feature name taken", found=name, expected="a new name, or unregister it")
    if level not in (1, 2):
        raise InputError("bad feature level", found=level, expected="1 or 2")

    def add(function: FeatureFunction) -> FeatureFunction:
        text = description or (function.__doc__ or "").strip().split("\n")[0]
        FEATURES[name] = Feature(name, function, level, unit, text)
        return function

    return add


def unregister(name: str) -> None:
    """Forget a feature."""
    if not isinstance(name, str):
        raise InputError("bad feature name", found=repr(name), expected="a text")
    FEATURES.pop(name, None)


def feature_names(level: int = 2) -> tuple[str, ...]:
    """Return the names of the features up to a level, in the order of registration.

    Examples
    --------
    >>> set(feature_names(1)) < set(feature_names(2))
    True
    """
    return tuple(name for name, feature in FEATURES.items() if feature.level <= level)


def select(names: Sequence[str] | None, level: int) -> tuple[Feature, ...]:
    """Return the named features, or all up to a level."""
    if isinstance(names, str) or not (names is None or isinstance(names, Iterable)):
        expected = "a list of names, such as ['max_bytes']"
        raise InputError("bad features", found=repr(names), expected=expected)
    chosen = feature_names(level) if names is None else tuple(names)
    wrong = [name for name in chosen if not isinstance(name, str)]
    if wrong:
        raise InputError("bad feature name", found=repr(wrong[0]), expected="a text")
    unknown = [name for name in chosen if name not in FEATURES]
    if unknown:
        raise InputError("unknown feature", found=", ".join(unknown), expected=_similar(unknown[0]))
    return tuple(FEATURES[name] for name in chosen)


def _similar(name: str) -> str:
    close = difflib.get_close_matches(name, FEATURES, n=3, cutoff=0.6)
    return " or ".join(close) if close else "a name listed by 'toruscast features --list'"


TOP = 0.95
_ROUNDING = 1e-9


def above_mean(values: NDArray[Any], mean: float) -> NDArray[np.bool_]:
    """Return which values are greater than the mean."""
    # The floating-point mean of equal values may fall a little below them.
    return np.asarray(values > mean * (1 + _ROUNDING))


def near_top(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are within 5 % of the maximum; where all are 0, none is."""
    most = values.max(initial=0)
    return np.asarray((values >= TOP * most) & (most > 0))


def average_outliers(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values greater than the mean of all [Jain13, AO].

    Examples
    --------
    >>> average_outliers(np.array([1, 2, 9]))
    array([9])
    """
    return values[above_mean(values, values.mean())] if values.size else values


def top_outliers(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values within 5 % of the maximum [Jain13, TO].

    Where all are 0, none stands out.

    Examples
    --------
    >>> top_outliers(np.array([10.0, 9.6, 9.4]))
    array([10. ,  9.6])
    """
    return values[near_top(values)]
