"""Measure how errors of the default model and of coarse simulations are correlated.

    python benchmarks/posterior.py --out FOLDER

For each application of the study of unseen graphs that is fast to simulate, 84 candidates are
simulated with real packets, and with 4, 8 and 16 packets merged into one. coarse.csv has the root
mean square of the errors of coarse times, the part that all candidates share, the part of each
candidate, and the ratio of the latter to the width that the posterior expects. kernels.csv has, for
many kernels of the prior error, the likelihood of the times that the loop did not simulate, and the
share of these times in 90 % intervals. loop.csv has the results and the costs of the loop. This
takes about half an hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from run import machine
from scipy.stats import norm

from studies.recorded_times import RecordedTimes
from studies.unseen.orders import cases
from toruscast.decision.loop import Decision, decide
from toruscast.decision.posterior import ErrorComponent, Kernel, Posterior
from toruscast.decision.ranking import describe_candidates
from toruscast.decision.results import candidate_names, default_order
from toruscast.decision.simulations import coarse_error
from toruscast.mapping import MappingProblem, strategies
from toruscast.training.default_model import load_default
from toruscast.training.residuals import correction_scale

Floats = NDArray[np.float64]
N, COARSE, MAX_HOPS = 84, (4, 8, 16), 6e5


class Recorded(NamedTuple):
    """Times of the candidates of an application, and their posterior before any simulation."""

    name: str
    posterior: Posterior
    times: RecordedTimes
    default: int | None


def recorded() -> Iterator[Recorded]:
    """Simulate the candidates of each application."""
    model, every = load_default(), np.arange(N)
    for seed, case in enumerate(cases()):
        problem = MappingProblem(case.workload, case.torus, case.routing)
        sample = strategies.sample(case.workload, case.torus, n=N, seed=seed)
        candidates, simulator = describe_candidates(problem, problem.mappings(sample), model, 2)
        if simulator.hops() > MAX_HOPS:
            continue
        costs = {level: simulator.hops(level) for level in (1, *COARSE)}
        times = {
            level: simulator.simulate(every, level)
            for level, cost in costs.items()
            if level == 1 or cost < costs[1] / 2
        }
        bounds = simulator.lower, simulator.release
        kept = RecordedTimes(times, *bounds, simulator.packets, costs)
        yield Recorded(
            case.name,
            candidates.posterior,
            kept,
            default_order(sample, candidate_names(sample), problem.torus),
        )


def coarse_rows(each: Recorded) -> Iterator[dict[str, Any]]:
    """Yield the errors of the coarse times of an application."""
    full, packets = each.times.recorded[1], each.times.packets
    for level in each.times.levels[1:]:
        times = each.times.recorded[level]
        error = np.log(times / full)
        width = coarse_error(level, packets) * correction_scale(times, each.times.lower)
        yield {
            "coarsening": level,
            "keeps 4 packets": packets >= 4 * level,
            "common": error.mean() ** 2,
            "own": error.var(),
            "expected": (width**2).mean(),
        }


def score_kernel(each: Recorded, kernel: Kernel) -> tuple[float, float]:
    """Return the log density and the coverage of the times that the loop does not simulate."""
    errors = {"prior": ErrorComponent(each.posterior.errors["prior"].std, kernel)}
    found = decide(Decision(replace(each.posterior, errors=errors), each.times))
    rest = ~found.is_simulated
    mean, deviation = found.posterior.marginal(np.flatnonzero(rest))
    away = (np.log(each.times.recorded[1][rest]) - mean) / deviation
    density = (norm.logpdf(away) - np.log(deviation)).mean()
    return float(density), float((np.abs(away) <= norm.ppf(0.95)).mean())


def loop_row(each: Recorded) -> dict[str, Any]:
    """Return the result of the loop, and its cost as a share of simulating all candidates."""
    found = decide(Decision(each.posterior, each.times, default=each.default))
    full = each.times.recorded[1]
    hops = found.n_simulated * each.times.hops()
    if found.coarsening:
        hops += int(found.is_coarse.sum()) * each.times.hops(found.coarsening)
    return {
        "case": each.name,
        "verdict": found.verdict()[0],
        "regret": found.best_time / full.min() - 1,
        "simulated": found.n_simulated,
        "cost": hops / (full.size * each.times.hops()),
    }


def main() -> None:
    """Record the times and score them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV files")
    arguments = parser.parse_args()
    every = list(recorded())
    coarse = pd.DataFrame([row for each in every for row in coarse_rows(each)])
    means = coarse.groupby(["coarsening", "keeps 4 packets"]).mean() ** 0.5
    kernels = []
    for common, smooth in product((0.1, 0.3, 0.5), (0.2, 0.5, 0.8)):
        kernel = Kernel(common, smooth * (1 - common), (1 - smooth) * (1 - common))
        scores = np.mean([score_kernel(each, kernel) for each in every], axis=0)
        kernels.append({**kernel._asdict(), "log_density": scores[0], "held": scores[1]})
    tables = {
        "coarse": means.assign(ratio=means["own"] / means["expected"]).reset_index(),
        "kernels": pd.DataFrame(kernels),
        "loop": pd.DataFrame([loop_row(each) for each in every]),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.assign(**machine()).to_csv(arguments.out / f"{name}.csv", index=False)
        print(table.to_string(index=False, float_format="%.3g"), "\n")


if __name__ == "__main__":
    main()
