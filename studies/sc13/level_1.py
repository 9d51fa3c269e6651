"""What is lost, and saved, without a simulation at prediction time."""

from __future__ import annotations

from time import process_time

import pandas as pd

from toruscast.features import FEATURES, RoutedTraffic
from toruscast.mapping import strategies
from toruscast.simulation import simulate
from toruscast.training.evaluate import repeated_splits, summarise
from toruscast.training.feature_sets import FEATURE_SETS
from toruscast.training.metrics import rcc_ties_halved
from toruscast.training.predictor import TimePredictor

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..plan import BENCHMARKS, SEED, SMALL, SMALL_HOST, TASKS_PER_NODE, Block, features
from ..scores import RELATIVE_COUNTERS
from . import simulated
from .intervals import margin_of_mean

_SPLITS = 8
_ROUTES = FEATURE_SETS["relative"]
_BOUNDS = ("lower_bound", "release_bound")
# The same target and learner: what differs is the counters.
_LEARNERS = {
    "routes": _ROUTES,
    "routes and counters": tuple(dict.fromkeys((*_ROUTES, *RELATIVE_COUNTERS))),
}


def _run(inputs: Inputs) -> Findings:
    table = simulated.synthetic(simulated.load(inputs), SMALL)
    parts = []
    for benchmark, size, group in simulated.cases(table):
        learners = {name: TimePredictor(names, "slowdown") for name, names in _LEARNERS.items()}
        scored = repeated_splits(
            simulated.features_of(group), learners, n_splits=_SPLITS, n_jobs=inputs.n_jobs
        )
        summary = summarise(scored)
        rcc = summary[summary["metric"] == "rcc"][["predictor", "mean", "low", "high"]]
        parts.append(rcc.assign(benchmark=benchmark, size=size))
    result = pd.concat(parts, ignore_index=True).rename(columns={"mean": "rcc"})
    mean = result.groupby("predictor", sort=False)["rcc"].mean().reset_index()
    cost = _cost()
    by_case = result.pivot_table(index=["benchmark", "size"], columns="predictor", values="rcc")
    lost = by_case["routes and counters"] - by_case["routes"]
    margin = margin_of_mean(lost)
    return Findings(
        f"{simulated.text(table)} Slowdowns learned on the same {_SPLITS} splits from features "
        "that need no simulation, and from these and the counters of the simulation. Processor "
        "seconds a mapping: all features of level 1, and the simulation, of a random mapping of "
        "each benchmark. `level-1-bounds` is the RCC of two bounds of the time alone, with nothing "
        "learned: that of loads and latencies, and that which knows when messages are released "
        "too; under adaptive routing (4 MB) both are the same but for rounding.",
        {
            "level-1": result,
            "level-1-mean": mean,
            "level-1-bounds": _bounds(table),
            "level-1-seconds": cost,
        },
        (
            Bar(
                f"RCC lost without the simulation, mean of {len(lost)} cases (+- {margin:.3f})",
                float(lost.mean()),
            ),
            Bar(
                "simulation over level-1 seconds, 16 KB, mean of three benchmarks",
                float((cost["simulation"] / cost["level_1"]).mean()),
            ),
        ),
        (
            Chart(
                "level-1",
                "bars",
                "level-1",
                "size",
                "rcc",
                "predictor",
                "benchmark",
                title="RCC with and without the simulator's counters",
            ),
        ),
        ("level-1-mean", "level-1-bounds", "level-1-seconds"),
    )


def _bounds(table: pd.DataFrame) -> pd.DataFrame:
    """RCC of each bound alone, by benchmark and size."""
    return pd.DataFrame(
        [
            {"benchmark": benchmark, "size": size}
            | {name: rcc_ties_halved(group["time"], group[name]) for name in _BOUNDS}
            for benchmark, size, group in simulated.cases(table)
        ]
    )


def _cost() -> pd.DataFrame:
    """Processor seconds of features and simulation of a random mapping, compiled code warm."""
    chosen = [FEATURES[name] for name in features() if FEATURES[name].level == 1]
    rows = []
    for benchmark in BENCHMARKS:
        block = Block(benchmark, "16 KB", SMALL_HOST)
        workload, torus = block.workload, block.torus
        mapping = strategies.make(
            "random", workload, torus, seed=SEED, tasks_per_node=TASKS_PER_NODE
        )
        row: dict[str, float | str] = {"benchmark": benchmark, "size": block.size}
        for _ in range(2):
            start = process_time()
            traffic = RoutedTraffic(workload, torus, mapping, "by_size", block.coarsening)
            for feature in chosen:
                feature.function(traffic)
            middle = process_time()
            simulate(workload, torus, mapping, routing="by_size", coarsening=block.coarsening)
            row |= {"level_1": middle - start, "simulation": process_time() - middle}
        rows.append(row)
    return pd.DataFrame(rows)


EXPERIMENT = Experiment("level-1", "Without a simulation at prediction time", "samples", _run)
