"""Messages and times of algebraic multigrid on Blue Waters (Cray XE6, Gemini torus).

Published as ``amg_models`` of github.com/bienz2/BlueWatersModel, BSD 2-Clause licence.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from ..lines import Lines

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

OTHER_OPERATOR = "of another operator"
NO_MOST = "without the most messages of a process"
TWO_TOTALS = "with two counts of all bytes"
BYTES_FOR_HOPS = "with bytes in place of byte-hops"
BYTES_OF_ONE = "with the bytes of one process in place of all"

# More ranks than Blue Waters has cores; the numbers of its jobs are above.
_MOST_PROCESSES = 10**6
# Longest way in its torus of 24x24x24.
_DIAMETER = 36

_LEVEL = re.compile(r"Level\s+(\S+?):?")
# "A Communication:", "S Vector TAP Communication", "A*P:", "A*x"
_NAMED = re.compile(r"([ASP])((?: (?:Vector|TAP))*) Communication:?")
_PRODUCT = re.compile(r"([ASP])\*([A-Za-z]+)((?: TAP)?):?")
# "P.T*AP:", "P.T*r", and whatever else looks like the name of a communication.
_OTHER = re.compile(r"[A-Za-z]\S*\*[A-Za-z]\S*(?: TAP:?)?|.* Communication:?|[A-Za-z][\w. ]*:")
_VALUE = re.compile(r"([A-Za-z][A-Za-z ]*?)\s*[:=]\s*(.*)")
# "lin_elas_128_8509542.bw.out": a job's number ends with the name of the machine.
_COUNT = re.compile(r"(?<![A-Za-z0-9])\d{1,7}(?![A-Za-z0-9]|\.bw)")
_CORES = re.compile(r"(?<![a-z])nodes=(\d{1,6}):ppn=(\d{1,3})")


@dataclass
class _Block:
    """One communication: what is known of it when its time comes.

    ``operator`` is empty for one that is not A, S or P.
    """

    line: int
    operator: str
    matrix: bool
    node_aware: bool
    variant: str = ""
    two_totals: bool = False
    values: dict[str, int] = field(default_factory=dict)


def read_amg_messages(
    path: str | os.PathLike[str], *, n_processes: int | None = None
) -> pd.DataFrame:
    r"""Read what every level and operator of a multigrid hierarchy sent, and how long it took.

    Parameters
    ----------
    path : path-like
        Output of a job; several runs may follow each other. Fields may come in any order, lines
        with other words are passed over. A communication that was cut off before the line of its
        time was written to the end is left out.
    n_processes : int, optional
        Processes of the job. If not given, the least number in the name of the job, else of the
        file, that stands by itself and can be their count: not fewer than were active, nor more
        than cores were asked for.

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

        ``attrs["left_out"]`` counts the times that are not in the table, by reason: those of other
        operators (transposed P), and those whose columns mean something else, as some jobs of the
        campaign wrote them. Their table may be empty.

    Raises
    ------
    InputError
        If the file cannot be read, a field is malformed, comes twice or is missing, or no time or
        no number of processes is found; says file, line, what was found and what was expected.

    Notes
    -----
    Where the most messages of a process are not written, the counters by class are maxima over
    processes, each of another one, and their sum is of none.

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
    text = Lines(path, finished=True)
    left_out: Counter[str] = Counter()
    rows = list(_rows(text, left_out))
    if not rows and not left_out:
        raise text.fault("no measurement found", expected="a line 'Comm Time: <seconds>'")
    table = pd.DataFrame(rows).reindex(columns=COLUMNS)
    if rows:
        most = int(table["n_active"].max())
        if n_processes is None:
            n_processes = _count_processes(text, most)
        if most > n_processes:
            raise text.fault("more active processes than processes", None, most, n_processes)
        table = table.assign(file=Path(path).name, n_processes=n_processes)
    table = table.astype(dict.fromkeys(_FIELDS.values(), float))
    table.attrs["left_out"] = dict(left_out)
    return table


def _count_processes(text: Lines, most: int) -> int:
    """The number of processes by the name of the job, or of the file."""
    cores, jobs = [], list[str]()
    for _, line in text:
        if line.startswith("Job name:"):
            jobs.append(line.partition(":")[2].strip())
        elif line.startswith("Requested resources:") and (match := _CORES.search(line)):
            cores.append(int(match[1]) * int(match[2]))
    if len({tuple(_COUNT.findall(job)) for job in jobs}) > 1:
        raise text.fault("jobs of different names", None, ", ".join(jobs), "jobs of one size")
    limit = max(cores, default=_MOST_PROCESSES)
    for name in (*jobs[:1], text.path.name):
        counts = [int(count) for count in _COUNT.findall(name)]
        if fitting := [count for count in counts if most <= count <= limit]:
            return min(fitting)
    wanted = f"a count from {most} to {limit} in the name of the job or file, or n_processes"
    raise text.fault("number of processes not found", None, text.path.name, wanted)


def _rows(text: Lines, left_out: Counter[str]) -> Iterator[dict[str, object]]:
    level, run, block = -1, -1, None
    for number, line in text:
        if match := _LEVEL.fullmatch(line):
            new = text.whole(number, match[1])
            run += new <= level or run < 0
            level, block = new, None
        elif begun := _header(number, line):
            if level < 0 and begun.operator:
                raise text.fault("communication outside a level", number, line, "'Level <number>'")
            block = begun if level >= 0 else None
        elif block and line.startswith("Using "):
            block.variant = line.rstrip(". ")
        elif match := _VALUE.fullmatch(line):
            name, value = match.groups()
            if name != "Comm Time" and name not in _FIELDS:
                continue
            if block is None:
                raise text.fault("field outside a communication", number, line, "'<name>*<name>:'")
            if name != "Comm Time":
                _add(text, number, block, name, value)
                continue
            time = text.number(number, value, "time", 1e-12)
            if reason := _unusable(text, number, block):
                left_out[reason] += 1
                continue
            yield {
                **{"run": run, "level": level, "operator": block.operator},
                **{"matrix": block.matrix, "node_aware": block.node_aware},
                **{"variant": block.variant, **block.values},
                "time": time,
            }


def _header(number: int, line: str) -> _Block | None:
    if match := _NAMED.fullmatch(line):
        return _Block(number, match[1], "Vector" not in match[2], "TAP" in match[2])
    if match := _PRODUCT.fullmatch(line):
        return _Block(number, match[1], match[2][0].isupper(), bool(match[3]))
    known = line.rstrip(" :") in ("Comm Time", *_FIELDS)
    return None if known or not _OTHER.fullmatch(line) else _Block(number, "", False, False)


def _add(text: Lines, number: int, block: _Block, name: str, value: str) -> None:
    key, count = _FIELDS[name], text.whole(number, value)
    if key not in block.values:
        block.values[key] = count
    elif name == "Total Bytes" or not block.operator:
        block.two_totals = True
    else:
        raise text.fault("field given twice", number, found=f"{name} {value}")


def _unusable(text: Lines, number: int, block: _Block) -> str:
    """Why a communication cannot stand beside the others; empty if it can."""
    if not block.operator:
        return OTHER_OPERATOR
    _check(text, number, block)
    have = block.values
    if not have.keys() & {"n_max", *(f"n_max_{stage}" for stage in STAGES)}:
        return NO_MOST
    if block.two_totals:
        return TWO_TOTALS
    total, hops = have["total_nbytes"], have["byte_hops"]
    own = sum(have.get(f"nbytes_{protocol}_network", 0) for protocol in PROTOCOLS)
    if 0 < total == hops:
        return BYTES_FOR_HOPS
    return BYTES_OF_ONE if hops > _DIAMETER * total or 0 < total <= own else ""


def _check(text: Lines, number: int, block: _Block) -> None:
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
