"""Plans of measurement runs, and the variation of repeated runs."""

# p = call paths, h = hypotheses, m = candidates and goals

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np
from numpy.typing import ArrayLike

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.typing import Floats
from toruscast.validation import check_type

from .formula import Formula, SupportsFormula
from .measurements import Measurements, as_real_array, check_points
from .models import Models
from .noise import estimate_scale

_MAX_POINTS = 200_000
# Relative error assumed for runs without repetitions, and minimum of an estimated error.
_DEFAULT_ERROR, _MIN_ERROR = 0.05, 1e-6
# A proposed run must reduce the spread to at most this share of its previous value.
_MAX_REMAINING = 0.99
_MAX_RUNS = 100
# No more runs are needed if the relative spread at the goal is at most this.
_MIN_SPREAD = 1e-3
_PLAN_SCOPES = {
    "lines": "each parameter; one sum or product of all",
    "the groups": "products within each group",
    "grid of all": "products of all parameters",
}


def variations(measurements: Measurements) -> pd.DataFrame:
    """Return the variation of the repetitions of each point, as in table 1 of [Shudler18].

    There is a row per call path, metric and point, with the parameters, the number of
    ``repetitions``, their ``mean``, and their coefficient of ``variation`` (NaN for a single run).

    Examples
    --------
    >>> m = Measurements(["p"], [[2], [4]], [[[9.0, 10, 11], [5, 5, 5]]])
    >>> variations(m)["variation"].round(3).tolist()
    [0.1, 0.0]
    """
    check_type(measurements, "measurements", Measurements, "Measurements")
    values = measurements.values
    is_finite = np.isfinite(values)
    n = is_finite.sum(axis=2)
    mean = np.where(is_finite, values, 0.0).sum(axis=2) / n
    square = np.where(is_finite, values - mean[:, :, None], 0.0) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        variation = np.sqrt(square.sum(axis=2) / (n - 1)) / estimate_scale(mean)
    n_paths, n_points = mean.shape
    points = np.tile(measurements.points, (n_paths, 1))
    return pd.DataFrame(
        {
            "callpath": np.repeat(measurements.callpaths, n_points),
            "metric": np.repeat(measurements.metrics, n_points),
            **dict(zip(measurements.parameters, points.T, strict=True)),
            "repetitions": n.ravel(),
            "mean": mean.ravel(),
            "variation": variation.ravel(),
        }
    )


def run_plans(
    values: Mapping[str, Sequence[float]],
    cost: str | Formula | SupportsFormula = "1",
    together: Sequence[Sequence[str]] = (),
) -> tuple[pd.DataFrame, dict[str, Floats]]:
    """List sets of runs to which models can be fitted, from the cheapest set to the whole grid.

    Parameters
    ----------
    values : mapping of str to sequence of float
        Possible values of each parameter; a reliable model needs five.
    cost : str, Formula or fitted model
        Cost of one run.
    together : sequence of sequence of str
        Groups of parameters whose effects may multiply; they add a plan with one grid per group.

    Returns
    -------
    plans : DataFrame
        ``plan``, ``runs`` (number of different points), ``cost``, ``grids`` (as "k x 5^q", if all
        parameters have equally many values), and ``tells`` (effects that its models can contain).
    points : dict of str to array, shape (runs, n_parameters)
        The points of each plan.

    Notes
    -----
    Each of k groups of q parameters is varied on a grid, with the other parameters at their
    cheapest values. With five values of each of m parameters, this needs about k 5^q runs instead
    of 5^m [Shudler18]. The smallest set, "lines", varies each parameter alone; one additional point
    off all lines distinguishes a sum from a product. With noise of a few percent, lines are not
    enough.

    Examples
    --------
    >>> five = range(1, 6)
    >>> plans, points = run_plans({"p": five, "n": five, "m": five}, cost="p")
    >>> plans[["plan", "runs", "cost", "grids"]].values.tolist()  # doctest: +NORMALIZE_WHITESPACE
    [['lines', 14, 25.0, '3 x 5^1 + 1'], ['grids of 2', 61, 151.0, '3 x 5^2'],
     ['grid of all', 125, 375.0, '1 x 5^3']]
    """
    names = list(values)
    levels = [np.unique(as_real_array(list(values[name]), f"values of {name}")) for name in names]
    if not names or not all(level.size for level in levels):
        raise InputError("a plan needs values of each parameter", found=", ".join(names) or "none")
    for name, level in zip(names, levels, strict=True):
        check_points(level[:, None], [name])
    if np.prod([float(level.size) for level in levels]) > _MAX_POINTS:
        raise InputError("too many points in the grid", expected=f"at most {_MAX_POINTS}")
    grid = np.array(list(product(*levels)))
    price = _compute_costs(cost, names, grid)
    cheapest = grid[price.argmin()]
    for group in together:
        unknown = [name for name in group if name not in names]
        if unknown or not group:
            found, expected = ", ".join(unknown), ", ".join(names)
            raise InputError("unknown parameter of a group", found=found, expected=expected)
    # The groups of parameters that are varied together in each plan.
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
        is_chosen = np.zeros(len(grid), dtype=bool)
        for numbers in groups:
            others = [q for q in range(len(names)) if q not in numbers]
            is_chosen |= (grid[:, others] == cheapest[others]).all(axis=1)
        is_off_lines = (grid != cheapest).all(axis=1)
        has_extra = name == "lines" and len(names) > 1 and bool(is_off_lines.any())
        if has_extra:
            is_chosen[np.where(is_off_lines, price, np.inf).argmin()] = True
        points[name] = grid[is_chosen]
        rows.append(
            {
                "plan": name,
                "runs": int(is_chosen.sum()),
                "cost": float(price[is_chosen].sum()),
                "grids": _format_grids(groups, levels) + " + 1" * has_extra,
                "tells": _PLAN_SCOPES.get(name, f"products of {name.split()[-1]} parameters"),
            }
        )
    plans = pd.DataFrame(rows).sort_values("cost", kind="stable", ignore_index=True)
    return plans, points


def _format_grids(groups: Sequence[tuple[int, ...]], levels: Sequence[Floats]) -> str:
    """Format the sizes of grids, as in "3 x 5^2"."""
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
    cost: str | Formula | SupportsFormula = "1",
    budget: float | None = None,
) -> pd.DataFrame:
    """Return the points to measure next to make predictions at a goal more certain.

    A run at a candidate separates the hypotheses of a fit if their predictions there are correlated
    with their predictions at the goal. Runs are chosen greedily, by how much they reduce the
    variance at the goal.

    Parameters
    ----------
    goal : array-like, shape (n_goals, n_parameters)
        Points to predict.
    candidates : array-like, shape (n_candidates, n_parameters), optional
        Possible runs, by default all combinations of measured values.
    cost : str, Formula or fitted model
        Cost of one run, as a function of the parameters.
    budget : float, optional
        Maximum cost of all runs. By default, only the best run is returned.

    Returns
    -------
    DataFrame
        One row per run, in order, with the parameters, ``cost`` and ``spread``. The spread is the
        relative standard deviation between hypotheses at the goal that is expected after the run,
        averaged over the call paths. Empty if no run fits the budget or reduces the spread.

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
    price = _compute_costs(cost, data.parameters, places)
    values, weight = models.hypotheses(np.concatenate([places, goals]))
    mean = np.einsum("ph,phm->pm", weight, values)
    size = np.abs(mean)
    size = np.where(size > 0, size, 1.0)
    deviation = (values - mean[:, None]) / size[:, None]
    covariance = np.einsum("ph,phm,phk->pmk", weight, deviation, deviation)
    noise = variations(data)["variation"].to_numpy().reshape(models.n_paths, -1)
    has_noise = np.isfinite(noise).any(axis=1)
    error = np.full(models.n_paths, _DEFAULT_ERROR)
    error[has_noise] = np.sqrt(np.nanmean(noise[has_noise] ** 2, axis=1))
    error = np.maximum(error, _MIN_ERROR)
    n, max_runs = len(places), 1 if budget is None else _MAX_RUNS
    limit = float(price.max()) if budget is None else budget
    # Try the gain per cost and the gain alone, because one expensive run may be the better choice.
    plans = [
        _choose_runs(covariance, error, divisor, price, n, limit, max_runs)
        for divisor in (price, np.ones_like(price))
    ]
    rows = min(plans, key=lambda rows: rows[-1][1] if rows else np.inf)
    table = pd.DataFrame(places[[k for k, _ in rows]], columns=list(data.parameters))
    return table.assign(cost=price[[k for k, _ in rows]], spread=[spread for _, spread in rows])


def _choose_runs(
    covariance: Floats,
    error: Floats,
    divisor: Floats,
    price: Floats,
    n: int,
    budget: float,
    max_runs: int,
) -> list[tuple[int, float]]:
    """Choose runs greedily among the first n places, by gain divided by `divisor`, (n,).

    The other places are the goals. Hypotheses have this `covariance`, runs have this relative
    `error`, (p,), and a run's gain is the reduction of the variance at the goals. Returns the index
    of each run, and the spread at the goals after that run.
    """
    runs: list[tuple[int, float]] = []
    spread = _compute_spread(covariance[:, n:, n:])
    while len(runs) < max_runs and spread > _MIN_SPREAD:
        variance = np.einsum("pmm->pm", covariance[:, :n, :n]) + error[:, None] ** 2
        gain = ((covariance[:, :n, n:] ** 2).sum(axis=2) / variance).sum(axis=0) / divisor
        gain[price > budget] = 0.0
        best = int(gain.argmax())
        if not gain[best] > 0:
            break
        # Condition the normal distribution of the hypotheses on the run.
        column = covariance[:, best]
        explained = column[:, :, None] * column[:, None, :] / variance[:, best, None, None]
        covariance = covariance - explained
        budget -= price[best]
        last_spread, spread = spread, _compute_spread(covariance[:, n:, n:])
        if spread > _MAX_REMAINING * last_spread:
            break
        runs.append((best, spread))
    return runs


def _compute_spread(covariance: Floats) -> float:
    """Return the root mean variance of all call paths and places, from covariances (p, m, m)."""
    return float(np.sqrt(np.einsum("pgg->pg", covariance).mean().clip(0)))


def _compute_costs(
    cost: str | Formula | SupportsFormula, names: Sequence[str], points: Floats
) -> Floats:
    """Return the cost of each point; raise if a cost is not positive."""
    formula = Formula(Formula.from_model(cost, place="cost").text, names, place="cost")
    value = formula(**dict(zip(names, points.T, strict=True)))
    price: Floats = np.broadcast_to(np.asarray(value, dtype=float), len(points))
    if not (np.isfinite(price) & (price > 0)).all():
        raise InputError("the cost of a run must be above 0", found=price.min())
    return price
