"""Which of ms2's published models come back from noisy measurements, with Extra-P beside.

    python benchmarks/ms2.py --out FOLDER [--page docs/scaling/ms2.md] [--extrap PYTHON] [--draws N]

For the interpreter that `--extrap` names, see `benchmarks/pmnf.py`. With `--page` the documentation
page is written from the figures.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

# First of all, since it fixes the number of threads before numpy is loaded.
from pmnf import fit_elsewhere, fit_toruscast, write  # isort: split

import numpy as np
import pandas as pd

from toruscast.report import markdown
from toruscast.scaling.pmnf.ms2 import VARIATIONS, PublishedModel, published_models, sample

# As T(n,c) is printed its logarithm moves it by a thousandth of a second; with a factor n it moves
# it by as much as the other models of n are moved.
SUPPOSED = "n,c with n log2(n)^2"

TEXT = """# ms2: which published models come back

`toruscast.scaling.pmnf.ms2` holds the models and draws the samples:

```python
>>> from toruscast.scaling import FitOptions, Measurements, fit_many
>>> from toruscast.scaling.pmnf.ms2 import published_models, sample
>>> model = published_models()[1]
>>> model.formula
'6.6 + 3.21 m^2 - 0.42 log2(p) m^2'
>>> values = sample(model, variation=0.033, n_draws=1, seed=1)
>>> data = Measurements(model.parameters, model.points(), values)
>>> fit_many(data, FitOptions(signed=True)).formulas(digits=2)
['6.6 + 3.2 m^2 - 0.42 log2(p) m^2']

```

Written by

    python benchmarks/ms2.py --out benchmarks/results --page docs/scaling/ms2.md --extrap PYTHON

with the raw figures in `benchmarks/results/ms2.csv`.

[Shudler18] ([references.md](references.md)) modelled the run time of the molecular simulator ms2 by
eight functions of p processes, n molecules, m component types, the density d and the cut-off radius
c. Here each is taken for the truth, sampled on the study's grid (six values of each parameter,
every combination, ten repetitions) with the four coefficients of variation that the study saw, and
fitted again, {draws} times for each (seed {seed}).

{models}

*Visible* is how far the weakest term moves the measurements, in standard errors, at the least and
at the largest noise; nothing can find a term below about 2.

Choices:

- log is the logarithm to base 2, as everywhere in the normal form. With it every model that falls
  with p stays positive on the grid.
- The values of d lie 0.15 apart, those of p 12.
- Four models fall with p by a *negative coefficient*, such as -2.2 log2(p). Beyond some p they turn
  negative, which a time cannot, so that by default toruscast looks for falling powers of p instead:
  that is *not negative* below. The column *toruscast* lets coefficients take either sign
  and builds from the terms that Extra-P searches, as the study did:
  `FitOptions(space="published", signed=True)`, or `--terms published --signed`.
- T(n,c) and T(m,c) are negative where c and m are small. They are sampled as they are.
- In T(n,c) as printed the term with the logarithm is too small to be found. A factor n seems to be
  missing; the last row supposes it.

## Models found exactly

Share of the draws whose formula has exactly the published terms, at coefficients of variation of
3.3 / 6.2 / 10.5 / 13.5 %.

{exact}

## Parameters found

Share of the draws whose formula depends on just the parameters that the published one depends on.

{active}

## Prediction

Median relative error of the prediction with every parameter at twice its largest value, percent.
*Floor* is least squares with the published terms known.

{error}

## In all

Models found exactly, and what it cost:

{summary}
"""


def models() -> list[tuple[str, PublishedModel]]:
    """The published models, and what T(n,c) may have been."""
    result = [(model.name, model) for model in published_models()]
    printed = dict(result)["n,c"]
    terms = tuple(
        (value, ((1.0, 2.0), (0.0, 0.0)) if n == (0, 2) else (n, c))
        for value, (n, c) in printed.terms
    )
    return [*result, (SUPPOSED, replace(printed, terms=terms))]


def fit_known(model: PublishedModel, values: np.ndarray, far: np.ndarray) -> np.ndarray:
    """Predictions of least squares with the true terms; shape (n_draws, n_far)."""
    points = model.points()
    one = [replace(model, terms=((1.0, e),)) for _, e in model.terms]
    error = np.abs(values.mean(axis=2)) + 1e-9
    result = []
    for y, e in zip(values.mean(axis=2), error, strict=True):
        columns = np.array([m.value(points) for m in one]).T / e[:, None]
        scale = np.linalg.norm(columns, axis=0)
        found = np.linalg.lstsq(columns / scale, y / e, rcond=None)[0] / scale
        result.append(np.array([m.value(far) for m in one]).T @ found)
    return np.array(result)


def measure(extrap: str | None, draws: int, seed: int) -> list[dict[str, Any]]:
    fitters: dict[str, Any] = {
        "toruscast": lambda *data: fit_toruscast(*data, space="published", signed=True),
        "not negative": fit_toruscast,
    }
    if extrap:
        fitters["Extra-P"] = lambda *data: fit_elsewhere(extrap, *data)
    rows = []
    for number, (name, model) in enumerate(models()):
        points = model.points()
        far = 2 * points.max(axis=0, keepdims=True)
        for variation in VARIATIONS:
            values = sample(model, variation, draws, seed=seed * 1000 + number)
            floor = np.abs(fit_known(model, values, far)[:, 0] / model.value(far)[0] - 1)
            for fitter, fit in fitters.items():
                got = fit(points, values, far)
                error = np.abs(got["prediction"][:, 0] / model.value(far)[0] - 1)
                found = [{tuple(map(tuple, e)) for e in terms} for terms in got["terms"]]
                rows.append(
                    {
                        "model": name,
                        "variation_pct": 100 * variation,
                        "fitter": fitter,
                        "draws": draws,
                        "exact": np.mean([f == model.exponents for f in found]),
                        "active": np.mean([acting(f) == acting(model.exponents) for f in found]),
                        "error_pct": 100 * np.median(error),
                        "floor_pct": 100 * np.median(floor),
                        "cpu_s": got["seconds"],
                        "visible": model.visible(variation).min(),
                    }
                )
                print(*rows[-1].values(), flush=True)
    return rows


def acting(exponents: set[Any]) -> set[int]:
    """Numbers of the parameters that the terms depend on."""
    return {q for term in exponents for q, pair in enumerate(term) if any(pair)}


def page(rows: pd.DataFrame, seed: int) -> str:
    """Return the documentation page."""
    tables = {what: pivot(rows, what) for what in ("exact", "active", "error_pct")}
    described = []
    for name, model in models():
        own = rows[rows.model == name].visible
        described.append(
            {
                "model": f"T({name})",
                "seconds": model.formula,
                "on the grid": f"{model.value(model.points()).min():.3g} .. "
                f"{model.value(model.points()).max():.3g}",
                "visible": f"{own.max():.3g} .. {own.min():.3g}",
            }
        )
    total = rows.groupby("fitter", sort=False)
    summary = "\n".join(
        f"- {name}: {part.exact.mean():.0%} of all, {part[part.model != 'n,c'].exact.mean():.0%} "
        f"without T(n,c) as printed; {part.cpu_s.sum():.3g} s of processor time"
        for name, part in total
    )
    return TEXT.format(
        draws=rows.draws.max(),
        seed=seed,
        models=markdown.table(pd.DataFrame(described)),
        exact=tables["exact"],
        active=tables["active"],
        error=tables["error_pct"],
        summary=summary,
    )


def pivot(rows: pd.DataFrame, what: str) -> str:
    """A row a model, a column a fitter, the noises behind one another."""
    shown = rows
    if what == "error_pct":
        floor = rows[rows.fitter == "toruscast"].assign(fitter="floor")
        shown = pd.concat([rows, floor.assign(error_pct=floor.floor_pct)])
    else:
        shown = rows[rows.fitter != "not negative"]
    number = shown[what].map(lambda v: f"{v:.2g}" if v < 10 else f"{v:.0f}")
    table = (
        shown.assign(text=number)
        .groupby(["model", "fitter"], sort=False)
        .text.agg(" / ".join)
        .unstack(sort=False)
    )
    table.index = [f"T({name})" for name in table.index]
    return markdown.table(table.rename_axis("model").reset_index())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--reuse", action="store_true", help="write the page from what is there")
    parser.add_argument("--extrap", help="interpreter of an environment with Extra-P")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.reuse:
        write(args.out / "ms2.csv", measure(args.extrap, args.draws, args.seed))
    if args.page:
        args.page.write_text(page(pd.read_csv(args.out / "ms2.csv"), args.seed))


if __name__ == "__main__":
    main()
