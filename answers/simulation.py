"""Answers of `simulate`: the time of one mapping in detail, or a comparison of many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from toruscast._features.reasons import Reasons, explain
from toruscast._slow import pandas as pd
from toruscast.decision.results import default_order
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.routing import time_bounds
from toruscast.simulation import Simulation
from toruscast.simulation.flows import FlowSimulation
from toruscast.simulation.results import MessageTimes
from toruscast.simulation.trace import slowest_messages
from toruscast.text import counted, percent, seconds, shown_name, time_unit

from . import svg
from .blocks import Answer, Chart, Headline, Section
from .candidates import (
    BINDING,
    CandidateRanking,
    TrafficComparison,
    compare_times,
    describe_limit,
    describe_problem,
    explain_link_name,
    name_limit,
    node_label,
)
from .links import Candidate
from .table import Column, Table, records

# Maximum rows of the link table, of the phase table, and of each other table.
_N_LINKS, _N_PHASES, _N_OTHER = 5, 5, 3
# If a time exceeds its lower bound by a smaller share than this, both count as equal.
_NO_EXCESS = 5e-4
# Number of points on the timeline.
_N_MOMENTS = 120
_DETAILS = "Links, buffers, messages and FIFOs"
_TABLES: Mapping[str, tuple[str, Sequence[Column]]] = {
    "busiest_links": (
        "Busiest links",
        [
            Column("label", "link", "label", priority=0),
            Column("wire_bytes", kind="bytes"),
            Column("busy_share", "busy", "share"),
            Column("packets", kind="count"),
        ],
    ),
    "fullest_buffers": (
        "Fullest buffers",
        [
            Column("label", "after link", "label", priority=0),
            Column("mean_buffered", "mean packets", "number", digits=2),
            Column("max_buffered", "max packets", "count"),
            Column("delay", "mean delay", "seconds"),
        ],
    ),
    "slowest_messages": (
        "Slowest messages",
        [
            Column("src", "from task", "number", priority=0),
            Column("dst", "to task", "number", priority=0),
            Column("nbytes", "bytes", "bytes"),
            Column("hops", kind="count"),
            Column("took", "takes", "seconds", priority=0),
            Column("alone", "takes alone", "seconds"),
            Column("queued", "max time queued", "seconds", priority=2),
            Column("wait", "max mean wait of packets", "seconds", priority=3),
            Column("place", kind="label", priority=3),
        ],
    ),
    "longest_waiting_fifos": (
        "Injection FIFOs with the longest waits",
        [
            Column("label", "node", "label", priority=0),
            Column("fifo", "FIFO", "number", priority=0),
            Column("messages", kind="count"),
            Column("most_edges", "max edges", "count", priority=2),
            Column("mean_stay", "mean time of an edge", "seconds"),
            Column("waited", "total wait", "seconds"),
            Column("mean_wait", "mean wait", "seconds"),
        ],
    ),
}


def label_links(links: pd.DataFrame, torus: Torus) -> pd.DataFrame:
    """Return the table of links with an additional first column, ``label``."""
    table = links.copy()
    table.insert(0, "label", [torus.link_label(link) for link in links.index.tolist()])
    return table


def answer(result: Simulation, explanation: Reasons | None = None, *, setting: str = "") -> Answer:
    """Return the answer about one mapping; ``explanation`` holds its lower bounds, if known."""
    reasons = explanation or explain(result.problem, result.mapping)
    name = shown_name(result.mapping.name or "the mapping")
    candidate = Candidate(result.mapping.name or "mapping", result.mapping, result.time)
    traffic = TrafficComparison(result.problem, [candidate])
    links = result.links()
    tables = _detail_tables(result, links)
    # Omit the section of the busiest links, because the tables below have them.
    link_map, spread, *_ = traffic.link_sections()
    details = []
    for key, (title, columns) in _TABLES.items():
        known = [column for column in columns if column.name in tables[key]]
        details += [Table(tables[key], known, title)] if len(tables[key]) else []
    sections = [
        link_map,
        *(section for section in traffic.limit_sections() if section.only == "page"),
        Section("Timeline", [timeline_chart(result)], wide=False, only="page"),
        *_phase_sections(result),
        spread,
        *(Section(table.title, [table], only="terminal") for table in details),
        *([Section(_DETAILS, details, folded=True, only="page")] if details else []),
        traffic.traffic_section(),
    ]
    content = _make_content(result, reasons, links)
    content |= {key: records(table) for key, table in tables.items()}
    unit = " per iteration" if result.iterations > 1 else ""
    head = f" takes {seconds(result.time)}{unit}"
    if reasons.lower_bound:
        limit = name_limit(reasons, _has_rounds(result))
        verb = "take" if limit == BINDING["latency"] else "takes"
        head += f"; {limit} alone {verb} {seconds(reasons.bounds[reasons.binding])}"
    about = describe_problem(result.problem)
    return traffic.answer(
        Headline("", name, head),
        setting=setting or f"{about}, mapping {name}",
        title=f"Simulation of {name}: {about}",
        badge="simulated",
        notes=_make_notes(result, reasons, traffic.estimated),
        sections=sections,
        content=content,
        table=Table(_summary_row(content), ()),
        file=traffic.launcher_file(),
    )


def comparison_answer(
    problem: MappingProblem,
    mappings: Sequence[TaskMapping],
    results: Sequence[tuple[dict[str, Any], Reasons]],
    *,
    setting: str,
    content: dict[str, Any],
    error: float = 0.0,
    top: int = 10,
    estimated: bool = False,
    note: str = "",
) -> Answer:
    """Return the fastest of several mappings, and its limits.

    ``results`` holds the `result_row` of each mapping and the bounds of its time. Bounds are
    ``estimated`` if packets may take several routes. ``error`` is the relative error of the times.
    """
    rows = [
        {
            "mapping": mapping.name or str(i),
            "time": row["time"],
            "lower_bound": reasons.lower_bound,
            **row,
        }
        for i, (mapping, (row, reasons)) in enumerate(zip(mappings, results, strict=True))
    ]
    table = pd.DataFrame(rows).sort_values("time", kind="stable")
    order = table.index.tolist()
    table, reasons = table.reset_index(drop=True), results[order[0]][1]
    table.insert(0, "rank", table["time"].rank(method="min").astype(int))
    table.insert(4, "over_bound", table["time"] / table["lower_bound"].replace(0.0, math.nan))
    names = [str(name) for name in table["mapping"]]
    yours = default_order([mappings[i] for i in order], names, problem.torus)
    ranking = CandidateRanking(names, table["time"].tolist(), yours)
    link = table["busiest_link"].iloc[0]
    columns = [
        Column("rank", "#", "count"),
        Column("mapping", kind="name"),
        Column("time", kind="seconds", priority=0),
        *ranking.change_columns(),
        Column("over_bound", "times its lower bound", "decimal", digits=2),
        Column("busiest_link", kind="label"),
        Column("busy_share", "busy", "share"),
    ]
    printed = table.drop(columns=["phase_times", "coarsening", "change"], errors="ignore")
    notes = [
        _compare_with_others(table, error),
        ranking.describe_similarity(),
        describe_limit(reasons, estimated, problem.workload.dependent),
        explain_link_name(link) if link else "",
        note,
    ]
    return Answer(
        setting=setting,
        headline=ranking.headline(),
        badge="simulated",
        notes=list(filter(None, notes)),
        table=Table(printed, columns, best=0, yours=ranking.yours, top=top),
        omitted=problem.workload.omitted,
        mapping=mappings[order[0]],
        content=content | {"ranking": records(table)},
    )


def result_row(time: float, link: str | None, busy: float) -> dict[str, Any]:
    """Return the row of a mapping whose busiest link, ``link``, is used for ``busy`` seconds."""
    return {"time": time, "busiest_link": link, "busy_share": busy / time if link else 0.0}


def flow_result_row(result: FlowSimulation) -> tuple[dict[str, Any], Reasons]:
    """Return the row of a mapping for `comparison_answer`, and the bounds of its time."""
    problem, mapping = result.problem, result.mapping
    # Unlike packets, flows do not round times to clock cycles, so use the exact bound.
    bound = time_bounds(problem, mapping).total
    reasons = replace(explain(problem, mapping, n=1), lower_bound=bound)
    links = reasons.links
    link, busy = (links["label"].iloc[0], links["busy"].iloc[0]) if len(links) else (None, 0.0)
    # Within the accepted error, a time may be below the bound.
    time = max(result.time, bound)
    return result_row(time, link, busy) | {"phase_times": result.phase_times}, reasons


def flow_answer(result: FlowSimulation) -> Answer:
    """Return the answer about one mapping simulated with flows."""
    answer = comparison_answer(
        result.problem,
        [result.mapping],
        [flow_result_row(result)],
        setting=describe_problem(result.problem),
        content={"network": asdict(result.torus.network), "error": result.error},
        error=result.error,
    )
    timeline = Section("Timeline", [timeline_chart(result)], wide=False, only="page")
    return replace(answer, sections=[timeline])


def _compare_with_others(table: pd.DataFrame, error: float) -> str:
    """Return how many mappings are as fast as the first, and how slow the last is."""
    names, times = table["mapping"], table["time"]
    best, slowest = float(times.iloc[0]), float(times.iloc[-1])
    n_others = len(times) - 1
    if not n_others:
        return "There is no other candidate."
    n_equal = int((times.iloc[1:] <= best * (1 + error)).sum())
    within = f", within the error of {percent(error, digits=3)}" if error else ""
    verb = "are" if n_equal > 1 else "is"
    text = f"{n_equal or 'None'} of {counted(n_others, 'other')} {verb} as fast{within}."
    if slowest > best:
        slowest_name = f"{shown_name(names.iloc[-1])} ({seconds(slowest)})"
        text += f" It takes {compare_times(best, slowest, 'the slowest')}, {slowest_name}."
    return text


def timeline_chart(result: MessageTimes[Any]) -> Chart:
    """Return a chart of how many edges were sent, and how many have arrived, over time."""
    messages = result.messages()
    moments = np.linspace(0.0, result.end, _N_MOMENTS)
    n_sent = np.searchsorted(np.sort(messages["handed_over"]), moments, side="right")
    n_arrived = np.searchsorted(np.sort(messages["arrived"]), moments, side="right")
    scale, unit = time_unit([result.end])
    series = [
        svg.Series("sent", "other", moments / scale, n_sent, style="line"),
        svg.Series("arrived", "best", moments / scale, n_arrived, style="line"),
    ]
    lead = "Edges whose messages were sent, and edges whose messages have arrived."
    draw = partial(svg.draw_plot, series, f"time, {unit}", "edges")
    return Chart("timeline", "", lead, draw)


def _detail_tables(result: Simulation, links: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the frame of each table in `_TABLES`, with the largest values first."""
    torus, fifos = result.torus, result.fifos()
    used = links[links["packets"] > 0]
    busiest = used.nlargest(_N_LINKS, "busy_share")
    fullest = used[used["delay"] > 0].nlargest(_N_OTHER, "mean_buffered")
    fifos.insert(0, "label", [node_label(torus, node) for node in fifos["node"]])
    fifos["waited"] = fifos["mean_wait"] * fifos["packets"]
    return {
        "busiest_links": label_links(busiest, torus),
        "fullest_buffers": label_links(fullest, torus),
        "slowest_messages": slowest_messages(result, _N_OTHER),
        "longest_waiting_fifos": fifos[fifos["waited"] > 0].nlargest(_N_OTHER, "waited"),
    }


def _make_notes(result: Simulation, reasons: Reasons, is_estimated: bool) -> list[str]:
    """Return sentences about the time (its lower bound and its limit), iterations and the error."""
    limit = describe_limit(reasons, is_estimated, _has_rounds(result))
    notes = [_compare_with_bound(result, reasons.lower_bound)] if reasons.lower_bound else []
    if result.iterations == 1:
        notes += [limit]
    else:
        notes += [
            f"A single iteration is {limit[0].lower()}{limit[1:]}",
            f"The time is the mean of all {result.iterations} iterations except the first. A "
            f"single iteration takes {seconds(result.alone)}. The last iteration ends after "
            f"{seconds(result.end)}. The tables include all iterations.",
        ]
    if result.coarsening > 1:
        notes.append(f"Each simulated packet represents up to {result.coarsening} real ones.")
    if result.error is not None:
        notes.append(_describe_error(result, result.error))
    return notes


def _has_rounds(result: Simulation) -> bool:
    return result.workload.dependent and len(result.workload) > result.iterations > 0


def _compare_with_bound(result: Simulation, bound: float) -> str:
    """Return a sentence about the mapping's lower bound, which includes the start-up time."""
    text = f"No simulation of this mapping can be faster than {seconds(bound)}"
    if result.time > bound * (1 + _NO_EXCESS):
        text += f"; this one takes {percent(result.time / bound - 1)} longer"
    return f"{text}. Other mappings were not compared."


def _describe_error(result: Simulation, error: float) -> str:
    limit = f"the error of {percent(error, digits=3)}"
    if result.coarsening == 1:
        return f"No packets are merged: coarser packets would exceed {limit}, or save little."
    change = percent(result.change, digits=2)
    return f"Packets of half the size changed the time by {change}, at most 1/16 of {limit}."


def _phase_sections(result: Simulation) -> list[Section]:
    """Return a table of the times when the first phases start and end, or nothing for one phase."""
    phases = result.phases()
    n = len(phases)
    if n < 2:
        return []
    kind = "round" if result.workload.dependent else "phase"
    columns = [
        Column("phase", kind, "number", priority=0),
        *([Column("name")] if phases["name"].any() else []),
        Column("begin", "begins", "seconds"),
        Column("end", "ends", "seconds"),
        Column("messages", kind="count"),
        Column("nbytes", "bytes", "bytes"),
    ]
    title = f"The first {_N_PHASES} of {n} {kind}s" if n > _N_PHASES else f"The {n} {kind}s"
    return [Section(title, [Table(phases.head(_N_PHASES), columns)])]


def _make_content(result: Simulation, reasons: Reasons, links: pd.DataFrame) -> dict[str, Any]:
    """Return the JSON entries of a simulation, except for its tables."""
    return {
        "mapping": result.mapping.name,
        "time": result.time,
        "iterations": result.iterations,
        "phase_times": list(result.phase_times),
        "lower_bound": reasons.lower_bound,
        "bounds": reasons.bounds,
        "binding": reasons.binding,
        "packet_hops": result.packet_hops,
        "coarsening": result.coarsening,
        "error": result.error,
        "change": result.change,
        "max_buffered": int(links["max_buffered"].max()) if len(links) else 0,
        "mean_delay": float(links["delay"].mean()) if len(links) else 0.0,
        "network": asdict(result.torus.network),
    }


def _summary_row(content: dict[str, Any]) -> pd.DataFrame:
    names = "mapping time lower_bound binding packet_hops coarsening change max_buffered mean_delay"
    bounds = {f"{name}_bound": value for name, value in content["bounds"].items()}
    return pd.DataFrame([{name: content[name] for name in names.split()} | bounds])
