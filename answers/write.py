"""Write the page of any result that has one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._mesh import MeshLayouts
from toruscast._mesh import answer as mesh
from toruscast._search.explain import Explanation
from toruscast._search.search import SearchResult
from toruscast.decision import Plan, Ranking, RunModel, Runs
from toruscast.decision.calibration import Calibration
from toruscast.decision.evaluation import Evaluation
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.notebook import Result
from toruscast.simulation import Simulation
from toruscast.simulation.flows import FlowSimulation
from toruscast.training import Training

from . import calibration, evaluation, html, learned, plan, rank, search, simulation, svg
from .blocks import Answer, Chart
from .candidates import binned
from .figures import Figure
from .table import Table

# Nodes up to which a torus is drawn: its picture stands in the notebook's file.
_MOST_DRAWN = 4096
_MOST_ROWS = 5


class Shown(NamedTuple):
    """What makes the answer of a result, and its figure and table in a notebook."""

    answer: Callable[[Any], Answer] | None = None
    chart: Callable[[Any], Chart] | None = None
    table: Callable[[Any], Table] | None = None


_SHOWN: Mapping[type, Shown] = {
    Ranking: Shown(rank.answer, rank.times_chart, rank.candidates),
    Plan: Shown(plan.answer, plan.times_chart, plan.candidates),
    MeshLayouts: Shown(mesh.answer, mesh.times_chart, mesh.layouts),
    SearchResult: Shown(search.answer, search.progress_chart, search.compared),
    Explanation: Shown(search.explanation, search.limits_chart),
    RunModel: Shown(learned.answer, learned.observed_chart),
    Training: Shown(learned.answer, learned.importance_chart),
    Simulation: Shown(simulation.answer, simulation.timeline_chart),
    Calibration: Shown(calibration.answer, calibration.predicted_chart, calibration.constants),
    Evaluation: Shown(evaluation.answer, evaluation.rcc_chart),
    FlowSimulation: Shown(simulation.of_flows, simulation.timeline_chart),
    Runs: Shown(chart=plan.runs_chart),
}


def _shown(thing: object) -> Shown:
    """Return what is shown of an object, the most special kind first."""
    return next((_SHOWN[kind] for kind in type(thing).__mro__ if kind in _SHOWN), Shown())


def answer_of(result: Result) -> Answer:
    """Return what a result answers, as blocks."""
    make = _shown(result).answer
    if make is None:
        found = type(result).__name__
        raise InputError("no answer to report", found=found, expected="a result such as a Ranking")
    return make(result)


def figure_of(result: Result) -> Figure:
    """Return the main figure of a result."""
    chart = _shown(result).chart
    assert chart is not None
    return Figure(chart(result))


def shown_in_notebook(thing: object) -> str:
    """Return the table and the picture of an object as HTML; empty where there is none."""
    _, chart, table = _shown(thing)
    rows = table(thing).to_notebook(_MOST_ROWS) if table else ""
    drawn = chart(thing).draw() if chart else ""
    if isinstance(thing, CommGraph | Workload):
        work = as_workload(thing)
        drawn = svg.matrix(*binned(work, np.arange(work.n_tasks), work.n_tasks), "task")
    elif isinstance(thing, Torus):
        there = thing.link_exists.reshape(thing.n_nodes, -1).any(axis=1)
        place = np.where(there, np.arange(thing.n_nodes), -1)
        drawn = _nodes(thing, place, thing.n_nodes, "nodes")
    elif isinstance(thing, TaskMapping) and thing.torus:
        place = np.full(thing.n_nodes, -1)
        place[thing.node[::-1]] = np.arange(thing.n_tasks)[::-1]
        drawn = _nodes(thing.torus, place, thing.n_tasks, "tasks")
    return rows + (svg.standing_alone(drawn, "max-width:480px") if drawn else "")


def _nodes(torus: Torus, place: NDArray[np.int64], n: int, what: str) -> str:
    """Return the nodes coloured by a number below ``n``; empty where there are too many."""
    if torus.n_nodes > _MOST_DRAWN:
        return ""
    words = f"{what} 0 (light) to {n - 1} (dark)"
    return svg.chips(torus.shape, torus.axes, place, n, words)


def write_report(
    answer: Result,
    path: str | os.PathLike[str],
    *,
    inputs: Sequence[tuple[str, str]] = (),
) -> None:
    """Write an answer as one HTML file that opens from disk, without a network.

    The page says how sure the answer is, how much it gains, what limits the mappings, where the
    links are busy, and what the model assumes, as far as the answer knows.

    Parameters
    ----------
    answer : Result
        What `rank`, `plan`, `mesh`, `train`, `evaluate`, `simulate`, `search` and so on return.
    path : path
        The file to write, ``.html``; it appears whole or not at all.
    inputs : sequence of (str, str)
        What the answer was made from, such as files or a command, to be shown on the page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import toruscast as tc
    >>> halo, torus = tc.patterns.halo_2d((4, 4), 4096, periodic=True), tc.Torus((4, 4))
    >>> answer = tc.rank(halo, torus, tc.strategies.sample(halo, torus, n=12))
    >>> path = Path(tempfile.mkdtemp()) / "answer.html"
    >>> tc.write_report(answer, path)
    >>> path.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    html.check_page(path)
    html.write_page(answer_of(answer), path, inputs)
