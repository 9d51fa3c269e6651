"""How much of the times of multigrid communications is chance, what that leaves to a forecast."""

from __future__ import annotations

from math import comb

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..sc13.noise import ceiling
from .amg_model import alike

Floats = NDArray[np.float64]

ONE_JOB, TWO_JOBS = "in one job", "in two jobs"
BY_JUMPS, BY_REPEATS = "jumps between levels", "repeats in one job"
# Differences of this order leave little of what is smooth over levels.
_ORDER = 3
# Courses of fewer levels are bent too much for differences to tell chance.
_LEVELS = 8
_DRAWS = 200
_COURSE = ["file", "run", "operator", "matrix", "node_aware", "variant"]


def repeats(table: pd.DataFrame) -> pd.DataFrame:
    """Return how far the times of the same communication lie apart, where it was repeated.

    Parameters
    ----------
    table : DataFrame
        Columns as `studies.read_amg_messages` gives them.

    Returns
    -------
    DataFrame
        A row for matrices and vectors, repeated ``in one job`` or ``in two jobs``: ``repeats``
        and the ``communications`` they are of, ``spread`` (pooled standard deviation of the
        logarithm of time) and ``largest_ratio`` of two times.

    Examples
    --------
    >>> what = {"operator": "A", "matrix": True, "variant": "", "level": 0, "file": "a.out"}
    >>> table = pd.DataFrame([what | {"run": r, "time": t} for r, t in enumerate([1.0, 1.1, 1.2])])
    >>> repeats(table)[["what", "where", "repeats", "largest_ratio"]].values.tolist()
    [['matrices', 'in one job', 3, 1.2]]
    """
    same = table.groupby([alike(table), "variant", "level"], dropna=False).ngroup()
    what = np.where(table["matrix"], "matrices", "vectors")
    marked = table.assign(same=same, what=what, log=np.log(table["time"]))
    parts = {
        ONE_JOB: marked.groupby(["what", "same", "file"])["log"],
        # Each job by its mean, so that repeats within it are not counted as those of jobs.
        TWO_JOBS: marked.groupby(["what", "same", "file"])["log"].mean().groupby(["what", "same"]),
    }
    rows = []
    for where, groups in parts.items():
        found = groups.agg(["size", "var", "max", "min"]).query("size > 1")
        for kind, of_kind in found.groupby("what"):
            free = of_kind["size"] - 1
            rows.append(
                {
                    "what": kind,
                    "where": where,
                    "repeats": int(of_kind["size"].sum()),
                    "communications": len(of_kind),
                    "spread": float(np.sqrt((of_kind["var"] * free).sum() / free.sum())),
                    "largest_ratio": float(np.exp((of_kind["max"] - of_kind["min"]).max())),
                }
            )
    names = ["what", "where", "repeats", "communications", "spread", "largest_ratio"]
    return pd.DataFrame(rows, columns=names)


def jumps(table: pd.DataFrame) -> pd.Series[float]:
    """Return how far the times of each course over the levels jump up and down.

    From level to level, messages and bytes change smoothly. The third differences of logarithms
    hold 20 times the variance of what is independent from level to level, and little else. What
    bends in earnest counts as well: the estimate is rather too high.

    Parameters
    ----------
    table : DataFrame
        Columns as `studies.read_amg_messages` gives them.

    Returns
    -------
    Series of float
        A standard deviation of the logarithm of time for each row, that of its course; NaN in a
        course of fewer than 8 levels or with a level missing.

    Examples
    --------
    >>> course = pd.DataFrame({"level": range(9), "time": np.exp(-1.0 * np.arange(9) ** 2)})
    >>> course = course.assign(file="", run=0, operator="A", matrix=True, node_aware=False)
    >>> float(jumps(course.assign(variant="")).max()) < 1e-12
    True
    """
    ordered = table.assign(log=np.log(table["time"])).sort_values("level", kind="stable")
    courses = ordered.groupby(_COURSE)
    whole = courses["level"].transform(lambda level: bool((np.diff(level) == 1).all())).astype(bool)
    return courses["log"].transform(_jump).where(whole).reindex(table.index)


def _jump(logs: pd.Series[float]) -> float:
    if len(logs) < _LEVELS:
        return np.nan
    difference = np.diff(logs.to_numpy(), _ORDER)
    return float(np.sqrt((difference**2).mean() / comb(2 * _ORDER, _ORDER)))


def ceilings(table: pd.DataFrame, subsets: dict[str, NDArray[np.bool_]]) -> pd.DataFrame:
    """Return the quality that a forecast is not expected to pass, by estimates of what is chance.

    Courses too short to tell their jumps count with the mean square of others of their kind.

    Parameters
    ----------
    table : DataFrame
        Every communication, columns as in `repeats`.
    subsets : dict of name to boolean ndarray, shape (n_rows,)
        The rows to tell it of.

    Returns
    -------
    DataFrame
        ``estimate``, ``subset``, ``rows``, ``spread`` (root mean square over the rows),
        ``rcc_ceiling``, ``r2_ceiling``: of the observed times with times that differ from them by
        as much, mean of 200 draws (seed 0). NaN where there is nothing to estimate it from.
    """
    found = repeats(table).set_index(["where", "what"])["spread"]
    kind = pd.Series(np.where(table["matrix"], "matrices", "vectors"), index=table.index)
    in_one_job = kind.map(lambda what: found.get((ONE_JOB, what), np.nan))
    # Matrices of two jobs differ by what was timed, not by chance.
    in_two_jobs = pd.Series(found.get((TWO_JOBS, "vectors"), np.nan), index=table.index)
    of_courses = jumps(table)
    of_kind = np.sqrt((of_courses**2).groupby(kind).transform("mean"))
    estimates = {
        BY_REPEATS: in_one_job,
        "repeats of vectors in two jobs": in_two_jobs,
        BY_JUMPS: of_courses.fillna(of_kind),
    }
    rows = []
    for name, spread in estimates.items():
        for subset, inside in subsets.items():
            here = spread.to_numpy(float)[inside]
            quality = _ceiling(np.log(table["time"].to_numpy(float)[inside]), here)
            rms = float(np.sqrt((here**2).mean()))
            rows.append(
                {"estimate": name, "subset": subset, "rows": len(here), "spread": rms} | quality
            )
    return pd.DataFrame(rows)


def _ceiling(logs: Floats, spread: Floats) -> dict[str, float]:
    generator = np.random.default_rng(0)
    if not np.isfinite(spread).all() or len(logs) < 3:
        return {"rcc_ceiling": np.nan, "r2_ceiling": np.nan}
    draws = pd.DataFrame(
        ceiling(logs + spread * generator.standard_normal(len(logs)), logs) for _ in range(_DRAWS)
    )
    return {
        "rcc_ceiling": float(draws["ceiling"].mean()),
        "r2_ceiling": float(draws["r2_ceiling"].mean()),
    }


def note(found: pd.DataFrame, everything: str, worst: str) -> str:
    """Return what `ceilings` say of two subsets, in words."""

    def figures(estimate: str, subset: str) -> str:
        row = found[(found["estimate"] == estimate) & (found["subset"] == subset)].iloc[0]
        return f"RCC {row['rcc_ceiling']:.3f} and R^2 {row['r2_ceiling']:.3f}"

    return (
        "What chance leaves (`gemini_amg_ceiling`): if times vary as they do where a job repeated "
        f"a communication, a forecast may reach {figures(BY_REPEATS, everything)} on all rows; if "
        "whatever jumps up and down from level to level is chance (third differences of "
        f"logarithms, in courses of {_LEVELS} levels and more; others count with their mean), "
        f"{figures(BY_JUMPS, everything)}, and {figures(BY_JUMPS, worst)} on the {worst}. By the "
        "second estimate what bends in earnest counts as chance, but what a whole job has of its "
        "own does not."
    )
