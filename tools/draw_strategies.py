"""Draw a thumbnail of each strategy, for the page of strategies.

A cell is a node of an 8x8 torus, and darker cells have higher task numbers. A line joins
consecutive tasks on nodes that are close.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from toruscast import Torus, patterns, strategies
from toruscast.answers.svg import RAMP

ROOT = Path(__file__).parents[1]
PAGE, FOLDER = ROOT / "docs/reference/strategies.md", ROOT / "docs/figures/strategies"
SIDE, CELL = 8, 11
# Examples for this torus that replace examples of the page for other tori.
HERE = {"permute": "permute-YX", "zigzag": "zigzag-XY", "tile": "tile-2x4",
        "blocked": "blocked-2x4-row", "stride": "stride-9", "swap": "swap-10-identity",
        "curve": "curve-row-hilbert",
        "nested": "nested-row_tile2x4_row-zigzag_tile4x2x1_row"}  # fmt: skip


def named() -> list[str]:
    """Return the strategies of the page by the first word of their names."""
    return re.findall(
        r"^\| (?:!\[[^\]]*\]\([^)]*\) \| )?`([a-z]+)[^`]*` \|", PAGE.read_text(), re.M
    )


def thumbnail(kind: str) -> str:
    """Return the picture of a strategy as SVG."""
    torus = Torus((SIDE, SIDE))
    halo = patterns.halo_2d((SIDE // 2, 2 * SIDE), 1024)
    examples = {name.partition("-")[0]: name for name in strategies.names()}
    mapping = strategies.make(HERE.get(kind, examples[kind]), halo, torus, seed=1)
    places = torus.coords[mapping.node][:, ::-1] * CELL + CELL / 2
    cells = []
    for i, (x, y) in enumerate(places.tolist()):
        shade = RAMP[i * len(RAMP) // len(places)]
        cells.append(f'<rect x="{x - 5:g}" y="{y - 5:g}" width="10" height="10" fill="{shade}"/>')
    steps = np.abs(np.diff(places, axis=0)).sum(axis=1)
    path = "".join(
        f"{'L' if i and steps[i - 1] <= 2 * CELL else 'M'}{x:g} {y:g}"
        for i, (x, y) in enumerate(places.tolist())
    )
    side = SIDE * CELL
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" width="{side}" '
        f'height="{side}"><title>{mapping.name} on 8x8</title>{"".join(cells)}'
        f'<path d="{path}" fill="none" stroke="#16191d" stroke-width="1"/></svg>\n'
    )


def main() -> None:
    """Write the thumbnails of all strategies."""
    FOLDER.mkdir(exist_ok=True)
    for kind in named():
        (FOLDER / f"{kind}.svg").write_text(thumbnail(kind), encoding="utf-8")


if __name__ == "__main__":
    main()
