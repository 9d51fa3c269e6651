"""What an experiment found, as files in a folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from studies.charts import draw_chart
from toruscast.errors import InputError
from toruscast.mapping.formats import atomic_path

from . import Chart, Findings

FIGURES = "figures/results"
TABLES = "tables"


def figure_name(experiment: str, chart: Chart) -> str:
    """Return the name of a figure's file: no two experiments share one.

    Examples
    --------
    >>> figure_name("hybrids", Chart("rcc", "bars", "scores", "size", "rcc"))
    'hybrids.rcc.svg'
    """
    own = "" if chart.name == experiment else f".{_file_name(chart.name)}"
    return f"{_file_name(experiment)}{own}.svg"


def write_findings(
    experiment: str, findings: Findings, folder: str | os.PathLike[str]
) -> list[Path]:
    """Write each table as ``tables/EXPERIMENT/NAME.csv`` and each chart as SVG, as the page links.

    Parameters
    ----------
    experiment : str
        Its name.
    findings : Findings
    folder : path-like
        Made if it is not there; nothing outside it is written.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InputError
        If a chart names no table or column, a name is no file name, or a file cannot be written.
    """
    place = Path(folder)
    files = []
    for name, values in findings.tables.items():
        path = place / TABLES / _file_name(experiment) / f"{_file_name(name)}.csv"
        named = any(label is not None for label in values.index.names)
        _make_folder(path.parent)
        with atomic_path(path) as temporary:
            values.to_csv(temporary, index=named, lineterminator="\n")
        files.append(path)
    for chart in findings.charts:
        path = place / FIGURES / figure_name(experiment, chart)
        _make_folder(path.parent)
        draw_chart(chart, findings.tables, path)
        files.append(path)
    return files


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("cannot be written", file=path, found=error.strerror or error) from None


def _file_name(name: str) -> str:
    """Return the name where it is that of a plain file on every system."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
        raise InputError("bad file name", found=name, expected="letters, digits, - and _")
    return name
