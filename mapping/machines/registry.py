"""Every machine by name, and a torus from the text that a user types."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from toruscast.errors import InputError
from toruscast.files import parse_toml
from toruscast.text import closest
from toruscast.validation import read_sizes

from ..torus import Torus
from ..twist import named_twist, split_twist
from .machine import Machine, read_machine

_FOLDER = Path(__file__).parent
# A suffix at the end of a name.
_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,9}$")
# Characters of sizes, even if they are mistyped.
_SIZES = frozenset("0123456789xm ")
# What people call a machine besides.
_ALSO = {"fugaku": "tofu_d"}
# Machines that people ask for and that have no torus.
_SWITCHED = {
    "trainium3": "trainium1 or trainium2; chips of Trainium3 are joined by switches, so that no "
    "layout is shorter than another"
}


@cache
def names() -> tuple[str, ...]:
    """Return the names of the machines.

    Examples
    --------
    >>> "bluegene_q" in names()
    True
    """
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def named(name: str) -> Machine:
    """Return a machine by its name.

    Raises
    ------
    InputError
        If the machine is not known, or has no torus.

    Examples
    --------
    >>> named("Fugaku").name, named("tpu_v6e").title
    ('tofu_d', 'TPU v6e (Trillium) slice: 2-D, 86 GB/s a link each way')
    """
    key = name.lower().replace("-", "_")
    key = _ALSO.get(key, key)
    if key in _SWITCHED:
        raise InputError("no torus", found=name, expected=_SWITCHED[key])
    if key not in names():
        raise InputError(
            "unknown machine", found=name, expected=closest(name, names(), " or ".join(names()))
        )
    return _packaged(key)


@cache
def _packaged(name: str) -> Machine:
    path = _FOLDER / f"{name}.toml"
    return read_machine(parse_toml(path.read_bytes(), path), name)


def get(text: str) -> Torus:
    """Return a machine by its short form: ``name``, ``name:shape`` or ``bluegene_q:nodes``.

    An ``m`` after a size makes that dimension a mesh, where sites or jobs decide what wraps (Blue
    Gene/Q, the Crays, Fujitsu's, Galaxy); other machines decide that by the shape. The text that a
    machine is printed as, ``name shape``, is read too. ``:untwisted`` behind the sizes of a slice
    of TPU v4 or v5p makes a plain torus of one that is twisted.

    Raises
    ------
    InputError
        If the machine is not known or does not take that shape.

    Examples
    --------
    >>> get("bluegene_q:1024") == get("bluegene_q:4x4x4x8x2")
    True
    >>> str(get("tpu_v4:2x2x4"))
    'tpu_v4 2mx2mx4m'
    >>> get("tpu_v4 2mx2mx4m") == get("tpu_v4:2x2x4")
    True
    >>> get("tpu_v4:4x4x8").diameter, get("tpu_v4:4x4x8:untwisted").diameter
    (6, 8)
    """
    name, separator, rest = _split(text)
    machine = named(name)
    if not separator:
        return machine()
    if not rest:
        form = str(machine()).replace(" ", ":")
        expected = f"{machine.name} alone, or with sizes as in {form}"
        raise InputError("machine without its sizes", found=text, expected=expected)
    blocks = machine.shapes.blocks
    sizes = read_sizes(rest) if blocks else None
    if sizes is not None and len(sizes) == 1:
        return machine(nodes=sizes[0])
    sizes_alone, twisted = split_twist(rest)
    given = parse_sizes(sizes_alone)
    if blocks and len(given.shape) == 1:
        expected = "five sizes, an m after those of a mesh, or a number of nodes alone"
        raise InputError(f"bad {machine.called} shape", found=rest, expected=expected)
    if twisted is not None and not machine.shapes.twisted:
        expected = name + ":" + sizes_alone
        raise InputError("machine that is not twisted", found=text, expected=expected)
    try:
        made = [
            machine.torus(*pair, wrap=_asked(machine, given, len(pair[0])), twisted=twisted)
            for pair in machine.parts(given.shape)
        ]
    except InputError as error:
        found = rest if isinstance(error.found, tuple) else error.found
        raise InputError(error.message, found=found, expected=error.expected) from None
    if all(given.wrap):
        return made[0]
    for torus in made:
        if torus.wrap == given.wrap:
            return torus
    expected = str(made[0]).replace(" ", ":")
    raise InputError("machine decides itself which dimensions wrap", found=text, expected=expected)


def _asked(machine: Machine, given: Torus, n_outer: int) -> tuple[bool, ...] | None:
    """Which of the given dimensions are typed as rings, where that is free."""
    return None if machine.shapes.decide or all(given.wrap) else given.wrap[:n_outer]


def _split(text: str) -> tuple[str, str, str]:
    """Name of a machine, what separates it from its sizes, and these."""
    if not isinstance(text, str):
        raise InputError("bad machine", found=repr(text), expected="a text such as tpu_v4:4x4x8")
    name = re.split(r"[\s:]", text.strip(), maxsplit=1)[0]
    rest = text.strip()[len(name) :].strip()
    return name, rest[:1], rest.removeprefix(":").strip()


def parse_sizes(text: str) -> Torus:
    """Read a torus from its short form: sizes joined by ``x``; ``m`` after a size makes it a mesh.

    ``:twisted`` behind them makes k x k x 2k or k x 2k x 2k nodes a twisted torus.

    Raises
    ------
    InputError
        If it is no text, or not of that form.

    Examples
    --------
    >>> parse_sizes("4x4x8m").wrap
    (True, True, False)
    >>> parse_sizes("4x4x8:twisted").diameter
    6
    """
    expected = "sizes such as 8x8x8, or 8x8x8m for a mesh"
    if not isinstance(text, str):
        raise InputError("bad torus", found=repr(text), expected=f"a text of {expected}")
    plain, is_twisted = split_twist(text)
    parts = plain.lower().split("x")
    sizes = read_sizes("x".join(part.removesuffix("m") for part in parts))
    if sizes is None:
        found = text if text.strip() else "nothing"
        raise InputError("bad torus", found=found, expected=expected)
    wrap = tuple(not part.endswith("m") for part in parts)
    return Torus(sizes, wrap=wrap, twist=named_twist(sizes) if is_twisted else ())


def parse_torus(text: str) -> Torus:
    """Read a torus from ``8x8x8``, ``8x8x8m`` (a mesh in the last dimension), a machine or a file.

    A machine is a preset's short form, as in `machines.get`. The text of any of these tori,
    ``str(torus)``, reads back as the same torus. A text with a slash or a suffix, or of a file that
    is there, names a file, as in `read_torus`.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> parse_torus("4x4x8m").wrap, parse_torus("tpu_v4:4x4x8").n_nodes
    ((True, True, False), 128)
    """
    if isinstance(text, str) and _names_file(text.strip()):
        from ..formats.torus import read_torus

        return read_torus(text.strip())
    machine = isinstance(text, str) and text.strip()[:1].isalpha()
    return get(text) if machine and set(text.lower()) - _SIZES else parse_sizes(text)


def _names_file(text: str) -> bool:
    if not set(text.lower()) - _SIZES or text.isidentifier():
        return False
    if text.startswith("/") or _FILE.search(text):
        return True
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
