"""How much of the order of the mappings is chance: a machine that is nearly the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from toruscast.mapping import TaskMapping, strategies
from toruscast.simulation import simulate
from toruscast.training.metrics import rcc

from .experiment import Bar, Chart, Experiment, Findings, Inputs
from .plan import BENCHMARKS, N_MAPPINGS, SEED, SMALL, SMALL_HOST, TASKS_PER_NODE, Block
from .sc13 import simulated

_SIZE = "16 KB"
_EVERY = 12
# Seconds a hop, and packets that a buffer holds.
_CHANGES: dict[str, dict[str, Any]] = {
    "a hop of 41 ns": {"hop_latency": 41e-9},
    "buffers of 64": {"buffer_packets": 64},
}


def _run(inputs: Inputs) -> Findings:
    from joblib import Parallel, delayed

    table = simulated.synthetic(simulated.load(inputs), SMALL, [_SIZE])
    rows = []
    for benchmark in BENCHMARKS:
        block = Block(benchmark, _SIZE, SMALL_HOST)
        own = table[table["benchmark"] == benchmark].set_index("mapping")
        mappings = strategies.sample(
            block.workload, block.torus, n=N_MAPPINGS, seed=SEED, tasks_per_node=TASKS_PER_NODE
        )[::_EVERY]
        jobs = [(mapping, change) for change in _CHANGES for mapping in mappings]
        times = Parallel(n_jobs=inputs.n_jobs, prefer="threads")(
            delayed(_time)(block, *job) for job in jobs
        )
        for (mapping, change), time in zip(jobs, times, strict=True):
            stored = own.loc[mapping.name, ["time", "lower_bound"]]
            rows.append(
                {
                    "benchmark": benchmark,
                    "change": change,
                    "mapping": mapping.name,
                    "time": stored["time"],
                    "changed": time,
                    "lower_bound": stored["lower_bound"],
                }
            )
    every = pd.DataFrame(rows)
    every["ratio"] = every["changed"] / every["time"]
    summary = pd.DataFrame(
        [
            {
                "benchmark": benchmark,
                "change": change,
                "rcc": rcc(some["time"], some["changed"]),
                "least_ratio": some["ratio"].min(),
                "median_ratio": some["ratio"].median(),
                "largest_ratio": some["ratio"].max(),
                "rcc_lower_bound": rcc(some["time"], some["lower_bound"]),
                "median_slowdown": (some["time"] / some["lower_bound"]).median(),
            }
            for (benchmark, change), some in every.groupby(["benchmark", "change"], sort=False)
        ]
    )
    first = summary[summary["change"] == next(iter(_CHANGES))]
    return Findings(
        f"{simulated.text(table)} Messages of {_SIZE}, every {_EVERY}th mapping simulated again on "
        "a machine that differs by a fortieth in the latency of a hop, or by deeper buffers. Where "
        "such a twin ranks the mappings alike, the order is no matter of chance, and features that "
        "miss it lack something.",
        {"chance": summary, "chance-mappings": every},
        tuple(
            Bar(
                f"RCC of a hop of 41 ns with a hop of 40 ns, {row['benchmark']} {_SIZE}",
                float(row["rcc"]),
            )
            for _, row in first.iterrows()
        ),
        (
            Chart(
                "chance",
                "scatter",
                "chance-mappings",
                "time",
                "changed",
                "change",
                "benchmark",
                log=True,
                title="Time on a machine that is nearly the same (s)",
            ),
        ),
        ("chance",),
    )


def _time(block: Block, mapping: TaskMapping, change: str) -> float:
    torus = block.torus
    network = replace(torus.network, **_CHANGES[change])
    result = simulate(
        block.workload,
        replace(torus, network=network),
        mapping,
        routing="by_size",
        coarsening=block.coarsening,
    )
    return result.time


EXPERIMENT = Experiment("chance", "How much of the order is chance", "samples", _run)
