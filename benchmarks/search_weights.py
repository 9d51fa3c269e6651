"""Fit the weights of the search's energy, so that it orders mappings as the simulated time does.

python benchmarks/search_weights.py --out FOLDER

For each captured graph, tasks renumbered, 60 mappings of the strategies and what short annealing
makes of the best: their simulated times, and the energies by a grid of powers and shares of
hop-bytes. Writes search-weights.csv: Kendall's tau between energy and time of all mappings and of
the better half, a row per graph and weights, and the mean over graphs.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau
from search import CAPTURED, renumbered

from toruscast import datasets
from toruscast.mapping import TaskMapping, Torus, as_workload, strategies
from toruscast.mapping.allocation import Allocation
from toruscast.routing.annealing import Annealer, Goal
from toruscast.routing.moving import usable
from toruscast.simulation import simulate

DOUBLINGS, SHARES = (1, 2, 3, 4, 5), (0.1, 0.3, 1.0, 2.0, 4.0, 8.0)
SAMPLE, ANNEALED = 60, 24


def taus(name: str) -> list[dict[str, Any]]:
    """How well each energy orders the mappings of one graph."""
    comm = datasets.load(name).scaled(1 / datasets.provenance(name)["iterations"])
    comm, torus = renumbered(comm), Torus(CAPTURED[name])
    workload, uses = as_workload(comm), usable(as_workload(comm), torus, "deterministic")
    places = Allocation(torus).free_places(comm.n_tasks)

    def annealer(start: TaskMapping, goal: Goal, seed: int) -> Annealer:
        return Annealer(workload, torus, start, places, goal, uses, seed=seed)

    sample = strategies.sample(comm, torus, n=SAMPLE)
    goals = [Goal(*weights) for weights in itertools.product(DOUBLINGS, SHARES)]
    for number in range(ANNEALED):
        run = annealer(sample[number], goals[number], number)
        for turn in range(8):
            run.turn(50 * comm.n_tasks, 0.3 * 0.5**turn / comm.n_tasks, 0.01 / comm.n_tasks)
        sample.append(TaskMapping(run.best_node, torus))
    times = np.array([simulate(comm, torus, mapping, error=0.03).time for mapping in sample])
    better = times <= np.median(times)
    rows = []
    for goal in goals:
        energies = np.array([annealer(mapping, goal, 0).energy for mapping in sample])
        rows.append(
            {
                "graph": name,
                "power": 2**goal.doublings,
                "hop_share": goal.hop_share,
                "tau": kendalltau(energies, times).statistic,
                "tau_better_half": kendalltau(energies[better], times[better]).statistic,
            }
        )
    return rows


def main() -> None:
    """Fit them on all graphs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame([row for name in CAPTURED for row in taus(name)])
    mean = table.groupby(["power", "hop_share"], as_index=False)[["tau", "tau_better_half"]].mean()
    table = pd.concat([table, mean.assign(graph="mean")], ignore_index=True)
    table.to_csv(folder / "search-weights.csv", index=False)
    for name, rows in table.groupby("graph", sort=False):
        best = rows.nlargest(3, "tau_better_half")
        print(name, best.drop(columns="graph").to_string(index=False, header=False), sep="\n")


if __name__ == "__main__":
    main()
