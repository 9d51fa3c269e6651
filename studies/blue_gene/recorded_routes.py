"""Routes and traffic of applications on Blue Gene/Q, Mira and Vesta.

Published as github.com/takanori-fujiwara/par-comm-data, CC-BY 4.0: cite Fujiwara et al., "A visual
analytics system for optimizing communications in massively parallel applications", VAST'17.
"""

from __future__ import annotations

import os
import re

import numpy as np
import pandas as pd

from ..lines import Lines

COORDINATES = ("a", "b", "c", "d", "e", "t")
_END = r"(\d{1,9}) \(" + " ".join([r"(\d{1,9})"] * 6) + r"\)"
_HOP = re.compile(rf"Hop (\d{{1,9}}): \[(\d{{1,9}})-(\d{{1,9}})\] {_END} -> {_END}")


def read_static_routes(path: str | os.PathLike[str]) -> pd.DataFrame:
    r"""Read the links of recorded routes.

    Parameters
    ----------
    path : path-like
        A line per link of a route, in any order.

    Returns
    -------
    DataFrame
        ``hop``, the ranks ``src`` and ``dst`` of the route, the ranks ``begin`` and ``end`` of the
        link, and their coordinates ``begin_a`` ... ``begin_t``, ``end_a`` ... ``end_t``.

    Raises
    ------
    InputError
        If the file cannot be read or a line does not fit; says file, line, what was found and
        what was expected.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "route.txt"
    >>> _ = file.write_text("Hop 1: [12-8] 12 (0 1 1 0 0 0) -> 8 (0 1 0 0 0 0)")
    >>> read_static_routes(file)[["src", "dst", "begin", "begin_c", "end_c"]].values.tolist()
    [[12, 8, 12, 1, 0]]
    """
    text = Lines(path)
    rows = []
    for number, line in text:
        match = _HOP.fullmatch(line)
        if not match:
            wanted = "'Hop 1: [src-dst] rank (A B C D E T) -> rank (A B C D E T)'"
            raise text.fault("not a link of a route", number, line, wanted)
        rows.append([int(group) for group in match.groups()])
    if not rows:
        raise text.fault("file without data", expected="a line per link")
    ends = [
        f"{side}{c}" for side in ("begin", "end") for c in ("", *(f"_{c}" for c in COORDINATES))
    ]
    return pd.DataFrame(np.array(rows), columns=["hop", "src", "dst", *ends])


def read_hop_bytes(path: str | os.PathLike[str]) -> pd.DataFrame:
    r"""Read the bytes that pairs of ranks exchanged, and the hops between them.

    Parameters
    ----------
    path : path-like
        A line per pair: source, destination, bytes, hops.

    Returns
    -------
    DataFrame
        ``src``, ``dst``, ``nbytes`` (float: the source rounds large ones) and ``hops``.

    Raises
    ------
    InputError
        If the file cannot be read or a line does not fit; says file, line, what was found and
        what was expected.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "hopbyte.txt"
    >>> _ = file.write_text("0 1 4096 1")
    >>> read_hop_bytes(file).values.tolist()
    [[0.0, 1.0, 4096.0, 1.0]]
    """
    text = Lines(path)
    rows: list[tuple[int, int, float, int]] = []
    for number, line in text:
        tokens = line.split()
        if len(tokens) != 4:
            raise text.fault("row of another length", number, line, "source destination bytes hops")
        src, dst, hops = (text.whole(number, tokens[k]) for k in (0, 1, 3))
        nbytes = text.number(number, tokens[2], "byte count")
        rows.append((src, dst, nbytes, hops))
    if not rows:
        raise text.fault("file without data", expected="a line per pair")
    return pd.DataFrame(rows, columns=["src", "dst", "nbytes", "hops"])
