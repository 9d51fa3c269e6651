"""A torus from the text that a user types."""

from __future__ import annotations

import re
from pathlib import Path

from .machines.registry import get
from .torus import Torus
from .torus_text import parse_sizes

# A suffix at the end of a name.
FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,9}$")
# Characters of sizes, even if they are mistyped.
SIZES = frozenset("0123456789xm ")


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
        from .formats.torus import read_torus

        return read_torus(text.strip())
    machine = isinstance(text, str) and text.strip()[:1].isalpha()
    return get(text) if machine and set(text.lower()) - SIZES else parse_sizes(text)


def _names_file(text: str) -> bool:
    if not set(text.lower()) - SIZES or text.isidentifier():
        return False
    if text.startswith("/") or FILE.search(text):
        return True
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
