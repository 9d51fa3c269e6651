"""What a study is, and what it finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from toruscast import InputError


@dataclass(frozen=True)
class Target:
    """A figure, with what is wanted of it and what was published.

    Attributes
    ----------
    what : str
        Such as "RCC, 2,048 processes and more".
    reached : float
    target : float
        NaN states a figure without a target.
    kind : {"at least", "at most"}
    published : float
        Figure of the source that is repeated; NaN if there is none.
    """

    what: str
    reached: float
    target: float = math.nan
    kind: Literal["at least", "at most"] = "at least"
    published: float = math.nan

    @property
    def met(self) -> bool | None:
        """Whether the figure reaches the target; None where there is none.

        Examples
        --------
        >>> Target("RCC", 0.97, 0.96).met, Target("regret", 0.2, 0.1, "at most").met
        (True, False)
        """
        if math.isnan(self.target):
            return None
        if self.kind == "at least":
            return self.reached >= self.target
        return self.reached <= self.target


@dataclass(frozen=True)
class Chart:
    """A figure to draw from a table: ``dots``, ``scatter`` of forecasts, or ``panels``."""

    kind: Literal["dots", "scatter", "panels"]
    table: pd.DataFrame = field(repr=False)
    x: str
    y: str
    group: str
    title: str


@dataclass(frozen=True)
class Findings:
    """What a part of a study found.

    Attributes
    ----------
    text : str
        What was repeated, what came out and what did not, in a few sentences of Markdown.
    tables : dict of str to DataFrame
        Results; each becomes a CSV file of its name.
    shown : dict of str to DataFrame
        Small tables for the page, by their captions. Those of one caption, from several parts, are
        joined on the columns that they share.
    targets : tuple of Target
    charts : dict of str to Chart
    """

    text: str
    tables: Mapping[str, pd.DataFrame]
    shown: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    targets: tuple[Target, ...] = ()
    charts: Mapping[str, Chart] = field(default_factory=dict)


@dataclass(frozen=True)
class Inputs:
    """What a study may work on.

    Attributes
    ----------
    samples : Path or None
        Table of simulated samples (``python -m studies build``).
    data : Path or None
        Folder of the public measurements.
    n_jobs : int
        Processes or threads.
    work : Path or None
        Folder for what a study makes on its way, such as a program that it compiles.
    live : tuple of str
        What ``real_mpi_live`` measures.
    """

    samples: Path | None = None
    data: Path | None = None
    n_jobs: int = 1
    work: Path | None = None
    live: tuple[str, ...] = ("short",)

    def files(self, pattern: str) -> list[Path]:
        """Return the measurements that fit a pattern, in order of their names.

        Raises
        ------
        InputError
            If no folder of measurements was given, or it lacks such files.

        Examples
        --------
        >>> Inputs().files("boxfish/*")
        Traceback (most recent call last):
            ...
        toruscast.errors.InputError: the public measurements are needed: expected their folder
        """
        if self.data is None:
            raise InputError("the public measurements are needed", expected="their folder")
        found = sorted(path for path in self.data.glob(pattern) if path.is_file())
        if not found:
            raise InputError("measurements not found", file=self.data, expected=f"files {pattern}")
        return found


@dataclass(frozen=True)
class Study:
    """A named study.

    Attributes
    ----------
    name, title : str
    text : str
        What its page says before the parts.
    needs : {"samples", "data", "program", "nothing"}
        Which of its `Inputs` it works on, or that it runs another program.
    parts : dict of str to callable
        Title of each part, and what finds it: takes `Inputs`, returns `Findings`.
    sources : tuple of str
        Where its data come from, with commit and licence.
    files : tuple of str
        Patterns of the files that it reads from the folder of measurements.
    missing : callable
        Tells what this machine lacks for it; None if nothing.
    """

    name: str
    title: str
    text: str
    needs: Literal["samples", "data", "program", "nothing"]
    parts: Mapping[str, Callable[[Inputs], Findings]] = field(repr=False)
    sources: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    missing: Callable[[], str | None] = lambda: None
