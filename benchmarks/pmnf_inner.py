"""Hold out other values of the real measurements than the largest of the first parameter.

    python benchmarks/pmnf_inner.py --out FOLDER --real FOLDER [--extrap PYTHON]

The measurements with the largest value of the first parameter are not used at all. From the others,
the largest value of each parameter in turn is held out and predicted by toruscast, a power law and
Extra-P (see `pmnf.py`). These errors compare methods of prediction without using the values of
`pmnf.py --real`, which are the ones that count.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pmnf import REAL, fit_elsewhere, fit_power_law, fit_toruscast, write

from toruscast.scaling import read_measurements

# Minimum number of values of the held-out parameter to fit.
_FEWEST = 2


class HoldOut(NamedTuple):
    """Points to fit and to predict, and the values at both."""

    data: str
    held_out: str
    points: np.ndarray
    values: np.ndarray
    far: np.ndarray
    truth: np.ndarray


def hold_outs(folder: Path) -> Iterator[HoldOut]:
    """Return a split for the largest value of each parameter, without the first one's largest."""
    for name, metric in REAL:
        for m in read_measurements(folder / name):
            keep = [
                k
                for k in range(m.n_paths)
                if np.nanmin(m.values[k]) > 0 and metric in (None, m.metrics[k])
            ]
            seen = m.points[:, 0] < m.points[:, 0].max()
            points, values = m.points[seen], m.values[keep][:, seen]
            for parameter, column in zip(m.parameters, points.T, strict=True):
                levels = np.unique(column)
                if not keep or levels.size <= _FEWEST:
                    continue
                last = column == levels[-1]
                truth = np.nanmean(values[:, last], axis=2)
                yield HoldOut(
                    name,
                    f"{parameter} = {levels[-1]:g}",
                    points[~last],
                    values[:, ~last],
                    points[last],
                    truth,
                )


def errors(fitters: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Return the median error over the call paths for each set, parameter and fitter."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for h in hold_outs(folder):
        for name, fit in fitters.items():
            predicted = fit(h.points, h.values, h.far)["prediction"]
            off = np.median(np.abs(predicted / h.truth - 1), axis=1)
            found.setdefault((h.data, h.held_out, name), []).extend(off.tolist())
    return [
        {
            "data": data,
            "held_out": held_out,
            "fitter": name,
            "paths": len(off),
            "median_error": f"{np.median(off):.4g}",
        }
        for (data, held_out, name), off in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--real", type=Path, required=True, help="folder of real measurements")
    parser.add_argument("--extrap", help="interpreter of an environment with Extra-P")
    args = parser.parse_args()
    fitters: dict[str, Any] = {"toruscast": fit_toruscast, "power law": fit_power_law}
    if args.extrap:
        fitters["extrap"] = lambda *data: fit_elsewhere(args.extrap, *data)
    args.out.mkdir(parents=True, exist_ok=True)
    rows = errors(fitters, args.real)
    for row in rows:
        print(*row.values())
    write(args.out / "pmnf-real-inner.csv", rows)


if __name__ == "__main__":
    main()
