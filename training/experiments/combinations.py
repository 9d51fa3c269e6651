"""The comprehensive search over combinations of features."""

from __future__ import annotations

import itertools
from time import perf_counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

from ..evaluate import compare_feature_sets
from ..metrics import rcc
from . import simulated
from .experiment import Bar, Experiment, Findings, Inputs
from .plan import SMALL

_SIZE = "16 KB"
_FEATURES = 40
_KEPT = 8
_TREES = 5
_SPLITS = 10


def _run(inputs: Inputs) -> Findings:
    table = simulated.synthetic(simulated.load(inputs), SMALL)
    table = table[table["size"] == _SIZE]
    cases = {str(name): group for name, group in table.groupby("benchmark", sort=False)}
    names = _candidates(list(cases.values()))
    start = perf_counter()
    combinations = [c for k in (2, 3) for c in itertools.combinations(names, k)]
    screened = pd.DataFrame({"features": [" + ".join(c) for c in combinations]})
    for benchmark, group in cases.items():
        screened[benchmark] = _screen(group, combinations, inputs.n_jobs)
    screened["rcc"] = screened[list(cases)].mean(axis=1)
    screened = screened.sort_values("rcc", ascending=False, ignore_index=True)
    seconds = perf_counter() - start
    kept = {text: text.split(" + ") for text in screened["features"][:_KEPT]}
    parts = [
        compare_feature_sets(
            simulated.features_of(group), {**{h: h for h in simulated.HYBRIDS}, **kept},
            n_splits=_SPLITS, n_jobs=inputs.n_jobs,
        ).reset_index().assign(benchmark=benchmark)
        for benchmark, group in cases.items()
    ]  # fmt: skip
    result = pd.concat(parts, ignore_index=True)
    mean = result.groupby("features", sort=False)[["rcc", "r2", "regret_1"]].mean()
    mean = mean.sort_values("rcc", ascending=False).reset_index()
    return Findings(
        f"{simulated.TEXT} 16,384 tasks, {_SIZE}: all {len(combinations):,} pairs and triples of "
        f"the {len(names)} features that rank best alone (near-duplicates left out, and bounds of "
        f"the time), each fitted with {_TREES} trees on one split a benchmark; then the {_KEPT} "
        f"best and the published hybrids on {_SPLITS} other splits.",
        {"combinations": mean, "combinations-screened": screened.head(500)},
        (
            Bar("minutes for all pairs and triples of 40 features, three benchmarks",
                seconds / 60, float("nan"), "show"),
            Bar(f"mean RCC, {mean['features'][0]}", float(mean["rcc"][0]), float("nan"), "show"),
        ),
        (),
        ("combinations",),
        (
            "The best of many combinations on one split owes part of its rank to chance; the "
            "scores shown are from other splits, of the same mappings.",
        ),
    )  # fmt: skip


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
    train, test = order[:56], order[56:]
    columns = {name: group[name].to_numpy() for c in combinations for name in c}
    times = group["time"].to_numpy()
    scores = np.empty(len(combinations))
    for i, names in enumerate(combinations):
        X = np.column_stack([columns[name] for name in names])
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        goal = times[train] / times.mean()
        model = ExtraTreesRegressor(_TREES, random_state=0).fit(X[train], goal)
        scores[i] = rcc(times[test], model.predict(X[test]))
    return scores


EXPERIMENT = Experiment("combinations", "All pairs and triples of 40 features", "samples", _run)
