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
    # An algorithm that another stands for is not used to calibrate.
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
        f"algorithm is known for {len(table):,}. The others are left out (`fugaku-left-out`): "
        "library defaults, unpublished algorithms, and names under which something else runs, such "
        "as the broadcast `default-basic-linear`.\n\n"
        "Time is network + software + memory. The network's bytes come from a packet simulation of "
        "each schedule with dependent rounds. The other constants, and two factors of each "
        f"implementation, are fitted to {CALIBRATION} only. All algorithms of a collective and a "
        f"size on one torus are ranked. The mean RCC is {_listed(summary)}. Where an algorithm "
        f"also ran on {CALIBRATION}, taking its time there as the forecast gives "
        f"{_listed(baseline, _AS_BEFORE)}. Where the constants are also fitted to a tenth of the "
        f"times of the larger tori, drawn at random {DRAWS} times, the rest has "
        f"{_listed(more, _MORE)}; without them {_listed(more)}.\n\n"
        "On 64x64, how the job lay in the machine's six dimensions is assumed: two dimensions are "
        "laid as rings. What costs time on thousands of nodes but not on eight is left out. The "
        "bine library writes a table entry, divides and moves a block for each task, gathers "
        "addresses and evicts cache lines. A model with these costs, read from the library's "
        "source, ranked 64x64 with RCC 0.870. It held for one library's code only and was removed: "
        "that is why the figure is lower now.",
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
    """Rank what is left of the larger tori once a tenth of their times is known too."""
    every = []
    for drawn in tenths((table["shape"] != CALIBRATION).to_numpy()):
        rest = table[~drawn]
        after = predict(rest, fit(table[first | drawn]))
        every.append(rank_groups(rest, {_MODEL: before[~drawn], _MORE: after}))
    return pd.concat(every, ignore_index=True)


def _as_measured(table: pd.DataFrame) -> Floats:
    """Time of the same algorithm and size on the calibration torus; NaN where there is none."""
    keys = ["collective", "algorithm", "nbytes"]
    before = table[table["shape"] == CALIBRATION].set_index(keys)["time"]
    return before.reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy(dtype=np.float64)


def _listed(summary: pd.DataFrame, method: str = _MODEL) -> str:
    rows = summary[(summary["method"] == method) & (summary["shape"] != CALIBRATION)]
    return " and ".join(f"{r['mean RCC']:.3f} on {r['shape']}" for r in rows.to_dict("records"))
