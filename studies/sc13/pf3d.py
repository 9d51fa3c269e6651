"""A production application: pF3D on 16,384 and 65,536 tasks."""

from __future__ import annotations

import pandas as pd

from toruscast.training.evaluate import compare_feature_sets
from toruscast.training.predictor import TimePredictor

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..plan import LARGE, SMALL, blocks
from ..scores import forecast_first_split
from . import noise, simulated

_SPLITS, _NOISY_SPLITS = 20, 5
_PUBLISHED = {SMALL: {"rcc": 0.995, "r2": 0.931}, LARGE: {"rcc": 0.75}}
_BARS = {SMALL: {"rcc": 0.995, "r2": 0.98}, LARGE: {"rcc": 0.97}}


def _run(inputs: Inputs) -> Findings:
    table = simulated.load(inputs)
    used = {tasks: simulated.pf3d(table, tasks) for tasks in (SMALL, LARGE)}
    parts, loud, bars, forecasts = [], [], [], []
    for tasks, samples in used.items():
        # Both hosts of 65,536 tasks together: they differ in shape, and the features say how.
        some = simulated.features_of(samples)
        quiet = some["time"].to_numpy()
        scores = compare_feature_sets(
            simulated.with_times(some, quiet),
            simulated.SETS,
            n_splits=_SPLITS,
            n_jobs=inputs.n_jobs,
        ).reset_index()
        parts.append(scores.assign(tasks=tasks))
        best = _best_hybrid(scores)
        name = str(best["features"])
        learner = TimePredictor(name, calibration_folds=0)
        forecasts.append(forecast_first_split(samples, name, learner).assign(tasks=tasks))
        for share in noise.SHARES:
            times = noise.noisy(quiet, share)
            varied = compare_feature_sets(
                some.assign(time=times),
                simulated.HYBRIDS,
                n_splits=_NOISY_SPLITS,
                n_jobs=inputs.n_jobs,
            ).reset_index()
            own = {"tasks": tasks, "noise": share, **_best_hybrid(varied)}
            loud.append(own | noise.ceiling_of_splits(times, quiet, _NOISY_SPLITS))
        for metric, bar in _BARS[tasks].items():
            name = "RCC" if metric == "rcc" else "R^2"
            bars.append(
                Bar(
                    f"{name} of {best['features']}, {tasks:,} tasks",
                    float(best[metric]),
                    bar,
                    published=_PUBLISHED[tasks][metric],
                )
            )
    result = pd.concat(parts, ignore_index=True)
    packets = {str(block.coarsening) for block in blocks() if block.benchmark == "pF3D"}
    return Findings(
        f"{simulated.text(pd.concat(used.values()))} pF3D's phases (transforms in X and Y, "
        "exchange of planes, exchange with the six neighbours) run one after the other; the "
        "transforms are routed in dimension order, the long planes adaptively. "
        f"*{simulated.GIVEN.capitalize()}* as the only feature shows what the learner makes of "
        f"perfect knowledge. Means over {_SPLITS} splits ({_NOISY_SPLITS} with run-to-run "
        "variation of the times, where `ceiling` is the RCC of the varied times with those that "
        "were not, of the mappings forecast; seed 0).",
        {
            "pf3d": result,
            "pf3d-sets": result[result["features"] != simulated.GIVEN],
            "pf3d-noise": pd.DataFrame(loud),
            "pf3d-forecasts": pd.concat(forecasts, ignore_index=True),
        },
        tuple(bars),
        (
            *(
                Chart(
                    f"pf3d-{metric}",
                    "bars",
                    "pf3d-sets",
                    "features",
                    metric,
                    "tasks",
                    title=f"{label}, pF3D",
                )
                for metric, label in (("rcc", "RCC"), ("r2", "R^2"))
            ),
            Chart(
                "pf3d-forecasts",
                "scatter",
                "pf3d-forecasts",
                "observed",
                "predicted",
                "torus",
                "tasks",
                log=True,
                title="pF3D: time by the best hybrid, first split (s)",
            ),
        ),
        ("pf3d", "pf3d-noise"),
        (
            "Splits are drawn over both hosts of 65,536 tasks together. The best set is chosen by "
            "the scores shown. A simulated packet stands for "
            f"{' or '.join(sorted(packets))} real ones.",
            *(_what_is_missed(result, tasks) for tasks in used),
        ),
    )


def _best_hybrid(scores: pd.DataFrame) -> pd.Series:
    """The row of the hybrid with the highest RCC."""
    return scores[scores["features"].isin(simulated.HYBRIDS)].sort_values("rcc").iloc[-1]


def _what_is_missed(result: pd.DataFrame, tasks: int) -> str:
    """What the same trees reach when handed the time, beside the best hybrid."""
    own = result[result["tasks"] == tasks]
    given, best = own[own["features"] == simulated.GIVEN].iloc[0], _best_hybrid(own)
    return (
        f"{tasks:,} tasks: {simulated.GIVEN} alone reaches RCC {given['rcc']:.3f} and R^2 "
        f"{given['r2']:.3f}, {best['features']} {best['rcc']:.3f} and {best['r2']:.3f}. The "
        "difference is what the features leave open, the rest what so few mappings teach."
    )


EXPERIMENT = Experiment("pf3d", "pF3D, 16,384 and 65,536 tasks", "samples", _run)
