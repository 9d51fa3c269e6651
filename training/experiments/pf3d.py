"""A production application: pF3D on 16,384 and 65,536 tasks."""

from __future__ import annotations

import pandas as pd

from ..evaluate import compare_feature_sets
from . import simulated
from .experiment import Bar, Chart, Experiment, Findings, Inputs
from .plan import LARGE, SMALL

_SPLITS = 20
_PUBLISHED = {SMALL: {"rcc": 0.995, "r2": 0.931}, LARGE: {"rcc": 0.75}}
_BARS = {SMALL: {"rcc": 0.995, "r2": 0.98}, LARGE: {"rcc": 0.97}}


def _run(inputs: Inputs) -> Findings:
    table = simulated.load(inputs)
    parts, bars = [], []
    for tasks in (SMALL, LARGE):
        # Both hosts of 65,536 tasks together: they differ in shape, and the features say how.
        some = simulated.features_of(simulated.pf3d(table, tasks))
        scores = compare_feature_sets(
            some, ("prior", *simulated.HYBRIDS), n_splits=_SPLITS, n_jobs=inputs.n_jobs
        ).reset_index()
        parts.append(scores.assign(tasks=tasks))
        hybrids = scores[scores["features"] != "prior"]
        best = hybrids.sort_values("rcc").iloc[-1]
        for metric, bar in _BARS[tasks].items():
            name = "RCC" if metric == "rcc" else "R^2"
            bars.append(
                Bar(f"{name} of {best['features']}, {tasks:,} tasks", float(best[metric]), bar,
                    published=_PUBLISHED[tasks][metric])
            )  # fmt: skip
    result = pd.concat(parts, ignore_index=True)
    return Findings(
        f"{simulated.TEXT} pF3D's phases (transforms in X and Y, exchange of planes, exchange with "
        "the six neighbours) run one after the other; the transforms are routed in dimension "
        f"order, the long planes adaptively. Means over {_SPLITS} splits (seed 0).",
        {"pf3d": result},
        tuple(bars),
        (Chart("pf3d", "bars", "pf3d", "features", "rcc", "tasks", title="RCC, pF3D"),),
        ("pf3d",),
        (
            "Splits are drawn over both hosts of 65,536 tasks together. The best set is chosen by "
            "the scores shown. Packets stand for 32 real ones.",
        ),
    )


EXPERIMENT = Experiment("pf3d", "pF3D, 16,384 and 65,536 tasks", "samples", _run)
