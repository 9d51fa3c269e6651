"""Constants of a machine's network from microbenchmarks, with intervals.

A message alone takes ``start + overhead + hops x hop_latency + wire / bandwidth``, with ``wire``
its bytes and the headers of its packets. One of a stream takes the longer of ``overhead`` and the
time on the wire. Both are linear in the constants, so that least squares find them, weighted by the
predicted time because noise is a share of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, stats

from toruscast.errors import InputError
from toruscast.mapping import Torus
from toruscast.mapping.formats import write_torus
from toruscast.text import percent
from toruscast.validation import real_number

from .microbenchmarks import MeasuredTransfer, read_microbenchmark

CONSTANTS = ("start", "overhead", "hop_latency", "bandwidth")
_UNITS = {"bandwidth": "bytes/s"}
# Residuals beyond so many robust standard deviations are outliers.
_FAR = 5.0
_LEVEL = 0.9
# Every so many rows one is held out for a check.
_EVERY = 5


@dataclass(frozen=True, eq=False)
class Calibration:
    """What microbenchmarks say of a network.

    Attributes
    ----------
    torus : Torus
        The machine with the constants that were found; others are those it came with.
    table : DataFrame
        A row for each constant: ``constant``, ``value``, ``low``, ``high`` (the interval of 90 %),
        ``unit``, ``how`` ("measured", or "kept" where the times do not tell it).
    rows : DataFrame
        A row for each time: ``place``, ``kind``, ``hops``, ``nbytes``, ``time``, ``predicted``
        (seconds), ``error`` (relative), ``outlier``, ``held_out``.
    notes : tuple of str
        What could not be told apart, and what was left out.
    """

    torus: Torus
    table: pd.DataFrame
    rows: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def outliers(self) -> pd.DataFrame:
        """Times that the model misses by far; they do not count."""
        return self.rows[self.rows["outlier"]]

    @property
    def check(self) -> pd.Series[float]:
        """Relative errors of the rows that were held out."""
        return self.rows.loc[self.rows["held_out"] & ~self.rows["outlier"], "error"]

    def write(self, path: str | os.PathLike[str], date: str = "") -> None:
        """Write a machine file with the source of each constant.

        Parameters
        ----------
        path : path-like
            Ends in ``.toml``.
        date : str
            When the times were measured.
        """
        write_torus(self.torus, path, "toml")
        measured = self.table[self.table["how"] == "measured"]
        text = []
        for row in measured.itertuples():
            says = f"{row.value:.6g} {row.unit}, 90 % interval {row.low:.4g} to {row.high:.4g}"
            text += ["", "[[sources]]", f'of = ["{row.constant}"]', 'how = "measured"']
            text += [f'says = "{says}"', 'source = "toruscast calibrate"', f'date = "{date}"']
        with Path(path).open("a", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")


def calibrate(
    times: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | MeasuredTransfer],
    torus: Torus,
    *,
    between: tuple[int, int] = (0, 1),
    check: bool = False,
) -> Calibration:
    """Return the constants of a torus's network from microbenchmarks.

    Parameters
    ----------
    times : path-like or sequence of path-like or MeasuredTransfer
        Files of OSU, IMB or nccom-test, or a CSV of ``source,destination,bytes,time``; as of
        `read_microbenchmark`. Times over several distances tell the time a hop from the rest.
    torus : Torus
        The machine: its shape, and packet sizes and constants that the times do not tell.
    between : pair of int
        Nodes of the two processes, where a file does not say.
    check : bool
        Whether to hold out every fifth row and predict it.

    Returns
    -------
    Calibration

    Raises
    ------
    InputError
        If a file cannot be read, or there are too few times.

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
    rows = list(_all(times, between))
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
        for drop, text in self._not_told(full, alone):
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

    def _not_told(
        self, full: NDArray[np.float64], alone: NDArray[np.bool_]
    ) -> Iterable[tuple[int, str]]:
        """Yield the constants that the times do not tell, with a word on each."""
        hops, wire = full[alone, 2], full[:, 3]
        if not alone.any() or np.ptp(hops) == 0:
            at = f"all times are over {hops[0]:.0f} hops" if alone.any() else "no message alone"
            yield 2, f"hop_latency is kept: {at}, so that it cannot be told from the rest"
        streams = self.kind == "stream"
        software = streams.any() and (full[:, 1] > 0)[~alone].any()
        if not software:
            begins = "start and overhead cannot be told apart: no stream of short messages"
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
                "of a collective, bandwidth is what every rank sends, and start all that does not "
                "grow with bytes: its rounds cannot be told apart"
            )
        if middle > 0.1:
            notes.append(
                f"the model misses half the times by {percent(middle)} or more: sizes may use "
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
    return pd.DataFrame(rows, columns=["constant", "value", "low", "high", "unit", "how"])
