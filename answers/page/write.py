"""Write the page of an answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from toruscast.errors import InputError
from toruscast.mapping.formats import atomic_path
from toruscast.simulation import Simulation
from toruscast.training import Forecast, Measured, Plan, Training
from toruscast.training.mesh import MeshForecast

from . import forecast, learned, mesh, planned, summary
from .html import Section, page
from .summary import Summary

Answer = Forecast | Plan | MeshForecast | Training | Measured | Simulation | Summary


def write_report(
    answer: Answer,
    path: str | os.PathLike[str],
    *,
    inputs: Sequence[tuple[str, str]] = (),
) -> None:
    """Write an answer as one HTML file that opens from disk, without a network.

    The page shows the answer and how sure it is, the candidates, the links of the torus under each
    of them, the traffic, and what the model rests on; of each what the answer knows.

    Parameters
    ----------
    answer : Forecast, Plan, MeshForecast, Training, Measured, Simulation or Summary
        What `forecast`, `plan`, `mesh`, `train_for`, `learn_runs` or `simulate` returned, or
        another answer in words with the mappings that it speaks of.
    path : path
        The file to write, ``.html``; it appears whole or not at all.
    inputs : sequence of (str, str)
        What the answer was made from, such as files or a command, to be told on the page.

    Raises
    ------
    InputError
        If the suffix is another, the file cannot be written, or the package ``vl-convert-python``,
        which holds the drawing library, is not installed.

    Examples
    --------
    >>> import tempfile
    >>> import toruscast as tc
    >>> halo, torus = tc.patterns.halo_2d((4, 4), 4096, periodic=True), tc.Torus((4, 4))
    >>> answer = tc.forecast(halo, torus, tc.strategies.sample(halo, torus, n=12))
    >>> path = Path(tempfile.mkdtemp()) / "answer.html"
    >>> tc.write_report(answer, path)
    >>> path.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    check_report(path)
    content = page(*_parts(answer, inputs))
    with atomic_path(path) as temporary:
        temporary.write_text(content, encoding="utf-8")


def _parts(answer: Answer, inputs: Sequence[tuple[str, str]]) -> tuple[str, list[Section]]:
    """Return the title of the page and its parts."""
    if isinstance(answer, Forecast):
        return forecast.title(answer), forecast.sections_of(answer, inputs)
    if isinstance(answer, Plan):
        return planned.title(answer), planned.sections_of(answer, inputs)
    if isinstance(answer, MeshForecast):
        return mesh.title(answer), mesh.sections_of(answer, inputs)
    if isinstance(answer, Training | Measured):
        return learned.title(answer), learned.sections_of(answer, inputs)
    if isinstance(answer, Simulation):
        answer = summary.of_simulation(answer)
    if isinstance(answer, Summary):
        return answer.title, summary.sections_of(answer, inputs)
    raise InputError(
        "no answer to report", found=type(answer).__name__, expected="such as a Forecast"
    )


def check_report(path: str | os.PathLike[str]) -> None:
    """Raise early what writing a report would raise after the work.

    Raises
    ------
    InputError
        If the suffix is not ``.html``, or the drawing library is not installed.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError("unknown suffix of a report", file=path, expected=".html")
    check_drawing()


def check_drawing() -> None:
    """Raise `InputError` if the drawing library is not installed."""
    if find_spec("vl_convert") is None:
        raise InputError(
            "a report needs vl-convert-python", expected="pip install 'toruscast[report]'"
        )
