"""Communication times of algebraic multigrid: learn from small jobs, forecast large ones."""

from __future__ import annotations

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast import InputError
from toruscast.training import r2, rcc

from ..study import Findings, Inputs, Target
from .amg_messages import COLUMNS, read_amg_messages
from .repeats import drop_repeats

FILES = "bluewatersmodel/amg_models/*.out"
SMALL, LARGE = 1024, 2048
# Seconds a message and bytes a second of a process, roughly: what a slowdown is counted from.
LATENCY, BANDWIDTH = 1e-6, 6e9
PUBLISHED = {"trees on the columns": (0.927, 0.91), "byte-hops alone": (0.886, float("nan"))}
_WHAT = ["level", "operator", "matrix", "node_aware", "variant", "n_processes", "time"]
_WORDS = ("file", "run", "operator", "variant", "time")
# Some jobs solved an anisotropic problem; their files say so.
_ANISOTROPIC = "aniso"


def read_all(inputs: Inputs) -> pd.DataFrame:
    """Return every communication of every job, a row each; what stands in two files counts once.

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
    """Learn the times of jobs up to 1024 processes, and forecast those of 2048 and more.

    Raises
    ------
    InputError
        If the measurements are not found or cannot be read.
    """
    table = read_all(inputs)
    names = [name for name in COLUMNS if name not in _WORDS]
    features = table[names].astype(float).fillna(0.0)
    sent = features[[name for name in names if name.startswith("nbytes_")]].sum(axis=1)
    features["lower_bound"] = LATENCY + sent / BANDWIDTH
    small = (table["n_processes"] <= SMALL).to_numpy()
    large = (table["n_processes"] >= LARGE).to_numpy()
    model = tc.TimePredictor(names, "slowdown", calibration_folds=0)
    model.fit(features[small], table["time"][small])
    test = table[large].assign(
        predicted=model.predict(features[large]), byte_hops=features["byte_hops"][large]
    )
    quoted = test["matrix"].astype(bool) & test["file"].str.contains(_ANISOTROPIC)
    rows = []
    for which, some in {"all": test, "matrices, anisotropic problem": test[quoted]}.items():
        observed = np.log(some["time"])
        said = {
            "trees on the columns": np.log(some["predicted"]),
            "byte-hops alone": some["byte_hops"],
        }
        for name, values in said.items():
            fit = r2(observed, values) if name.startswith("trees") else float("nan")
            rows.append((which, name, len(some), rcc(observed, values), fit))
    scored = pd.DataFrame(rows, columns=["rows", "forecast", "n", "rcc", "r2_log"])
    targets = []
    for row in scored.itertuples(index=False):
        order, fit = PUBLISHED[row.forecast]
        targets.append(Target(f"RCC, {row.forecast}, {row.rows}", row.rcc, published=order))
        if not np.isnan(row.r2_log):
            what = f"R^2 of logarithms, {row.forecast}, {row.rows}"
            targets.append(Target(what, row.r2_log, published=fit))
    first = scored.iloc[0]
    return Findings(
        "Every communication of a multigrid hierarchy has counters (messages and bytes by protocol "
        f"and place, byte-hops) and a time. Jobs of at most {SMALL:,} processes train "
        f"({small.sum():,} rows), those of {LARGE:,} and more are forecast. `TimePredictor` takes "
        "the columns as they are, and learns the slowdown over the bytes that a process sends at "
        f"{BANDWIDTH / 1e9:g} GB/s: RCC {first['rcc']:.3f} and R^2 of logarithms "
        f"{first['r2_log']:.3f} on all rows. The published figures come close to those of the "
        "matrices of the anisotropic problem.\n\n"
        "Models made for these rows alone (a law for each operator, trees and kernels on what it "
        "leaves) reached RCC 0.930 and R^2 0.906 on all rows, and no more on those matrices. They "
        "held for these rows only and were removed: that is why the figures are lower now. "
        "Vectors of one-sided operators cause most of the error: their processes run ahead, and no "
        "counter tells by how much.",
        {"multigrid": scored},
        {f"{LARGE:,} processes and more": scored},
        tuple(targets),
    )
