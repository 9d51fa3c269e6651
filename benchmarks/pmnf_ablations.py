"""What each part of the scaling fitter is worth: errors without it, and write CSV.

    python benchmarks/pmnf_ablations.py --out FOLDER --real FOLDER [--seed N] [--page PAGE]

Functions are drawn as in `benchmarks/pmnf.py`, with noise of 2 and 10 %, and the largest values of
real measurements are held out. An error is the median at four times the largest values, over the
cases a, b and c (whole grids), bs, cs and ds (few points, on lines) and points drawn from the grids
of b and c (scattered), joined by their geometric mean. A part stays in the fitter if an error rises
by more than 5 % without it.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

# First of all, since it fixes the number of threads before numpy is loaded.
import pmnf  # isort: split

import numpy as np
from pmnf_tables import ablation_table
from report import fill

from toruscast.scaling.pmnf import models, noise, search, select

PARTS = {
    "everything": ("", None),
    "law of bounded noise": ("noise", "normal"),
    "prior against negative coefficients": ("select.PRICE", 0.0),
    "any negative coefficient": ("select.PRICE", 1e9),
    "range of open coefficients": ("range", None),
    "growth between the nearest points": ("growth", None),
    "half-widths of bounded noise, 20 (2)": ("noise._EXCESS", np.array([0.1, 0.1001])),
    "terms judged together where points are no grid": ("scattered", None),
    "as many terms where points are few (16, 6, 4)": ("search._TERMS_SPARSE", {2: 16, 3: 6, 4: 4}),
    "median of the predictions where points are few": ("median", None),
}


def alone(problem: search.Problem, keep: int) -> list[Any]:
    """Choose the terms of each parameter by itself."""
    return [search._screened(problem, q, keep) for q in range(len(problem.terms))]


@contextmanager
def without(what: str, value: Any) -> Iterator[dict[str, Any]]:
    """Options of a fit while a part is switched off."""
    if what == "noise":
        yield {"noise": value}
    elif what.startswith(("select.", "search.", "noise.")):
        module, name = what.split(".")
        modules = {"select": select, "search": search, "noise": noise}
        with mock.patch.object(modules[module], name, value):
            yield {}
    elif what == "median":
        with mock.patch.object(select.RankedHypotheses, "median_first", lambda self, values: self):
            yield {}
    elif what == "scattered":
        with mock.patch.object(search, "_rescreened", alone):
            yield {}
    elif what == "range":
        with (
            mock.patch.object(search, "open_range", lambda total, k: 0.0 * total),
            mock.patch.object(select, "open_range", lambda total, k: 0.0 * total),
        ):
            yield {}
    elif what == "growth":
        with mock.patch.object(models, "followed", lambda *given: given[3]):
            yield {}
    else:
        yield {}


def drawn(cases: str, seed: int, options: dict[str, Any]) -> float:
    """Geometric mean of the median errors on drawn functions."""
    logs = []
    for case, level in itertools.product(cases.split(","), (0.02, 0.1)):
        data = pmnf.sample(case, level, "uniform", seed)
        got = pmnf.fit_toruscast(data["points"], data["values"], data["far"], **options)
        logs.append(np.log(np.median(np.abs(got["prediction"] / data["truth"] - 1)[:, 1])))
    return float(np.exp(np.mean(logs)))


def scattered(seed: int, options: dict[str, Any]) -> float:
    """The same at points of the grid that differ in no parameter alone."""
    logs = []
    for (case, count), level in itertools.product((("b", 10), ("c", 15)), (0.02, 0.1)):
        data = pmnf.sample(case, level, "uniform", seed)
        chosen = np.random.default_rng(seed).choice(len(data["points"]), count, replace=False)
        points, values = data["points"][chosen], data["values"][:, chosen]
        got = pmnf.fit_toruscast(points, values, data["far"], **options)
        logs.append(np.log(np.median(np.abs(got["prediction"] / data["truth"] - 1)[:, 1])))
    return float(np.exp(np.mean(logs)))


def real(folder: Path, options: dict[str, Any]) -> float:
    """Geometric mean of the median errors at the largest values of real measurements."""
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
