"""Fit the published models of ms2 to noisy measurements, with toruscast and Extra-P.

    python benchmarks/ms2.py --out FOLDER [--page PAGE] [--extrap PYTHON] [--draws N]
    python benchmarks/ms2.py --out FOLDER --small --draws 40 --extrap PYTHON

`benchmarks/pmnf.py` explains the interpreter for `--extrap`. `--page` writes the numbers into two
tables of the documentation. `--small` measures as typical users do, with five values of each
parameter, three repetitions and noise of 1, 3 and 5 %. It writes only ms2-small.csv.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

# Imported first because it sets the number of threads before numpy is loaded.
from pmnf import fit_elsewhere, fit_toruscast, write  # isort: split

import numpy as np
from ms2_models import REPETITIONS, VARIATIONS, PublishedModel, on_lines, published_models, sample
from pmnf_tables import designs_table, ms2_table
from report import fill


def fit_known(
    model: PublishedModel, points: np.ndarray, values: np.ndarray, far: np.ndarray
) -> np.ndarray:
    """Return predictions of least squares with the true terms, shape (n_draws, n_far)."""
    one = [replace(model, terms=((1.0, e),)) for _, e in model.terms]
    error = np.abs(values.mean(axis=2)) + 1e-9
    result = []
    for y, e in zip(values.mean(axis=2), error, strict=True):
        columns = np.array([m.value(points) for m in one]).T / e[:, None]
        scale = np.linalg.norm(columns, axis=0)
        found = np.linalg.lstsq(columns / scale, y / e, rcond=None)[0] / scale
        result.append(np.array([m.value(far) for m in one]).T @ found)
    return np.array(result)


def outcome(fit: Any, model: PublishedModel, *data: np.ndarray) -> dict[str, float]:
    """Return the shares of draws with the true terms and parameters, and the median error."""
    got = fit(*data)
    error = np.abs(got["prediction"][:, 0] / model.value(data[-1])[0] - 1)
    found = [{tuple(map(tuple, e)) for e in terms} for terms in got["terms"]]
    return {
        "exact": np.mean([f == model.exponents for f in found]),
        "active": np.mean([acting(f) == acting(model.exponents) for f in found]),
        "error_pct": 100 * np.median(error),
        "cpu_s": got["seconds"],
    }


def measure(
    extrap: str | None,
    draws: int,
    seed: int,
    n_values: int = 6,
    repetitions: int = REPETITIONS,
    variations: Sequence[float] = VARIATIONS,
) -> list[dict[str, Any]]:
    fitters: dict[str, Any] = {
        "toruscast": fit_toruscast,
        "leave-one-out": lambda *data: fit_toruscast(*data, select="loo"),
        "5 folds": lambda *data: fit_toruscast(*data, select="kfold"),
    }
    if extrap:
        fitters["Extra-P"] = lambda *data: fit_elsewhere(extrap, *data)
    rows = []
    for number, model in enumerate(published_models()):
        points = model.points(n_values)
        far = 2 * points.max(axis=0, keepdims=True)
        for variation in variations:
            seeded = seed * 1000 + number
            values = sample(model, variation, draws, seeded, n_values, repetitions)
            floor = np.abs(fit_known(model, points, values, far)[:, 0] / model.value(far)[0] - 1)
            for fitter, fit in fitters.items():
                row = {
                    "model": model.name,
                    "variation_pct": 100 * variation,
                    "fitter": fitter,
                    "draws": draws,
                    **outcome(fit, model, points, values, far),
                    "floor_pct": 100 * np.median(floor),
                    "visible": model.visible(variation).min(),
                }
                rows.append(row)
                print(*rows[-1].values(), flush=True)
    return rows


# Values of each parameter, repetitions, and whether only lines and one other point are measured.
DESIGNS = {
    "lines + 1, 3 times": (5, 3, True),
    "lines + 1, 30 times": (5, 30, True),
    "5 values, 3 times": (5, 3, False),
    "5 values, 5 times": (5, 5, False),
    "5 values, 10 times": (5, 10, False),
    "6 values, 10 times": (6, 10, False),
}
DESIGN_VARIATION = 0.05


def compare_designs(draws: int, seed: int) -> list[dict[str, Any]]:
    """Return the share of draws with exactly the true terms, for different sets of runs."""
    rows = []
    for design, (n_values, repetitions, lines) in DESIGNS.items():
        for number, model in enumerate(published_models()):
            points = model.points(n_values)
            seeded = seed * 1000 + number
            values = sample(model, DESIGN_VARIATION, draws, seeded, n_values, repetitions)
            keep = on_lines(points) if lines else np.ones(len(points), dtype=bool)
            far = 2 * points.max(axis=0, keepdims=True)
            got = outcome(fit_toruscast, model, points[keep], values[:, keep], far)
            rows.append({"design": design, "model": model.name, "draws": draws, **got})
    return rows


def acting(exponents: set[Any]) -> set[int]:
    """Return the indices of the parameters that the terms depend on."""
    return {q for term in exponents for q, pair in enumerate(term) if any(pair)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--extrap", help="interpreter of an environment with Extra-P")
    parser.add_argument(
        "--small", action="store_true", help="measure with few repetitions and typical noise"
    )
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.small:
        rows = measure(args.extrap, args.draws, args.seed, 5, 3, (0.01, 0.03, 0.05))
        write(args.out / "ms2-small.csv", rows)
        return
    file = args.out / "ms2.csv"
    write(file, measure(args.extrap, args.draws, args.seed))
    designs = args.out / "ms2-designs.csv"
    write(designs, compare_designs(2 * args.draws, args.seed))
    if args.page:
        tables = {"ms2": ms2_table(file), "ms2-designs": designs_table(designs)}
        fill(args.page, tables)


if __name__ == "__main__":
    main()
