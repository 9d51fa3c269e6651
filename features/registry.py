"""The named features: those that come with toruscast, and a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.text import closest
from toruscast.validation import check_type, whole_number

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


# Features and feature sets that saved models and samples know by another name.
FORMER_NAMES = {
    "sketch_time": "coarse_time",
    "sketch_slowdown": "coarse_slowdown",
    "sketch": "coarse",
}

FEATURES: dict[str, Feature] = {}


def register_feature(
    name: str, *, level: int = 1, unit: str = "", description: str = ""
) -> Callable[[FeatureFunction], FeatureFunction]:
    """Register a function of routed traffic as a named feature; use it as a decorator.

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
        raise InputError("feature name taken", found=name, expected="a new name, or unregister it")
    whole_number(level, "feature level", 1, 2)

    def add(function: FeatureFunction) -> FeatureFunction:
        text = description or (function.__doc__ or "").strip().split("\n")[0]
        FEATURES[name] = Feature(name, function, level, unit, text)
        return function

    return add


def unregister_feature(name: str) -> None:
    """Forget a feature."""
    check_type(name, "feature name", str, "a text")
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
    for name in chosen:
        check_type(name, "feature name", str, "a text")
    unknown = [name for name in chosen if name not in FEATURES]
    if unknown:
        similar = closest(unknown[0], FEATURES, "a name listed by 'toruscast features --list'")
        raise InputError("unknown feature", found=", ".join(unknown), expected=similar)
    return tuple(FEATURES[name] for name in chosen)


_TOP, _ROUNDING = 0.95, 1e-9


@dataclass(frozen=True, eq=False)
class Counted:
    """Values of an indicator, and how many entities have each; one, if not given."""

    values: NDArray[Any]
    n: NDArray[np.int64] | None = None

    def where(self, chosen: NDArray[np.bool_]) -> Counted:
        """Return those that are chosen."""
        return Counted(self.values[chosen], None if self.n is None else self.n[chosen])

    @lazy
    def size(self) -> int:
        """Entities."""
        return self.values.size if self.n is None else int(self.n.sum())

    @lazy
    def sum(self) -> float:
        """Sum over the entities."""
        return float(self.values.sum() if self.n is None else self.values @ self.n)

    @lazy
    def mean(self) -> float:
        """Mean of the entities; 0 of none."""
        return self.sum / self.size if self.size else 0.0

    @property
    def std(self) -> float:
        """Standard deviation over the entities; 0 of none."""
        return float(Counted((self.values - self.mean) ** 2, self.n).mean ** 0.5)

    def quantile(self, share: float) -> float:
        """Return the smallest value that at least this share of all do not exceed."""
        if not self.size:
            return 0.0
        place = max(int(np.ceil(share * self.size)) - 1, 0)
        if self.n is None:
            return float(self._in_order[place])
        return float(self.values[np.searchsorted(self.n.cumsum(), place, side="right")])

    @lazy
    def _in_order(self) -> NDArray[Any]:
        return np.sort(self.values)


def above_mean(values: NDArray[Any], mean: float) -> NDArray[np.bool_]:
    """Return which values are greater than the mean: average outliers [Jain13, AO]."""
    # The floating-point mean of equal values may fall a little below them.
    return np.asarray(values > mean * (1 + _ROUNDING))


def near_top(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which values are within 5 % of the maximum: top outliers; where all are 0, none is."""
    most = values.max(initial=0)
    return np.asarray((values >= _TOP * most) & (most > 0))


def _hops(traffic: RoutedTraffic) -> Counted:
    """Hops of the edges that use the network, in order, with the edges of each."""
    hops = 1 + np.flatnonzero(traffic.edges_by_hops[1:])
    return Counted(hops, traffic.edges_by_hops[hops])


# Each family: the indicator, its level, unit, and the entities that carry it.
_FAMILIES: dict[str, tuple[Callable[[RoutedTraffic], Counted], int, str, str]] = {
    "bytes": (lambda t: Counted(t.link_bytes), 1, "B", "bytes on each link"),
    "dilation": (_hops, 1, "hops", "hops of each message that uses the network"),
    "FIFO": (lambda t: Counted(t.fifo_length), 1, "messages", "messages in each injection FIFO"),
    "buffer": (lambda t: Counted(t.buffer_length), 2, "packet s", "buffer length of each link"),
    "delay": (lambda t: Counted(t.delay), 2, "s", "delay of each link"),
}
_SELECTIONS: dict[str, tuple[Callable[[Counted], Counted], str]] = {
    "": (lambda all_: all_, ""),
    "_AO": (lambda all_: all_.where(above_mean(all_.values, all_.mean)), ", average outliers"),
    "_TO": (lambda all_: all_.where(near_top(all_.values)), ", top outliers"),
}
_AGGREGATES: dict[str, tuple[Callable[[Counted], float], str]] = {
    "avg": (lambda c: c.mean, "mean"),
    "max": (lambda c: float(c.values.max(initial=0)), "maximum"),
    "sum": (lambda c: c.sum, "sum"),
    "count": (lambda c: float(c.size), "number"),
    "std": (lambda c: c.std, "standard deviation"),
    "median": (lambda c: c.quantile(0.5), "median"),
    "q90": (lambda c: c.quantile(0.9), "90 % quantile"),
    "q99": (lambda c: c.quantile(0.99), "99 % quantile"),
}


def _selected(traffic: RoutedTraffic, family: str, suffix: str) -> Counted:
    """Return a selection of an indicator, once for all aggregates of it."""
    known: dict[str, Counted] = vars(traffic).setdefault("selections", {})
    if family + suffix not in known:
        whole = _selected(traffic, family, "") if suffix else _FAMILIES[family][0](traffic)
        known[family + suffix] = _SELECTIONS[suffix][0](whole)
    return known[family + suffix]


def _register_families() -> None:
    for family, (_, level, unit, entities) in _FAMILIES.items():
        for suffix, (_, which) in _SELECTIONS.items():
            for aggregate, (reduce, word) in _AGGREGATES.items():
                name = f"{aggregate}_{family}{suffix}"
                # The mean over the network's messages is avg_hops; avg_dilation divides by all
                # edges.
                if suffix == "" and (aggregate == "count" or name == "avg_dilation"):
                    continue
                if suffix and aggregate in ("max", "median", "q90", "q99"):
                    continue

                def compute(
                    traffic: RoutedTraffic,
                    family: str = family,
                    suffix: str = suffix,
                    reduce: Callable[[Counted], float] = reduce,
                ) -> float:
                    return reduce(_selected(traffic, family, suffix))

                register_feature(
                    name,
                    level=level,
                    unit="" if aggregate == "count" else unit,
                    description=f"{word} of the {entities}{which}",
                )(compute)


_register_families()


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


@register_feature("avg_dilation", unit="hops")
def avg_dilation(traffic: RoutedTraffic) -> float:
    """Hops an edge, edges within a node included [Jain13 eq. 2]."""
    by_hops = traffic.edges_by_hops
    return _ratio(float(by_hops @ np.arange(by_hops.size)), traffic.comm.n_edges)


@register_feature("hop_bytes", unit="B")
def hop_bytes(traffic: RoutedTraffic) -> float:
    """Sum over the edges of hops times bytes [Jain13 eq. 3]."""
    return traffic.tally.hop_bytes


@register_feature("avg_hops_per_byte", unit="hops")
def avg_hops_per_byte(traffic: RoutedTraffic) -> float:
    """Hop-bytes over bytes [Jain13 eq. 4]."""
    return _ratio(hop_bytes(traffic), traffic.total_bytes)


@register_feature("sum_hops_AO", unit="hops")
def sum_hops_ao(traffic: RoutedTraffic) -> float:
    """Sum of the hops of the average outliers; the same as sum_dilation_AO."""
    return FEATURES["sum_dilation_AO"].function(traffic)


@register_feature("max_path_bytes", unit="B")
def max_path_bytes(traffic: RoutedTraffic) -> float:
    """Largest sum of link bytes along the route of any message."""
    return traffic.along_routes.largest


@register_feature("avg_path_bytes", unit="B")
def avg_path_bytes(traffic: RoutedTraffic) -> float:
    """Mean over the messages of the sum of link bytes along the route."""
    return _ratio(traffic.along_routes.total, traffic.n_network_edges)


@register_feature("avg_bottleneck_bytes", unit="B")
def avg_bottleneck_bytes(traffic: RoutedTraffic) -> float:
    """Mean over the messages of the bytes on the busiest link of the route."""
    return _ratio(traffic.along_routes.most, traffic.n_network_edges)


for _bound, _words in (
    ("link", "busiest link"),
    ("injection", "busiest injection FIFO"),
    ("reception", "busiest receiver"),
    ("latency", "slowest message, or the software of the busiest task"),
):

    def _bound_seconds(traffic: RoutedTraffic, bound: str = _bound) -> float:
        return float(getattr(traffic.bounds, bound))

    def _bound_share(traffic: RoutedTraffic, bound: str = _bound) -> float:
        return _ratio(float(getattr(traffic.bounds, bound)), traffic.bounds.total)

    register_feature(f"{_bound}_bound", unit="s", description=f"time of the {_words}")(
        _bound_seconds
    )
    register_feature(f"{_bound}_share", description=f"{_bound} bound over the lower bound")(
        _bound_share
    )


@register_feature("lower_bound", unit="s")
def lower_bound(traffic: RoutedTraffic) -> float:
    """Largest bound of each phase, summed over them; of dependent rounds, the largest sum."""
    return traffic.bounds.total


@register_feature("release_bound", unit="s")
def release_bound(traffic: RoutedTraffic) -> float:
    """Lower bound that knows when messages can come to links; where ways are open, an estimate."""
    return traffic.release_bound


@register_feature("release_slowdown")
def release_slowdown(traffic: RoutedTraffic) -> float:
    """The release bound over the lower bound."""
    return _ratio(traffic.release_bound, traffic.bounds.total)


@register_feature("coarse_time", level=2, unit="s")
def coarse_time(traffic: RoutedTraffic) -> float:
    """Time of a simulation with packets four times as long, longer ones for long messages."""
    return traffic.coarse.time


@register_feature("coarse_slowdown", level=2)
def coarse_slowdown(traffic: RoutedTraffic) -> float:
    """Time of that coarser simulation over the lower bound."""
    return _ratio(traffic.coarse.time, traffic.bounds.total)


@register_feature("max_over_avg_bytes")
def max_over_avg_bytes(traffic: RoutedTraffic) -> float:
    """Busiest link over the mean link."""
    load = traffic.link_bytes
    return _ratio(float(load.max(initial=0)), float(load.mean()) if load.size else 0.0)


@register_feature("std_over_avg_bytes")
def std_over_avg_bytes(traffic: RoutedTraffic) -> float:
    """Standard deviation of the link bytes over their mean."""
    load = traffic.link_bytes
    return _ratio(float(load.std()), float(load.mean())) if load.size else 0.0


@register_feature("idle_links")
def idle_links(traffic: RoutedTraffic) -> float:
    """Share of the links that carry nothing."""
    return float((traffic.link_bytes == 0).mean()) if traffic.link_bytes.size else 0.0


@register_feature("bytes_AO_share")
def bytes_ao_share(traffic: RoutedTraffic) -> float:
    """Share of the links that carry more than the mean."""
    return _ratio(_selected(traffic, "bytes", "_AO").size, traffic.link_bytes.size)


@register_feature("bytes_TO_share")
def bytes_to_share(traffic: RoutedTraffic) -> float:
    """Share of the links within 5 % of the busiest."""
    return _ratio(_selected(traffic, "bytes", "_TO").size, traffic.link_bytes.size)


@register_feature("max_over_avg_FIFO")
def max_over_avg_fifo(traffic: RoutedTraffic) -> float:
    """Longest injection FIFO over the mean one."""
    length = traffic.fifo_length
    return _ratio(float(length.max()), float(length.mean()))


@register_feature("relative_hops")
def relative_hops(traffic: RoutedTraffic) -> float:
    """Hops a byte over the mean distance of two random nodes of this torus."""
    return _ratio(avg_hops_per_byte(traffic), _mean_distance(traffic))


@register_feature("relative_max_dilation")
def relative_max_dilation(traffic: RoutedTraffic) -> float:
    """Longest route over the diameter of the torus."""
    return _ratio(FEATURES["max_dilation"].function(traffic), traffic.torus.diameter)


@register_feature("path_over_max_bytes")
def path_over_max_bytes(traffic: RoutedTraffic) -> float:
    """Most loaded route over the busiest link."""
    return _ratio(max_path_bytes(traffic), float(traffic.link_bytes.max(initial=0)))


@register_feature("bottleneck_over_max_bytes")
def bottleneck_over_max_bytes(traffic: RoutedTraffic) -> float:
    """Mean over the messages of the busiest link on the route, over the busiest link of all."""
    return _ratio(avg_bottleneck_bytes(traffic), float(traffic.link_bytes.max(initial=0)))


@register_feature("off_node_bytes_share")
def off_node_bytes_share(traffic: RoutedTraffic) -> float:
    """Share of the bytes that leave their node."""
    # The sums have different orders: without rounding all of the bytes are a share near 1.
    return round(_ratio(traffic.tally.off_node_bytes, traffic.total_bytes), 12)


def _mean_distance(traffic: RoutedTraffic) -> float:
    """Mean hops between two nodes drawn at random: per dimension, over all pairs of coordinates."""
    total = 0.0
    if traffic.torus.twist:
        # All nodes see the same network.
        return float(traffic.torus.distance(0, np.arange(traffic.torus.n_nodes)).mean())
    for size, wrap in zip(traffic.torus.shape, traffic.torus.wrap, strict=True):
        c = np.arange(size)
        gap = np.abs(c[:, None] - c)
        total += float((np.minimum(gap, size - gap) if wrap else gap).mean())
    return total
