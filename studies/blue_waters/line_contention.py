"""Ping-pong between the halves of a line of Gemini routers, on Blue Waters.

Published as ``contention`` of github.com/bienz2/BlueWatersModel, BSD 2-Clause licence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from ..lines import Lines

INT_NBYTES = 4
# Seconds; no time is shorter.
SHORTEST = 1e-12
_SIZE = re.compile(r"(Num Msgs|SizeMsgs)\s+(\S+)")
# A new series, or a line of the job system: an unfinished size was truncated.
_OTHER = ("Pingpong", "Application")
_RANKS = re.compile(r"(master|partner):\s*(.*)")


def read_line_contention(path: str | os.PathLike[str]) -> pd.DataFrame:
    r"""Read the times of a ping-pong in which every rank of one half has a partner in the other.

    Parameters
    ----------
    path : path-like
        Output of a job; several series may follow each other. A size that was cut off before the
        line of its times was written to the end is left out.

    Returns
    -------
    DataFrame
        A row per time: ``file``, ``dimension`` (x, y or z where the name of the file has it as a
        word, or empty), ``series``, ``n_ranks`` (both halves), ``n_messages`` that a rank sends,
        ``nbytes`` they have together, ``repeat`` and ``time`` in seconds, there and back.

    Raises
    ------
    InputError
        If the file cannot be read or a line does not fit; says file, line, what was found and
        what was expected.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "line_x_4.out"
    >>> _ = file.write_text('''Pingpong for
    ... master: 0, 1,
    ... partner: 2, 3,
    ... Num Msgs 2
    ... SizeMsgs 8
    ... 8.8e-06 8.9e-06
    ... ''')
    >>> read_line_contention(file)[["dimension", "n_ranks", "nbytes", "time"]].values.tolist()
    [['x', 4, 32, 8.8e-06], ['x', 4, 32, 8.9e-06]]
    """
    text = Lines(path, finished=True)
    rows = list(_rows(text))
    if not rows:
        raise text.fault("no measurement found", expected="'Num Msgs', 'SizeMsgs', then times")
    names = ["series", "n_ranks", "n_messages", "nbytes", "repeat", "time"]
    table = pd.DataFrame(rows, columns=names)
    words = set(re.split(r"[^a-z]+", Path(path).name.lower()))
    (dimension,) = words & set("xyz") if len(words & set("xyz")) == 1 else ("",)
    table.insert(0, "file", Path(path).name)
    table.insert(1, "dimension", dimension)
    return table


def _rows(text: Lines) -> Iterator[tuple[int, int, int, int, int, float]]:
    series, ranks, size = -1, {"master": 0, "partner": 0}, dict[str, int]()
    for number, line in text:
        if match := _RANKS.fullmatch(line):
            if match[1] == "master":
                series, ranks = series + 1, {"master": 0, "partner": 0}
            ranks[match[1]] = len([rank for rank in match[2].split(",") if rank.strip()])
            size = {}
        elif match := _SIZE.fullmatch(line):
            # A new count begins a new size. The previous size was truncated if it has no times yet.
            size = {} if match[1] == "Num Msgs" else size
            size[match[1]] = text.whole(number, match[2])
            if size[match[1]] == 0:
                raise text.fault("bad number", number, line, "a whole number above 0")
        elif line.startswith(_OTHER):
            size = {}
        elif len(size) == 2:
            if series < 0 or not 0 < ranks["master"] == ranks["partner"]:
                wanted = "as many partners as masters before the first times"
                raise text.fault("ranks missing", number, f"{ranks}", wanted)
            for repeat, token in enumerate(line.split()):
                time = text.number(number, token, "time", SHORTEST)
                yield (
                    *(series, 2 * ranks["master"], size["Num Msgs"]),
                    *(size["SizeMsgs"] * INT_NBYTES, repeat, time),
                )
            size = {}
        elif size:
            raise text.fault("size missing", number, line, "'SizeMsgs <number>'")
