"""Find how residuals of the default model are correlated, and how far longer packets are off.

    python benchmarks/posterior.py SAMPLES.parquet --out FOLDER

SAMPLES are those of `tools/train_default.py`. Each application is forecast by a model that has not
seen its kind of graph, and raced; posterior.csv says for many kernels how likely they made the
times that were not simulated, and the share of these in 90 % intervals. longer.csv says of
simulations with 2 to 16 packets in one how far they are off the time: about five minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from run import machine
from scipy.stats import t as student

from tools.train_default import TrainingCase, exchanges, held_out, samples_of
from toruscast.decision import Budget
from toruscast.decision.forecasts import process_of
from toruscast.decision.posterior import Kernel, Posterior
from toruscast.decision.race import Race, run
from toruscast.simulation import simulate
from toruscast.training import rcc
from toruscast.training.fitted import residuals, widened

Floats = NDArray[np.float64]
# Where all take nearly the same time, there is nothing to learn.
LEAST_SPREAD = 0.01
ALL, SOME, CASES = (2, 4, 8, 16), 8, 120
WAITING = (0.0, 0.02, 0.1, 0.3, np.inf)


class Raced(NamedTuple):
    """Mappings of a workload that the model had not seen, some of them simulated in a race."""

    logs: Floats
    centre: Floats
    width: Floats
    features: Floats
    simulated: NDArray[np.int64]


def races(known: list[tuple[TrainingCase, pd.DataFrame]]) -> Iterator[Raced]:
    """Race the mappings of each application."""
    said = list(held_out(known))
    kinds = {kind: residuals([each for k, each in said if k == kind]) for kind, _ in said}
    for (_, table), (kind, (prior, times, apart)) in zip(known, said, strict=True):
        prior = widened(prior, kinds[kind], apart)
        contest = Race(process_of(prior), table["release_bound"].to_numpy())
        run(contest, lambda which, times=times: times[which], Budget())
        if np.ptp(np.log(times)) >= LEAST_SPREAD and len(contest.order) < times.size:
            order = np.array(contest.order)
            yield Raced(np.log(times), *prior.logs(), prior.features, order)


def score(all_races: list[Raced], kernel: Kernel) -> dict[str, Any]:
    """Return how likely and how well covered the times were that no race simulated."""
    likely, held = [], []
    for logs, centre, width, features, simulated in all_races:
        rest = np.setdiff1d(np.arange(logs.size), simulated)
        posterior = Posterior(centre, width, features, kernel).given(simulated, logs[simulated])
        middle, scale = posterior.marginal(rest)
        away = (logs[rest] - middle) / scale
        likely.append((student.logpdf(away, posterior.freedom) - np.log(scale)).mean())
        held.append((np.abs(away) <= student.ppf(0.95, posterior.freedom)).mean())
    return {
        **kernel._asdict(),
        "log_likelihood": np.mean(likely),
        "held": np.mean(held),
        "held_less_than_60_percent": np.mean(np.array(held) < 0.6),
    }


def longer(known: list[tuple[TrainingCase, pd.DataFrame]]) -> pd.DataFrame:
    """Simulate some mappings of some applications with longer packets."""
    rows = []
    for number in np.random.default_rng(1).permutation(len(known))[:CASES]:
        each, samples = known[number]
        if np.ptp(np.log(samples["time"])) < LEAST_SPREAD:
            continue
        for (_, sample), mapping, merged in (
            (*pair, merged)
            for pair in zip(samples[:SOME].iterrows(), each.mappings[:SOME], strict=True)
            for merged in ALL
        ):
            time = simulate(each.workload, each.torus, mapping, coarsening=merged).time
            waiting = abs(time / sample["lower_bound"] - 1)
            rows.append((number, merged, time, sample["time"], waiting))
    return pd.DataFrame(rows, columns=["case", "merged", "longer", "time", "waiting"])


def off(rows: pd.DataFrame) -> pd.DataFrame:
    """Return by packets in one and by how much messages wait how far times are off."""
    rows = rows.assign(miss=np.log(rows["time"] / rows["longer"]))
    orders = rows.groupby(["merged", "case"])[["time", "longer"]].apply(
        lambda each: rcc(each["time"], each["longer"])
    )
    kinds = pd.cut(rows["waiting"], list(WAITING), right=False).astype(str)
    found = rows.groupby(["merged", kinds])["miss"].agg(
        ["size", lambda miss: (miss**2).mean() ** 0.5]
    )
    found.columns = ["mappings", "root_mean_square"]
    found = found.reset_index()
    return found.assign(rcc=found["merged"].map(orders.groupby("merged").mean()))


def main() -> None:
    """Score all kernels, and longer packets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samples", type=Path, help="Parquet file of tools/train_default.py")
    parser.add_argument("--out", type=Path, required=True, help="folder for the CSV files")
    arguments = parser.parse_args()
    applications = list(exchanges())
    known = list(zip(applications, samples_of(applications, arguments.samples), strict=True))
    raced = list(races(known))
    shares = product((0.08, 0.17), (0.2, 0.3, 0.5), (0.05, 0.1, 0.15, 0.2), (0.3, 0.5, 0.7, 1.0))
    kernels = [Kernel(*values) for values in shares]
    table = pd.DataFrame([score(raced, kernel) for kernel in kernels])
    tables = {
        "posterior": table.sort_values("log_likelihood", ascending=False, ignore_index=True),
        "longer": off(longer(known)),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, found in tables.items():
        found.assign(**machine()).to_csv(arguments.out / f"{name}.csv", index=False)
        print(found.head(16).to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
