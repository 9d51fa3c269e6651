"""The answer of `simulate`: what takes one mapping its time, packet by packet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
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
from .candidates import CandidateRanking, View, bound_line, less, link_note, node_label, setting_of
from .links import Candidate
from .table import Column, Table, records

BUSIEST, _FIRST, _FEW = 5, 5, 3
# Points of the timeline.
_MOMENTS = 120
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
            Column("label", "behind link", "label", priority=0),
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
            Column("queued", "behind others at most", "seconds", priority=2),
            Column("wait", "longest mean wait of a packet", "seconds", priority=3),
            Column("place", "where", "label", priority=3),
        ],
    ),
    "longest_waiting_fifos": (
        "Injection FIFOs that waited longest for their links",
        [
            Column("label", "node", "label", priority=0),
            Column("fifo", "FIFO", "number", priority=0),
            Column("messages", kind="count"),
            Column("most_edges", "edges at once", "count", priority=2),
            Column("mean_stay", "mean stay of an edge", "seconds"),
            Column("waited", "total wait", "seconds"),
            Column("mean_wait", "mean wait", "seconds"),
        ],
    ),
}


def labelled(links: pd.DataFrame, torus: Torus) -> pd.DataFrame:
    """Return the counters of links, their names first."""
    table = links.copy()
    table.insert(0, "label", [torus.link_label(link) for link in links.index.tolist()])
    return table


def answer(result: Simulation, why: Reasons | None = None, *, setting: str = "") -> Answer:
    """Return what a simulation of one mapping says; ``why`` is what bounds it, where known."""
    why = why or explain(result.problem, result.mapping)
    name = shown_name(result.mapping.name or "the mapping")
    one = Candidate(result.mapping.name or "mapping", result.mapping, result.time)
    view = View(result.problem, [one])
    links = result.links()
    found = _most_waited(result, links)
    sections = [
        *(one for one in view.why() if one.only == "page"),
        Section("Timeline", [timeline_chart(result)], wide=False, only="page"),
        *_phases(result),
        *(_section(title, found[key], columns) for key, (title, columns) in _TABLES.items()),
        # The busiest links stand above.
        *(each for each in view.where() if each.title != "The hottest links"),
        view.traffic(),
    ]
    content = _content(result, why, links) | {key: records(each) for key, each in found.items()}
    least, each = why.lower_bound, " an iteration" if result.iterations > 1 else ""
    head = f" takes {seconds(result.time)}{each}"
    if least:
        head += f", {result.time / least:.2f} times the lower bound of {seconds(least)}"
    about = setting_of(result.problem)
    return view.answer(
        Headline("", name, head),
        setting=setting or f"{about}, mapping {name}",
        title=f"Simulation of {name}: {about}",
        notes=_notes(result, why, view),
        sections=[one for one in sections if _holds_something(one)],
        content=content,
        table=Table(_one_row(content), ()),
        file=view.launcher_file(),
    )


def answer_of_many(
    problem: MappingProblem,
    mappings: Sequence[TaskMapping],
    found: Sequence[tuple[dict[str, Any], Reasons]],
    *,
    setting: str,
    content: dict[str, Any],
    error: float = 0.0,
    top: int = 10,
    estimated: bool = False,
    note: str = "",
) -> Answer:
    """Return which of several mappings is fastest, and what limits it.

    ``found`` holds for each mapping its time, the busiest link (None where nothing leaves a node),
    its share of the time and more, with what bounds the time, by estimate where ways are open.
    ``error`` is that of the times.
    """
    rows = [
        {
            "mapping": each.name or str(i),
            "time": found[i][0]["time"],
            "lower_bound": found[i][1].lower_bound,
            **found[i][0],
        }
        for i, each in enumerate(mappings)
    ]
    table = pd.DataFrame(rows).sort_values("time", kind="stable")
    order = table.index.tolist()
    table, why = table.reset_index(drop=True), found[order[0]][1]
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
        *ranking.changes(),
        Column("over_bound", "times its lower bound", "decimal", digits=2),
        Column("busiest_link", kind="label"),
        Column("busy_share", "busy", "share"),
    ]
    known = [name for name in table if name not in ("phase_times", "coarsening", "change")]
    bound = bound_line(why, estimated, problem.workload.dependent)
    said = [_others(table, error), ranking.alike(), bound, link_note(link) if link else "", note]
    return Answer(
        setting=setting,
        headline=ranking.headline(),
        notes=list(filter(None, said)),
        table=Table(table[known], columns, best=0, yours=ranking.yours, top=top),
        omitted=problem.workload.omitted,
        mapping=mappings[order[0]],
        content=content | {"ranking": records(table)},
    )


def row_of(time: float, link: str | None, busy: float) -> dict[str, Any]:
    """Return a mapping's time, its busiest link and the share of the time that this is busy."""
    return {"time": time, "busiest_link": link, "busy_share": busy / time if link else 0.0}


def flow_row(result: FlowSimulation) -> tuple[dict[str, Any], Reasons]:
    """Return a row of `answer_of_many`, and what bounds the time."""
    problem, mapping = result.problem, result.mapping
    # Flows have no clock: their bound is exact.
    least = time_bounds(problem, mapping).total
    why = replace(explain(problem, mapping, n=1), lower_bound=least)
    links = why.links
    link, busy = (links["label"].iloc[0], links["busy"].iloc[0]) if len(links) else (None, 0.0)
    # The error accepted may shorten a time, but not below what it takes at least.
    time = max(result.time, least)
    return row_of(time, link, busy) | {"phase_times": result.phase_times}, why


def of_flows(result: FlowSimulation) -> Answer:
    """Return what a simulation of one mapping by flows says."""
    return answer_of_many(
        result.problem,
        [result.mapping],
        [flow_row(result)],
        setting=setting_of(result.problem),
        content={"network": asdict(result.torus.network), "error": result.error},
        error=result.error,
    )


def _others(table: pd.DataFrame, error: float) -> str:
    """Return how the fastest stands to the others."""
    names, times = table["mapping"], table["time"]
    best, slowest = float(times.iloc[0]), float(times.iloc[-1])
    others = len(times) - 1
    if not others:
        return "There is no other candidate."
    near = int((times.iloc[1:] <= best * (1 + error)).sum())
    if error:
        within = f"within {percent(error, digits=3)} of it, the error accepted"
        verb = f"{'lie' if near > 1 else 'lies'} {within}"
    else:
        verb = f"{'take' if near > 1 else 'takes'} as little"
    text = f"{near or 'None'} of {counted(others, 'other')} {verb}."
    if slowest > best:
        text += (
            f" It takes {less(best, slowest, 'the slowest')}, {shown_name(names.iloc[-1])} "
            f"({seconds(slowest)})."
        )
    return text


def timeline_chart(result: MessageTimes[Any]) -> Chart:
    """Return how many messages are under way over the time."""
    messages = result.messages()
    moments = np.linspace(0.0, result.end, _MOMENTS)
    begun = np.searchsorted(np.sort(messages["handed_over"]), moments, side="right")
    done = np.searchsorted(np.sort(messages["arrived"]), moments, side="right")
    scale, unit = time_unit([result.end])
    series = [
        svg.Series("handed over", "other", moments / scale, begun),
        svg.Series("arrived", "best", moments / scale, done),
    ]
    return Chart(
        "timeline",
        "",
        "Edges whose messages were handed over, and have arrived; between the lines, those under "
        "way.",
        lambda: svg.plot(series, f"time, {unit}", "edges", lines=True),
    )


def _most_waited(result: Simulation, links: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the links, buffers, messages and FIFOs with most to do."""
    torus, fifos = result.torus, result.fifos()
    used = links[links["packets"] > 0]
    busiest = _most(used, "busy_share", BUSIEST)
    fullest = _most(used[used["delay"] > 0], "mean_buffered", _FEW)
    fifos.insert(0, "label", [node_label(torus, node) for node in fifos["node"]])
    fifos["waited"] = fifos["mean_wait"] * fifos["packets"]
    return {
        "busiest_links": labelled(busiest, torus),
        "fullest_buffers": labelled(fullest, torus),
        "slowest_messages": slowest_messages(result, _FEW),
        "longest_waiting_fifos": _most(fifos[fifos["waited"] > 0], "waited", _FEW),
    }


def _section(title: str, frame: pd.DataFrame, columns: Sequence[Column]) -> Section:
    known = [column for column in columns if column.name in frame]
    return Section(title, [Table(frame, known)], wide=False)


def _notes(result: Simulation, why: Reasons, view: View) -> list[str]:
    """Return what bounds the time, and what it is a mean or an estimate of."""
    rounds = result.workload.dependent and len(result.workload) > result.iterations > 0
    line = bound_line(why, view.estimated, rounds)
    if result.iterations == 1:
        notes = [line]
    else:
        notes = [
            f"One from a standing start is {line[0].lower()}{line[1:]}",
            f"That is the mean of {result.iterations} iterations but the first, which takes "
            f"{seconds(result.alone)} alone; all end after {seconds(result.end)}. The tables "
            "count all.",
        ]
    if result.coarsening > 1:
        notes.append(f"Each simulated packet represents up to {result.coarsening} real ones.")
    if result.error is not None:
        notes.append(_reached(result, result.error))
    return notes


def _reached(result: Simulation, error: float) -> str:
    """Return the sentence about the error that was asked for."""
    asked = f"the error of {percent(error, digits=3)} asked for" if error else ""
    if result.coarsening == 1:
        return f"No packets are merged: coarser ones would miss {asked}, or save little."
    changed = percent(result.change, digits=2)
    return (
        f"When packets were halved last, the time changed by {changed}: of {asked} a sixteenth "
        "may change."
    )


def _phases(result: Simulation) -> list[Section]:
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
    title = f"The first {_FIRST} of {n} {kind}s" if n > _FIRST else f"The {n} {kind}s"
    return [Section(title, [Table(phases.head(_FIRST), columns)])]


def _content(result: Simulation, why: Reasons, links: pd.DataFrame) -> dict[str, Any]:
    """Return the simulation in few numbers."""
    return {
        "mapping": result.mapping.name,
        "time": result.time,
        "iterations": result.iterations,
        "phase_times": list(result.phase_times),
        "lower_bound": why.lower_bound,
        "bounds": why.bounds,
        "binding": why.binding,
        "packet_hops": result.packet_hops,
        "coarsening": result.coarsening,
        "error": result.error,
        "change": result.change,
        "max_buffered": int(links["max_buffered"].max()) if len(links) else 0,
        "mean_delay": float(links["delay"].mean()) if len(links) else 0.0,
        "network": asdict(result.torus.network),
    }


def _holds_something(section: Section) -> bool:
    return any(not isinstance(block, Table) or len(block) for block in section.blocks)


def _most(table: pd.DataFrame, column: str, n: int) -> pd.DataFrame:
    return table.sort_values(column, ascending=False, kind="stable").head(n)


def _one_row(content: dict[str, Any]) -> pd.DataFrame:
    """Return the numbers of the summary as a table of one row."""
    names = "mapping time lower_bound binding packet_hops coarsening change max_buffered mean_delay"
    bounds = {f"{name}_bound": value for name, value in content["bounds"].items()}
    return pd.DataFrame([{name: content[name] for name in names.split()} | bounds])
