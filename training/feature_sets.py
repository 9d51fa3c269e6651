"""Named selections of features to learn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from toruscast._features import FEATURES, RoutedTraffic, extract_blocks
from toruscast._features.table import TIME_COLUMN
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.routing import Routing
from toruscast.simulation.flows import flow_messages
from toruscast.validation import repeated

from .store import LABELS

Target = Literal["time", "slowdown", "correction", "measured"]
"""What is learned from features; see `TimePredictor`."""
LOWER_BOUND = "lower_bound"
COARSE_TIME = "coarse_time"
BOUND = "release_bound"
HELD_OUT = "held_out_rcc"
"""What a model's provenance calls the order of its samples held out, by itself and by `BOUND`."""
TARGET_COLUMNS: dict[Target, tuple[str, ...]] = {
    "time": (),
    "slowdown": (LOWER_BOUND,),
    "correction": (LOWER_BOUND, COARSE_TIME),
    "measured": (LOWER_BOUND,),
}
"""Columns that a table must have for a target, besides the ``reference`` of measured times."""
REFERENCE: dict[Target, str] = {"slowdown": LOWER_BOUND, "correction": COARSE_TIME}
"""What times are taken relative to, where the target says it."""
KNOWS_PLACE: tuple[Target, ...] = ("time", "measured")
"""Targets of which a model knows little where features are far from those learned from."""

_RELATIVE = (
    "link_share",
    "injection_share",
    "reception_share",
    "latency_share",
    "max_over_avg_bytes",
    "std_over_avg_bytes",
    "idle_links",
    "bytes_AO_share",
    "bytes_TO_share",
    "max_over_avg_FIFO",
    "relative_hops",
    "relative_max_dilation",
    "path_over_max_bytes",
    "bottleneck_over_max_bytes",
    "off_node_bytes_share",
)
_H1 = ("avg_bytes", "max_bytes", "max_FIFO")

FEATURE_SETS = MappingProxyType(
    {
        "prior": ("max_dilation", "avg_bytes", "max_bytes"),
        "H1": _H1,
        "H2": (*_H1, "sum_dilation_AO"),
        "H3": (*_H1, "avg_buffer"),
        # The text of the paper keeps max_FIFO here, its table does not; the table was measured.
        "H4": ("avg_bytes", "max_bytes", "avg_buffer_TO"),
        "H5": ("avg_bytes_TO", "avg_buffer_TO", "avg_delay_AO", "sum_hops_AO", "max_FIFO"),
        "H6": (
            "avg_bytes_TO",
            "avg_buffer_AO",
            "avg_delay_TO",
            "avg_delay_AO",
            "sum_hops_AO",
            "max_FIFO",
        ),
        "analytic": (
            "lower_bound",
            "release_bound",
            "link_bound",
            "injection_bound",
            "avg_bytes",
            "max_bytes",
            "std_bytes",
            "q99_bytes",
            "avg_bytes_AO",
            "avg_bytes_TO",
            "avg_dilation",
            "max_dilation",
            "sum_hops_AO",
            "avg_path_bytes",
            "max_path_bytes",
            "avg_bottleneck_bytes",
            "max_FIFO",
        ),
        "relative": (*_RELATIVE, "release_slowdown"),
        "coarse": (*_RELATIVE, "coarse_slowdown"),
    }
)
"""Feature names by set: ``prior`` and ``H1`` to ``H6`` of Jain et al., SC'13, table 3; ``analytic``
needs no simulation; ``relative`` needs none either and has no units, so that what is learned from
it carries over to other sizes, graphs and machines; ``coarse`` adds the time of a simulation with
packets four times as long, or longer: a quarter of the cost of the full one, or less."""


COARSE_FEATURES = frozenset({"coarse_time", "coarse_slowdown"})
"""Features that come from the sketch."""


def usual_target(names: Iterable[str]) -> Target:
    """Return what is learned from features if nothing else is asked for."""
    there = set(names)
    if there & COARSE_FEATURES:
        return "correction"
    return "slowdown" if there >= set(_RELATIVE) else "time"


def feature_set(features: str | Sequence[str]) -> tuple[str, ...]:
    """Return the feature names of a named set, or of a list of names as it stands.

    Examples
    --------
    >>> feature_set("prior")
    ('max_dilation', 'avg_bytes', 'max_bytes')
    >>> feature_set(["max_bytes", "my_metric"])
    ('max_bytes', 'my_metric')
    """
    if isinstance(features, str):
        if features not in FEATURE_SETS:
            raise InputError(
                "unknown feature set",
                found=features,
                expected=f"{' or '.join(FEATURE_SETS)}, or a list of features",
            )
        return FEATURE_SETS[features]
    names = tuple(features) if isinstance(features, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError("bad feature list", found=names, expected="one or more names")
    twice = repeated(names)
    if twice:
        raise InputError("feature named twice", found=twice[0], expected="each name once")
    return names


def needed_level(names: Iterable[str], target: Target | None = None) -> int:
    """Return 2 where one of the features, or the target, needs the simulator, else 1."""
    needed = (*names, *(TARGET_COLUMNS[target] if target is not None else ()))
    return max((FEATURES[name].level for name in needed if name in FEATURES), default=1)


SIMULATED: MappingProxyType[str, Callable[[RoutedTraffic], float]] = MappingProxyType(
    {
        "simulated_time": TIME_COLUMN["time"],
        "flow_time": lambda routed: flow_messages(routed.problem, routed.mapping).time,
    }
)
"""Times of a simulation by packets and of one by flows, by name. They are no features: learned
times are often simulated ones themselves."""
REFERENCES = MappingProxyType(
    {
        "release_bound": "the lower bound that knows when messages are released",
        "lower_bound": "the lower bound",
        "coarse_time": "the time of a coarser simulation",
        "simulated_time": "the simulated time",
        "flow_time": "the time of simulated flows",
    }
)
"""What measured times may follow, the cheapest first, and each in words."""


def in_words(reference: str) -> str:
    """Return what a reference is."""
    return REFERENCES.get(reference, reference)


def with_references(
    problem: MappingProblem,
    mappings: Sequence[TaskMapping],
    names: Iterable[str],
    *,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Return these features and references of each mapping, indexed by its name."""
    wanted = tuple(dict.fromkeys(names))
    blocks = extract_blocks(
        problem,
        mappings,
        features=[name for name in wanted if name not in SIMULATED],
        extra={name: SIMULATED[name] for name in wanted if name in SIMULATED},
        n_jobs=n_jobs,
        progress=None if progress is None else lambda done: progress(done, len(mappings)),
    )
    return pd.concat(blocks)


def references_to_try(routing: Routing, simulate: bool) -> tuple[str, ...]:
    """Return the references that there are under a routing, with or without a simulation.

    Flows know of dimension order only.
    """
    if not simulate:
        return BOUND, LOWER_BOUND
    return tuple(name for name in REFERENCES if name != "flow_time" or routing == "deterministic")


Floats = NDArray[np.float64]
# Share of a value by which sums in another order may differ.
_ROUNDING = 1e-12


def check_order(table: object, **columns: object) -> None:
    """Raise if a column has the table's labels in another order: rows go by place."""
    for name, values in columns.items():
        if not (isinstance(table, pd.DataFrame) and isinstance(values, pd.Series)):
            continue
        if not values.index.equals(table.index) and set(values.index) == set(table.index):
            raise InputError(
                f"{name} in another order than the features", expected="such as y.loc[X.index]"
            )


def check_times(times: object) -> None:
    """Raise if one of the times is no finite number; what is no column scikit-learn refuses."""
    try:
        # Next to a text, NumPy makes texts of numbers too, unless they are objects.
        array = np.asarray(times, dtype=object)
    except ValueError:
        return
    for row, value in enumerate(array if array.ndim == 1 else ()):
        if isinstance(value, complex):
            return
        is_number = isinstance(value, Real)
        if not (is_number and math.isfinite(value)):
            raise InputError(
                f"bad observed time of row {row}",
                found=value if is_number else repr(value),
                expected="a number of seconds",
            )


def columns_of(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Columns of these names, or an error that names those that are missing."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise InputError("missing features", found=list(table.columns), expected=", ".join(missing))
    return table[list(names)]


def features_only(table: pd.DataFrame) -> pd.DataFrame:
    """Table without the labels of samples and their time, which is no feature of itself."""
    return table.drop(columns=["time", *LABELS], errors="ignore")


def finite(table: pd.DataFrame) -> pd.DataFrame:
    """Table of features, or an error that names the one of which a value is missing."""
    numbers = table.select_dtypes("number")
    values = numbers.to_numpy(dtype=np.float64)
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        more = int(bad[:, column].sum()) - 1
        raise InputError(
            f"feature {numbers.columns[column]} is not finite",
            found=f"{values[row, column]} in row {row}" + (f" and {more} more" if more else ""),
            expected="numbers",
        )
    return table


def seconds_of(table: object, name: str) -> Floats:
    """Column of positive times, or an error that says what it is instead."""
    if not isinstance(table, pd.DataFrame):
        raise InputError(
            "times over another need a table",
            found=type(table).__name__,
            expected=f"a DataFrame with {name}",
        )
    seconds: Floats = columns_of(table, [name])[name].to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(seconds) & (seconds > 0)))
    if bad.size:
        raise InputError(
            f"bad {name} of row {bad[0]}", found=seconds[bad[0]], expected="positive seconds"
        )
    return seconds


def normalisation(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each column, the latter 1 where that is 0 but for rounding.

    Divided by a deviation of some last digits, a constant column would become noise.
    """
    scale = values.std(axis=0)
    is_constant = scale <= _ROUNDING * np.abs(values).max(axis=0)
    return values.mean(axis=0), np.where(is_constant, 1.0, scale)
