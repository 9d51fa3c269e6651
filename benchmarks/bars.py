"""What the packet simulator should reach, and which of it the measured figures miss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

VALIDATION = [
    # Source, case, figure, wanted; of errors at most, of all else at least.
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
    ("flow-level", "halo2d 16384 B", "rcc", 0.95),
    ("flow-level", "halo2d 4194304 B", "rcc", 0.95),
    ("flow-level", "suba2a64 16384 B", "rcc", 0.90),
    ("flow-level", "suba2a64 4194304 B", "rcc", 0.90),
]
FIGURES = {
    "rcc": "RCC",
    "rcc_5_percent_apart": "RCC of pairs more than 5 % apart",
    "median_error": "median error after one factor",
    "links_within_1_percent": "share of links whose bytes are within 1 % of those counted",
    "times_less": "times less processor time than the engine",
}


class Bar(NamedTuple):
    """A figure, what is wanted of it, and what was measured."""

    what: str
    wanted: float
    reached: float
    at_most: bool = False

    @property
    def missed(self) -> bool:
        """Whether it falls short."""
        return self.reached > self.wanted if self.at_most else self.reached < self.wanted


def bars(results: Path) -> Iterator[Bar]:
    """Yield every bar with the figure of the CSV files."""
    seen = pd.read_csv(results / "validation-summary.csv").set_index(["source", "case"])
    for source, case, figure, wanted in VALIDATION:
        if figure not in seen.columns:
            continue  # a run without the measurements keeps an older summary
        reached = float(seen.loc[(source, case), figure])
        what = f"{source}, {case}: {FIGURES[figure]}"
        yield Bar(what, wanted, reached, figure == "median_error")
    cost = pd.read_csv(results / "kernels.csv").set_index(["case", "size"])
    rate, long = (
        cost.loc[("simulate deterministic", size)] for size in ("16,384 tasks", "65,536 tasks")
    )
    yield Bar("million packet-hops a second, 16,384 tasks", 15, float(rate["per_second"]) / 1e6)
    yield Bar("seconds for 65,536 tasks", 12, float(long["seconds"]), True)
    targets = pd.read_csv(results / "error-targets.csv")
    wrong, order = float(targets["largest_error"].max()), float(targets["rcc"].min())
    yield Bar("largest error with an error target of 3 %", 0.03, wrong, True)
    yield Bar("least RCC with that target", 0.995, order)
    if (results / "bisection.csv").exists():
        cube = pd.read_csv(results / "bisection.csv").set_index("torus").loc["8x8x8"]
        yield Bar("share of the bisection bound on 8x8x8", 0.95, float(cube["reached"]))


def missed(results: Path) -> pd.DataFrame:
    """Return the bars that are missed, one a row."""
    rows = [
        (bar.what, f"{'<=' if bar.at_most else '>='} {bar.wanted:g}", f"{bar.reached:.3g}")
        for bar in bars(results)
        if bar.missed
    ]
    return pd.DataFrame(rows, columns=["what", "wanted", "reached"])
