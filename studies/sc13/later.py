"""A metric that was published after the experiments, judged on their samples."""

from __future__ import annotations

import runpy
import time
from pathlib import Path

from toruscast import InputError
from toruscast._features import unregister_feature
from toruscast.cli.evaluate import MAX_MESSAGES
from toruscast.training import read_samples
from toruscast.training.evaluation import evaluate_metrics
from toruscast.training.samples import add_metrics

from ..study import Findings, Inputs, Target

PLUGIN = Path(__file__).with_name("hot_region.py")


def later_metric(inputs: Inputs) -> Findings:
    """Route all samples again, compute the metric of each, and learn with and without it.

    Raises
    ------
    InputError
        If there is no table of samples.
    """
    if inputs.samples is None:
        raise InputError("no table of samples", expected="one made by 'python -m studies build'")
    start = time.perf_counter()
    runpy.run_path(str(PLUGIN))
    try:
        table = read_samples(inputs.samples)
        more = add_metrics(table, ["hot_region"], max_messages=MAX_MESSAGES, n_jobs=inputs.n_jobs)
        found = evaluate_metrics(more, ["hot_region"], n_jobs=inputs.n_jobs)
    finally:
        unregister_feature("hot_region")
    seconds = time.perf_counter() - start
    said = "; ".join(found.describe_gain(base) for base in found.gains.index)
    return Findings(
        "`toruscast evaluate --samples studies/sc13/samples.parquet --plugin "
        "studies/sc13/hot_region.py` tests whether a new metric improves predictions. The metric "
        "is the size of the largest connected region of busy links, after Jha et al., NSDI'20. "
        f"The samples are routed, but not simulated again ({len(more)} of {len(table)}). The "
        f"result: it {said}. `{found.best}` is the best set of features. [ , ] is the 95 % "
        f"interval of the mean over {len(found.blocks) // len(found.gains)} workloads and hosts. "
        "`toruscast evaluate --samples counters.csv` also reads a table of your own counters, "
        "with a column time.",
        {"later-metric": found.blocks},
        targets=(Target("seconds to judge a new metric", seconds, 60, "at most"),),
    )
