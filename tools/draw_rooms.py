"""Draw the rooms, what they import, and the ways of the data through them.

    python tools/draw_rooms.py docs/figures/rooms.svg

Rooms, their sizes and their arrows are read from the code. A way is a chain of functions; each has
to be called in the file of the one before, or the picture is not drawn.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
LADDER = (
    "mapping",
    "routing",
    "simulation",
    "features",
    "training",
    "search",
    "report",
    "cli",
)
BESIDE = ("datasets", "scaling")
WIDTH, HEIGHT, ROW = 960, 60, 64


def files(room: str) -> list[Path]:
    """Return the modules of a room."""
    return [path for path in (ROOT / room).rglob("*.py") if "capture" not in path.parts]


def arrows() -> Counter[tuple[str, str]]:
    """Return how many files of one room import another."""
    found: Counter[tuple[str, str]] = Counter()
    for room in (*LADDER, *BESIDE):
        for path in files(room):
            tree = ast.parse(path.read_text())
            names = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
            rooms = {n.split(".")[1] for n in names if n.startswith("toruscast.")}
            found.update((room, other) for other in rooms & {*LADDER, *BESIDE} if other != room)
    return found
