"""Ranking of collective algorithms on Fugaku, with constants from eight nodes."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast import InputError

from ..scores import DRAWS, tenths
from ..study import Chart, Findings, Inputs, Target
from .model import fit, predict, stands_for
from .ranking import Floats, rank_groups, summarise
from .table import tabulate

FILES = ("pico-fugaku/*.aggregated_results_summary.csv", "pico-fugaku/jobs/*")
CALIBRATION = "2x2x2"
_MODEL, _AS_BEFORE = "model", f"times of {CALIBRATION}"
_FREE, _MORE = "model, links without limit", "model, a tenth of larger tori"
_RCC, _REGRET = 0.85, 0.10


def run(inputs: Inputs) -> Findings:
    """Predict the time of every algorithm whose schedule is known and rank them.

    Raises
    ------
    InputError
        If the measurements are not there or cannot be read, there are none of 2x2x2, or no two
        algorithms can be compared.
    """
    folder = inputs.files(FILES[0])[0].parent
    table, left_out = tabulate(folder)
    known = (table["shape"] == CALIBRATION).to_numpy()
    # An algorithm that uses the factors of another one is not used for calibration.
    first = known & (table["code"].map(stands_for) == table["code"]).to_numpy()
    calibration = table[first]
    if calibration.empty:
        raise InputError(f"no times of {CALIBRATION}", file=folder)
    constants = fit(calibration)
    methods = {
        _MODEL: predict(table, constants),
        _FREE: predict(table, fit(calibration, "sent"), "sent"),
    }
    groups = rank_groups(table, methods)
    if groups.empty:
        wanted = "two algorithms of a collective and a size on one torus"
        raise InputError("nothing to rank", file=folder, expected=wanted)
    again = rank_groups(table, {_MODEL: methods[_MODEL], _AS_BEFORE: _as_measured(table)})
    tests = groups[groups["shape"] != CALIBRATION]
    summary = summarise(groups, ["shape", "method"])
    baseline = summarise(again[again["shape"] != CALIBRATION], ["shape", "method"])
    more = summarise(_with_a_tenth(table, first, methods[_MODEL]), ["shape", "method"])
    own = tests[tests["method"] == _MODEL]
    by_collective = summarise(own, ["shape", "collective"])
    times = table[["shape", "collective", "algorithm", "schedule", "nbytes", "time"]]
    counts = left_out.groupby(["collective", "algorithm"]).size().rename("rows").reset_index()
    targets = []
    for row in summary[summary["shape"] != CALIBRATION].to_dict("records"):
        wanted = row["method"] == _MODEL
        what = f"{row['shape']}, {row['method']}"
        order = Target(f"mean RCC, {what}", row["mean RCC"], _RCC if wanted else float("nan"))
        targets.append(order)
        if wanted:
            what = f"median regret@1, {what}"
            targets.append(Target(what, row["median regret@1"], _REGRET, "at most"))
    targets += [
        Target(
            f"mean RCC, {r['shape']}, algorithms also run on {CALIBRATION}, {r['method']}",
            r["mean RCC"],
        )
        for r in baseline.to_dict("records")
    ]
    targets += [
        Target(f"mean RCC of the rest, {r['shape']}, {r['method']}", r["mean RCC"])
        for r in more.to_dict("records")
        if r["shape"] != CALIBRATION
    ]
    return Findings(
        f"PICO measured {len(table) + len(left_out):,} times of collectives. The schedule of the "
        f"algorithm is known for {len(table):,} of them. The others are not used "
        "(`fugaku-left-out`). They are defaults of the library, unpublished algorithms, and "
        "algorithms that run under a wrong name, such as the broadcast `default-basic-linear`.\n\n"
        "The predicted time is the sum of network, software and memory. The network part comes "
        "from a packet simulation of each schedule with dependent rounds. The other constants, "
        f"and two factors for each implementation, are fitted only to {CALIBRATION}. All "
        "algorithms are ranked for each collective, size and torus. The mean RCC is "
        f"{_listed(summary)}. For algorithms that also ran on {CALIBRATION}, the time there can "
        f"be used as the prediction, which gives {_listed(baseline, _AS_BEFORE)}. If the "
        "constants are also fitted to a tenth of the times of the larger tori (drawn at random "
        f"{DRAWS} times), the mean RCC of the other times is {_listed(more, _MORE)}, compared "
        f"with {_listed(more)} without this tenth.\n\n"
        "For 64x64, we had to assume the position of the job in the six dimensions of the "
        "machine: two dimensions are arranged as rings. Costs that matter on thousands of nodes "
        "but not on eight are not modelled. For each task, the bine library writes a table "
        "entry, divides, moves a block, gathers addresses and evicts cache lines. A model with "
        "these costs, which were read from the source of the library, ranked 64x64 with RCC "
        "0.870. It was removed because it applies only to this library, so the number is lower "
        "now.",
        {
            "fugaku-summary": summary,
            "fugaku-baseline": baseline,
            "fugaku-tenth": more,
            "fugaku-collectives": by_collective,
            "fugaku-groups": groups,
            "fugaku-constants": constants.table(),
            "fugaku-left-out": counts,
            "fugaku-times": times.assign(predicted=methods[_MODEL]),
        },
        {"Ranking of the algorithms": summary},
        tuple(targets),
        {
            "rcc": Chart(
                "dots",
                by_collective,
                "collective",
                "mean RCC",
                "shape",
                "RCC of the algorithms, mean over sizes (measured times)",
            )
        },
    )


def _with_a_tenth(table: pd.DataFrame, first: NDArray[np.bool_], before: Floats) -> pd.DataFrame:
    """Rank the remaining times of the larger tori after training on a tenth of them, too."""
    every = []
    for drawn in tenths((table["shape"] != CALIBRATION).to_numpy()):
        rest = table[~drawn]
        after = predict(rest, fit(table[first | drawn]))
        every.append(rank_groups(rest, {_MODEL: before[~drawn], _MORE: after}))
    return pd.concat(every, ignore_index=True)


def _as_measured(table: pd.DataFrame) -> Floats:
    """Return the time of the same algorithm and size on the calibration torus, or NaN."""
    keys = ["collective", "algorithm", "nbytes"]
    before = table[table["shape"] == CALIBRATION].set_index(keys)["time"]
    return before.reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy(dtype=np.float64)


def _listed(summary: pd.DataFrame, method: str = _MODEL) -> str:
    rows = summary[(summary["method"] == method) & (summary["shape"] != CALIBRATION)]
    return " and ".join(f"{r['mean RCC']:.3f} on {r['shape']}" for r in rows.to_dict("records"))
