"""The short form of a torus that is no machine: its sizes."""

from __future__ import annotations

from toruscast.errors import InputError
from toruscast.validation import read_sizes

from .torus import Torus


def parse_sizes(text: str) -> Torus:
    """Read a torus from its short form: sizes joined by ``x``; ``m`` after a size makes it a mesh.

    Raises
    ------
    InputError
        If it is no text, or not of that form.

    Examples
    --------
    >>> parse_sizes("4x4x8m").wrap
    (True, True, False)
    """
    expected = "sizes such as 8x8x8, or 8x8x8m for a mesh"
    if not isinstance(text, str):
        raise InputError("bad torus", found=repr(text), expected=f"a text of {expected}")
    parts = text.strip().lower().split("x")
    sizes = read_sizes("x".join(part.removesuffix("m") for part in parts))
    if sizes is None:
        raise InputError("bad torus", found=text, expected=expected)
    return Torus(sizes, wrap=tuple(not part.endswith("m") for part in parts))
