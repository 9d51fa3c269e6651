"""Forecasting a communication pattern that was never seen."""

from __future__ import annotations

import pandas as pd

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..plan import SMALL
from ..scores import by_case, forecast
from . import simulated
from .mixture import learners


def _run(inputs: Inputs) -> Findings:
    table = simulated.synthetic(simulated.load(inputs), SMALL)
    parts = []
    for benchmark in table["benchmark"].unique():
        others = table[table["benchmark"] != benchmark]
        own = table[table["benchmark"] == benchmark]
        parts.append(forecast(others, own, learners())[1])
    cases = by_case(pd.concat(parts, ignore_index=True)).drop(columns="torus")
    mean = cases.groupby("learner", sort=False)[["rcc", "r2_log", "regret_1"]].mean()
    mean = mean.sort_values("rcc", ascending=False).reset_index()
    best = mean.iloc[0]
    return Findings(
        f"{simulated.text(table)} All benchmarks but one train, all mappings and sizes of that one "
        "are forecast. RCC within each benchmark and size, then the mean of the "
        f"{len(list(simulated.cases(table)))} cases.",
        {"unseen-mean": mean, "unseen": cases},
        (Bar(f"mean RCC on a benchmark never seen, {best['learner']}", float(best["rcc"])),),
        (
            Chart(
                "unseen",
                "bars",
                "unseen",
                "size",
                "rcc",
                "learner",
                "benchmark",
                title="RCC on a benchmark never seen",
            ),
        ),
        ("unseen-mean",),
    )


EXPERIMENT = Experiment("unseen", "Leave one benchmark out", "samples", _run)
