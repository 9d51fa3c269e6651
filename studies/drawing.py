"""The style of figures, and writing them to files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from toruscast.errors import InputError
from toruscast.files import atomic_path

# No random ids and no date, so that equal numbers give equal bytes.
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "toruscast",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
SUFFIXES = (".svg", ".png", ".pdf")


@contextmanager
def figure(width: float, height: float, **options: Any) -> Iterator[Figure]:
    """Return an empty matplotlib figure of this size in inches, in the style of the project."""
    with mpl.rc_context(_STYLE):
        yield Figure(figsize=(width, height), layout="constrained", **options)


def save(drawn: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as SVG, PNG or PDF, by the suffix of the file, completely or not at all.

    Raises
    ------
    InputError
        If the suffix is unknown or the file cannot be written.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            "unknown suffix", file=target, found=suffix or "none", expected=" or ".join(SUFFIXES)
        )
    date = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    with atomic_path(target) as temporary:
        drawn.savefig(temporary, format=suffix[1:], dpi=150, metadata=date)
