"""Fit the weights of the search's energy to the order of simulated times.

    python benchmarks/search_weights.py --out FOLDER

For each captured graph, the tasks are renumbered, and 60 mappings are made by the strategies and by
short annealing of the best ones. They are simulated, and their energies are computed for a grid of
powers and shares of hop-bytes.

search-weights.csv has a row per graph and weights with Kendall's tau between energy and time, for
all mappings and for the better half, with the tau of hop-bytes alone, and the mean over graphs.
search-goals.csv has the weights that the runs of a search should use. They are chosen one after
another, so that the best of them for each graph is as good as possible. It also has the results for
a graph with the weights that are best for the other graphs.
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
from toruscast._search.annealing import Annealer, Goal
from toruscast._search.resource_loads import build_resource_table
from toruscast.mapping import MappingProblem, TaskMapping, Torus, strategies
from toruscast.mapping.task_mapping import Allocation
from toruscast.simulation import simulate

DOUBLINGS, SHARES = (1, 2, 3, 4, 5), (0.1, 0.3, 1.0, 2.0, 4.0, 8.0)
SAMPLE, ANNEALED, GOALS = 60, 24, 5


def taus(name: str) -> list[dict[str, Any]]:
    """Return Kendall's tau between time and each energy for the mappings of a graph."""
    comm = datasets.load(name).scaled(1 / datasets.provenance(name)["iterations"])
    comm, torus = renumbered(comm), Torus(CAPTURED[name])
    problem = MappingProblem(comm, torus)
    table = build_resource_table(problem)
    places = Allocation(torus).free_slots(comm.n_tasks)

    def annealer(start: TaskMapping, goal: Goal, seed: int) -> Annealer:
        return Annealer(problem, start, places, goal, table, seed)

    sample = strategies.sample(comm, torus, n=SAMPLE)
    goals = [Goal(*weights) for weights in itertools.product(DOUBLINGS, SHARES)]
    for number in range(ANNEALED):
        run = annealer(sample[number], goals[number], number)
        for turn in range(8):
            run.anneal_sweep(50 * comm.n_tasks, 0.3 * 0.5**turn / comm.n_tasks, 0.01 / comm.n_tasks)
        sample.append(TaskMapping(run.best_node, torus))
    times = np.array([simulate(comm, torus, mapping, error=0.03).time for mapping in sample])
    better = times <= np.median(times)
    rows = []
    for goal in (*goals, Goal(by_loads=False)):
        energies = np.array([annealer(mapping, goal, 0).energy for mapping in sample])
        rows.append(
            {
                "graph": name,
                "power": 2**goal.doublings if goal.by_loads else 0,
                "hop_share": goal.hop_share if goal.by_loads else 1.0,
                "tau": kendalltau(energies, times).statistic,
                "tau_better_half": kendalltau(energies[better], times[better]).statistic,
            }
        )
    return rows


def chosen_goals(tau: pd.DataFrame) -> pd.DataFrame:
    """Return weights, chosen one after another to improve the graphs most."""
    rows: list[dict[str, Any]] = []
    chosen: list[Any] = []
    for _ in range(GOALS):
        gains = {goal: tau.loc[[*chosen, goal]].max().mean() for goal in tau.index.drop(chosen)}
        chosen.append(max(gains, key=lambda goal: gains[goal]))
        power, share = chosen[-1]
        rows.append({"graph": "all", "power": power, "hop_share": share, "tau": gains[chosen[-1]]})
    for graph in tau:
        power, share = tau.drop(columns=graph).mean(axis=1).idxmax()
        rows.append(
            {
                "graph": graph,
                "power": power,
                "hop_share": share,
                "tau": tau.loc[(power, share), graph],
                "tau_of_its_best": tau[graph].max(),
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Fit the weights on all graphs and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame([row for name in CAPTURED for row in taus(name)])
    weights = ["power", "hop_share"]
    goals = chosen_goals(
        table[table.power > 0].pivot_table("tau_better_half", weights, "graph", sort=False)
    )
    mean = table.groupby(weights, as_index=False)[["tau", "tau_better_half"]].mean()
    table = pd.concat([table, mean.assign(graph="mean")], ignore_index=True)
    table.to_csv(folder / "search-weights.csv", index=False)
    goals.to_csv(folder / "search-goals.csv", index=False)
    print(goals.to_string(index=False))


if __name__ == "__main__":
    main()
