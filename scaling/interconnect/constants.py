"""Latency and bandwidth constants of an application, from jobs run on two interconnects."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from toruscast.errors import InputError
from toruscast.text import counted

from ..warning import ScalingWarning
from .jobs import check_jobs

# Effects of latency and bandwidth that differ by less than this share cannot be told apart.
_INDEPENDENT = 1e-6


@dataclass(frozen=True)
class Interconnect:
    """How many latencies and transmission times a message of an application costs.

    A job that sends M messages of mean size s over latency t and bandwidth b communicates for
    M (alpha t + beta s / b) seconds.

    Parameters
    ----------
    alpha, beta : float
        The constants.
    alpha_interval, beta_interval : (float, float)
        Intervals that hold the true values with probability `level`, if the rest of the elapsed
        times is normal noise; NaN if nothing was fitted.
    level : float
    residual : float
        Standard deviation of the rest of a job's difference between two interconnects (s).
    n_jobs : int
        Jobs that were fitted.

    Raises
    ------
    InputError
        If a constant is not finite.

    Warns
    -----
    ScalingWarning
        If a constant is negative.

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
            if not np.isfinite(value):
                raise InputError(f"bad {name}", found=value, expected="a finite number")
            if value < 0:
                message = f"{name} is negative ({value:.4g}): {worse} would make jobs faster"
                warnings.warn(message, ScalingWarning, stacklevel=3)

    def communication(self, messages: Any, message_bytes: Any, latency: Any, bandwidth: Any) -> Any:
        """Return the communication time (s) of numbers, arrays or columns.

        Raises
        ------
        InputError
            If the bandwidth is not positive.
        """
        if not np.all(bandwidth > 0):
            raise InputError("bad bandwidth", found=bandwidth, expected="bytes/s above 0")
        return messages * (self.alpha * latency + self.beta * message_bytes / bandwidth)


def fit_interconnect(jobs: pd.DataFrame, level: float = 0.95) -> Interconnect:
    """Fit alpha and beta by least squares over jobs that differ in the interconnect alone.

    A job computes equally long on all interconnects, so only the differences of its elapsed times
    count: T_1 - T_2 = M (alpha (t_1 - t_2) + beta s (1/b_1 - 1/b_2)) [LSDYNA03].

    Parameters
    ----------
    jobs : DataFrame
        A row for each run, as `read_jobs` returns: ``job``, ``interconnect``, ``latency`` (s),
        ``bandwidth`` (bytes/s), ``messages``, ``message_bytes`` (mean), ``elapsed`` (s). Repeated
        runs and more than two interconnects may be given. A job on one interconnect that sends
        nothing is left out.
    level : float
        Probability of the intervals.

    Returns
    -------
    Interconnect

    Raises
    ------
    InputError
        If a number is missing, not finite or negative, a job ran on one interconnect only, or the
        jobs cannot tell latency from bandwidth (equal latencies, equal bandwidths, or one message
        size).

    Warns
    -----
    ScalingWarning
        If a constant is negative, or there are too few jobs for intervals.

    Examples
    --------
    >>> rows = [(job, net, t, b, 1e6, s, 100 + 1e6 * (3 * t + 2 * s / b))
    ...         for job, s in (("small", 500.0), ("large", 4000.0))
    ...         for net, t, b in (("slow", 40e-6, 1e8), ("fast", 20e-6, 2e8))]
    >>> jobs = pd.DataFrame(rows, columns=JOB_COLUMNS)
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")     # two jobs leave nothing for intervals
    ...     model = fit_interconnect(jobs)
    >>> round(model.alpha, 6), round(model.beta, 6)
    (3.0, 2.0)
    """
    if not 0 < level < 1:
        raise InputError("bad level", found=level, expected="between 0 and 1")
    checked = check_jobs(jobs)
    # A run that sends nothing, such as one on a single task, says nothing about interconnects.
    alone = checked.groupby("job", sort=False)["interconnect"].transform("nunique") < 2
    checked = checked[~(alone & (checked["messages"] == 0))].reset_index(drop=True)
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
        # Subtracting each job's mean removes its computation.
        centred = (terms - terms.groupby(job).transform("mean")).to_numpy()
        X, y = centred[:, :2], centred[:, 2]
        lengths = np.linalg.norm(X, axis=0)
        scales = np.linalg.norm(terms[["latency", "bandwidth"]], axis=0)
        usable = np.isfinite([*lengths, *scales, y @ y]).all()
    if not usable:
        raise InputError("the numbers of the jobs are too large to compute with")
    for name, length, scale in zip(("latency", "bandwidth"), lengths, scales, strict=True):
        if length <= 1e-12 * scale:
            raise InputError(
                f"the jobs cannot tell what {name} costs",
                found=f"no difference in {name} where messages were sent",
                expected="two values a job",
            )
    U, strengths, V = np.linalg.svd(X / lengths, full_matrices=False)
    if strengths[-1] < _INDEPENDENT:
        raise InputError(
            "the jobs cannot tell latency from bandwidth",
            found="the same shares of both in every job",
            expected="jobs with different message sizes",
        )
    coefficients = V.T @ (U.T @ y / strengths) / lengths
    n_jobs = job.nunique()
    free = len(checked) - n_jobs - 2
    rest = float(np.sum((y - X @ coefficients) ** 2))
    half = np.full(2, np.nan)
    residual = np.nan
    if free > 0:
        spread = np.sqrt(np.sum((V.T / strengths) ** 2, axis=1)) / lengths
        half = stdtrit(free, (1 + level) / 2) * np.sqrt(rest / free) * spread
        # The difference of two runs has twice the variance of one run.
        residual = float(np.sqrt(2 * rest / free))
    else:
        runs = f"{len(checked)} runs of {counted(n_jobs, 'job')}"
        message = f"{runs} leave nothing to tell intervals from; give more"
        warnings.warn(message, ScalingWarning, stacklevel=2)
    alpha, beta = (float(c) for c in coefficients)
    bounds = [(float(c - h), float(c + h)) for c, h in zip(coefficients, half, strict=True)]
    return Interconnect(alpha, beta, bounds[0], bounds[1], level, residual, n_jobs)


def check_pairs(jobs: pd.DataFrame) -> None:
    """Raise InputError for a job on one interconnect only, or with counts that differ."""
    columns = ["messages", "message_bytes", "interconnect"]
    different = jobs.groupby("job", sort=False)[columns].nunique()
    for name in columns[:2]:
        if (different[name] > 1).any():
            job = different[name].gt(1).idxmax()
            raise InputError(
                f"job {job}: {name} differ between its runs",
                found=jobs.loc[jobs["job"] == job, name].tolist(),
                expected="jobs that differ in the interconnect only",
            )
    if (different["interconnect"] < 2).any():
        job = different["interconnect"].lt(2).idxmax()
        net = jobs.loc[jobs["job"] == job, "interconnect"].iloc[0]
        raise InputError(
            f"job {job} has no partner", found=f"runs on {net} only", expected="two interconnects"
        )
