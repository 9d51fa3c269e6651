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
    BOUNDS,
    INTERVAL_SPLITS,
    PLURALS,
    HoldOut,
    MetricEvaluation,
    rcc_gains,
)

from . import svg
from .blocks import Answer, Chart, Headline, Section
from .learned import METRICS, describe_runs, observed_chart, runs_content, sample_badge
from .table import Column, Kind, Table, records

# Rows of the table of single features.
_N_SINGLE = 10
_HELD_OUT = (
    Column("rcc", "RCC", "decimal", priority=0),
    Column("rcc_1", "over 1 %", "decimal"),
    Column("rcc_5", "over 5 %", "decimal"),
    Column("regret_1", "regret@1", "share", 1),
    Column("error", "median error", "share", 1),
    Column("coverage", "90 % coverage", "share", 1),
)
_FEATURES = Column("features", kind="name")


def answer(result: Evaluation) -> Answer:
    """Return the scores of feature sets on held-out samples, and of each feature alone."""
    if result.added is not None:
        return _metric_answer(result, result.added)
    if result.hold_out is not None:
        return _hold_out_answer(result, result.hold_out)
    samples, scores, learned = result.samples, result.scores, result.learned
    gain, single = rcc_gains(scores).reset_index(), single_features(samples).reset_index()
    largest = result.small_to_large
    summary = summarise(scores).rename(columns={"predictor": "features"})
    n_splits = int(scores["split"].max()) + 1
    n_train, n_test = int(scores["n_train"].iloc[0]), int(scores["n_test"].iloc[0])
    rcc = summary[summary["metric"] == "rcc"].sort_values("mean", ascending=False, kind="stable")
    best = rcc.iloc[0]
    interval = f"no interval from fewer than {INTERVAL_SPLITS} splits"
    if n_splits >= INTERVAL_SPLITS:
        interval = "95 % of splits"
    notes = [
        f"{len(samples)} samples, {n_train} for training and {n_test} for testing, in "
        f"{counted(n_splits, 'split')}. Mean ({interval}).",
        *(describe_runs(learned) if learned else ()),
    ]
    if len(gain) > 1:
        metrics = "; ".join(": ".join(METRICS[metric]) for metric in ("rcc", "regret_1"))
        notes.append(
            f"The gain is over {gain['features'][0]} on the same splits, with the 95 % interval of "
            f"its mean. A set helps if its interval is above 0. {metrics}."
        )
    charts = [rcc_chart(result), *([observed_chart(learned)] if learned else ())]
    set_table, single_table = _set_table(summary, gain), _single_table(single, result.metrics)
    sections = [
        Section("", [set_table], only="terminal"),
        Section("Feature sets", [*charts, set_table], only="page"),
        *([] if largest is None else [_small_to_large_section(largest)]),
        Section("Order by a single feature of all samples, without learning", [single_table]),
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
        "rcc": records(_rcc_intervals(result)),
    }
    if largest is not None:
        content["small_to_large"] = largest.to_dict("records")
    if learned is not None:
        content["learned"] = runs_content(learned)
    return Answer(
        title="Feature sets on held-out mappings",
        badge="measured times" if learned else sample_badge(samples),
        headline=Headline(
            "", str(best["features"]), _describe_best(scores, best, result.baselines)
        ),
        notes=notes,
        sections=sections,
        content=content,
        table=Table(summary, ()),
    )


def rcc_chart(result: Evaluation) -> Chart:
    """Return a chart of the RCC of each set and each unlearned order, with intervals."""
    table = _rcc_intervals(result)
    rows = [
        svg.Row(name, rcc, "best" if name == result.best else "other", low, high)
        for name, rcc, low, high in (row.values() for row in records(table))
    ]
    begin = min(0.5, *table["rcc"].tolist(), *table["low"].tolist())
    lead = "Mean RCC on held-out mappings; bars contain 95 % of the splits."
    draw = partial(svg.draw_times, rows, 1.0, "", begin=begin)
    return Chart("sets", "Pairs in the right order", lead, draw)


def _rcc_intervals(result: Evaluation) -> pd.DataFrame:
    """Return the mean RCC of each set and baseline, best first, and the range of 95 % of splits."""
    scores = result.rcc.rename_axis("name").reset_index(name="rcc")
    if result.added is None:
        scores = pd.concat([result.scores, result.baselines]).rename(columns={"predictor": "name"})
    by_name = scores.groupby("name")["rcc"]
    low, high = (by_name.quantile(share) for share in (0.025, 0.975))
    table = pd.DataFrame({"rcc": by_name.mean(), "low": low, "high": high})
    return table.sort_values("rcc", ascending=False, kind="stable").reset_index()


def _describe_best(
    scores: pd.DataFrame, best: pd.Series[Any], baselines: pd.DataFrame | None
) -> str:
    """Return the RCC of the best set, indistinguishable sets, and baselines that are better."""
    name, others = best["features"], rcc_gains(scores, best["features"])
    equal = others.index[~(others["high"] < 0) & (others.index != name)]
    text = f" orders held-out mappings {_rank_word(len(others), len(equal))} RCC {best['mean']:.3f}"
    if len(equal):
        text += f", indistinguishable from {joined(equal)}"
    if baselines is None or baselines.empty:
        return text
    gain = rcc_gains(pd.concat([scores, baselines]), name)
    mean = baselines.groupby("predictor")["rcc"].mean()
    better = mean.index[gain.loc[mean.index, "low"] > 0]
    # A set that learns must beat orders that need no samples.
    equal = mean.index[mean >= best["mean"]].difference(better)
    for names, word in ((better, "better"), (equal, "as well")):
        if len(names):
            listed = joined([f"{each} ({mean[each]:.3f})" for each in names])
            verb = "orders" if len(names) == 1 else "order"
            text += f"; without learning, {listed} {verb} them {word}"
    return text


def _rank_word(n: int, n_equal: int) -> str:
    return "best:" if n > 1 and not n_equal else "with"


def _set_table(summary: pd.DataFrame, gain: pd.DataFrame) -> Table:
    wide = summary.pivot(index="features", columns="metric", values=["mean", "low", "high"])
    wide.columns = wide.columns.map("{0[1]}_{0[0]}".format)
    wide = wide.loc[summary["features"].unique()].join(gain.set_index("features"))
    # Do not print the gain of the first set over itself.
    wide.loc[gain["features"][0], ["gain", "low", "high"]] = float("nan")
    columns = [_FEATURES]
    for metric in ("rcc", "tau_b", "r2", "regret_1"):
        kind: Kind = "share" if metric == "regret_1" else "decimal"
        digits = 1 if metric == "regret_1" else 3
        interval = Column(f"{metric}_low", kind=kind, digits=digits, to=f"{metric}_high")
        name = METRICS[metric][0]
        columns.append(Column(f"{metric}_mean", name, kind, digits, below=interval))
    if len(gain) > 1:
        # The gain is the main result, so keep it on a narrow terminal.
        interval = Column("low", kind="signed", to="high")
        columns.insert(2, Column("gain", "gain in RCC", "signed", priority=0, below=interval))
    return Table(wide, columns)


def _small_to_large_section(scores: pd.DataFrame) -> Section:
    first = scores.iloc[0]
    return Section(
        f"Small to large: {first['n_train']} samples for training, the {first['n_test']} of "
        f"{first['held_out']} for testing",
        [_predictor_table(scores)],
    )


def _mean_scores(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the mean scores over workloads and tori for each value of a column."""
    return scores.groupby(column, sort=False)[[each.name for each in _HELD_OUT]].mean()


def _predictor_table(scores: pd.DataFrame) -> Table:
    return Table(_mean_scores(scores, "predictor").rename_axis("features"), [_FEATURES, *_HELD_OUT])


def _hold_out_answer(result: Evaluation, by: HoldOut) -> Answer:
    scores, order, best = result.scores, result.rcc, result.best
    rcc = scores.groupby("predictor", sort=False)["rcc"].mean()
    bounds = [name for name in order.index if name in BOUNDS.values()]
    first_name, *others = [name for name in order.index if name in (best, *bounds)]
    comparison = "".join(f" ({name} {rcc[name]:.3f})" for name in others)
    scores_text = f"RCC {rcc[first_name]:.3f}{comparison}"
    means = {name: _mean_scores(own, "held_out") for name, own in scores.groupby("predictor")}
    by_group = means[best].assign(**{name: means[name]["rcc"] for name in bounds})
    columns = [
        Column("held_out", "largest" if by == "size" else by, "name"),
        _HELD_OUT[0],
        *(Column(name, f"RCC of {name}", "decimal") for name in bounds),
        *_HELD_OUT[1:],
    ]
    gain = rcc_gains(scores, first_name, ["held_out", "workload", "torus"])
    word = _rank_word(len(gain), int((~(gain["high"] < 0)).sum()) - 1)
    own = scores[scores["predictor"] == best]
    note = (
        f"Each {by} is held out once; the other samples are for training"
        if by != "size"
        else f"The largest is held out; {own['n_train'].iloc[0]} other samples are for training"
    )
    return Answer(
        title=f"Feature sets on held-out {PLURALS[by]}",
        badge=sample_badge(result.samples),
        headline=Headline("", first_name, f" orders held-out {PLURALS[by]} {word} {scores_text}"),
        notes=[
            f"{note}. Mean over workloads and tori ({len(own)}). RCC: share of pairs in the right "
            "order; also of the pairs whose times differ by more than 1 % and 5 %. Bounds are not "
            "trained."
        ],
        sections=[
            Section("", [_predictor_table(scores)]),
            Section("Feature sets", [rcc_chart(result)], only="page"),
            Section(f"{best} on each held-out {by}", [Table(by_group, columns)]),
        ],
        content={
            "held_out_by": by,
            "feature_sets": {name: list(names) for name, names in result.sets.items()},
            "hold_out": scores.to_dict("records"),
            "rcc": records(_rcc_intervals(result)),
        },
        table=Table(scores, ()),
    )


def _single_table(single: pd.DataFrame, metrics: Sequence[str]) -> Table:
    """Return the scores of the best single features and of the user's metrics."""
    chosen = (single.index < _N_SINGLE) | single["feature"].isin(metrics)
    scores = Column("rcc", "RCC", "decimal"), Column("tau_b", "tau-b", "decimal")
    return Table(single[chosen], [Column("feature", kind="name"), *scores])


def _metric_answer(result: Evaluation, metric: MetricEvaluation) -> Answer:
    name = " and ".join(metric.metrics)
    gains = metric.gains.reset_index().to_dict("records")
    bases = list(metric.gains.index)
    notes = []
    descriptions = {
        base: metric.describe_gain(base) + ", the best set without it" * (base == metric.best)
        for base in bases
    }
    for base, row in zip(bases, gains, strict=True):
        if base != bases[0]:
            notes.append(f"{name} {descriptions[base]}.")
        if row["blocks"] > 1:
            notes.append(
                f"The mean RCC of {base} with it is {row['rcc']:.3f}; {row['higher']} of "
                f"{row['blocks']} workloads gain."
            )
    interval = "of the mean over all" if gains[0]["blocks"] > 1 else "over the splits"
    notes.append(
        "Within each workload and torus, two thirds of the mappings are for training and one third "
        f"for testing, {metric.n_splits} times. [ , ] is the 95 % interval {interval}. RCC: share "
        "of pairs in the right order; alone: order by the metric itself, without learning."
    )
    return Answer(
        title=f"Gain from {name}",
        badge=sample_badge(result.samples),
        headline=Headline("", name, f" {descriptions[bases[0]]}."),
        notes=notes,
        sections=[
            Section("", [_gain_table(metric, bases)]),
            Section("Feature sets", [rcc_chart(result)], only="page"),
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
