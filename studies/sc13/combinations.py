"""The comprehensive search over combinations of features."""

from __future__ import annotations

import itertools
import math
from time import perf_counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

from toruscast.training.evaluate import compare_feature_sets
from toruscast.training.feature_sets import feature_set
from toruscast.training.metrics import rcc
from toruscast.training.predictor import TimePredictor

from ..experiment import Bar, Experiment, Findings, Inputs
from ..plan import SMALL
from ..scores import scores
from . import simulated

_SIZE = "16 KB"
_FEATURES = 40
_KEPT = 8
_TREES = 5
# Mappings held out of everything, how often, and splits of the others to choose by.
_HELD_OUT, _SEARCHES, _SPLITS = 28, 3, 10
_CHOSEN = "pair or triple chosen"
_HYBRID = "hybrid chosen"


def _run(inputs: Inputs) -> Findings:
    table = simulated.synthetic(simulated.load(inputs), SMALL, [_SIZE])
    cases = {
        str(name): simulated.features_of(group)
        for name, group in table.groupby("benchmark", sort=False)
    }
    rng = np.random.default_rng(0)
    searches = [_held_out(cases, rng, inputs.n_jobs) for _ in range(_SEARCHES)]
    result, searched = (
        pd.concat([one[part].assign(search=n) for n, one in enumerate(searches)], ignore_index=True)
        for part in ("scores", "screened")
    )
    minutes = np.mean([one["screened"].attrs["seconds"] for one in searches]) / 60
    mean = result.groupby("set", sort=False)[["rcc", "r2", "regret_1"]].mean()
    mean = mean.sort_values("rcc", ascending=False).reset_index()
    chosen = result[result["set"].isin([_CHOSEN, _HYBRID])]
    picked = chosen[["search", "set", "features"]].drop_duplicates().reset_index(drop=True)
    n_combinations = sum(math.comb(_FEATURES, k) for k in (2, 3))
    first = searched.groupby("search")["rcc"].max().mean()
    return Findings(
        f"{simulated.text(table)} Messages of {_SIZE}. {_SEARCHES} times, {_HELD_OUT} mappings of "
        f"each benchmark are held out; on the others all {n_combinations:,} pairs and triples of "
        f"the {_FEATURES} features that rank best alone there (near-duplicates left out, and "
        f"bounds of the time) are fitted, each with {_TREES} trees on one split a benchmark, the "
        f"{_KEPT} best again on {_SPLITS} splits, and the best of these by its mean RCC is chosen; "
        "so is one of the published hybrids. Scores are of the mappings held out, on which "
        "nothing was chosen: means over benchmarks and searches.",
        {
            "combinations": mean,
            "combinations-chosen": picked,
            "combinations-held-out": result,
            "combinations-screened": searched,
        },
        (
            Bar(
                f"minutes for all pairs and triples of {_FEATURES} features, {len(cases)} "
                "benchmarks",
                float(minutes),
            ),
            *(
                Bar(f"mean RCC held out, {label}", float(mean.set_index("set")["rcc"][label]))
                for label in (_CHOSEN, _HYBRID)
            ),
        ),
        (),
        ("combinations", "combinations-chosen"),
        (
            "The first combination of each search had a mean RCC of "
            f"{first:.3f} on the split by which it was found, with {_TREES} trees.",
        ),
    )


def _held_out(
    cases: dict[str, pd.DataFrame], rng: np.random.Generator, n_jobs: int
) -> dict[str, pd.DataFrame]:
    """Scores of what was chosen, and of every hybrid, on mappings that nothing was chosen by."""
    orders = {name: rng.permutation(len(group)) for name, group in cases.items()}
    train = {name: cases[name].iloc[order[_HELD_OUT:]] for name, order in orders.items()}
    test = {name: cases[name].iloc[order[:_HELD_OUT]] for name, order in orders.items()}
    start = perf_counter()
    screened = _search(train, n_jobs).head(500)
    screened.attrs["seconds"] = perf_counter() - start
    kept = {text: text.split(" + ") for text in screened["features"][:_KEPT]}
    hybrids = {name: list(feature_set(name)) for name in simulated.HYBRIDS}
    sets = {name: (names, name) for name, names in hybrids.items()}
    for label, among in ((_CHOSEN, kept), (_HYBRID, hybrids)):
        best = _choose(train, among, n_jobs)
        sets[label] = (among[best], best)
    rows = []
    for label, (names, what) in sets.items():
        for benchmark, group in train.items():
            model = TimePredictor(names, calibration_folds=0).fit(group, group["time"])
            held_out = test[benchmark]
            scored = scores(held_out["time"], model.predict(held_out))
            rows.append({"set": label, "features": what, "benchmark": benchmark} | scored)
    return {"scores": pd.DataFrame(rows), "screened": screened}


def _search(train: dict[str, pd.DataFrame], n_jobs: int) -> pd.DataFrame:
    """RCC of every pair and triple, each benchmark and the mean, the best first."""
    names = _candidates(list(train.values()))
    combinations = [c for k in (2, 3) for c in itertools.combinations(names, k)]
    screened = pd.DataFrame({"features": [" + ".join(c) for c in combinations]})
    for benchmark, group in train.items():
        screened[benchmark] = _screen(group, combinations, n_jobs)
    screened["rcc"] = screened[list(train)].mean(axis=1)
    return screened.sort_values("rcc", ascending=False, ignore_index=True, kind="stable")


def _choose(train: dict[str, pd.DataFrame], among: dict[str, list[str]], n_jobs: int) -> str:
    """The set with the best mean RCC over splits of the mappings to learn from."""
    parts = [
        compare_feature_sets(group, among, n_splits=_SPLITS, n_jobs=n_jobs)["rcc"]
        for group in train.values()
    ]
    return str(pd.concat(parts, axis=1).mean(axis=1).idxmax())


def _candidates(groups: list[pd.DataFrame]) -> list[str]:
    """Return the features that rank best alone, none nearly in the order of a better one."""
    names = simulated.counters(groups[0])
    alone = {
        name: np.mean([abs(rcc(group["time"], group[name]) - 0.5) for group in groups])
        for name in names
    }
    ranks = pd.concat([group[names].rank() for group in groups], ignore_index=True)
    correlation = ranks.corr().abs()
    kept: list[str] = []
    for name in sorted(alone, key=lambda key: -float(alone[key])):
        varies = all(group[name].nunique() > 2 for group in groups)
        if varies and not (correlation.loc[name, kept] > 0.995).any():
            kept.append(name)
        if len(kept) == _FEATURES:
            break
    return kept


def _screen(
    group: pd.DataFrame, combinations: list[tuple[str, ...]], n_jobs: int
) -> NDArray[np.float64]:
    """Return the RCC of every combination on one split."""
    from joblib import Parallel, delayed

    order = np.random.default_rng(99).permutation(len(group))
    blocks = np.array_split(np.arange(len(combinations)), max(1, 4 * n_jobs))
    found = Parallel(n_jobs=n_jobs)(
        delayed(_screen_some)(group, [combinations[i] for i in block], order) for block in blocks
    )
    return np.concatenate(found)


def _screen_some(
    group: pd.DataFrame, combinations: list[tuple[str, ...]], order: NDArray[np.int64]
) -> NDArray[np.float64]:
    train, test = np.split(order, [len(order) * 2 // 3])
    columns = {name: group[name].to_numpy() for c in combinations for name in c}
    times = group["time"].to_numpy()
    found = np.empty(len(combinations))
    for i, names in enumerate(combinations):
        X = np.column_stack([columns[name] for name in names])
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        goal = times[train] / times.mean()
        model = ExtraTreesRegressor(_TREES, random_state=0).fit(X[train], goal)
        found[i] = rcc(times[test], model.predict(X[test]))
    return found


EXPERIMENT = Experiment("combinations", "All pairs and triples of 40 features", "samples", _run)
