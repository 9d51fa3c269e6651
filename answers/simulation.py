"""The answer of `simulate`: what takes one mapping its time, packet by packet."""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from toruscast.features.reasons import Reasons, explain
from toruscast.mapping import Torus
from toruscast.simulation import Simulation
from toruscast.simulation.message_times import MessageTimes
from toruscast.simulation.trace import slowest_messages
from toruscast.text import nbytes, number, percent, seconds, shown_name, time_unit

from . import svg
from .blocks import Answer, Chart, Headline, Section, TableBlock
from .links import Candidate
from .traffic import View, bound_line, node_label, setting_of

BUSIEST, _FIRST, _FEW = 5, 5, 3
# Points of the timeline.
_MOMENTS = 120


def labelled(links: pd.DataFrame, torus: Torus) -> pd.DataFrame:
    """Return the counters of links, their names first."""
    table = links.copy()
    table.insert(0, "label", [torus.link_label(link) for link in links.index.tolist()])
    return table


def answer(result: Simulation, why: Reasons | None = None, *, setting: str = "") -> Answer:
    """Return what a simulation of one mapping says; ``why`` is what bounds it, where known."""
    return _Simulated(result, why, setting).answer()


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


class _Simulated:
    """A simulation on its way to blocks."""

    def __init__(self, result: Simulation, why: Reasons | None, setting: str) -> None:
        self.result, self.setting, self.torus = result, setting, result.torus
        self.why = why or explain(
            result.workload, result.torus, result.mapping, routing=result.routing
        )
        name = result.mapping.name or "mapping"
        self.view = View(
            result.workload,
            result.torus,
            [Candidate(name, result.mapping, result.time)],
            result.routing,
        )

    @cached_property
    def links(self) -> pd.DataFrame:
        """The counters of all links."""
        return self.result.links()

    @cached_property
    def busiest(self) -> pd.DataFrame:
        """The links that are busy longest."""
        used = self.links[self.links["packets"] > 0]
        return labelled(_most(used, "busy_share", BUSIEST), self.torus)

    @cached_property
    def fullest(self) -> pd.DataFrame:
        """The fullest buffers."""
        waiting = self.links[(self.links["packets"] > 0) & (self.links["delay"] > 0)]
        return labelled(_most(waiting, "mean_buffered", _FEW), self.torus)

    @cached_property
    def slowest(self) -> pd.DataFrame:
        """The messages that took longest."""
        return slowest_messages(self.result, _FEW)

    @cached_property
    def fifos(self) -> pd.DataFrame:
        """The injection FIFOs that waited longest."""
        fifos = self.result.fifos()
        fifos["waited"] = fifos["mean_wait"] * fifos["packets"]
        return _most(fifos[fifos["waited"] > 0], "waited", _FEW)

    def answer(self) -> Answer:
        """Return it."""
        result = self.result
        view = self.view
        name = shown_name(result.mapping.name or "the mapping")
        each = " an iteration" if result.iterations > 1 else ""
        head = Headline("", name, f" takes {seconds(result.time)}{each}{self._over_bound()}")
        sections = [
            *(one for one in view.why() if one.only == "page"),
            Section("Timeline", [timeline_chart(self.result)], wide=False, only="page"),
            *self._phases(),
            Section("Busiest links", [self._busiest()], wide=False),
            Section("Fullest buffers", [self._fullest()], wide=False),
            Section("Slowest messages", [self._messages()]),
            Section("Injection FIFOs that waited longest for their links", [self._fifos()]),
            *view.where(),
            view.traffic(),
        ]
        # The busiest links stand above.
        sections = [one for one in sections if one.title != "The hottest links"]
        content = self.content()
        return Answer(
            setting=self.setting or f"{setting_of(result.workload, self.torus)}, mapping {name}",
            title=f"Simulation of {name}: {setting_of(result.workload, self.torus)}",
            headline=head,
            notes=self._notes(),
            sections=[one for one in sections if _holds_something(one)],
            content=content,
            rows=_one_row(content),
            file=view.launcher_file(),
            facts=view.facts(),
        )

    def _over_bound(self) -> str:
        least = self.why.lower_bound
        if not least:
            return ""
        return f", {self.result.time / least:.2f} times the lower bound of {seconds(least)}"

    def _notes(self) -> list[str]:
        result = self.result
        rounds = result.workload.dependent and len(result.workload) > result.iterations > 0
        line = bound_line(self.why, self.view.estimated, rounds)
        if result.iterations > 1:
            line = f"One from a standing start is {line[0].lower()}{line[1:]}"
        notes = [line]
        if result.iterations > 1:
            notes.append(
                f"That is the mean of {result.iterations} iterations but the first, which takes "
                f"{seconds(result.alone)} alone; all end after {seconds(result.end)}. The tables "
                "count all."
            )
        if result.coarsening > 1:
            notes.append(f"Each simulated packet represents up to {result.coarsening} real ones.")
        if result.error is not None:
            notes.append(self._reached())
        return notes

    def _reached(self) -> str:
        """Return the sentence about the error that was asked for."""
        result = self.result
        asked = f"the error of {percent(result.error, digits=3)} asked for" if result.error else ""
        if result.coarsening == 1:
            return f"No packets are merged: coarser ones would miss {asked}, or save little."
        changed = percent(result.change, digits=2)
        return (
            f"When packets were halved last, the time changed by {changed}: of "
            f"{asked} a sixteenth may change."
        )

    def _phases(self) -> list[Section]:
        phases = self.result.phases()
        if len(phases) < 2:
            return []
        kind = "round" if self.result.workload.dependent else "phase"
        n = len(phases)
        table = TableBlock(
            [
                {
                    kind: (f"{row['phase']} {row['name']}".strip(),),
                    "begins": seconds(row["begin"]),
                    "ends": seconds(row["end"]),
                    "messages": row["messages"],
                    "bytes": nbytes(row["nbytes"]),
                }
                for row in phases.head(_FIRST).reset_index().to_dict("records")
            ]
        )
        title = f"The first {_FIRST} of {n} {kind}s" if n > _FIRST else f"The {n} {kind}s"
        return [Section(title, [table])]

    def _busiest(self) -> TableBlock:
        return TableBlock(
            [
                {
                    "link": (row["label"],),
                    "wire bytes": nbytes(row["wire_bytes"]),
                    "busy": percent(row["busy_share"]),
                    "packets": row["packets"],
                }
                for row in self.busiest.to_dict("records")
            ]
        )

    def _fullest(self) -> TableBlock:
        return TableBlock(
            [
                {
                    "behind link": (row["label"],),
                    "packets\non average": number(row["mean_buffered"], 2),
                    "at most": row["most_buffered"],
                    "a packet\nwaits": seconds(row["delay"]),
                }
                for row in self.fullest.to_dict("records")
            ]
        )

    def _messages(self) -> TableBlock:
        rows = []
        for row in self.slowest.to_dict("records"):
            alone, queued, wait = row["alone"], row["queued"], row.get("wait")
            cells = {
                "task\nto task": f"{row['src']} to {row['dst']}",
                "bytes": nbytes(row["nbytes"]),
                "hops": row["hops"],
                "arrived\nafter": seconds(row["took"]),
                "alone it\nwould take": "-" if math.isnan(alone) else seconds(alone),
                "behind others\nin its FIFO": f"<= {seconds(queued)}" if queued else "-",
            }
            if "place" in row:
                head = "longest wait on its way,\na packet's average"
                cells[head] = f"{seconds(wait)} {row['place']}" if wait else "-"
            rows.append(cells)
        return TableBlock(rows, keep=4)

    def _fifos(self) -> TableBlock:
        return TableBlock(
            [
                {
                    "node": node_label(self.torus, row["node"]),
                    "FIFO": row["fifo"],
                    "messages": row["messages"],
                    "edges\nat once": row["most_edges"],
                    "an edge\nstays": seconds(row["mean_stay"]),
                    "packets\nwaited": seconds(row["waited"]),
                    "each": seconds(row["mean_wait"]),
                }
                for row in self.fifos.to_dict("records")
            ]
        )

    def content(self) -> dict[str, object]:
        """Return the simulation in few numbers."""
        result, why, links = self.result, self.why, self.links
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
            "most_buffered": int(links["most_buffered"].max()) if len(links) else 0,
            "mean_delay": float(links["delay"].mean()) if len(links) else 0.0,
            "network": asdict(self.torus.network),
            "busiest_links": self.busiest.reset_index().to_dict("records"),
            "fullest_buffers": self.fullest.reset_index().to_dict("records"),
            "slowest_messages": self.slowest.to_dict("records"),
            "longest_waiting_fifos": self.fifos.to_dict("records"),
        }


def _holds_something(section: Section) -> bool:
    return any(not isinstance(block, TableBlock) or block.rows for block in section.blocks)


def _most(table: pd.DataFrame, column: str, n: int) -> pd.DataFrame:
    return table.sort_values(column, ascending=False, kind="stable").head(n)


def _one_row(content: dict[str, object]) -> pd.DataFrame:
    """Return the numbers of the summary as a table of one row."""
    names = (
        "mapping",
        "time",
        "lower_bound",
        "binding",
        "packet_hops",
        "coarsening",
        "change",
        "most_buffered",
        "mean_delay",
    )
    bounds: dict[str, float] = content["bounds"]  # type: ignore[assignment]
    row = {name: content[name] for name in names}
    return pd.DataFrame([row | {f"{name}_bound": value for name, value in bounds.items()}])
