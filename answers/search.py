"""Answers of `search` and `explain`: a better mapping, and the limits of a mapping."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial

import numpy as np

from toruscast._search.explain import Explanation
from toruscast._search.search import TIME, SearchResult
from toruscast.decision.results import describe_proof_scope
from toruscast.mapping import TaskMapping
from toruscast.simulation.simulator import simulate
from toruscast.text import counted, joined, number, percent, seconds, shown_name, time_unit

from . import svg
from .blocks import Answer, Chart, Headline, Section, Sentence
from .candidates import (
    BINDING,
    DEFAULT_ORDER,
    CandidateRanking,
    TrafficComparison,
    certainty_badge,
    compare_times,
    describe_certainty,
    describe_problem,
    node_label,
)
from .links import Candidate
from .table import Column, Kind, Table, records

# A mapping with a smaller relative gap to the lower bound is called optimal.
_NO_GAP = 1e-3
# Relative error of the simulated times if the objective is not the time.
_TIME_ERROR = 0.03
# The gain is given as an interval if its ends differ by more than this.
_MIN_INTERVAL = 2e-3


def answer(
    result: SearchResult, *, yours: bool = False, setting: str = "", top: int = 10
) -> Answer:
    """Return the answer; ``yours`` states that the search started from the user's mappings."""
    baseline = "your best mapping" if yours else DEFAULT_ORDER
    badge, notes = _describe_certainty(result)
    traffic = _compare_traffic(result, baseline)
    chart = _times_chart(traffic, result, baseline)
    chart_section = Section("How much faster", [chart], wide=False, only="page")
    sections = [
        *([chart_section] if result.objective == TIME else []),
        *traffic.limit_sections(),
        *traffic.link_sections(),
        Section("Progress of the search", [progress_chart(result)], wide=False, only="page"),
        traffic.traffic_section(),
    ]
    return traffic.answer(
        _make_headline(result, baseline),
        setting=setting or describe_problem(result.problem),
        title=f"Search: {describe_problem(result.problem)}",
        badge=badge,
        notes=notes,
        sections=sections,
        content=_make_content(result),
        table=compared_table(result, top, yours),
        file=traffic.launcher_file(),
    )


def _format_value(result: SearchResult, value: float) -> str:
    return seconds(value) if result.objective == TIME else number(value, 6)


def _make_headline(result: SearchResult, baseline: str) -> Headline:
    """Return the mapping to use or to keep, and its gain over the initial one."""
    best = shown_name(result.best.name or "the best")
    value = _format_value(result, result.value)
    initial = _format_value(result, result.initial_value)
    value = value if result.objective == TIME else f"{result.objective} {value}"
    if not np.isfinite(result.initial_value):
        return Headline("Use ", best, f": {value}; {baseline} needs a missing link")
    if result.gain <= 0 or np.array_equal(result.best.node, result.reference.node):
        return Headline(f"Keep {baseline}, ", best, f": {value}; nothing better was found")
    # If the simulation allowed an error in the times, the gain is an interval.
    low, high = result.gain_interval
    share = (1 - high, 1 - low) if high - low > _MIN_INTERVAL else 1 - result.gain
    gain = compare_times(share, 1.0, baseline)
    return Headline("Use ", best, f": {value}, {gain} ({initial})")


def _describe_certainty(result: SearchResult) -> tuple[str, list[str]]:
    """Return the badge of the page, and sentences about the certainty."""
    notes, badge, workload = [], "", result.problem.workload
    if result.bound > 0:
        gain = f"; at most {percent(1 - result.bound / result.value)} can still be gained"
        if result.optimality_gap < _NO_GAP:
            scope = describe_proof_scope(workload)
            gain, badge = f", so this one is optimal{scope}", f"proved in simulation{scope}"
        verb = "be faster than" if result.objective == TIME else "be below"
        notes.append(f"No mapping can {verb} {_format_value(result, result.bound)}{gain}.")
    if result.verdict is not None and result.verdict.kind != "proved" and not badge:
        badge = certainty_badge(result.verdict, workload)
        notes.append(describe_certainty(result.verdict, "shortlisted mapping"))
    badge = badge or str(result.table["source"].iloc[0])
    proposals = f"{result.proposals:,} proposal{'' if result.proposals == 1 else 's'}"
    notes.append(f"{proposals} tested, {counted(len(result.table), 'mapping')} compared.")
    if result.interrupted:
        notes.append("Interrupted. This is the best mapping so far.")
    elif not result.proposals and (not result.bound or result.optimality_gap > _NO_GAP):
        notes.append("Annealing had no time to start. Increase --seconds.")
    return badge, notes


def _compare_traffic(result: SearchResult, baseline: str) -> TrafficComparison:
    """Return the traffic under the best and the initial mapping, with simulated times."""

    def find_time(value: float, mapping: TaskMapping) -> float:
        if result.objective == TIME:
            return value
        return float(simulate(result.problem, mapping=mapping, error=_TIME_ERROR).time)

    best, reference = result.best, result.reference
    candidates = [Candidate(best.name or "the best", best, find_time(result.value, best))]
    if not np.array_equal(best.node, reference.node):
        initial_time = find_time(result.initial_value, reference)
        candidates.append(Candidate(reference.name or baseline, reference, initial_time))
    return TrafficComparison(result.problem, candidates)


def _times_chart(traffic: TrafficComparison, result: SearchResult, baseline: str) -> Chart:
    """Return a chart of the times of the compared mappings and the baseline, the best first."""
    table = result.table[np.isfinite(result.table["value"])]
    times = dict(zip(table["mapping"], table["value"], strict=True))
    # The baseline may not be among the compared mappings.
    times |= {each.name: each.time for each in traffic.compared if np.isfinite(each.time)}
    names = sorted(times, key=lambda name: (name != traffic.compared[0].name, times[name]))
    ticks, yours = [times[name] for name in names], traffic.compared[-1].name
    found = names.index(yours) if yours in times else None
    ranking = CandidateRanking(names, ticks, yours=found, baseline_name=baseline)
    return ranking.chart(lower_bound=result.bound, ticks=ticks)


def progress_chart(result: SearchResult) -> Chart:
    """Return a chart of the best objective value so far over the time of the search."""
    is_time = result.objective == TIME
    values = np.array([value for _, value in result.history])
    scale, unit = time_unit(values) if is_time else (1.0, "")
    # Draw a step function: the best value is constant between two improvements.
    elapsed = np.repeat([time for time, _ in result.history], 2)[1:]
    best = np.repeat(values / scale, 2)[:-1]
    label = f"{result.objective}{f', {unit}' if unit else ''}"
    series = [svg.Series("best so far", "best", elapsed, best, style="line")]
    if result.bound > 0 and len(elapsed):
        first_and_last = [0.0, float(elapsed[-1])]
        bound = [result.bound / scale] * 2
        series.append(svg.Series("lower bound", "other", first_and_last, bound, style="line"))
    draw = partial(svg.draw_plot, series, "seconds", label, from_zero=False)
    return Chart("progress", "", f"Best {result.objective} so far.", draw)


def compared_table(result: SearchResult, top: int = 10, yours: bool = False) -> Table:
    """Return the compared mappings, the best first."""
    is_time = result.objective == TIME
    kind: Kind = "seconds" if is_time else "number"
    columns = [
        Column("mapping", kind="name"),
        Column("value", result.objective, kind, digits=3 if is_time else 6, priority=0),
        Column(
            "value", f"vs {'yours' if yours else 'default'}", "change", against=result.initial_value
        ),
        Column("source", "source"),
        Column("from", priority=2),
    ]
    names = result.table["mapping"].tolist()
    reference = result.reference.name
    reference_row = names.index(reference) if reference in names[1:] else None
    title = "All compared mappings"
    return Table(
        result.table, columns, title, best=0, yours=reference_row, top=top, key="candidates"
    )


def _make_content(result: SearchResult) -> dict[str, object]:
    """Return the JSON entries of a search."""
    return {
        "objective": result.objective,
        "best": result.best.name,
        "node": result.best.node.tolist(),
        "value": result.value,
        "initial_value": result.initial_value,
        "gain": result.gain,
        "gain_interval": list(result.gain_interval),
        "bound": result.bound,
        "verdict": result.verdict and asdict(result.verdict),
        "proposals": result.proposals,
        "interrupted": result.interrupted,
        "history": [{"seconds": time, "value": value} for time, value in result.history],
        "compared": records(result.table),
    }


def explanation_answer(result: Explanation, *, setting: str = "", top: int = 5) -> Answer:
    """Return the answer about the limits of a mapping, compared with another mapping."""
    reasons, (ranking, mappings, swap) = result.reasons, _rank_changes(result)
    traffic = ranking.compare_traffic(result.problem, mappings)
    name, other = ranking.baseline_name, shown_name(result.against.name or "the other mapping")
    limit, bound = BINDING[reasons.binding], seconds(reasons.bounds[reasons.binding])
    notes = [f"{name} is limited by {limit} ({bound} of {seconds(result.time)})."]
    time, first, title = seconds(ranking.times[0]), mappings[0], "launcher file"
    moves: list[Sentence] = []
    gain = f": {time}, {ranking.describe_gain()} ({seconds(result.time)})"
    head = Headline("Swap nodes ", swap, gain)
    if first is result.mapping:
        head = Headline("Keep ", name, f": {time}; no swap of nodes makes it faster")
    elif first is result.against:
        head = Headline("Use ", other, gain)
    else:
        notes.insert(0, _describe_relief(traffic))
        moves = [Sentence(_describe_moves(traffic))]
        title = "launcher file with this swap"
    if first is not result.against:
        difference = compare_times(result.time, result.against_time, other)
        notes.append(f"{name} takes {difference} ({seconds(result.against_time)}).")
    elif swap:
        time = seconds(result.exchanges["time"][0])
        notes.append(f"The best swap of nodes, {swap}, takes {time}.")
    file, chart = traffic.launcher_file(), ranking.chart("Simulated time")
    link_map, spread, *_ = traffic.link_sections()
    sections = [
        Section("How much faster", [chart, *moves], wide=False, only="page"),
        *traffic.limit_sections(),
        link_map,
        Section("Task pairs on the busiest links", [_pair_table(result, top, other)], wide=False),
        spread,
        Section("Busiest links", [_link_table(result, other)], wide=False),
        Section("Features in the model", [_feature_table(result, other)], folded=True),
    ]
    return traffic.answer(
        head,
        setting=setting or describe_problem(result.problem),
        title=f"Explanation of {name}: {describe_problem(result.problem)}",
        badge="simulated",
        notes=notes,
        sections=sections,
        content={
            "mapping": result.mapping.name,
            "against": result.against.name,
            "time": result.time,
            "against_time": result.against_time,
            "bounds": reasons.bounds,
            "binding": reasons.binding,
            "links": records(result.table),
            "pairs": records(result.pairs),
            "weights": records(result.weights),
            "exchanges": records(result.exchanges),
        },
        table=Table(result.pairs, ()),
        file=file and replace(file, title=title),
    )


def _describe_relief(traffic: TrafficComparison) -> str:
    """Return a sentence about the busiest link before the swap, and the busiest link after it."""
    torus, (after, before) = traffic.problem.torus, (use.seconds for use in traffic.uses)
    link, busiest = int(np.argmax(before)), int(np.argmax(after))
    times = f"{seconds(after[link])} instead of {seconds(before[link])}"
    text = f"With the swap, the busiest link {torus.link_label(link)} takes {times}"
    then = f"{torus.link_label(busiest)} is the busiest, {seconds(after[busiest])}"
    return f"{text}." if busiest == link else f"{text}; then {then}."


def _describe_moves(traffic: TrafficComparison) -> str:
    """Return a sentence that lists the swapped tasks, each with its old node and its new node."""
    torus, (after, before) = traffic.problem.torus, (each.mapping.node for each in traffic.compared)
    moves = []
    for node in dict.fromkeys(before[before != after].tolist()):
        tasks = np.flatnonzero(before == node)
        ends = [node_label(torus, int(end)) for end in (node, after[tasks[0]])]
        moves.append(f"task{'s' * (tasks.size > 1)} {joined(tasks)} from {' to '.join(ends)}")
    return f"The swap moves {'; '.join(moves)}."


def changes_chart(result: Explanation) -> Chart:
    """Return a chart of the times of both mappings, and of the first one after the best swap."""
    return _rank_changes(result)[0].chart("Simulated time")


def _rank_changes(result: Explanation) -> tuple[CandidateRanking, list[TaskMapping], str]:
    """Rank both mappings and the best swap by time; also return the mappings and swapped nodes."""
    mapping, other, torus, swap = result.mapping, result.against, result.problem.torus, ""
    name = shown_name(mapping.name or "the mapping")
    candidates = [
        Candidate(name, mapping, result.time),
        Candidate(other.name or "the other mapping", other, result.against_time),
    ]
    if len(result.exchanges) and result.exchanges["gain"].iloc[0] > 0:
        best = result.exchanges.iloc[0]
        first, second = list(best["block"]), list(best["other"])
        labels = [" ".join(node_label(torus, i) for i in block) for block in (first, second)]
        swap = " with ".join(labels)
        new_node = np.arange(torus.n_nodes)
        new_node[first + second] = second + first
        swapped = TaskMapping(new_node[mapping.node], torus, tasks_per_node=mapping.tasks_per_node)
        candidates.append(Candidate(f"{name}-swapped", swapped, float(best["time"])))
    candidates.sort(key=lambda candidate: candidate.time)
    names = [candidate.name for candidate in candidates]
    times = [candidate.time for candidate in candidates]
    mappings = [candidate.mapping for candidate in candidates]
    ranking = CandidateRanking(names, times, mappings.index(mapping), baseline_name=name)
    return ranking, mappings, swap


def _link_table(result: Explanation, other: str) -> Table:
    """Return the busiest links, with their bytes under both mappings."""
    columns = [
        Column("label", "link", "label", priority=0),
        Column("nbytes", "bytes", "bytes", priority=0),
        Column("over_mean", "times the mean", "decimal", digits=1),
        Column("against", f"bytes under {other}", "bytes"),
    ]
    return Table(result.table, columns)


def _pair_table(result: Explanation, top: int, other: str) -> Table:
    """Return the task pairs that send the most bytes over each of the busiest links."""
    rows = result.pairs.groupby("link", sort=False).head(max(1, top // 2))
    columns = [
        Column("label", "link", "label", priority=0),
        Column("src", "from task", "number"),
        Column("dst", "to task", "number"),
        Column("nbytes", "bytes", "bytes"),
        Column("share", "share of link", "share"),
        Column("hops", kind="count"),
        Column("against", f"hops under {other}", "count"),
        *([Column("phase", kind="count")] if len(result.problem.workload) > 1 else []),
    ]
    return Table(rows.assign(label=rows["link"].map(result.problem.torus.link_label)), columns)


def _feature_table(result: Explanation, other: str) -> Table:
    """Return how the predicted time changes if one feature takes the other mapping's value."""
    columns = [
        Column("feature", priority=0),
        Column("value", kind="number", digits=4, priority=0),
        Column("against", f"under {other}", "number", digits=4),
        Column("effect", "change", "change", digits=1),
    ]
    title = f"Change of the predicted time with one feature of {other}"
    return Table(result.weights, columns, title)
