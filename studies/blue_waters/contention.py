"""Bandwidths of a Gemini torus by dimension, read from contention in a line of routers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast import InputError

from ..study import Findings, Inputs, Target
from .line_contention import read_line_contention
from .repeats import drop_repeats

FILES = "bluewatersmodel/contention/*.out"
# GB/s in an earlier analysis of the same files.
KNOWN = {"x": 5.7, "y": 2.85, "z": 9.1}
SMALL, LARGE = 128, 256
_LONG = 2**16
_SIZE = ["dimension", "n_ranks", "job", "n_messages", "nbytes"]


def read_all(inputs: Inputs) -> pd.DataFrame:
    """Return the times of every job along a known dimension.

    Files with several jobs have no dimension and repeat the times of other files, so they are
    omitted.

    Raises
    ------
    InputError
        If the files are not found, one cannot be read, or both numbers of ranks are not there.
    """
    files = inputs.files(FILES)
    table = pd.concat([read_line_contention(path) for path in files], ignore_index=True)
    table = table[table["dimension"] != ""].reset_index(drop=True).rename(columns={"file": "job"})
    table = drop_repeats(table, ["job", "series"], [c for c in table if c not in ("job", "series")])
    if not {SMALL, LARGE} <= set(table["n_ranks"]):
        found = sorted(set(table["n_ranks"]))
        expected = f"jobs of {SMALL} and {LARGE} ranks"
        raise InputError("jobs missing", file=files[0].parent, found=found, expected=expected)
    return table


def bandwidths(table: pd.DataFrame) -> pd.DataFrame:
    """Return the bandwidth of the middle link, for messages with small overhead.

    Each rank sends one message of at least 64 KiB.

    Parameters
    ----------
    table : DataFrame
        From `read_all`.

    Returns
    -------
    DataFrame
        ``dimension, n_ranks, job, bandwidth, low, high`` in GB/s: the median of the times, and the
        range of the middle 95 % of them.
    """
    long = table[(table["n_messages"] == 1) & (table["nbytes"] >= _LONG)]
    rate = long["n_ranks"] / 2 * long["nbytes"] / long["time"] / 1e9
    groups = long.assign(rate=rate).groupby(["dimension", "n_ranks", "job"])["rate"]
    ends = groups.quantile(np.array([0.025, 0.5, 0.975])).unstack()
    ends.columns = pd.Index(["low", "bandwidth", "high"])
    return ends[["bandwidth", "low", "high"]].reset_index()


def run(inputs: Inputs) -> Findings:
    """Read the bandwidths from 128 ranks, and forecast the long messages of 256 with them.

    Raises
    ------
    InputError
        If the measurements are not found or cannot be read.
    """
    table = read_all(inputs)
    jobs = bandwidths(table)
    # Other jobs can only slow a line down, so the faster job gives the bandwidth of the links.
    best = jobs[jobs["n_ranks"] == SMALL].groupby("dimension")["bandwidth"].max()
    long = (table["n_messages"] == 1) & (table["nbytes"] >= _LONG)
    test = table[long & (table["n_ranks"] == LARGE)]
    test = test.groupby(_SIZE)["time"].median().reset_index()
    crossing = test["n_ranks"] / 2 * test["nbytes"]
    test["predicted"] = crossing / (test["dimension"].map(best) * 1e9)
    test = test.dropna(subset="predicted")
    error = (test["predicted"] / test["time"] - 1).abs()
    by_dimension = error.groupby(test["dimension"]).mean()
    order = _order(test["time"], test["predicted"])
    known = {name: figure for name, figure in KNOWN.items() if name in best}
    found = ", ".join(f"{name.upper()} {best[name]:.2f}" for name in known)
    wrong = ", ".join(f"{str(name).upper()} {value:.0%}" for name, value in by_dimension.items())
    earlier = ", ".join(f"{n.upper()} {v}" for n, v in known.items())
    return Findings(
        f"The benchmark is a ping-pong between the two halves of a line of routers, with {SMALL} "
        f"ranks on 4 routers or {LARGE} ranks on 8. We compute the bandwidth from long messages, "
        "as the bytes through the middle link divided by the time. The faster of the "
        f"{SMALL}-rank jobs gives, in GB/s, {found}. An earlier evaluation of the files gave "
        f"{earlier}. Jobs along the same dimension differ, because other jobs share the links. If "
        f"the times of long messages of {LARGE} ranks are predicted from these bandwidths alone, "
        f"RCC is {order:.3f} and the mean error is {wrong}. The error is large where the "
        f"{LARGE}-rank job had less bandwidth than the {SMALL}-rank jobs.\n\n"
        "A model with latencies, queues and protocols, fitted to all sizes, gave nearly the same "
        "bandwidths. It was removed.",
        {"contention-bandwidths": jobs, "contention-forecasts": test},
        {"Bandwidth by dimension and job, GB/s": jobs},
        (
            *(
                Target(
                    f"bandwidth of {name.upper()}, relative error against {figure} GB/s",
                    abs(float(best[name]) / figure - 1),
                    0.05,
                    "at most",
                )
                for name, figure in known.items()
            ),
            Target(f"RCC, long messages of {LARGE} ranks", float(order)),
            *(
                Target(f"mean relative error, {LARGE} ranks, {name}", float(value))
                for name, value in by_dimension.items()
            ),
        ),
    )


def _order(observed: Any, forecast: Any) -> float:
    """Return the RCC of two or more values; NaN for fewer."""
    return tc.training.rcc(observed, forecast) if len(observed) > 1 else float("nan")
