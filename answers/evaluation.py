"""Answer of `evaluate`: scores of feature sets on held-out mappings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from toruscast._slow import pandas as pd
from toruscast.decision.evaluation import Evaluation
from toruscast.text import counted, joined
from toruscast.training import single_features, summarise
from toruscast.training.evaluation import (
    BASELINES,
    BOUNDS,
    PLURALS,
    HoldOut,
    MetricEvaluation,
    rcc_gains,
)

from . import svg
from .blocks import Answer, Chart, Headline, Section, Sentence
from .learned import METRICS, describe_runs, observed_chart, runs_content, sample_badge
from .table import Column, Table, records

# Maximum rows of the table of single features.
_MAX_SINGLE_ROWS = 10
# Share of pairs that a random order puts in the right order.
_CHANCE_RCC = 0.5
_HELD_OUT = (
    Column("rcc", "RCC", "decimal", priority=0),
    Column("rcc_1", "over 1 %", "decimal"),
    Column("rcc_5", "over 5 %", "decimal"),
    Column("regret_1", "regret@1", "share", 1),
    Column("error", "median error", "share", 1),
    Column("coverage", "90 % coverage", "share", 1),
)
_FEATURES = Column("features", kind="name")
_NAMES = (
    "The release bound is a lower bound that accounts for when messages are released at links. "
    "prior and H1 to H6 are the sets of Jain et al. (SC'13); analytic and relative need no "
    "simulation. Untrained orders (-) predict no times."
)
_REGRET = f"regret@1: {METRICS['regret_1'][1]}."
_MEANING = (
    "Gain: mean difference in RCC on the same splits, with a 95 % interval. A set helps if its "
    f"interval is above 0. All other ranges contain 95 % of the splits. {_REGRET}"
)


def answer(result: Evaluation) -> Answer:
    """Return the scores of feature sets on held-out samples, and of each feature alone."""
    if result.added is not None:
        return _metric_answer(result, result.added)
    if result.hold_out is not None:
        return _hold_out_answer(result, result.hold_out)
    samples, scores, learned = result.samples, result.scores, result.learned
    gain = rcc_gains(pd.concat([scores, result.baselines])).reset_index()
    single, summary = single_features(samples).reset_index(), summarise(scores)
    summary = summary.rename(columns={"predictor": "features"})
    largest, intervals = result.small_to_large, _rcc_intervals(result)
    n_splits = int(scores["split"].max()) + 1
    n_train, n_test = int(scores["n_train"].iloc[0]), int(scores["n_test"].iloc[0])
    headline, rivals = _make_headline(result, intervals, ["split"])
    notes = [
        rivals,
        f"Mean over {counted(n_splits, 'split')} of {len(samples)} mappings: {n_train} for "
        f"training, {n_test} for testing.",
        *(describe_runs(learned) if learned else ()),
    ]
    table = _set_table(result, gain, intervals["name"])
    singles = [_single_table(single, result.metrics)]
    title = f"All {len(samples)} samples ordered by a single feature, without training"
    sections_by_size = []
    if largest is not None:
        first = largest.iloc[0]
        small_to_large = (
            f"Small to large: {first['n_train']} samples for training, and the {first['n_test']} "
            f"samples of {first['held_out']} for testing"
        )
        sections_by_size = [Section(small_to_large, [_predictor_table(largest)])]
    sections = [
        Section("", [table, Sentence(_MEANING)], only="terminal"),
        Section("Pairs in the right order", [rcc_chart(result)], wide=False, only="page"),
        Section("All scores", [table], _MEANING, wide=False, only="page"),
        *([Section("", [observed_chart(learned)], only="page")] if learned else ()),
        *sections_by_size,
        Section(title, singles, only="terminal"),
        Section(title, singles, folded=True, only="page"),
    ]
    content: dict[str, Any] = {
        "n_samples": len(samples),
        "n_train": n_train,
        "n_test": n_test,
        "splits": n_splits,
        "feature_sets": {name: list(names) for name, names in result.sets.items()},
        "quality": summary.to_dict("records"),
        "gain": gain.to_dict("records"),
        "single_features": single.to_dict("records"),
        "rcc": records(intervals),
    }
    if largest is not None:
        content["small_to_large"] = largest.to_dict("records")
    if learned is not None:
        content["learned"] = runs_content(learned)
    return Answer(
        title="Feature sets on held-out mappings",
        badge="measured times" if learned else sample_badge(samples),
        headline=headline,
        notes=notes,
        details=[_NAMES],
        sections=sections,
        content=content,
        table=Table(summary, ()),
    )


def _make_headline(
    result: Evaluation, intervals: pd.DataFrame, by: Sequence[str]
) -> tuple[Headline, str]:
    """Return the set to use, and sentences about the sets that are indistinguishable from it.

    If no trained set is distinguishably better than all untrained orders, the best untrained order
    is used.
    """
    rcc, trained = intervals.set_index("name")["rcc"], result.best
    scores = pd.concat([result.scores, result.baselines])
    untrained = next((name for name in rcc.index if name in BASELINES.values()), "")
    is_needed = not untrained or rcc_gains(scores, untrained, by)["low"][trained] > 0
    best = trained if is_needed else untrained
    gain = rcc_gains(scores, best, by).loc[rcc.index.drop(best)]
    equal = gain.index[~(gain["high"] < 0)]
    text = "All others are worse." * (len(gain) > 0)
    if len(equal):
        text = f"Indistinguishable from {best}: {joined(equal, len(equal))}."
    if is_needed:
        score = f": {rcc[best]:.3f} of the pairs in the right order (RCC)"
        return Headline("Use ", best, score), text
    well = "as well as" if trained in equal else "better than"
    score = f" orders {well} any trained set ({rcc[best]:.3f} of pairs)"
    text = f"The best trained set, {trained}, has {rcc[trained]:.3f}. {text}"
    return Headline("No training needed: ", best, score), text


def rcc_chart(result: Evaluation) -> Chart:
    """Return a chart of the RCC of each set and each untrained order, with intervals."""
    table = _rcc_intervals(result)
    rows = []
    for i, (name, rcc, low, high) in enumerate(table.itertuples(index=False, name=None)):
        label = f"{name}*" if name in BASELINES.values() else name
        rows.append(svg.Row(label, rcc, "other" if i else "best", low, high))
    left_end = min(_CHANCE_RCC, *table["rcc"].tolist(), *table["low"].tolist())
    lead = "Mean RCC: the share of pairs of held-out mappings in the right order."
    if result.hold_out is None:
        lead += " Whiskers contain 95 % of the splits."
    if any(row.label.endswith("*") for row in rows):
        lead += " * without training."
    draw = partial(
        svg.draw_times, rows, scale=1.0, unit="", left_end=left_end, by_chance=_CHANCE_RCC
    )
    return Chart("sets", "", lead, draw)


def _rcc_intervals(result: Evaluation) -> pd.DataFrame:
    """Return each set's and baseline's mean RCC and range of 95 % of the splits, best RCC first."""
    scores = result.rcc.rename_axis("name").reset_index(name="rcc")
    if result.added is None:
        # If the RCC is equal, orders that need no training come before trained sets.
        scores = pd.concat([result.baselines, result.scores]).rename(columns={"predictor": "name"})
    by_name = scores.groupby("name", sort=False)["rcc"]
    low, high = (by_name.quantile(share) for share in (0.025, 0.975))
    table = pd.DataFrame({"rcc": by_name.mean(), "low": low, "high": high})
    return table.sort_values("rcc", ascending=False, kind="stable").reset_index()


def _set_table(result: Evaluation, gain: pd.DataFrame, names: pd.Series[str]) -> Table:
    """Return the scores of each set, best first; orders without training only have an RCC."""
    summary = summarise(pd.concat([result.scores, result.baselines]))
    wide = summary.pivot(index="predictor", columns="metric", values=["mean", "low", "high"])
    # Name the columns after metric and statistic, such as rcc_mean.
    wide.columns = wide.columns.map("{0[1]}_{0[0]}".format)
    wide = wide.loc[names.tolist()].rename_axis("features").join(gain.set_index("features"))
    # Do not print the gain of the first set over itself.
    wide.loc[gain["features"][0], ["gain", "low", "high"]] = float("nan")
    columns = [_FEATURES, Column("rcc_mean", "RCC", "decimal")]
    if len(gain) > 1:
        # The gain is the main result, so keep it on a narrow terminal.
        interval = Column("low", kind="signed", to="high")
        heading = f"gain over {gain['features'][0]}"
        columns.append(Column("gain", heading, "signed", priority=0, below=interval))
    spread = Column("regret_1_low", kind="share", digits=1, to="regret_1_high")
    columns += [
        Column("tau_b_mean", "tau-b", "decimal"),
        Column("r2_mean", "R^2", "decimal"),
        Column("regret_1_mean", "regret@1", "share", 1, below=spread),
    ]
    return Table(wide, columns, best=0)


def _mean_scores(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the mean scores over workloads and tori for each value of a column."""
    return scores.groupby(column, sort=False)[[each.name for each in _HELD_OUT]].mean()


def _predictor_table(scores: pd.DataFrame) -> Table:
    """Return the mean scores of each predictor, the best first."""
    means = _mean_scores(scores, "predictor").rename_axis("features")
    means = means.sort_values("rcc", ascending=False, kind="stable")
    return Table(means, [_FEATURES, *_HELD_OUT], best=0)


def _hold_out_answer(result: Evaluation, by: HoldOut) -> Answer:
    """Return the scores on held-out groups of samples, such as those on one torus."""
    scores, best, intervals = result.scores, result.best, _rcc_intervals(result)
    bounds = [name for name in intervals["name"] if name in BOUNDS.values()]
    means = {name: _mean_scores(own, "held_out") for name, own in scores.groupby("predictor")}
    by_group = means[best].assign(**{name: means[name]["rcc"] for name in bounds})
    columns = [
        Column("held_out", "largest" if by == "size" else by, "name"),
        _HELD_OUT[0],
        *(Column(name, f"RCC of {name}", "decimal") for name in bounds),
        *_HELD_OUT[1:],
    ]
    headline, rivals = _make_headline(result, intervals, ["held_out", "workload", "torus"])
    n_blocks = int((scores["predictor"] == best).sum())
    held_out = "The largest" if by == "size" else f"Each {by}"
    return Answer(
        title=f"Feature sets on held-out {PLURALS[by]}",
        badge=sample_badge(result.samples),
        headline=headline,
        notes=[
            rivals,
            f"{held_out} is held out, and the other samples are for training. Scores are means "
            f"over {n_blocks} pairs of a workload and a torus.",
            f"Over 1 % and 5 %: RCC of only the pairs whose times differ by more. {_REGRET}",
        ],
        sections=[
            Section("Pairs in the right order", [rcc_chart(result)], wide=False, only="page"),
            Section("All scores", [_predictor_table(scores)], wide=False),
            Section(f"{best} on each held-out {by}", [Table(by_group, columns)]),
        ],
        content={
            "held_out_by": by,
            "feature_sets": {name: list(names) for name, names in result.sets.items()},
            "hold_out": scores.to_dict("records"),
            "rcc": records(intervals),
        },
        table=Table(scores, ()),
    )


def _single_table(single: pd.DataFrame, metrics: Sequence[str]) -> Table:
    """Return the scores of the best single features and of the user's metrics."""
    chosen = (single.index < _MAX_SINGLE_ROWS) | single["feature"].isin(metrics)
    scores = Column("rcc", "RCC", "decimal"), Column("tau_b", "tau-b", "decimal")
    return Table(single[chosen], [Column("feature", kind="name"), *scores])


def _metric_answer(result: Evaluation, metric: MetricEvaluation) -> Answer:
    """Return the answer about the user's metrics: their gain over other feature sets."""
    name = " and ".join(metric.metrics)
    gains = metric.gains.reset_index().to_dict("records")
    bases = list(metric.gains.index)
    notes = []
    descriptions = {base: metric.describe_gain(base) for base in bases}
    if metric.best in descriptions:
        descriptions[metric.best] += ", the best set without it"
    for base, row in zip(bases, gains, strict=True):
        if base != bases[0]:
            notes.append(f"{name} {descriptions[base]}.")
        if row["blocks"] > 1:
            notes.append(
                f"With it, the mean RCC of {base} is {row['rcc']:.3f}; {row['higher']} of "
                f"{row['blocks']} workloads gain."
            )
    interval = "of the mean over all" if gains[0]["blocks"] > 1 else "over the splits"
    notes.append(
        f"Each workload and torus has {metric.n_splits} random splits, with two thirds of the "
        f"mappings for training and one third for testing. [ , ] is the 95 % interval {interval}. "
        "RCC: share of pairs in the right order. alone: order by the metric itself, untrained."
    )
    return Answer(
        title=f"Gain from {name}",
        badge=sample_badge(result.samples),
        headline=Headline("", name, f" {descriptions[bases[0]]}."),
        notes=notes,
        sections=[
            Section("Pairs in the right order", [rcc_chart(result)], wide=False, only="page"),
            Section("Gain by application", [_gain_table(metric, bases)], wide=False),
        ],
        content={
            "metrics": list(result.metrics),
            "best_set": metric.best,
            "splits": metric.n_splits,
            "answers": {base: metric.describe_gain(base) for base in bases},
            "gains": gains,
            "blocks": metric.blocks.to_dict("records"),
            "rcc": records(_rcc_intervals(result)),
        },
        table=Table(metric.blocks, ()),
    )


def _gain_table(metric: MetricEvaluation, bases: Sequence[str]) -> Table:
    """Return a table of RCC by workload: metric alone, each base set, and the gain over that."""
    keys = ["workload", "torus", "n_samples", "alone"]
    wide = metric.blocks.pivot(index=keys, columns="base", values=["rcc", "gain"])
    wide.columns = wide.columns.map(" ".join)
    columns = [
        Column("workload", kind="name"),
        Column("torus", kind="label"),
        Column("n_samples", "mappings", "count"),
        Column("alone", kind="decimal"),
    ]
    for base in bases:
        columns.append(Column(f"rcc {base}", base, "decimal"))
        columns.append(Column(f"gain {base}", f"gain over {base}", "signed"))
    return Table(wide.reset_index(), columns)
