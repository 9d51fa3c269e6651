"""Measure the cost of mappings at three sizes, fit a model, and predict a large plan.

    python benchmarks/cost.py --out FOLDER

Writes cost.csv, cost-check.csv and cost-plan.csv. Every kind of work runs in its own process, on
one core. The traffic is a 15-point halo with 16 packets per message, 16 tasks per node and a random
mapping. Seconds are processor seconds, the best of several runs after compilation. Memory is the
peak of the process.

The model of the seconds is a power of the size, and the model of the memory is linear. A model from
the two smaller sizes is compared with the measurement at the third size. A model from the two
larger sizes predicts the plan.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

import toruscast as tc
from toruscast._features import RoutedTraffic
from toruscast.answers.html import describe_machine
from toruscast.mapping import MappingProblem
from toruscast.workers import Task

# Task grid and node grid of each size.
SIZES: dict[int, tuple[tuple[int, int, int], tuple[int, ...]]] = {
    16_384: ((16, 32, 32), (4, 4, 4, 8, 2)),
    65_536: ((32, 32, 64), (4, 4, 8, 16, 2)),
    262_144: ((64, 64, 64), (8, 8, 8, 16, 2)),
    1_048_576: ((64, 128, 128), (16, 16, 16, 8, 2)),
}
MEASURED = [16_384, 65_536, 262_144]
NBYTES = 16 * 512
# Size that the seconds of each kind of work depend on. The memory depends on the messages.
KINDS = {
    "make a mapping": "tasks",
    "level-1 features": "messages",
    "simulation": "packet_hops",
    "level-2 features": "packet_hops",
    "send to a worker": "tasks",
}
# Part of the work of a cluster's scheduler for a call is the same for all sizes.
LINEAR = {"send to a worker"}
LONG = 5.0
# The plan: number of mappings of the largest size, nodes, cores per node, and bytes per node.
PLANNED, N_MAPPINGS, N_NODES, CORES, MEMORY = 1_048_576, 100_000, 100, 24, 96e9


def case(n_tasks: int) -> tuple[tc.CommGraph, tc.Torus, tc.TaskMapping]:
    """Return the traffic, the torus and the mapping of a size."""
    grid, shape = SIZES[n_tasks]
    torus = tc.Torus(shape)
    seats = np.repeat(np.arange(torus.n_nodes), n_tasks // torus.n_nodes)
    node = np.random.default_rng(1).permutation(seats)
    comm = tc.patterns.halo_3d(grid, NBYTES, periodic=True)
    return comm, torus, tc.TaskMapping(node, torus, name="random")


def sizes_of(n_tasks: int) -> dict[str, int]:
    """Return the sizes that the models of the cost depend on."""
    comm, torus, mapping = case(n_tasks)
    hops = RoutedTraffic(MappingProblem(tc.Workload([comm]), torus), mapping).packet_hops
    return {"tasks": n_tasks, "messages": comm.n_edges, "packet_hops": hops}


def nothing(mapping: tc.TaskMapping) -> int:
    """Return a small value: the work of a call without a simulation."""
    return mapping.n_tasks


def send(n_tasks: int) -> float:
    """Return the processor seconds of the scheduler's process for each call on a cluster."""
    from distributed import Client, LocalCluster

    mappings = [case(n_tasks)[2].renamed(str(number)) for number in range(100)]
    local = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None)
    with (
        local,
        Client(local, set_as_default=False) as client,
        joblib.parallel_config("dask", client=client),
    ):
        Task(nothing).in_order(mappings[:2], 1)
        start = time.process_time()
        Task(nothing).in_order(mappings, 1)
        return (time.process_time() - start) / len(mappings)


def seconds_of(kind: str, n_tasks: int) -> float:
    """Return the processor seconds of a mapping."""
    if kind == "send to a worker":
        return send(n_tasks)
    comm, torus, mapping = case(n_tasks)
    if kind == "make a mapping":
        n = 24
        return timed(lambda: tc.strategies.sample(comm, torus, n=n), 2) / n
    work: dict[str, Callable[[], object]] = {
        "level-1 features": lambda: tc.features(comm, torus, mapping),
        "level-2 features": lambda: tc.features(comm, torus, mapping, level=2),
        "simulation": lambda: tc.simulate(comm, torus, mapping),
    }
    return timed(work[kind], 3)


def timed(function: Callable[[], object], runs: int) -> float:
    """Return the minimum processor seconds of several runs, or of one run if it is slow."""
    least = math.inf
    for _ in range(runs):
        start = time.process_time()
        function()
        least = min(least, time.process_time() - start)
        if least > LONG:
            break
    return least


def measure(kind: str, n_tasks: int) -> dict[str, Any]:
    """Measure in this process, after compilation with the smallest size."""
    if kind != "send to a worker":
        seconds_of(kind, MEASURED[0])
    seconds = seconds_of(kind, n_tasks)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"kind": kind, "seconds": seconds, "bytes": peak, **sizes_of(n_tasks)}


def checked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the errors at the third size of models from the two smaller sizes."""
    models = []
    for kind in KINDS:
        *fitted, large = rows[rows["kind"] == kind].to_dict("records")[:3]
        seconds, memory = forecast(fitted, large)
        measured = {"measured_seconds": large["seconds"], "measured_gb": large["bytes"] / 1e9}
        found = {"forecast_seconds": seconds, "forecast_gb": memory / 1e9}
        errors = {
            "seconds_error": f"{seconds / large['seconds'] - 1:+.0%}",
            "memory_error": f"{memory / large['bytes'] - 1:+.0%}",
        }
        models.append({"kind": kind, **measured, **found, **errors})
    return pd.DataFrame(models)


def forecast(two: Sequence[dict[str, Any]], size: Mapping[str, float]) -> tuple[float, float]:
    """Return seconds and bytes of a size, from the model through two measured rows."""
    small, large = two
    by = KINDS[large["kind"]]

    def along(what: str, by: str) -> float:
        each = (large[what] - small[what]) / (large[by] - small[by])
        return float(large[what] + each * (size[by] - large[by]))

    if large["kind"] in LINEAR:
        return along("seconds", by), along("bytes", "messages")
    power = math.log(large["seconds"] / small["seconds"]) / math.log(large[by] / small[by])
    return large["seconds"] * (size[by] / large[by]) ** power, along("bytes", "messages")


def planned(rows: pd.DataFrame) -> pd.DataFrame:
    """Predict the plan from the two larger sizes, which exceed the caches as the plan does.

    A command makes and sends its mappings one after another, independent of its workers. With a
    command on each node, each makes its share; a single command makes all of them.
    """
    size = sizes_of(PLANNED)
    cost = {
        kind: forecast(rows[rows["kind"] == kind].to_dict("records")[1:3], size) for kind in KINDS
    }
    making, sending = cost["make a mapping"][0], cost["send to a worker"][0]
    rows = []
    for kind in ("level-1 features", "level-2 features", "simulation"):
        seconds, memory = cost[kind]
        a_node = max(1, min(CORES, int(MEMORY / memory)))
        share = N_MAPPINGS / N_NODES
        jobs = share * max(making + sending, seconds / a_node)
        alone = N_MAPPINGS * max(making + sending, seconds / (a_node * N_NODES))
        rows.append(
            {
                "work": kind,
                "seconds_a_mapping": seconds,
                "gb_a_worker": memory / 1e9,
                "workers_a_node": a_node,
                "hours_by_jobs": jobs / 3600,
                "hours_by_one_command": alone / 3600,
            }
        )
    return pd.DataFrame(rows).assign(make_seconds=making, send_seconds=sending)


def main() -> None:
    """Measure all kinds of work and sizes, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for the CSV files")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "TASKS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one is not None:
        kind, tasks = arguments.one
        print(json.dumps(measure(kind, int(tasks))))
        return
    rows = []
    for kind in KINDS:
        for n_tasks in MEASURED:
            command = [sys.executable, __file__, "--one", kind, str(n_tasks)]
            rows.append(json.loads(subprocess.check_output(command)))
            print(rows[-1], flush=True)
    # This work is fast enough to measure at the size of the plan, too.
    command = [sys.executable, __file__, "--one", "level-1 features", str(PLANNED)]
    rows.append(json.loads(subprocess.check_output(command)))
    measured = pd.DataFrame(rows)
    arguments.out.mkdir(parents=True, exist_ok=True)
    found = {
        "cost": measured,
        "cost-check": checked(measured),
        "cost-plan": planned(measured),
    }
    for name, table in found.items():
        table.assign(cpu=describe_machine()["cpu"]).to_csv(
            arguments.out / f"{name}.csv", index=False
        )
        print(table.to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
