"""Decide among candidates whose times are known, and score the decisions.

    python benchmarks/forecast.py --out FOLDER --kept FOLDER [--seeds 20]

Writes race.csv, with a row for each set of candidates, and summaries. There is a set of 84
candidates for each of five captured applications and each of several seeds. The decisions use the
loop of `toruscast.rank`, but look up the times instead of simulating. The times are simulated once,
in about 20 processor minutes, and stored in the folder ``--kept``. A run that was stopped resumes
from it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from run import machine

from studies.recorded_times import RecordedTimes
from toruscast import datasets
from toruscast.decision.loop import REGRET, Decision, decide
from toruscast.decision.posterior import Posterior
from toruscast.decision.ranking import describe_candidates
from toruscast.decision.results import candidate_names, default_order
from toruscast.mapping import MappingProblem, strategies
from toruscast.training import rcc
from toruscast.training.default_model import load_default

Floats = NDArray[np.float64]
HOSTS = (
    ("lammps-lj-64", "4x4x4"),
    ("lammps-lj-512", "8x8x8"),
    ("lammps-droplet-128", "4x4x8"),
    ("espresso-si-64", "4x4x4"),
    ("lammps-salt-64", "4x4x4"),
)
N = 84
COVERAGE = 0.9
# Bytes of a packet on Blue Gene/Q.
PAYLOAD = 512
COARSE = (4, 8, 16)


class Recorded(NamedTuple):
    """Candidates before any simulation, and their recorded times."""

    name: str
    seed: int
    posterior: Posterior
    times: RecordedTimes
    default: int | None


def captured(kept: Path, seeds: int) -> Iterator[Recorded]:
    """Give the candidates of the captured applications."""
    kept.mkdir(parents=True, exist_ok=True)
    model = load_default()
    for name, shape in HOSTS:
        comm = datasets.load(name).scaled(1 / datasets.provenance(name)["iterations"])
        problem = MappingProblem(comm, shape)
        for seed in range(1, seeds + 1):
            sample = strategies.sample(comm, problem.torus, n=N, seed=seed)
            candidates, simulator = describe_candidates(problem, problem.mappings(sample), model, 2)
            file = kept / f"{name}-{seed}.npz"
            levels = [m for m in simulator.levels if m == 1 or m in COARSE]
            if not file.exists():
                every = np.arange(N)
                np.savez(file, **{str(level): simulator.simulate(every, level) for level in levels})
            with np.load(file) as stored:
                times = {int(level): stored[level] for level in stored.files}
            costs = {level: simulator.hops(level) for level in times}
            bounds = simulator.lower, simulator.release
            recorded = RecordedTimes(times, *bounds, simulator.packets, costs)
            yield Recorded(
                name,
                seed,
                candidates.posterior,
                recorded,
                default_order(sample, candidate_names(sample), problem.torus),
            )


def race(each: Recorded) -> dict[str, Any]:
    """Decide as `toruscast.rank` does, and compare with the recorded times."""
    times, n = each.times.recorded[1], each.posterior.n
    found = decide(Decision(each.posterior, each.times, default=each.default))
    kind, certainty = found.verdict()
    forecast, low, high = found.posterior.interval(COVERAGE)
    rest = ~found.is_simulated
    held = (low <= times) & (times <= high)
    coarse = each.times.hops(found.coarsening) if found.coarsening else 0.0
    hops = found.n_simulated * each.times.hops() + int(found.is_coarse.sum()) * coarse
    return {
        "candidates": each.name,
        "seed": each.seed,
        "n": n,
        "simulations": found.n_simulated,
        "verdict": kind,
        "certainty": certainty,
        "regret": found.best_time / times.min() - 1,
        "forecast_rcc": rcc(times, each.posterior.interval(COVERAGE)[0]),
        "rcc": rcc(times, forecast),
        "coverage": float(held[rest].mean()) if rest.any() else np.nan,
        "cost": hops / (n * each.times.hops()),
    }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each application."""
    groups = rows.groupby("candidates", sort=False)
    return groups.apply(_summed, include_groups=False).reset_index(names="candidates")


def _summed(rows: pd.DataFrame) -> pd.Series[Any]:
    sure = rows[rows["verdict"] == "sure"]
    return pd.Series(
        {
            "sets": len(rows),
            "simulations": rows["simulations"].median(),
            "most_simulations": rows["simulations"].max(),
            "proved": float((rows["verdict"] == "proved").mean()),
            "sure": len(sure) / len(rows),
            "fastest": float((rows["regret"] <= 0).mean()),
            "within_1_percent": float((rows["regret"] <= REGRET).mean()),
            "largest_regret": rows["regret"].max(),
            "forecast_rcc": rows["forecast_rcc"].mean(),
            "rcc": rows["rcc"].mean(),
            "coverage": rows["coverage"].mean(),
            "cost": rows["cost"].mean(),
        }
    )


def targets(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the targets of the race and the values reached."""
    answered = rows["verdict"] != "undecided"
    proved, sure = rows[rows["verdict"] == "proved"], rows[rows["verdict"] == "sure"]
    right = float((sure["regret"] <= REGRET).mean())
    means = rows.groupby("candidates")[["rcc", "coverage"]].mean().mean()
    figures = [
        ("median of simulations", "at most 3", rows["simulations"].median()),
        ("share of simulating all", "at most 0.08", rows["cost"].mean()),
        ("regret 0", "at least 0.95", (rows["regret"] <= 0).mean()),
        ("regret of 1 % or less", "at least 0.98", (rows["regret"] <= REGRET).mean()),
        ("proved answers that are true", "1", (proved["regret"] <= 0).mean()),
        ("sure answers that are right within 1 %", "at least 0.93", right),
        ("sets without an answer", "", float((~answered).mean())),
        ("RCC of the answer, mean of applications", "", means["rcc"]),
        ("90 % intervals hold, mean of applications", "at least 0.9", means["coverage"]),
    ]
    return pd.DataFrame(figures, columns=["what", "target", "reached"])


def main() -> None:
    """Race all sets of candidates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV files")
    parser.add_argument("--kept", type=Path, required=True, help="folder for simulated times")
    parser.add_argument("--seeds", type=int, default=20, help="sets of each application")
    arguments = parser.parse_args()
    rows = pd.DataFrame([race(each) for each in captured(arguments.kept, arguments.seeds)])
    arguments.out.mkdir(parents=True, exist_ok=True)
    tables = {"race": rows, "race-summary": summary(rows), "race-targets": targets(rows)}
    for name, table in tables.items():
        table.assign(**machine()).to_csv(arguments.out / f"{name}.csv", index=False)
    print(tables["race-summary"].to_string(index=False, float_format="%.3f"))
    print(tables["race-targets"].to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
