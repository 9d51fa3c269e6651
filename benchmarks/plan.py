"""Plan runs on measured and simulated times from random starts, and in a random order.

    python benchmarks/plan.py --out FOLDER [--data FOLDER]

Measured times are those of the emulated torus in `--data`. A run is a random repetition of a
mapping, or the mean of its repetitions. Simulated times are those of two captured applications and
four generated ones with 64 tasks and 84 candidates each. A run is the time on a network whose rule
for FIFOs differs from that of the plan, plus a constant as large as the median of all times, times
noise. Octrees are planned only from predictions, on a machine that takes 1.5 times as long as the
simulated network, plus a constant.

A start consists of three random mappings. Then the plan chooses mappings until it ends, or until a
quarter of the mappings have run. The random order runs as many mappings, each once, and chooses the
one with the shortest time. An answer is right if its mean exceeds the shortest mean by at most two
standard errors of their difference (measured times) or by at most the noise of a run (simulated
times, some of which come late because of an operating system). The regret is by how much it is
longer. If the plan ended by itself, its answer keeps the promise if it is right or within the
plan's goal. Writes plan.csv, with a row for each case.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from validation import emulated_cases

import toruscast as tc
from studies.unseen.graphs import draw
from toruscast import datasets
from toruscast.decision import Plan, plan
from toruscast.mapping import CommGraph, strategies
from toruscast.simulation import simulate

Floats = NDArray[np.float64]
STARTS = 20
BEGUN = 3
HOST, LARGE_HOST, CAPTURED = "4x4x4", "8x8x8", ("lammps-lj-64", "espresso-si-64")
GENERATED = {"octree": 16.0, "unstructured mesh": 8.0, "multigrid": 8.0, "transposes": 8.0}
"""Kinds of generated graphs, and packets of their mean message."""
NOISES = {
    "noise of 1 %": (0.01, 0.0),
    "noise of 3 %": (0.03, 0.0),
    "operating system": (0.01, 0.05),
}
"""Standard deviation of a run's time as a share of it, and the share of runs that come late."""
LATE = 1.25


def blurred(time: float, noise: tuple[float, float], rng: np.random.Generator) -> float:
    """Draw the time of a run."""
    late = LATE if rng.random() < noise[1] else 1.0
    return float(time * late * np.exp(noise[0] * rng.standard_normal()))


@dataclass(frozen=True)
class Machine:
    """A case: a plan without runs, and possible times of a run of each mapping."""

    name: str
    run: str
    planned: Plan
    true: Floats
    is_right: NDArray[np.bool_]
    draw: Callable[[int, np.random.Generator], float]


def measured(folder: Path) -> Iterator[Machine]:
    """Yield the cases of the emulated torus."""
    times = pd.read_csv(folder / "times.csv")
    for case in emulated_cases(folder):
        pattern, nbytes, _ = case.name.split()
        here = times[(times["pattern"] == pattern) & (times["msg_bytes"] == int(nbytes))]
        numbers = sorted(case.mappings)
        mappings = [case.mappings[number] for number in numbers]
        planned = plan(case.workload, case.torus, mappings)
        every = [here.loc[here["mapping_id"] == i, "time_s"].to_numpy() for i in numbers]
        clean = here[here["retrans"] == 0].groupby("mapping_id")["time_s"]
        true, error = clean.mean()[numbers].to_numpy(), clean.sem()[numbers].to_numpy()
        best = int(true.argmin())
        right = true - true.min() <= 2 * np.hypot(error, error[best])
        name = f"emulated torus, {case.name}"
        yield Machine(
            name,
            "one repetition",
            planned,
            true,
            right,
            lambda i, rng, each=every: float(rng.choice(each[i])),
        )
        means = np.array([values.mean() for values in every])
        yield Machine(
            name,
            "mean of all",
            planned,
            true,
            right,
            lambda i, _rng, each=means: float(each[i]),
        )


def simulated() -> Iterator[Machine]:
    """Yield applications on a network with another FIFO rule, a constant and noise."""
    for name, comm in graphs():
        torus = tc.torus(HOST).with_network(unknown_rules=())
        mappings = strategies.sample(comm, torus, n=84, seed=1)
        planned = plan(comm, torus, mappings)
        real = torus.with_network(fifo_rule="first_dimension", feeding="packets")
        network = np.array([simulate(comm, real, each).time for each in mappings])
        true = network + np.median(network)
        for run, noise in NOISES.items():
            yield Machine(
                f"{name} on {HOST}",
                run,
                planned,
                true,
                true <= true.min() * (1 + noise[0]),
                lambda i, rng, t=true, noise=noise: blurred(t[i], noise, rng),
            )


def predicted() -> Iterator[Machine]:
    """Yield octrees whose times the plan predicts without simulations."""
    for host in (HOST, LARGE_HOST):
        torus = tc.torus(host).with_network(unknown_rules=())
        rng = np.random.default_rng(5)
        comm = draw("octree", torus.n_nodes, torus.network.payload, GENERATED["octree"], rng)
        mappings = strategies.sample(comm, torus, n=84, seed=1)
        network = np.array([simulate(comm, torus, each).time for each in mappings])
        true = np.median(network) + 1.5 * network
        run = "noise of 1 %"
        yield Machine(
            f"octree on {host}, without simulations",
            run,
            plan(comm, torus, mappings, simulate=0),
            true,
            true <= true.min() * (1 + NOISES[run][0]),
            lambda i, rng, t=true: blurred(t[i], NOISES["noise of 1 %"], rng),
        )


def graphs() -> Iterator[tuple[str, CommGraph]]:
    """Yield two captured applications and four generated ones."""
    for name in CAPTURED:
        yield name, datasets.load(name).scaled(1 / datasets.provenance(name)["iterations"])
    network = tc.torus(HOST).network
    for kind, packets in GENERATED.items():
        yield kind, draw(kind, 64, network.payload, packets, np.random.default_rng(5))


def answer(machine: Machine, seed: int) -> dict[str, Any]:
    """Plan from one random start."""
    rng = np.random.default_rng([seed, zlib.crc32((machine.name + machine.run).encode())])
    runs = copy(machine.planned)
    place = {name: i for i, name in enumerate(runs.names)}
    n = len(place)
    quarter = n // 4
    order = rng.permutation(n)
    for i in order[:BEGUN]:
        runs.observe(runs.names[i], machine.draw(int(i), rng))
    rights: list[bool] = [False] * (BEGUN - 1)
    while True:
        rights.append(bool(machine.is_right[place[runs.name_of(runs.best)]]))
        if runs.is_enough or runs.n_runs >= quarter:
            break
        i = place[runs.name_of(runs.ask()[0])]
        runs.observe(runs.names[i], machine.draw(i, rng))
    chosen = place[runs.name_of(runs.best)]
    seen = np.array([machine.draw(int(i), rng) for i in order[:quarter]])
    other = int(order[:quarter][seen.argmin()])
    least = machine.true.min()
    enough = least * (1 + runs.verdict.tolerance)
    return {
        "quarter": quarter,
        "right": bool(machine.is_right[chosen]),
        "right_random": bool(machine.is_right[other]),
        "regret": machine.true[chosen] / least - 1,
        "regret_random": machine.true[other] / least - 1,
        "runs": runs.n_runs,
        "first_right": next((i + 1 for i, right in enumerate(rights) if right is True), np.nan),
        "enough": runs.is_enough,
        "kept": runs.is_enough and bool(machine.is_right[chosen] or machine.true[chosen] <= enough),
        "noise": runs.noise_share,
    }


def score(machine: Machine) -> dict[str, Any]:
    """Plan from every start; return the shares and means."""
    each = joblib.Parallel(n_jobs=-1)(
        joblib.delayed(answer)(machine, seed) for seed in range(STARTS)
    )
    table = pd.DataFrame(each)
    enough = int(table["enough"].sum())
    return {
        "case": machine.name,
        "run": machine.run,
        "mappings": len(machine.planned.names),
        "quarter": int(table["quarter"].iloc[0]),
        "right": table["right"].mean(),
        "right_random": table["right_random"].mean(),
        "first_right": table["first_right"].median(),
        "regret": table["regret"].mean(),
        "regret_random": table["regret_random"].mean(),
        "runs": table["runs"].median(),
        "enough": enough / len(table),
        "kept": table["kept"].sum() / enough if enough else np.nan,
        "noise": table["noise"].median(),
    }


def main() -> None:
    """Plan all cases and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the measurements")
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV file")
    arguments = parser.parse_args()
    there = [] if arguments.data is None else [arguments.data / "emulated-torus"]
    rows = []
    for machine in chain(*map(measured, there), simulated(), predicted()):
        rows.append(score(machine))
        print(pd.Series(rows[-1]).to_string(), "\n", flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows)
    table.to_csv(arguments.out / "plan.csv", index=False)
    print(table.to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
