"""The answer of `evaluate`: how well feature sets forecast mappings that they have not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from toruscast.decision import Measured
from toruscast.training import single_features, summarise
from toruscast.training.evaluation import (
    BOUNDS,
    INTERVAL_SPLITS,
    SEVERAL,
    HoldOut,
    MetricEvaluation,
    gains,
)

from . import svg
from .blocks import Answer, Chart, Headline, Section, TableBlock
from .learned import METRICS, between, learned_content, learned_lines, observed_chart, score

SINGLE = 10
_HELD_OUT = {
    "rcc": "RCC",
    "rcc_1": "over 1 %",
    "rcc_5": "over 5 %",
    "regret_1": "regret@1",
    "error": "median error",
    "coverage": "90 % intervals hold",
}
_SHOWN = ("rcc", "tau_b", "r2", "regret_1")


def answer(
    table: pd.DataFrame,
    sets: Mapping[str, Sequence[str]],
    scores: pd.DataFrame,
    *,
    mine: Sequence[str] = (),
    found: Measured | None = None,
    large: pd.DataFrame | None = None,
) -> Answer:
    """Return how good feature sets are on held-out samples, and each feature alone.

    ``scores`` are of `repeated_splits`, ``large`` of `hold_out` by size.
    """
    gain, single = gains(scores).reset_index(), single_features(table).reset_index()
    summary = summarise(scores).rename(columns={"predictor": "features"})
    splits = int(scores["split"].max()) + 1
    n_train, n_test = int(scores["n_train"].iloc[0]), int(scores["n_test"].iloc[0])
    rcc = summary[summary["metric"] == "rcc"].sort_values("mean", ascending=False, kind="stable")
    best = rcc.iloc[0]
    few = f"no interval from fewer than {INTERVAL_SPLITS} splits"
    notes = [
        f"{len(table)} samples; {n_train} train and {n_test} are forecast, on {splits} splits. "
        f"Mean ({few if splits < INTERVAL_SPLITS else '95 % of splits'}).",
        *(learned_lines(found) if found else ()),
    ]
    if len(gain) > 1:
        what = "; ".join(": ".join(METRICS[metric]) for metric in ("rcc", "regret_1"))
        notes.append(
            f"Gain over {gain['features'][0]} on the same splits, with the 95 % interval of its "
            f"mean: a set helps where the interval lies above 0. {what}."
        )
    names, values = rcc["features"].tolist(), rcc["mean"].tolist()
    charts = [
        Chart(
            "sets",
            "Pairs in the right order",
            "Mean RCC on held-out mappings. Bars begin at 0.5, which is chance.",
            lambda: svg.bars(names, [("RCC", "best", values)], 1.0, "", begin=min(0.5, *values)),
        ),
        *([observed_chart(found)] if found else ()),
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
    if found is not None:
        content["learned"] = learned_content(found)
    return Answer(
        title="Feature sets on held-out mappings",
        headline=Headline(
            "", str(best["features"]), f" orders held-out mappings best: RCC {best['mean']:.3f}"
        ),
        notes=notes,
        sections=sections,
        content=content,
        rows=summary,
    )


def _sets(summary: pd.DataFrame, gain: pd.DataFrame) -> TableBlock:
    """Return a row for each feature set."""
    better = {row["features"]: row for row in gain.to_dict("records")}
    rows = []
    for name, group in summary.groupby("features", sort=False):
        scores = {row["metric"]: row for row in group.to_dict("records")}
        cells: dict[str, object] = {
            METRICS[metric][0]: (
                score(metric, scores[metric]["mean"]),
                f"({between(metric, scores[metric]['low'], scores[metric]['high'])})",
            )
            for metric in _SHOWN
        }
        row: dict[str, object] = {"features": str(name)}
        if len(gain) > 1:
            more = better[str(name)]
            ends = f"({more['low']:+.3f} to {more['high']:+.3f})"
            # The gain is what was asked: it stays on a narrow terminal.
            row["RCC"] = cells["RCC"]
            row["gain in RCC"] = (
                "baseline"
                if more is better[gain["features"][0]]
                else (f"{more['gain']:+.3f}", ends)
            )
        rows.append(row | cells)
    return TableBlock(rows)


def _large(large: pd.DataFrame) -> Section:
    """Return how well each learner forecasts the largest size from the smaller ones."""
    first = large.iloc[0]
    return Section(
        f"Small to large: {first['n_train']} samples train, the {first['n_test']} of "
        f"{first['held_out']} are forecast",
        [_means(large, "predictor", "features")],
    )


def _means(scores: pd.DataFrame, column: str, head: str) -> TableBlock:
    """Return the mean scores over workloads and tori, a row for each value of the column."""
    means = scores.groupby(column, sort=False)[list(_HELD_OUT)].mean()
    return TableBlock(
        [
            {head: str(name)}
            | {
                title: score("rcc" if key.startswith("rcc") else "regret", row[key])
                for key, title in _HELD_OUT.items()
            }
            for name, row in means.iterrows()
        ]
    )


def of_held_out(scores: pd.DataFrame, by: HoldOut, sets: Mapping[str, Sequence[str]]) -> Answer:
    """Return how good feature sets are on what they did not learn from, as `hold_out` gives it."""
    order = scores.groupby("predictor", sort=False)["rcc"].mean().fillna(-1)
    order = order.sort_values(ascending=False, kind="stable")
    bounds = [name for name in order.index if name in BOUNDS.values()]
    best = next(name for name in order.index if name not in bounds)
    compared = [name for name in order.index if name in (best, *bounds)]
    rcc = [score("rcc", scores.loc[scores["predictor"] == name, "rcc"].mean()) for name in compared]
    beside = "".join(
        f" ({name} {value})" for name, value in zip(compared[1:], rcc[1:], strict=True)
    )
    group = "largest" if by == "size" else by
    tables = {name: _means(own, "held_out", group) for name, own in scores.groupby("predictor")}
    by_group = [
        {
            group: row[group],
            "RCC": row["RCC"],
            **{f"RCC of {name}": tables[name].rows[at]["RCC"] for name in bounds},
            **row,
        }
        for at, row in enumerate(tables[best].rows)
    ]
    own = scores[scores["predictor"] == best]
    note = (
        f"Each {by} is held out once, the samples of the others train"
        if by != "size"
        else f"The largest is held out, {own['n_train'].iloc[0]} samples of the others train"
    )
    return Answer(
        title=f"Feature sets on held-out {SEVERAL[by]}",
        headline=Headline(
            "", compared[0], f" orders held-out {SEVERAL[by]} best: RCC {rcc[0]}{beside}"
        ),
        notes=[
            f"{note}. Mean over workloads and tori ({len(own)}). RCC: share of pairs in the right "
            "order, also of those whose times are more than 1 and 5 % apart. A bound "
            "orders without learning."
        ],
        sections=[
            Section("", [_means(scores, "predictor", "features")]),
            Section(f"{best} on each held-out {by}", [TableBlock(by_group)]),
        ],
        content={
            "held_out_by": by,
            "feature_sets": {name: list(names) for name, names in sets.items()},
            "hold_out": scores.to_dict("records"),
        },
        rows=scores,
    )


def _single(single: pd.DataFrame, mine: Sequence[str]) -> TableBlock:
    """Return what single features rank without learning."""
    rows = {row["feature"]: row for row in single.to_dict("records")}
    own = [name for name in mine if name in rows]
    return TableBlock(
        [
            {
                "feature": name,
                "RCC": f"{rows[name]['rcc']:.3f}",
                "tau-b": score("tau_b", rows[name]["tau_b"]),
            }
            for name in dict.fromkeys([*list(rows)[:SINGLE], *own])
        ]
    )


def of_metrics(found: MetricEvaluation, mine: Sequence[str], n_splits: int) -> Answer:
    """Return what metrics of the user's own add to the set ``prior`` and to the best set."""
    name = " and ".join(found.metrics)
    gains = found.gains.reset_index().to_dict("records")
    bases = list(found.gains.index)
    notes = []
    said = {
        base: found.in_words(base)
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
        f"forecast, {n_splits} times. [ , ] is the 95 % interval {many}. RCC: share of pairs in "
        "the right order; alone: the metric as it is, without learning."
    )
    return Answer(
        title=f"What {name} adds",
        headline=Headline("", name, f" {said[bases[0]]}."),
        notes=notes,
        sections=[Section("", [_blocks(found, bases)])],
        content={
            "metrics": list(mine),
            "best_set": found.best,
            "splits": n_splits,
            "answers": {base: found.in_words(base) for base in bases},
            "gains": gains,
            "blocks": found.blocks.to_dict("records"),
        },
        rows=found.blocks,
    )


def _blocks(found: MetricEvaluation, bases: Sequence[str]) -> TableBlock:
    """Return a row for each workload and torus."""
    table = []
    for _, group in found.blocks.groupby(["workload", "torus"], sort=False):
        rows = {row["base"]: row for row in group.to_dict("records")}
        first = rows[bases[0]]
        cells: dict[str, object] = {
            "workload": first["workload"],
            "torus": first["torus"],
            "mappings": first["n_samples"],
            "alone": f"{first['alone']:.3f}",
        }
        for base in bases:
            cells[base] = f"{rows[base]['rcc']:.3f}"
            cells[f"gain over\n{base}"] = f"{rows[base]['gain']:+.3f}"
        table.append(cells)
    return TableBlock(table)
