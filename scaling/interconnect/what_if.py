"""Communication time of jobs, and their elapsed time on other interconnects."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from toruscast.errors import InputError

from ..warning import ScalingWarning
from .constants import Interconnect
from .jobs import JOB_COLUMNS, check_jobs


@dataclass(frozen=True)
class Scenario:
    """Another interconnect, by absolute values or by factors of the job's own.

    Parameters
    ----------
    name : str
    latency : float, optional
        Seconds; else `latency_factor` of the job's.
    bandwidth : float, optional
        Bytes/s, possibly infinite; else `bandwidth_factor` of the job's.
    latency_factor : float
        0 or more.
    bandwidth_factor : float
        Above 0, possibly infinite.

    Raises
    ------
    InputError
        If a latency is negative, a bandwidth not positive, or one of them not a number.
    """

    name: str
    latency: float | None = None
    bandwidth: float | None = None
    latency_factor: float = 1.0
    bandwidth_factor: float = 1.0

    def __post_init__(self) -> None:
        for name in ("latency", "latency_factor", "bandwidth", "bandwidth_factor"):
            value = getattr(self, name)
            number = float(value) if isinstance(value, numbers.Real) else math.nan
            is_latency = name.startswith("latency")
            good = 0 <= number < math.inf if is_latency else number > 0
            if value is not None and not good:
                expected = "0 or more" if is_latency else "above 0"
                raise InputError(
                    f"scenario {self.name}: bad {name}", found=value, expected=expected
                )


SCENARIOS = (
    Scenario("half latency", latency_factor=0.5),
    Scenario("zero latency", latency_factor=0.0),
    Scenario("double bandwidth", bandwidth_factor=2.0),
    Scenario("infinite speed", latency_factor=0.0, bandwidth_factor=math.inf),
)


def communication_times(jobs: pd.DataFrame, model: Interconnect) -> pd.DataFrame:
    """Split the elapsed time of every run into communication and computation.

    Parameters
    ----------
    jobs : DataFrame
        As `read_jobs` returns.
    model : Interconnect

    Returns
    -------
    DataFrame
        A row for each run: ``job``, ``interconnect``, ``elapsed``, ``latency_time``,
        ``bandwidth_time``, ``communication`` (their sum), ``computation`` (the rest), all in
        seconds, and ``share`` of communication.

    Raises
    ------
    InputError
        If the runs are not as `read_jobs` returns.

    Warns
    -----
    ScalingWarning
        If runs would communicate for longer than they took.

    Examples
    --------
    >>> jobs = pd.DataFrame(
    ...     [("a", "fast", 20e-6, 200e6, 1e6, 1000.0, 100.0)], columns=JOB_COLUMNS)
    >>> communication_times(jobs, Interconnect(3.0, 2.0)).iloc[0, 2:].round(6).tolist()
    [100.0, 60.0, 10.0, 70.0, 30.0, 0.7]
    """
    checked = check_jobs(jobs)
    table = checked[["job", "interconnect", "elapsed"]].copy()
    table["latency_time"] = model.alpha * checked["messages"] * checked["latency"]
    table["bandwidth_time"] = (
        model.beta * checked["messages"] * checked["message_bytes"] / checked["bandwidth"]
    )
    table["communication"] = table["latency_time"] + table["bandwidth_time"]
    table["computation"] = table["elapsed"] - table["communication"]
    table["share"] = table["communication"] / table["elapsed"]
    over = table[table["computation"] < 0]
    if len(over):
        run = over.iloc[0]
        warnings.warn(
            f"{len(over)} of {len(table)} runs would communicate for longer than they took; the "
            f"constants do not fit them. Such a run is job {run['job']} on {run['interconnect']}: "
            f"{run['communication']:.4g} s of {run['elapsed']:.4g} s",
            ScalingWarning,
            stacklevel=2,
        )
    return table


def what_if(
    jobs: pd.DataFrame, model: Interconnect, scenarios: Sequence[Scenario] = SCENARIOS
) -> pd.DataFrame:
    """Forecast the elapsed times of the same jobs on other interconnects.

    Parameters
    ----------
    jobs : DataFrame
        As `read_jobs` returns; each run is forecast from its own time.
    model : Interconnect
    scenarios : sequence of Scenario

    Returns
    -------
    DataFrame
        ``job``, ``interconnect``, ``measured``, then a column of seconds for every scenario; NaN
        for runs that would communicate for longer than they took.

    Raises
    ------
    InputError
        If the runs are not as `read_jobs` returns, or names of scenarios repeat.

    Warns
    -----
    ScalingWarning
        If runs would communicate for longer than they took.

    Examples
    --------
    >>> jobs = pd.DataFrame(
    ...     [("a", "fast", 20e-6, 200e6, 1e6, 1000.0, 100.0)], columns=JOB_COLUMNS)
    >>> what_if(jobs, Interconnect(3.0, 2.0)).iloc[0, 2:].round(6).tolist()
    [100.0, 70.0, 40.0, 95.0, 30.0]
    """
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
    """Speed-up of every run, and the limits that faster interconnects would reach.

    Parameters
    ----------
    jobs : DataFrame
        As `read_jobs` returns, with a column ``tasks``. Further columns, such as a precision, tell
        which runs belong together.
    model : Interconnect

    Returns
    -------
    DataFrame
        A row for each run, by the number of its tasks: ``job``, ``interconnect``, ``tasks``,
        ``communication``, ``computation`` (s), ``base`` (tasks of the run that speed-ups are
        relative to: the one with the fewest), ``speed_up``, and two limits: ``zero_latency``, which
        is [LSDYNA03]'s limit, and ``infinite_speed``, where bandwidth is infinite too.

    Raises
    ------
    InputError
        If the runs are not as `read_jobs` returns, or ``tasks`` are not whole numbers above 0.

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
    if not ((tasks > 0) & (tasks % 1 == 0)).all():
        row = int((~((tasks > 0) & (tasks % 1 == 0))).to_numpy().argmax())
        raise InputError(
            f"bad tasks of job {checked['job'][row]}",
            found=checked["tasks"][row],
            expected="a whole number above 0",
        )
    kinds = [name for name in checked.columns if name not in (*JOB_COLUMNS, "tasks")]
    kind = checked.groupby(kinds, sort=False, dropna=False).ngroup() if kinds else tasks * 0
    parts = communication_times(checked, model)
    limits = what_if(checked, model, SCENARIOS[1::2])
    table = parts[["job", "interconnect"]].assign(tasks=tasks.astype(int))
    table = table.assign(communication=parts["communication"], computation=parts["computation"])
    fewest = tasks.groupby(kind).transform("min")
    base = checked["elapsed"].where(tasks == fewest)
    # A run on one task is the base on every interconnect.
    own = base.groupby([kind, checked["interconnect"]]).transform("mean")
    own = own.fillna(base.groupby(kind).transform("mean"))
    table = table.assign(base=fewest.astype(int), speed_up=own / checked["elapsed"])
    for scenario in SCENARIOS[1::2]:
        table[scenario.name.replace(" ", "_")] = own / limits[scenario.name]
    order = pd.DataFrame({"kind": kind, "net": checked["interconnect"], "tasks": tasks})
    order = order.sort_values(["kind", "net", "tasks"], kind="stable")
    return table.loc[order.index].reset_index(drop=True)
