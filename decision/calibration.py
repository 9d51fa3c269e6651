"""Constants of a machine's network from microbenchmarks, with intervals."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.files import read_limited
from toruscast.formats import write_torus
from toruscast.formats.source import Text
from toruscast.formats.tables import read_words
from toruscast.mapping import Torus
from toruscast.mapping.machines import TorusLike, as_torus
from toruscast.text import percent
from toruscast.validation import SECONDS, check_type, real_number

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
    """A row of a microbenchmark, between two nodes of the torus."""

    source: int
    destination: int
    # Bytes of a message, or of a rank's part of a collective.
    nbytes: float
    # Seconds for a message one way, for its share of a stream, or for a whole collective.
    time: float
    kind: Kind
    # Streams between the two nodes at once.
    pairs: int
    # File and line.
    place: str


def read_microbenchmark(
    path: str | os.PathLike[str], between: tuple[int, int] = (0, 1)
) -> list[MeasuredTransfer]:
    r"""Return the times in a file.

    Of OSU's tests latency (also multi-pair), bandwidth and message rate (``osu_mbw_mr``) are read,
    of IMB's PingPong, PingPing, Sendrecv and Exchange of two processes, and all that nccom-test
    prints. These files do not say where their processes ran. A CSV has a header with
    ``source,destination,bytes,time``, the ends as nodes of the torus; ``time`` is in seconds, or
    ``time_us``, ``time_ms``, ``time_ns``.
    """
    lines = read_limited(path, _LARGEST).decode("utf-8-sig", errors="replace").splitlines()
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
                # The file does not say where the processes of a longer chain ran.
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


CONSTANTS = ("start", "overhead", "hop_latency", "bandwidth")
_UNITS = {"bandwidth": "bytes/s"}
# Residuals beyond so many robust standard deviations are outliers.
_FAR = 5.0
_LEVEL = 0.9
# Every so many rows one is held out for a check.
_EVERY = 5


@dataclass(frozen=True, eq=False)
class Calibration:
    """Constants of a network, estimated from microbenchmarks."""

    # The machine with the constants that were found; others are those it came with.
    torus: Torus
    # A row per constant: value, low, high (90 %), unit, and how: "measured" or "kept".
    table: pd.DataFrame
    # A row per time: place, kind, hops, nbytes, time and predicted (s), error, outlier, held_out.
    rows: pd.DataFrame
    # Constants that the times do not separate, and rows that were left out.
    notes: tuple[str, ...]

    @property
    def outliers(self) -> pd.DataFrame:
        """Times far from those of the model; they do not count."""
        return self.rows[self.rows["outlier"]]

    @property
    def check(self) -> pd.Series[float]:
        """Relative errors of the rows that were held out."""
        return self.rows.loc[self.rows["held_out"] & ~self.rows["outlier"], "error"]

    def write(self, path: str | os.PathLike[str], date: str = "") -> None:
        """Write a machine file with the source of each constant."""
        write_torus(self.torus, path, "toml")
        measured = self.table[self.table["source"] == "measured"]
        text = []
        for row in measured.itertuples():
            says = f"{row.value:.6g} {row.unit}, 90 % interval {row.low:.4g} to {row.high:.4g}"
            text += ["", "[[sources]]", f'of = ["{row.constant}"]', 'how = "measured"']
            text += [f'says = "{says}"', 'source = "toruscast calibrate"', f'date = "{date}"']
        with Path(path).open("a", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")


def calibrate(
    times: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | MeasuredTransfer],
    torus: TorusLike,
    *,
    between: tuple[int, int] = (0, 1),
    check: bool = False,
) -> Calibration:
    """Return the constants of a torus's network from microbenchmarks.

    Parameters
    ----------
    times : path-like or sequence of path-like or MeasuredTransfer
        Files of OSU, IMB or nccom-test, or a CSV of ``source,destination,bytes,time``; as of
        `read_microbenchmark`. Times over several distances separate the time per hop from the rest.
    torus : Torus, str or sequence of int
        The machine: its shape, packet sizes, and constants that the times do not determine.
    between : pair of int
        Nodes of the two processes, where a file does not say.
    check : bool
        Whether to hold out every fifth row and predict it.

    Examples
    --------
    >>> from toruscast.mapping import CommGraph, TaskMapping
    >>> from toruscast.simulation import simulate
    >>> torus, rows = Torus((8,)), []
    >>> for hops in (1, 2, 4):
    ...     for nbytes in (64, 4096, 65536, 2**20):
    ...         comm = CommGraph(2, [0], [1], [nbytes])
    ...         time = simulate(comm, torus, TaskMapping([0, hops], torus)).time
    ...         rows.append(MeasuredTransfer(0, hops, nbytes, time, "message", 1, ""))
    >>> found = calibrate(rows, Torus((8,), bandwidth=1e9))
    >>> round(found.torus.network.hop_latency, 9), round(found.torus.bandwidth[0] / 1e9, 2)
    (4e-08, 2.0)
    """
    if isinstance(times, str | os.PathLike):
        times = [times]
    check_type(times, "times", Iterable, "files, or times of transfers")
    rows, torus = list(_all(times, between)), as_torus(torus)
    if not rows:
        raise InputError("no time to calibrate with")
    for end in (end for row in rows for end in (row.source, row.destination)):
        if end >= torus.n_nodes:
            expected = f"a node of {torus}"
            raise InputError("no such node in the times", found=end, expected=expected)
    problem = _Problem(rows, torus)
    held = np.zeros(len(rows), dtype=bool)
    if check:
        held[_EVERY - 1 :: _EVERY] = True
    fitted = problem.fit(~held)
    return problem.answer(fitted, held)


def _all(
    times: Iterable[str | os.PathLike[str] | MeasuredTransfer], between: tuple[int, int]
) -> Iterable[MeasuredTransfer]:
    for each in times:
        if isinstance(each, MeasuredTransfer):
            real_number(each.time, "time", 0)
            yield each
        else:
            yield from read_microbenchmark(each, between)


@dataclass(frozen=True, eq=False)
class _Fit:
    """Constants as start, overhead, hop and seconds a byte; NaN where not known."""

    values: NDArray[np.float64]
    spread: NDArray[np.float64]
    degrees: int
    outlier: NDArray[np.bool_]
    notes: tuple[str, ...]


class _Problem:
    """The times as a linear model of the four constants."""

    def __init__(self, rows: list[MeasuredTransfer], torus: Torus) -> None:
        self.rows, self.torus = rows, torus
        network = torus.network
        src = np.array([row.source for row in rows], dtype=np.int64)
        dst = np.array([row.destination for row in rows], dtype=np.int64)
        self.hops = np.asarray(torus.distance(src, dst), dtype=np.float64)
        self.time = np.array([row.time for row in rows])
        self.kind = np.array([row.kind for row in rows])
        self.nbytes = np.array([row.nbytes for row in rows])
        packets = np.maximum(np.ceil(self.nbytes / network.payload), 1)
        self.wire = self.nbytes + network.header * packets
        self.pairs = np.array([row.pairs for row in rows], dtype=np.float64)
        self.known = np.array(
            [network.start, network.overhead, network.hop_latency, 1 / max(torus.bandwidth)]
        )
        inside = (self.hops == 0) & (self.kind != "collective")
        if inside.any():
            place = rows[int(np.flatnonzero(inside)[0])].place
            raise InputError(
                "both ends on one node", found=place, expected="nodes apart, as --between says"
            )

    def design(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what each time counts of each constant, (rows, 4), near these values."""
        table = np.zeros((len(self.rows), 4))
        alone = self.kind == "message"
        table[alone] = np.column_stack(
            (np.ones(alone.sum()), np.ones(alone.sum()), self.hops[alone], self.wire[alone])
        )
        stream = self.kind == "stream"
        on_wire = self.wire * self.pairs
        software = values[1] > on_wire * values[3]
        table[stream & software, 1] = 1
        table[stream & ~software, 3] = on_wire[stream & ~software]
        together = self.kind == "collective"
        table[together, 0] = 1
        table[together, 3] = self.nbytes[together]
        return table

    def fit(self, used: NDArray[np.bool_]) -> _Fit:
        """Fit the rows that are used, without outliers."""
        outlier = np.zeros(len(self.rows), dtype=bool)
        values = self._first(used)
        found = _Fit(values, np.zeros(4), 0, outlier, ())
        for _ in range(20):
            found = self._solve(used & ~outlier, found.values, outlier)
            predicted = self.design(found.values) @ found.values
            error = self.time / predicted - 1
            middle = np.median(error[used])
            scale = 1.4826 * float(np.median(np.abs(error[used] - middle)))
            far = used & (np.abs(error - middle) > max(_FAR * scale, 1e-6))
            # More than a fifth are no outliers: the model does not describe them.
            if far.sum() > used.sum() / 5:
                far = outlier
            if (far == outlier).all() and np.allclose(found.values, values, rtol=1e-9):
                break
            outlier, values = far, found.values
        return replace(found, outlier=outlier)

    def _first(self, used: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Values from which the regimes of streams are told."""
        values = self.known.copy()
        largest = int(np.argmax(np.where(used, self.wire * self.pairs, 0)))
        values[3] = self.time[largest] / (self.wire * self.pairs)[largest]
        stream = used & (self.kind == "stream")
        if stream.any():
            values[1] = float(self.time[stream].min())
        return values

    def _solve(
        self, used: NDArray[np.bool_], near: NDArray[np.float64], outlier: NDArray[np.bool_]
    ) -> _Fit:
        """One step of weighted least squares, all constants at least 0."""
        full = self.design(near)[used]
        notes: list[str] = []
        free = list(range(4))
        values = self.known.copy()
        alone = self.kind[used] == "message"
        for drop, text in self._undetermined(full, alone):
            if drop in free:
                free.remove(drop)
                notes.append(text)
                values[drop] = 0.0 if drop == 0 and alone.any() else self.known[drop]
        if len(free) >= used.sum():
            expected = f"more than {len(free)} times"
            raise InputError("too few times", found=int(used.sum()), expected=expected)
        weight = 1 / np.maximum(full @ near, self.time[used] * 1e-3)
        rest = (self.time[used] - full @ values + full[:, free] @ values[free]) * weight
        scaled = full[:, free] * weight[:, None]
        size = np.linalg.norm(scaled, axis=0)
        best, _ = optimize.nnls(scaled / size, rest)
        values[free] = best / size
        residual = rest - scaled @ values[free]
        degrees = int(used.sum()) - len(free)
        covariance = np.linalg.pinv(scaled.T @ scaled) * float(residual @ residual) / degrees
        spread = np.full(4, np.nan)
        spread[free] = np.sqrt(np.diag(covariance))
        return _Fit(values, spread, degrees, outlier, tuple(notes))

    def _undetermined(
        self, full: NDArray[np.float64], alone: NDArray[np.bool_]
    ) -> Iterable[tuple[int, str]]:
        """Yield the constants that the times do not determine, with the reason for each."""
        hops, wire = full[alone, 2], full[:, 3]
        if not alone.any() or np.ptp(hops) == 0:
            at = f"all times are over {hops[0]:.0f} hops" if alone.any() else "no message alone"
            yield 2, f"hop_latency is kept: {at}, so it cannot be separated from the rest"
        streams = self.kind == "stream"
        software = streams.any() and (full[:, 1] > 0)[~alone].any()
        if not software:
            begins = "start and overhead cannot be separated: no stream of short messages"
            if self.known[0] > 0 or (full[:, 0] > 0)[~alone].any():
                yield 1, f"{begins}; overhead is kept, the rest is start"
            else:
                yield 0, f"{begins}; all of it is overhead"
        elif not alone.any() and not (full[:, 0] > 0).any():
            yield 0, "start is kept: no message alone"
        if wire.max(initial=0) == 0 or np.unique(wire[wire > 0]).size < 2:
            yield 3, "bandwidth is kept: all messages have one size"

    def answer(self, fitted: _Fit, held: NDArray[np.bool_]) -> Calibration:
        """Return constants, intervals, residuals and notes."""
        predicted = self.design(fitted.values) @ fitted.values
        error = self.time / predicted - 1
        middle = float(np.median(np.abs(error[~held & ~fitted.outlier])))
        outlier = fitted.outlier | (held & (np.abs(error) > max(10 * middle, 0.5)))
        notes = list(fitted.notes)
        # With headers that take half a link, a small packet size explains what a slow link does.
        if self.torus.network.header:
            notes.append(
                f"packets are taken to have {self.torus.network.payload} + "
                f"{self.torus.network.header} bytes; the bandwidth counts headers"
            )
        if (self.kind == "collective").any():
            notes.append(
                "for a collective, bandwidth is what every rank sends, and start is all that does "
                "not grow with bytes: its rounds cannot be separated"
            )
        if middle > 0.1:
            notes.append(
                f"the model is off by {percent(middle)} or more for half the times: sizes may use "
                "several protocols (give those of one), or several messages shared a link"
            )
        network = replace(
            self.torus.network,
            start=float(fitted.values[0]),
            overhead=float(fitted.values[1]),
            hop_latency=float(fitted.values[2]),
        )
        torus = replace(self.torus, network=network)
        if not np.isnan(fitted.spread[3]):
            share = (1 / fitted.values[3]) / max(self.torus.bandwidth)
            torus = replace(torus, bandwidth=tuple(b * share for b in self.torus.bandwidth))
            if len({*self.torus.bandwidth}) > 1:
                notes.append("dimensions differ: all are scaled as the fastest was")
        rows = pd.DataFrame(
            {
                "place": [row.place for row in self.rows],
                "kind": self.kind,
                "hops": self.hops.astype(int),
                "nbytes": self.nbytes,
                "time": self.time,
                "predicted": predicted,
                "error": error,
                "outlier": outlier,
                "held_out": held,
            }
        )
        return Calibration(torus, _table(fitted), rows, tuple(notes))


def _table(fitted: _Fit) -> pd.DataFrame:
    rows = []
    reach = float(stats.t.ppf((1 + _LEVEL) / 2, max(fitted.degrees, 1)))
    for number, name in enumerate(CONSTANTS):
        value, spread = float(fitted.values[number]), float(fitted.spread[number])
        kept = np.isnan(spread)
        low, high = max(value - reach * spread, 0.0), value + reach * spread
        if name == "bandwidth":
            low, high = 1 / high, 1 / low if low else np.inf
            value = 1 / value
        if kept:
            low = high = value
        unit = _UNITS.get(name, "s")
        how = "kept" if kept else "measured"
        rows.append((name, value, low, high, unit, how))
    return pd.DataFrame(rows, columns=["constant", "value", "low", "high", "unit", "source"])
