"""The named features, open to a user's own."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from toruscast.errors import InputError

from .traffic import RoutedTraffic

FeatureFunction = Callable[[RoutedTraffic], float]


@dataclass(frozen=True)
class Feature:
    """A number computed from routed traffic.

    Level 1 needs the routes, level 2 the simulation. The unit of a pure number is empty.
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
