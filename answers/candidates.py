"""Blocks that compare candidate mappings: times, limits, links and traffic."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toruscast._features.reasons import Reasons, explain
from toruscast._slow import pandas as pd
from toruscast.formats.nodes import format_bluegene
from toruscast.mapping import MappingProblem, TaskMapping, Torus, Workload
from toruscast.routing.routing import has_multiple_routes, injection_fifos
from toruscast.text import (
    change,
    counted,
    joined,
    nbytes,
    percent,
    probability,
    seconds,
    shortened,
    shown_name,
    time_unit,
)
from toruscast.typing import Floats

from . import svg
from .blocks import Answer, Chart, File, Headline, Section
from .links import MAX_PAIRS, NO_TASK, Candidate, LinkMap, LinkUse, link_uses
from .table import Column, Kind, Table

if TYPE_CHECKING:
    from toruscast.decision.results import Verdict

# A page contains the launcher file only up to this number of tasks.
_MAX_LAUNCHER_LINES = 20_000
# Maximum rows of the link table and of the node table, bins of a matrix, and points of a curve.
_N_LINKS, _N_NODES, _N_BINS, _N_CURVE_POINTS = 5, 5, 32, 120
DEFAULT_ORDER = "the default order of tasks"
# If all times are within this relative difference, the choice of a candidate does not matter.
_NEGLIGIBLE = 0.01
# Times with a smaller relative difference are called equal.
_EQUAL = 5e-4
# Number of rows in the chart of times, and maximum letters of a name.
_N_ROWS, _MAX_LABEL = 5, 60
PARTS = {
    "link": "busiest link",
    "injection": "injection FIFO",
    "latency": "software and hops",
    "reception": "reception",
}
"""Parts of the network that bound a time, in the order of tables and charts."""
BINDING = {
    "link": "the busiest link",
    "injection": "the busiest injection FIFO",
    "reception": "the busiest receiving node",
    "latency": "software and hops",
}


def describe_limit(reasons: Reasons, estimated: bool, dependent: bool = False) -> str:
    """Return a sentence that names the largest lower bound of a mapping's time, then the others.

    The bounds are ``estimated`` if packets may take several routes. In ``dependent`` rounds,
    messages wait for earlier messages.
    """
    bounds, binding = reasons.bounds, reasons.binding
    others = ", ".join(
        f"{PARTS[part]} {seconds(bounds[part])}" for part in bounds if part != binding
    )
    alone = f"{'an estimated ' if estimated else ''}{seconds(bounds[binding])} alone"
    return f"Limited by {name_limit(reasons, dependent)} ({alone}; {others})."


def name_limit(reasons: Reasons, dependent: bool = False) -> str:
    """Return the name of the largest bound of a mapping's time, as in `describe_limit`."""
    is_chain = dependent and reasons.binding == "latency"
    return "the longest chain of dependent messages" if is_chain else BINDING[reasons.binding]


def explain_link_name(label: str) -> str:
    """Return a sentence that explains the name of a link."""
    node, _, direction = label.partition(" ")
    sign = "plus" if direction.startswith("+") else "minus"
    leaves = f"the link that leaves node {node} in {sign} direction"
    return f"{label}: {leaves} of dimension {direction[1:]}."


@dataclass(frozen=True)
class TrafficComparison:
    """Traffic on a torus under several mappings.

    The first candidate is the best. It is compared with the second, which is the baseline or, if
    ``has_baseline`` is False, the next best. ``network_only`` states that the times do not include
    computation.
    """

    problem: MappingProblem
    candidates: Sequence[Candidate]
    has_baseline: bool = True
    network_only: bool = True

    @property
    def compared(self) -> Sequence[Candidate]:
        """The first two candidates, or the only one."""
        return self.candidates[:2]

    @property
    def best(self) -> TaskMapping:
        """The best mapping."""
        return self.candidates[0].mapping

    @property
    def names(self) -> list[str]:
        """Unique names of the compared mappings."""
        first, *second = [shown_name(candidate.name) for candidate in self.compared]
        return [first, *(name if name != first else f"{name} (now)" for name in second)]

    @property
    def estimated(self) -> bool:
        """Whether packets may take several routes. If so, loads are expected values."""
        return has_multiple_routes(self.problem)

    @cached_property
    def reasons(self) -> list[Reasons]:
        """Lower bounds of the time under each compared mapping, by part of the network."""
        return [explain(self.problem, candidate.mapping) for candidate in self.compared]

    @cached_property
    def uses(self) -> list[LinkUse]:
        """The use of the links under the compared mappings."""
        return link_uses(self.problem, self.compared)

    def make_uses(self, n: int) -> list[LinkUse]:
        """Return the use of the links under the first ``n`` candidates."""
        return [*self.uses[:n], *link_uses(self.problem, self.candidates[2:n])]

    def limit_sections(self) -> list[Section]:
        """Return lower bounds of the time, by part of the network, as a chart and as a table."""
        parts, values, limits = self._list_bounds()
        scale, unit = time_unit([self.candidates[0].time])
        kind = "Estimated" if self.estimated else "Minimum"
        title, names = f"{kind} time for each part of the network", self.names
        lead = (
            f"{title}, {unit}, under {joined(names)}. Solid bars are the limit, and the last bar "
            "is the rest of the time."
        )
        limited = [
            " and ".join(name for name, limit in zip(names, limits, strict=True) if limit == i)
            for i in range(len(parts))
        ]
        times = {str(i): times for i, times in enumerate(values)}
        frame = pd.DataFrame({"part": parts, "limit": limited, **times})
        time_columns = self._compared_columns("seconds", priority=0)
        columns = [Column("part", priority=0), *time_columns, Column("limit", "limit of")]
        heading = self._make_limit_heading()
        series = list(zip(names, ("best", "yours"), values, strict=False))
        totals = [candidate.time for candidate in self.compared]
        draw = partial(svg.draw_bars, parts, series, scale, unit, limits=limits, totals=totals)
        return [
            Section(heading, [Chart("limits", "", "", draw)], lead, wide=False, only="page"),
            Section(heading, [Table(frame, columns, title)], verbose=True, only="terminal"),
        ]

    def _compared_columns(self, kind: Kind, **settings: Any) -> list[Column]:
        """Return a column per compared mapping; in a frame, the columns are called "0" and "1"."""
        return [Column(str(i), name, kind, **settings) for i, name in enumerate(self.names)]

    def _list_bounds(self) -> tuple[list[str], list[list[float]], list[int]]:
        """Return the parts of the time, then for each mapping their seconds and the limit's index.

        The limit is the part with the largest lower bound. The last part is the remaining time.
        """
        kinds = [part for part in PARTS if part in self.reasons[0].bounds]
        values = [[reasons.bounds[part] for part in kinds] for reasons in self.reasons]
        limits = [kinds.index(reasons.binding) for reasons in self.reasons]
        for bounds, limit, candidate in zip(values, limits, self.compared, strict=True):
            bounds.append(max(candidate.time - bounds[limit], 0.0))
        remainder = "start-up and waiting" if self.network_only else "waiting, computation"
        return [*(PARTS[part] for part in kinds), remainder], values, limits

    def _make_limit_heading(self) -> str:
        """Return a heading: what limits the best mapping, and whether the baseline shares it."""
        first, *others = [BINDING[reasons.binding] for reasons in self.reasons]
        if not others or not self.has_baseline:
            return f"Limited by {first}"
        if first in others:
            return f"Both limited by {first}"
        return f"No longer limited by {others[0]}"

    def link_sections(self, n_left_out: int = 0) -> list[Section]:
        """Return the link map, a plot of sorted busy times, and a table of the busiest links."""
        lead = (
            "Each cell is a link, and each row is a ring. All maps share one time scale. Green "
            "frames mark up to three of the busiest links; the thickest is the busiest."
        )
        if self.problem.torus.twist:
            lead += " Wrap links below a line also move along another dimension."
        if self.estimated:
            lead += " Packets may take several routes, so the times are expected values."
        if n_left_out > 0:
            lead += f" Left out to keep the file small: {counted(n_left_out, 'candidate')}."
        link_map = LinkMap(self.problem.torus, self.make_uses)
        is_wide = len(self.candidates) > 1
        sorted_times = Chart("spread", "", "", self._draw_sorted_times)
        caption = f"Busy time of each link under {joined(self.names)}."
        return [
            Section("Busy time of each link", [link_map], lead, verbose=True, wide=is_wide),
            Section("Links by busy time", [sorted_times], caption, wide=False, only="page"),
            *self._make_busiest_section(),
        ]

    def _draw_sorted_times(self) -> str:
        """Return a plot of the busy times of links in decreasing order, with a line per mapping."""
        series = []
        exists = self.problem.torus.link_exists
        sorted_times = [np.sort(use.seconds[exists])[::-1] for use in self.uses]
        scale, unit = time_unit([float(busy.max(initial=0.0)) for busy in sorted_times])
        for use, busy, kind in zip(self.uses, sorted_times, ("best", "yours"), strict=False):
            n_points = min(_N_CURVE_POINTS, busy.size)
            ranks = np.unique(np.linspace(0, busy.size - 1, n_points).astype(int))
            times = busy[ranks] / scale
            series.append(svg.Series(use.name, kind, ranks + 1, times, style="line"))
        return svg.draw_plot(series, "links, the busiest first", f"busy, {unit}")

    def _make_busiest_section(self) -> list[Section]:
        """Return the busiest links under the second mapping, and the task pairs that use them."""
        if self._link_table is None:
            return []
        lead = ""
        if len(self.uses) > 1:
            lead = (
                f"The busiest links under {shown_name(self.uses[-1].name)}, and the {MAX_PAIRS} "
                "task pairs that send the most bytes over each, with hops under both mappings."
            )
        return [Section("Busiest links", [self._link_table], lead, verbose=True, wide=False)]

    @cached_property
    def _link_table(self) -> Table | None:
        """The busiest links under the second mapping, or None if their task pairs are unknown."""
        before = self.uses[-1]
        if before.pairs is None or not before.pairs.links.size:
            return None
        busy, pairs = before.seconds, before.pairs
        order = np.argsort(-busy[pairs.links], kind="stable")[:_N_LINKS]
        links = pairs.links[order]
        nodes = [candidate.mapping.node for candidate in reversed(self.compared)]
        frame = pd.DataFrame(
            {
                "link": [self.problem.torus.link_label(link) for link in links.tolist()],
                "pairs": [
                    tuple(
                        self._describe_pair(src, dst, amount, nodes)
                        for (src, dst), amount in zip(tasks, amounts, strict=True)
                        if src != NO_TASK
                    )
                    for tasks, amounts in zip(pairs.tasks[order], pairs.nbytes[order], strict=True)
                ],
            }
        )
        for i, use in enumerate(self.uses):
            frame[str(i)] = use.seconds[links]
        columns = [
            Column("link", kind="label", priority=0),
            *reversed(self._compared_columns("seconds", priority=0)),
            Column("pairs", "task pairs", "label"),
        ]
        return Table(frame, columns)

    def _describe_pair(
        self, src: int, dst: int, amount: float, nodes: Sequence[NDArray[np.integer[Any]]]
    ) -> str:
        """Describe a task pair: tasks, bytes, and hops under each of the mappings ``nodes``."""
        hops = [str(self.problem.torus.distance(node[src], node[dst])) for node in nodes]
        noun = "hop" if hops == ["1"] else "hops"
        return f"{src} to {dst}: {nbytes(amount)}, {' -> '.join(hops)} {noun}"

    def traffic_section(self) -> Section:
        """Return traffic matrices, hops, and tables of phases and FIFOs under the best mapping."""
        workload, comm = self.problem.workload, self.problem.comm
        name = shown_name(self.candidates[0].name)
        tasks, nodes = np.arange(comm.n_tasks), self.best.node
        draw_tasks = partial(draw_traffic, workload, tasks, comm.n_tasks, "task")
        draw_nodes = partial(draw_traffic, workload, nodes, self.problem.torus.n_nodes, "node")
        sent = f"{counted(comm.n_edges, 'pair')} of tasks send {nbytes(comm.nbytes.sum())}."
        blocks: list[Chart | Table] = [
            Chart("matrix-tasks", "Bytes between tasks", sent, draw_tasks),
            Chart("matrix-nodes", f"Bytes between nodes under {name}", "", draw_nodes),
            self._hop_table,
            self._phase_table,
            self._fifo_table,
        ]
        return Section("Traffic and hop distances", blocks, folded=True)

    @cached_property
    def _hop_table(self) -> Table:
        shares = [hop_shares(self.problem, candidate.mapping) for candidate in self.compared]
        by_mapping = {str(i): pd.Series(share) for i, share in enumerate(shares)}
        frame = pd.DataFrame(by_mapping).fillna(0.0).rename_axis("hops")
        columns = [Column("hops", kind="count"), *self._compared_columns("share", digits=1)]
        title = f"Share of the {nbytes(self.problem.comm.nbytes.sum())} by number of hops"
        return Table(frame, columns, title)

    @cached_property
    def _phase_table(self) -> Table:
        """Bytes, lower bound and limiting part of each phase under the best mapping."""
        title = f"Phases under {shown_name(self.candidates[0].name)}"
        rows = []
        for i, phase in enumerate(self.problem.phases):
            reasons = explain(phase, self.best)
            sent, bound = float(phase.comm.nbytes.sum()), reasons.lower_bound
            rate = sent / bound / 1e9 if bound else math.nan
            rows.append((i + 1, sent, bound, BINDING[reasons.binding], rate))
        columns = [
            Column("phase", kind="count", priority=0),
            Column("bytes", kind="bytes"),
            Column("lower_bound", kind="seconds"),
            Column("limit", "limited by"),
            Column("rate", "max GB/s", "number"),
        ]
        frame = pd.DataFrame(rows, columns=[column.name for column in columns])
        return Table(frame, columns, title, top=5)

    @cached_property
    def _fifo_table(self) -> Table:
        """The nodes with the fullest FIFOs (most messages), and the bytes they send and receive."""
        title = f"Fullest injection FIFOs under {shown_name(self.candidates[0].name)}"
        comm, torus = self.problem.comm, self.problem.torus
        # The FIFO of each edge, or -1 if both tasks are on the same node.
        fifo = injection_fifos(self.problem.total, self.best)
        remote = fifo >= 0
        n_fifos = max(torus.network.fifos, int(fifo.max(initial=0)) + 1)
        sender, receiver = self.best.node[comm.src[remote]], self.best.node[comm.dst[remote]]
        messages = np.zeros((torus.n_nodes, n_fifos))
        np.add.at(messages, (sender, fifo[remote]), comm.n_messages[remote])
        max_messages = messages.max(axis=1)
        sent, received = (
            np.bincount(node, comm.nbytes[remote], torus.n_nodes) for node in (sender, receiver)
        )
        fullest = np.argsort(-max_messages, kind="stable")[:_N_NODES]
        frame = pd.DataFrame(
            {
                "node": [node_label(torus, node) for node in fullest.tolist()],
                "messages": max_messages[fullest],
                "sent": sent[fullest],
                "received": received[fullest],
            }
        )
        columns = [
            Column("node", kind="label"),
            Column("messages", kind="count"),
            Column("sent", kind="bytes"),
            Column("received", kind="bytes"),
        ]
        return Table(frame, columns, title)

    def answer(self, headline: Headline, **fields: Any) -> Answer:
        """Return an answer about the best mapping; ``fields`` are passed to `Answer`."""
        comm, torus = self.problem.comm, self.problem.torus
        facts = [
            ("application", f"{comm.name or 'unnamed'}, {counted(comm.n_tasks, 'task')}"),
            ("torus", f"{torus}, {counted(torus.n_nodes, 'node')}"),
            ("routing", self.problem.routing),
            ("candidates", str(len(self.candidates))),
        ]
        content = fields.pop("content") | {"traffic": self._make_content()}
        omitted = self.problem.workload.omitted
        return Answer(
            headline, facts=facts, omitted=omitted, mapping=self.best, content=content, **fields
        )

    def _make_content(self) -> dict[str, Any]:
        """Return the numbers of the explanation's tables and charts as JSON entries."""
        parts, values, _ = self._list_bounds()
        tables = {
            "hops": self._hop_table,
            "phases": self._phase_table,
            "fifos": self._fifo_table,
            "busiest_links": self._link_table,
        }
        return {
            "compared": self.names,
            "times": [candidate.time for candidate in self.compared],
            "parts": {part: [times[i] for times in values] for i, part in enumerate(parts)},
            **{
                key: [] if table is None else table.shown_records() for key, table in tables.items()
            },
        }

    def launcher_file(self, upcoming: TaskMapping | None = None) -> File | None:
        """Return a launcher file for the mapping ``upcoming``, or by default for the best mapping.

        The result is None if the file would be too long for a page.
        """
        if self.problem.workload.n_tasks > _MAX_LAUNCHER_LINES:
            return None
        mapping = upcoming or self.best
        name = shown_name(mapping.name or self.candidates[0].name)
        file = re.sub(r"[^\w.-]+", "-", name)[:_MAX_LABEL]
        content = format_bluegene(mapping, self.problem.torus)
        return File(f"{file}.map", content)


def describe_problem(problem: MappingProblem) -> str:
    """Return the application and the torus in one line."""
    workload, comm = problem.workload, problem.comm
    kind = "one exchange of messages"
    if len(workload) > 1:
        kind = counted(len(workload), "round" if workload.dependent else "phase")
    name = shown_name(comm.name or "application")
    return f"{name}, {counted(comm.n_tasks, 'task')}, on torus {problem.torus}, {kind}"


def node_label(torus: Torus, node: int) -> str:
    """Return the coordinates of a node, such as "(0,2,1)"."""
    return "(" + ",".join(map(str, torus.coords[node].tolist())) + ")"


def hop_shares(problem: MappingProblem, mapping: TaskMapping) -> Floats:
    """Return the share of the bytes that travel 0, 1, 2, ... hops, up to the longest route."""
    comm, node = problem.comm, mapping.node
    hops = problem.torus.distance(node[comm.src], node[comm.dst])
    sums = np.bincount(hops, comm.nbytes)
    return sums / (sums.sum() or 1.0)


def bin_traffic(
    workload: Workload, numbers: NDArray[np.integer[Any]], n_numbers: int, max_bins: int = _N_BINS
) -> tuple[Floats, float]:
    """Return bytes between bins of consecutive tasks or nodes, and the width of a bin.

    ``numbers`` holds the number or the node of each task; all of them are less than ``n_numbers``.
    """
    comm = workload.total
    width = max(1.0, n_numbers / max_bins)
    n = math.ceil(n_numbers / width)
    row = (numbers[comm.src] // width).astype(np.int64)
    column = (numbers[comm.dst] // width).astype(np.int64)
    cell = row * n + column
    sums = np.bincount(cell, comm.nbytes, minlength=n * n).reshape(n, n)
    return sums.astype(np.float64), width


def draw_traffic(
    workload: Workload, numbers: NDArray[np.integer[Any]], n_numbers: int, noun: str
) -> str:
    """Return the matrix of `bin_traffic` as a chart; ``noun`` is "task" or "node"."""
    return svg.draw_matrix(*bin_traffic(workload, numbers, n_numbers), noun)


def compare_times(
    time: float | tuple[float, float], other: float | tuple[float, float], name: str
) -> str:
    """Return the relative difference of two times, such as "21 % less than ``name``".

    If a time is an interval, so is the difference, such as "5 to 47 % less than ``name``".
    """
    times, others = np.ravel(time), np.ravel(other)
    # For the smallest gain, compare the upper end of `time` with the lower end of `other`.
    low = 1 - times[-1] / others[0] if others[0] else 0.0
    high = 1 - times[0] / others[-1] if others[-1] else 0.0
    if max(abs(low), abs(high)) < _EQUAL:
        return f"as long as {name}"
    if low < 0 < high:
        return f"{percent(-low)} more to {percent(high)} less than {name}"
    shares = dict.fromkeys(map(percent, sorted([abs(low), abs(high)])))
    between = " to ".join(shares).replace(" % to", " to")
    return f"{between} {'less' if high > 0 else 'more'} than {name}"


def describe_certainty(verdict: Verdict, noun: str = "candidate") -> str:
    """Return a sentence with the certainty of the best; ``noun`` is the word for other mappings."""
    goal, sure = percent(verdict.tolerance, digits=2), probability(verdict.certainty)
    if verdict.kind == "undecided":
        return f"Undecided: only {sure} sure that no other {noun} is more than {goal} faster."
    return f"{sure.capitalize()} sure: no other {noun} is more than {goal} faster."


def describe_rivals(verdict: Verdict, condition: str = "") -> str:
    """Return a sentence that names the rivals, or nothing if there are none."""
    rivals = joined(verdict.rivals)
    return f"The best is indistinguishable from {rivals}{condition}." if rivals else ""


def certainty_badge(verdict: Verdict, workload: Workload, p_best: float = 0.0) -> str:
    """Return the certainty in one to three words; ``p_best`` is its lower bound."""
    if verdict.kind == "sure":
        return f"{probability(max(verdict.certainty, p_best))} sure"
    return verdict.in_words(workload)


@dataclass(frozen=True)
class CandidateRanking:
    """Candidates in the order of an answer; ``best`` and ``yours`` (the baseline) are indices.

    ``times`` are seconds, and ``intervals`` are their lower and upper ends. ``sources`` follow
    times in sentences, such as " predicted", and are empty for exact times. ``baseline_name`` is
    the baseline's name there. ``upcoming`` names candidates to run next, and ``predicted`` those
    whose times are predictions. ``proved`` states that no candidate is faster than the best.
    """

    names: Sequence[str]
    times: Sequence[float]
    yours: int | None = None
    best: int = 0
    baseline_name: str = DEFAULT_ORDER
    sources: Sequence[str] = ()
    intervals: Sequence[tuple[float, float]] = ()
    upcoming: Sequence[str] = ()
    predicted: Container[str] = ()
    proved: bool = True

    @property
    def baseline(self) -> float | None:
        """Time of the baseline in seconds; None if there is no baseline or no other candidate."""
        return None if self.yours is None or len(self.names) < 2 else self.times[self.yours]

    def change_columns(self, time: str = "time") -> list[Column]:
        """Return the column of times relative to the baseline, if there is one."""
        if not self.baseline:
            return []
        return [Column(time, "vs default", "change", against=self.baseline)]

    def headline(self) -> Headline:
        """Return the mapping to use, its time, and its gain."""
        best, time = shown_name(self.names[self.best]), self._format_time(self.best)
        if self.yours is None and len(self.names) == 1:
            return Headline("", best, f" takes {time}")
        if self.yours == self.best:
            known = "" if self.proved else "known to be "
            others = f"; no candidate is {known}faster" if len(self.names) > 1 else ""
            return Headline(f"Keep {self.baseline_name}, ", best, f": {time}{others}")
        base = 1 if self.yours is None else self.yours
        baseline = f"({shown_name(self.names[base])}, {self._format_time(base)})"
        return Headline("Use ", best, f": {time}, {self.describe_gain()} {baseline}")

    def describe_gain(self) -> str:
        """Return the gain of the best over the baseline, or else over the next candidate.

        The gain is an interval if the two times have different sources.
        """
        base, name = (1, "the next") if self.yours is None else (self.yours, self.baseline_name)
        is_interval = bool(self.sources) and self.sources[self.best] != self.sources[base]
        time, other = (
            self.intervals[i] if is_interval and self.sources[i] else self.times[i]
            for i in (self.best, base)
        )
        return compare_times(time, other, name)

    def _format_time(self, i: int) -> str:
        return seconds(self.times[i]) + (self.sources[i] if self.sources else "")

    def describe_similarity(self) -> str:
        """If all times are similar, return a sentence: the mapping hardly matters."""
        low, high = min(self.times), max(self.times)
        if len(self.times) < 2 or high >= (1 + _NEGLIGIBLE) * low > 0:
            return ""
        similar = "take the same time" if high == low else f"are within {percent(_NEGLIGIBLE)}"
        return f"All candidates {similar}, so the mapping hardly matters here."

    def chart(
        self,
        quantity: str = "Time",
        note: str = "",
        *,
        lower_bound: float = 0.0,
        ticks: Sequence[float] = (),
        extra_rows: Sequence[int] = (),
    ) -> Chart:
        """Return the times of the first candidates, the baseline and the last as a chart.

        ``lower_bound`` is the lower bound over all mappings; ``ticks`` are marked below the rows.
        """
        n = len(self.names)
        others = [self.best if self.yours is None else self.yours, self.best, n - 1, *extra_rows]
        chosen = sorted({*range(min(_N_ROWS, n)), *others})
        scale, unit = time_unit([self.times[self.best]])
        previous = [-1, *chosen[:-1]]
        rows = [self._make_row(i, i - j - 1) for i, j in zip(chosen, previous, strict=True)]
        relative = f"; per cent relative to {self.baseline_name}" if self.baseline else ""
        legend = " Each tick below is a candidate." if len(ticks) > 1 else ""
        marked = [(row.time, row.kind) for row in rows if row.kind != "other"]
        hollow = " Hollow dots are predicted." if len({row.predicted for row in rows}) > 1 else ""
        following = " Green is the next run." if any(row.kind == "third" for row in rows) else ""
        lead = f"{quantity}, {unit}{relative}.{note}{hollow}{following}{legend}"
        draw = partial(
            svg.draw_times, rows, scale, unit, lower_bound=lower_bound, ticks=ticks, marked=marked
        )
        return Chart("candidate-times", "", lead, draw)

    def _make_row(self, i: int, n_skipped: int) -> svg.Row:
        """Return the chart row of candidate ``i``, which follows ``n_skipped`` omitted rows."""
        low, high = self.intervals[i] if self.intervals else (0.0, 0.0)
        kind = "best" if i == self.best else "yours" if i == self.yours else "other"
        name, time = self.names[i], self.times[i]
        label = shortened(shown_name(name), _MAX_LABEL)
        base = None if i == self.yours else self.baseline
        note = change(time / base - 1) if base else ""
        kind = "third" if name in self.upcoming else kind
        return svg.Row(label, time, kind, low, high, note, n_skipped, name in self.predicted)

    def compare_traffic(
        self, problem: MappingProblem, mappings: Sequence[TaskMapping], network_only: bool = True
    ) -> TrafficComparison:
        """Return the traffic under the candidates: the best, the baseline, then the others."""
        candidates = list(map(Candidate, self.names, mappings, self.times))
        has_baseline = self.yours not in (None, self.best)
        first = [self.best, *([self.yours] if self.yours is not None else [])]
        order = dict.fromkeys([*first, *range(len(candidates))])
        ordered = [candidates[i] for i in order]
        return TrafficComparison(problem, ordered, has_baseline, network_only)
