"""Named feature sets, targets of learning, and checks of feature tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from types import MappingProxyType
from typing import Literal

import numpy as np

from toruscast._features import FEATURES, RoutedTraffic, extract_blocks
from toruscast._features.table import TIME_COLUMN
from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.formats import readers
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.routing import Routing
from toruscast.simulation.flows import simulate_flows
from toruscast.text import closest
from toruscast.typing import Floats
from toruscast.validation import repeated

from .store import LABELS

Target = Literal["time", "slowdown", "correction", "measured"]
"""Quantity that is learned from features; see `TimePredictor`."""
LOWER_BOUND = "lower_bound"
COARSE_TIME = "coarse_time"
BOUND = "release_bound"
HELD_OUT = "held_out_rcc"
"""Key of a model's provenance: RCC of held-out samples, for the model and for `BOUND`."""
TARGET_COLUMNS: dict[Target, tuple[str, ...]] = {
    "time": (),
    "slowdown": (LOWER_BOUND,),
    "correction": (LOWER_BOUND, COARSE_TIME),
    "measured": (LOWER_BOUND,),
}
"""Columns that a table needs for a target; for measured times, also the ``reference``."""
REFERENCE: dict[Target, str] = {"slowdown": LOWER_BOUND, "correction": COARSE_TIME}
"""Column that relative targets divide times by."""
SCALE_DEPENDENT_TARGETS: tuple[Target, ...] = ("time", "measured")
"""Targets that do not extrapolate to other sizes, because their features have units."""

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
_H6 = ("avg_bytes_TO", "avg_buffer_AO", "avg_delay_TO", "avg_delay_AO", "sum_hops_AO", "max_FIFO")

FEATURE_SETS = MappingProxyType(
    {
        "prior": ("max_dilation", "avg_bytes", "max_bytes"),
        "H1": _H1,
        "H2": (*_H1, "sum_dilation_AO"),
        "H3": (*_H1, "avg_buffer"),
        # As in the table of the paper, whose text also lists max_FIFO.
        "H4": ("avg_bytes", "max_bytes", "avg_buffer_TO"),
        "H5": ("avg_bytes_TO", "avg_buffer_TO", "avg_delay_AO", "sum_hops_AO", "max_FIFO"),
        "H6": _H6,
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
needs no simulation; ``relative`` is also dimensionless, so its models transfer to other sizes,
graphs and machines; ``coarse`` adds the time of a coarse simulation, which costs at
most a quarter of a full one."""

COARSE_FEATURES = frozenset({"coarse_time", "coarse_slowdown"})
"""Features that need a coarse simulation."""
SIMULATED: MappingProxyType[str, Callable[[RoutedTraffic], float]] = MappingProxyType(
    {
        "simulated_time": TIME_COLUMN["time"],
        "flow_time": lambda routed: simulate_flows(routed.problem, mapping=routed.mapping).time,
    }
)
"""Times of a packet and of a flow simulation. They are not features, because models usually predict
simulated times."""
REFERENCES = MappingProxyType(
    {
        "release_bound": "the release bound",
        "lower_bound": "the lower bound",
        "coarse_time": "the time of a coarse simulation",
        "simulated_time": "the simulated time",
        "flow_time": "the time of a flow simulation",
    }
)
"""Reference times on which measured times are regressed, and their descriptions; the fastest to
compute first."""
# Relative rounding error of a sum, which depends on the order of the terms.
_ROUNDING = 1e-12


def usual_target(names: Iterable[str]) -> Target:
    """Return the default target for features."""
    features = set(names)
    if features & COARSE_FEATURES:
        return "correction"
    return "slowdown" if features >= set(_RELATIVE) else "time"


def feature_set(features: str | Sequence[str]) -> tuple[str, ...]:
    """Return the feature names of a named set; a list of names is checked and returned.

    Examples
    --------
    >>> feature_set("prior")
    ('max_dilation', 'avg_bytes', 'max_bytes')
    >>> feature_set(["max_bytes", "my_metric"])
    ('max_bytes', 'my_metric')
    """
    if isinstance(features, str):
        if features not in FEATURE_SETS:
            expected = f"{closest(features, FEATURE_SETS)}, or a list of features"
            raise InputError("unknown feature set", found=features, expected=expected)
        return FEATURE_SETS[features]
    names = tuple(features) if isinstance(features, Iterable) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError("bad feature list", found=names, expected="one or more names")
    twice = repeated(names)
    if twice:
        raise InputError("feature named twice", found=twice[0], expected="each name once")
    return names


def needed_level(names: Iterable[str], target: Target | None = None) -> int:
    """Return level 2 if a feature or the target needs the simulator, else level 1."""
    columns = (*names, *(TARGET_COLUMNS[target] if target is not None else ()))
    return max((FEATURES[name].level for name in columns if name in FEATURES), default=1)


def with_references(
    problem: MappingProblem,
    mappings: Sequence[TaskMapping],
    names: Iterable[str],
    *,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Return a table of features and reference times (keys of `SIMULATED`), by mapping name."""
    columns = tuple(dict.fromkeys(names))
    blocks = extract_blocks(
        problem,
        mappings,
        features=[name for name in columns if name not in SIMULATED],
        extra={name: SIMULATED[name] for name in columns if name in SIMULATED},
        n_jobs=n_jobs,
        progress=None if progress is None else lambda done: progress(done, len(mappings)),
    )
    return pd.concat(blocks)


def references_to_try(routing: Routing, simulate: bool) -> tuple[str, ...]:
    """Return the reference times that are available for a routing, with or without simulations."""
    if not simulate:
        return BOUND, LOWER_BOUND
    # The flow simulation needs dimension-order routes.
    return tuple(name for name in REFERENCES if name != "flow_time" or routing == "deterministic")


def check_order(table: object, **columns: object) -> None:
    """Raise `InputError` if a column and the table have the same index in different orders.

    scikit-learn matches rows by position.
    """
    for name, values in columns.items():
        if not (isinstance(table, pd.DataFrame) and isinstance(values, pd.Series)):
            continue
        if not values.index.equals(table.index) and set(values.index) == set(table.index):
            expected = "such as y.loc[X.index]"
            raise InputError(f"{name} and features differ in order", expected=expected)


def check_times(times: object) -> None:
    """Raise `InputError` if a time is not finite; scikit-learn checks the shape and the type."""
    try:
        # Without ``dtype=object``, one string would convert all numbers to strings.
        array = np.asarray(times, dtype=object)
    except ValueError:
        return
    for row, value in enumerate(array if array.ndim == 1 else ()):
        if isinstance(value, complex):
            return
        is_number = isinstance(value, Real)
        if not (is_number and math.isfinite(value)):
            found, expected = value if is_number else repr(value), "a number of seconds"
            raise InputError(f"bad observed time of row {row}", found=found, expected=expected)


def columns_of(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return columns of a table; raise `InputError` if some are missing."""
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise InputError("missing features", found=list(table.columns), expected=", ".join(missing))
    return table[list(names)]


def features_only(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table without its columns of labels and times."""
    return table.drop(columns=["time", *LABELS], errors="ignore")


def check_finite(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of features; raise `InputError` if a value is not finite."""
    numbers = table.select_dtypes("number")
    values = numbers.to_numpy(dtype=np.float64)
    is_bad = ~np.isfinite(values)
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        more = int(is_bad[:, column].sum()) - 1
        found = f"{values[row, column]} in row {row}" + (f" and {more} more" if more else "")
        message = f"feature {numbers.columns[column]} is not finite"
        raise InputError(message, found=found, expected="numbers")
    return table


def seconds_of(table: object, name: str) -> Floats:
    """Return a column of times; raise `InputError` unless all are positive."""
    if not isinstance(table, pd.DataFrame):
        found, expected = type(table).__name__, f"a DataFrame with {name}"
        raise InputError("relative times need a table", found=found, expected=expected)
    seconds: Floats = columns_of(table, [name])[name].to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(seconds) & (seconds > 0)))
    if bad.size:
        expected = "positive seconds"
        raise InputError(f"bad {name} of row {bad[0]}", found=seconds[bad[0]], expected=expected)
    return seconds


def node_counts(table: object) -> Floats:
    """Return the number of nodes in each sample's torus; empty if a torus is unknown."""
    if not isinstance(table, pd.DataFrame) or "torus" not in table:
        return np.empty(0)
    names, index = np.unique(table["torus"].to_numpy(dtype=str), return_inverse=True)
    try:
        counts = [readers.torus(str(name)).n_nodes for name in names]
        return np.asarray(np.array(counts, dtype=np.float64)[index])
    except InputError:
        return np.empty(0)


def normalisation(values: Floats) -> tuple[Floats, Floats]:
    """Return each column's mean and standard deviation; the latter is 1 for a constant column."""
    scale = values.std(axis=0)
    is_constant = scale <= _ROUNDING * np.abs(values).max(axis=0)
    return values.mean(axis=0), np.where(is_constant, 1.0, scale)
