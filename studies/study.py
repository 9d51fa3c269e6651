"""The classes of a study, its inputs and its findings."""

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
    """A figure of a study, with its target and its published value.

    Attributes
    ----------
    what : str
        Such as "RCC, 2,048 processes and more".
    reached : float
    target : float
        NaN for a figure without a target.
    kind : {"at least", "at most"}
    published : float
        The value in the publication; NaN if there is none.
    """

    what: str
    reached: float
    target: float = math.nan
    kind: Literal["at least", "at most"] = "at least"
    published: float = math.nan

    @property
    def met(self) -> bool | None:
        """Whether the figure reaches the target; None without a target.

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
    """The results of a part of a study.

    Attributes
    ----------
    text : str
        A few sentences of Markdown about the experiment and its result.
    tables : dict of str to DataFrame
        Results by name; each becomes a CSV file.
    shown : dict of str to DataFrame
        Small tables for the page, by caption. Tables of several parts with the same caption are
        joined on their common columns.
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
    """The inputs of a study.

    Attributes
    ----------
    samples : Path or None
        Table of simulated samples (``python -m studies build``).
    data : Path or None
        Folder of the public measurements.
    n_jobs : int
        Processes or threads.
    work : Path or None
        Folder for intermediate files of a study, such as a program that it compiles.
    live : tuple of str
        Setups that ``real_mpi_live`` measures.
    """

    samples: Path | None = None
    data: Path | None = None
    n_jobs: int = 1
    work: Path | None = None
    live: tuple[str, ...] = ("short",)

    def files(self, pattern: str) -> list[Path]:
        """Return the files of measurements that match a pattern, sorted by name.

        Raises
        ------
        InputError
            If there is no folder of measurements, or it has no such files.

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
        Text of the page before the parts.
    needs : {"samples", "data", "program", "nothing"}
        The input that it requires, or that it runs another program.
    parts : dict of str to callable
        Title of each part, and its function from `Inputs` to `Findings`.
    sources : tuple of str
        The sources of its data, with commit and licence.
    files : tuple of str
        Patterns of the files to read in the folder of measurements.
    missing : callable
        Function that returns a requirement that this machine lacks, or None.
    """

    name: str
    title: str
    text: str
    needs: Literal["samples", "data", "program", "nothing"]
    parts: Mapping[str, Callable[[Inputs], Findings]] = field(repr=False)
    sources: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    missing: Callable[[], str | None] = lambda: None
