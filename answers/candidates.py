"""What answers show of candidate mappings: their order and times, limits, links, and traffic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._features.reasons import Reasons, explain
from toruscast._slow import pandas as pd
from toruscast.decision.results import Verdict
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

from . import svg
from .blocks import Answer, Chart, File, Headline, Section
from .links import PAIRS, Candidate, LinkMap, LinkUse, link_uses
from .table import Column, Mark, Table

# Tasks up to which the launcher's file stands on the page.
_MOST_LINES = 20_000
_MOVED, _NODES_LISTED, _BINS, _CURVE = 5, 5, 32, 120
DEFAULT_ORDER = "the default order of tasks"
# By how much all candidates differ at most where none is worth choosing.
_ALIKE = 0.01
# Rows of the picture of times, and letters of a name in it.
_FIRST, _LABEL = 5, 60
PARTS = {
    "link": "busiest link",
    "injection": "injection FIFO",
    "latency": "software and hops",
    "reception": "reception",
}
"""Parts of a network that bound a time, in the order in which they are shown."""
BINDING = {
    "link": "the busiest link",
    "injection": "the busiest injection FIFO",
    "reception": "the busiest receiving node",
    "latency": "software overhead, hops and the longest message",
}
_CHAIN = "the longest chain of messages that wait for each other"


def bound_line(why: Reasons, estimated: bool, dependent: bool = False) -> str:
    """Return what bounds the time of a mapping, in words; or by estimate, where ways are open.

    In ``dependent`` rounds messages wait for each other.
    """
    others = ", ".join(f"{k} {seconds(v)}" for k, v in why.bounds.items() if k != why.binding)
    least = seconds(why.bounds[why.binding])
    what = _CHAIN if dependent and why.binding == "latency" else BINDING[why.binding]
    if estimated:
        return f"Limited by {what}, an estimate of {least} ({others})."
    return f"Limited by {what}: {least} at least ({others})."


def link_note(label: str) -> str:
    """Return what the name of a link means, on an example."""
    node, _, way = label.partition(" ")
    sign = "plus" if way.startswith("+") else "minus"
    return f"{label}: the link that leaves node {node} in {sign} direction of dimension {way[1:]}."


@dataclass(frozen=True)
class View:
    """Traffic on a torus under several mappings: the best, what it is compared with, the others."""

    problem: MappingProblem
    candidates: Sequence[Candidate]
    moved: bool = True
    """Whether the second is what the user has now, and not a runner-up."""

    @property
    def compared(self) -> Sequence[Candidate]:
        """The best and what it is compared with, where there is one."""
        return self.candidates[:2]

    @property
    def best(self) -> TaskMapping:
        """The mapping of the best."""
        return self.candidates[0].mapping

    @property
    def names(self) -> list[str]:
        """Names of those compared, each once."""
        first, *second = [shown_name(one.name) for one in self.compared]
        return [first, *(name if name != first else f"{name} (now)" for name in second)]

    @property
    def estimated(self) -> bool:
        """Whether packets choose their way, so that loads are expected values."""
        return has_multiple_routes(self.problem)

    @cached_property
    def reasons(self) -> list[Reasons]:
        """What limits the mappings that are compared."""
        return [explain(self.problem, one.mapping) for one in self.compared]

    @cached_property
    def uses(self) -> list[LinkUse]:
        """Use of the links under the mappings that are compared."""
        return link_uses(self.problem, self.compared)

    def load(self, most: int) -> list[LinkUse]:
        """Return the use of the links under at most so many of the candidates."""
        others = self.candidates[2:most]
        return [*self.uses[:most], *link_uses(self.problem, others)]

    def why(self) -> list[Section]:
        """Return what each part of the network needs at least under those compared."""
        parts, values, limits = self._bounds()
        unit = time_unit(map(max, values))[1]
        verb = "is estimated to need" if self.estimated else "needs at least"
        needs = f"What each part of the network {verb}"
        lead = (
            f"{needs}, {unit}, under {joined(self.names)}. The longest one, solid, is the limit; "
            "the line is the whole time."
        )
        names = self.names
        limited = [
            " and ".join(n for n, limit in zip(names, limits, strict=True) if limit == i)
            for i in range(len(parts))
        ]
        frame = pd.DataFrame({"part": parts, "limit": limited})
        columns = [Column("part", priority=0), Column("limit", "limit of")]
        for i, (name, own) in enumerate(zip(names, values, strict=True)):
            frame[str(i)] = own
            columns.insert(i + 1, Column(str(i), name, "seconds", priority=0))
        title = self._limit_title()
        return [
            Section(title, [self.limits()], lead, wide=False, only="page"),
            Section(title, [Table(frame, columns, needs)], only="terminal"),
        ]

    def limits(self) -> Chart:
        """Return the same as a chart."""
        parts, values, limits = self._bounds()
        scale, unit = time_unit(map(max, values))
        series = list(zip(self.names, ("best", "yours"), values, strict=False))
        done = [one.time for one in self.compared]
        draw = partial(svg.bars, parts, series, scale, unit, limits, done)
        return Chart("limits", "", "", draw)

    def _bounds(self) -> tuple[list[str], list[list[float]], list[int]]:
        """Return parts of the network, their bounds under each, and which is the longest."""
        kinds = [part for part in PARTS if part in self.reasons[0].bounds]
        values = [[why.bounds[part] for part in kinds] for why in self.reasons]
        limits = [kinds.index(why.binding) for why in self.reasons]
        return [PARTS[part] for part in kinds], values, limits

    def _limit_title(self) -> str:
        first, *others = [BINDING[why.binding] for why in self.reasons]
        if not others or not self.moved:
            return f"Why: {first} is the limit"
        if first == others[0]:
            return f"Why: {first} is the limit of both"
        return f"Why: {others[0]} stops being the limit"

    def where(self, others: int = 0) -> list[Section]:
        """Return the map of links, their spread, and what moved."""
        lead = (
            "A cell is a link: its column is the place along the dimension, its row the ring. "
            "All maps have one scale of time. Green frames: the three hottest links."
        )
        if self.problem.torus.twist:
            lead += " A line above a column: these wrap links shift along another dimension."
        if self.estimated:
            lead += " Packets choose their way, so the times are expected values."
        if others > 0:
            lead += f" Left out, to keep the file small: {counted(others, 'candidate')}."
        curves = Chart("spread", "", "", self._spread)
        where = LinkMap(self.problem.torus, self.load)
        return [
            Section("Where: how long each link works", [where], lead, brief=False),
            Section(
                "Spread: links from hottest to idlest",
                [curves],
                f"Busy time of each link under {joined(self.names)}.",
                wide=False,
                only="page",
            ),
            *self._moved(),
        ]

    def _spread(self) -> str:
        series = []
        values = [np.sort(use.seconds[self.problem.torus.link_exists])[::-1] for use in self.uses]
        scale, unit = time_unit([float(each.max(initial=0.0)) for each in values])
        for use, busy, kind in zip(self.uses, values, ("best", "yours"), strict=False):
            at = np.unique(np.linspace(0, busy.size - 1, min(_CURVE, busy.size)).astype(int))
            series.append(svg.Series(use.name, kind, at + 1, busy[at] / scale))
        return svg.plot(series, "links, the hottest first", f"busy, {unit}", lines=True)

    def _moved(self) -> list[Section]:
        """Return the hottest links of what the best is compared with, and their task pairs."""
        two = len(self.uses) > 1
        from_ = self.uses[1 if two else 0]
        if from_.behind is None or not from_.behind.links.size:
            return []
        busy, behind = from_.seconds, from_.behind
        order = np.argsort(-busy[behind.links], kind="stable")[:_MOVED]
        links = behind.links[order]
        nodes = [one.mapping.node for one in reversed(self.compared)]
        frame = pd.DataFrame(
            {
                "link": [self.problem.torus.link_label(link) for link in links.tolist()],
                "pairs": [
                    tuple(
                        self._pair(src, dst, amount, nodes)
                        for (src, dst), amount in zip(ends, amounts, strict=True)
                        if src >= 0
                    )
                    for ends, amounts in zip(behind.ends[order], behind.nbytes[order], strict=True)
                ],
            }
        )
        columns = [Column("link", kind="label", priority=0), Column("pairs", "task pairs", "label")]
        pairs = zip(reversed(self.names), reversed(self.uses), strict=True)
        for i, (name, use) in enumerate(pairs):
            frame[str(i)] = use.seconds[links]
            columns.insert(i + 1, Column(str(i), name, "seconds", priority=0))
        title = "What moved: the hottest links" if two and self.moved else "The hottest links"
        lead = (
            f"Busy time under {shown_name(from_.name)}, and what becomes of it; the "
            f"{counted(PAIRS, 'pair')} of tasks that send most over it, and their hops under both."
            if two
            else ""
        )
        return [Section(title, [Table(frame, columns)], lead, brief=False, wide=False)]

    def _pair(
        self, src: int, dst: int, amount: float, nodes: Sequence[NDArray[np.integer[Any]]]
    ) -> str:
        """Return what a pair of tasks sends, and its hops under each mapping."""
        hops = [str(self.problem.torus.distance(node[src], node[dst])) for node in nodes]
        noun = "hop" if hops == ["1"] else "hops"
        return f"{src} to {dst}: {nbytes(amount)}, {' -> '.join(hops)} {noun}"

    def traffic(self) -> Section:
        """Return who sends to whom, how far, and the phases under the best mapping."""
        workload, comm = self.problem.workload, self.problem.comm
        name = shown_name(self.candidates[0].name)

        def by_task() -> str:
            return svg.matrix(*binned(workload, np.arange(comm.n_tasks), comm.n_tasks), "task")

        def by_node() -> str:
            return svg.matrix(*binned(workload, self.best.node, self.problem.torus.n_nodes), "node")

        sent = f"{counted(comm.n_edges, 'pair')} of tasks send {nbytes(comm.nbytes.sum())}."
        blocks: list[Chart | Table] = [
            Chart("matrix-tasks", "Who sends to whom, by task", sent, by_task),
            Chart("matrix-nodes", f"By node, under {name}", "Near the diagonal: near.", by_node),
            self._hops(),
            self._phases(f"Phases under {name}"),
            self._fullest_nodes(f"Fullest injection FIFOs under {name}"),
        ]
        return Section("Traffic and hop distances", blocks, folded=True)

    def _hops(self) -> Table:
        shares = [hop_shares(self.problem, one.mapping) for one in self.compared]
        n = max(map(len, shares))
        frame = pd.DataFrame({"hops": range(n)})
        columns = [Column("hops", kind="count")]
        for i, (name, share) in enumerate(zip(self.names, shares, strict=True)):
            frame[str(i)] = np.pad(share, (0, n - len(share)))
            columns.append(Column(str(i), name, "share", digits=1))
        title = f"Share of the {nbytes(self.problem.comm.nbytes.sum())} over each number of hops"
        return Table(frame, columns, title)

    def _phases(self, title: str) -> Table:
        """Return what bounds each phase under the best mapping."""
        rows = []
        for i, phase in enumerate(self.problem.phases):
            why = explain(phase, self.best)
            sent, least = float(phase.comm.nbytes.sum()), why.lower_bound
            rate = sent / least / 1e9 if least else math.nan
            rows.append((i + 1, sent, least, BINDING[why.binding], rate))
        names = ["phase", "bytes", "lower_bound", "limit", "rate"]
        columns = [
            Column("phase", kind="count", priority=0),
            Column("bytes", kind="bytes"),
            Column("lower_bound", kind="seconds"),
            Column("limit", "limited by"),
            Column("rate", "GB/s at most", "number"),
        ]
        return Table(pd.DataFrame(rows, columns=names), columns, title, top=5)

    def _fullest_nodes(self, title: str) -> Table:
        """Return the nodes whose injection FIFOs take most messages under the best mapping."""
        comm, torus = self.problem.comm, self.problem.torus
        fifo = injection_fifos(self.problem.total, self.best)
        remote = fifo >= 0
        n_fifos = max(torus.network.fifos, int(fifo.max(initial=0)) + 1)
        sender, receiver = self.best.node[comm.src[remote]], self.best.node[comm.dst[remote]]
        messages = np.zeros((torus.n_nodes, n_fifos))
        np.add.at(messages, (sender, fifo[remote]), comm.n_messages[remote])
        most = messages.max(axis=1)
        sent, received = (
            np.bincount(node, comm.nbytes[remote], torus.n_nodes) for node in (sender, receiver)
        )
        fullest = np.argsort(-most, kind="stable")[:_NODES_LISTED]
        frame = pd.DataFrame(
            {
                "node": [node_label(torus, node) for node in fullest.tolist()],
                "messages": most[fullest],
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

    def answer(self, headline: Headline, **how: Any) -> Answer:
        """Return an answer about the best and what it was made from; ``source`` is of `Answer`."""
        comm, torus = self.problem.comm, self.problem.torus
        facts = [
            ("application", f"{comm.name or 'without a name'}, {counted(comm.n_tasks, 'task')}"),
            ("torus", f"{torus}, {counted(torus.n_nodes, 'node')}"),
            ("routing", self.problem.routing),
            ("candidates", str(len(self.candidates))),
        ]
        omitted = self.problem.workload.omitted
        return Answer(headline, facts=facts, omitted=omitted, mapping=self.best, **how)

    def launcher_file(self) -> File | None:
        """Return the best mapping as the launcher's file; None if it is too long for a page."""
        if self.problem.workload.n_tasks > _MOST_LINES:
            return None
        return File("best.map", format_bluegene(self.best, self.problem.torus))


def setting_of(problem: MappingProblem) -> str:
    """Return what is sent over which torus, in a line."""
    workload, comm = problem.workload, problem.comm
    kind = "one exchange of messages"
    if len(workload) > 1:
        kind = counted(len(workload), "round" if workload.dependent else "phase")
    name = shown_name(comm.name or "application")
    return f"{name}, {counted(comm.n_tasks, 'task')}, on torus {problem.torus}, {kind}"


def node_label(torus: Torus, node: int) -> str:
    """Return the coordinates of a node."""
    return "(" + ",".join(map(str, torus.coords[node].tolist())) + ")"


def hop_shares(problem: MappingProblem, mapping: TaskMapping) -> NDArray[np.float64]:
    """Return the share of the bytes over 0, 1, 2, ... hops."""
    comm, node = problem.comm, mapping.node
    hops = problem.torus.distance(node[comm.src], node[comm.dst])
    sums = np.bincount(hops, comm.nbytes)
    return sums / (sums.sum() or 1.0)


def binned(
    workload: Workload, place: NDArray[np.integer[Any]], most: int, bins: int = _BINS
) -> tuple[NDArray[np.float64], float]:
    """Return bytes between bins of tasks, or of nodes, and how many numbers a bin holds.

    ``place`` is the number of each task, below ``most``.
    """
    comm = workload.total
    of = max(1.0, most / bins)
    n = math.ceil(most / of)
    row, column = (place[ends] // of for ends in (comm.src, comm.dst))
    at = row.astype(np.int64) * n + column.astype(np.int64)
    sums = np.bincount(at, comm.nbytes, minlength=n * n).reshape(n, n)
    return sums.astype(np.float64), of


def less(time: float | tuple[float, float], than: float | tuple[float, float], what: str) -> str:
    """Return how much less or more a time is than another, such as "21 % less than X".

    Times known to lie between two give both ends, such as "5 to 47 % less than X".
    """
    ends = np.ravel(time)[[-1, 0]], np.ravel(than)[[0, -1]]
    low, high = (1 - own / other if other else 0.0 for own, other in zip(*ends, strict=True))
    if max(abs(low), abs(high)) < 5e-4:
        return f"as long as {what}"
    if low < 0 < high:
        return f"{percent(-low)} more to {percent(high)} less than {what}"
    shares = dict.fromkeys(map(percent, sorted([abs(low), abs(high)])))
    between = " to ".join(shares).replace(" % to", " to")
    return f"{between} {'less' if high > 0 else 'more'} than {what}"


def how_sure(verdict: Verdict, among: str = "candidate") -> str:
    """Return how sure it is that no other candidate is much faster, in a sentence."""
    sure = f"{'Only ' * (verdict.kind == 'undecided')}{probability(verdict.certainty)} sure"
    goal = percent(verdict.tolerance, digits=3)
    return f"{sure.capitalize()} that no other {among} is more than {goal} faster."


def indistinguishable(verdict: Verdict, how: str = "") -> str:
    """Return which candidates cannot be told apart from the best, in a sentence."""
    return f"It cannot be told apart from {joined(verdict.rivals)}{how}." if verdict.rivals else ""


def badge(verdict: Verdict, workload: Workload, chance: float = 0.0) -> str:
    """Return how sure an answer is, in a few words; ``chance`` is that the best is the fastest."""
    sure = f"{probability(max(verdict.certainty, chance))} sure"
    return {"sure": sure, "undecided": f"undecided: {sure}"}.get(
        verdict.kind, verdict.in_words(workload)
    )


@dataclass(frozen=True)
class CandidateRanking:
    """Candidates in the order of an answer; ``yours`` is the baseline, which ``against`` names.

    ``sources`` say where each time is from, such as " predicted", and are empty where it is
    exact; ``ends`` are its interval. ``proved`` says that no other is faster than the best.
    """

    names: Sequence[str]
    times: Sequence[float]
    yours: int | None = None
    best: int = 0
    against: str = DEFAULT_ORDER
    sources: Sequence[str] = ()
    ends: Sequence[tuple[float, float]] = ()
    proved: bool = True

    @property
    def baseline(self) -> float | None:
        """Seconds that the others are compared with, where there are others."""
        return None if self.yours is None or len(self.names) < 2 else self.times[self.yours]

    def changes(self, time: str = "time") -> list[Column]:
        """Return the column of the times against the baseline, where there is one."""
        if not self.baseline:
            return []
        return [Column(time, "vs default", "change", against=self.baseline)]

    def mark(self, row: int) -> Mark:
        """Return whether a candidate is the best or the user's."""
        return "best" if row == self.best else "yours" if row == self.yours else ""

    def headline(self) -> Headline:
        """Return which mapping to use, its time, and what it gains."""
        best, told = shown_name(self.names[self.best]), self._told(self.best)
        if self.yours is None and len(self.names) == 1:
            return Headline("", best, f" takes {told}")
        if self.yours == self.best:
            known = "" if self.proved else "known to be "
            others = f"; no candidate is {known}faster" if len(self.names) > 1 else ""
            return Headline(f"Keep {self.against}, ", best, f": {told}{others}")
        than = 1 if self.yours is None else self.yours
        at = f"({shown_name(self.names[than])}, {self._told(than)})"
        return Headline("Use ", best, f": {told}, {self.gain()} {at}")

    def gain(self) -> str:
        """Return how much less the best takes than the baseline, or than the next without one.

        Times from different sources are not compared as numbers: the gain is an interval then.
        """
        than, what = (1, "the next") if self.yours is None else (self.yours, self.against)
        is_interval = bool(self.sources) and self.sources[self.best] != self.sources[than]
        time, other = (
            self.ends[i] if is_interval and self.sources[i] else self.times[i]
            for i in (self.best, than)
        )
        return less(time, other, what)

    def _told(self, i: int) -> str:
        return seconds(self.times[i]) + (self.sources[i] if self.sources else "")

    def alike(self) -> str:
        """Return that the mapping hardly matters, where it does not."""
        low, high = min(self.times), max(self.times)
        if len(self.times) < 2 or high >= (1 + _ALIKE) * low > 0:
            return ""
        within = "take the same time" if high == low else f"lie within {percent(_ALIKE)} of it"
        return f"All candidates {within}: the mapping hardly matters here."

    def chart(
        self,
        what: str = "Time",
        more: str = "",
        *,
        floor: float = 0.0,
        every: Sequence[float] = (),
        also: Sequence[int] = (),
    ) -> Chart:
        """Return the first candidates, yours and the last one as a chart.

        ``floor`` is the lower bound over all mappings, ``every`` are the times that get a tick, and
        ``also`` further rows.
        """
        n = len(self.names)
        others = [self.best if self.yours is None else self.yours, self.best, n - 1, *also]
        chosen = sorted({*range(min(_FIRST, n)), *others})
        scale, unit = time_unit([self.times[self.best]])
        rows = list(map(self._row, chosen))
        out = n - len(chosen)
        left_out = f"not drawn: {counted(out, 'candidate')} between" if out else ""
        against = f"; per cent against {self.against}" if self.baseline else ""
        ticks = " Every tick below is a candidate." if len(every) > 1 else ""
        marked = [(row.time, row.kind) for row in rows if row.kind != "other"]
        return Chart(
            "candidate-times",
            "",
            f"{what}, {unit}{against}.{more}{ticks}",
            lambda: svg.times(rows, scale, unit, floor, every, left_out, marked),
        )

    def _row(self, i: int) -> svg.Row:
        """Return the time of a candidate in the chart."""
        low, high = self.ends[i] if self.ends else (0.0, 0.0)
        label, time = shortened(shown_name(self.names[i]), _LABEL), self.times[i]
        base = None if i == self.yours else self.baseline
        note = change(time / base - 1) if base else ""
        return svg.Row(label, time, self.mark(i) or "other", low, high, note)

    def view(self, problem: MappingProblem, mappings: Sequence[TaskMapping]) -> View:
        """Return the traffic under all candidates: the best, yours or the next, the others."""
        several = list(map(Candidate, self.names, mappings, self.times))
        is_moved = self.yours not in (None, self.best)
        first = [self.best, *([self.yours] if self.yours is not None else [])]
        order = dict.fromkeys([*first, *range(len(several))])
        return View(problem, [several[i] for i in order], is_moved)
