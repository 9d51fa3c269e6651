"""Plans of runs, and the variation of runs at one point."""

# p = call paths, h = hypotheses, m = candidates and goals

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.validation import check_type

from .formula import Fitted, Formula
from .measurements import Measurements, check_points, real_numbers
from .models import Models
from .noise import scale_of

Array = NDArray[np.float64]

_MAX_POINTS = 200_000
# Relative error of a run where there are no repetitions.
_UNKNOWN = 0.05
# A run that leaves more than this share of the spread is not proposed.
_HELPS = 0.99
# Most runs proposed at once.
_MAX_RUNS = 100
# No more runs are needed once hypotheses differ by less than this share at the goal.
_AGREED = 1e-3


def variations(measurements: Measurements) -> pd.DataFrame:
    """Return how much the repetitions of each point differ, as in table 1 of [Shudler18].

    A row for each call path, metric and point: the parameters, ``repetitions``, ``mean``, and
    ``variation``, the standard deviation over the mean; NaN for a single run.

    Examples
    --------
    >>> m = Measurements(["p"], [[2], [4]], [[[9.0, 10, 11], [5, 5, 5]]])
    >>> variations(m)["variation"].round(3).tolist()
    [0.1, 0.0]
    """
    check_type(measurements, "measurements", Measurements, "Measurements")
    values = measurements.values
    there = np.isfinite(values)
    n = there.sum(axis=2)
    mean = np.where(there, values, 0.0).sum(axis=2) / n
    square = np.where(there, values - mean[:, :, None], 0.0) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        variation = np.sqrt(square.sum(axis=2) / (n - 1)) / scale_of(mean)
    paths, points = mean.shape
    place = {
        name: np.tile(column, paths)
        for name, column in zip(measurements.parameters, measurements.points.T, strict=True)
    }
    return pd.DataFrame(
        {
            "callpath": np.repeat(measurements.callpaths, points),
            "metric": np.repeat(measurements.metrics, points),
            **place,
            "repetitions": n.ravel(),
            "mean": mean.ravel(),
            "variation": variation.ravel(),
        }
    )


def run_plans(
    values: Mapping[str, Sequence[float]],
    cost: str | Formula | Fitted = "1",
    together: Sequence[Sequence[str]] = (),
) -> tuple[pd.DataFrame, dict[str, Array]]:
    """List sets of runs that models can be fitted to, from the cheapest to the whole grid.

    Parameters
    ----------
    values : mapping of str to sequence of float
        Values of each parameter that can be run; five of each are needed for a reliable model.
    cost : str, Formula or fitted model
        Of one run.
    together : sequence of sequence of str
        Groups of parameters whose effects may multiply, for one more plan: a grid of each group.

    Returns
    -------
    plans : DataFrame
        ``plan``, ``runs`` (different points), ``cost``, ``grids`` (as "k x 5^q", if all parameters
        have equally many values), and ``tells``: what its models can hold.
    points : dict of str to array, shape (runs, n_parameters)
        The points of each plan.

    Notes
    -----
    Each of k groups of q parameters is varied on a grid, and the others stay at the value that is
    cheapest; k 5^q runs are far fewer than 5^m [Shudler18]. "lines" is the least set: each
    parameter is varied alone, and one point off all lines separates a sum from a product; noise of
    a few percent needs a grid.

    Examples
    --------
    >>> five = range(1, 6)
    >>> plans, points = run_plans({"p": five, "n": five, "m": five}, cost="p")
    >>> plans[["plan", "runs", "cost", "grids"]].values.tolist()  # doctest: +NORMALIZE_WHITESPACE
    [['lines', 14, 25.0, '3 x 5^1 + 1'], ['grids of 2', 61, 151.0, '3 x 5^2'],
     ['grid of all', 125, 375.0, '1 x 5^3']]
    """
    names = list(values)
    levels = [np.unique(real_numbers(list(values[name]), f"values of {name}")) for name in names]
    if not names or not all(level.size for level in levels):
        raise InputError("a plan needs values of each parameter", found=", ".join(names) or "none")
    for name, level in zip(names, levels, strict=True):
        check_points(level[:, None], [name])
    if np.prod([float(level.size) for level in levels]) > _MAX_POINTS:
        raise InputError("too many points in the grid", expected=f"at most {_MAX_POINTS}")
    grid = np.array(list(product(*levels)))
    price = _costs(cost, names, grid)
    base = grid[price.argmin()]
    for group in together:
        unknown = [name for name in group if name not in names]
        if unknown or not group:
            raise InputError(
                "unknown parameter of a group", found=", ".join(unknown), expected=", ".join(names)
            )
    sets: dict[str, list[tuple[int, ...]]] = {"lines": list(combinations(range(len(names)), 1))}
    if together:
        groups = [tuple(sorted({names.index(name) for name in group})) for group in together]
        lines = [(q,) for q in range(len(names)) if not any(q in group for group in groups)]
        sets["the groups"] = [*groups, *lines]
    for q in range(2, len(names)):
        sets[f"grids of {q}"] = list(combinations(range(len(names)), q))
    sets["grid of all"] = [tuple(range(len(names)))]
    rows, points = [], {}
    for name, groups in sets.items():
        chosen = np.zeros(len(grid), dtype=bool)
        for numbers in groups:
            others = [q for q in range(len(names)) if q not in numbers]
            chosen |= (grid[:, others] == base[others]).all(axis=1)
        off = (grid != base).all(axis=1)
        extra = name == "lines" and len(names) > 1 and bool(off.any())
        if extra:
            chosen[np.where(off, price, np.inf).argmin()] = True
        points[name] = grid[chosen]
        rows.append(
            {
                "plan": name,
                "runs": int(chosen.sum()),
                "cost": float(price[chosen].sum()),
                "grids": _counted(groups, levels) + " + 1" * extra,
                "tells": _TELLS.get(name, f"products of {name.split()[-1]} parameters"),
            }
        )
    plans = pd.DataFrame(rows).sort_values("cost", kind="stable", ignore_index=True)
    return plans, points


_TELLS = {
    "lines": "each parameter; one sum or product of all",
    "the groups": "products within each group",
    "grid of all": "products of all parameters",
}


def _counted(groups: Sequence[tuple[int, ...]], levels: Sequence[Array]) -> str:
    """Return the size of the grids, such as "3 x 5^2"."""
    sizes = {level.size for level in levels}
    if len(sizes) > 1:
        return " + ".join("x".join(str(levels[q].size) for q in group) for group in groups)
    counts = np.bincount([len(group) for group in groups])
    size = sizes.pop()
    return " + ".join(f"{k} x {size}^{q}" for q, k in enumerate(counts) if k)


def next_runs(
    models: Models,
    goal: ArrayLike,
    candidates: ArrayLike | None = None,
    cost: str | Formula | Fitted = "1",
    budget: float | None = None,
) -> pd.DataFrame:
    """Return the points to measure next, so that predictions elsewhere become more certain.

    The hypotheses of a fit differ at the goal. A run at a candidate separates them if their values
    at the candidate are correlated with those at the goal. Runs are chosen one by one, by the
    variance at the goal that each removes.

    Parameters
    ----------
    goal : array-like, shape (n_goals, n_parameters)
        Where predictions are wanted.
    candidates : array-like, shape (n_candidates, n_parameters), optional
        Points that can be run; by default all combinations of measured values, measured or not.
    cost : str, Formula or fitted model
        Of one run, from the parameters.
    budget : float, optional
        Largest cost of all runs together; without it, the one best run.

    Returns
    -------
    DataFrame
        A row for each run, in order: the parameters, ``cost``, and ``spread``, the relative
        standard deviation of the hypotheses at the goal that is expected after it, a mean over the
        call paths. Empty if nothing fits the budget or would help.

    Examples
    --------
    >>> from toruscast.scaling import fit_many
    >>> p = [4, 8, 16, 32]
    >>> times = [[x * 1.02, x * 0.98] for x in (9.0, 9.5, 10.0, 10.4)]
    >>> models = fit_many(Measurements(["p"], [[x] for x in p], [times]))
    >>> next_runs(models, [[1024]], [[4], [64], [256]])["p"].tolist()
    [256.0]
    >>> next_runs(models, [[1024]], [[4], [64], [256]], cost="p", budget=200)["p"].tolist()
    [64.0, 64.0, 64.0]
    """
    check_type(models, "models", Models, "Models, as fit_many returns")
    data = models.measurements
    goals = models.places(goal)
    if candidates is None:
        candidates = list(product(*(np.unique(column) for column in data.points.T)))
    places = models.places(candidates)
    price = _costs(cost, data.parameters, places)
    values, weight = models.hypotheses(np.concatenate([places, goals]))
    mean = np.einsum("ph,phm->pm", weight, values)
    size = np.abs(mean)
    size = np.where(size > 0, size, 1.0)
    apart = (values - mean[:, None]) / size[:, None]
    spread = np.einsum("ph,phm,phk->pmk", weight, apart, apart)
    noise = variations(data)["variation"].to_numpy().reshape(models.n_paths, -1)
    known = np.isfinite(noise).any(axis=1)
    error = np.full(models.n_paths, _UNKNOWN)
    error[known] = np.sqrt(np.nanmean(noise[known] ** 2, axis=1))
    error = np.maximum(error, 1e-6)
    n, most = len(places), 1 if budget is None else _MAX_RUNS
    limit = float(price.max()) if budget is None else budget
    # Cheap runs first may be better, or a single expensive one.
    orders = [
        _chosen(spread, error, each, price, n, limit, most) for each in (price, price * 0 + 1)
    ]
    rows = min(orders, key=lambda rows: rows[-1][1] if rows else np.inf)
    table = pd.DataFrame(places[[k for k, _ in rows]], columns=list(data.parameters))
    return table.assign(cost=price[[k for k, _ in rows]], spread=[after for _, after in rows])


def _chosen(
    spread: Array, error: Array, weight: Array, price: Array, n: int, budget: float, most: int
) -> list[tuple[int, float]]:
    """Choose one candidate after the other; return their numbers, and the spread after each."""
    rows: list[tuple[int, float]] = []
    after = _root_mean(spread[:, n:, n:])
    while len(rows) < most and after > _AGREED:
        own = np.einsum("pmm->pm", spread[:, :n, :n]) + error[:, None] ** 2
        gain = ((spread[:, :n, n:] ** 2).sum(axis=2) / own).sum(axis=0) / weight
        gain[price > budget] = 0.0
        best = int(gain.argmax())
        if not gain[best] > 0:
            break
        along = spread[:, best]
        spread = spread - along[:, :, None] * along[:, None, :] / own[:, best, None, None]
        budget -= price[best]
        before, after = after, _root_mean(spread[:, n:, n:])
        if after > _HELPS * before:
            break
        rows.append((best, after))
    return rows


def _root_mean(covariance: Array) -> float:
    return float(np.sqrt(np.einsum("pgg->pg", covariance).mean().clip(0)))


def _costs(cost: str | Formula | Fitted, names: Sequence[str], points: Array) -> Array:
    """Return the cost of each point, and refuse one that is not positive."""
    formula = Formula(Formula.from_model(cost, place="cost").text, names, place="cost")
    value = formula(**dict(zip(names, points.T, strict=True)))
    price: Array = np.broadcast_to(np.asarray(value, dtype=float), len(points))
    if not (np.isfinite(price) & (price > 0)).all():
        raise InputError("the cost of a run must be above 0", found=price.min())
    return price
