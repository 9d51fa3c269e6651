"""What this tool itself forecasts of the published blocks, and what that costs."""

from __future__ import annotations

from time import process_time

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import toruscast as tc
from toruscast.training import FEATURE_SETS, rcc, rcc_told_apart, regret
from toruscast.training.forecast.forecast import process_of
from toruscast.training.forecast.race import Budget, Race, run

from ..scores import splits
from ..study import Findings, Inputs, Target
from .plan import SMALL, Block, blocks
from .samples import EACH_BLOCK, cases, load, processor_seconds

_SPLITS = 10
# Simulations of the 28 mappings that are forecast: a third.
_RACED = 9
# Share by which times differ that are told apart.
_APART = 0.01


def learners() -> dict[str, tc.TimePredictor]:
    """Return what the tool learns: from routes alone, and from a sketch."""
    return {
        "routes": tc.TimePredictor("relative", "slowdown"),
        "sketch": tc.TimePredictor("sketch", "correction"),
    }


def own_row(inputs: Inputs) -> Findings:
    """Learn on 56 mappings of each block and forecast 28, at three costs."""
    spent, sketched = processor_seconds(inputs)
    named = {(b.benchmark, b.size, str(b.torus)): b for b in blocks() if b.kind == "structured"}
    table = load(inputs, SMALL).dropna(subset=["sketch_time"])
    rows = []
    for case, group in cases(table):
        block = named[case["benchmark"], case["size"], case["torus"]]
        each = len(group)
        scored = pd.DataFrame([_one(group, *parts) for parts in splits(each, _SPLITS)]).mean()
        whole, rough = spent[block.label] / each, sketched[block.label] / each
        costs = {
            "simulation_s": whole,
            "sketch_s": rough,
            "routes_s": _seconds_of_routes(block),
            "raced_s": rough + scored.pop("raced_share") * whole,
        }
        varies = {"varies": group["time"].max() / group["time"].min()}
        rows.append({**case, **varies, **scored, **costs, "sketch_over_simulation": rough / whole})
    found = pd.DataFrame(rows)
    share = float(found["sketch_s"].sum() / found["simulation_s"].sum())
    worst = found.loc[found["sketch"].idxmin()]
    shown = ["benchmark", "size", "varies", "routes", "sketch", "raced", "sketch_s", "raced_s"]
    return Findings(
        f"56 mappings of a block train and 28 are forecast, as published; means over {_SPLITS} "
        "splits. *routes*: slowdowns learned from features of the routes. *sketch*: the correction "
        "of a coarser simulation. *raced*: on top of the sketch, up to a third of the 28 are "
        "simulated, those that decide which is fastest. Seconds are of a processor, for a mapping. "
        f"The sketch gives RCC {found['sketch'].mean():.3f} on average, {worst['sketch']:.3f} at "
        f"worst ({worst['benchmark']} {worst['size']}), for {share:.0%} of the simulation; for "
        f"pairs that differ by more than {_APART:.0%} it is {found['sketch_apart'].mean():.3f}. "
        "The mapping that the race names takes "
        f"{found['raced_regret'].mean():.2%} more than the fastest of the 28. Where the slowest "
        "mapping takes hardly longer than the fastest (*varies*), nearly equal times are ordered "
        "by what a sketch leaves out. Messages of one packet cannot be coarser: their sketch is "
        "half of the iterations.",
        {"own-row": found},
        {EACH_BLOCK: found[[*shown, "simulation_s"]]},
        (
            Target("mean RCC, sketch learned", float(found["sketch"].mean()), 0.97),
            Target("least RCC, sketch learned", float(worst["sketch"]), 0.93),
            Target("sketch over simulation, processor seconds", share, 1 / 3, "at most"),
            Target(
                "mean RCC, sketch learned, pairs more than 1 % apart",
                float(found["sketch_apart"].mean()),
            ),
            Target("mean RCC, routes learned", float(found["routes"].mean())),
            Target("mean RCC, raced", float(found["raced"].mean())),
            Target("mean regret of the fastest, raced", float(found["raced_regret"].mean())),
        ),
    )


def _one(
    group: pd.DataFrame, train: NDArray[np.int64], test: NDArray[np.int64]
) -> dict[str, float]:
    """Scores of one split."""
    known, wanted = group.iloc[train], group.iloc[test]
    seen = wanted["time"].to_numpy()
    scored = {}
    for name, learner in learners().items():
        learner.fit(known, known["time"])
        told = learner.predict(wanted)
        scored[name] = rcc(seen, told)
    scored["sketch_apart"] = rcc_told_apart(seen, told, _APART)
    # No bound holds for an iteration that others overlap.
    race = Race(process_of(learner.prior_prediction(wanted)), np.zeros(seen.size))
    run(race, seen.__getitem__, Budget(_RACED))
    middle, _ = race.posterior.marginal()
    times = np.where(race.is_simulated, race.times, np.exp(middle))
    scored["raced"] = rcc(seen, times)
    scored["raced_regret"] = regret(seen, times, 1)
    scored["raced_share"] = len(race.order) / seen.size
    return scored


def _seconds_of_routes(block: Block) -> float:
    """Processor seconds of the features of the routes, for a mapping."""
    some = tc.strategies.sample(
        block.workload, block.torus, n=3, tasks_per_node=16, kinds=["permute"]
    )
    names = (*FEATURE_SETS["relative"], "lower_bound")
    # The first call compiles, or loads what was compiled.
    tc.extract(block.workload, block.torus, some[0], routing="by_size", features=names)
    start = process_time()
    tc.extract(block.workload, block.torus, some, routing="by_size", features=names)
    return (process_time() - start) / len(some)
