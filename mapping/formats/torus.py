"""Tori in and out."""

from __future__ import annotations

import os
import time

from toruscast.atomic import atomic_path
from toruscast.errors import InputError
from toruscast.files import check_claim, note_read, read_limited

from ..task_mapping import check_torus
from ..torus import Torus
from .guess import identify
from .registry import dialect_to_write
from .source import Source, check_path

_MOST = 2**20
# Bytes of a directed link in a simulation.
_HELD = 50


def read_torus(path: str | os.PathLike[str], *, format: str = "auto") -> Torus:
    r"""Read a torus from a file.

    A machine file in TOML or JSON, a target of Scotch, a platform of SimGrid, a network of
    ASTRA-sim, settings of SST, or a mesh descriptor of Tenstorrent; ``toruscast formats`` lists
    them.

    Parameters
    ----------
    path : path-like
        The file.
    format : str
        The format's name, for a file that fits several.

    Raises
    ------
    InputError
        If the file cannot be read or is none of these, has a key that there is not, or a value
        that is not valid; it names the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "mine.toml"
    >>> text = 'shape = [4, 8]\nwrap = [true, false]\n[network]\nhop_latency = 1e-7'
    >>> _ = path.write_text(text)
    >>> str(read_torus(path)), read_torus(path).network.hop_latency
    ('mine 4x8m', 1e-07)
    >>> _ = path.write_text("torus3D 4 4 8")
    >>> str(read_torus(path))
    'mine 4x4x8'
    """
    began = time.perf_counter()
    check_path(path)
    read_limited(path, _MOST)
    source = Source(path)
    dialect = identify(source, "torus", format)
    try:
        torus: Torus = dialect.read(source)
    except InputError as error:
        raise error.replace(file=path) from None
    n_links = 2 * torus.ndim * torus.n_nodes
    check_claim(path, _HELD * n_links, f"{torus.n_nodes} nodes with {n_links} links")
    note_read("torus", path, began, nodes=torus.n_nodes)
    return torus


def write_torus(torus: Torus, path: str | os.PathLike[str], dialect: str | None = None) -> str:
    """Write a torus; without a dialect the suffix of ``path`` names the format.

    Only a machine file holds everything. The file appears whole or not at all.

    Returns
    -------
    str
        How the file is used; empty where it needs no word.

    Raises
    ------
    InputError
        If the format cannot hold the torus, nothing names a format, or the path is not writable.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "mine.tgt"
    >>> advice = write_torus(Torus((4, 4, 8)), path)
    >>> print(path.read_text(), end="")
    torus3D 4 4 8
    """
    check_path(path)
    check_torus(torus)
    chosen = dialect_to_write("torus", path, dialect)
    if torus.holes and chosen.name not in ("toml", "machine-json"):
        expected = "a machine file (.toml), which does"
        raise InputError(f"{chosen.name} holds no missing or slow links", expected=expected)
    with atomic_path(path) as temporary:
        chosen.write(torus, temporary)  # type: ignore[misc]
    return chosen.how_to_use(os.fspath(path))
