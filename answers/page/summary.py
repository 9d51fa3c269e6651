"""The page of an answer in a few sentences: one mapping, or a better one beside yours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toruscast.features.reasons import explain
from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.routing.routing import ways_are_open
from toruscast.search.contest import TIME
from toruscast.search.search import Found
from toruscast.simulation import Simulation, simulate
from toruscast.typing import Routing
from toruscast.wording import counted, shown_name

from .. import words
from ..units import number, percent, seconds
from .html import Section, paragraph, sentences
from .network import Candidate
from .views import View, facts_of, launcher_file, origin_section, torus_section, traffic_section


@dataclass(frozen=True)
class Summary:
    """An answer in words, and the mappings that it speaks of, the best first."""

    title: str
    answer: str
    more: Sequence[str]
    view: View


def sections_of(summary: Summary, inputs: Sequence[tuple[str, str]]) -> list[Section]:
    """Return the parts of the page; ``inputs`` are what it was made from, by name."""
    content = f'<p class="answer">{sentences(summary.answer)}</p>\n'
    content += "".join(paragraph(line) for line in summary.more)
    return [
        Section("The answer", content + launcher_file(summary.view)),
        torus_section(summary.view),
        traffic_section(summary.view),
        origin_section(*facts_of(summary.view), *inputs),
    ]


def of_search(
    found: Found,
    workload: Workload,
    torus: Torus,
    given: Sequence[TaskMapping],
    routing: Routing,
) -> Summary:
    """Return what a search found, beside the mappings that were given."""
    is_time = found.objective == TIME
    shown = seconds if is_time else number
    yours = "your best mapping" if given else "the tasks in order"
    answer = (
        f"{shown_name(found.mapping.name)} is the best found: {found.objective} "
        f"{shown(found.value)}, "
        f"{'simulated' if is_time else 'computed'}, {found.gain:.1%} less than {yours}."
    )
    more = [
        f"{counted(found.proposals, 'change')} of mappings were tried, {len(found.table)} compared."
    ]
    if found.bound > 0:
        more.append(
            f"No mapping can have less than {shown(found.bound)}; "
            f"the best is {found.above_bound:.1%} above it."
        )
    if found.verdict is not None and found.verdict.kind != "proved":
        more.append(
            f"With a probability of {percent(found.verdict.certainty)} no other on the shortlist "
            "takes less by more than 1 %."
        )
    candidates = [
        Candidate(mapping.name or "yours", mapping, _time(workload, torus, mapping, routing))
        for mapping in (found.mapping, *given)
    ]
    view = View(workload, torus, candidates, routing)
    return Summary(f"{_called(workload)} on {torus}: search", answer, more, view)


def of_simulation(result: Simulation) -> Summary:
    """Return what a simulation of one mapping says."""
    workload, torus, routing = result.workload, result.torus, result.routing
    mapping = result.mapping
    why = explain(workload, torus, mapping, routing=routing)
    estimated = ways_are_open(workload, torus, routing)
    answer = f"{shown_name(mapping.name)} takes {seconds(result.time)}, simulated packet by packet."
    more = [words.bound_line(why, estimated, workload.dependent)]
    view = View(workload, torus, [Candidate(mapping.name, mapping, result.time)], routing)
    return Summary(f"{_called(workload)} on {torus}: simulation", answer, more, view)


def _called(workload: Workload) -> str:
    return workload.total.name or "Application"


def _time(workload: Workload, torus: Torus, mapping: TaskMapping, routing: Routing) -> float:
    """Simulate roughly: the busy shares of links need no more."""
    return simulate(workload, torus, mapping, routing=routing, error=0.03).time
