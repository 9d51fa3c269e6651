"""Communication times of algebraic multigrid: train on small jobs, predict large ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import toruscast as tc
from toruscast import InputError
from toruscast.training import r2, rcc

from ..scores import DRAWS, Floats, fit_constants, tenths
from ..study import Findings, Inputs, Target
from .amg_messages import COLUMNS, PROTOCOLS, read_amg_messages
from .repeats import drop_repeats

FILES = "bluewatersmodel/amg_models/*.out"
SMALL, LARGE = 1024, 2048
# Initial seconds per message and per byte of a process for the fit.
_START = (1e-6, 1e-9)
TREES, CONSTANTS, HOPS = "trees on the columns", "constants alone", "byte-hops alone"
_MORE = f"{TREES}, a tenth of larger jobs"
_WHAT = ["level", "operator", "matrix", "node_aware", "variant", "n_processes", "time"]
_WORDS = ("file", "run", "operator", "variant", "time")


def read_all(inputs: Inputs) -> pd.DataFrame:
    """Return a row for each communication of each job; repeats in other files are omitted.

    Raises
    ------
    InputError
        If the files are not found, one cannot be read, or there are no small or no large jobs.
    """
    files = inputs.files(FILES)
    tables = [read_amg_messages(path) for path in files]
    table = pd.concat([one for one in tables if len(one)], ignore_index=True)
    table = drop_repeats(table, ["file", "run"], _WHAT)
    sizes = table["n_processes"]
    if not ((sizes <= SMALL).any() and (sizes >= LARGE).any()):
        expected = f"jobs of at most {SMALL} and of at least {LARGE} processes"
        raise InputError("jobs missing", file=files[0].parent, expected=expected)
    return table


def run(inputs: Inputs) -> Findings:
    """Train on the times of jobs of up to 1024 processes, and predict those of 2048 or more.

    Raises
    ------
    InputError
        If the measurements are not found or cannot be read.
    """
    table = read_all(inputs)
    small = (table["n_processes"] <= SMALL).to_numpy()
    large = (table["n_processes"] >= LARGE).to_numpy()
    test = table[large]
    trees, alone, constants = _forecast(table, small)
    said = {TREES: trees[large], CONSTANTS: alone[large], HOPS: test["byte_hops"].to_numpy()}
    rows = _scored(test, said, "all")
    every = []
    for drawn in tenths(large):
        more, rest = _forecast(table, small | drawn)[0], large & ~drawn
        every += _scored(table[rest], {TREES: trees[rest], _MORE: more[rest]}, "all but a tenth")
    scored = pd.DataFrame(rows + every).groupby(["rows", "forecast"], sort=False).mean()
    scored = scored.reset_index().round({"n": 0}).astype({"n": int})
    targets = []
    for row in scored.itertuples(index=False):
        targets.append(Target(f"RCC, {row.forecast}, {row.rows}", row.rcc))
        if not np.isnan(row.r2_log):
            what = f"R^2 of logarithms, {row.forecast}, {row.rows}"
            targets.append(Target(what, row.r2_log))
    first, (before, after) = scored.iloc[0], scored["rcc"].iloc[-2:]
    return Findings(
        "The data set has counters and a time for every communication of a multigrid hierarchy. "
        "The counters are messages and bytes by protocol and destination, and byte-hops. Jobs of "
        f"at most {SMALL:,} processes are the training set ({small.sum():,} rows), and jobs of "
        f"{LARGE:,} and more are the test set. Two constants of the machine are fitted to the "
        f"times of the training set: {constants[0] * 1e6:.2g} us per message and "
        f"{constants[1] * 1e9:.2g} ns per byte of a process. `TimePredictor` uses the columns "
        "without changes, and predicts the slowdown relative to the time from these constants. "
        f"On all rows of the test set, RCC is {first['rcc']:.3f} and R^2 of logarithms is "
        f"{first['r2_log']:.3f}. If a tenth of the times of the larger jobs (drawn at random "
        f"{DRAWS} times) is added to the training set, RCC is {after:.3f} on the other rows, "
        f"compared with {before:.3f} without them.\n\n"
        "Models that were made only for these rows (a formula for each operator, with trees and "
        "kernels for the residuals) reached RCC 0.930 and R^2 0.906 on all rows. They were "
        "removed because they apply to no other data, so the numbers are lower now. Vectors of "
        "one-sided operators cause most of the error, because their processes run ahead by an "
        "amount that no counter records.",
        {"multigrid": scored},
        {f"{LARGE:,} processes and more": scored},
        tuple(targets),
    )


def _forecast(table: pd.DataFrame, known: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Return the times of trees and those of the constants alone, and the constants."""
    names = [name for name in COLUMNS if name not in _WORDS]
    features, observed = table[names].astype(float).fillna(0.0), table["time"].to_numpy()
    starts = (tuple(f"n_{protocol}_" for protocol in PROTOCOLS), "nbytes_")
    sent = np.column_stack(
        [features[[n for n in names if n.startswith(start)]].sum(axis=1) for start in starts]
    )
    constants = fit_constants(lambda each: sent[known] @ each, _START, observed[known])
    features["lower_bound"] = sent @ constants
    model = tc.TimePredictor(names, "slowdown", calibration_folds=0)
    model.fit(features[known], observed[known])
    return model.predict(features), features["lower_bound"].to_numpy(), constants


def _scored(test: pd.DataFrame, said: dict[str, Floats], which: str) -> list[dict[str, object]]:
    """Return the scores of each prediction; byte-hops are no times."""
    observed = np.log(test["time"].to_numpy())
    rows: list[dict[str, object]] = []
    for name, values in said.items():
        order, fit = rcc(observed, values), np.nan
        if name != HOPS:
            fit = r2(observed, np.log(values))
        row = {"rows": which, "forecast": name, "n": len(observed), "rcc": order, "r2_log": fit}
        rows.append(row)
    return rows
