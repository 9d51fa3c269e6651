"""Estimate the constants of a machine's network from microbenchmarks, with intervals."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.files import read_limited
from toruscast.formats import write_torus
from toruscast.formats.source import TextFile
from toruscast.formats.tables import read_words
from toruscast.mapping import Torus
from toruscast.mapping.machines import TorusLike, as_torus
from toruscast.notebook import Result
from toruscast.scaling.noise import MAD_TO_STD
from toruscast.text import counted, joined, percent, shown_name
from toruscast.typing import Floats
from toruscast.validation import SECONDS, check_type, real_number

Kind = Literal["message", "stream", "collective"]
Mask = NDArray[np.bool_]

_OSU_TITLE = re.compile(
    r"#\s*OSU (?:MPI|OpenSHMEM|UPC\+*)?.*?(Latency|Bandwidth|Message Rate)", re.I
)
_OSU_PAIRS = re.compile(r"\[\s*pairs:\s*(\d{1,6})\s*\]", re.I)
_IMB_TITLE = re.compile(r"#\s*Benchmarking\s+(\S+)")
_IMB_PROCESSES = re.compile(r"#\s*#processes\s*=\s*(\d{1,7})")
# Supported IMB tests, and the number of messages that each process sends within a printed time. In
# Exchange, it sends to both neighbours, which are the same process if there are two processes.
_IMB_MESSAGES = {"pingpong": 1, "pingping": 1, "sendrecv": 1, "exchange": 2}
_IMB_ROW = re.compile(r"\s*\d+\s+\d+\s+[\d.]")
_NCCOM_HEADER = re.compile(r"\s*size\(B\)\s+count\(elems\)\s+type\s+time\(us\)\s+algbw", re.I)
_MAX_BYTES = 10**7
_COLUMN_NAMES = {
    "source": ("source", "src", "from"),
    "destination": ("destination", "dst", "dest", "to"),
    "bytes": ("bytes", "nbytes", "size"),
}
# Seconds in the unit of each time column.
_TIME_UNITS = {"time": 1.0, "seconds": 1.0} | {f"time_{unit}": x for unit, x in SECONDS.items()}
Lines = list[tuple[int, str]]
Endpoints = tuple[int, int]
# Line, endpoints, bytes, seconds, kind and concurrent streams of a measured transfer.
Rows = Iterator[tuple[int, Endpoints, float, float, Kind, int]]
CONSTANTS = ("start", "overhead", "hop_latency", "bandwidth")
# Index of each fitted constant. The bandwidth is fitted as its inverse.
_START, _OVERHEAD, _HOP_LATENCY, _SECONDS_PER_BYTE = range(4)
_UNITS = {"bandwidth": "bytes/s"}
# The residual of an outlier exceeds this number of robust standard deviations and this relative
# size. If more than this share of the rows are outliers, the model is wrong, and the rows are kept.
_OUTLIER_SCALES, _MIN_OUTLIER, _MAX_OUTLIER_SHARE = 5.0, 1e-6, 0.2
# The error of a held-out outlier exceeds this multiple of the median error, and also this value.
_HELD_OUT_RATIO, _MIN_HELD_OUT_ERROR = 10.0, 0.5
# A note warns of a poor fit if the median relative error is larger than this.
_POOR_FIT = 0.1
_COVERAGE, _MAX_FITS = 0.9, 20
# One row of each group of this size is held out for a check.
_CHECK_STRIDE = 5


@dataclass(frozen=True)
class MeasuredTransfer:
    """A time that a microbenchmark measured between two nodes of the torus."""

    source: int
    destination: int
    nbytes: float
    """Bytes of a message, or of one rank's part of a collective."""
    time: float
    """Seconds of a one-way message, of one message in a stream, or of a whole collective."""
    kind: Kind
    pairs: int
    """Concurrent streams between the two nodes."""
    place: str
    """File and line."""


def read_microbenchmark(
    path: str | os.PathLike[str], between: Endpoints = (0, 1)
) -> list[MeasuredTransfer]:
    r"""Read the times in the output of a microbenchmark, or in a CSV.

    The supported files are the OSU tests of latency (also multi-pair), bandwidth and message rate
    (``osu_mbw_mr``); IMB PingPong, PingPing, Sendrecv and Exchange of two processes; and
    nccom-test. These files do not name the nodes of the two processes, so give the nodes in
    ``between``. A CSV has the columns ``source,destination,bytes,time``, where source and
    destination are nodes of the torus. ``time`` is in seconds; for other units, name the column
    ``time_us``, ``time_ms`` or ``time_ns``.
    """
    content = read_limited(path, _MAX_BYTES).decode("utf-8-sig", errors="replace")
    text, lines = TextFile(os.fspath(path)), list(enumerate(content.splitlines(), start=1))
    readers = ((_OSU_TITLE, _read_osu), (_IMB_TITLE, _read_imb), (_NCCOM_HEADER, _read_nccom))
    for pattern, reader in readers:
        if any(pattern.match(line.lstrip("\ufeff ")) for _, line in lines):
            rows = reader(text, lines, between)
            break
    else:
        rows = _read_csv(text, lines)
    transfers = []
    for line, endpoints, nbytes, seconds, kind, pairs in rows:
        if not seconds > 0:
            raise text.fault("bad time", line, seconds, "more than 0")
        place = f"{text.file}:{line}"
        transfers.append(MeasuredTransfer(*endpoints, nbytes, seconds, kind, pairs, place))
    if not transfers:
        expected = "rows of a size and a time; for IMB, a point-to-point test of two processes"
        raise text.fault("no times", expected=expected)
    return transfers


def _read_osu(text: TextFile, lines: Lines, between: Endpoints) -> Rows:
    """Yield the transfers in a file with the output of one or more OSU benchmarks."""
    kind: Kind = "message"
    pairs, directions = 1, 1
    for number, line in lines:
        title = _OSU_TITLE.match(line)
        if title:
            kind = "message" if title[1].lower() == "latency" else "stream"
            pairs = 1
            directions = 2 if "bi-directional" in line.lower() else 1
        elif line.lstrip().startswith("#"):
            match = _OSU_PAIRS.search(line)
            pairs = int(match[1]) if match else pairs
        elif line.strip():
            size, value = _parse_numbers(text, number, line, 2)[:2]
            if size == 0 and kind == "stream":
                continue
            seconds = value * 1e-6
            if kind == "stream" and value:
                # OSU prints the total MB/s of all pairs and directions.
                seconds = size * pairs * directions / (value * 1e6)
            yield number, between, size, seconds, kind, pairs


def _read_imb(text: TextFile, lines: Lines, between: Endpoints) -> Rows:
    """Yield the transfers in the output of IMB tests of two processes; skip other tests."""
    test, processes = "", 2
    for number, line in lines:
        title, count = _IMB_TITLE.match(line), _IMB_PROCESSES.match(line)
        if title:
            test, processes = title[1].lower(), 2
        elif count:
            processes = int(count[1])
        # With more than two processes, the nodes of the chain are unknown.
        elif processes == 2 and test in _IMB_MESSAGES and _IMB_ROW.match(line):
            # PingPong prints one time; other tests print minimum, maximum and mean over processes.
            cells = _parse_numbers(text, number, line, 3)
            microseconds = cells[4] if len(cells) >= 6 else cells[2]
            yield number, between, _IMB_MESSAGES[test] * cells[0], microseconds * 1e-6, "message", 1


def _read_nccom(text: TextFile, lines: Lines, between: Endpoints) -> Rows:
    """Yield the collectives in the table that nccom-test prints."""
    for number, line in lines:
        cells = line.split()
        if len(cells) >= 6 and cells[0].isdigit() and cells[1].isdigit():
            size, microseconds, algorithm_bandwidth, bus_bandwidth = _parse_numbers(
                text, number, " ".join([cells[0], *cells[3:6]]), 4
            )
            # The bus bandwidth counts the bytes that each rank sends.
            sent = size * bus_bandwidth / algorithm_bandwidth if algorithm_bandwidth > 0 else size
            yield number, between, sent, microseconds * 1e-6, "collective", 1


def _read_csv(text: TextFile, lines: Lines) -> Rows:
    """Yield the transfers in a CSV table, which names the nodes."""
    lines = [(number, line) for number, line in lines if line.strip() and line[:1] != "#"]
    names, rows = read_words(text, lines, lambda _: True)
    header = [name.lower() for name in names]
    columns: dict[str, int] = {}
    for key, accepted in (_COLUMN_NAMES | {"time": tuple(_TIME_UNITS)}).items():
        matches = [header.index(name) for name in accepted if name in header]
        if not matches:
            expected = "source,destination,bytes,time, or output of OSU, IMB or nccom-test"
            raise text.fault(f"no column {key}", lines[0][0], ",".join(header)[:60], expected)
        columns[key] = matches[0]
    unit = _TIME_UNITS[header[columns["time"]]]
    for number, row in rows:
        cells = " ".join(row[column] or "?" for column in columns.values())
        source, destination, nbytes, time = _parse_numbers(text, number, cells, 4)
        endpoints = (int(source), int(destination))
        if endpoints != (source, destination):
            raise text.fault("bad node", number, cells, "0 or more")
        yield number, endpoints, nbytes, time * unit, "message", 1


def _parse_numbers(text: TextFile, number: int, line: str, min_count: int) -> list[float]:
    """Return the leading numbers of a line."""
    values = []
    for cell in line.split():
        try:
            values.append(float(cell))
        except ValueError:
            break
    if len(values) < min_count or not all(math.isfinite(x) and x >= 0 for x in values):
        raise text.fault("bad row", number, line.strip()[:60], f"{min_count} numbers, 0 or more")
    return values


@dataclass(frozen=True, eq=False)
class Calibration(Result):
    """Constants of a network, estimated from microbenchmarks; made by `calibrate`.

    Attributes
    ----------
    torus : Torus
        The machine with the estimated constants; the other constants are unchanged.
    table : DataFrame
        A row per constant: ``value``, its 90 % interval ``low`` to ``high``, ``unit``, and
        ``source``, which is "measured" or "kept".
    rows : DataFrame
        A row per time: ``place``, ``kind``, ``hops``, ``nbytes``, ``time`` and ``predicted``
        (seconds), relative ``error``, ``outlier``, ``held_out``.
    notes : tuple of str
        Constants that the times do not determine, and limits of the model.
    networks : dict of str to float
        Probability of each network that the machine may have, given runs of a program; empty if the
        rules of the network are known.
    """

    torus: Torus
    table: pd.DataFrame
    rows: pd.DataFrame
    notes: tuple[str, ...]
    networks: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        measured = self.table.loc[self.table["source"] == "measured", "constant"]
        return (
            f"Calibration({joined(measured)} of {shown_name(self.torus)}, "
            f"from {counted(len(self.rows), 'time')})"
        )

    @property
    def outliers(self) -> pd.DataFrame:
        """Rows that are excluded because they are far from the model."""
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
    """Estimate the constants of a torus's network from microbenchmarks.

    Parameters
    ----------
    times : path-like or sequence of path-like or MeasuredTransfer
        Files that `read_microbenchmark` reads. Times at several distances separate the latency per
        hop from the other constants.
    torus : Torus, str or sequence of int
        The machine: its shape, packet sizes, and constants that the times do not determine.
    between : pair of int
        Nodes of the two processes, for files that do not name them.
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
    torus = as_torus(torus)
    rows: list[MeasuredTransfer] = []
    for item in times:
        if isinstance(item, MeasuredTransfer):
            real_number(item.time, "time", 0)
            rows.append(item)
        else:
            rows += read_microbenchmark(item, between)
    if not rows:
        raise InputError("no time to calibrate with")
    for node in (node for row in rows for node in (row.source, row.destination)):
        if node >= torus.n_nodes:
            expected = f"a node of {torus}"
            raise InputError("no such node in the times", found=node, expected=expected)
    model = _TransferModel(rows, torus)
    is_held_out = np.zeros(len(rows), dtype=bool)
    if check:
        is_held_out[_CHECK_STRIDE - 1 :: _CHECK_STRIDE] = True
    return model.calibration(model.fit(~is_held_out), is_held_out)


@dataclass(frozen=True, eq=False)
class _ConstantFit:
    """Fitted start, overhead, hop latency (s) and seconds per byte, ``(4,)``.

    Constants that the times do not determine have a standard error of NaN.
    """

    values: Floats
    std_errors: Floats
    df: int
    is_outlier: Mask
    notes: tuple[str, ...]


class _TransferModel:
    """Transfer times as a linear function of the four constants in `CONSTANTS`."""

    def __init__(self, rows: list[MeasuredTransfer], torus: Torus) -> None:
        self.rows, self.torus = pd.DataFrame(rows), torus
        network = torus.network
        src, dst, self.nbytes, self.time, self.kind, pairs, place = (
            self.rows[column.name].to_numpy() for column in fields(MeasuredTransfer)
        )
        self.hops = np.asarray(torus.distance(src, dst), dtype=np.float64)
        packets = np.maximum(np.ceil(self.nbytes / network.payload), 1)
        self.wire_bytes = self.nbytes + network.header * packets
        self.stream_bytes = self.wire_bytes * pairs
        self.initial = np.array(
            [network.start, network.overhead, network.hop_latency, 1 / max(torus.bandwidth)]
        )
        is_local = (self.hops == 0) & (self.kind != "collective")
        if is_local.any():
            found, expected = place[is_local][0], "two nodes (--between)"
            raise InputError("both endpoints on one node", found=found, expected=expected)

    def design_matrix(self, values: Floats) -> Floats:
        """Return the derivatives of the times with respect to the constants, ``(n_rows, 4)``.

        A message takes start + overhead + hops * hop latency + bytes / bandwidth, a collective
        takes start + bytes / bandwidth, and a message in a stream takes the overhead or
        bytes / bandwidth, whichever is larger according to ``values``.
        """
        matrix = np.zeros((len(self.rows), 4))
        is_message = self.kind == "message"
        matrix[is_message, _START] = matrix[is_message, _OVERHEAD] = 1
        matrix[is_message, _HOP_LATENCY] = self.hops[is_message]
        matrix[is_message, _SECONDS_PER_BYTE] = self.wire_bytes[is_message]
        is_stream = self.kind == "stream"
        is_software_bound = values[_OVERHEAD] > self.stream_bytes * values[_SECONDS_PER_BYTE]
        matrix[is_stream & is_software_bound, _OVERHEAD] = 1
        is_wire_bound = is_stream & ~is_software_bound
        matrix[is_wire_bound, _SECONDS_PER_BYTE] = self.stream_bytes[is_wire_bound]
        is_collective = self.kind == "collective"
        matrix[is_collective, _START] = 1
        matrix[is_collective, _SECONDS_PER_BYTE] = self.nbytes[is_collective]
        return matrix

    def fit(self, is_used: Mask) -> _ConstantFit:
        """Fit the used rows, and fit again without outliers until the outliers do not change."""
        outlier = np.zeros(len(self.rows), dtype=bool)
        values = self._initial_values(is_used)
        fit = _ConstantFit(values, np.zeros(4), 0, outlier, ())
        for _ in range(_MAX_FITS):
            fit = self._solve_least_squares(is_used & ~outlier, fit.values)
            error = self.time / (self.design_matrix(fit.values) @ fit.values) - 1
            median = np.median(error[is_used])
            scale = MAD_TO_STD * float(np.median(np.abs(error[is_used] - median)))
            limit = max(_OUTLIER_SCALES * scale, _MIN_OUTLIER)
            far = is_used & (np.abs(error - median) > limit)
            if far.sum() > _MAX_OUTLIER_SHARE * is_used.sum():
                far = outlier
            if (far == outlier).all() and np.allclose(fit.values, values, rtol=1e-9):
                break
            outlier, values = far, fit.values
        return replace(fit, is_outlier=outlier)

    def _initial_values(self, is_used: Mask) -> Floats:
        """Estimate the bandwidth from the longest transfer, and the overhead from streams."""
        values = self.initial.copy()
        largest = int(np.argmax(np.where(is_used, self.stream_bytes, 0)))
        values[_SECONDS_PER_BYTE] = self.time[largest] / self.stream_bytes[largest]
        is_stream = is_used & (self.kind == "stream")
        if is_stream.any():
            values[_OVERHEAD] = float(self.time[is_stream].min())
        return values

    def _solve_least_squares(self, is_used: Mask, initial: Floats) -> _ConstantFit:
        """Fit non-negative constants by weighted least squares.

        The constants ``initial`` determine the weights, which make errors relative, and decide
        whether overhead or bandwidth limits each stream.
        """
        matrix = self.design_matrix(initial)[is_used]
        notes: list[str] = []
        free = list(range(4))
        values = self.initial.copy()
        is_message = self.kind[is_used] == "message"
        for constant, note in self._find_undetermined(matrix, is_message):
            if constant in free:
                free.remove(constant)
                notes.append(note)
                if constant == _START and is_message.any():
                    values[constant] = 0.0
        if len(free) >= is_used.sum():
            expected = f"more than {len(free)} times"
            raise InputError("too few times", found=int(is_used.sum()), expected=expected)
        weight = 1 / np.maximum(matrix @ initial, self.time[is_used] * 1e-3)
        # Subtract the part of the times that the fixed constants explain.
        target = (self.time[is_used] - matrix @ values + matrix[:, free] @ values[free]) * weight
        scaled = matrix[:, free] * weight[:, None]
        norms = np.linalg.norm(scaled, axis=0)
        solution, _ = optimize.nnls(scaled / norms, target)
        values[free] = solution / norms
        residual = target - scaled @ values[free]
        df = int(is_used.sum()) - len(free)
        covariance = np.linalg.pinv(scaled.T @ scaled) * float(residual @ residual) / df
        std_errors = np.full(4, np.nan)
        std_errors[free] = np.sqrt(np.diag(covariance))
        return _ConstantFit(values, std_errors, df, ~is_used, tuple(notes))

    def _find_undetermined(self, matrix: Floats, is_message: Mask) -> Iterable[tuple[int, str]]:
        """Yield the index of each constant that the times do not determine, and the reason.

        ``matrix`` is the design matrix of the used rows; ``is_message`` marks rows that are
        messages.
        """
        hops, wire_bytes = matrix[is_message, _HOP_LATENCY], matrix[:, _SECONDS_PER_BYTE]
        has_start = (matrix[~is_message, _START] > 0).any()
        if not is_message.any():
            yield _HOP_LATENCY, "hop_latency is kept because no message was timed alone"
        elif np.ptp(hops) == 0:
            reason = f"all messages take {hops[0]:.0f} hops"
            yield _HOP_LATENCY, f"hop_latency is kept because {reason}"
        if not (matrix[~is_message, _OVERHEAD] > 0).any():
            reason = "start and overhead cannot be separated without a stream of short messages"
            if self.initial[_START] > 0 or has_start:
                yield (
                    _OVERHEAD,
                    f"{reason}; overhead is kept, and start is their measured sum minus overhead",
                )
            else:
                yield _START, f"{reason}; start is set to 0, and overhead is their measured sum"
        elif not is_message.any() and not has_start:
            yield _START, "start is kept because no message was timed alone"
        if np.unique(wire_bytes[wire_bytes > 0]).size < 2:
            yield _SECONDS_PER_BYTE, "bandwidth is kept because all messages have one size"

    def calibration(self, fit: _ConstantFit, is_held_out: Mask) -> Calibration:
        """Return the calibrated torus, its constants, the residuals of the times, and notes."""
        predicted = self.design_matrix(fit.values) @ fit.values
        error = self.time / predicted - 1
        median = float(np.median(np.abs(error[~is_held_out & ~fit.is_outlier])))
        limit = max(_HELD_OUT_RATIO * median, _MIN_HELD_OUT_ERROR)
        outlier = fit.is_outlier | (is_held_out & (np.abs(error) > limit))
        notes = list(fit.notes)
        # Small packets with large headers fit the same times as a slow link.
        if self.torus.network.header:
            notes.append(
                f"packets are assumed to have {self.torus.network.payload} + "
                f"{self.torus.network.header} bytes; the bandwidth includes headers"
            )
        if (self.kind == "collective").any():
            notes.append(
                "for a collective, the bandwidth counts the bytes that each rank sends; start is "
                "the time that does not grow with bytes, summed over all rounds"
            )
        if median > _POOR_FIT:
            notes.append(
                f"the model is off by {percent(median)} or more for half the times: sizes may use "
                "several protocols (give sizes of only one), or several messages may share a link"
            )
        network = replace(
            self.torus.network,
            start=float(fit.values[_START]),
            overhead=float(fit.values[_OVERHEAD]),
            hop_latency=float(fit.values[_HOP_LATENCY]),
        )
        torus = replace(self.torus, network=network)
        if not np.isnan(fit.std_errors[_SECONDS_PER_BYTE]):
            factor = (1 / fit.values[_SECONDS_PER_BYTE]) / max(self.torus.bandwidth)
            torus = replace(torus, bandwidth=tuple(b * factor for b in self.torus.bandwidth))
            if len({*self.torus.bandwidth}) > 1:
                notes.append("bandwidths of all dimensions are scaled by the same factor")
        rows = self.rows[["place", "kind", "nbytes", "time"]].assign(
            predicted=predicted, error=error, outlier=outlier, held_out=is_held_out
        )
        rows.insert(2, "hops", self.hops.astype(int))
        return Calibration(torus, _tabulate_constants(fit), rows, tuple(notes))


def _tabulate_constants(fit: _ConstantFit) -> pd.DataFrame:
    """Return a row per constant, with its interval from Student's t distribution."""
    rows = []
    quantile = float(stats.t.ppf((1 + _COVERAGE) / 2, max(fit.df, 1)))
    for index, name in enumerate(CONSTANTS):
        value, error = float(fit.values[index]), float(fit.std_errors[index])
        low, high = max(value - quantile * error, 0.0), value + quantile * error
        if name == "bandwidth":
            low, high = 1 / high, 1 / low if low else np.inf
            value = 1 / value
        source = "measured"
        if np.isnan(error):
            low, high, source = value, value, "kept"
        rows.append((name, value, low, high, _UNITS.get(name, "s"), source))
    return pd.DataFrame(rows, columns=["constant", "value", "low", "high", "unit", "source"])
