"""The answer of `evaluate`: how well feature sets forecast mappings that they have not seen."""

from __future__ import annotations

from collections.abc import Sequence
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
from .learned import METRICS, learned_content, learned_lines, observed_chart
from .table import Column, Kind, Table

SINGLE = 10
_HELD_OUT = (
    Column("rcc", "RCC", "decimal", priority=0),
    Column("rcc_1", "over 1 %", "decimal"),
    Column("rcc_5", "over 5 %", "decimal"),
    Column("regret_1", "regret@1", "share", 1),
    Column("error", "median error", "share", 1),
    Column("coverage", "90 % intervals hold", "share", 1),
)
_FEATURES = Column("features", kind="name")


def answer(found: Evaluation) -> Answer:
    """Return how good feature sets are on held-out samples, and each feature alone."""
    if found.added is not None:
        return _of_metrics(found, found.added)
    if found.hold_out is not None:
        return _of_held_out(found, found.hold_out)
    table, sets, scores, mine = found.samples, found.sets, found.scores, found.metrics
    learned, large, baselines = found.learned, found.small_to_large, found.baselines
    gain, single = rcc_gains(scores).reset_index(), single_features(table).reset_index()
    summary = summarise(scores).rename(columns={"predictor": "features"})
    splits = int(scores["split"].max()) + 1
    n_train, n_test = int(scores["n_train"].iloc[0]), int(scores["n_test"].iloc[0])
    rcc = summary[summary["metric"] == "rcc"].sort_values("mean", ascending=False, kind="stable")
    best = rcc.iloc[0]
    few = f"no interval from fewer than {INTERVAL_SPLITS} splits"
    notes = [
        f"{len(table)} samples; {n_train} train and {n_test} are forecast, on "
        f"{counted(splits, 'split')}. "
        f"Mean ({few if splits < INTERVAL_SPLITS else '95 % of splits'}).",
        *(learned_lines(learned) if learned else ()),
    ]
    if len(gain) > 1:
        what = "; ".join(": ".join(METRICS[metric]) for metric in ("rcc", "regret_1"))
        notes.append(
            f"Gain over {gain['features'][0]} on the same splits, with the 95 % interval of its "
            f"mean: a set helps where the interval lies above 0. {what}."
        )
    charts = [
        rcc_chart(found),
        *([observed_chart(learned)] if learned else ()),
    ]
    compared, alone = _sets(summary, gain), _single(single, mine)
    sections = [
        Section("", [compared], only="terminal"),
        Section("Feature sets", [*charts, compared], only="page"),
        *([] if large is None else [_large(large)]),
        Section("Single features as the forecast, without learning", [alone]),
    ]
    content: dict[str, Any] = {
        "n_samples": len(table),
        "n_train": n_train,
        "n_test": n_test,
        "splits": splits,
        "feature_sets": {name: list(names) for name, names in sets.items()},
        "quality": summary.to_dict("records"),
        "gain": gain.to_dict("records"),
        "single_features": single.to_dict("records"),
    }
    if large is not None:
        content["small_to_large"] = large.to_dict("records")
    if learned is not None:
        content["learned"] = learned_content(learned)
    return Answer(
        title="Feature sets on held-out mappings",
        headline=Headline("", str(best["features"]), _order(scores, best, baselines)),
        notes=notes,
        sections=sections,
        content=content,
        table=Table(summary, ()),
    )


def rcc_chart(found: Evaluation) -> Chart:
    """Return the mean RCC of each set."""
    names, values = found.rcc.index.tolist(), found.rcc.tolist()
    return Chart(
        "sets",
        "Pairs in the right order",
        "Mean RCC on held-out mappings. Bars begin at 0.5, which is chance.",
        lambda: svg.bars(names, [("RCC", "best", values)], 1.0, "", begin=min(0.5, *values)),
    )


def _order(scores: pd.DataFrame, best: pd.Series[Any], baselines: pd.DataFrame | None) -> str:
    """Return how well the best set orders mappings, and what is not worse, or better."""
    name, others = best["features"], rcc_gains(scores, best["features"])
    alike = others.index[~(others["high"] < 0) & (others.index != name)]
    text = f" orders held-out mappings {_rank(len(others), len(alike))} RCC {best['mean']:.3f}"
    if len(alike):
        text += f", not told apart from {joined(alike)}"
    if baselines is None or baselines.empty:
        return text
    gain = rcc_gains(pd.concat([scores, baselines]), name)
    mean = baselines.groupby("predictor")["rcc"].mean()
    better = [f"{each} ({mean[each]:.3f})" for each in mean.index if gain["low"][each] > 0]
    if better:
        text += f"; without learning, {joined(better)} {'orders' if len(better) == 1 else 'order'}"
        text += " them better"
    return text


def _rank(n: int, n_alike: int) -> str:
    """Return the word for the best of several, if no other may be as good."""
    return "best:" if n > 1 and not n_alike else "with"


def _sets(summary: pd.DataFrame, gain: pd.DataFrame) -> Table:
    """Return a row for each feature set."""
    wide = summary.pivot(index="features", columns="metric", values=["mean", "low", "high"])
    wide.columns = wide.columns.map("{0[1]}_{0[0]}".format)
    wide = wide.loc[summary["features"].unique()].join(gain.set_index("features"))
    # The first set has no gain over itself.
    wide.loc[gain["features"][0], ["gain", "low", "high"]] = float("nan")
    columns = [_FEATURES]
    for metric in ("rcc", "tau_b", "r2", "regret_1"):
        kind: Kind = "share" if metric == "regret_1" else "decimal"
        digits = 1 if metric == "regret_1" else 3
        between = Column(f"{metric}_low", kind=kind, digits=digits, to=f"{metric}_high")
        name = METRICS[metric][0]
        columns.append(Column(f"{metric}_mean", name, kind, digits, below=between))
    if len(gain) > 1:
        # The gain is what was asked: it stays on a narrow terminal.
        margin = Column("low", kind="signed", to="high")
        columns.insert(2, Column("gain", "gain in RCC", "signed", priority=0, below=margin))
    return Table(wide, columns)


def _large(large: pd.DataFrame) -> Section:
    """Return how well each learner forecasts the largest size from the smaller ones."""
    first = large.iloc[0]
    return Section(
        f"Small to large: {first['n_train']} samples train, the {first['n_test']} of "
        f"{first['held_out']} are forecast",
        [_by_predictor(large)],
    )


def _means(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the mean scores over workloads and tori, a row for each value of the column."""
    return scores.groupby(column, sort=False)[[each.name for each in _HELD_OUT]].mean()


def _by_predictor(scores: pd.DataFrame) -> Table:
    return Table(_means(scores, "predictor").rename_axis("features"), [_FEATURES, *_HELD_OUT])


def _of_held_out(found: Evaluation, by: HoldOut) -> Answer:
    """Return how good feature sets are on what they did not learn from."""
    scores, order, best = found.scores, found.rcc, found.best
    rcc = scores.groupby("predictor", sort=False)["rcc"].mean()
    bounds = [name for name in order.index if name in BOUNDS.values()]
    compared = [name for name in order.index if name in (best, *bounds)]
    beside = "".join(f" ({name} {rcc[name]:.3f})" for name in compared[1:])
    means = {name: _means(own, "held_out") for name, own in scores.groupby("predictor")}
    by_group = means[best].assign(**{name: means[name]["rcc"] for name in bounds})
    first, *others = _HELD_OUT
    columns = [
        Column("held_out", "largest" if by == "size" else by, "name"),
        first,
        *(Column(name, f"RCC of {name}", "decimal") for name in bounds),
        *others,
    ]
    gain = rcc_gains(scores, compared[0], ["held_out", "workload", "torus"])
    word = _rank(len(gain), int((~(gain["high"] < 0)).sum()) - 1)
    own = scores[scores["predictor"] == best]
    note = (
        f"Each {by} is held out once, the samples of the others train"
        if by != "size"
        else f"The largest is held out, {own['n_train'].iloc[0]} samples of the others train"
    )
    return Answer(
        title=f"Feature sets on held-out {PLURALS[by]}",
        headline=Headline(
            "",
            compared[0],
            f" orders held-out {PLURALS[by]} {word} RCC {rcc[compared[0]]:.3f}{beside}",
        ),
        notes=[
            f"{note}. Mean over workloads and tori ({len(own)}). RCC: share of pairs in the right "
            "order, also of those whose times are more than 1 and 5 % apart. A bound "
            "orders without learning."
        ],
        sections=[
            Section("", [_by_predictor(scores)]),
            Section(f"{best} on each held-out {by}", [Table(by_group, columns)]),
        ],
        content={
            "held_out_by": by,
            "feature_sets": {name: list(names) for name, names in found.sets.items()},
            "hold_out": scores.to_dict("records"),
        },
        table=Table(scores, ()),
    )


def _single(single: pd.DataFrame, mine: Sequence[str]) -> Table:
    """Return what single features rank without learning."""
    chosen = (single.index < SINGLE) | single["feature"].isin(mine)
    scores = Column("rcc", "RCC", "decimal"), Column("tau_b", "tau-b", "decimal")
    return Table(single[chosen], [Column("feature", kind="name"), *scores])


def _of_metrics(evaluation: Evaluation, found: MetricEvaluation) -> Answer:
    """Return what metrics of the user's own add to the set ``prior`` and to the best set."""
    name = " and ".join(found.metrics)
    gains = found.gains.reset_index().to_dict("records")
    bases = list(found.gains.index)
    notes = []
    said = {
        base: found.describe_gain(base)
        + ", the set that forecasts best by itself" * (base == found.best)
        for base in bases
    }
    for base, row in zip(bases, gains, strict=True):
        if base != bases[0]:
            notes.append(f"{name} {said[base]}.")
        if row["blocks"] > 1:
            notes.append(
                f"Its RCC beside {base} is {row['rcc']:.3f} on average; {row['higher']} of "
                f"{row['blocks']} workloads gain."
            )
    many = "of the mean over all" if gains[0]["blocks"] > 1 else "over the splits"
    notes.append(
        f"Within each workload and torus two thirds of the mappings train and one third is "
        f"forecast, {found.n_splits} times. [ , ] is the 95 % interval {many}. RCC: share of "
        "pairs in the right order; alone: the metric as it is, without learning."
    )
    return Answer(
        title=f"What {name} adds",
        headline=Headline("", name, f" {said[bases[0]]}."),
        notes=notes,
        sections=[Section("", [_blocks(found, bases)])],
        content={
            "metrics": list(evaluation.metrics),
            "best_set": found.best,
            "splits": found.n_splits,
            "answers": {base: found.describe_gain(base) for base in bases},
            "gains": gains,
            "blocks": found.blocks.to_dict("records"),
        },
        table=Table(found.blocks, ()),
    )


def _blocks(found: MetricEvaluation, bases: Sequence[str]) -> Table:
    """Return a row for each workload and torus."""
    keys = ["workload", "torus", "n_samples", "alone"]
    wide = found.blocks.pivot(index=keys, columns="base", values=["rcc", "gain"])
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
