"""Communication times of algebraic multigrid on a Gemini torus: learn small, predict large."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from toruscast.errors import InputError
from toruscast.training.metrics import r2, rcc

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from ..public_data import drop_repeats, measurement_files
from ..sc13.intervals import bootstrap_interval, rcc_interval
from . import amg_noise, amg_row_sets
from .amg_candidates import CANDIDATES, LEARNERS, OURS, byte_hops
from .amg_features import ONE_SIDED
from .amg_messages import read_amg_messages
from .amg_model import alike
from .amg_row_sets import ANISOTROPIC

Floats = NDArray[np.float64]

FILES = "bluewatersmodel/amg_models/*.out"
# Processes to learn from at most, to predict at least; the first of the published comparison.
SPLITS = (("<= 1024, predict >= 2048", 1024, 2048), ("<= 2048, predict >= 4096", 2048, 4096))
# Within the sizes to learn from: learn up to the first, predict the second.
INNER = ((512, 1024), (128, 512), (128, 1024))
PUBLISHED_RCC, PUBLISHED_R2, BYTE_HOPS_RCC = 0.927, 0.91, 0.886
# The rows on which trees on the columns come close to the scores quoted for them.
QUOTED = "matrices of the anisotropic problem"
VECTORS_APART = "vectors of S and P"
# Where nearly all of the error is, found by looking at it: a diagnosis, no choice of rows.
APART = "vectors of S and P, plain matrices of S"
REST = "all others"
# Sizes that the splits ask for.
SIZES = (128, 512, 1024, 2048, 8192)
_FOLDS = 10
# What tells a communication and its time.
_WHAT = ["level", "operator", "matrix", "node_aware", "variant", "n_processes", "time"]


def read_all(inputs: Inputs) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return every communication of every job, and notes on what was left out.

    Raises
    ------
    InputError
        If the files are not found, one cannot be read, or a size is missing.
    """
    files = measurement_files(inputs, FILES)
    tables = [read_amg_messages(path) for path in files]
    left_out = sum((Counter(table.attrs["left_out"]) for table in tables), Counter[str]())
    used = [table for table in tables if len(table)]
    table = pd.concat(used, ignore_index=True) if used else tables[0]
    sizes = set(table["n_processes"])
    if not sizes.issuperset(SIZES):
        raise InputError(
            "jobs missing",
            file=files[0].parent,
            found=sorted(sizes),
            expected=f"{', '.join(map(str, SIZES))} processes",
        )
    rows = len(table)
    table, repeats = drop_repeats(table, ["file", "run"], _WHAT)
    notes = []
    if left_out:
        listed = "; ".join(f"{count} {reason}" for reason, count in left_out.items())
        notes.append(f"Communications left out: {listed}.")
    if repeats:
        listed = ", ".join(f"{copy} ({source})" for copy, source in repeats.items())
        notes.append(
            "Communications that stand in two files, time for time, count once "
            f"({rows - len(table)}): {listed}."
        )
    return table, tuple(notes)


def _subsets(test: pd.DataFrame) -> dict[str, NDArray[np.bool_]]:
    everything = np.ones(len(test), dtype=bool)
    sizes = {
        f"{size} processes": (test["n_processes"] == size).to_numpy()
        for size in sorted(test["n_processes"].unique())
    }
    matrix = test["matrix"].to_numpy(bool)
    # The vectors of one-sided operators wait; see the notes.
    one_sided = (test["operator"].isin(ONE_SIDED) & ~test["matrix"]).to_numpy(bool)
    aware = test["node_aware"].to_numpy(bool)
    plain_strength = matrix & ~aware & (test["operator"] == "S").to_numpy()
    return {
        "all": everything,
        **(sizes if len(sizes) > 1 else {}),
        "matrices": matrix,
        QUOTED: matrix & test["file"].str.contains(ANISOTROPIC).to_numpy(bool),
        "vectors of A": ~matrix & ~one_sided,
        VECTORS_APART: one_sided,
        "node-aware": aware,
        APART: one_sided | plain_strength,
        REST: ~one_sided & ~plain_strength,
    }


def _quality(observed: Floats, predicted: Floats, *, times: bool = True) -> dict[str, float]:
    """RCC and R^2 of logarithms, with intervals."""
    x, y = np.log(observed), np.log(predicted)
    row = {"rcc": rcc(x, y)}
    row["rcc_low"], row["rcc_high"] = rcc_interval(x, y)
    if times:
        row["r2_log"] = r2(x, y)
        row["r2_log_low"], row["r2_log_high"] = bootstrap_interval(x, y, r2)
    return row


def _inner(table: pd.DataFrame) -> pd.DataFrame:
    """Candidates on splits by size within the sizes to learn from."""
    rows = []
    for name, candidate in CANDIDATES.items():
        row: dict[str, object] = {"candidate": name}
        for most, size in INNER:
            test = table[table["n_processes"] == size]
            predicted = candidate(table[table["n_processes"] <= most], test)
            x, y = np.log(test["time"].to_numpy()), np.log(predicted)
            row |= {f"rcc_{most}_to_{size}": rcc(x, y), f"r2_{most}_to_{size}": r2(x, y)}
        rows.append(row)
    result = pd.DataFrame(rows)
    for measure in ("rcc", "r2"):
        result[f"{measure}_mean"] = result.filter(like=f"{measure}_").mean(axis=1)
    return result


def _known_sizes(table: pd.DataFrame) -> pd.DataFrame:
    """Quality on rows kept from the model whose size it knows: what no extrapolation costs.

    Communications that are alike are in one fold: none is forecast from its own repeat.
    """
    predicted = np.zeros(len(table))
    folds = GroupKFold(_FOLDS, shuffle=True, random_state=0)
    for train, test in folds.split(table, groups=alike(table)):
        predicted[test] = LEARNERS[OURS](table.iloc[train], table.iloc[test])
    rows = []
    for name, inside in {
        "all sizes": np.ones(len(table), dtype=bool),
        ">= 2048": (table["n_processes"] >= 2048).to_numpy(),
    }.items():
        quality = _quality(table["time"].to_numpy()[inside], predicted[inside])
        rows.append({"split": f"{_FOLDS} folds over all sizes", "subset": name, **quality})
    return pd.DataFrame(rows)


def _ceiling(table: pd.DataFrame, quality: pd.DataFrame) -> pd.DataFrame:
    """What chance leaves to a forecast of the large jobs, beside what is reached."""
    large = (table["n_processes"] >= SPLITS[0][2]).to_numpy()
    subsets = {}
    for name, inside in _subsets(table[large]).items():
        subsets[name] = large.copy()
        subsets[name][large] = inside
    reached = quality[(quality["split"] == SPLITS[0][0]) & (quality["learner"] == OURS)]
    return amg_noise.ceilings(table, subsets).merge(
        reached[["subset", "rcc", "r2_log"]], on="subset"
    )


def run(inputs: Inputs) -> Findings:
    """Train on small jobs, predict large ones, and say where the forecast fails.

    Raises
    ------
    InputError
        If the measurements are not found or cannot be read.
    """
    table, left_out = read_all(inputs)
    quality, forecasts, errors = [], [], []
    for split, most, least in SPLITS:
        train, test = table[table["n_processes"] <= most], table[table["n_processes"] >= least]
        observed = test["time"].to_numpy()
        for name, learn in LEARNERS.items():
            predicted = learn(train, test)
            for subset, inside in _subsets(test).items():
                row = {"split": split, "learner": name, "subset": subset, "rows": inside.sum()}
                if inside.sum() > 2:
                    times = learn is not byte_hops
                    quality.append(row | _quality(observed[inside], predicted[inside], times=times))
            if name == OURS:
                names = ["file", "run", "level", "operator", "matrix", "node_aware", "n_processes"]
                what = np.where(test["matrix"], "matrix", "vector")
                what = np.where(test["node_aware"], what + " node-aware", what)
                forecast = test[names].assign(split=split, what=what)
                forecast["observed"], forecast["predicted"] = observed, predicted
                forecasts.append(forecast)
                squares = np.log(predicted / observed) ** 2
                error = forecast.assign(squares=squares, rows=1)
                parts = error.groupby(["split", "what", "operator"], as_index=False)[
                    ["squares", "rows"]
                ].sum()
                parts["share_of_squared_error"] = parts["squares"] / parts["squares"].sum()
                errors.append(parts.drop(columns="squares"))
    most, least = SPLITS[1][1:]
    tables = {
        "gemini_amg_quality": pd.DataFrame(quality),
        "gemini_amg_choice": _inner(table[table["n_processes"] <= SPLITS[0][1]]),
        "gemini_amg_known_sizes": _known_sizes(table),
        "gemini_amg_repeats": amg_noise.repeats(table),
        "gemini_amg_ceiling": _ceiling(table, pd.DataFrame(quality)),
        "gemini_amg_row_sets": amg_row_sets.row_sets(
            table[table["n_processes"] <= most], table[table["n_processes"] >= least]
        ),
        "gemini_amg_errors": pd.concat(errors, ignore_index=True),
        "gemini_amg_forecasts": pd.concat(forecasts, ignore_index=True),
    }
    return Findings(
        text=_text(table),
        tables=tables,
        bars=_bars(tables["gemini_amg_quality"]),
        charts=(
            Chart(
                "gemini_amg_forecasts",
                "scatter",
                "gemini_amg_forecasts",
                "observed",
                "predicted",
                group="what",
                panel="split",
                log=True,
                title="Multigrid on Gemini: time of a communication (s)",
            ),
        ),
        shown=tuple(
            f"gemini_amg_{name}"
            for name in ("quality", "choice", "known_sizes", "repeats", "ceiling", "row_sets")
        ),
        notes=(*left_out, *_notes(table, tables)),
    )


def _bars(quality: pd.DataFrame) -> tuple[Bar, ...]:
    bars = []
    ours = quality[quality["learner"] == OURS].set_index(["split", "subset"])
    for split, _, _ in SPLITS:
        for subset in ours.loc[split].index.intersection(
            ["all", "2048 processes", "8192 processes", QUOTED]
        ):
            row, where = ours.loc[(split, subset)], f"{split}, {subset}"
            bars.append(Bar(f"RCC, learn {where}", float(row["rcc"]), 0.96, "at least"))
            bars.append(Bar(f"R^2 (log), learn {where}", float(row["r2_log"]), 0.95, "at least"))
    last = quality[quality["split"] == SPLITS[1][0]]
    for subset in ("all", QUOTED):
        for name, published in (
            ("trees on the columns", {"rcc": PUBLISHED_RCC, "r2_log": PUBLISHED_R2}),
            ("byte-hops alone", {"rcc": BYTE_HOPS_RCC}),
        ):
            found = last[(last["learner"] == name) & (last["subset"] == subset)]
            for column, quoted in published.items() if len(found) else ():
                row = found.iloc[0]
                what = f"{'RCC' if column == 'rcc' else 'R^2 (log)'}, {name}, {subset}"
                bars.append(Bar(what, float(row[column]), published=quoted))
    return tuple(bars)


def _text(table: pd.DataFrame) -> str:
    jobs = table.groupby("n_processes").size()
    counts = ", ".join(f"{rows} at {size}" for size, rows in jobs.items())
    return (
        f"{len(table)} communications of {table['file'].nunique()} jobs ({counts} processes): "
        "every level, operator, vector or matrix, plain or node-aware. An analytic law (latency, "
        "messages, queue, bytes of the busiest process) is fitted to the small jobs; trees and a "
        "support vector machine learn the logarithm of what it misses from flags, ratios and "
        "per-process rates, and their mean corrects it. Law, learners and settings were chosen by "
        "splits by size within the jobs of up to 1024 processes only (`gemini_amg_choice`). "
        "Intervals are 95 %, from 1000 resamples of the test rows (seed 0)."
    )


def _slowest_repeat(table: pd.DataFrame) -> str:
    """How much longer a communication took than the fastest that is alike."""
    slower = table["time"] / table.groupby(alike(table))["time"].transform("min")
    worst = int(slower.to_numpy().argmax())
    row = table.iloc[worst]
    return (
        f"Of communications that are alike, one took {slower.iloc[worst]:.0f} times as long as "
        "another: "
        f"{'a matrix' if row['matrix'] else 'a vector'} of {row['operator']} in {row['file']}, "
        f"{row['n_processes']} processes. Of those that are alike the model learns the fastest; "
        "as a test, each counts."
    )


def _without_these(quality: pd.DataFrame) -> str:
    """What the model reaches apart from the rows that hold most of its error."""
    ours = quality[(quality["learner"] == OURS) & (quality["subset"] == REST)]
    reached = "; ".join(
        f"RCC {row['rcc']:.3f} and R^2 {row['r2_log']:.3f} on {row['rows']} rows ({row['split']})"
        for row in ours.to_dict("records")
    )
    return (
        f"Without {APART}, which were found by looking at the errors, the model reaches {reached}: "
        "a diagnosis, no bar."
    )


def _notes(table: pd.DataFrame, tables: dict[str, pd.DataFrame]) -> tuple[str, ...]:
    errors = tables["gemini_amg_errors"]
    first = errors[errors["split"] == SPLITS[0][0]].nlargest(3, "share_of_squared_error")
    worst = "; ".join(
        f"{row['what']} of {row['operator']} {row['share_of_squared_error']:.0%}"
        for row in first.to_dict("records")
    )
    known = tables["gemini_amg_known_sizes"].set_index("subset").loc[">= 2048"]
    return (
        f"Where the squared error of the logarithms lies, {SPLITS[0][0]}: {worst}.",
        _without_these(tables["gemini_amg_quality"]),
        "Vectors of S and P on coarse levels take many times longer at 8192 processes than any "
        "message count tells, from the level on at which some processes have nothing to do. Their "
        "traffic is one-sided, so that early senders may flood late receivers; the files hold what "
        "a process sends, not what it receives, and the jump up to 1024 processes is too small to "
        "foretell it. Matrices of S go the other way: slow on middle levels of the small jobs, "
        "not so at 8192.",
        f"With every size known to the model ({_FOLDS} folds, communications that are alike in "
        f"one), rows of 2048 and more reach RCC "
        f"{known['rcc']:.3f} and R^2 {known['r2_log']:.3f}: what is left of the gap to the bars "
        "is not extrapolation, but what this model cannot tell from these columns.",
        "That vectors of S and P are one-sided, which two features tell, was thought of after "
        "their errors at 8192 processes had been seen; the features were kept for what they gain "
        "within the sizes to learn from.",
        amg_noise.note(tables["gemini_amg_ceiling"], "all", VECTORS_APART),
        _slowest_repeat(table),
        "The figures quoted for trees on the columns and for byte-hops (shown as published) are "
        f"not reached on all rows. The {QUOTED} are shown with the same bars beside all rows, not "
        "in place of them.",
        amg_row_sets.note(
            tables["gemini_amg_row_sets"], BYTE_HOPS_RCC, PUBLISHED_RCC, PUBLISHED_R2
        ),
    )


EXPERIMENT = Experiment(
    name="gemini-amg",
    title="Multigrid on a Gemini torus: learn from small jobs, predict large ones",
    needs="data",
    function=run,
    sources=(
        "github.com/bienz2/BlueWatersModel, amg_models, commit "
        "4ecec3e9a1f803e87c4075a487a01afef9819ec3 (BSD 2-Clause)",
    ),
    files=(FILES,),
)
