"""Draw simulated against reference times: docs/figures/validation.svg.

python tools/draw_validation.py benchmarks/results/validation.csv docs/figures/validation.svg
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies.drawing import figure, save

TITLES = {
    "flit-level": "flit-level engine",
    "emulated-torus": "measured, emulated torus",
}


def main(table: str, picture: str) -> None:
    """Draw a panel for each source; times are relative to the median reference time of a case."""
    rows = pd.read_csv(table)
    with figure(6.5, 3.6) as drawn:
        panels = drawn.subplots(1, len(TITLES))
        for panel, (source, title) in zip(panels, TITLES.items(), strict=True):
            for case, some in rows[rows["source"] == source].groupby("case"):
                factor = (some["seen"] / some["simulated"]).median()
                unit = some["seen"].median()
                panel.plot(
                    some["simulated"] * factor / unit,
                    some["seen"] / unit,
                    ".",
                    alpha=0.7,
                    label=case,
                )
            low, high = panel.get_xlim()
            panel.plot([low, high], [low, high], color="0.6", linewidth=0.8, zorder=0)
            panel.set(title=title, xlabel="simulated (times one factor)")
            panel.legend(fontsize=6.5, loc="upper left")
        panels[0].set_ylabel("seen, median of the case = 1")
        save(drawn, picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
