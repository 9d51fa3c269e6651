"""The answers of `search` and `search.explain`: a better mapping, and why one takes its time."""

from __future__ import annotations

import numpy as np

from toruscast._search.explain import Explanation
from toruscast._search.search import TIME, SearchResult
from toruscast._slow import pandas as pd
from toruscast.decision.results import describe_proof_scope
from toruscast.mapping import TaskMapping
from toruscast.simulation.simulator import simulate_packets
from toruscast.text import (
    counted,
    nbytes,
    number,
    percent,
    seconds,
    shown_name,
    time_unit,
)

from . import svg
from .blocks import Answer, Chart, Headline, Section
from .candidates import (
    BINDING,
    DEFAULT_ORDER,
    CandidateRanking,
    View,
    badge,
    how_sure,
    less,
    node_label,
    setting_of,
)
from .links import Candidate
from .table import Column, Kind, Table, records

# A mapping so near to the bound that there is nothing left to gain.
_AT_BOUND = 1e-3
# Error of the times that a page of an objective other than time needs.
_ROUGH = 0.03


def answer(found: SearchResult, *, yours: bool = False, setting: str = "", top: int = 10) -> Answer:
    """Return what a search found; ``yours`` says whether mappings were given."""
    against = "your best mapping" if yours else DEFAULT_ORDER
    proof, notes = _how_sure(found)
    view = _view(found, against)
    sections = [
        Section(
            "Before and after", [_before_and_after(view, found, against)], wide=False, only="page"
        ),
        *view.why(),
        *view.where(),
        Section("The search", [progress_chart(found)], wide=False, only="page"),
        view.traffic(),
    ]
    if found.objective != TIME:
        del sections[0]
    return view.answer(
        _headline(found, against),
        setting=setting or setting_of(found.problem),
        title=f"Search: {setting_of(found.problem)}",
        badge=proof,
        notes=notes,
        sections=sections,
        content=_content(found),
        table=compared(found, top, yours),
        file=view.launcher_file(),
    )


def _shown(found: SearchResult, value: float) -> str:
    return seconds(value) if found.objective == TIME else number(value, 6)


def _headline(found: SearchResult, against: str) -> Headline:
    """Return what was found, and how much better it is."""
    best = shown_name(found.best.name or "the best")
    value, given = _shown(found, found.value), _shown(found, found.initial_value)
    what = value if found.objective == TIME else f"{found.objective} {value}"
    if not np.isfinite(found.initial_value):
        missing = f"; {against} needs a link that is missing"
        return Headline("Best found: ", best, f", {what}{missing}")
    if found.gain <= 0 or np.array_equal(found.best.node, found.reference.node):
        return Headline(f"Keep {against}, ", best, f": {what}; nothing better was found")
    # Times that were simulated to an error give the ends of the gain.
    low, high = found.gain_interval
    share = (1 - high, 1 - low) if high - low > 2e-3 else 1 - found.gain
    return Headline("Best found: ", best, f", {what}, {less(share, 1.0, against)} ({given})")


def _how_sure(found: SearchResult) -> tuple[str, list[str]]:
    """Return how sure the answer is, in a word or three and in sentences."""
    notes, proof, workload = [], "", found.problem.workload
    if found.bound > 0:
        left = f"at most {percent(1 - found.bound / found.value)} more could be gained"
        if found.optimality_gap < _AT_BOUND:
            scope = describe_proof_scope(workload)
            left, proof = f"the best is there, so nothing is left to gain{scope}", f"proved{scope}"
        notes.append(f"No mapping can be below {_shown(found, found.bound)}: {left}.")
    if found.verdict is not None and found.verdict.kind != "proved" and not proof:
        proof = badge(found.verdict, workload)
        notes.append(how_sure(found.verdict, "mapping on the shortlist"))
    tried = (
        f"{found.proposals:,} {'change' if found.proposals == 1 else 'changes'} of mappings tried"
    )
    notes.append(f"{tried}, {counted(len(found.table), 'mapping')} compared.")
    if found.interrupted:
        notes.append("Interrupted: this is the best so far.")
    elif not found.proposals and (not found.bound or found.optimality_gap > _AT_BOUND):
        notes.append("Annealing had no time to start: give more --seconds.")
    return proof, notes


def _view(found: SearchResult, against: str) -> View:
    """Return the traffic under the best, and what its gain counts from."""

    def time(value: float, mapping: TaskMapping) -> float:
        if found.objective == TIME:
            return value
        return float(simulate_packets(found.problem, mapping, error=_ROUGH).time)

    best = found.best
    several = [Candidate(best.name or "the best", best, time(found.value, best))]
    if not np.array_equal(best.node, found.reference.node):
        name = found.reference.name or against
        several.append(Candidate(name, found.reference, time(found.initial_value, found.reference)))
    return View(found.problem, several)


def _before_and_after(view: View, found: SearchResult, against: str) -> Chart:
    names, times = zip(*((one.name, one.time) for one in view.compared), strict=True)
    ranking = CandidateRanking(names, times, 1 if len(names) > 1 else 0, against=against)
    every = found.table["value"][np.isfinite(found.table["value"])].tolist()
    return ranking.chart(floor=found.bound, every=every)


def progress_chart(found: SearchResult) -> Chart:
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


def compared(found: SearchResult, top: int = 10, yours: bool = False) -> Table:
    """Return all that was compared, the best first."""
    is_time = found.objective == TIME
    kind: Kind = "seconds" if is_time else "number"
    columns = [
        Column("mapping", kind="name"),
        Column("value", found.objective, kind, digits=3 if is_time else 6, priority=0),
        Column(
            "value", f"vs {'yours' if yours else 'default'}", "change", against=found.initial_value
        ),
        Column("source", "source"),
        Column("from", priority=2),
    ]
    names = found.table["mapping"].tolist()
    at = names.index(found.reference.name) if found.reference.name in names[1:] else None
    return Table(
        found.table,
        columns,
        "All that was compared, the best first",
        best=0,
        yours=at,
        top=top,
        key="candidates",
    )


def _content(found: SearchResult) -> dict[str, object]:
    """Return all of it for programs."""
    verdict = found.verdict and {
        "kind": found.verdict.kind,
        "certainty": found.verdict.certainty,
    }
    return {
        "objective": found.objective,
        "best": found.best.name,
        "node": found.best.node.tolist(),
        "value": found.value,
        "given": found.initial_value,
        "gain": found.gain,
        "gain_interval": list(found.gain_interval),
        "bound": found.bound,
        "verdict": verdict,
        "proposals": found.proposals,
        "interrupted": found.interrupted,
        "history": [{"seconds": at, "value": value} for at, value in found.history],
        "compared": records(found.table),
    }


def explanation(why: Explanation, *, setting: str = "", top: int = 5) -> Answer:
    """Return why a mapping takes its time, compared with another."""
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
    if len(why.table):
        hot = why.table.iloc[0]
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
    return view.answer(
        head,
        setting=setting or setting_of(why.problem),
        title=f"Explanation of {name}: {setting_of(why.problem)}",
        notes=notes,
        sections=sections,
        content={
            "mapping": why.mapping.name,
            "against": why.against.name,
            "time": why.time,
            "against_time": why.against_time,
            "bounds": reasons.bounds,
            "binding": reasons.binding,
            "links": records(why.table),
            "pairs": records(why.pairs),
            "weights": records(why.weights),
            "exchanges": records(why.exchanges),
        },
        table=Table(why.pairs, ()),
    )


def limits_chart(why: Explanation) -> Chart:
    """Return what each part of the network needs at least under both."""
    return _explained(why).limits()


def _explained(why: Explanation) -> View:
    """Return the traffic under both mappings."""
    pair = ((why.mapping, why.time), (why.against, why.against_time))
    several = [Candidate(shown_name(each.name), each, time) for each, time in pair]
    return View(why.problem, several, moved=False)


def _advice(why: Explanation) -> str:
    """Return the exchange of nodes that helps most."""
    if why.exchanges.empty:
        return "No exchange of two blocks of nodes lowers the loads."
    best = why.exchanges.iloc[0]
    if best["gain"] <= 0:
        return "Exchanges of two blocks of nodes lower the loads, but not the time."
    blocks = [
        " ".join(node_label(why.problem.torus, node) for node in best[key])
        for key in ("block", "other")
    ]
    return (
        f"Try: exchange nodes {blocks[0]} with {blocks[1]}: {seconds(best['time'])}, "
        f"{percent(best['gain'])} less (simulated)."
    )


def _by_dimension(view: View) -> Table:
    """Return the busiest link of each dimension and direction under both."""
    torus = view.problem.torus
    rows = pd.DataFrame({"dimension": [f"{way}{axis}" for axis in torus.axes for way in "+-"]})
    columns = [Column("dimension", priority=0)]
    for key, name, use in zip("ab", view.names, view.uses, strict=False):
        rows[key] = use.seconds.reshape(torus.n_nodes, 2 * torus.ndim).max(axis=0)
        columns.append(Column(key, name, "seconds"))
    return Table(rows, columns, "Busiest link of each dimension")


def _hot_links(why: Explanation, other: str) -> Table:
    columns = [
        Column("label", "link", "label", priority=0),
        Column("nbytes", "bytes", "bytes", priority=0),
        Column("over_mean", "times the mean", "decimal", digits=1),
        Column("against", f"bytes under {other}", "bytes"),
    ]
    return Table(why.table, columns)


def _pairs(why: Explanation, top: int, other: str) -> Table:
    rows = why.pairs.groupby("link", sort=False).head(max(1, top // 2))
    columns = [
        Column("label", "link", "label", priority=0),
        Column("src", "from task", "number"),
        Column("dst", "to task", "number"),
        Column("nbytes", "bytes", "bytes"),
        Column("share", "of the link", "share"),
        Column("hops", kind="count"),
        Column("against", f"hops under {other}", "count"),
        *([Column("phase", kind="count")] if len(why.problem.workload) > 1 else []),
    ]
    return Table(rows.assign(label=rows["link"].map(why.problem.torus.link_label)), columns)


def _weights(why: Explanation, other: str) -> Table:
    columns = [
        Column("feature", priority=0),
        Column("value", kind="number", digits=4, priority=0),
        Column("against", f"in {other}", "number", digits=4),
        Column("effect", "change", "change", digits=1),
    ]
    return Table(
        why.weights, columns, f"Change of the forecast if one feature were that of {other}"
    )
