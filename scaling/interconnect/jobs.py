"""Runs of jobs on interconnects: their columns, and a reader of CSV files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from toruscast.errors import InputError
from toruscast.files import as_string, read_limited
from toruscast.validation import one_of

from ..formats.csv_table import table_rows

_MAX_BYTES = 2**28
JOB_COLUMNS = [
    "job",
    "interconnect",
    "latency",
    "bandwidth",
    "messages",
    "message_bytes",
    "elapsed",
]
# Least value, and whether that value itself is allowed.
_LEAST = {
    "latency": "0 or more",
    "bandwidth": "above 0",
    "messages": "0 or more",
    "message_bytes": "0 or more",
    "elapsed": "above 0",
}


# Factors to seconds and to bytes/s.
UNITS = {
    "latency": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "bandwidth": {
        **{"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9},
        **{"Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8},
    },
}
# No interconnect of a parallel machine is slower; smaller numbers have another unit.
_PLAUSIBLE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "latency": (lambda seconds: seconds < 1e-3, "less than 0.001"),
    "bandwidth": (lambda bytes_a_second: bytes_a_second >= 1e6, "1e6 or more"),
}


def read_jobs(path: str | os.PathLike[str], units: Mapping[str, str] | None = None) -> pd.DataFrame:
    r"""Read runs from a CSV file.

    Parameters
    ----------
    path : path-like
        A header with the columns below in any order, and a row a run. Other columns are kept as
        text; empty lines and lines that start with ``#`` are skipped.

        ============= =================================================
        job           name of the job, the same on every interconnect
        interconnect  name of the interconnect
        latency       of a ping-pong (s)
        bandwidth     of a ping-pong (bytes/s)
        messages      that the job sends
        message_bytes their mean size (bytes)
        elapsed       wall time of the job (s)
        ============= =================================================
    units : mapping, optional
        Other units of the latency (s, ms, us, ns) and the bandwidth (B/s, kB/s, MB/s, GB/s, Mbit/s,
        Gbit/s), such as ``{"bandwidth": "GB/s"}``. A value in a stated unit is not checked for
        plausibility.

    Returns
    -------
    DataFrame

    Raises
    ------
    InputError
        If a column is missing, a field is not a number or outside its range, or one interconnect
        has two latencies or bandwidths, or one that looks like another unit. The message names the
        line.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("jobs.csv").write_text(
    ...     "job,interconnect,latency,bandwidth,messages,message_bytes,elapsed\n"
    ...     "a,slow,43e-6,112e6,1000000,2000,900\n"
    ...     "a,fast,22e-6,216e6,1000000,2000,800\n")
    >>> read_jobs("jobs.csv")[["interconnect", "latency", "elapsed"]]
      interconnect   latency  elapsed
    0         slow  0.000043    900.0
    1         fast  0.000022    800.0
    """
    file = os.fspath(path)
    stated = units or {}
    for column, unit in stated.items():
        one_of(column, "column with a unit", tuple(UNITS))
        one_of(unit, f"unit of the {column}", tuple(UNITS[column]))
    content = as_string(read_limited(file, _MAX_BYTES), file)
    (header, names), *rows = [*table_rows(content, file, comments=True)] or [(0, [])]
    if not rows:
        raise InputError(
            "holds no runs", file=file, expected=f"a header {','.join(JOB_COLUMNS)} and rows"
        )
    for name in JOB_COLUMNS:
        if name not in names:
            found, expected = ",".join(names), f"a column {name}"
            raise InputError("bad header", file=file, line=header, found=found, expected=expected)
    table = pd.DataFrame([row for _, row in rows], columns=names)
    lines = [line for line, _ in rows]
    jobs = check_jobs(table, file, lines)
    for name, factors in UNITS.items():
        if name in stated:
            jobs[name] *= factors[stated[name]]
            continue
        is_plausible, expected = _PLAUSIBLE[name]
        strange = np.flatnonzero(~is_plausible(jobs[name]))
        if strange.size:
            raise InputError(
                f"this {name} looks like another unit than {next(iter(factors))}; state it with "
                f"--{name}-unit",
                file=file,
                line=lines[strange[0]],
                found=jobs[name][strange[0]],
                expected=f"{expected}, or one of {', '.join(factors)}",
            )
    return jobs


def check_jobs(
    jobs: pd.DataFrame, file: str | None = None, lines: Sequence[int] = ()
) -> pd.DataFrame:
    """Check runs, which may come from the lines of a file; return them with numbers as floats.

    Raises
    ------
    InputError
        If a column is missing, a value is not a number or outside its range, or one interconnect
        has two latencies or bandwidths.
    """
    absent = [name for name in JOB_COLUMNS if name not in jobs.columns]
    if absent or jobs.columns.duplicated().any():
        raise InputError(
            "the table of runs needs each column once",
            found=", ".join(map(str, jobs.columns)),
            expected=", ".join(absent or JOB_COLUMNS),
        )
    if jobs.empty:
        raise InputError("the table of runs is empty")
    checked = jobs.reset_index(drop=True)
    for name in JOB_COLUMNS:
        column = checked[name]
        if name in _LEAST:
            least = _LEAST[name]
            number = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
            good = np.isfinite(number) & ((number > 0) | ((number == 0) & (least == "0 or more")))
            expected = f"a finite number, {least}"
            checked[name] = number
        else:
            good = (column.notna() & (column != "")).to_numpy()
            expected = "a name"
        if not good.all():
            row = int(np.argmin(good))
            raise InputError(
                f"bad {name} of job {checked['job'][row]}",
                file=file,
                line=lines[row] if lines else None,
                found="nothing" if column[row] in ("", None) else column[row],
                expected=expected,
            )
    for name in ("latency", "bandwidth"):
        for net, values in checked.groupby("interconnect", sort=False)[name].unique().items():
            if len(values) > 1:
                raise InputError(
                    f"interconnect {net} has more than one {name}",
                    file=file,
                    found=", ".join(f"{value:g}" for value in values),
                    expected="another name for another interconnect",
                )
    return checked
