"""What this tool itself forecasts of the published blocks, and what that costs."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import toruscast as tc
from toruscast.decision import Budget
from toruscast.decision.loop import Decision, decide
from toruscast.decision.posterior import Posterior
from toruscast.training import rcc, rcc_told_apart, regret
from toruscast.training.evaluation import random_splits

from ..recorded_times import RecordedTimes
from ..study import Findings, Inputs, Target
from .plan import SMALL, blocks
from .samples import EACH_BLOCK, cases, load, processor_seconds

_SPLITS = 10
# Simulations of the 28 mappings that are forecast: a third.
_SIMULATED = 9
# Share by which times differ that are told apart.
_APART = 0.01


def learners() -> dict[str, tc.TimePredictor]:
    """Return what the tool learns: from routes alone, and from a coarse simulation."""
    return {
        "routes": tc.TimePredictor("relative", "slowdown", calibration_folds=0),
        "sketch": tc.TimePredictor("coarse", "correction"),
    }


def own_row(inputs: Inputs) -> Findings:
    """Learn on 56 mappings of each block and forecast 28, at four costs."""
    spent, sketched = processor_seconds(inputs)
    named = {(b.benchmark, b.size, str(b.torus)): b for b in blocks() if b.kind == "structured"}
    table = load(inputs, SMALL).dropna(subset=["coarse_time"])
    rows = []
    for case, group in cases(table):
        block = named[case["benchmark"], case["size"], case["torus"]]
        each = len(group)
        scored = pd.DataFrame(
            [_one(group, *parts) for parts in random_splits(each, _SPLITS)]
        ).mean()
        whole, rough = spent[block.label] / each, sketched[block.label] / each
        costs = {
            "simulation_s": whole,
            "sketch_s": rough,
            "ordered_s": rough + scored.pop("simulated_share") * whole,
        }
        varies = {"varies": group["time"].max() / group["time"].min()}
        rows.append({**case, **varies, **scored, **costs})
    found = pd.DataFrame(rows)
    total = found[["sketch_s", "ordered_s"]].sum() / found["simulation_s"].sum()
    mean, worst = found.mean(numeric_only=True), found.loc[found["sketch"].idxmin()]
    shown = ["benchmark", "size", "varies", "routes", "coarse", "sketch", "ordered", "sketch_s"]
    return Findings(
        "In each block, 56 mappings are the training set and 28 are predicted, as in the paper. "
        f"The numbers are means over {_SPLITS} splits. *routes* predicts slowdowns from features "
        "of the routes. *coarse* is the order of a coarse simulation without a correction, as "
        "toruscast uses it. *sketch* adds a learned correction. *ordered* also simulates "
        f"{_SIMULATED} of the 28 mappings, chosen to put as many pairs as possible in the right "
        f"order. The coarse simulation takes {total['sketch_s']:.0%} of the time of the full "
        f"simulation. The mean RCC is {mean['coarse']:.3f} for *coarse* and {mean['sketch']:.3f} "
        f"for *sketch*, whose minimum is {worst['sketch']:.3f} ({worst['benchmark']} "
        f"{worst['size']}). For pairs that differ by more than {_APART:.0%}, the mean for "
        f"*sketch* is {mean['sketch_apart']:.3f}. *ordered* takes {total['ordered_s']:.0%} of the "
        f"time. Its mean RCC is {mean['ordered']:.3f}, and its first mapping takes "
        f"{mean['ordered_regret']:.2%} longer than the fastest. If all mappings take nearly the "
        "same time (*varies* is close to 1), effects that a coarse simulation does not model "
        "decide their order. Messages of one packet cannot be made coarser, so half of the "
        "iterations are simulated instead.",
        {"own-row": found},
        {EACH_BLOCK: found[[*shown, "ordered_s", "simulation_s"]]},
        (
            Target("mean RCC, sketch learned", float(mean["sketch"]), 0.96),
            Target("sketch over simulation", float(total["sketch_s"]), 0.333, "at most"),
            Target("least RCC, sketch learned", float(worst["sketch"]), 0.93),
            Target("mean RCC, ordered", float(mean["ordered"])),
            Target("ordered over simulation", float(total["ordered_s"])),
            Target("mean RCC, sketch, pairs more than 1 % apart", float(mean["sketch_apart"])),
            Target("mean RCC, coarse simulation as it stands", float(mean["coarse"])),
            Target("mean RCC, routes learned", float(mean["routes"])),
            Target("mean regret of the first, ordered", float(mean["ordered_regret"])),
        ),
    )


def _one(
    group: pd.DataFrame, train: NDArray[np.int64], test: NDArray[np.int64]
) -> dict[str, float]:
    """Scores of one split."""
    known, wanted = group.iloc[train], group.iloc[test]
    seen = wanted["time"].to_numpy()
    scored = {"coarse": rcc(seen, wanted["coarse_time"])}
    for name, learner in learners().items():
        learner.fit(known, known["time"])
        told = learner.predict(wanted)
        scored[name] = rcc(seen, told)
    scored["sketch_apart"] = rcc_told_apart(seen, told, _APART)
    # No bound holds for an iteration that others overlap.
    nothing = np.zeros(seen.size)
    posterior = Posterior.from_prediction(learner.prior_prediction(wanted), nothing)
    recorded, budget = RecordedTimes({1: seen}, nothing, nothing), Budget(_SIMULATED, np.inf, 1.0)
    ordered = decide(Decision(posterior, recorded, "order", budget))
    times = ordered.posterior.interval(0.9)[0]
    scored["ordered"] = rcc(seen, times)
    scored["ordered_regret"] = regret(seen, times, 1)
    scored["simulated_share"] = ordered.n_simulated / seen.size
    return scored
