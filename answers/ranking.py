"""Candidates of an answer in their order: the best, and the one that they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toruscast.decision.results import Verdict
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.text import (
    change,
    counted,
    joined,
    percent,
    probability,
    seconds,
    shortened,
    shown_name,
    time_unit,
)

from . import svg
from .blocks import Chart, Headline
from .links import Candidate
from .table import Column, Mark
from .traffic import View

DEFAULT_ORDER = "the default order of tasks"
# By how much all candidates differ at most where none is worth choosing.
_ALIKE = 0.01
# Rows of the picture of times, and letters of a name in it.
_FIRST, _LABEL = 5, 60


def less(time: float, than: float, what: str) -> str:
    """Return how much less or more a time is than another, such as "21 % less than X"."""
    share = 1 - time / than if than else 0.0
    if abs(share) < 5e-4:
        return f"as long as {what}"
    return f"{percent(abs(share))} {'less' if share > 0 else 'more'} than {what}"


def how_sure(verdict: Verdict, among: str = "candidate") -> str:
    """Return how sure it is that no other candidate is much faster, in a sentence."""
    sure = f"{'Only ' * (verdict.kind == 'open')}{probability(verdict.certainty)} sure"
    goal = percent(verdict.goal, digits=3)
    return f"{sure.capitalize()} that no other {among} is more than {goal} faster."


def indistinguishable(verdict: Verdict, how: str = "") -> str:
    """Return which candidates cannot be told apart from the best, in a sentence."""
    return f"It cannot be told apart from {joined(verdict.rivals)}{how}." if verdict.rivals else ""


def badge(verdict: Verdict, certainty: float | None = None) -> str:
    """Return the same in a word or three."""
    sure = f"{probability(max(verdict.certainty, certainty or 0.0))} sure"
    return {"sure": sure, "open": f"open: {sure}"}.get(verdict.kind, verdict.kind)


@dataclass(frozen=True)
class Ranking:
    """Candidates in the order of an answer; ``yours`` is the baseline, which ``against`` names."""

    names: Sequence[str]
    times: Sequence[float]
    yours: int | None = None
    best: int = 0
    against: str = DEFAULT_ORDER

    @property
    def baseline(self) -> float | None:
        """Seconds that the others are compared with, where there are others."""
        return None if self.yours is None or len(self.names) < 2 else self.times[self.yours]

    def changes(self, name: str = "time") -> list[Column]:
        """Return the column of the times against the baseline, where there is one."""
        if not self.baseline:
            return []
        return [Column(name, "vs default", "change", against=self.baseline)]

    def mark(self, row: int) -> Mark:
        """Return whether a candidate is the best or the user's."""
        return "best" if row == self.best else "yours" if row == self.yours else ""

    def headline(self, source: str = "", source_of_yours: str = "") -> Headline:
        """Return which mapping to use; the sources say where the two times are from."""
        names, times = self.names, self.times
        best, time = shown_name(names[self.best]), times[self.best]
        told = f"{seconds(time)}{source}"
        if self.yours is None and len(names) == 1:
            return Headline("", best, f" takes {told}")
        if self.yours is None:
            gain = f"{less(time, times[1], 'the next')}, {shown_name(names[1])}"
        elif self.yours == self.best:
            others = "; no candidate is faster" if len(names) > 1 else ""
            return Headline(f"Keep {self.against}, ", best, f": {told}{others}")
        else:
            than = times[self.yours]
            at = f" ({shown_name(names[self.yours])}, {seconds(than)}{source_of_yours})"
            gain = f"{less(time, than, self.against)}{at}"
        return Headline("Use ", best, f": {told}, {gain}")

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
        ends: Sequence[tuple[float, float]] = (),
        floor: float = 0.0,
        every: Sequence[float] = (),
        also: Sequence[int] = (),
    ) -> Chart:
        """Return the first candidates, yours and the last one as a chart.

        ``ends`` are intervals, ``floor`` is the lower bound over all mappings, ``every`` are the
        times that get a tick, and ``also`` further rows.
        """
        n = len(self.names)
        others = [self.best if self.yours is None else self.yours, self.best, n - 1, *also]
        chosen = sorted({*range(min(_FIRST, n)), *others})
        scale, unit = time_unit([self.times[self.best]])
        rows = [self._row(i, *(ends[i] if ends else (0.0, 0.0))) for i in chosen]
        out = n - len(chosen)
        left_out = f"{counted(out, 'candidate')} between are not drawn" if out else ""
        against = f"; per cent against {self.against}" if self.baseline else ""
        ticks = " Every tick below is a candidate." if len(every) > 1 else ""
        marked = [(row.time, row.kind) for row in rows if row.kind != "other"]
        return Chart(
            "candidate-times",
            "",
            f"{what}, {unit}{against}.{more}{ticks}",
            lambda: svg.times(rows, scale, unit, floor, every, left_out, marked),
        )

    def _row(self, i: int, low: float, high: float) -> svg.Row:
        """Return the time of a candidate in the chart."""
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
