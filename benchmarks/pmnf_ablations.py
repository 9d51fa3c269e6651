"""Measure the errors of the scaling fitter without each of its parts, and write CSV.

    python benchmarks/pmnf_ablations.py --out FOLDER --real FOLDER [--seed N] [--page PAGE]

Functions are drawn as in `benchmarks/pmnf.py`, with noise of 2 and 10 %. For real measurements, the
largest values are held out. Each error is the median at four times the largest values. It is the
geometric mean over the cases a, b and c (whole grids), over bs, cs and ds (few points, on lines),
or over points drawn from the grids of b and c (scattered). A part stays in the fitter if an error
increases by more than 5 % without it.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

# Imported first because it sets the number of threads before numpy is loaded.
import pmnf  # isort: split

import numpy as np
from pmnf_tables import ablation_table
from report import fill
from scipy.special import expit

from toruscast.scaling import models, noise, search, select

# Module and name of each part, and its replacement.
PARTS: dict[str, tuple[str, Any]] = {
    "everything": ("", None),
    "law of bounded noise": ("noise", "normal"),
    "exact likelihood of bounded noise": ("select._MIN_BOUNDED", 1.0),
    "share of bounded noise learned from all call paths": ("noise._estimate_bounded_shares", expit),
    "half-widths of bounded noise, 20 (2)": ("noise._EXCESS", np.array([0.1, 0.1001])),
    "prior against negative coefficients": ("negative", 0.5),
    "any negative coefficient but a logarithm's": ("negative", 1e-300),
    "range of open coefficients": ("log_coefficient_range", lambda total, k: 0.0 * total),
    "equal errors where all hypotheses miss": ("select.max_residual", lambda n: 1e300),
    "growth between the nearest points": ("models.predict_by_neighbours", lambda *given: given[3]),
    "formula in that growth": (
        "models.predict_by_neighbours",
        lambda x, y, far, *_: growth_alone(x, y, far),
    ),
    "terms judged together where points are no grid": (
        "search._screen_scattered",
        lambda problem, keep: [
            search._screen_terms(problem, q, keep) for q in range(len(problem.terms))
        ],
    ),
    "rounds over the parameters of scattered points, 10 (2)": ("search._ROUNDS", 2),
    "as many terms where points are few (16, 6, 4)": ("search._TERMS_SPARSE", {2: 16, 3: 6, 4: 4}),
    "median of the predictions where points are few": (
        "select.RankedHypotheses.median_first",
        lambda self, values: self,
    ),
}
MODULES = {"select": select, "search": search, "noise": noise, "models": models}


def growth_alone(points: np.ndarray, centre: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Predict by the power law through the nearest points, without the formula."""
    near = noise.replace_zeros(points, points), noise.replace_zeros(points, places)
    return noise.predict_power_law(
        near[0], np.where(centre > 0, centre, noise.raise_small_values(centre)), near[1]
    )


@contextmanager
def without(what: str, value: Any) -> Iterator[dict[str, Any]]:
    """Options of a fit while a part is switched off."""
    if what in ("", "noise", "negative"):
        yield {what: value} if what else {}
        return
    with ExitStack() as stack:
        both = ("search.log_coefficient_range", "select.log_coefficient_range")
        for place in both if what == "log_coefficient_range" else (what,):
            *owners, name = place.split(".")
            owner: Any = MODULES[owners[0]]
            for inner in owners[1:]:
                owner = getattr(owner, inner)
            stack.enter_context(mock.patch.object(owner, name, value))
        yield {}


def drawn(cases: str, seed: int, options: dict[str, Any]) -> float:
    """Return the geometric mean of the median errors on random functions."""
    logs = []
    for case, level in itertools.product(cases.split(","), (0.02, 0.1)):
        data = pmnf.sample(case, level, "uniform", seed)
        got = pmnf.fit_toruscast(data["points"], data["values"], data["far"], **options)
        logs.append(np.log(np.median(np.abs(got["prediction"] / data["truth"] - 1)[:, 1])))
    return float(np.exp(np.mean(logs)))


def scattered(seed: int, options: dict[str, Any]) -> float:
    """Return the same for points of the grid that never differ in a single parameter."""
    logs = []
    for (case, count), level in itertools.product((("b", 10), ("c", 15)), (0.02, 0.1)):
        data = pmnf.sample(case, level, "uniform", seed)
        chosen = np.random.default_rng(seed).choice(len(data["points"]), count, replace=False)
        points, values = data["points"][chosen], data["values"][:, chosen]
        got = pmnf.fit_toruscast(points, values, data["far"], **options)
        logs.append(np.log(np.median(np.abs(got["prediction"] / data["truth"] - 1)[:, 1])))
    return float(np.exp(np.mean(logs)))


def real(folder: Path, options: dict[str, Any]) -> float:
    """Return the geometric mean of the median errors at the largest values of real measurements."""
    fit = {"toruscast": lambda *data: pmnf.fit_toruscast(*data, **options)}
    errors = [float(row["median_error"]) for row in pmnf.held_out(fit, folder)]
    return float(np.exp(np.mean(np.log(errors))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--real", type=Path, required=True, help="folder of real measurements")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--page", type=Path)
    args = parser.parse_args()
    pmnf.SECONDS = 1e-9
    pmnf.COUNT.update(a=300, b=300)
    rows = []
    for name, (what, value) in PARTS.items():
        with without(what, value) as options:
            rows.append(
                {
                    "without": name,
                    "grids": drawn("a,b,c", args.seed, options),
                    "few points": drawn("bs,cs,ds", args.seed, options),
                    "scattered": scattered(args.seed, options),
                    "real": real(args.real, options),
                }
            )
    args.out.mkdir(parents=True, exist_ok=True)
    pmnf.write(args.out / "pmnf-ablations.csv", rows)
    if args.page:
        fill(args.page, {"ablations": ablation_table(args.out / "pmnf-ablations.csv")})


if __name__ == "__main__":
    main()
