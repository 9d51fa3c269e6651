"""Draw the rooms (packages), their imports, and the paths of data through them.

    python tools/draw_rooms.py docs/figures/rooms.svg

Rooms, their sizes and the arrows between them are read from the code. A path of data is a chain of
modules. The picture is not drawn unless each module of a path imports the next.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from xml.sax.saxutils import escape

import toruscast

ROOT = Path(__file__).parents[1]
# From the user interface at the top to graphs and tori at the bottom.
LADDER = (
    *("cli", "answers", "search", "decision", "training", "features", "mesh", "simulation"),
    *("routing", "formats", "mapping"),
)
ABOUT = {
    "cli": "the toruscast command",
    "answers": "answers as blocks; terminal, page, figures",
    "search": "better mappings, reasons, bounds",
    "decision": "posterior, loop, forecasts, plans, measured runs",
    "training": "samples, predictor, evaluation",
    "features": "routed traffic, named metrics",
    "mesh": "layouts of sharded models",
    "simulation": "packets and flows",
    "routing": "routes, link loads, lower bounds",
    "formats": "readers and writers",
    "mapping": "graphs, tori, mappings",
}
WAYS = {
    "graph to answer": (
        ("cli/rank.py", "decision/ranking.py"),
        ("decision/ranking.py", "features/table.py"),
        ("decision/ranking.py", "decision/loop.py"),
        ("features/traffic.py", "simulation/simulator.py"),
    ),
    "runs to plan": (
        ("cli/plan.py", "decision/planning.py"),
        ("decision/planning.py", "decision/machine.py"),
    ),
    "samples to model": (
        ("cli/learning.py", "training/application.py"),
        ("training/application.py", "training/samples.py"),
        ("training/samples.py", "features/table.py"),
        ("training/samples.py", "training/store.py"),
    ),
}
COLOURS = {"graph to answer": "#0072b2", "runs to plan": "#d55e00", "samples to model": "#009e73"}
LEFT, WIDE, HIGH, GAP = 330, 300, 46, 22


def modules(room: str) -> list[Path]:
    """Return the modules of a room."""
    return [*(ROOT / room).rglob("*.py")]


def imported(path: Path) -> set[str]:
    """Return the full names of modules and names that a file imports, or uses as ``tc.NAME``."""
    package = tuple(name_of(str(path.relative_to(ROOT))).split(".")[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            root, *names = ast.unparse(node).split(".")
            if root in ("tc", "toruscast"):
                found.add(defined_in(names))
    return found


def defined_in(names: list[str]) -> str:
    """Return the full name of the module that defines a public name; "" for constants."""
    thing: object = toruscast
    for name in names:
        thing = getattr(thing, name, None)
    found = thing.__name__ if isinstance(thing, ModuleType) else getattr(thing, "__module__", "")
    return found or ""


def rooms_of(names: set[str]) -> set[str]:
    """Return the rooms of the package that imported names belong to."""
    inside = [name.split(".")[1] for name in names if name.startswith("toruscast.")]
    return {name.removeprefix("_") for name in inside} & set(LADDER)


def name_of(file: str) -> str:
    """Return the full name of a module; three rooms have an underscore in the package."""
    room, rest = file.removesuffix(".py").split("/", 1)
    package = f"_{room}" if room in ("features", "mesh", "search") else room
    return f"toruscast.{package}." + rest.replace("/", ".")


def check_ways() -> None:
    """Raise `SystemExit` if a module of a path does not import the next one."""
    for way, steps in WAYS.items():
        for first, second in steps:
            names = imported(ROOT / first)
            package = name_of(second).rpartition(".")[0]
            reached = {name_of(second), package, package.rpartition(".")[0]}
            if not names & reached:
                raise SystemExit(f"{way}: {first} does not import {second}")


def picture() -> str:
    """Return the picture as SVG."""
    check_ways()
    arrows: Counter[tuple[str, str]] = Counter()
    for room in LADDER:
        for path in modules(room):
            arrows.update((room, other) for other in rooms_of(imported(path)) if other != room)
    top = {room: 60 + at * (HIGH + GAP) for at, room in enumerate(LADDER)}
    height = 60 + len(LADDER) * (HIGH + GAP) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {height}" '
        'font-family="sans-serif" font-size="13">',
        "<title>Rooms of toruscast, what they import, and the ways of the data</title>",
        f'<rect width="960" height="{height}" fill="white"/>',
    ]
    for (room, other), count in sorted(arrows.items()):
        distance = LADDER.index(other) - LADDER.index(room)
        y, z = top[room] + HIGH / 2, top[other] + HIGH / 2
        if distance == 1:
            path = f"M{LEFT + WIDE / 2},{top[room] + HIGH} L{LEFT + WIDE / 2},{top[other]}"
        else:
            x = LEFT + WIDE
            path = f"M{x},{y} C{x + 45 * distance},{y} {x + 45 * distance},{z} {x},{z}"
        width = min(6, 0.5 + count / 12)
        parts.append(
            f'<path d="{path}" fill="none" stroke="#999" stroke-width="{width:.1f}">'
            f"<title>{count} files of {room} import {other}</title></path>"
        )
    for room in LADDER:
        found = modules(room)
        lines = sum(path.read_text().count("\n") for path in found)
        y = top[room]
        parts += [
            f'<rect x="{LEFT}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6" fill="#eef3f8" '
            'stroke="#456"/>',
            f'<text x="{LEFT + 12}" y="{y + 19}" font-weight="bold">{room}/</text>',
            f'<text x="{LEFT + WIDE - 12}" y="{y + 19}" text-anchor="end" fill="#456">'
            f"{len(found)} files, {lines / 1000:.1f}k lines</text>",
            f'<text x="{LEFT + 12}" y="{y + 37}" fill="#333">{escape(ABOUT[room])}</text>',
        ]
    for at, (way, steps) in enumerate(WAYS.items()):
        x, colour = 60 + 85 * at, COLOURS[way]
        stops = list(dict.fromkeys(file.split("/")[0] for step in steps for file in step))
        stops.sort(key=LADDER.index)
        places = [top[stop] + HIGH / 2 for stop in stops]
        parts.append(
            f'<path d="M{x},{places[0]} L{x},{places[-1]}" stroke="{colour}" stroke-width="3"/>'
        )
        for y in places:
            parts.append(f'<path d="M{x},{y} L{LEFT - 4},{y}" stroke="{colour}" opacity=".25"/>')
            parts.append(f'<circle cx="{x}" cy="{y}" r="6" fill="{colour}"/>')
        parts.append(f'<text x="{x - 5}" y="{14 + 15 * at}" fill="{colour}">{way}</text>')
    parts.append(
        f'<text x="{LEFT}" y="{height - 12}" fill="#333">Lines: imports, wider for more files. '
        "datasets/ and scaling/ stand beside.</text></svg>"
    )
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture())
