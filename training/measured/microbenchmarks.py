"""Times of microbenchmarks, read from what OSU, IMB and nccom-test print, or from a CSV."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from toruscast.errors import InputError
from toruscast.files import check_regular
from toruscast.mapping.formats.source import Text
from toruscast.mapping.formats.tables import read_words
from toruscast.units import SECONDS

Kind = Literal["message", "stream", "collective"]

_OSU = re.compile(r"#\s*OSU (?:MPI|OpenSHMEM|UPC\+*)?.*?(Latency|Bandwidth|Message Rate)", re.I)
_PAIRS = re.compile(r"\[\s*pairs:\s*(\d{1,6})\s*\]", re.I)
_IMB = re.compile(r"#\s*Benchmarking\s+(\S+)")
_PROCESSES = re.compile(r"#\s*#processes\s*=\s*(\d{1,7})")
# Tests of IMB whose times are of messages between two processes, and how many messages of the size
# that is printed go each way at once: in Exchange both neighbours of one process are the other.
_IMB_TESTS = {"pingpong": 1, "pingping": 1, "sendrecv": 1, "exchange": 2}
_NCCOM = re.compile(r"\s*size\(B\)\s+count\(elems\)\s+type\s+time\(us\)\s+algbw", re.I)
_LARGEST = 10**7
# Names of a CSV's columns, and the seconds of a unit of time.
_COLUMNS = {
    "source": ("source", "src", "from"),
    "destination": ("destination", "dst", "dest", "to"),
    "bytes": ("bytes", "nbytes", "size"),
}
_TIMES = {"time": 1.0, "seconds": 1.0} | {f"time_{unit}": x for unit, x in SECONDS.items()}


@dataclass(frozen=True)
class MeasuredTransfer:
    """A row of a microbenchmark.

    Attributes
    ----------
    source, destination : int
        The nodes of the torus between which it was measured.
    nbytes : float
        Bytes of a message, or of a rank's part of a collective.
    time : float
        Seconds of a message: one way, or a message's share of a stream.
    kind : {"message", "stream", "collective"}
        Alone from its start to its arrival, one of many that follow each other, or all of a
        collective.
    pairs : int
        Streams between the two nodes at once.
    place : str
        File and line.
    """

    source: int
    destination: int
    nbytes: float
    time: float
    kind: Kind
    pairs: int
    place: str


def read_microbenchmark(
    path: str | os.PathLike[str], between: tuple[int, int] = (0, 1)
) -> list[MeasuredTransfer]:
    r"""Return the times in a file.

    Of OSU's tests latency (also multi-pair), bandwidth and message rate (``osu_mbw_mr``) are read,
    of IMB's PingPong, PingPing, Sendrecv and Exchange of two processes, and all that nccom-test
    prints. These files do not say where
    their processes ran. A CSV has a header with ``source,destination,bytes,time``, the ends as
    nodes of the torus; ``time`` is in seconds, or ``time_us``, ``time_ms``, ``time_ns``.

    Parameters
    ----------
    path : path-like
    between : pair of int
        The nodes of the processes, where the file does not say.

    Raises
    ------
    InputError
        If the file is none of these, or a value is not valid.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "osu.txt"
    >>> _ = path.write_text("# OSU MPI Latency Test v7.4\n# Size  Latency (us)\n8  1.50\n")
    >>> read_microbenchmark(path)[0].time
    1.5e-06
    """
    check_regular(path)
    with open(path, "rb") as file:  # noqa: PTH123
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise InputError("file too large", file=path, expected=f"at most {_LARGEST:,} bytes")
    lines = data.decode("utf-8-sig", errors="replace").splitlines()
    recognised: tuple[tuple[re.Pattern[str], Callable[..., Iterator[MeasuredTransfer]]], ...] = (
        (_OSU, _osu),
        (_IMB, _imb),
        (_NCCOM, _nccom),
    )
    name = os.fspath(path)
    for sign, read in recognised:
        if any(sign.match(line.lstrip("\ufeff ")) for line in lines):
            rows = list(read(lines, name, between))
            break
    else:
        rows = list(_csv(lines, name))
    if not rows:
        expected = (
            "rows of a size and a time; of IMB, PingPong, PingPing, Sendrecv or Exchange of two "
        )
        raise InputError("no times in it", file=path, expected=expected + "processes")
    return rows


def _osu(lines: Sequence[str], path: str, between: tuple[int, int]) -> Iterator[MeasuredTransfer]:
    kind: Kind = "message"
    pairs, both = 1, 1
    for number, line in enumerate(lines, 1):
        title = _OSU.match(line)
        if title:
            kind = "message" if title[1].lower() == "latency" else "stream"
            pairs = 1
            both = 2 if "bi-directional" in line.lower() else 1
        elif line.lstrip().startswith("#"):
            found = _PAIRS.search(line)
            pairs = int(found[1]) if found else pairs
        elif line.strip():
            size, value = _numbers(line, path, number, 2)[:2]
            if size == 0 and kind == "stream":
                continue
            seconds = value * 1e-6
            if kind == "stream":
                # MB/s of all pairs together, both ways of the bidirectional test.
                seconds = size * pairs * both / (_positive(value, path, number) * 1e6)
            yield _row(between, size, seconds, kind, pairs, path, number)


def _imb(lines: Sequence[str], path: str, between: tuple[int, int]) -> Iterator[MeasuredTransfer]:
    test, processes = "", 2
    for number, line in enumerate(lines, 1):
        title, count = _IMB.match(line), _PROCESSES.match(line)
        if title:
            test, processes = title[1].lower(), 2
        elif count:
            processes = int(count[1])
        elif test in _IMB_TESTS and re.match(r"\s*\d+\s+\d+\s+[\d.]", line):
            if processes != 2:
                # Of a chain of more, nothing says where they ran.
                continue
            # PingPong prints one time, the others the least, the most and the mean of processes.
            cells = _numbers(line, path, number, 3)
            microseconds = cells[4] if len(cells) >= 6 else cells[2]
            nbytes = _IMB_TESTS[test] * cells[0]
            yield _row(between, nbytes, microseconds * 1e-6, "message", 1, path, number)


def _nccom(lines: Sequence[str], path: str, between: tuple[int, int]) -> Iterator[MeasuredTransfer]:
    for number, line in enumerate(lines, 1):
        cells = line.split()
        if len(cells) >= 6 and cells[0].isdigit() and cells[1].isdigit():
            size, microseconds, algorithm, bus = _numbers(
                " ".join([cells[0], *cells[3:6]]), path, number, 4
            )
            # What the bus bandwidth counts: the bytes that every rank sends.
            sent = size * bus / algorithm if algorithm > 0 else size
            yield _row(between, sent, microseconds * 1e-6, "collective", 1, path, number)


def _csv(lines: Sequence[str], path: str) -> Iterator[MeasuredTransfer]:
    kept = [(n, line) for n, line in enumerate(lines, 1) if line.strip() and line[:1] != "#"]
    names, rows = read_words(Text(path, b""), kept, lambda _: True)
    header = [name.lower() for name in names]
    place: dict[str, int] = {}
    for key, others in (_COLUMNS | {"time": tuple(_TIMES)}).items():
        if not (found := [header.index(name) for name in others if name in header]):
            expected = "source,destination,bytes,time, or what OSU, IMB or nccom-test prints"
            at, line = kept[0][0], ",".join(header)[:60]
            raise InputError(f"no column {key}", file=path, line=at, found=line, expected=expected)
        place[key] = found[0]
    for number, row in rows:
        cells = " ".join(row[at] or "?" for at in place.values())
        source, destination, nbytes, time = _numbers(cells, path, number, 4)
        ends = (int(source), int(destination))
        if ends != (source, destination) or min(ends) < 0:
            raise InputError("bad node", file=path, line=number, found=cells, expected="0 or more")
        seconds = time * _TIMES[header[place["time"]]]
        yield _row(ends, nbytes, seconds, "message", 1, path, number)


def _row(
    ends: tuple[int, int],
    nbytes: float,
    seconds: float,
    kind: Kind,
    pairs: int,
    path: str,
    line: int,
) -> MeasuredTransfer:
    _positive(seconds, path, line)
    return MeasuredTransfer(*ends, nbytes, seconds, kind, pairs, f"{path}:{line}")


def _numbers(text: str, path: str, line: int, least: int) -> list[float]:
    values = []
    for cell in text.split():
        try:
            values.append(float(cell))
        except ValueError:
            break
    good = [value for value in values if math.isfinite(value) and value >= 0]
    if len(values) < least or len(good) < len(values):
        expected = f"{least} numbers, none negative"
        raise InputError(
            "bad row", file=path, line=line, found=text.strip()[:60], expected=expected
        )
    return values


def _positive(value: float, path: str, line: int) -> float:
    if not value > 0:
        raise InputError("no time", file=path, line=line, found=value, expected="more than 0")
    return value
