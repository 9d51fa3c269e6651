"""A torus from the text that a user types."""

from __future__ import annotations

from .machines.registry import get
from .torus import Torus
from .torus_file import read_torus
from .torus_text import parse_sizes

# Characters of sizes, even if they are mistyped.
SIZES = frozenset("0123456789xm ")


def parse_torus(text: str) -> Torus:
    """Read a torus from ``8x8x8``, ``8x8x8m`` (a mesh in the last dimension) or a machine.

    A machine is a preset's short form, as in `machines.get`. The text of any of these tori,
    ``str(torus)``, reads back as the same torus. A text that ends in ``.toml`` names a file, as in
    `read_torus`.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> parse_torus("4x4x8m").wrap, parse_torus("tpu_v4:4x4x8").n_nodes
    ((True, True, False), 128)
    """
    if isinstance(text, str) and text.strip().lower().endswith(".toml"):
        return read_torus(text.strip())
    machine = isinstance(text, str) and text.strip()[:1].isalpha()
    return get(text) if machine and set(text.lower()) - SIZES else parse_sizes(text)
