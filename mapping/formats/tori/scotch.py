"""Tori and meshes as target architectures of Scotch."""

from __future__ import annotations

import re
from pathlib import Path

from toruscast.errors import InputError

from ...torus import Torus
from ..dialect import Dialect
from ..source import Source, label, whole

LINE = re.compile(r"(torus|mesh)(XD|[1-9]D)?((?:\s+\S+)+)\s*", re.I)


def is_target(source: Source) -> bool:
    """Whether the first line is that of a torus or mesh of Scotch."""
    return bool(LINE.fullmatch(source.first_line()[1]))


def read(source: Source) -> Torus:
    """Return the torus of a line such as ``torus3D 8 8 4`` or ``torusXD 3 8 8 4``."""
    text = source.text
    lines = list(text.lines("#"))
    if not lines:
        raise text.fault("file without data")
    number, line = lines[0]
    match = LINE.fullmatch(line)
    if match is None or len(lines) > 1:
        at, found = (number, line) if match is None else lines[1]
        raise text.fault("bad target of Scotch", at, found, "torus3D 8 8 8 on one line")
    words = [word for _, each in lines for word in each.split()][1:]
    numbers = [whole(text, number, "size", word) for word in words]
    count = match[2]
    if count is None or count.upper() == "XD":
        if len(numbers) != numbers[0] + 1:
            found = f"{len(numbers) - 1} sizes after {numbers[0]}"
            raise text.fault("wrong number of sizes", number, found, "as many as dimensions")
        numbers = numbers[1:]
    elif len(numbers) != int(count[0]):
        raise text.fault("wrong number of sizes", number, len(numbers), count[0])
    wrap = (match[1].lower() == "torus",)
    with text.at(number):
        return Torus(tuple(numbers), wrap=wrap, name=label(source.path))


def write(torus: Torus, path: Path) -> None:
    """Write the sizes; all dimensions must wrap, or none."""
    wraps = {wrap for wrap, size in zip(torus.wrap, torus.shape, strict=True) if size > 1}
    if len(wraps) > 1 or torus.twist:
        raise InputError(
            "Scotch has no such torus", found=str(torus), expected="all dimensions wrap, or none"
        )
    kind = "mesh" if wraps == {False} else "torus"
    sizes = " ".join(map(str, torus.shape))
    counted = f"{torus.ndim}D" if torus.ndim in (2, 3) else f"XD {torus.ndim}"
    path.write_text(f"{kind}{counted} {sizes}\n", encoding="utf-8")


DIALECT = Dialect(
    name="scotch-target",
    holds="torus",
    title="target architecture of Scotch: torus3D, torusXD, mesh2D, ...",
    recognise=is_target,
    read=read,
    write=write,
    suffixes=(".tgt",),
    documentation="""
One line: `torus2D`, `torus3D` or `mesh3D` and the sizes, or `torusXD` with the number of dimensions
before them. It tells no bandwidths. Scotch counts nodes with the first coordinate fastest, which
`scotch-map` turns.
""",
    example="torusXD 3 4 4 8\n",
    advice="gmap GRAPH.grf {file} best.map",
)
