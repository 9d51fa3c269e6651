"""Answers, figures and notebook views of results, by type."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

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
from toruscast.typing import Ints

from . import calibration, evaluation, html, learned, plan, rank, search, simulation, svg
from .blocks import Answer, Chart
from .candidates import draw_traffic
from .figures import Figure
from .table import Table

# In a notebook, maximum number of nodes in a drawing of a torus, and of rows in a table.
_MAX_NODES, _MAX_ROWS = 4096, 5


class Renderers(NamedTuple):
    """Functions that return the answer, the chart and the table of a result."""

    answer: Callable[[Any], Answer] | None = None
    chart: Callable[[Any], Chart] | None = None
    table: Callable[[Any], Table] | None = None


_RENDERERS: Mapping[type, Renderers] = {
    Ranking: Renderers(
        rank.answer,
        lambda ranking: rank.RankingBlocks(ranking).times_chart(),
        lambda ranking: rank.RankingBlocks(ranking).candidate_table(),
    ),
    Plan: Renderers(plan.answer, plan.times_chart, plan.candidate_table),
    MeshLayouts: Renderers(mesh.answer, mesh.times_chart, mesh.layouts),
    SearchResult: Renderers(search.answer, search.progress_chart, search.compared_table),
    Explanation: Renderers(search.explanation_answer, search.changes_chart),
    RunModel: Renderers(learned.answer, learned.observed_chart),
    Training: Renderers(learned.answer, lambda training: learned.importance_chart(training.model)),
    Simulation: Renderers(simulation.answer, simulation.timeline_chart),
    Calibration: Renderers(
        calibration.answer, calibration.predicted_chart, calibration.constants_table
    ),
    Evaluation: Renderers(evaluation.answer, evaluation.rcc_chart),
    FlowSimulation: Renderers(simulation.flow_answer, simulation.timeline_chart),
    Runs: Renderers(chart=plan.runs_chart),
}


def _find_renderers(obj: object) -> Renderers:
    known = (_RENDERERS[kind] for kind in type(obj).__mro__ if kind in _RENDERERS)
    return next(known, Renderers())


def make_answer(result: Result) -> Answer:
    """Return the answer of a result; raise `InputError` if its type has none."""
    make = _find_renderers(result).answer
    if make is None:
        found = type(result).__name__
        raise InputError("no answer to report", found=found, expected="a result such as a Ranking")
    return make(result)


def make_figure(result: Result) -> Figure:
    """Return the main figure of a result."""
    chart = _find_renderers(result).chart
    assert chart is not None
    return Figure(chart(result))


def notebook_html(obj: object) -> str:
    """Return the table and the drawing of an object as HTML; empty if it has none."""
    _, chart, table = _find_renderers(obj)
    rows = table(obj).to_html(_MAX_ROWS) if table else ""
    drawing = chart(obj).draw() if chart else ""
    if isinstance(obj, CommGraph | Workload):
        workload = as_workload(obj)
        n_tasks = workload.n_tasks
        drawing = draw_traffic(workload, np.arange(n_tasks), n_tasks, "task")
    elif isinstance(obj, Torus):
        has_links = obj.link_exists.reshape(obj.n_nodes, -1).any(axis=1)
        numbers = np.where(has_links, np.arange(obj.n_nodes), -1)
        drawing = _draw_nodes(obj, numbers, obj.n_nodes, "nodes")
    elif isinstance(obj, TaskMapping) and obj.torus:
        numbers = np.full(obj.n_nodes, -1)
        # Assign in reverse order, so that each node gets the number of its first task.
        numbers[obj.node[::-1]] = np.arange(obj.n_tasks)[::-1]
        drawing = _draw_nodes(obj.torus, numbers, obj.n_tasks, "tasks")
    return rows + (svg.standalone_svg(drawing, "max-width:480px") if drawing else "")


def _draw_nodes(torus: Torus, numbers: Ints, n: int, noun: str) -> str:
    """Draw the nodes, coloured by their numbers from 0 to ``n - 1``; empty for a large torus."""
    if torus.n_nodes > _MAX_NODES:
        return ""
    title = f"{noun} 0 (light) to {n - 1} (dark)"
    return svg.draw_nodes(torus.shape, torus.axes, numbers, n, title)


def write_report(
    answer: Result, path: str | os.PathLike[str], *, inputs: Sequence[tuple[str, str]] = ()
) -> None:
    """Write the answer of a result as one HTML file that needs no network.

    Depending on the type of the result, the page shows how certain the answer is, the gain, what
    limits the mappings, the busy time of each link, and the assumptions of the model.

    Parameters
    ----------
    answer : Result
        Return value of `rank`, `plan`, `mesh`, `train`, `evaluate`, `simulate`, `search` etc.
    path : path
        The ``.html`` file to write. It is never left incomplete.
    inputs : sequence of (str, str)
        Names and values to list on the page, such as input files or a command.

    Raises
    ------
    InputError
        If the suffix of ``path`` is wrong or the result has no answer.

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
    html.check_page_path(path)
    html.write_page(make_answer(answer), path, inputs)
