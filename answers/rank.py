"""The answer of `forecast`: which mapping to use, how much that gains, how sure it is, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from toruscast.decision import Forecast
from toruscast.decision.results import OF_SUMS, Networks
from toruscast.errors import InputError
from toruscast.features.reasons import Reasons
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.mapping.task_mapping import Allocation
from toruscast.search.lower_bounds import least_time
from toruscast.text import (
    byte_unit,
    counted,
    number,
    percent,
    probability,
    seconds,
    shortened,
    shown_name,
    time_unit,
)

from . import svg
from .blocks import (
    Answer,
    Block,
    Chart,
    Headline,
    Mark,
    Section,
    Sentence,
    TableBlock,
    all_candidates,
)
from .learned import learned_content, learned_lines, observed_chart, times_against
from .links import Candidate, most_candidates
from .traffic import View, bound_line, link_note, setting_of

DEFAULT_ORDER = "the default order of tasks"
# What the launcher of Fugaku does where nobody says otherwise.
_DEFAULTS = tuple(f"rank-map-bynode={'XYZ'[:n]}" for n in (1, 2, 3))
# By how much all candidates differ at most where none is worth choosing.
_ALIKE = 0.01
# Share above the lower bound over all mappings from which a search is worth its time.
_FAR = 0.05
# A time so near to that bound is at it.
_AT_FLOOR = 0.005
# Rivals that are named, and rows of the picture of times.
_NAMED, _FIRST = 4, 5
# Letters of a name in the picture of times.
_LABEL = 60
_NETWORK_ONLY = "Times are of the network alone: computation and other jobs are not in them."


def default_order(
    mappings: Sequence[TaskMapping], names: Sequence[str], torus: Torus
) -> str | None:
    """Return the name of the mapping that puts the tasks in order on the nodes, if one does."""
    launched = next((name for name in names if name in _DEFAULTS), None)
    if launched is not None:
        return launched
    first = mappings[0]
    try:
        allocation = Allocation(torus, tasks_per_node=first.tasks_per_node)
        in_order = allocation.in_order(first.n_tasks).node
    except InputError:
        in_order = np.empty(0, dtype=np.int32)
    for mapping, name in zip(mappings, names, strict=True):
        if name == "identity" or np.array_equal(mapping.node, in_order):
            return name
    return None


def less(time: float, than: float, what: str) -> str:
    """Return how much less or more a time is than another, such as "21 % less than X"."""
    share = 1 - time / than if than else 0.0
    if abs(share) < 5e-4:
        return f"as long as {what}"
    return f"{percent(abs(share))} {'less' if share > 0 else 'more'} than {what}"


def versus(time: float, reference: float) -> str:
    """Return the change of a time against a reference in per cent, with its sign."""
    share = 100 * (time / reference - 1) if reference else 0.0
    return "0 %" if abs(share) < 0.5 else f"{share:+.0f} %"


def alike(times: pd.Series[float]) -> str:
    """Return that the mapping hardly matters, where it does not."""
    least, most = float(times.min()), float(times.max())
    if len(times) < 2 or most >= (1 + _ALIKE) * least > 0:
        return ""
    within = "take the same time" if most == least else f"lie within {percent(_ALIKE)} of it"
    return f"All candidates {within}: the mapping hardly matters here."


def headline(
    names: Sequence[str],
    times: Sequence[float],
    yours: str | None,
    source: str = "",
    source_of_yours: str = "",
) -> Headline:
    """Return which mapping to use; ``yours`` is the default order of tasks, among the names.

    The sources say where the two times are from.
    """
    best, time = shown_name(names[0]), times[0]
    told = f"{seconds(time)}{source}"
    if yours is None and len(names) == 1:
        return Headline("", best, f" takes {told}")
    if yours is None:
        gain = f"{less(time, times[1], 'the next')}, {shown_name(names[1])}"
    elif yours == names[0]:
        others = "; no candidate is faster" if len(names) > 1 else ""
        return Headline("Keep the default order of tasks, ", best, f": {told}{others}")
    else:
        than = times[list(names).index(yours)]
        at = f" ({shown_name(yours)}, {seconds(than)}{source_of_yours})"
        gain = f"{less(time, than, DEFAULT_ORDER)}{at}"
    return Headline("Use ", best, f": {told}, {gain}")


def answer(
    found: Forecast, *, setting: str = "", top: int = 10, notes: Sequence[str] = ()
) -> Answer:
    """Return what a forecast says; ``notes`` are sentences of the caller's for its answer."""
    return _Ranking(found).answer(setting, top, notes)


def times_chart(found: Forecast) -> Chart:
    """Return the five best, the default order and the slowest as a chart."""
    return _Ranking(found).times()


class _Ranking:
    """A forecast on its way to blocks."""

    def __init__(self, found: Forecast) -> None:
        self.found, self.table = found, found.table
        self.names = [str(name) for name in self.table["mapping"]]
        # Of all that a check simulated, its times count.
        checked = self.table.get("observed_time", self.table["time"])
        self.known = checked.fillna(self.table["time"]).tolist()
        self.mappings = [found.named(name) for name in self.names]
        self.yours = default_order(self.mappings, self.names, found.torus)
        self.at = None if self.yours is None else self.names.index(self.yours)

    @cached_property
    def view(self) -> View:
        """The candidates: the best, the default order or the runner-up, and as many as fit."""
        second = self.at or 1
        order = [0, second, *(i for i in range(1, len(self.names)) if i != second)]
        several = [
            Candidate(self.names[i], self.mappings[i], self.known[i])
            for i in order[: len(self.names)]
        ]
        found = self.found
        problem = MappingProblem(found.workload, found.torus, found.routing)
        return View(problem, several, bool(self.at))

    @cached_property
    def floor(self) -> float:
        """Seconds that no mapping can beat; 0 where times hold more than the network."""
        found = self.found
        if self.table["lower_bound"].isna().all() or found.fitted.target == "measured":
            return 0.0
        return least_time(found.workload, found.torus, found.best.tasks_per_node)

    def answer(self, setting: str, top: int, notes: Sequence[str]) -> Answer:
        """Return it."""
        found, view, table = self.found, self.view, self._ranking(top)
        how = found.table["how"].iloc[0]
        source = {"simulated": "", "measured": " measured"}.get(how)
        interval, checked = "", ""
        if source is None:
            source = " in the check" if found.scores else " by forecast"
            ends = " to ".join(seconds(found.table[end].iloc[0]) for end in ("low", "high"))
            interval = f"The {percent(found.coverage)} interval of its time is {ends}."
        if self.at is not None and found.scores:
            checked = " in the check" * (self.table["how"].iloc[self.at] == "forecast")
        left_out = len(self.names) - min(len(self.names), most_candidates(found.torus))
        sections = [
            Section("", [table], only="terminal"),
            Section("How much faster", [self.times()], wide=False, only="page"),
            *view.why(),
            *view.where(left_out),
        ]
        if found.learned is not None:
            lines = [Sentence(each) for each in learned_lines(found.learned)]
            sections.append(Section("What the runs taught", lines))
        if found.scores:
            sections.append(Section("The check", [Sentence(self._quality())]))
        title = f"All {counted(len(self.names), 'candidate')}"
        sections.append(all_candidates(title, table, "Candidates, the fastest first"))
        if found.networks is None:
            sections.append(self._model())
        about = setting_of(found.workload, found.torus)
        said = [trust(found), interval, self._distance(), alike(self.table["time"]), *notes]
        if found.fitted.target != "measured":
            said.append(_NETWORK_ONLY)
        return Answer(
            setting=setting or about,
            title=about,
            headline=headline(self.names, self.known, self.yours, source, checked),
            badge=badge(found),
            notes=list(filter(None, said)),
            sections=[*sections, view.traffic()],
            content=self._content(),
            rows=self.table,
            file=view.launcher_file(),
            facts=[*view.facts(), ("candidates", str(len(self.names)))],
        )

    def _distance(self) -> str:
        """Return how far the best is from the lower bound over all mappings."""
        if self.table["lower_bound"].isna().all():
            return (
                "No lower bound is shown: times of the machine lie below that of the network as it "
                "is given."
            )
        if self.found.fitted.target == "measured":
            return (
                "Times of the machine hold more than the network, so how far they are from the "
                "least of all mappings is unknown: 'toruscast search' may find a faster one."
            )
        if not self.floor:
            return ""
        above, least = self.known[0] / self.floor - 1, seconds(self.floor)
        if above < _AT_FLOOR:
            return f"No mapping can be faster ({least}): remapping has no more to give."
        far = f"{percent(above)} longer" if above < 1 else f"{1 + above:.1f} times as long"
        text = f"No mapping can be faster than {least}; this one takes {far}"
        if above <= _FAR:
            return f"{text}: remapping can give no more than that."
        return f"{text}: 'toruscast search' may find a faster one."

    def _mark(self, i: int) -> Mark:
        return "best" if i == 0 else "yours" if i == self.at else ""

    def times(self) -> Chart:
        """Return the five best, the default order and the slowest as a chart."""
        n = len(self.names)
        chosen = sorted({*range(min(_FIRST, n)), self.at or 0, n - 1})
        scale, unit = time_unit([self.known[0]])
        gap = (chosen[-2] + 2, n - 1) if n > 1 else (1, 0)
        left_out = f"ranks {gap[0]} to {gap[1]} are not drawn" if gap[0] < gap[1] else ""
        marked = [(self.known[0], "best")]
        if self.at:
            marked.append((self.known[self.at], "yours"))
        against = "" if self.at is None else f"; per cent against {DEFAULT_ORDER}"
        lead = f"Time, {unit}{against}. {'Every tick below is a candidate.' if n > 1 else ''}"
        rows = [self._bar(i) for i in chosen]
        return Chart(
            "candidate-times",
            "",
            lead,
            lambda: svg.times(rows, scale, unit, self.floor, self.known, left_out, marked),
        )

    def _bar(self, i: int) -> svg.Row:
        """Return the time of a candidate in a chart."""
        row, time = self.table.iloc[i], self.known[i]
        exact = row["how"] == "measured" or row["low"] == row["high"] or self.found.scores
        ends = (0.0, 0.0) if exact else (float(row["low"]), float(row["high"]))
        note = "" if self.at in (None, i) else versus(time, self.known[self.at or 0])
        label = f"{i + 1}. {shortened(shown_name(self.names[i]), _LABEL)}"
        return svg.Row(label, time, self._mark(i) or "other", *ends, note)

    def _ranking(self, top: int) -> TableBlock:
        """Return the candidates, the fastest first."""
        table, found = self.table, self.found
        scale, unit = time_unit(table[["time", "lower_bound"]].fillna(0).to_numpy().ravel())
        per_byte, byte_name = byte_unit(table["max_bytes"])
        coverage = f"{percent(found.coverage)}\ninterval\n{unit}"
        some_vary = bool((table["low"] != table["high"]).any())
        rows = []
        for row in table.to_dict("records"):
            cells: dict[str, object] = {
                "#": row["rank"],
                "mapping": shown_name(row["mapping"]),
                f"time\n{unit}": number(row["time"] / scale),
            }
            if self.at is not None and len(table) > 1:
                cells["vs\ndefault"] = versus(row["time"], table["time"].iloc[self.at])
            cells["source"] = row["how"]
            if some_vary:
                ends = [number(row[end] / scale) for end in ("low", "high")]
                cells[coverage] = " - ".join(ends) if row["low"] != row["high"] else ""
            cells["P(best)"] = percent(row["p_best"])
            if "observed_time" in row:
                cells[f"simu-\nlated\n{unit}"] = number(row["observed_time"] / scale)
            keep = len(cells)
            least = row["lower_bound"]
            rows.append(
                cells
                | {
                    f"lower\nbound\n{unit}": number(least / scale) if least >= 0 else "-",
                    f"max\nlink\n{byte_name}": number(row["max_bytes"] / per_byte),
                    "hops\nper\nbyte": number(row["avg_hops_per_byte"]),
                    "max\nFIFO": f"{row['max_FIFO']:.0f}",
                }
            )
        marks = [self._mark(i) for i in range(len(rows))]
        return TableBlock(rows, marks=marks, keep=keep, top=top)

    def _model(self) -> Section:
        """Return how sure the forecast is, and what it assumes."""
        found = self.found
        model = found.fitted
        names = [str(feature) for feature in model.feature_names_in_]
        blocks: list[Block] = [
            Sentence(
                f"The model learned from {model.n_samples_} samples and reads "
                f"{counted(len(names), 'feature')} of each mapping."
            )
        ]
        if found.verdict.rivals:
            named = ", ".join(map(shown_name, found.verdict.rivals[:10]))
            blocks.append(Sentence(f"Candidates that may still be the fastest: {named}."))
        if found.learned is None:
            shares = 100 * model.feature_importances_
            order = np.argsort(-shares, kind="stable")[:12].tolist()
            series = [("importance", "best", [float(shares[i]) for i in order])]
            labels = [names[i] for i in order]
            blocks.append(
                Chart(
                    "importance",
                    "What the forecast rests on",
                    "Importance of the features in the trees of the model, %.",
                    lambda: svg.bars(labels, series, 1.0, "%"),
                )
            )
        else:
            blocks.append(observed_chart(found.learned))
        rows = self.table[self.table["how"] == "forecast"]
        if found.scores and "observed_time" in self.table and len(rows) > 1:
            blocks.append(
                times_against(
                    "check",
                    "Forecast against simulated times",
                    f"{counted(len(rows), 'candidate')} that only the check simulated; RCC over "
                    f"all {found.scores['rcc']:.3f}.",
                    ("simulated", rows["observed_time"]),
                    ("forecast", rows["time"]),
                    rows["mapping"].tolist(),
                )
            )
        return Section("How sure, and what the model assumes", blocks, folded=True)

    def _quality(self) -> str:
        """Return how good the answer is where all candidates were simulated afterwards."""
        found = self.found
        scores = found.scores
        if "rcc" not in scores:
            return "One candidate: there is no order to score."
        parts = ", ".join(
            [
                f"RCC {scores['rcc']:.3f}",
                f"tau-b {scores['tau_b']:.3f}",
                f"R^2 {scores['r2']:.3f}",
                f"regret@1 {percent(scores['regret_1'], 1)}",
            ]
        )
        text = (
            f"All {len(found.table)} candidates were simulated to check the answer; the "
            f"{found.cost.simulated} simulated before count with their times: {parts}."
        )
        if "within_interval" in scores:
            text += (
                f" The {percent(found.coverage)} intervals hold "
                f"{percent(scores['within_interval'])} of the times that were only forecast."
            )
        return f"{text} The lower bound alone orders with an RCC of {scores['rcc_of_bound']:.3f}."

    def _content(self) -> dict[str, object]:
        """Return all of it for programs."""
        found = self.found
        ends = self.table["mapping"].iloc[[0, -1]].unique()
        return {
            "torus": {"name": str(found.torus), "nodes": found.torus.n_nodes},
            "routing": found.routing,
            "verdict": {
                "kind": found.verdict.kind,
                "certainty": found.verdict.certainty,
                "rivals": list(found.verdict.rivals),
                "rcc": found.verdict.rcc,
            },
            "goal": found.goal,
            # Seconds differ from run to run, the rest does not.
            "spent": dict(found.spent) if found.goal == "order" else None,
            "default_order": self.yours,
            "least_of_all_mappings": self.floor or None,
            "cost": found.cost._asdict(),
            "learned": learned_content(found.learned),
            "networks": None
            if found.networks is None
            else {"weights": found.networks.weights, "spread": found.networks.spread},
            "coverage": found.coverage,
            "ranking": self.table.to_dict("records"),
            "reasons": {
                name: {
                    "bounds": why.bounds,
                    "binding": why.binding,
                    "hottest_links": why.links.reset_index().to_dict("records"),
                }
                for name, why in ((name, found.reasons(name)) for name in ends)
            },
            "quality": found.scores,
        }


def badge(found: Forecast) -> str:
    """Return how sure the answer is, in a word or three."""
    verdict = found.verdict
    if found.cost.candidates < 2:
        return ""
    if verdict.kind == "proved":
        return "proved for this graph" if found.workload.summed else "proved"
    likely = max(verdict.certainty, float(found.table["p_best"].iloc[0]))
    sure = f"{probability(likely)} sure"
    return sure if verdict.kind == "sure" else f"open: {sure}"


def trust(found: Forecast) -> str:
    """Return how sure the answer is, what is left open, and what it cost."""
    verdict, cost = found.verdict, found.cost
    if cost.candidates < 2:
        return "There is no other candidate."
    if found.networks is not None:
        return _trust_networks(found, found.networks)
    if found.fitted.target == "measured":
        return _trust_machine(found)
    if verdict.kind == "proved":
        proved = "Proved for this graph" if found.workload.summed else "Proved"
        text = f"{proved}: every other candidate takes at least as long."
    elif cost.simulated:
        text = _sure(found)
    else:
        chance = percent(found.table["p_best"].iloc[0])
        what = "Nothing was simulated" if cost.coarsening is None else "Only longer packets were"
        text = f"{what}: its probability of being the fastest is {chance}."
        likeliest = found.table.iloc[int(found.table["p_best"].argmax())]
        first = found.table["p_best"].iloc[0]
        if cost.coarsening is None and likeliest["p_best"] > first:
            name, more = shown_name(likeliest["mapping"]), percent(likeliest["p_best"])
            text = (
                "Nothing was simulated, and the forecasts tie: the probability of being the "
                f"fastest is {chance}, that of {name} {more}."
            )
    if verdict.kind == "open" and verdict.rivals:
        text += f" These may still be faster: {_rivals(found)}; more --simulations may decide."
    if cost.simulated:
        text += (
            f" That took {counted(cost.simulated, 'simulation')} of {cost.candidates} candidates"
        )
        rest = cost.simulated - cost.simulated
        why = "were quick to simulate and sort the rest" if cost.coarsening == 1 else "followed"
        text += f"; {rest} more {why}." if rest else "."
    n_sketched = int((found.table["how"] == "sketched").sum())
    if cost.coarsening is not None and cost.coarsening > 1 and n_sketched:
        who = "The others are" if cost.simulated else "They are"
        if (found.table["how"] == "forecast").any():
            who = f"{counted(n_sketched, 'candidate')} {'is' if n_sketched == 1 else 'are'}"
        text += f" {who} ordered by a simulation with packets {cost.coarsening} times as long."
    if cost.sketched:
        text += " The model also read a coarser simulation of every candidate."
    if found.unlearned and (found.table["how"] == "forecast").any():
        kinds = " and no ".join(found.unlearned)
        text += (
            f" The model learned from no {kinds}: forecast intervals are those of the traffic on "
            "which it is off furthest."
            if found.fitted.by_kind_
            else f" The model learned from no {kinds}: its intervals do not hold there."
        )
    return text + _ordered(found) + _physical(found) + _of_a_sum(found)


def _ordered(found: Forecast) -> str:
    """How good the order is, and what went into it, where it was asked for."""
    rcc = found.verdict.rcc
    if found.goal != "order" or rcc is None:
        return ""
    sources = {
        "bound": "features of the routes",
        "coarse": "longer packets",
        "full": "real packets",
    }
    spent = ", ".join(
        f"{seconds(found.spent[name])} for {what}"
        for name, what in sources.items()
        if name in found.spent
    )
    return f" {percent(rcc)} of all pairs are expected in the right order. That took {spent}."


def _physical(found: Forecast) -> str:
    """Where the release bound puts another candidate first than a model does that was trained."""
    order, first = found.physical, found.table.iloc[0]
    if order is None or first["how"] != "forecast" or order.first == first["mapping"]:
        return ""
    text = f" The release bound alone puts {shown_name(order.first)} first"
    if order.held_out is None:
        return f"{text}; the model does not tell which of them orders samples held out better."
    model, bound = order.held_out["model"], order.held_out["release_bound"]
    better = "the model" if model >= bound else "the bound"
    return (
        f"{text}; of pairs of samples held out the model orders {percent(model)} right, the bound "
        f"{percent(bound)}: they favour {better}."
    )


def _of_a_sum(found: Forecast) -> str:
    """What a profile hides, if the traffic is one."""
    if not found.workload.summed:
        return ""
    low, high = OF_SUMS
    return (
        " Times hold if all messages start at once: a profile sums them. Programs with rounds take "
        f"{low:.2g} to {high:.2g} times as long; 'toruscast trace' records the rounds of this one."
    )


def _trust_networks(found: Forecast, networks: Networks) -> str:
    """How sure an answer is for a machine of unknown rules."""
    cost = found.cost
    text = _sure(found)
    if found.verdict.rivals:
        text += f" It cannot be told apart from {_rivals(found)}."
    text += (
        " Which FIFO a message takes, how a node feeds them and which packet goes first are not "
        f"known: times are means over {cost.networks} networks, which differ by "
        f"{percent(networks.spread)} about a mapping."
    )
    if cost.measured:
        likely = max(networks.weights, key=lambda name: networks.weights[name])
        text += (
            f" Times of {counted(cost.measured, 'mapping')} weigh them; the likeliest is "
            f"'{likely}', {percent(networks.weights[likely])}."
        )
    else:
        text += " Measured times of a few candidates (--times) tell more."
    if cost.coarsening is not None and cost.coarsening > 1:
        text += f" Simulated packets are {cost.coarsening} times as long as real ones."
    text += _ordered(found)
    return text if cost.measured else text + _of_a_sum(found)


def _sure(found: Forecast) -> str:
    sure = "Sure" if found.verdict.kind == "sure" else "Not sure"
    return (
        f"{sure}: with a probability of {probability(found.verdict.certainty)} no other candidate "
        "takes less by more than 1 %."
    )


def _rivals(found: Forecast) -> str:
    """The likeliest of the candidates that may still be the fastest."""
    rivals = found.verdict.rivals
    named = ", ".join(shown_name(name) for name in rivals[:_NAMED])
    more = len(rivals) - _NAMED
    return f"{named} and {counted(more, 'other')}" if more > 0 else named


def _trust_machine(found: Forecast) -> str:
    """How sure an answer is that rests on times of a machine."""
    verdict, cost = found.verdict, found.cost
    text = _sure(found)
    if verdict.rivals:
        noise = found.learned is not None and found.learned.runs.noise > 0
        text += f" It cannot be told apart from {_rivals(found)}{' at this noise' * noise}."
    if verdict.kind == "open" and cost.measured:
        text += " More runs of these decide."
    if cost.sketched:
        text += " The model reads a simulation of every candidate."
    return text


@dataclass(frozen=True)
class Timed:
    """What came out for a mapping; ``coarsening`` and ``change`` are as in `Simulation`."""

    time: float
    phase_times: tuple[float, ...]
    why: Reasons
    # None where nothing leaves a node; ``busy`` is the seconds that it takes for its bytes.
    busiest_link: str | None
    busy: float
    coarsening: int = 1
    change: float = 0.0


def ranked(found: Mapping[str, Timed]) -> pd.DataFrame:
    """Return a row for each mapping, the fastest first.

    Columns: ``rank``, ``mapping``, ``time``, ``lower_bound``, ``over_bound`` (time over bound),
    ``busiest_link`` (its name, or None) and ``busy_share``, the share of the time that it is busy.
    """
    rows = [
        {
            "mapping": name,
            "time": timed.time,
            "lower_bound": timed.why.lower_bound,
            "over_bound": timed.time / (timed.why.lower_bound or math.nan),
            "busiest_link": timed.busiest_link,
            "busy_share": timed.busy / timed.time if timed.busiest_link else 0.0,
        }
        for name, timed in found.items()
    ]
    table = pd.DataFrame(rows).sort_values("time", kind="stable", ignore_index=True)
    table.insert(0, "rank", table["time"].rank(method="min").astype(int))
    return table


def timed_answer(
    mappings: Sequence[TaskMapping],
    torus: Torus,
    table: pd.DataFrame,
    why: Reasons,
    *,
    setting: str,
    content: dict[str, Any],
    error: float = 0.0,
    top: int = 10,
    estimated: bool = False,
    dependent: bool = False,
    notes: Sequence[str] = (),
) -> Answer:
    """Return which mapping is fastest, and what limits it.

    ``table`` is what `ranked` returns, ``why`` what bounds its first row, by estimate where ways
    are open; ``error`` is that of the times.
    """
    names, times = [str(name) for name in table["mapping"]], table["time"].tolist()
    known = [mapping.name or str(i) for i, mapping in enumerate(mappings)]
    yours = default_order(mappings, known, torus)
    link = table["busiest_link"].iloc[0]
    scale, unit = time_unit(table["time"])
    marks: list[Mark] = [
        "best" if i == 0 else "yours" if name == yours else "" for i, name in enumerate(names)
    ]
    reference = times[names.index(yours or "")] if yours in names else None
    rows = []
    for row in table.to_dict("records"):
        used = row["busiest_link"]
        cells: dict[str, object] = {
            "#": row["rank"],
            "mapping": shown_name(row["mapping"]),
            f"time\n{unit}": number(row["time"] / scale),
        }
        if reference is not None:
            cells["vs\ndefault"] = versus(row["time"], reference)
        bound = row["over_bound"]
        cells["times its\nlower bound"] = f"{bound:.2f}" if row["lower_bound"] else "-"
        cells["busiest\nlink"] = (used or "-",)
        cells["busy"] = percent(row["busy_share"]) if used else "-"
        rows.append(cells)
    said = [_others(table, error), alike(table["time"]), bound_line(why, estimated, dependent)]
    if link:
        said.append(link_note(link))
    return Answer(
        setting=setting,
        headline=headline(names, times, yours),
        notes=list(filter(None, [*said, *notes])),
        sections=[Section("", [TableBlock(rows, marks=marks, top=top)])],
        content=content,
        rows=table,
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
