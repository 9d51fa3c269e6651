"""Targets of the simulators, and the targets that the measurements do not reach."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

VALIDATION = [
    # Source, case, figure, target. Figures in AT_MOST should not exceed it, all others should.
    ("emulated-torus", "halo2d 8192 B", "rcc", 0.90),
    ("emulated-torus", "halo2d 8192 B", "rcc_5_percent_apart", 0.97),
    ("emulated-torus", "halo2d 32768 B", "rcc", 0.90),
    ("emulated-torus", "halo2d 32768 B", "rcc_5_percent_apart", 0.97),
    ("emulated-torus", "halo2d 32768 B", "links_within_1_percent", 1.0),
    ("emulated-torus", "suba2a8 8192 B", "rcc", 0.84),
    ("emulated-torus", "suba2a8 8192 B", "rcc_5_percent_apart", 0.90),
    ("flit-level", "halo2d5_16x32 2048 B dor", "rcc", 0.93),
    ("flit-level", "halo2d5_16x32 2048 B dor", "median_error", 0.08),
    ("flit-level", "halo2d5_16x32 2048 B dor", "times_less", 300),
    ("flit-level", "halo2d5_16x32 8192 B dor", "median_error", 0.08),
    ("flit-level", "halo2d5_32x32 2048 B dor", "rcc", 0.93),
    ("flit-level", "halo2d5_32x32 2048 B dor", "median_error", 0.08),
    ("flit-level", "halo2d5_32x32 2048 B dor", "times_less", 300),
    ("flit-level", "a2a_sub64 256 B dor", "rcc", 0.90),
    ("flit-level", "a2a_sub64 256 B dor", "median_error", 0.08),
    ("flit-level", "a2a_sub64 256 B dor", "times_less", 300),
    ("flit-level", "halo2d5_16x32 2048 B adaptive", "rcc", 0.90),
    ("flit-level", "halo2d5_16x32 2048 B adaptive", "median_error", 0.08),
    ("flit-level", "halo2d5_16x32 2048 B adaptive", "times_less", 300),
]
FLOWS = [
    # The same for the flow simulator.
    ("flow-level", "halo2d 16384 B", "rcc", 0.95),
    ("flow-level", "halo2d 4194304 B", "rcc", 0.95),
    ("flow-level", "halo2d 4194304 B", "median_error", 0.005),
    ("flow-level", "suba2a64 16384 B", "rcc", 0.90),
    ("flow-level", "suba2a64 4194304 B", "rcc", 0.90),
    ("flow-level", "suba2a64 4194304 B", "rcc_5_percent_apart", 0.97),
    ("flow-level", "suba2a64 4194304 B", "median_error", 0.005),
]
AT_MOST = {"median_error"}
FIGURES = {
    "rcc": "RCC",
    "rcc_5_percent_apart": "RCC of pairs more than 5 % apart",
    "median_error": "median error after one factor",
    "links_within_1_percent": "share of links whose bytes are within 1 % of those counted",
    "times_less": "times less processor time than the engine",
}


class Target(NamedTuple):
    """A figure with its target and its measured value."""

    what: str
    wanted: float
    reached: float
    at_most: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether the measured figure is at least, or at most, the target."""
        return self.reached <= self.wanted if self.at_most else self.reached >= self.wanted


def targets(results: Path) -> Iterator[Target]:
    """Yield every target with its value from the CSV files."""
    for name, wished, how in (("summary", VALIDATION, ""), ("flows", FLOWS, ", messages flow")):
        file = results / f"validation-{name}.csv"
        figures = {figure for *_, figure, _ in wished}
        seen = read(file, "source", "case", *figures).set_index(["source", "case"])
        for source, case, figure, wanted in wished:
            reached = look_up(file, seen, (source, case), figure)
            what = f"{source}, {case}{how}: {FIGURES[figure]}"
            yield Target(what, wanted, reached, figure in AT_MOST)
    file = results / "kernels.csv"
    cost = read(file, "case", "size", "per_second", "seconds").set_index(["case", "size"])
    kernel = "simulate deterministic"
    rate = look_up(file, cost, (kernel, "16,384 tasks"), "per_second") / 1e6
    seconds = look_up(file, cost, (kernel, "65,536 tasks"), "seconds")
    yield Target("million packet-hops a second, 16,384 tasks", 15, rate)
    yield Target("seconds for 65,536 tasks", 12, seconds, at_most=True)
    chosen = read(results / "error-targets.csv", "largest_error", "rcc")
    wrong, order = float(chosen["largest_error"].max()), float(chosen["rcc"].min())
    yield Target("largest error with an error target of 3 %", 0.03, wrong, at_most=True)
    yield Target("least RCC with an error target of 3 %", 0.995, order)
    file = results / "bisection.csv"
    tori = read(file, "torus", "tasks", "reached").set_index(["torus", "tasks"])
    cube = look_up(file, tori, ("8x8x8", "shuffled"), "reached")
    yield Target("share of the bisection bound on 8x8x8", 0.95, cube)


def read(file: Path, *columns: str) -> pd.DataFrame:
    """Read a table that must have these columns, each with at least one value."""
    table = pd.read_csv(file)
    for column in columns:
        if column not in table.columns or table[column].isna().all():
            raise ValueError(f"{file}: found no column {column} with figures in it, expected one")
    return table


def look_up(file: Path, table: pd.DataFrame, row: str | tuple[str, str], column: str) -> float:
    """Return a figure of a table that `read` returned, by its row."""
    value = float(table.loc[row, column]) if row in table.index else float("nan")
    if math.isnan(value):
        raise ValueError(f"{file}: found no figure of {row} in column {column}, expected one")
    return value


def not_reached(results: Path) -> pd.DataFrame:
    """Return a row for each target that is not reached."""
    rows = [
        (t.what, f"at {'most' if t.at_most else 'least'} {t.wanted:g}", f"{t.reached:.3g}")
        for t in targets(results)
        if not t.is_reached
    ]
    return pd.DataFrame(rows, columns=["figure", "target", "reached"])
