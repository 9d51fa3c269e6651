"""Ranking of collective algorithms on Fugaku, with constants from eight nodes."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toruscast.errors import InputError

from ..experiment import Bar, Chart, Experiment, Findings, Inputs
from .assumed import NONE, scaled, vary
from .job import is_folded
from .model import ASSUMED, Constants, fit, predict, stands_for
from .ranking import Floats, corrections, count_pairs, rank_groups, summarise
from .table import CANNOT_RUN, tabulate

FOLDER = "pico-fugaku"
CALIBRATION = "2x2x2"
# Bars of the mean RCC and of the median regret.
_RCC, _REGRET = 0.85, 0.10
_MODEL, _CORRECTED = "model", "model, corrected"
_IN_TURN, _FREE = "model, rounds without overlap", "model, links without limit"
_UNASSUMED = "model, without assumed times"
_LOGICAL = "model, logical torus"
# Measured times closer than this hardly order two algorithms.
_CLOSE = 0.10
_AS_BEFORE = f"times of {CALIBRATION}"


def run(inputs: Inputs) -> Findings:
    """Predict the time of every algorithm whose schedule is known and rank them.

    Raises
    ------
    InputError
        If there is no folder of measurements, they cannot be read, there are none of 2x2x2, or
        no two algorithms can be compared.
    """
    if inputs.data is None:
        raise InputError("no folder of measurements", expected="--data DIR")
    table, left_out = tabulate(inputs.data / FOLDER)
    known = (table["shape"] == CALIBRATION).to_numpy()
    # Of codes that another stands for, that one counts.
    calibration = table[known & (table["code"].map(stands_for) == table["code"])]
    if calibration.empty:
        raise InputError(f"no times of {CALIBRATION}", file=str(inputs.data / FOLDER))
    constants = fit(calibration)

    def corrected_too(table: pd.DataFrame) -> dict[str, Floats]:
        predicted = predict(table, constants)
        return {_MODEL: predicted, _CORRECTED: predicted * corrections(table, predicted, known)}

    methods = corrected_too(table)
    methods[_IN_TURN] = predict(table, fit(calibration, "carried"), "carried")
    methods[_FREE] = predict(table, fit(calibration, "sent"), "sent")
    methods[_UNASSUMED] = predict(scaled(table, NONE), constants)
    folded = table["shape"].map(is_folded).to_numpy()
    methods[_LOGICAL] = methods[_MODEL].copy()
    if folded.any():
        logical, _ = tabulate(inputs.data / FOLDER, logical=True)
        methods[_LOGICAL][folded] = predict(logical, constants)
    groups = rank_groups(table, methods)
    if groups.empty:
        wanted = "two algorithms of a collective and a size on one torus"
        raise InputError("nothing to rank", file=str(inputs.data / FOLDER), expected=wanted)
    again = rank_groups(table, {_MODEL: methods[_MODEL], _AS_BEFORE: _as_measured(table)})
    assumed = vary(table, corrected_too)
    return _findings(table, left_out, constants, methods, groups, again, assumed)


def _as_measured(table: pd.DataFrame) -> Floats:
    """Time of the same algorithm and size on the calibration torus; NaN where there is none."""
    keys = ["collective", "algorithm", "nbytes"]
    before = table[table["shape"] == CALIBRATION].set_index(keys)["time"]
    return before.reindex(pd.MultiIndex.from_frame(table[keys])).to_numpy(dtype=np.float64)


def _findings(
    table: pd.DataFrame,
    left_out: pd.DataFrame,
    constants: Constants,
    methods: dict[str, Floats],
    groups: pd.DataFrame,
    again: pd.DataFrame,
    assumed: pd.DataFrame,
) -> Findings:
    ranked = set(groups["shape"])
    shapes = [shape for shape in table["shape"].unique() if shape in ranked]
    tests = [shape for shape in shapes if shape != CALIBRATION]
    summary = summarise(groups, ["shape", "method"])
    if len(tests) > 1:
        every = groups[groups["shape"] != CALIBRATION].assign(shape=" and ".join(tests))
        together = summarise(every, ["shape", "method"])
        summary = pd.concat([summary, together], ignore_index=True)
    baseline = summarise(again, ["shape", "method"])
    by_collective = summarise(groups[groups["method"] == _MODEL], ["shape", "collective"])
    by_size = summarise(groups[groups["method"] == _MODEL], ["shape", "nbytes"])
    by_size = by_size.sort_values("nbytes", kind="stable", ignore_index=True)
    by_size = by_size.sort_values(
        "shape", key=lambda names: names.map(shapes.index), kind="stable", ignore_index=True
    )
    columns = ["shape", "collective", "algorithm", "schedule", "nbytes", "time"]
    times = table[columns].assign(predicted=methods[_MODEL], corrected=methods[_CORRECTED])
    factors = pd.DataFrame({"software": constants.software, "local": constants.local})
    counts = left_out.groupby(["collective", "algorithm"]).size().rename("rows").reset_index()
    return Findings(
        text=_text(table, left_out, groups),
        tables={
            "fugaku_summary": summary,
            "fugaku_baseline": baseline,
            "fugaku_assumed": assumed,
            "fugaku_collectives": by_collective,
            "fugaku_sizes": by_size,
            "fugaku_groups": groups,
            "fugaku_constants": constants.table(),
            "fugaku_factors": factors.rename_axis("code").reset_index(),
            "fugaku_left_out": counts,
            "fugaku_times": times,
        },
        bars=_bars(summary, baseline),
        charts=(
            Chart(
                "fugaku_rcc",
                "bars",
                "fugaku_collectives",
                "collective",
                "mean RCC",
                group="shape",
                title="RCC of the algorithms, mean over sizes",
            ),
            Chart(
                "fugaku_times",
                "scatter",
                "fugaku_times",
                "time",
                "predicted",
                group="collective",
                panel="shape",
                log=True,
                title="Time of each algorithm and size, s",
            ),
        ),
        shown=(
            "fugaku_summary",
            "fugaku_baseline",
            "fugaku_assumed",
            "fugaku_collectives",
            "fugaku_sizes",
            "fugaku_constants",
            "fugaku_left_out",
        ),
        notes=_notes(table, methods[_MODEL], tests, summary),
    )


def _bars(summary: pd.DataFrame, baseline: pd.DataFrame) -> tuple[Bar, ...]:
    bars = []
    for shape in summary["shape"].unique():
        if shape == CALIBRATION:
            continue
        for method in (_MODEL, _CORRECTED):
            row = summary[(summary["shape"] == shape) & (summary["method"] == method)].iloc[0]
            bars += [
                Bar(f"mean RCC, {shape}, {method}", row["mean RCC"], _RCC),
                Bar(
                    f"median regret@1, {shape}, {method}",
                    row["median regret@1"],
                    _REGRET,
                    "at most",
                ),
            ]
        without = summary[(summary["shape"] == shape) & (summary["method"] == _UNASSUMED)]
        bars += [
            Bar(f"mean RCC, {shape}, {row['method']}", row["mean RCC"])
            for row in without.to_dict("records")
        ]
        for again in baseline[baseline["shape"] == shape].to_dict("records"):
            what = f"mean RCC, {shape}, algorithms also run on {CALIBRATION}, {again['method']}"
            bars.append(Bar(what, again["mean RCC"]))
    return tuple(bars)


def _text(table: pd.DataFrame, left_out: pd.DataFrame, groups: pd.DataFrame) -> str:
    again = int((table["repeats"] - 1).sum() + (left_out["repeats"] - 1).sum())
    merged = f" {again:,} more, of the same again, are merged with these." if again else ""
    own = left_out["algorithm"].str.startswith("default-") & (left_out["reason"] != CANNOT_RUN)
    unlike = int((~own).sum())
    others = f"; {unlike:,} of them have no name known, or cannot run on their torus"
    n_groups = len(groups[["shape", "collective", "nbytes"]].drop_duplicates())
    total = len(table) + len(left_out)
    return (
        f"Collectives measured on Fugaku (Tofu-D, one task a node; PICO), {total:,} times.{merged} "
        f"For {len(table):,} the schedule of the algorithm is known; {len(left_out)} are left out, "
        "counted in `fugaku_left_out`: library defaults, combinations that call them, and "
        f"algorithms of Fujitsu MPI that are not published{others if unlike else ''}. "
        "Ranks lie as the job's rank map says. "
        "Two dimensions are laid into the machine's six as rings, closed where they are of even "
        "length, the logical Y through Y and b, X through X, Z, a and c. That is assumed: how the "
        "system does it is not published in full, and how the job lay is not recorded.\n"
        "\n"
        "Time = network + software + local memory. Network: bytes over the link bandwidth plus "
        "hops. The bytes come from one packet simulation of each schedule on the torus, its rounds "
        "dependent on each other, with a buffer of 64 MB (32 packets the largest message, 8 on "
        "64x64); rounds of pipelined trees, of exchanges that start all at once and of more than "
        "300,000 messages are bounded by their busiest link or port instead. Software: setup, "
        "threads for further ports, overheads of a round, a long message and of the longest chain "
        "of messages; and what the source of the bine library does in each call: addresses that "
        "are gathered or swapped, word that a buffer is free, timers, waits for segments, ports "
        "served in turn, and for each of the tasks a table of blocks, divisions and moves. Memory: "
        "copies, and sums, which a thread of a port does alone and without threads all cores "
        "share. All constants, and two factors of each implementation (software and memory) "
        f"that are drawn to 1, are fitted to {CALIBRATION} only. Not fitted are the hop latency, "
        f"that of the preset, and {len(ASSUMED)} times for what is done for each task, which eight "
        "of them do not show: cycles of the processor, by its manual and the library's source. "
        "Which of these matter, and that two dimensions close to rings, was found with the times "
        "of 64x64 at hand, and the times of an evicted line and of memory were sized by them, so "
        "that 64x64 is no blind test; all else is fitted to 2x2x2 or counted. `fugaku_assumed` "
        "shows how much hangs on the assumed times: without any of them, without evicted lines "
        "or memory alone, and with all doubled or halved; nothing is fitted anew for that. "
        f"*{_UNASSUMED.split(', ')[1].capitalize()}* leaves them all out, *links without limit* "
        "all contention of links; *logical torus* takes the torus that the job asked for as the "
        "network. *Corrected* multiplies by the ratio of measured to predicted time of the same "
        f"code and size on {CALIBRATION}. The time is the median of the iterations. Rankings are "
        f"within each of {n_groups} groups of a torus, a collective and a size."
    )


def _notes(
    table: pd.DataFrame, predicted: Floats, tests: list[str], summary: pd.DataFrame
) -> tuple[str, ...]:
    ratio = np.log(predicted / table["time"].to_numpy())
    means = summary.set_index(["shape", "method"])["mean RCC"]
    alone = [shape for shape in table["shape"].unique() if shape not in {*tests, CALIBRATION}]
    notes = [
        f"{shape}: no two algorithms ran the same collective and size; nothing to rank."
        for shape in alone
    ]
    for shape in tests:
        here = (table["shape"] == shape).to_numpy()
        mean = pd.Series(ratio[here]).groupby(table["code"].to_numpy()[here]).mean()
        worst = mean[mean.abs().sort_values(ascending=False).index[:6]]
        what = "; ".join(f"{code} x{np.exp(value):.2g}" for code, value in worst.items())
        pairs, wrong, close = count_pairs(table[here], predicted[here], _CLOSE)
        notes += [
            f"{shape}: farthest from the measured times (predicted over measured) {what}.",
            f"{shape}: {wrong:,} of {pairs:,} pairs are ordered wrong; in {close:,} of these the "
            f"measured times differ by less than {_CLOSE:.0%}.",
            f"{shape}: mean RCC {means[shape, _MODEL]:.3f}; {means[shape, _UNASSUMED]:.3f} if "
            "what eight nodes do not show takes no time; "
            f"{means[shape, _FREE]:.3f} if links never were the limit; "
            f"{means[shape, _LOGICAL]:.3f} on the logical torus.",
        ]
    for shape in tests:
        linear = _ratios(table, shape, "default-linear", "default-pairwise")
        if linear.size:
            notes.append(
                f"{shape}: a linear all-to-all takes {linear.min():.2f} to {linear.max():.2f} "
                "times the pairwise exchange, though it starts all its messages at once, as the "
                "model has it too."
            )
        ports = _ratios(table, shape, "-6", "-4")
        if ports.size:
            notes.append(
                f"{shape}: six ports take {np.median(ports):.2f} times the time of four (median), "
                f"and are slower in {(ports > 1).mean():.0%} of {ports.size} cases."
            )
    if "64x64" in tests:
        notes.append(
            "Far nodes of a long logical ring are nearer in the machine's six dimensions and have "
            "more links between them: on the logical torus, algorithms over ranks with far "
            "partners come out too slow on 64x64, trees of MPI most of all."
        )
    return (
        *notes,
        "Where a library cannot run what is asked of it, it runs its default under that name; such "
        "rows (on 2x2x2 trees in six directions, on 64x64 the linear broadcast) stay in. On 2x2x2 "
        "trees of six directions are not used for the calibration.",
        "Fujitsu MPI's own *simple* gather is left out as unpublished: on 2x2x2 it brings data "
        "into the root faster than one port can, so that it is not Open MPI's linear one.",
        "The trees of the pipelined algorithms share no link, as the machine's do; which trees the "
        "library takes is not published.",
    )


def _ratios(table: pd.DataFrame, shape: str, end: str, other: str) -> Floats:
    """Measured times of algorithms whose names end so over those that end otherwise."""
    here = table[table["shape"] == shape].set_index(["collective", "nbytes", "algorithm"])["time"]
    ours = here[here.index.get_level_values("algorithm").str.endswith(end)]
    twins = [(*key[:2], key[2].removesuffix(end) + other) for key in ours.index]
    ratio: Floats = ours.to_numpy() / here.reindex(twins).to_numpy()
    return ratio[np.isfinite(ratio)]


EXPERIMENT = Experiment(
    name="fugaku",
    title="Collective algorithms on Fugaku, ranked with constants from 2x2x2 nodes",
    needs="data",
    function=run,
    sources=(
        "github.com/HLC-Lab/pico at 413bc5d0f98f8c45a99926cb4b68d22824d968ab, results/fugaku "
        "(aggregated_results_summary.csv of each archive; MIT)",
        "github.com/HLC-Lab/bine_trees_fugaku at 0755a2eb448282d5ebfd09afbbcd9a682f3dc152, jobs "
        "(MIT)",
        "github.com/HLC-Lab/bine_trees_fugaku at a61e2dc1a217857698471a76d8dfebe6036249fa, lib "
        "(what a call of the bine library does), bench (segments that are asked of the trees)",
        "github.com/fujitsu/A64FX, A64FX Microarchitecture Manual 1.6 (caches, cycles)",
    ),
    files=("pico-fugaku/*.aggregated_results_summary.csv", "pico-fugaku/jobs/*"),
)
