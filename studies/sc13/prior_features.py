"""How well single features rank the mappings of each benchmark."""

from __future__ import annotations

import pandas as pd

from toruscast.training.evaluate import single_features

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..plan import SMALL
from . import simulated

_SHOWN = ("max_bytes", "avg_bytes", "max_dilation", "avg_dilation", "hop_bytes")
_PUBLISHED = {("3D Halo", "512 B"): 0.96, ("3D Halo", "16 KB"): 0.86}


def _run(inputs: Inputs) -> Findings:
    table = simulated.synthetic(simulated.load(inputs), SMALL)
    rows, bars = [], []
    for benchmark, size, group in simulated.cases(table):
        scores = single_features(simulated.features_of(group), simulated.counters(group))["rcc"]
        for name in _SHOWN:
            rows.append(
                {"benchmark": benchmark, "size": size, "feature": name, "rcc": scores[name]}
            )
        rows.append(
            {
                "benchmark": benchmark,
                "size": size,
                "feature": "best of all",
                "name": scores.index[0],
                "rcc": scores.iloc[0],
            }
        )
        best = "avg_bytes" if benchmark == "Sub A2A" else "max_bytes"
        quoted = {best: _PUBLISHED.get((benchmark, size), 0.91), "max_dilation": 0.60}
        bars += [
            Bar(f"RCC of {name}, {benchmark} {size}", float(scores[name]), published=figure)
            for name, figure in quoted.items()
        ]
    long = pd.DataFrame(rows)
    spread = table.groupby(["benchmark", "size"], sort=False)["time"].agg(["min", "median", "max"])
    spread["spread"] = spread["max"] / spread["min"]
    return Findings(
        f"{simulated.text(table)} Each feature alone as the forecast, more meaning slower, without "
        "learning.",
        {"prior-features": long, "times": spread.reset_index()},
        tuple(bars),
        (
            Chart(
                "prior-features",
                "bars",
                "prior-features",
                "size",
                "rcc",
                "feature",
                "benchmark",
                title="RCC of single features, 16,384 tasks",
            ),
        ),
        ("prior-features", "times"),
        (
            "The best of all features is chosen on the mappings that it is scored on. A pair that "
            "a feature or the time ties counts half.",
            f"Busiest over mean link bytes, median of the mappings: {_unevenness(table)}.",
        ),
    )


def _unevenness(table: pd.DataFrame) -> str:
    """How much more than the average the busiest link carries, by benchmark and size."""
    return ", ".join(
        f"{benchmark} {size} {group['max_over_avg_bytes'].median():.2f}"
        for benchmark, size, group in simulated.cases(table)
    )


EXPERIMENT = Experiment(
    "prior-features", "Single features as the forecast, 16,384 tasks", "samples", _run
)
