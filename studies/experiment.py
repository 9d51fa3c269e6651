"""What an experiment is, and what it finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pandas as pd

SIMULATED = "times and counters simulated, not measured"
"""What stands below every figure of an experiment on samples."""


@dataclass(frozen=True)
class Bar:
    """A figure that an experiment is held to.

    Attributes
    ----------
    what : str
        What was measured, such as "RCC, 2,048 processes and more".
    measured : float
    bar : float
        What is wanted of it; NaN states a figure without a bar.
    kind : {"at least", "at most"}
    published : float
        Figure of the source that the experiment repeats; NaN if there is none.
    """

    what: str
    measured: float
    bar: float = float("nan")
    kind: Literal["at least", "at most"] = "at least"
    published: float = float("nan")

    @property
    def met(self) -> bool | None:
        """Whether the figure reaches the bar; None where there is none.

        Examples
        --------
        >>> Bar("RCC", 0.97, 0.96).met, Bar("regret", 0.2, 0.1, "at most").met
        (True, False)
        """
        if math.isnan(self.bar):
            return None
        return self.measured >= self.bar if self.kind == "at least" else self.measured <= self.bar


@dataclass(frozen=True)
class Chart:
    """A figure to draw from one of the tables.

    Attributes
    ----------
    name : str
        File name without suffix.
    kind : {"bars", "scatter", "lines"}
        ``scatter`` is observed against predicted: both axes alike, with the diagonal.
    table, x, y : str
        Table and columns.
    group : str, optional
        Column whose values get a colour each.
    panel : str, optional
        Column whose values get a panel each.
    log : bool
        Logarithmic axes (``bars``: only y).
    title : str
    interval : tuple of two str, optional
        Columns with the ends of the 95 % interval of y, which becomes a whisker (``bars``) or the
        shade of a line (``lines``).
    note : str
        What a reader must know of all its values; stands below the panels.
    """

    name: str
    kind: Literal["bars", "scatter", "lines"]
    table: str
    x: str
    y: str
    group: str | None = None
    panel: str | None = None
    log: bool = False
    title: str = ""
    interval: tuple[str, str] | None = None
    note: str = ""


@dataclass(frozen=True)
class Findings:
    """What a run of an experiment found.

    Attributes
    ----------
    text : str
        What was done, in a few sentences of Markdown: data, split, seeds.
    tables : dict of str to DataFrame
        Results; each becomes a CSV file of its name.
    bars : tuple of Bar
    charts : tuple of Chart
    shown : tuple of str
        Names of the tables short enough for the results page.
    notes : tuple of str
        What fell short and why; what the figures do not show.
    """

    text: str
    tables: Mapping[str, pd.DataFrame]
    bars: tuple[Bar, ...] = ()
    charts: tuple[Chart, ...] = ()
    shown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inputs:
    """What an experiment may work on.

    Attributes
    ----------
    samples : Path or None
        Table of simulated samples (`python -m studies build`).
    data : Path or None
        Folder of the public measurements.
    n_jobs : int
        Processes or threads.
    """

    samples: Path | None = None
    data: Path | None = None
    n_jobs: int = 1


@dataclass(frozen=True)
class Experiment:
    """A named experiment.

    Attributes
    ----------
    name : str
    title : str
        One line.
    needs : {"samples", "data"}
        Which of its `Inputs` it works on.
    function : callable
        Takes `Inputs`, returns `Findings`.
    sources : tuple of str
        Where its data come from, with the commit; empty for simulated samples.
    files : tuple of str
        Where in the folder `Inputs.data` it looks for them: a path with slashes, which ends with a
        pattern of file names.
    """

    name: str
    title: str
    needs: Literal["samples", "data"]
    function: Callable[[Inputs], Findings] = field(repr=False)
    sources: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def run(self, inputs: Inputs) -> Findings:
        """Run the experiment; what is drawn of simulated samples says that it is simulated."""
        findings = self.function(inputs)
        if self.needs == "data":
            return findings
        charts = tuple(replace(chart, note=SIMULATED) for chart in findings.charts)
        return replace(findings, charts=charts)
