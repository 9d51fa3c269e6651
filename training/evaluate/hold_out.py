"""How well forecasts hold on applications, kinds, tori and sizes held out of training."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from toruscast.errors import InputError
from toruscast.training.predictor.predictor import TimePredictor
from toruscast.training.samples._table import columns_of, features_only
from toruscast.validation import job_count, one_of
from toruscast.workers import Task

from .metrics import rcc_told_apart, regret
from .pmnf_baseline import PMNFBaseline, sizes_of

HoldOut = Literal["application", "kind", "torus", "size"]
Floats = NDArray[np.float64]
SEVERAL: Mapping[str, str] = {
    "application": "applications",
    "kind": "kinds",
    "torus": "tori",
    "size": "sizes",
}
BOUNDS = {"release_bound": "release bound", "lower_bound": "lower bound"}
"""Columns that order without learning, the better one first, and what their rows are called."""
COVERAGE = 0.9


def hold_out(
    table: pd.DataFrame,
    predictors: Mapping[str, TimePredictor | PMNFBaseline],
    by: HoldOut,
    *,
    time: str = "time",
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Train on all but one application, kind, torus or size, and score the forecast of that one.

    Parameters
    ----------
    table : DataFrame
        Features and observed times of mappings, with the labels ``workload`` and ``torus``.
    predictors : mapping of str to predictor
        Each is trained on the same rows.
    by : {"application", "kind", "torus", "size"}
        What is held out, once each: a workload; a kind of traffic, which is the pattern of a
        generated workload and else its name up to a number (``lammps-lj`` of ``lammps-lj-64``);
        a torus; or only the workload and torus with the most nodes times bytes of a message.
    time : str
        Column of the observed times.
    n_jobs : int, optional
        Processes.
    progress : callable, optional
        Called with the number of fits done and of all.

    Returns
    -------
    DataFrame
        A row per predictor, group held out, and workload and torus in it: ``predictor, held_out,
        workload, torus, n_train, n_test``; ``rcc, rcc_1, rcc_5``, of the pairs that differ at all,
        by more than 1 % and by more than 5 % (`rcc_told_apart`); ``regret_1``; ``error``, the
        median relative error; ``coverage``, the share of times inside the 90 % intervals, NaN of a
        predictor without them. The rows ``release bound`` order by that column without learning,
        or ``lower bound`` where only that is there.

    Raises
    ------
    InputError
        If there are fewer than two groups, or a column is missing.

    Examples
    --------
    >>> table = pd.DataFrame({"workload": ["a"] * 30 + ["b"] * 30, "torus": "4x4",
    ...     "max_bytes": np.tile(np.arange(1.0, 31.0), 2)})
    >>> table = table.assign(time=1e-6 * table["max_bytes"])
    >>> scores = hold_out(table, {"max": TimePredictor(["max_bytes"])}, "application")
    >>> scores["held_out"].tolist(), scores["n_train"].tolist(), scores["rcc"].min() > 0.95
    (['a', 'b'], [30, 30], np.True_)
    """
    one_of(by, "what is held out", get_args(HoldOut))
    blocks = columns_of(table, ("workload", "torus")).astype(str).reset_index(drop=True)
    observed = columns_of(table, [time])[time].to_numpy(dtype=np.float64)
    groups = _groups(table, blocks, by)
    if groups.nunique() < 2:
        raise InputError(
            f"too few {SEVERAL[by]} to hold one out",
            found=", ".join(groups.unique()) or "no samples",
            expected=f"samples of several {SEVERAL[by]} in one table",
        )
    held = list(groups.unique())
    if by == "size":
        sizes = sizes_of(table).reset_index(drop=True)
        held = [(sizes["nodes"] * sizes["message_bytes"]).groupby(groups).mean().idxmax()]
    features = features_only(table, time)
    known = [name for name in BOUNDS if name in features and features[name].notna().all()][:1]
    orders = {**predictors, **{BOUNDS[name]: name for name in known}}
    work = [(name, group) for name in orders for group in held]
    # Processes, for scikit-learn's fits change the warning filters, which threads share.
    score = Task(_score, features, observed, blocks, groups)
    items = [(orders[name], groups == group) for name, group in work]
    found = score.in_order(items, job_count(n_jobs), processes=True, progress=progress)
    return pd.DataFrame(
        {"predictor": name, "held_out": group, **row}
        for (name, group), rows in zip(work, found, strict=True)
        for row in rows
    )


def _groups(table: pd.DataFrame, blocks: pd.DataFrame, by: HoldOut) -> pd.Series[str]:
    """Return the group of each row."""
    if by == "size":
        return blocks.agg(" on ".join, axis=1)
    if by != "kind":
        return blocks["torus" if by == "torus" else "workload"]
    told = table.attrs.get("provenance", {}).get("workloads")
    recipes = told if isinstance(told, Mapping) else {}

    def kind(name: str) -> str:
        recipe = recipes.get(name)
        pattern = recipe.get("pattern") if isinstance(recipe, Mapping) else None
        return str(pattern or re.split(r"[-_ ]\d", name)[0] or name)

    return blocks["workload"].map(kind)


def _score(
    features: pd.DataFrame,
    observed: Floats,
    blocks: pd.DataFrame,
    groups: pd.Series[str],
    item: tuple[TimePredictor | PMNFBaseline | str, pd.Series[bool]],
) -> list[dict[str, object]]:
    """Return the scores of one predictor, or of a column, on each workload and torus held out."""
    predictor, test = item[0], item[1].to_numpy()
    ends, n_train = None, 0
    if isinstance(predictor, str):
        said = features[predictor].to_numpy(dtype=np.float64)[test]
    else:
        n_train = int((~test).sum())
        model, others, more = clone(predictor), groups[~test], {}
        if isinstance(model, TimePredictor) and 1 < others.nunique() < others.size:
            # Intervals are to hold for what is held out: the folds behind them keep it together.
            more["groups"] = others.to_numpy()
        model.fit(features[~test], observed[~test], **more)
        said = model.predict(features[test])
        if getattr(model, "calibration_", None) is not None:
            ends = model.predict_interval(features[test], COVERAGE)
    times, rows = observed[test], []
    own = blocks[test].reset_index(drop=True)
    for _, part in own.groupby(["workload", "torus"], sort=False):
        at = part.index.to_numpy()
        x, y = times[at], said[at]
        many = x.size > 1
        row: dict[str, object] = {str(name): value for name, value in part.iloc[0].items()}
        row |= {"n_train": n_train, "n_test": x.size}
        for name, apart in (("rcc", 0.0), ("rcc_1", 0.01), ("rcc_5", 0.05)):
            row[name] = rcc_told_apart(x, y, apart) if many else np.nan
        row["regret_1"] = regret(x, y) if many else np.nan
        row["error"] = float(np.median(np.abs(y / x - 1))) if n_train else np.nan
        inside = None if ends is None else (ends[at, 0] <= x) & (x <= ends[at, 1])
        row["coverage"] = np.nan if inside is None else float(inside.mean())
        rows.append(row)
    return rows
