"""The answers of `search` and `search.explain`: a better mapping, and why one takes its time."""

from __future__ import annotations

import numpy as np

from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.search.contest import TIME
from toruscast.search.explain import Explanation
from toruscast.search.search import Found
from toruscast.simulation import simulate
from toruscast.text import (
    counted,
    nbytes,
    number,
    percent,
    probability,
    seconds,
    shown_name,
    time_unit,
)

from . import svg
from .blocks import Answer, Chart, Headline, Mark, Section, TableBlock, all_candidates
from .links import Candidate
from .rank import DEFAULT_ORDER, less, versus
from .traffic import BINDING, View, node_label, setting_of

# A mapping so near to the bound that there is nothing left to gain.
_AT_BOUND = 1e-3
# Error of the times that a page of an objective other than time needs.
_ROUGH = 0.03


def answer(found: Found, *, yours: bool = False, setting: str = "", top: int = 10) -> Answer:
    """Return what a search found; ``yours`` says whether mappings were given."""
    against = "your best mapping" if yours else DEFAULT_ORDER
    badge, notes = _how_sure(found)
    view, table = _view(found, against), _compared(found, top, yours)
    sections = [
        Section("", [table], only="terminal"),
        Section("Before and after", [_before_and_after(view, found)], wide=False, only="page"),
        *view.why(),
        *view.where(),
        Section("The search", [progress_chart(found)], wide=False, only="page"),
        all_candidates("All that was compared", table, "All that was compared, the best first"),
        view.traffic(),
    ]
    if found.objective != TIME:
        del sections[1]
    return Answer(
        setting=setting or setting_of(found.workload, found.torus),
        title=f"Search: {setting_of(found.workload, found.torus)}",
        headline=_headline(found, against),
        badge=badge,
        notes=notes,
        sections=sections,
        content=_content(found),
        rows=found.table,
        file=view.launcher_file(),
        facts=view.facts(),
    )


def _shown(found: Found, value: float) -> str:
    return seconds(value) if found.objective == TIME else number(value, 6)


def _headline(found: Found, against: str) -> Headline:
    """Return what was found, and how much better it is."""
    best = shown_name(found.mapping.name or "the best")
    value, given = _shown(found, found.value), _shown(found, found.given)
    what = value if found.objective == TIME else f"{found.objective} {value}"
    if not np.isfinite(found.given):
        missing = f"; {against} needs a link that is missing"
        return Headline("Best found: ", best, f", {what}{missing}")
    if found.gain <= 0 or np.array_equal(found.mapping.node, found.reference.node):
        return Headline(f"Keep {against}, ", best, f": {what}; nothing better was found")
    low, high = found.gain_interval
    between = f" ({percent(low, 1)} to {percent(high, 1)})" if high - low > 2e-3 else ""
    gain = less(found.value, found.given, against)
    return Headline("Best found: ", best, f", {what}, {gain}{between} ({given})")


def _how_sure(found: Found) -> tuple[str, list[str]]:
    """Return how sure the answer is, in a word or three and in sentences."""
    notes, badge = [], ""
    if found.bound > 0:
        left = f"at most {percent(1 - found.bound / found.value)} more could be gained"
        if found.above_bound < _AT_BOUND:
            left, badge = "the best is there, so nothing is left to gain", "proved"
        notes.append(f"No mapping can be below {_shown(found, found.bound)}: {left}.")
    if found.verdict is not None and found.verdict.kind != "proved" and not badge:
        sure = probability(found.verdict.certainty)
        badge = f"{sure} sure" if found.verdict.kind == "sure" else f"open: {sure} sure"
        notes.append(
            f"With a probability of {sure} no other on the shortlist takes less by more than 1 %."
        )
    tried = (
        f"{found.proposals:,} {'change' if found.proposals == 1 else 'changes'} of mappings tried"
    )
    notes.append(f"{tried}, {counted(len(found.table), 'mapping')} compared.")
    if found.interrupted:
        notes.append("Interrupted: this is the best so far.")
    elif not found.proposals and (not found.bound or found.above_bound > _AT_BOUND):
        notes.append("Annealing had no time to start: give more --seconds.")
    return badge, notes


def _view(found: Found, against: str) -> View:
    """Return the traffic under the best, and what its gain counts from."""

    def time(value: float, mapping: TaskMapping) -> float:
        if found.objective == TIME:
            return value
        result = simulate(found.workload, found.torus, mapping, routing=found.routing, error=_ROUGH)
        return float(result.time)

    best = found.mapping
    several = [Candidate(best.name or "the best", best, time(found.value, best))]
    if not np.array_equal(best.node, found.reference.node):
        name = found.reference.name or against
        several.append(Candidate(name, found.reference, time(found.given, found.reference)))
    return View(MappingProblem(found.workload, found.torus, found.routing), several)


def _before_and_after(view: View, found: Found) -> Chart:
    scale, unit = time_unit([found.value])
    rows = [
        svg.Row(one.name, one.time, kind, note=versus(one.time, found.given))
        for one, kind in zip(view.compared, ("best", "yours"), strict=False)
    ]
    every = found.table["value"][np.isfinite(found.table["value"])].tolist()
    marked = [(row.time, row.kind) for row in rows]
    return Chart(
        "candidate-times",
        "",
        f"Time, {unit}; below, all that was compared.",
        lambda: svg.times(rows, scale, unit, found.bound, every, marked=marked),
    )


def progress_chart(found: Found) -> Chart:
    """Return the best objective over the seconds of the search."""
    is_time = found.objective == TIME
    values = np.array([value for _, value in found.history])
    scale, unit = time_unit(values) if is_time else (1.0, "")
    # Between two finds the best stays what it is.
    at = np.repeat([when for when, _ in found.history], 2)[1:]
    best = np.repeat(values / scale, 2)[:-1]
    label = f"{found.objective}{f', {unit}' if unit else ''}"
    series = [svg.Series("best so far", "best", at, best)]
    if found.bound > 0 and len(at):
        ends = [0.0, float(at[-1])]
        series.append(svg.Series("no mapping is below", "other", ends, [found.bound / scale] * 2))
    return Chart(
        "progress",
        "",
        f"Best {found.objective} over the seconds of the search.",
        lambda: svg.plot(series, "seconds", label, lines=True, from_zero=False),
    )


def _compared(found: Found, top: int, yours: bool) -> TableBlock:
    is_time = found.objective == TIME
    rows = found.table[np.isfinite(found.table["value"])].to_dict("records")
    scale, unit = time_unit(found.table["value"]) if is_time else (1.0, "")
    marks: list[Mark] = ["best" if i == 0 else "" for i in range(len(rows))]
    names = [row["mapping"] for row in rows]
    if found.reference.name in names[1:]:
        marks[names.index(found.reference.name)] = "yours"
    value = f"time\n{unit}" if is_time else found.objective
    against = f"vs\n{'yours' if yours else 'default'}"
    cells: list[dict[str, object]] = [
        {
            "#": i + 1,
            "mapping": shown_name(row["mapping"]),
            value: number(row["value"] / scale, 3 if is_time else 6),
            against: versus(row["value"], found.given),
            "source": row["how"],
            "from": row["from"],
        }
        for i, row in enumerate(rows)
    ]
    return TableBlock(cells, marks=marks, keep=5, top=top)


def _content(found: Found) -> dict[str, object]:
    """Return all of it for programs."""
    verdict = found.verdict and {
        "kind": found.verdict.kind,
        "certainty": found.verdict.certainty,
    }
    return {
        "objective": found.objective,
        "best": found.mapping.name,
        "node": found.mapping.node.tolist(),
        "value": found.value,
        "given": found.given,
        "gain": found.gain,
        "gain_interval": list(found.gain_interval),
        "bound": found.bound,
        "verdict": verdict,
        "proposals": found.proposals,
        "interrupted": found.interrupted,
        "history": [{"seconds": at, "value": value} for at, value in found.history],
        "compared": found.table.to_dict("records"),
    }


def explanation(why: Explanation, *, setting: str = "", top: int = 5) -> Answer:
    """Return why a mapping takes its time, compared with another."""
    torus = why.torus
    name, other = shown_name(why.mapping.name), shown_name(why.against.name)
    head = Headline(
        "",
        name,
        f" takes {seconds(why.time)}, {less(why.time, why.against_time, other)} "
        f"({seconds(why.against_time)})",
    )
    view, reasons = _explained(why), why.reasons
    least = reasons.bounds[reasons.binding]
    notes = [f"Why: {BINDING[reasons.binding]} needs {seconds(least)} of its {seconds(why.time)}."]
    if len(why.links):
        hot = why.links.iloc[0]
        notes.append(
            f"Hottest link {hot['label']}: {nbytes(hot['nbytes'])}, {hot['over_mean']:.1f} times "
            f"the mean; {nbytes(hot['against'])} under {other}."
        )
    notes.append(_advice(why))
    where, spread, *_ = view.where()
    sections = [
        Section("", [_by_dimension(view)], wide=False),
        *view.why(),
        where,
        Section("Who puts the load there", [_pairs(why, top, other)], wide=False),
        spread,
        Section("Hottest links", [_hot_links(why, other)], folded=True),
        Section("What the model weighs", [_weights(why, other)], folded=True),
    ]
    return Answer(
        setting=setting or setting_of(why.workload, torus),
        title=f"Explanation of {name}: {setting_of(why.workload, torus)}",
        headline=head,
        notes=notes,
        sections=sections,
        content={
            "mapping": why.mapping.name,
            "against": why.against.name,
            "time": why.time,
            "against_time": why.against_time,
            "bounds": reasons.bounds,
            "binding": reasons.binding,
            "links": why.links.reset_index().to_dict("records"),
            "pairs": why.pairs.to_dict("records"),
            "weights": why.weights.to_dict("records"),
            "exchanges": why.exchanges.to_dict("records"),
        },
        rows=why.pairs,
        facts=view.facts(),
    )


def limits_chart(why: Explanation) -> Chart:
    """Return what each part of the network needs at least under both."""
    return _explained(why).limits()


def _explained(why: Explanation) -> View:
    """Return the traffic under both mappings."""
    pair = ((why.mapping, why.time), (why.against, why.against_time))
    several = [Candidate(shown_name(each.name), each, time) for each, time in pair]
    return View(MappingProblem(why.workload, why.torus, why.routing), several, moved=False)


def _advice(why: Explanation) -> str:
    """Return the exchange of nodes that helps most."""
    if why.exchanges.empty:
        return "No exchange of two blocks of nodes lowers the loads."
    best = why.exchanges.iloc[0]
    if best["gain"] <= 0:
        return "Exchanges of two blocks of nodes lower the loads, but not the time."
    blocks = [
        " ".join(node_label(why.torus, node) for node in best[key]) for key in ("block", "other")
    ]
    return (
        f"Try: exchange nodes {blocks[0]} with {blocks[1]}: {seconds(best['time'])}, "
        f"{percent(best['gain'])} less (simulated)."
    )


def _by_dimension(view: View) -> TableBlock:
    """Return the busiest link of each dimension and direction under both."""
    torus = view.torus
    busiest = {
        shown_name(use.name): use.seconds.reshape(torus.n_nodes, 2 * torus.ndim).max(axis=0)
        for use in view.uses
    }
    scale, unit = time_unit([float(each.max(initial=0.0)) for each in busiest.values()])
    return TableBlock(
        [
            {"dimension": torus.axes[k]}
            | {
                name: " / ".join(number(each[2 * k + way] / scale) for way in (0, 1))
                for name, each in busiest.items()
            }
            for k in range(torus.ndim)
        ],
        f"Busiest link of each dimension, + / -, {unit}",
    )


def _hot_links(why: Explanation, other: str) -> TableBlock:
    return TableBlock(
        [
            {
                "link": (row["label"],),
                "bytes": nbytes(row["nbytes"]),
                "times\nthe mean": f"{row['over_mean']:.1f}",
                f"bytes under\n{other}": nbytes(row["against"]),
            }
            for row in why.links.to_dict("records")
        ],
        keep=2,
    )


def _pairs(why: Explanation, top: int, other: str) -> TableBlock:
    rows = why.pairs.groupby("link", sort=False).head(max(1, top // 2)).to_dict("records")
    several = len(why.workload) > 1
    return TableBlock(
        [
            {
                "link": (why.torus.link_label(row["link"]),),
                "tasks": f"{row['src']} to {row['dst']}",
                "bytes": nbytes(row["nbytes"]),
                "of the\nlink": percent(row["share"]),
                "hops": row["hops"],
                f"hops under\n{other}": row["against"],
                **({"phase": row["phase"]} if several else {}),
            }
            for row in rows
        ]
    )


def _weights(why: Explanation, other: str) -> TableBlock:
    return TableBlock(
        [
            {
                "feature": row["feature"],
                "value": number(row["value"], 4),
                f"in {other}": number(row["against"], 4),
                "change": f"{100 * row['effect']:+.1f} %",
            }
            for row in why.weights.to_dict("records")
        ],
        f"Change of the forecast if one feature alone were that of {other}",
        keep=2,
    )
