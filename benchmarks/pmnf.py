"""Fit known functions and real measurements with toruscast and Extra-P, and write CSV.

    python benchmarks/pmnf.py --out FOLDER [--seed N] [--extrap PYTHON] [--page PAGE]
    python benchmarks/pmnf.py --out FOLDER --real FOLDER [--extrap PYTHON] [--page PAGE]

With `--real`, real measurements are fitted instead of random functions, also by a power law.
`--page` writes the numbers, with those of Extra-P, into the tables of the documentation page.

Extra-P 4.2.5 needs an older numpy than toruscast, so it runs in its own environment (`python -m
venv peer && peer/bin/pip install extrap==4.2.5`). `--extrap` names the interpreter of this
environment, in which this script starts itself with the same data. Processor seconds are those of
the fits of all call paths with one thread, after the program and the data are loaded. For short
fits, they are the median of five.

The cases are 1000 functions of one parameter (5 points), 1000 of two (25 points) and 100 of three
(125 points), with five repetitions each. `bs` and `cs` are the same functions measured at 10 and 15
points, and `ds` are 100 functions of four parameters measured at 20 points. A function is a
constant and one or two terms, each of which is at least a tenth of the value at the largest point.
A noise of n multiplies each repetition by 1 + n U(-1, 1), or by 1 + n N(0, 1) / sqrt(3) for normal
noise.
"""

# Set the number of threads before numpy is loaded.
# ruff: noqa: E402

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import csv
import itertools
import json
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

GRID = [
    [4, 8, 16, 32, 64],
    [10, 20, 30, 40, 50],
    [1000, 2000, 3000, 4000, 5000],
    [10, 12, 14, 16, 18],
]
COUNT = {"a": 1000, "b": 1000, "c": 100, "d": 100}
SHAPES: dict[str, list[list[set[int]]]] = {
    "a": [[], *[[{0}]] * 15, *[[{0}, {0}]] * 3],
    "b": [[], [{0}], [{1}], *[[{0}, {1}], [{0, 1}]] * 3, *[[{0, 1}, {0}], [{0, 1}, {1}]] * 2],
    "c": [
        [],
        [{0}],
        [{0}, {1}],
        [{1, 2}],
        [{0}, {1}, {2}],
        [{0, 1, 2}],
        [{0, 1}, {2}],
        [{1, 2}, {0}],
        [{0, 1, 2}, {0}],
    ],
    "d": [
        [],
        [{0}],
        [{0}, {1}],
        [{2, 3}],
        [{0, 1}, {2}],
        [{0}, {1}, {2}, {3}],
        [{0, 1}, {2, 3}],
        [{0, 1, 2, 3}],
        [{1, 2, 3}, {0}],
        [{0, 1, 2, 3}, {0}],
    ],
}
# The exponents that Extra-P searches by default.
EXPONENTS = [
    (i, j)
    for i, logs in {
        0: (1, 2),
        1 / 4: (0, 1, 2),
        1 / 3: (0, 1, 2),
        1 / 2: (0, 1, 2),
        2 / 3: (0, 1, 2),
        3 / 4: (0, 1, 2),
        4 / 5: (0,),
        1: (0, 1, 2),
        5 / 4: (0, 1),
        4 / 3: (0, 1),
        3 / 2: (0, 1, 2),
        5 / 3: (0,),
        7 / 4: (0,),
        2: (0, 1, 2),
        9 / 4: (0,),
        7 / 3: (0,),
        5 / 2: (0, 1, 2),
        8 / 3: (0,),
        11 / 4: (0,),
        3: (0, 1),
    }.items()
    for j in logs
]
# Fits of toruscast are repeated five times, or for at most this many seconds.
SECONDS = 2.0
# A step is called bent if its exponent differs by more than this from the previous one.
BENT = 0.3
REAL = [
    ("relearn_2p.txt", None),
    ("relearn_3p.json", "time_max"),
    ("lulesh_daint_2p.json", "time"),
    ("lulesh_cpu_1p.json", "time"),
    ("lulesh_gpu_1p.json", "time"),
    ("mpi_collectives_1p.json", "median"),
]


def value(function: dict[str, Any], x: np.ndarray) -> np.ndarray:
    """Return the values of a function at points of shape (n, parameters)."""
    y = np.full(len(x), function["constant"])
    for coefficient, exponents in function["terms"]:
        term = np.full(len(x), coefficient)
        for k, (i, j) in enumerate(exponents):
            term = term * x[:, k] ** i * np.log2(x[:, k]) ** j
        y = y + term
    return y


def functions(case: str, seed: int) -> list[dict[str, Any]]:
    """Return the random functions of a case."""
    rng = np.random.default_rng([seed, ord(case)])
    d = "abcd".index(case) + 1
    corner = np.array([[levels[-1] for levels in GRID[:d]]], dtype=float)
    result = []
    for _ in range(COUNT[case]):
        shape = SHAPES[case][rng.integers(len(SHAPES[case]))]
        top = 10 ** rng.uniform(0, 3)
        drawn = rng.choice(len(EXPONENTS), size=max(d, 2), replace=case != "a")
        # Terms of one parameter have different exponents; terms of several parameters share them.
        terms = [
            [EXPONENTS[drawn[k if d == 1 else q]] if q in part else (0, 0) for q in range(d)]
            for k, part in enumerate(shape)
        ]
        weight = rng.uniform(0.001, 1, len(terms) + 1)
        share = 0.1 + weight / weight.sum() * (1 - 0.1 * len(terms) - 0.01)
        scaled = [
            (s * top / value({"constant": 0.0, "terms": [(1.0, t)]}, corner)[0], t)
            for s, t in zip(share[1:], terms, strict=True)
        ]
        constant = (share[0] - 0.09) * top if terms else top
        result.append({"constant": constant, "terms": scaled})
    return result


def sample(case: str, noise: float, law: str, seed: int) -> dict[str, Any]:
    """Return points, noisy values, far points and the true values there."""
    known = functions(case[0], seed)
    d = "abcd".index(case[0]) + 1
    points = np.array(list(itertools.product(*GRID[:d])), dtype=float)
    rng = np.random.default_rng([seed, ord(case[0]), round(1000 * noise), law == "normal"])
    shape = (len(known), len(points), 5)
    draw = rng.uniform(-1, 1, shape) if law == "uniform" else rng.normal(size=shape) / np.sqrt(3)
    values = np.array([value(f, points) for f in known])[:, :, None] * (1 + noise * draw)
    if case.endswith("s"):
        low = points.min(axis=0)
        off = (points != low).sum(axis=1)
        second = np.array([levels[1] for levels in GRID[:d]], dtype=float)
        # Points that are not on the axes: all second values together, and some of them.
        extra = [np.array([*second[:k], *low[k:]]) for k in range(2, d + 1)]
        keep = (off <= 1) | np.any([(points == e).all(axis=1) for e in extra], axis=0)
        points, values = points[keep], values[:, keep]
    largest = np.array([levels[-1] for levels in GRID[:d]], dtype=float)
    far = np.array([largest * ([4] + [1] * (d - 1)), largest * 4])
    return {
        "points": points,
        "values": values,
        "far": far,
        "truth": np.array([value(f, far) for f in known]),
        "terms": [[e for _, e in f["terms"]] for f in known],
    }


def leads(terms: list[Any], d: int) -> list[list[tuple[float, float]]]:
    """Return the largest exponents of every parameter for each function."""
    return [
        [
            max([(float(e[q][0]), float(e[q][1])) for e in some if any(e[q])], default=(0.0, 0.0))
            for q in range(d)
        ]
        for some in terms
    ]


def fit_toruscast(
    points: np.ndarray, values: np.ndarray, far: np.ndarray, **options: Any
) -> dict[str, Any]:
    """Return predictions, exponents of the terms, and processor seconds of toruscast."""
    from toruscast.scaling import FitOptions, Measurements, fit_many

    names = [f"x{k}" for k in range(points.shape[1])]
    data = Measurements(names, points, values)
    seconds: list[float] = []
    # Short fits need the median of several timings.
    while sum(seconds) < SECONDS and len(seconds) < 5:
        start = time.process_time()
        models = fit_many(data, FitOptions(**options))
        seconds.append(time.process_time() - start)
    return {
        "prediction": models.predict(far),
        "terms": [
            [list(map(list, e)) for _, e in models.terms(k) if np.any(e)]
            for k in range(models.n_paths)
        ],
        "seconds": float(np.median(seconds)),
    }


def fit_extrap(points: np.ndarray, values: np.ndarray, far: np.ndarray) -> dict[str, Any]:
    """Return the same for Extra-P, in this process."""
    from extrap.entities.callpath import Callpath
    from extrap.entities.coordinate import Coordinate
    from extrap.entities.measurement import Measurement
    from extrap.entities.metric import Metric
    from extrap.modelers.multi_parameter.multi_parameter_modeler import MultiParameterModeler
    from extrap.modelers.single_parameter.basic import SingleParameterModeler

    warnings.simplefilter("ignore")
    d = points.shape[1]
    path, metric = Callpath("f"), Metric("time")
    prediction, found, seconds = [], [], 0.0
    for row in values:
        data = [
            Measurement(
                Coordinate(*map(float, x)), path, metric, [v for v in map(float, y) if v == v]
            )
            for x, y in zip(points, row, strict=True)
        ]
        modeler = SingleParameterModeler() if d == 1 else MultiParameterModeler()
        start = time.process_time()
        function = modeler.create_model(data).hypothesis.function
        seconds += time.process_time() - start
        places = [float(x[0]) if d == 1 else list(map(float, x)) for x in far]
        prediction.append([float(function.evaluate(x)) for x in places])
        found.append(
            [
                _exponents([(0, term)] if d == 1 else term.parameter_term_pairs, d)
                for term in function.compound_terms
                if term.coefficient != 0
            ]
        )
    return {"prediction": np.array(prediction), "terms": found, "seconds": seconds}


def fit_power_law(points: np.ndarray, values: np.ndarray, far: np.ndarray) -> dict[str, Any]:
    """Return the same for a power law, which is a line through the logarithms."""
    start = time.process_time()
    mean = np.log(np.maximum(np.nanmean(values, axis=2), 1e-300))
    design = np.hstack([np.ones((len(points), 1)), np.log(points)])
    coefficients = np.linalg.lstsq(design, mean.T, rcond=None)[0]
    prediction = np.exp(np.hstack([np.ones((len(far), 1)), np.log(far)]) @ coefficients).T
    return {"prediction": prediction, "seconds": time.process_time() - start}


def _exponents(pairs: list[Any], d: int) -> list[list[float]]:
    """Return the polynomial and logarithmic exponents of each parameter in a term of Extra-P."""
    result = [[0.0, 0.0] for _ in range(d)]
    for q, part in pairs:
        for simple in part.simple_terms:
            result[q][simple.term_type != "polynomial"] += float(simple.exponent)
    return result


def fit_elsewhere(
    python: str, points: np.ndarray, values: np.ndarray, far: np.ndarray
) -> dict[str, Any]:
    """Run `fit_extrap` in another interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        file, answer = Path(folder) / "data.npz", Path(folder) / "answer.json"
        np.savez(file, points=points, values=values, far=far)
        subprocess.run([python, __file__, "--peer", file, answer], check=True)
        result: dict[str, Any] = json.loads(answer.read_text())
    result["prediction"] = np.array(result["prediction"])
    return result


def peer(file: str, answer: str) -> None:
    """Run the fit in the other interpreter."""
    data = np.load(file)
    result = fit_extrap(data["points"], data["values"], data["far"])
    result["prediction"] = result["prediction"].tolist()
    Path(answer).write_text(json.dumps(result))


def synthetic(
    fitters: dict[str, Any], seed: int, cases: list[str], noises: list[float], law: str, out: Path
) -> None:
    rows: list[dict[str, Any]] = []
    for noise, case in itertools.product(noises, cases):
        data = sample(case, noise, law, seed)
        d = data["points"].shape[1]
        for name, fit in fitters.items():
            got = fit(data["points"], data["values"], data["far"])
            error = np.abs(got["prediction"] / data["truth"] - 1)
            exact = np.array(
                [
                    np.allclose(mine, true, atol=1e-6)
                    for mine, true in zip(
                        leads(got["terms"], d), leads(data["terms"], d), strict=True
                    )
                ]
            )
            whole = np.array(
                [
                    len(mine) == len(true)
                    and np.allclose(
                        sorted(np.ravel(t).tolist() for t in mine),
                        sorted(np.ravel(t).tolist() for t in true),
                        atol=1e-6,
                    )
                    for mine, true in zip(got["terms"], data["terms"], strict=True)
                ]
            )
            n_terms = np.array([len(true) for true in data["terms"]])
            rows.append(
                {
                    "fitter": name,
                    "case": case,
                    "law": law,
                    "noise": noise,
                    "seed": seed,
                    "n": len(error),
                    "cpu_s": round(got["seconds"], 3),
                    "error_first_4x": f"{np.median(error[:, 0]):.4g}",
                    "error_all_4x": f"{np.median(error[:, 1]):.4g}",
                    "lead_exact": round(float(exact.mean()), 3),
                    "constants_kept": round(float(exact[n_terms == 0].mean()), 3),
                    "two_terms_recovered": round(float(whole[n_terms == 2].mean()), 3),
                    "not_positive": round(float((got["prediction"] <= 0).any(axis=1).mean()), 4),
                    "python": platform.python_version(),
                    "numpy": np.__version__,
                }
            )
            print(*rows[-1].values(), flush=True)
        write(out, rows)


def corner(fitters: dict[str, Any], folder: Path, out: Path) -> list[dict[str, Any]]:
    """Predict RELeARN at (512, 9000) from its other points; return the shares of close regions."""
    from toruscast.scaling import read_measurements

    rows, regions = [], []
    for fitter, fit in fitters.items():
        errors: list[float] = []
        variation: list[float] = []
        names: list[str] = []
        seconds = 0.0
        for m in read_measurements(folder / REAL[0][0]):
            last = (m.points == m.points.max(axis=0)).all(axis=1)
            truth = np.nanmean(m.values[:, last], axis=2)[:, 0]
            # Only a prediction of 0 is close for a region that took no time.
            got = fit(m.points[~last], m.values[:, ~last], m.points[last])
            off = np.abs(got["prediction"][:, 0] - truth)
            errors += np.where(off > 0, off / np.maximum(truth, 1e-300), 0.0).tolist()
            mean = np.maximum(np.nanmean(m.values, axis=2), 1e-300)
            spread = np.nanstd(m.values, axis=2, ddof=1) / mean
            variation += np.sqrt((spread**2).mean(axis=1)).tolist()
            names += m.callpaths
            seconds += got["seconds"]
        regions += [
            {"fitter": fitter, "region": name, "error": f"{e:.4g}", "variation": f"{v:.4g}"}
            for name, e, v in zip(names, errors, variation, strict=True)
        ]
        shares = {f"within_{n}": np.mean(np.array(errors) <= n / 100) for n in (5, 10, 15, 20)}
        rows.append(
            {
                "fitter": fitter,
                "data": "relearn_2p.txt",
                "held_out": "(512, 9000)",
                "paths": len(errors),
                "cpu_s": round(seconds, 3),
                **summary(errors),
                **{name: f"{share:.4g}" for name, share in shares.items()},
            }
        )
        print(*rows[-1].values(), flush=True)
    write(out / "pmnf-real-corner.csv", regions)
    return rows


def summary(errors: list[float]) -> dict[str, str]:
    return {
        "median_error": f"{np.median(errors):.4g}",
        "p90_error": f"{np.percentile(errors, 90):.4g}",
    }


def bends(points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the change of the first exponent in the held-out step; NaN if there is one value."""
    levels = np.unique(points[:, 0])
    if levels.size < 3:
        return np.full(len(values), np.nan)
    logs = np.log(np.nanmean(values, axis=2))
    level = np.array([logs[:, points[:, 0] == x].mean(axis=1) for x in levels[-3:]])
    slope = np.diff(level, axis=0) / np.diff(np.log(levels[-3:]))[:, None]
    return slope[1] - slope[0]


def held_out(fitters: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Predict the largest value of the first parameter from the others, on real measurements."""
    from toruscast.scaling import read_measurements

    rows = []
    for (name, metric), (fitter, fit) in itertools.product(REAL, fitters.items()):
        errors: list[float] = []
        bent: list[float] = []
        seconds = 0.0
        for m in read_measurements(folder / name):
            last = m.points[:, 0] == m.points[:, 0].max()
            keep = [
                k
                for k in range(m.n_paths)
                if np.nanmin(m.values[k]) > 0 and metric in (None, m.metrics[k])
            ]
            if not keep or last.all():
                errors += [np.inf] * len(keep)
                bent += [np.nan] * len(keep)
                continue
            values = m.values[keep]
            bent += bends(m.points, values).tolist()
            got = fit(m.points[~last], values[:, ~last], m.points[last])
            truth = np.nanmean(values[:, last], axis=2)
            errors += np.median(np.abs(got["prediction"] / truth - 1), axis=1).tolist()
            seconds += got["seconds"]
        rows.append(
            {
                "fitter": fitter,
                "data": name,
                "held_out": "largest of first",
                "paths": len(errors),
                "cpu_s": round(seconds, 3),
                **summary(errors),
                "one_value": int(np.isnan(bent).sum()),
                "bent": int((np.abs(bent) > BENT).sum()),
                "median_error_straight": f"{np.median(np.array(errors)[np.abs(bent) <= BENT]):.4g}",
            }
        )
        print(*rows[-1].values(), flush=True)
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        names = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", default="a,b,c,bs,cs")
    parser.add_argument("--noises", default="0,2,5,10", help="percent")
    parser.add_argument("--law", choices=["uniform", "normal"], default="uniform")
    parser.add_argument("--extrap", help="interpreter of an environment with Extra-P")
    parser.add_argument("--real", type=Path, help="folder of real measurements, fitted instead")
    parser.add_argument("--page", type=Path, help="page to write the table in, with --extrap")
    args = parser.parse_args()
    fitters: dict[str, Any] = {"toruscast": fit_toruscast}
    if args.extrap:
        fitters["extrap"] = lambda *data: fit_elsewhere(args.extrap, *data)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.real:
        fitters["power law"] = fit_power_law
        rows = held_out(fitters, args.real) + corner(fitters, args.real, args.out)
        write(args.out / "pmnf-real.csv", rows)
        if args.page:
            from pmnf_tables import real_table
            from report import fill

            fill(args.page, {"held-out": real_table(args.out / "pmnf-real.csv")})
        return
    file = args.out / f"pmnf-{args.law}-{args.seed}.csv"
    noises = [float(n) / 100 for n in args.noises.split(",")]
    synthetic(fitters, args.seed, args.cases.split(","), noises, args.law, file)
    if args.page:
        from pmnf_tables import known_table
        from report import fill

        fill(args.page, {"known": known_table(file)})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        peer(*sys.argv[2:4])
    else:
        main()
