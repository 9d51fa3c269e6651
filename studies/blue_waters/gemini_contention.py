"""Bandwidths of a Gemini torus by dimension, from contention in a line of routers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from toruscast.errors import InputError
from toruscast.training.metrics import r2, rcc

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..public_data import drop_repeats, measurement_files
from .line_contention import read_line_contention
from .line_model import fit_line

FILES = "bluewatersmodel/contention/*.out"
# Gigabytes a second that an earlier reading of the same files gave.
KNOWN = {"x": 5.7, "y": 2.85, "z": 9.1}
SMALL, LARGE = 128, 256
N_RESAMPLES = 200
_SIZE = ["job", "dimension", "n_ranks", "n_messages", "nbytes"]


def read_all(inputs: Inputs) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the times of every job along a known dimension, and notes on what was left out.

    Files that collect several jobs name no dimension and repeat times that stand in files of their
    own; they are left out.

    Raises
    ------
    InputError
        If the files are not found, one cannot be read, or no dimension was measured with both
        numbers of ranks.
    """
    files = measurement_files(inputs, FILES)
    table = pd.concat([read_line_contention(path) for path in files], ignore_index=True)
    table = table[table["dimension"] != ""].reset_index(drop=True)
    table = table.rename(columns={"file": "job"})
    rows = len(table)
    table, repeats = drop_repeats(table, ["job", "series"], [*_SIZE[1:], "repeat", "time"])
    notes = []
    if repeats:
        listed = ", ".join(f"{copy} ({source})" for copy, source in repeats.items())
        notes.append(
            f"Times that stand in two files, one for one, count once ({rows - len(table)}): "
            f"{listed}."
        )
    small, large = (set(table["dimension"][table["n_ranks"] == n]) for n in (SMALL, LARGE))
    if not small & large:
        found = sorted(
            {
                f"{row[0]} at {row[1]} in {row[2]}"
                for row in table[["dimension", "n_ranks", "job"]].itertuples(index=False)
            }
        )
        raise InputError(
            "no dimension measured with both numbers of ranks",
            file=files[0].parent,
            found="; ".join(found),
            expected=f"{SMALL} and {LARGE} ranks",
        )
    alone = table["dimension"].isin(large - small)
    if alone.any():
        notes.append(
            f"Left out, for no job of {SMALL} ranks ran along {_names(sorted(large - small))}: "
            f"{', '.join(table['job'][alone].unique())}."
        )
    return table[~alone].reset_index(drop=True), tuple(notes)


def bandwidths(small: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Return the bandwidth that each job saw, with a 95 % interval.

    Resampled are the sizes of a job, each with all its repeats: 200 fits.

    Parameters
    ----------
    small : DataFrame
        Rows of `read_all` of one number of ranks.
    seed : int

    Returns
    -------
    DataFrame
        ``dimension, job, bandwidth, low, high`` in GB/s.
    """
    cells = _medians(small)
    generator = np.random.default_rng(seed)
    model = fit_line(cells, "job")
    fitted = model.bandwidths
    by_job = [rows for _, rows in cells.groupby("job")]
    draws = []
    for _ in range(N_RESAMPLES):
        drawn = [rows.iloc[generator.integers(0, len(rows), len(rows))] for rows in by_job]
        draws.append(fit_line(pd.concat(drawn), "job", model).bandwidths)
    low, high = pd.DataFrame(draws).quantile([0.025, 0.975]).to_numpy()
    ends = dict(zip(pd.DataFrame(draws).columns, zip(low, high, strict=True), strict=True))
    jobs = cells.groupby(["dimension", "job"], as_index=False).size()[["dimension", "job"]]
    jobs["bandwidth"] = [fitted[job] / 1e9 for job in jobs["job"]]
    jobs["low"] = [ends[job][0] / 1e9 for job in jobs["job"]]
    jobs["high"] = [ends[job][1] / 1e9 for job in jobs["job"]]
    return jobs


def direct_bandwidths(table: pd.DataFrame) -> pd.DataFrame:
    """Return bytes through the middle link over time, where little else can matter.

    That is for one message of 64 KiB or more from each rank. The interval is the range of the
    middle 95 % of these times.

    Parameters
    ----------
    table : DataFrame
        Rows of `read_all`.

    Returns
    -------
    DataFrame
        ``dimension, n_ranks, job, bandwidth, low, high`` in GB/s.
    """
    long = table[(table["n_messages"] == 1) & (table["nbytes"] >= 2**16)]
    rate = long["n_ranks"] / 2 * long["nbytes"] / long["time"] / 1e9
    groups = long.assign(rate=rate).groupby(["dimension", "n_ranks", "job"])["rate"]
    ends = groups.quantile(np.array([0.025, 0.5, 0.975])).unstack()
    ends.columns = pd.Index(["low", "bandwidth", "high"])
    return ends[["bandwidth", "low", "high"]].reset_index()


def run(inputs: Inputs) -> Findings:
    """Fit the bandwidths on 128 ranks and predict the times of 256.

    Raises
    ------
    InputError
        If the measurements are not found or cannot be read.
    """
    table, left_out = read_all(inputs)
    small, large = (table[table["n_ranks"] == ranks] for ranks in (SMALL, LARGE))
    jobs = bandwidths(small)
    # What other jobs do can only slow a line down: the faster job tells what the links can.
    best = jobs.loc[jobs.groupby("dimension")["bandwidth"].idxmax()]
    undisturbed = _medians(small[small["job"].isin(best["job"])])
    model = fit_line(undisturbed, "dimension")
    test = _medians(large)
    test["predicted"] = model.predict(test, "dimension")
    test = test.rename(columns={"time": "observed"})
    last = _last_as_it_was(undisturbed, test)
    quality = pd.concat(
        [
            _quality(test, test["predicted"], "model"),
            _quality(test, last, "same time as with 128 ranks"),
        ],
        ignore_index=True,
    )
    read = direct_bandwidths(table)
    tables = {
        "gemini_bandwidths": jobs,
        "gemini_bandwidths_read_directly": read,
        "gemini_contention_quality": quality,
        "gemini_contention_forecasts": test[[*_SIZE, "observed", "predicted"]],
    }
    return Findings(
        text=(
            f"A ping-pong between the halves of a line of routers: {SMALL} ranks on 4 routers, "
            f"{LARGE} on 8, along X, Y or Z; {len(small)} and {len(large)} times. The time is "
            "that of the ranks (messages, bytes, queue) or that of the link in the middle, "
            "whichever is longer, with a soft passage. The constants and one bandwidth a job are "
            f"fitted to the {SMALL}-rank times; intervals are 95 %, from {N_RESAMPLES} resamples "
            f"of the message sizes (seed 0). The {LARGE}-rank times are predicted with the "
            "bandwidth of the faster job of each dimension."
        ),
        tables=tables,
        bars=_bars(best, quality),
        charts=(
            Chart(
                "gemini_contention_forecasts",
                "scatter",
                "gemini_contention_forecasts",
                "observed",
                "predicted",
                group="dimension",
                log=True,
                title=f"Ping-pong through a line of Gemini routers, {LARGE} ranks (s)",
            ),
        ),
        shown=(
            "gemini_bandwidths",
            "gemini_bandwidths_read_directly",
            "gemini_contention_quality",
        ),
        notes=(*left_out, *_notes(table, jobs, read)),
    )


def _medians(table: pd.DataFrame) -> pd.DataFrame:
    return table.groupby(_SIZE)["time"].median().reset_index()


def _last_as_it_was(small: pd.DataFrame, test: pd.DataFrame) -> pd.Series:
    """The naive forecast: the time of the same size with fewer ranks."""
    keys = ["dimension", "n_messages", "nbytes"]
    known = small.groupby(keys)["time"].min()
    index = pd.MultiIndex.from_frame(test[keys])
    return pd.Series(known.reindex(index).to_numpy(), index=test.index)


def _quality(test: pd.DataFrame, predicted: pd.Series, name: str) -> pd.DataFrame:
    rows = []
    parts = [("all", test), *test.groupby("dimension")]
    for dimension, part in parts:
        ours = predicted.loc[part.index].to_numpy()
        known = np.isfinite(ours)
        if known.sum() < 2:
            continue
        observed = part["observed"].to_numpy()[known]
        error = np.abs(ours[known] / observed - 1)
        logs = np.log(observed), np.log(ours[known])
        rows.append(
            {
                **{"forecast": name, "dimension": dimension, "sizes": int(known.sum())},
                **{"mean_error": error.mean(), "median_error": np.median(error)},
                **{"rcc": rcc(*logs), "r2_log": r2(*logs)},
            }
        )
    return pd.DataFrame(rows)


def _bars(best: pd.DataFrame, quality: pd.DataFrame) -> tuple[Bar, ...]:
    found = best.set_index("dimension")["bandwidth"]
    bars = [
        Bar(
            f"bandwidth of {name.upper()} in GB/s, relative error against {known} of the source",
            abs(float(found[name]) / known - 1),
            0.05,
            "at most",
        )
        for name, known in KNOWN.items()
        if name in found
    ]
    bars += [
        Bar(f"bandwidth of {name.upper()} in GB/s, fitted", float(found[name]), published=known)
        for name, known in KNOWN.items()
        if name in found
    ]
    ours = quality[quality["forecast"] == "model"].set_index("dimension")
    for name, error, order in zip(ours.index, ours["mean_error"], ours["rcc"], strict=True):
        what = f"{LARGE} ranks from {SMALL}, {name}"
        bars.append(Bar(f"mean relative error, {what}", float(error)))
        bars.append(Bar(f"RCC, {what}", float(order)))
    return tuple(bars)


def _notes(table: pd.DataFrame, jobs: pd.DataFrame, read: pd.DataFrame) -> tuple[str, ...]:
    spread = jobs.groupby("dimension").agg(
        {"bandwidth": ["min", "max"], "low": "max", "high": "min"}
    )
    fitted = "; ".join(
        f"{str(name).upper()} {row['bandwidth', 'min']:.2f} to {row['bandwidth', 'max']:.2f}"
        for name, row in spread.iterrows()
    )
    apart = spread.index[spread["low", "max"] > spread["high", "min"]]
    differ = (
        f" The intervals of the jobs along {_names(apart)} do not all overlap, and nothing in "
        "the files tells why (traffic of others, or a line that is not straight)."
    )
    large, small = (
        read[read["n_ranks"] == ranks].set_index("dimension") for ranks in (LARGE, SMALL)
    )
    seen = "; ".join(f"{str(name).upper()} {rate:.2f}" for name, rate in large["bandwidth"].items())
    fastest = small.groupby("dimension")["low"].max()
    slower = large.index[large["high"] < fastest.reindex(large.index)]
    too_fast = (
        f" Along {_names(slower)} that is less than the faster {SMALL}-rank job had, and the "
        "forecast there is too fast by as much."
    )
    return (
        f"Bandwidths fitted to the jobs of one dimension, GB/s: {fitted}. The intervals of one job "
        "say how well its own times fix the bandwidth, not how far another allocation on the "
        f"shared machine may differ.{differ if len(apart) else ''}",
        _note_on_intervals(jobs, read),
        f"All times that are fitted are of {SMALL} ranks, so that what a rank copies and what the "
        "link carries grow together: what tells one from the other is where the time bends from "
        "the slower of the two to the other, and the bandwidths read directly, beside the fitted.",
        f"Read directly, the {LARGE}-rank jobs saw, GB/s: {seen}.{too_fast if len(slower) else ''}",
        *_note_on_jobs_cut_off(table),
    )


def _names(dimensions: Iterable[object]) -> str:
    return " and ".join(str(name).upper() for name in dimensions)


def _note_on_intervals(jobs: pd.DataFrame, read: pd.DataFrame) -> str:
    """Whether the interval of each job's fit holds what the same job's times say directly."""
    directly = read.set_index("job")["bandwidth"].rename("read")
    both = jobs.join(directly, on="job", how="inner")
    held = both["read"].between(both["low"], both["high"])
    missed = "; ".join(
        f"{row['dimension'].upper()} {row['read']:.3f} ({row['low']:.3f} to "
        f"{row['high']:.3f}, {row['job']})"
        for row in both[~held].to_dict("records")
    )
    return (
        f"The 95 % intervals of the fit hold the value read directly from the same job in "
        f"{held.sum()} of {len(both)} jobs"
        + (f"; they miss it, GB/s: {missed}. " if missed else ". ")
        + "They tell how far the fit moves with the sizes measured, not how far the model of a "
        "line is wrong."
    )


def _note_on_jobs_cut_off(table: pd.DataFrame) -> tuple[str, ...]:
    times = table.groupby("job").size()
    short = times[times < times.max()]
    if short.empty:
        return ()
    listed = "; ".join(f"{job} {n}" for job, n in short.items())
    return (
        f"Jobs cut off before they had all {times.max()} times of the others: {listed}. What they "
        "finished is used.",
    )


EXPERIMENT = Experiment(
    name="gemini-contention",
    title="Bandwidths of a Gemini torus by dimension, and contention at twice the length",
    needs="data",
    function=run,
    sources=(
        "github.com/bienz2/BlueWatersModel, contention, commit "
        "4ecec3e9a1f803e87c4075a487a01afef9819ec3 (BSD 2-Clause)",
    ),
    files=(FILES,),
)
