"""Measure the speed-up and the cost of threads, processes and a cluster.

    python benchmarks/workers.py --out FOLDER [--rounds N]

Every kind of worker runs the same 84 simulations in turn, `--rounds` times. A row has its shortest
time. One process is that of the command itself. Two processes start, import modules and load
kernels in their first round, and exist already in the other rounds. The cluster is a scheduler and
two worker processes on this machine. `share` is the processor time of the simulations divided by
the seconds of the workers. The rest is overhead or time of other programs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import joblib
import pandas as pd

import toruscast as tc
from toruscast.answers.html import describe_machine
from toruscast.workers import Task

N_SIMULATIONS = 84
Way = Callable[[], AbstractContextManager[object]]


def simulated(comm: tc.CommGraph, torus: tc.Torus, mapping: tc.TaskMapping) -> tuple[float, float]:
    """Return the simulated time and the processor seconds of the simulation."""
    start = time.thread_time()
    found = tc.simulate(comm, torus, mapping).time
    return found, time.thread_time() - start


@contextmanager
def new_processes(n: int) -> Iterator[None]:
    """Provide worker processes that start with the work and end after it."""
    from joblib.externals.loky import get_reusable_executor

    with joblib.parallel_config("loky", n_jobs=n):
        yield
        get_reusable_executor().shutdown(wait=True)


def measured(rounds: int) -> pd.DataFrame:
    """Return a row for each kind of worker."""
    from distributed import Client, LocalCluster

    comm, torus = tc.datasets.load("lammps-lj-64"), tc.Torus((4, 4, 4))
    mappings = tc.strategies.sample(comm, torus, n=N_SIMULATIONS)
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with local, Client(local, set_as_default=False) as client:
        ways: dict[tuple[str, int], Way] = {
            ("one thread", 1): nullcontext,
            ("two threads", 2): nullcontext,
            ("two new processes", 2): lambda: new_processes(2),
            ("two workers of a cluster", 2): lambda: joblib.parallel_config("dask", client=client),
        }
        tc.simulate(comm, torus, mappings[0])
        rows = []
        for number in range(rounds):
            for (way, workers), use in ways.items():
                start = time.perf_counter()
                with use():
                    found = Task(simulated, comm, torus).in_order(mappings, workers)
                    seconds = time.perf_counter() - start
                times, processor = zip(*found, strict=True)
                rows.append((way, workers, number, sum(times), seconds, sum(processor)))
                print(rows[-1], flush=True)
    columns = ["way", "workers", "round", "simulated", "seconds", "processor_seconds"]
    table = pd.DataFrame(rows, columns=columns)
    if table["simulated"].nunique() > 1:
        raise AssertionError("ways differ in what they simulate")
    return table.drop(columns="simulated")


def summed_up(table: pd.DataFrame) -> pd.DataFrame:
    """Return the minimum seconds of each kind of worker, and its speed-up."""
    best = table.loc[table.groupby("way", sort=False)["seconds"].idxmin()].set_index("way")
    best.insert(0, "tasks", N_SIMULATIONS)
    best["seconds_a_task"] = best["processor_seconds"] / N_SIMULATIONS
    best["share"] = best["processor_seconds"] / (best["seconds"] * best["workers"])
    best["speed_up"] = best.at["one thread", "seconds"] / best["seconds"]
    best["over_threads"] = best["seconds"] / best.at["two threads", "seconds"] - 1
    return best.drop(columns="round").reset_index()


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for workers.csv")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    table = measured(arguments.rounds)
    print(table.to_string(index=False, float_format="%.4g"))
    found = summed_up(table)
    found["cpu"] = describe_machine()["cpu"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    found.to_csv(arguments.out / "workers.csv", index=False)
    print(found.to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
