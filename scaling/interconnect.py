"""How much time an interconnect's latency and bandwidth cost an application."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from toruscast._slow import pandas as pd
from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.files import as_string, read_limited
from toruscast.text import counted
from toruscast.validation import check_type, one_of

from .formula import ScalingWarning
from .measurements import PathLike, read_rows

_MAX_BYTES = 2**28
# Numeric columns, and whether their values may be 0.
_CAN_BE_ZERO = {
    "latency": True,
    "bandwidth": False,
    "messages": True,
    "message_bytes": True,
    "elapsed": False,
}
JOB_COLUMNS = ["job", "interconnect", *_CAN_BE_ZERO]
# Factors that convert units to seconds and to bytes/s.
UNITS = {
    "latency": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "bandwidth": {
        **{"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9},
        **{"Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8},
    },
}
# Ranges that contain all interconnects; values outside are probably in another unit.
_PLAUSIBLE_RANGES = {
    "latency": (0.0, 1e-3, "less than 0.001"),
    "bandwidth": (1e6, math.inf, "1e6 or more"),
}
# If the relative singular value is smaller, the costs of latency and bandwidth are collinear. If
# latency or bandwidth differs by a smaller share between a job's runs, its cost is unknown.
_MIN_SINGULAR_VALUE, _MIN_DIFFERENCE = 1e-6, 1e-12


def read_jobs(path: PathLike, units: Mapping[str, str] | None = None) -> pd.DataFrame:
    r"""Read runs from a CSV file.

    Parameters
    ----------
    path : path-like
        A header with the columns below in any order, and one row per run. Other columns are kept as
        text; empty lines and lines that start with ``#`` are skipped.

        ============= =================================================
        job           name of the job, the same on every interconnect
        interconnect  name of the interconnect
        latency       of a ping-pong (s)
        bandwidth     of a ping-pong (bytes/s)
        messages      that the job sends; empty if unknown
        message_bytes their mean size (bytes); empty if unknown
        elapsed       wall time of the job (s)
        ============= =================================================
    units : mapping, optional
        Other units of the latency (s, ms, us, ns) and the bandwidth (B/s, kB/s, MB/s, GB/s, Mbit/s,
        Gbit/s), such as ``{"bandwidth": "GB/s"}``. Values in these units are not checked for
        plausibility.

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
    stated = units or {}
    for column, unit in stated.items():
        one_of(column, "column with a unit", tuple(UNITS))
        one_of(unit, f"unit of the {column}", tuple(UNITS[column]))
    content = as_string(read_limited(path, _MAX_BYTES), path)
    (header, names), *rows = [*read_rows(content, path, comments=True)] or [(1, [])]
    lines = [header, *(line for line, _ in rows)]
    jobs = check_jobs(pd.DataFrame([row for _, row in rows], columns=names), path, lines)
    for name, factors in UNITS.items():
        if name in stated:
            jobs[name] *= factors[stated[name]]
            continue
        low, high, limit = _PLAUSIBLE_RANGES[name]
        implausible = np.flatnonzero(~((jobs[name] >= low) & (jobs[name] < high)))
        if implausible.size:
            row, default = implausible[0], next(iter(factors))
            message = f"this {name} does not look like {default}; give --{name}-unit"
            line, found = lines[row + 1], jobs[name][row]
            expected = f"{limit}, or one of {', '.join(factors)}"
            raise InputError(message, file=path, line=line, found=found, expected=expected)
    return jobs


def check_jobs(
    jobs: pd.DataFrame, file: PathLike | None = None, lines: Sequence[int] = ()
) -> pd.DataFrame:
    """Check runs, and return them with numbers as floats.

    `lines` are the line numbers of the header and of each run in a file.
    """
    check_type(jobs, "table of runs", pd.DataFrame, "a DataFrame, as read_jobs returns")
    fault = partial(InputError, file=file)
    absent = [name for name in JOB_COLUMNS if name not in jobs.columns]
    if absent or jobs.columns.duplicated().any():
        found, expected = ", ".join(map(str, jobs.columns)), ", ".join(absent or JOB_COLUMNS)
        message, line = "the table of runs needs each column once", lines[0] if lines else None
        raise fault(message, line=line, found=found or "none", expected=expected)
    if jobs.empty:
        raise fault("the table of runs is empty", expected="a row for each run")
    checked = jobs.reset_index(drop=True)
    for name in JOB_COLUMNS:
        column, expected = checked[name], "a name"
        is_valid = (column.notna() & (column != "")).to_numpy()
        if name in _CAN_BE_ZERO:
            can_be_zero, is_unknown = _CAN_BE_ZERO[name], ~is_valid & name.startswith("message")
            number = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
            is_valid = np.isfinite(number) & ((number > 0) | ((number == 0) & can_be_zero))
            is_valid |= is_unknown
            expected = f"a finite number, {'0 or more' if can_be_zero else 'above 0'}"
            checked[name] = number
        if not is_valid.all():
            row = int(np.argmin(is_valid))
            run = f"row {row}" if name == "job" else f"job {checked['job'][row]}"
            found = "nothing" if str(column[row]) in ("", "None") else column[row]
            line = lines[row + 1] if lines else None
            raise fault(f"bad {name} of {run}", line=line, found=found, expected=expected)
    for name in ("latency", "bandwidth"):
        for net, values in checked.groupby("interconnect", sort=False)[name].unique().items():
            if len(values) > 1:
                found = ", ".join(f"{value:g}" for value in values)
                expected = "a different name for each interconnect"
                message = f"interconnect {net} has more than one {name}"
                raise fault(message, found=found, expected=expected)
    return checked


@dataclass(frozen=True)
class Interconnect:
    """Cost of an application's messages, in multiples of latency and transmission time.

    If a job sends M messages of mean size s, at latency t and bandwidth b, its communication time
    is M (alpha t + beta s / b). A `ScalingWarning` is issued for a negative constant.

    Parameters
    ----------
    alpha, beta : float
    alpha_interval, beta_interval : (float, float)
        Confidence intervals at `level`, for normal residuals; NaN if unknown.
    level : float
    residual : float
        Residual standard deviation (s) of the difference between two runs of a job.
    n_jobs : int
        Number of jobs fitted.

    Examples
    --------
    >>> Interconnect(3.6, 1.6).communication(1e6, 1000.0, 20e-6, 200e6)
    80.0
    """

    alpha: float
    beta: float
    alpha_interval: tuple[float, float] = (np.nan, np.nan)
    beta_interval: tuple[float, float] = (np.nan, np.nan)
    level: float = 0.95
    residual: float = np.nan
    n_jobs: int = 0

    def __post_init__(self) -> None:
        for name, value, worse in (
            ("alpha", self.alpha, "a longer latency"),
            ("beta", self.beta, "a lower bandwidth"),
        ):
            if not isinstance(value, numbers.Real) or not math.isfinite(value):
                raise InputError(f"bad {name}", found=value, expected="a finite number")
            if value < 0:
                message = f"{name} is negative ({value:.4g}): {worse} would make jobs faster"
                warnings.warn(message, ScalingWarning, stacklevel=3)

    def communication(self, messages: Any, message_bytes: Any, latency: Any, bandwidth: Any) -> Any:
        """Return the communication time (s); the arguments can be numbers, arrays or columns."""
        if not np.all(bandwidth > 0):
            raise InputError("bad bandwidth", found=bandwidth, expected="bytes/s above 0")
        return messages * (self.alpha * latency + self.beta * message_bytes / bandwidth)


def fit_interconnect(jobs: pd.DataFrame, level: float = 0.95) -> Interconnect:
    """Fit alpha and beta by least squares to runs of jobs that differ only in the interconnect.

    The computation time of a job is the same on all interconnects, so the differences of its
    elapsed times are fitted: T_1 - T_2 = M (alpha (t_1 - t_2) + beta s (1/b_1 - 1/b_2)) [LSDYNA03].

    Parameters
    ----------
    jobs : DataFrame
        One row per run, as `read_jobs` returns. Repeated runs and more than two interconnects are
        allowed. Runs without messages, or with unknown messages, are ignored.
    level : float
        Confidence level of the intervals. A `ScalingWarning` is issued if there are too few jobs.

    Examples
    --------
    >>> rows = [(job, net, t, b, 1e6, s, 100 + 1e6 * (3 * t + 2 * s / b))
    ...         for job, s in (("small", 500.0), ("large", 4000.0))
    ...         for net, t, b in (("slow", 40e-6, 1e8), ("fast", 20e-6, 2e8))]
    >>> jobs = pd.DataFrame(rows, columns=JOB_COLUMNS)
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")     # two jobs are too few for intervals
    ...     model = fit_interconnect(jobs)
    >>> round(model.alpha, 6), round(model.beta, 6)
    (3.0, 2.0)
    """
    if not isinstance(level, numbers.Real) or not 0 < level < 1:
        raise InputError("bad level", found=level, expected="between 0 and 1")
    checked = check_jobs(jobs)
    sends = (checked["messages"] > 0) & checked["message_bytes"].notna()
    checked = checked[sends].reset_index(drop=True)
    if checked.empty:
        raise InputError("no job sends a message", expected="jobs on two interconnects")
    check_pairs(checked)
    job = checked["job"]
    terms = pd.DataFrame(
        {
            "latency": checked["messages"] * checked["latency"],
            "bandwidth": checked["messages"] * checked["message_bytes"] / checked["bandwidth"],
            "elapsed": checked["elapsed"],
        }
    )
    with np.errstate(all="ignore"):
        # Subtracting each job's mean removes the job's computation time.
        centred = (terms - terms.groupby(job).transform("mean")).to_numpy()
        X, y = centred[:, :2], centred[:, 2]
        norms = np.linalg.norm(X, axis=0)
        scales = np.linalg.norm(terms[["latency", "bandwidth"]], axis=0)
        is_finite = np.isfinite([*norms, *scales, y @ y]).all()
    if not is_finite:
        raise InputError("the numbers of the jobs are too large to compute with")
    for name, norm, scale in zip(("latency", "bandwidth"), norms, scales, strict=True):
        if norm <= _MIN_DIFFERENCE * scale:
            found = f"no difference in {name} between runs with messages"
            message = f"these jobs do not determine the cost of {name}"
            raise InputError(message, found=found, expected="two values per job")
    U, singular_values, V = np.linalg.svd(X / norms, full_matrices=False)
    if singular_values[-1] < _MIN_SINGULAR_VALUE:
        message = "the costs of latency and bandwidth cannot be separated"
        found = "the same ratio between them in every job"
        raise InputError(message, found=found, expected="jobs with different message sizes")
    coefficients = V.T @ (U.T @ y / singular_values) / norms
    n_jobs = job.nunique()
    df = len(checked) - n_jobs - 2
    rss = float(np.sum((y - X @ coefficients) ** 2))
    half_width = np.full(2, np.nan)
    residual = np.nan
    if df > 0:
        error = np.sqrt(np.sum((V.T / singular_values) ** 2, axis=1)) / norms
        half_width = scipy.special.stdtrit(df, (1 + level) / 2) * np.sqrt(rss / df) * error
        # The difference of two runs has twice the variance of one run.
        residual = float(np.sqrt(2 * rss / df))
    else:
        runs = f"{len(checked)} runs of {counted(n_jobs, 'job')}"
        message = f"{runs} are too few for intervals; give more"
        warnings.warn(message, ScalingWarning, stacklevel=2)
    alpha, beta = (float(c) for c in coefficients)
    bounds = [(float(c - h), float(c + h)) for c, h in zip(coefficients, half_width, strict=True)]
    return Interconnect(alpha, beta, bounds[0], bounds[1], level, residual, n_jobs)


def check_pairs(jobs: pd.DataFrame) -> None:
    """Raise `InputError` unless each job sends the same messages on two or more interconnects."""
    columns = ["messages", "message_bytes", "interconnect"]
    for job, runs in jobs.groupby("job", sort=False)[columns]:
        for name in columns[:2]:
            if runs[name].nunique() > 1:
                message = f"job {job}: {name} differ between its runs"
                found = str(runs[name].tolist())
                expected = "jobs that differ in the interconnect only"
                raise InputError(message, found=found, expected=expected)
        if runs["interconnect"].nunique() < 2:
            found = f"runs on {runs['interconnect'].iloc[0]} only"
            message = f"job {job} has no run to compare with"
            raise InputError(message, found=found, expected="two interconnects")


@dataclass(frozen=True)
class Scenario:
    """Another interconnect, given by absolute values or by factors relative to a job's own.

    Latencies are in seconds, bandwidths in bytes/s. Bandwidths may be infinite.
    """

    name: str
    latency: float | None = None
    bandwidth: float | None = None
    latency_factor: float = 1.0
    bandwidth_factor: float = 1.0

    def __post_init__(self) -> None:
        for name in ("latency", "latency_factor", "bandwidth", "bandwidth_factor"):
            value, is_latency = getattr(self, name), name.startswith("latency")
            number = float(value) if isinstance(value, numbers.Real) else math.nan
            good = 0 <= number < math.inf if is_latency else number > 0
            if value is not None and not good:
                message = f"scenario {self.name}: bad {name}"
                expected = "0 or more" if is_latency else "above 0"
                raise InputError(message, found=value, expected=expected)


_ZERO_LATENCY = Scenario("zero latency", latency_factor=0.0)
_INFINITE_SPEED = Scenario("infinite speed", latency_factor=0.0, bandwidth_factor=math.inf)
SCENARIOS = (
    Scenario("half latency", latency_factor=0.5),
    _ZERO_LATENCY,
    Scenario("double bandwidth", bandwidth_factor=2.0),
    _INFINITE_SPEED,
)


def communication_times(jobs: pd.DataFrame, model: Interconnect) -> pd.DataFrame:
    """Split the elapsed time of each run into communication and computation.

    Returns one row per run: ``job``, ``interconnect``, ``elapsed``, ``latency_time``,
    ``bandwidth_time``, ``communication`` (their sum), ``computation``, all in seconds, and the
    ``share`` of communication. A `ScalingWarning` is issued if the communication time of a run
    exceeds its elapsed time.

    Examples
    --------
    >>> jobs = pd.DataFrame(
    ...     [("a", "fast", 20e-6, 200e6, 1e6, 1000.0, 100.0)], columns=JOB_COLUMNS)
    >>> communication_times(jobs, Interconnect(3.0, 2.0)).iloc[0, 2:].round(6).tolist()
    [100.0, 60.0, 10.0, 70.0, 30.0, 0.7]
    """
    checked = check_jobs(jobs)
    check_type(model, "model", Interconnect, "an Interconnect")
    table = checked[["job", "interconnect", "elapsed"]].copy()
    messages, size = checked["messages"], checked["message_bytes"]
    table["latency_time"] = model.alpha * messages * checked["latency"]
    table["bandwidth_time"] = model.beta * messages * size / checked["bandwidth"]
    table["communication"] = table["latency_time"] + table["bandwidth_time"]
    table["computation"] = table["elapsed"] - table["communication"]
    table["share"] = table["communication"] / table["elapsed"]
    over = table[table["computation"] < 0]
    if len(over):
        run = over.iloc[0]
        warnings.warn(
            f"{len(over)} of {len(table)} runs would communicate for longer than they took, so the "
            f"constants do not fit them. One such run is job {run['job']} on "
            f"{run['interconnect']}: {run['communication']:.4g} s of {run['elapsed']:.4g} s",
            ScalingWarning,
            stacklevel=2,
        )
    return table


def what_if(
    jobs: pd.DataFrame, model: Interconnect, scenarios: Sequence[Scenario] = SCENARIOS
) -> pd.DataFrame:
    """Forecast the elapsed times of jobs on other interconnects.

    Returns one row per run: ``job``, ``interconnect``, ``measured``, and a column of seconds for
    each scenario. The times are NaN, with a `ScalingWarning`, if the communication time of a run
    exceeds its elapsed time.

    Examples
    --------
    >>> jobs = pd.DataFrame(
    ...     [("a", "fast", 20e-6, 200e6, 1e6, 1000.0, 100.0)], columns=JOB_COLUMNS)
    >>> what_if(jobs, Interconnect(3.0, 2.0)).iloc[0, 2:].round(6).tolist()
    [100.0, 70.0, 40.0, 95.0, 30.0]
    """
    for scenario in scenarios:
        check_type(scenario, "scenario", Scenario, "a Scenario")
    names = ["job", "interconnect", "measured", *(scenario.name for scenario in scenarios)]
    if len(set(names)) < len(names):
        raise InputError("scenarios need different names", found=", ".join(names[3:]))
    checked = check_jobs(jobs)
    parts = communication_times(checked, model)
    table = parts[["job", "interconnect"]].assign(measured=parts["elapsed"])
    for scenario in scenarios:
        latency, bandwidth = scenario.latency, scenario.bandwidth
        elapsed = parts["computation"] + model.communication(
            checked["messages"],
            checked["message_bytes"],
            checked["latency"] * scenario.latency_factor if latency is None else latency,
            checked["bandwidth"] * scenario.bandwidth_factor if bandwidth is None else bandwidth,
        )
        table[scenario.name] = elapsed.where(parts["computation"] >= 0)
    return table


def speedups(jobs: pd.DataFrame, model: Interconnect) -> pd.DataFrame:
    """Return the speed-up of each run, and the limits of the speed-up on faster interconnects.

    The jobs must have a column ``tasks``. Further columns that vary within an interconnect, such as
    a precision, define kinds of runs that are compared separately. The result has one row per run:
    ``job``, ``kind`` (the values of the further columns), ``interconnect``, ``tasks``,
    ``communication``, ``computation`` (s), ``base`` (the smallest number of tasks), ``speed_up``
    over the run with ``base`` tasks, and the limits of the speed-up: ``zero_latency`` [LSDYNA03]
    and ``infinite_speed`` (zero latency and infinite bandwidth). A `ScalingWarning` is issued if
    several jobs have the smallest number of tasks, because speed-ups are then relative to their
    mean time.

    Examples
    --------
    >>> jobs = pd.DataFrame(
    ...     [("a-1", "fast", 20e-6, 200e6, 0.0, 0.0, 90.0, "1"),
    ...      ("a-4", "fast", 20e-6, 200e6, 1e4, 1000.0, 30.0, "4")],
    ...     columns=[*JOB_COLUMNS, "tasks"])
    >>> table = speedups(jobs, Interconnect(40.0, 10.0))
    >>> table.iloc[1, -3:].astype(float).round(3).tolist()
    [3.0, 4.091, 4.186]
    """
    checked = check_jobs(jobs)
    if "tasks" not in checked:
        raise InputError("speed-ups need the tasks of every run", expected="a column tasks")
    tasks = pd.to_numeric(checked["tasks"], errors="coerce")
    is_valid = (tasks > 0) & (tasks % 1 == 0)
    if not is_valid.all():
        row, expected = int(is_valid.to_numpy().argmin()), "a whole number above 0"
        message, found = f"bad tasks of job {checked['job'][row]}", checked["tasks"][row]
        raise InputError(message, found=found, expected=expected)
    n_values = checked.groupby("interconnect").nunique(dropna=False).max()
    kind_columns = checked.columns.difference([*JOB_COLUMNS, "tasks"], sort=False)
    kind = checked[[n for n in kind_columns if n_values[n] > 1]].astype(str).agg(" ".join, axis=1)
    parts = communication_times(checked, model)
    limits = what_if(checked, model, (_ZERO_LATENCY, _INFINITE_SPEED))
    table = parts[["job", "interconnect"]].assign(kind=kind, tasks=tasks.astype(int))
    table = table.assign(communication=parts["communication"], computation=parts["computation"])
    fewest = tasks.groupby(kind).transform("min")
    base = checked["elapsed"].where(tasks == fewest)
    base_job = checked["job"][base.notna()].groupby([kind, checked["interconnect"]]).unique()
    pooled = base_job[base_job.map(len) > 1]
    if len(pooled):
        jobs_of_base = ", ".join(map(str, pooled.iloc[0]))
        message = f"the mean of jobs {jobs_of_base} is the base of speed-ups"
        remedy = "add a column, such as precision, to separate different kinds of runs"
        warnings.warn(f"{message}; {remedy}", ScalingWarning, stacklevel=2)
    # If an interconnect has no run with the smallest number of tasks, use the other interconnects.
    base_time = base.groupby([kind, checked["interconnect"]]).transform("mean")
    base_time = base_time.fillna(base.groupby(kind).transform("mean"))
    table = table.assign(base=fewest.astype(int), speed_up=base_time / checked["elapsed"])
    table["zero_latency"] = base_time / limits[_ZERO_LATENCY.name]
    table["infinite_speed"] = base_time / limits[_INFINITE_SPEED.name]
    # Kinds are sorted by the position of their first run.
    sorted_table = table.assign(kind=pd.factorize(kind)[0])
    sorted_table = sorted_table.sort_values(["kind", "interconnect", "tasks"], kind="stable")
    return table.loc[sorted_table.index].reset_index(drop=True)
