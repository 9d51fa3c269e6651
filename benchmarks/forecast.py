"""Race candidates whose times are known, and say how well that went.

    python benchmarks/forecast.py --out FOLDER --kept FOLDER [--seeds 20]

Writes race.csv, a row for each set of candidates, and what it comes to. The sets are 84 candidates
of each of five captured applications, for each of several seeds, and the stored samples of
``python -m studies`` (blocks of 16,384 and 65,536 tasks). The race is that of `toruscast.forecast`;
times are looked up where it would simulate.

The candidates of the captured applications are simulated once and kept in the folder ``--kept``,
with real packets and with longer ones: about 20 processor minutes, and a run that was stopped goes
on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from run import machine

from toruscast import datasets
from toruscast.decision import Budget
from toruscast.decision.forecasts import interval, process_of
from toruscast.decision.race import REGRET, Race, affordable, run, sketched
from toruscast.features import RoutedTraffic
from toruscast.formats import parse_torus
from toruscast.mapping import (
    CommGraph,
    MappingProblem,
    TaskMapping,
    Torus,
    Workload,
    as_workload,
    strategies,
)
from toruscast.routing.messages import mean_message
from toruscast.simulation import simulate
from toruscast.training import build_samples, rcc, read_samples
from toruscast.training.default_model import APART, DefaultModel, load_default
from toruscast.training.evaluation import sizes_of
from toruscast.training.prior import PriorPrediction
from toruscast.training.samples import ADAPTIVE

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
STORED = Path(__file__).parents[1] / "studies" / "sc13" / "samples.parquet"


class Candidates(NamedTuple):
    """Candidates with their features and times, and what longer packets say of them."""

    name: str
    seed: int
    is_adaptive: bool
    table: pd.DataFrame
    coarsening: int | None = None
    """Packets that are one in ``rough``."""
    rough: Floats | None = None
    packets: float = 1.0
    """Packets of the usual message."""
    share: float = 0.0
    """Cost of such a simulation, that with real packets is 1."""


def captured(kept: Path, seeds: int, model: DefaultModel) -> Iterator[Candidates]:
    """Give the candidates of the captured applications."""
    kept.mkdir(parents=True, exist_ok=True)
    names = (*model.required_columns, "lower_bound")
    for name, shape in HOSTS:
        comm = datasets.load(name).scaled(1 / datasets.provenance(name)["iterations"])
        torus = parse_torus(shape)
        sets = [strategies.sample(comm, torus, n=N, seed=seed) for seed in range(1, seeds + 1)]
        real = known(comm, torus, sets, kept / f"{name}.parquet", names)
        for table, some in zip(real, sets, strict=True):
            # As `forecast` has it, in the ticks of the clock.
            table["sure_bound"] = [
                RoutedTraffic(MappingProblem(comm, torus), m).sure_bound for m in some
            ]
        levels = affordable(as_workload(comm), torus, sets[0])
        merged = levels[0] if levels else None
        rough: list[pd.DataFrame | None] = [None] * seeds
        packets, share = mean_message(MappingProblem(comm, torus)), 0.0
        if merged is not None and merged > 1:
            store = kept / f"{name}-{merged}.parquet"
            rough = list(known(comm, torus, sets, store, ("lower_bound",), merged))
            share = cost_share(as_workload(comm), torus, sets[0], merged)
        for seed, (table, other) in enumerate(zip(real, rough, strict=True), start=1):
            times = None if other is None else other["time"].to_numpy()
            yield Candidates(name, seed, False, table, merged, times, packets, share)


def known(
    comm: CommGraph,
    torus: Torus,
    sets: list[list[TaskMapping]],
    store: Path,
    names: tuple[str, ...],
    coarsening: int | None = None,
) -> list[pd.DataFrame]:
    """Return features and times of each set of candidates; simulate what is not in the store."""
    samples = build_samples(
        [(comm, torus, some) for some in sets],
        store,
        n_jobs=2,
        features=names,
        coarsening=coarsening,
    )
    return [samples.iloc[i : i + N].reset_index(drop=True) for i in range(0, len(samples), N)]


def cost_share(workload: Workload, torus: Torus, some: list[TaskMapping], merged: int) -> float:
    """Return the processor time with longer packets, that with real ones being 1."""
    seconds = {1: 0.0, merged: 0.0}
    for mapping in some[:: N // 4]:
        for coarsening in seconds:
            begun = time.process_time()
            simulate(workload, torus, mapping, coarsening=coarsening)
            seconds[coarsening] += time.process_time() - begun
    return seconds[merged] / seconds[1]


def blocks() -> Iterator[Candidates]:
    """Give the stored samples of workloads on Blue Gene/Q."""
    samples = read_samples(STORED)
    for (workload, torus), table in samples.groupby(["workload", "torus"], sort=False):
        # Long messages choose their way there; those of pF3D's phases are of both kinds.
        is_adaptive = "4 MB" in workload or "pF3D" in workload
        name = f"{workload} on {torus.removeprefix('bluegene_q ')}"
        # No bound holds for an iteration that others overlap.
        bare = table.reset_index(drop=True).assign(sure_bound=0.0)
        packets = float(sizes_of(bare)["message_bytes"].mean()) / PAYLOAD
        yield Candidates(name, 0, is_adaptive, bare, packets=packets)


def race(candidates: Candidates, model: DefaultModel) -> dict[str, Any]:
    """Race candidates as `toruscast.forecast` does, and compare with what is known."""
    table, times = candidates.table, candidates.table["time"].to_numpy()
    bounds = table["sure_bound"]
    kinds = (ADAPTIVE,) if candidates.is_adaptive else ()
    prior = model.prior_prediction(table.assign(**{APART: 0.0}), kinds, candidates.packets)
    contest = Race(process_of(prior), bounds.to_numpy(), candidates.seed)
    run(contest, lambda which: times[which], Budget())
    kind, certainty = contest.verdict()
    row = {
        "candidates": candidates.name,
        "seed": candidates.seed,
        "routing": "adaptive" if candidates.is_adaptive else "deterministic",
        "n": len(table),
        "simulations": len(contest.order),
        "verdict": kind,
        "certainty": certainty,
        "regret": contest.best_time / times.min() - 1,
        "forecast_rcc": rcc(times, prior.times()),
        **order(contest, prior, times),
    }
    row["ordered_rcc"], row["ordered_coverage"], row["ordering"] = row["rcc"], row["coverage"], 0.0
    if candidates.coarsening == 1:
        row |= {"ordered_rcc": 1.0, "ordered_coverage": np.nan}
        row["ordering"] = float(len(table) - len(contest.order))
    elif candidates.rough is not None:
        lower, bound = table["lower_bound"].to_numpy(), table["release_bound"].to_numpy()
        rough = candidates.rough, candidates.coarsening, candidates.packets
        contest.set_prior(sketched(*rough, lower, bound, prior.features))
        run(contest, lambda which: times[which], Budget())
        found = order(contest, prior, times)
        row |= {f"ordered_{name}": found[name] for name in ("rcc", "coverage")}
        more = len(contest.order) - row["simulations"]
        row["ordering"] = more + candidates.share * len(table)
    row["ordered_regret"] = (
        0.0 if candidates.coarsening == 1 else contest.best_time / times.min() - 1
    )
    return row


def order(contest: Race, prior: PriorPrediction, times: Floats) -> dict[str, float]:
    """Return how well all are ordered, and how many times lie in their interval."""
    forecast, low, high = interval(contest, prior, COVERAGE)
    rest = ~contest.is_simulated
    held = (low <= times) & (times <= high)
    return {
        "rcc": rcc(times, forecast),
        "coverage": float(held[rest].mean()) if rest.any() else np.nan,
    }


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each captured application and for the blocks of each size and routing."""
    stored = rows["seed"] == 0
    tasks = rows["candidates"].str.extract(r"(\d+) tasks", expand=False)
    names = "blocks of " + tasks + " tasks, " + rows["routing"]
    groups = rows.groupby(rows["candidates"].where(~stored, names), sort=False)
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
            "ordering": rows["ordering"].mean(),
            "ordered_rcc": rows["ordered_rcc"].mean(),
            "ordered_coverage": rows["ordered_coverage"].mean(),
        }
    )


def targets(rows: pd.DataFrame) -> pd.DataFrame:
    """Return what the race should reach, and what it reaches."""
    answered = rows["verdict"] != "open"
    proved, sure = rows[rows["verdict"] == "proved"], rows[rows["verdict"] == "sure"]
    fixed = rows[(rows["routing"] == "deterministic")]
    free = rows[rows["routing"] == "adaptive"]
    apps = rows[rows["seed"] > 0].groupby("candidates")
    right = float((sure["regret"] <= REGRET).mean())
    figures = [
        ("dimension order: most simulations", "at most 10", fixed["simulations"].max()),
        ("dimension order: median of simulations", "at most 3", fixed["simulations"].median()),
        ("dimension order: share proved", "1", (fixed["verdict"] == "proved").mean()),
        ("adaptive: median of simulations", "at most 15", free["simulations"].median()),
        ("regret 0", "at least 0.95", (rows["regret"] <= 0).mean()),
        ("regret of 1 % or less", "at least 0.98", (rows["regret"] <= REGRET).mean()),
        ("proved answers that are true", "1", (proved["regret"] <= 0).mean()),
        ("sure answers that are right within 1 %", "at least 0.93", right),
        ("sets without an answer", "", float((~answered).mean())),
        ("RCC after the race, mean of applications", "", apps["rcc"].mean().mean()),
        (
            "RCC of the table, mean of applications",
            "at least 0.97",
            apps["ordered_rcc"].mean().mean(),
        ),
    ]
    return pd.DataFrame(figures, columns=["what", "target", "reached"])


def main() -> None:
    """Race all sets of candidates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV files")
    parser.add_argument("--kept", type=Path, required=True, help="folder for simulated times")
    parser.add_argument("--seeds", type=int, default=20, help="sets of each application")
    arguments = parser.parse_args()
    model = load_default()
    every = chain(captured(arguments.kept, arguments.seeds, model), blocks())
    rows = pd.DataFrame([race(candidates, model) for candidates in every])
    arguments.out.mkdir(parents=True, exist_ok=True)
    tables = {"race": rows, "race-summary": summary(rows), "race-targets": targets(rows)}
    for name, table in tables.items():
        table.assign(**machine()).to_csv(arguments.out / f"{name}.csv", index=False)
    print(tables["race-summary"].to_string(index=False, float_format="%.3f"))
    print(tables["race-targets"].to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
