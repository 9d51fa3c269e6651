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
        "studies/sc13/hot_region.py` asks whether a new metric adds anything: here the size of the "
        "largest region of hot links that hang together, after Jha et al., NSDI'20. The samples "
        f"are routed again, not simulated ({len(more)} of {len(table)}). The answer: it {said}. "
        f"`{found.best}` is the set that forecasts best by itself. [ , ] is the 95 % interval of "
        f"the mean over {len(found.blocks) // len(found.gains)} workloads and hosts. Counters that "
        "you measured are features too: `toruscast evaluate --samples counters.csv` reads a table "
        "of them with a column time.",
        {"later-metric": found.blocks},
        targets=(Target("seconds to judge a new metric", seconds, 60, "at most"),),
    )
