"""How well forecasts hold on applications, kinds, tori and sizes held out of training."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import LeaveOneGroupOut

from toruscast.errors import InputError
from toruscast.training.predictor.predictor import TimePredictor
from toruscast.training.samples._table import columns_of, features_only
from toruscast.validation import one_of

from .evaluate import HeldOut, forecast_splits
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
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Train on all but one application, kind, torus or size, and score the forecast of that one.

    Parameters
    ----------
    table : DataFrame
        Features and the column ``time`` of mappings, with the labels ``workload`` and ``torus``.
    predictors : mapping of str to predictor
        Each is trained on the same rows.
    by : {"application", "kind", "torus", "size"}
        What is held out, once each: a workload; a kind of traffic, which is the pattern of a
        generated workload and else its name up to a number (``lammps-lj`` of ``lammps-lj-64``);
        a torus; or only the workload and torus with the most nodes times bytes of a message.
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
    observed = columns_of(table, ["time"])["time"].to_numpy(dtype=np.float64)
    groups = _groups(table, blocks, by)
    if groups.nunique() < 2:
        raise InputError(
            f"too few {SEVERAL[by]} to hold one out",
            found=", ".join(groups.unique()) or "no samples",
            expected=f"samples of several {SEVERAL[by]} in one table",
        )
    # Numbers in the order of the table, in which each group is left out.
    numbers, names = pd.factorize(groups)
    splits = list(LeaveOneGroupOut().split(table, groups=numbers))
    if by == "size":
        sizes = sizes_of(table)
        means = (sizes["nodes"] * sizes["message_bytes"]).groupby(numbers).mean()
        largest = int(means.to_numpy().argmax())
        names, splits = names[[largest]], [splits[largest]]
    features = features_only(table)
    found = forecast_splits(
        features,
        observed,
        predictors,
        splits,
        coverage=COVERAGE,
        groups=groups.to_numpy(),
        n_jobs=n_jobs,
        progress=progress,
    )
    known = [name for name in BOUNDS if name in features and features[name].notna().all()][:1]
    for name in known:
        order = features[name].to_numpy(dtype=np.float64)
        found[BOUNDS[name]] = [HeldOut(order[test]) for _, test in splits]
    return pd.DataFrame(
        {
            "predictor": predictor,
            "held_out": name,
            "workload": workload,
            "torus": torus,
            "n_train": train.size if predictor in predictors else 0,
            **_scores(observed[test][at], said.times[at], predictor in predictors, ends),
        }
        for predictor, forecasts in found.items()
        for name, (train, test), said in zip(names, splits, forecasts, strict=True)
        for (workload, torus), at in _blocks_of(blocks.iloc[test])
        for ends in [None if said.interval is None else said.interval[at]]
    )


def _blocks_of(blocks: pd.DataFrame) -> list[tuple[tuple[str, str], NDArray[np.int64]]]:
    """Return the rows of each workload and torus, in the order of the table."""
    by_block = blocks.reset_index(drop=True).groupby(["workload", "torus"], sort=False)
    return [((str(name), str(torus)), part.index.to_numpy()) for (name, torus), part in by_block]


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


def _scores(
    observed: Floats, said: Floats, is_trained: bool, interval: Floats | None
) -> dict[str, object]:
    """Return the scores of one predictor, or of a column, on a workload and torus held out."""
    n, nan = observed.size, float("nan")
    apart = {"rcc": 0.0, "rcc_1": 0.01, "rcc_5": 0.05}
    inside = None
    if interval is not None:
        inside = (interval[:, 0] <= observed) & (observed <= interval[:, 1])
    return {
        "n_test": n,
        **{name: rcc_told_apart(observed, said, a) if n > 1 else nan for name, a in apart.items()},
        "regret_1": regret(observed, said) if n > 1 else nan,
        "error": float(np.median(np.abs(said / observed - 1))) if is_trained else nan,
        "coverage": nan if inside is None else float(inside.mean()),
    }
