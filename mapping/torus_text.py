"""The short form of a torus that is no machine: its sizes."""

from __future__ import annotations

import re

from toruscast.errors import InputError
from toruscast.validation import read_sizes

from .torus import Torus
from .twist import usual_twist

CAN_BE_TWISTED = "k x k x 2k or k x 2k x 2k nodes, in any order"


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
    plain, twisted = split_twist(text)
    parts = plain.lower().split("x")
    sizes = read_sizes("x".join(part.removesuffix("m") for part in parts))
    if sizes is None:
        raise InputError("bad torus", found=text, expected=expected)
    twist = usual_twist(sizes) if twisted else ()
    if twisted and not twist:
        raise InputError("no twist for these sizes", found=text, expected=CAN_BE_TWISTED)
    return Torus(sizes, wrap=tuple(not part.endswith("m") for part in parts), twist=twist)


def split_twist(text: str) -> tuple[str, bool | None]:
    """Return the sizes of a torus, and whether it is said to be twisted; None if nothing is.

    Examples
    --------
    >>> split_twist("4x4x8:untwisted"), split_twist("4x4x8_twisted"), split_twist("4x4x8")
    (('4x4x8', False), ('4x4x8', True), ('4x4x8', None))
    """
    match = re.fullmatch(r"(.*?)\s*[:_]\s*(un)?twisted", text.strip(), re.I | re.S)
    return (match[1], match[2] is None) if match else (text.strip(), None)
