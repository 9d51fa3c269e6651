"""What a forecast needs and what it promises: mappings, counters, intervals, features."""

from __future__ import annotations

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

import toruscast as tc
from toruscast.training import FEATURE_SETS, rcc, repeated_splits
from toruscast.training.evaluation import random_splits

from ..study import Findings, Inputs, Target
from .plan import N_MAPPINGS, SMALL
from .samples import RELATIVE_COUNTERS, cases, load

_ROUTES = FEATURE_SETS["relative"]
_RUN = (5, 10, 15, 20, 30, 40, 56, 70)
_TRAIN, _DRAWS = 56, 1000


def counters(inputs: Inputs) -> Findings:
    """Compare features of routes alone with those that need a simulation."""
    named = {
        "routes": tc.TimePredictor(_ROUTES, "slowdown"),
        "routes and counters": tc.TimePredictor(
            tuple(dict.fromkeys((*_ROUTES, *RELATIVE_COUNTERS))), "slowdown"
        ),
    }
    rows = []
    for case, group in cases(load(inputs, SMALL)):
        scored = repeated_splits(group, named, n_splits=8, n_jobs=inputs.n_jobs)
        rows.append(case | scored.groupby("predictor")["rcc"].mean().to_dict())
    table = pd.DataFrame(rows)
    lost = (table["routes and counters"] - table["routes"]).mean()
    return Findings(
        "Models of the slowdown are trained on the same 8 splits, first with features that need "
        "no simulation, and then also with the simulator's counters. Their mean RCC is "
        f"{table['routes'].mean():.3f} and {table['routes and counters'].mean():.3f}, so the "
        "counters help little.",
        {"counters": table},
        targets=(Target("RCC lost without the simulation, mean", float(lost)),),
    )


def learning_curve(inputs: Inputs) -> Findings:
    """Learn from few mappings and from many."""
    named = {
        "H5": tc.TimePredictor("H5", n_estimators=60),
        "slowdown": tc.TimePredictor(RELATIVE_COUNTERS, "slowdown", n_estimators=60),
    }
    rows = []
    for case, group in cases(load(inputs, SMALL)):
        for run in _RUN:
            scored = repeated_splits(
                group, named, n_splits=5, train_share=run / N_MAPPINGS, n_jobs=inputs.n_jobs
            )
            for name, mean in scored.groupby("predictor")[["rcc", "regret_1"]].mean().iterrows():
                rows.append(case | {"predictor": name, "run": run} | mean.to_dict())
    curve = pd.DataFrame(rows)
    mean = curve.pivot_table("rcc", "run", "predictor").reset_index()
    return Findings(
        "Some of the mappings are the training set, and the others are predicted. The mean RCC of "
        "all benchmarks and sizes over 5 splits (with H5, and with slowdown) is: "
        + ", ".join(
            f"{row['run']:.0f} mappings {row['H5']:.2f} and {row['slowdown']:.2f}"
            for _, row in mean.iloc[::2].iterrows()
        )
        + ".",
        {"learning-curve": curve},
        targets=tuple(
            Target(f"mean RCC after {row['run']:.0f} mappings, {name}", float(row[name]))
            for _, row in mean.iterrows()
            for name in named
        ),
    )


def reliability(inputs: Inputs) -> Findings:
    """Check whether intervals and probabilities hold what they say."""
    groups = list(cases(load(inputs, SMALL)))
    found = Parallel(n_jobs=inputs.n_jobs)(
        delayed(_one)(group, split) for _, group in groups for split in range(6)
    )
    labels = [case for case, _ in groups for _ in range(6)]
    coverage = pd.DataFrame(
        [
            case | {"coverage": inside, "width": width}
            for case, (inside, width, _) in zip(labels, found, strict=True)
        ]
    )
    coverage = coverage.groupby(["benchmark", "size"], sort=False)[["coverage", "width"]].mean()
    pairs = pd.concat([some for _, _, some in found], ignore_index=True)
    bins = np.digitize(pairs["probability"], np.linspace(0.5, 1, 11)[1:-1])
    reliable = pairs.groupby(bins).agg(
        probability=("probability", "mean"), share=("right", "mean"), pairs=("right", "size")
    )
    distance = (reliable["probability"] - reliable["share"]).abs()
    error = float((distance * reliable["pairs"]).sum() / reliable["pairs"].sum())
    inside = float(coverage["coverage"].mean())
    return Findings(
        f"{_TRAIN} mappings of each benchmark and size are the training set, and the others are "
        f"predicted, in 6 splits. The 90 % interval contains {inside:.1%} of the times. P(a "
        f"faster than b) differs on average by {error:.3f} from the share of pairs in which a was "
        "faster.",
        {"coverage": coverage.reset_index(), "reliability": reliable},
        targets=(
            Target("share of times in their 90 % interval", inside, 0.88),
            Target("share of times in their 90 % interval (not above)", inside, 0.92, "at most"),
            Target("mean distance of P(a faster than b) from the share that was", error),
        ),
    )


def _one(table: pd.DataFrame, split: int) -> tuple[float, float, pd.DataFrame]:
    """Coverage, relative width of intervals, and pairs with their probability."""
    order = np.random.default_rng(split).permutation(len(table))
    train, test = table.iloc[order[:_TRAIN]], table.iloc[order[_TRAIN:]]
    model = tc.TimePredictor(RELATIVE_COUNTERS, "slowdown", n_estimators=150)
    model.fit(train, train["time"])
    interval = model.predict_interval(test, 0.9)
    seen = test["time"].to_numpy()
    inside = (seen >= interval[:, 0]) & (seen <= interval[:, 1])
    width = float(np.median((interval[:, 1] - interval[:, 0]) / seen))
    draws = model.draw(test, _DRAWS, seed=split)
    first, second = np.triu_indices(len(test), 1)
    faster = (draws[:, first] < draws[:, second]).mean(axis=0)
    faster += (draws[:, first] == draws[:, second]).mean(axis=0) / 2
    right = np.where(faster >= 0.5, seen[first] < seen[second], seen[first] > seen[second])
    different = seen[first] != seen[second]
    pairs = pd.DataFrame({"probability": np.maximum(faster, 1 - faster), "right": right})
    return float(inside.mean()), width, pairs[different]


def importance(inputs: Inputs) -> Findings:
    """Shuffle one feature of the mappings forecast, and see what RCC is lost."""
    rng = np.random.default_rng(0)
    rows = []
    for case, group in cases(load(inputs, SMALL)):
        for kept, left_out in random_splits(len(group), 5):
            train, test = group.iloc[kept], group.iloc[left_out]
            model = tc.TimePredictor(
                RELATIVE_COUNTERS, "slowdown", n_estimators=60, calibration_folds=0
            ).fit(train, train["time"])
            whole = rcc(test["time"], model.predict(test))
            for name in ("lower_bound", *RELATIVE_COUNTERS):
                for _ in range(3):
                    shuffled = test.assign(**{name: rng.permutation(test[name].to_numpy())})
                    lost = whole - rcc(test["time"], model.predict(shuffled))
                    rows.append(case | {"feature": name, "lost": lost})
    table = pd.DataFrame(rows).groupby("feature")["lost"].mean()
    table = table.sort_values(ascending=False).reset_index()
    return Findings(
        "One feature is shuffled (5 splits, 3 shuffles each). RCC falls by "
        f"{table['lost'][0]:.2f} for the lower bound, by which slowdowns are multiplied. The next "
        f"are {', '.join(f'`{n}`' for n in table['feature'][1:4])}. Features with the same "
        "information share their importance.",
        {"importance": table},
    )
