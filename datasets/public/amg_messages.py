"""Messages and times of algebraic multigrid on Blue Waters (Cray XE6, Gemini torus).

Published as ``amg_models`` of github.com/bienz2/BlueWatersModel, BSD 2-Clause licence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from toruscast.mapping.formats._source import Text, read_text

from ._numbers import seconds, whole

PROTOCOLS = ("short", "eager", "rend")
PLACES = ("network", "node", "socket")
STAGES = ("l", "s", "g", "r")

_CLASSES = {
    f"{word} {protocol.title()}{'' if place == 'network' else ' ' + place.title()}": (
        f"{name}_{protocol}_{place}"
    )
    for word, name in (("Num", "n"), ("Size", "nbytes"))
    for protocol in PROTOCOLS
    for place in PLACES
}
_FIELDS = {
    "Max Num Msgs": "n_max",
    **{f"Max Num {stage.upper()} Msgs": f"n_max_{stage}" for stage in STAGES},
    "Total Bytes": "total_nbytes",
    "Byte Hops": "byte_hops",
    "Worst Byte Hops": "worst_byte_hops",
    "Num Active Processes": "n_active",
    **_CLASSES,
}
_REQUIRED = ("Total Bytes", "Byte Hops", "Num Active Processes")
COLUMNS = [
    *("file", "run", "level", "operator", "matrix", "node_aware", "variant", "n_processes"),
    *_FIELDS.values(),
    "time",
]

_LEVEL = re.compile(r"Level\s+(\S+?):?")
# "A Communication:", "S Vector TAP Communication", "A*P:", "A*x"
_NAMED = re.compile(r"([A-Z])((?: (?:Vector|TAP))*) Communication:?")
_PRODUCT = re.compile(r"([A-Z])\*([A-Za-z]+)((?: TAP)?):?")
_VALUE = re.compile(r"([A-Za-z][A-Za-z ]*?)\s*[:=]\s*(.*)")


@dataclass
class _Block:
    """One communication: what is known of it when its time comes."""

    line: int
    operator: str
    matrix: bool
    node_aware: bool
    variant: str = ""
    values: dict[str, int] = field(default_factory=dict)


def read_amg_messages(
    path: str | os.PathLike[str], *, n_processes: int | None = None
) -> pd.DataFrame:
    r"""Read what every level and operator of a multigrid hierarchy sent, and how long it took.

    Parameters
    ----------
    path : path-like
        Output of a job; several runs may follow each other. Fields may come in any order, lines
        with other words are passed over. A communication that was cut off before its time was
        written is left out.
    n_processes : int, optional
        Processes of the job. If not given, the first number that stands by itself in the name of
        the file, or the most active processes where that is more or there is none.

    Returns
    -------
    DataFrame
        A row per time. ``level``, ``operator`` (A, S or P), ``matrix`` (rows of a matrix were
        sent, not a vector's values), ``node_aware`` (messages gathered node by node, "TAP"),
        ``variant`` (the calls used, where two were compared), ``n_processes``, ``n_active``;
        ``total_nbytes`` and ``byte_hops`` over the network; ``n_max``, most messages of a process,
        for node-aware communication by stage instead: ``n_max_l`` local, ``n_max_s`` gathered,
        ``n_max_g`` between nodes, ``n_max_r`` spread; ``n_short_network`` ... and
        ``nbytes_short_network`` ..., by protocol (short, eager, rend) and place (network, node,
        socket); ``time`` in seconds. NaN where a job did not write a field.

    Raises
    ------
    InputError
        If the file cannot be read, a field is malformed, comes twice or is missing, or no time is
        found; says file, line, what was found and what was expected.

    References
    ----------
    Bienz, Gropp and Olson, "Improving performance models for irregular point-to-point
    communication", EuroMPI'18.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "tiny_16.out"
    >>> _ = file.write_text('''Level 0
    ... A*x
    ... Max Num Msgs: 2
    ... Total Bytes = 4096
    ... Byte Hops = 8192
    ... Num Active Processes: 16
    ... Comm Time: 1.5e-05
    ... ''')
    >>> table = read_amg_messages(file)
    >>> table[["operator", "matrix", "n_processes", "byte_hops", "time"]].values.tolist()
    [['A', False, 16, 8192.0, 1.5e-05]]
    """
    text = read_text(path)
    rows = list(_rows(text))
    if not rows:
        raise text.fault("no measurement found", expected="a line 'Comm Time: <seconds>'")
    table = pd.DataFrame(rows)
    most = int(table["n_active"].max())
    if n_processes is None:
        named = re.search(r"(?<![A-Za-z0-9])\d{1,8}(?![A-Za-z0-9])", Path(path).name)
        n_processes = max(most, int(named[0]) if named else 0)
    if most > n_processes:
        raise text.fault("more active processes than processes", found=most, expected=n_processes)
    table = table.assign(file=Path(path).name, n_processes=n_processes).reindex(columns=COLUMNS)
    return table.astype(dict.fromkeys(_FIELDS.values(), float))


def _rows(text: Text) -> Iterator[dict[str, object]]:
    level, run, block = -1, -1, None
    for number, line in text.lines():
        if match := _LEVEL.fullmatch(line):
            new = whole(text, number, match[1])
            run += new <= level or run < 0
            level, block = new, None
        elif begun := _header(number, line):
            if level < 0:
                raise text.fault("communication outside a level", number, line, "'Level <number>'")
            block = begun
        elif block and line.startswith("Using "):
            block.variant = line.rstrip(". ")
        elif match := _VALUE.fullmatch(line):
            name, value = match.groups()
            if name != "Comm Time" and name not in _FIELDS:
                continue
            if block is None:
                raise text.fault("field outside a communication", number, line, "'<name>*<name>:'")
            if name == "Comm Time":
                _check(text, number, block)
                yield {
                    **{"run": run, "level": level, "operator": block.operator},
                    **{"matrix": block.matrix, "node_aware": block.node_aware},
                    **{"variant": block.variant, **block.values},
                    "time": seconds(text, number, value),
                }
            elif _FIELDS[name] in block.values:
                raise text.fault("field given twice", number, found=line)
            else:
                block.values[_FIELDS[name]] = whole(text, number, value)


def _header(number: int, line: str) -> _Block | None:
    if match := _NAMED.fullmatch(line):
        return _Block(number, match[1], "Vector" not in match[2], "TAP" in match[2])
    if match := _PRODUCT.fullmatch(line):
        return _Block(number, match[1], match[2][0].isupper(), bool(match[3]))
    return None


def _check(text: Text, number: int, block: _Block) -> None:
    """Fault a communication that lacks what every one has, or part of what belongs together."""
    have = block.values
    missing = [name for name in _REQUIRED if _FIELDS[name] not in have]
    for place in PLACES:
        group = {name: key for name, key in _CLASSES.items() if key.endswith(place)}
        if any(key in have for key in group.values()):
            missing += [name for name, key in group.items() if key not in have]
    if missing:
        where = f"the communication that begins in line {block.line}"
        raise text.fault("field missing", number, f"no '{missing[0]}'", f"one in {where}")
