"""Predict the times of a third of the mappings from those of the others."""

from __future__ import annotations

import pandas as pd

import toruscast as tc
from toruscast._features.registry import select_features
from toruscast.decision.measured import fit_run_model
from toruscast.decision.runs import possible_rcc
from toruscast.training import r2, rcc, rcc_told_apart
from toruscast.training.evaluation import random_splits
from toruscast.training.feature_sets import REFERENCES, with_references

from ..study import Findings, Inputs, Target
from .measured import TORUS, Case, read

N_SPLITS = 20
APART = 0.05
OURS, PUBLISHED = "line and features", "trees on features"
PUBLISHED_SETS = ("prior", "H1", "H2", "H3", "H4", "H5", "H6")
GOALS = {"halo2d 32,768 B": 0.98, "halo2d 8,192 B": 0.98, "suba2a8 8,192 B": 0.95}


def run(inputs: Inputs) -> Findings:
    """Train on a random two thirds of the mappings, and predict the others.

    Raises
    ------
    InputError
        If the measurements are not found.
    """
    cases = read(inputs)
    rows = [row for case in cases for row in _scored(case, inputs.n_jobs)]
    each = pd.DataFrame(rows)
    mean = each.groupby(["case", "method"], sort=False).mean(numeric_only=True)
    mean = mean.drop(columns="split").reset_index()
    noise = pd.DataFrame([_noise(case) for case in cases])
    ours = mean[mean["method"] == OURS].set_index("case")
    published = mean[mean["method"].str.startswith(PUBLISHED)]
    best = published.sort_values("rcc_apart").groupby("case", sort=False).last()["rcc_apart"]
    shown = mean[~mean["method"].str.startswith(PUBLISHED)]
    shown = pd.concat([shown, published.loc[published.groupby("case")["rcc_apart"].idxmax()]])
    shown = shown.sort_values(["case", "rcc_apart"], ascending=[True, False], kind="stable")
    targets = []
    for name, goal in GOALS.items():
        what = f"RCC of pairs more than 5 % apart, {name}"
        targets.append(Target(what, float(ours["rcc_apart"][name]), goal))
    for name in GOALS:
        within = float(ours["within"][name])
        targets += [
            Target(f"times within 90 % intervals, {name}", within, 0.85),
            Target(f"times within 90 % intervals, {name}", within, 0.95, "at most"),
        ]
    gaps = "; ".join(f"{name} {ours['rcc_apart'][name] - best[name]:+.3f}" for name in GOALS)
    return Findings(
        f"All numbers are means over {N_SPLITS} random splits, in which two thirds of the "
        "mappings are the training set and one third is the test set. *Line and features* is the "
        "method of `learn_runs`. It predicts a constant plus a multiple of the reference time "
        "that predicts held-out times best, and adds trees on features if these reduce the "
        "held-out error by a tenth. *Trees on features* is the method of Jain et al., SC'13. Its "
        "set of features (some sets have simulated counters) is the one with the best score on "
        "the test set. The other rows use a single feature or a simulated time as the "
        "prediction, without training.\n\n"
        "For pairs that differ by more than 5 %, the RCC of line and features exceeds that of "
        f"the trees by: {gaps}. The order of pairs that differ less matters little, and noise "
        "reverses many of them. The second table gives the RCC that is possible with this noise.",
        {"forecasts": mean, "noise": noise},
        {"Forecasts of times kept out": shown, "Noise of the measured times": noise},
        tuple(targets),
    )


def _scored(case: Case, n_jobs: int) -> list[dict[str, object]]:
    """Score every method on every split."""
    features = [feature.name for feature in select_features(None, 2)]
    problem = tc.MappingProblem(case.workload, TORUS)
    names = (*features, *REFERENCES)
    table = with_references(problem, case.mappings, names, n_jobs=n_jobs)
    sets = tc.training.FEATURE_SETS
    usual = tuple(dict.fromkeys((*sets["analytic"], *sets["relative"], *REFERENCES)))
    names, times = case.runs.names, case.runs.times
    rows: list[dict[str, object]] = []
    for split, (train, test) in enumerate(random_splits(times.size, N_SPLITS)):
        kept, seen, unseen = case.runs.take([names[i] for i in train]), times[train], times[test]
        left = table.iloc[test]
        found = fit_run_model(table, kept, usual, seed=split)
        said = {OURS: found.model.predict(left)}
        for name in PUBLISHED_SETS:
            model = tc.TimePredictor(
                name, "time", n_estimators=100, calibration_folds=0, random_state=split
            )
            said[f"{PUBLISHED}, {name}"] = model.fit(table.iloc[train], seen).predict(left)
        single = (*REFERENCES, "max_bytes", "max_path_bytes", "avg_hops_per_byte")
        low, high = found.model.predict_interval(left).T
        within = float(((low <= unseen) & (unseen <= high)).mean())
        label = {"case": case.name, "split": split}
        rows += [
            {
                **label,
                "method": name,
                "rcc": rcc(unseen, each),
                "rcc_apart": rcc_told_apart(unseen, each, APART),
                "r2": r2(unseen, each),
                "within": within if name == OURS else float("nan"),
            }
            for name, each in said.items()
        ]
        rows += [
            {
                **label,
                "method": name,
                "rcc": rcc_told_apart(unseen, left[name]),
                "rcc_apart": rcc_told_apart(unseen, left[name], APART),
            }
            for name in single
        ]
    return rows


def _noise(case: Case) -> dict[str, object]:
    runs = case.runs
    return {
        "case": case.name,
        "mappings": len(runs.names),
        "runs": runs.seconds.size,
        "noise of a run": runs.noise,
        "possible RCC": possible_rcc(runs),
        "drift": runs.drift,
        "outliers": int(runs.is_outlier.sum()),
    }
