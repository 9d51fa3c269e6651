"""The registry of named features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.text import closest
from toruscast.typing import Bools, Ints
from toruscast.validation import check_type, whole_number

from .traffic import RoutedTraffic

FeatureFunction = Callable[[RoutedTraffic], float]


@dataclass(frozen=True)
class Feature:
    """A number computed from routed traffic.

    Level 1 needs routes; level 2 needs a simulation. Dimensionless features have an empty unit.
    """

    name: str
    function: FeatureFunction
    level: int
    unit: str
    description: str

    @property
    def is_built_in(self) -> bool:
        """Whether the feature is part of toruscast, rather than a user's own."""
        return (self.function.__module__ or "").startswith("toruscast.")


# Former names of features and feature sets in saved models and samples.
FORMER_NAMES = {
    "sketch_time": "coarse_time",
    "sketch_slowdown": "coarse_slowdown",
    "sketch": "coarse",
}

FEATURES: dict[str, Feature] = {}


def register_feature(
    name: str, *, level: int = 1, unit: str = "", description: str = ""
) -> Callable[[FeatureFunction], FeatureFunction]:
    """Register a function of routed traffic as a named feature; use as a decorator.

    Examples
    --------
    >>> @register_feature("busiest_share", description="busiest link's share of all link bytes")
    ... def busiest_share(traffic):
    ...     return traffic.link_bytes.max() / traffic.link_bytes.sum()
    >>> FEATURES["busiest_share"].level
    1
    >>> unregister_feature("busiest_share")
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError("bad feature name", found=name, expected="a Python identifier")
    if name in FEATURES:
        expected = "a new name, or unregister_feature"
        raise InputError("duplicate feature name", found=name, expected=expected)
    whole_number(level, "feature level", 1, 2)

    def add(function: FeatureFunction) -> FeatureFunction:
        text = description or (function.__doc__ or "").strip().split("\n")[0]
        FEATURES[name] = Feature(name, function, level, unit, text)
        return function

    return add


def unregister_feature(name: str) -> None:
    """Remove a feature from the registry."""
    check_type(name, "feature name", str, "a text")
    FEATURES.pop(name, None)


def feature_names(level: int = 2) -> tuple[str, ...]:
    """Return the names of the features up to a level, in the order of registration.

    Examples
    --------
    >>> set(feature_names(1)) < set(feature_names(2))
    True
    """
    whole_number(level, "level", 1, 2)
    return tuple(name for name, feature in FEATURES.items() if feature.level <= level)


def select_features(names: Sequence[str] | None, level: int) -> tuple[Feature, ...]:
    """Return the named features, or all features up to a level."""
    if isinstance(names, str) or not (names is None or isinstance(names, Iterable)):
        expected = "a list of names, such as ['max_bytes']"
        raise InputError("bad features", found=repr(names), expected=expected)
    selected = feature_names(level) if names is None else tuple(names)
    for name in selected:
        check_type(name, "feature name", str, "a text")
    unknown = [name for name in selected if name not in FEATURES]
    if unknown:
        similar = closest(unknown[0], FEATURES, "a name listed by 'toruscast features --list'")
        raise InputError("unknown feature", found=", ".join(unknown), expected=similar)
    return tuple(FEATURES[name] for name in selected)


# Minimum share of the maximum for a top outlier [Jain13], and the relative rounding error.
_TOP_SHARE, _ROUNDING = 0.95, 1e-9


@dataclass(frozen=True, eq=False)
class Values:
    """Values of an indicator, optionally with the number of entities that have each value.

    Values with counts are ascending. Statistics cover all entities; without entities, they are 0.
    """

    values: NDArray[Any]
    counts: Ints | None = None

    def select(self, mask: Bools) -> Values:
        """Return the values where a mask is true."""
        counts = None if self.counts is None else self.counts[mask]
        return Values(self.values[mask], counts)

    @lazy
    def size(self) -> int:
        """Number of entities."""
        return self.values.size if self.counts is None else int(self.counts.sum())

    @lazy
    def sum(self) -> float:
        """Sum over the entities."""
        return float(self.values.sum() if self.counts is None else self.values @ self.counts)

    @lazy
    def mean(self) -> float:
        """Mean over the entities."""
        return self.sum / self.size if self.size else 0.0

    @property
    def std(self) -> float:
        """Standard deviation over the entities."""
        return float(Values((self.values - self.mean) ** 2, self.counts).mean ** 0.5)

    def quantile(self, q: float) -> float:
        """Return the quantile of order ``q``, without interpolation."""
        if not self.size:
            return 0.0
        index = max(int(np.ceil(q * self.size)) - 1, 0)
        if self.counts is None:
            return float(self._sorted_values[index])
        return float(self.values[np.searchsorted(self.counts.cumsum(), index, side="right")])

    @lazy
    def _sorted_values(self) -> NDArray[Any]:
        return np.sort(self.values)


def above_mean(values: NDArray[Any], mean: float) -> Bools:
    """Return a mask of the values above the mean, the average outliers [Jain13, AO]."""
    # Rounding can make the mean of equal values less than the values.
    return np.asarray(values > mean * (1 + _ROUNDING))


def near_top(values: NDArray[Any]) -> Bools:
    """Return a mask of the positive values within 5 % of the maximum, the top outliers."""
    max_value = values.max(initial=0)
    return np.asarray((values >= _TOP_SHARE * max_value) & (max_value > 0))


def _count_hops(traffic: RoutedTraffic) -> Values:
    """Return the hop counts of messages between nodes, with the number of edges for each count."""
    hops = 1 + np.flatnonzero(traffic.edges_by_hops[1:])
    return Values(hops, traffic.edges_by_hops[hops])


# Function, level, unit and description of each indicator.
_INDICATORS: dict[str, tuple[Callable[[RoutedTraffic], Values], int, str, str]] = {
    "bytes": (lambda t: Values(t.link_bytes), 1, "B", "bytes on each link"),
    "dilation": (_count_hops, 1, "hops", "hops of each message that uses the network"),
    "FIFO": (lambda t: Values(t.fifo_length), 1, "messages", "messages in each injection FIFO"),
    "buffer": (lambda t: Values(t.buffer_length), 2, "packet s", "buffer length of each link"),
    "delay": (lambda t: Values(t.delay), 2, "s", "delay of each link"),
}
_SELECTIONS: dict[str, tuple[Callable[[Values], Values], str]] = {
    "": (lambda v: v, ""),
    "_AO": (lambda v: v.select(above_mean(v.values, v.mean)), ", average outliers"),
    "_TO": (lambda v: v.select(near_top(v.values)), ", top outliers"),
}
_AGGREGATES: dict[str, tuple[Callable[[Values], float], str]] = {
    "avg": (lambda v: v.mean, "mean"),
    "max": (lambda v: float(v.values.max(initial=0)), "maximum"),
    "sum": (lambda v: v.sum, "sum"),
    "count": (lambda v: float(v.size), "number"),
    "std": (lambda v: v.std, "standard deviation"),
    "median": (lambda v: v.quantile(0.5), "median"),
    "q90": (lambda v: v.quantile(0.9), "90 % quantile"),
    "q99": (lambda v: v.quantile(0.99), "99 % quantile"),
}


def _select_values(traffic: RoutedTraffic, indicator: str, suffix: str) -> Values:
    """Return an indicator's values or, with a suffix, its outliers; cached for all aggregates."""
    cache: dict[str, Values] = vars(traffic).setdefault("selections", {})
    if indicator + suffix not in cache:
        if suffix:
            values = _select_values(traffic, indicator, "")
        else:
            values = _INDICATORS[indicator][0](traffic)
        cache[indicator + suffix] = _SELECTIONS[suffix][0](values)
    return cache[indicator + suffix]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _value(traffic: RoutedTraffic, name: str) -> float:
    """Return the value of another feature."""
    return FEATURES[name].function(traffic)


def _add(
    name: str, unit: str, description: str, level: int = 1
) -> Callable[[FeatureFunction], FeatureFunction]:
    """Register a function of routed traffic as a built-in feature."""
    return register_feature(name, level=level, unit=unit, description=description)


def _aggregate(indicator: str, suffix: str, reduce: Callable[[Values], float]) -> FeatureFunction:
    """Return a feature's function, which reduces the selected values to a number."""
    return lambda t: reduce(_select_values(t, indicator, suffix))


for _indicator, (_, _level, _unit, _entities) in _INDICATORS.items():
    for _suffix, (_select, _outliers) in _SELECTIONS.items():
        for _statistic, (_reduce, _label) in _AGGREGATES.items():
            _name = f"{_statistic}_{_indicator}{_suffix}"
            # avg_dilation includes edges within a node and is defined below.
            if _suffix == "" and (_statistic == "count" or _name == "avg_dilation"):
                continue
            if _suffix and _statistic in ("max", "median", "q90", "q99"):
                continue
            _text = f"{_label} of the {_entities}{_outliers}"
            _feature_unit = "" if _statistic == "count" else _unit
            _add(_name, _feature_unit, _text, _level)(_aggregate(_indicator, _suffix, _reduce))

_add(
    "avg_dilation", "hops", "Mean hops of the edges, including edges within a node [Jain13 eq. 2]."
)(lambda t: _ratio(float(t.edges_by_hops @ np.arange(t.edges_by_hops.size)), t.comm.n_edges))
_add("hop_bytes", "B", "Sum of hops times bytes over all edges [Jain13 eq. 3].")(
    lambda t: t.totals.hop_bytes
)
_add("avg_hops_per_byte", "hops", "Hop-bytes over bytes [Jain13 eq. 4].")(
    lambda t: _ratio(t.totals.hop_bytes, t.total_bytes)
)
_add("sum_hops_AO", "hops", "Sum of the hops of average outliers; equal to sum_dilation_AO.")(
    lambda t: _value(t, "sum_dilation_AO")
)
_add("max_path_bytes", "B", "Sum of the link bytes along a route, maximum over the messages.")(
    lambda t: t.along_routes.max_sum
)
_add(
    "avg_path_bytes",
    "B",
    "Sum of the link bytes along a route, mean over the messages.",
)(lambda t: _ratio(t.along_routes.total, t.n_network_edges))
_add("avg_bottleneck_bytes", "B", "Bytes on the busiest link of a route, mean over the messages.")(
    lambda t: _ratio(t.along_routes.sum_of_max, t.n_network_edges)
)


def _add_bound(bound: str, label: str) -> None:
    """Register two features of a bound: its seconds, and its share of the lower bound."""
    _add(f"{bound}_bound", "s", f"time of the {label}")(lambda t: getattr(t.bounds, bound))
    _add(f"{bound}_share", "", f"{bound} bound over the lower bound")(
        lambda t: _ratio(getattr(t.bounds, bound), t.bounds.total)
    )


_add_bound("link", "busiest link")
_add_bound("injection", "busiest injection FIFO")
_add_bound("reception", "busiest receiver")
_add_bound("latency", "slowest message or busiest task's software")
_add(
    "lower_bound",
    "s",
    "Sum of each phase's largest bound; for dependent rounds, the largest of the bounds summed "
    "over the rounds.",
)(lambda t: t.bounds.total)
_add(
    "release_bound",
    "s",
    "Lower bound with release times at links; an estimate if routes are undetermined.",
)(lambda t: t.release_bound)
_add("release_slowdown", "", "Release bound over the lower bound.")(
    lambda t: _ratio(t.release_bound, t.bounds.total)
)
_add(
    "coarse_time", "s", "Time of a coarse simulation, with packets at least four times as long.", 2
)(lambda t: t.coarse.time)
_add("coarse_slowdown", "", "Time of the coarse simulation over the lower bound.", 2)(
    lambda t: _ratio(t.coarse.time, t.bounds.total)
)
_add("max_over_avg_bytes", "", "Maximum of the link bytes over their mean.")(
    lambda t: _ratio(_value(t, "max_bytes"), _value(t, "avg_bytes"))
)
_add("std_over_avg_bytes", "", "Standard deviation of the link bytes over their mean.")(
    lambda t: _ratio(_value(t, "std_bytes"), _value(t, "avg_bytes"))
)
_add("idle_links", "", "Share of the links without traffic.")(
    lambda t: _ratio(float((t.link_bytes == 0).sum()), t.link_bytes.size)
)
_add("bytes_AO_share", "", "Share of the links with more bytes than the mean.")(
    lambda t: _ratio(_value(t, "count_bytes_AO"), t.link_bytes.size)
)
_add("bytes_TO_share", "", "Share of the links within 5 % of the busiest link.")(
    lambda t: _ratio(_value(t, "count_bytes_TO"), t.link_bytes.size)
)
_add("max_over_avg_FIFO", "", "Maximum length of the injection FIFOs over their mean.")(
    lambda t: _ratio(_value(t, "max_FIFO"), _value(t, "avg_FIFO"))
)
_add("relative_hops", "", "Hops per byte over the mean distance of two random nodes.")(
    lambda t: _ratio(_value(t, "avg_hops_per_byte"), _mean_distance(t.torus))
)
_add("relative_max_dilation", "", "Maximum dilation over the diameter of the torus.")(
    lambda t: _ratio(_value(t, "max_dilation"), t.torus.diameter)
)
_add("path_over_max_bytes", "", "Maximum path bytes over the bytes of the busiest link.")(
    lambda t: _ratio(_value(t, "max_path_bytes"), _value(t, "max_bytes"))
)
_add("bottleneck_over_max_bytes", "", "Mean bottleneck bytes over the bytes of the busiest link.")(
    lambda t: _ratio(_value(t, "avg_bottleneck_bytes"), _value(t, "max_bytes"))
)
# The two sums have different rounding errors. Rounding makes the share of all bytes exactly 1.
_add("off_node_bytes_share", "", "Share of the bytes sent between nodes.")(
    lambda t: round(_ratio(t.totals.off_node_bytes, t.total_bytes), 12)
)


def _mean_distance(torus: Torus) -> float:
    """Return the mean hops over all pairs of nodes."""
    if torus.twist:
        # All nodes of a twisted torus are equivalent, so one is enough.
        return float(torus.distance(0, np.arange(torus.n_nodes)).mean())
    total = 0.0
    for size, wrap in zip(torus.shape, torus.wrap, strict=True):
        gap = np.abs(np.arange(size)[:, None] - np.arange(size))
        total += float((np.minimum(gap, size - gap) if wrap else gap).mean())
    return total
