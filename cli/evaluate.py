"""``toruscast evaluate``: how well feature sets predict unseen mappings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import click

import toruscast as tc
from toruscast import answers, datasets
from toruscast._slow import pandas as pd
from toruscast.errors import InputError

from .learning import (
    LearningSession,
    SampleSourceOptions,
    load_plugin,
    parse_features,
    splits_option,
)
from .options import (
    PLUGIN_SET,
    TrafficOptions,
    WorkOptions,
    is_default,
    multi_option,
    option,
    plugin_option,
    refuse_options,
    sub_command,
)
from .output import Output
from .problem import load_application, load_torus
from .slow import training_samples

# Maximum number of messages to route per workload and torus, which takes up to a minute.
MAX_MESSAGES = 2**23


@dataclass(frozen=True)
class _EvaluateOptions:
    sets: tuple[str, ...] = multi_option(
        "Feature set, features joined by commas, or a sum such as prior+mine. Gains are relative "
        "to the first --features.  [default: all sets that the samples contain, or all columns]",
        "SET",
        "--features",
    )
    plugin: str | None = plugin_option()
    target: Literal["correction", "slowdown", "time"] | None = option(
        "Quantity to learn.  [default: correction if features need the coarse simulation, slowdown "
        "for the set 'relative', else time]",
        rare=True,
    )
    level: int | None = option(
        "Level of the features to compute with --comm; 2 adds simulated features.  [default: "
        "the level that --features need]",
        type=click.IntRange(1, 2),
        rare=True,
    )
    baseline: Literal["pmnf"] | None = option(
        "Compare with a scaling model of message size, nodes and lower bound. Samples must have "
        "several sizes. The model is also trained on the smaller sizes alone.",
        rare=True,
    )
    hold_out: Literal["application", "kind", "torus", "size"] | None = option(
        "Instead of random splits, hold out each workload, kind of traffic or torus in turn, or "
        "the largest size, and train on the other samples."
    )
    splits: int = splits_option()


@sub_command("evaluate")
def command(
    traffic: TrafficOptions,
    source: SampleSourceOptions,
    options: _EvaluateOptions,
    work: WorkOptions,
    output: Output,
) -> None:
    """Measure how well feature sets predict held-out mappings.

    With --plugin and without --features, the answer is the gain from adding your features to the
    set 'prior' and to the best set, within each workload and torus (10 splits by default).

    \b
    toruscast evaluate --comm lammps-lj-64 --torus 4x4x4
    toruscast evaluate --comm lammps-lj-64 --torus 4x4x4 --samples lj.parquet --plugin my.py
    toruscast evaluate --samples samples.parquet --hold-out application
    toruscast evaluate --comm app.edges --torus 8x8x8 --mappings maps/ --times runs.csv
    """  # noqa: D301
    output.check(others={"--samples": source.samples})
    if source.times is not None:
        refuse_options("cannot be used with --times", "baseline", "hold_out")
    if options.hold_out:
        if options.plugin and not options.sets and not options.baseline:
            raise click.UsageError("--hold-out with --plugin needs --features")
        unused = ("splits",) if traffic.is_given else ("splits", "seed")
        refuse_options("cannot be used with --hold-out, which makes no random splits", *unused)
    own = load_plugin(options.plugin)
    session = LearningSession(traffic, source, work, output)
    arguments: dict[str, Any] = {
        "metrics": own,
        "target": options.target,
        "hold_out": options.hold_out,
        "baseline": options.baseline,
        "seed": work.seed,
        "n_jobs": work.jobs,
        "n_splits": None if is_default("splits") else options.splits,
    }
    # If no sets are given, the evaluation compares the plugin's features with existing ones.
    sets = () if own and options.sets == (PLUGIN_SET,) else options.sets
    if source.times is not None:
        problem, mappings, runs = session.read_runs()
        arguments |= {"mappings": mappings, "times": runs, "level": options.level}
        arguments["features"] = {text: parse_features(text, own) for text in sets} or None
        with output.progress("Measuring quality") as progress:
            result = tc.evaluate(problem, **arguments, progress=progress)
        session.write_answer(answers.evaluation.answer(result))
        return
    only_metrics = bool(own) and not sets and not options.baseline
    level = options.level or 1
    if only_metrics or traffic.is_given:
        names = [name for text in sets for name in parse_features(text, own)] or own
        level = max(level, tc.training.needed_level(names, options.target))
    file = source.samples
    if only_metrics and file is not None and os.path.exists(file):  # noqa: PTH110
        table = _add_metrics(session, file, own)
    else:
        table = session.load_samples(level)
    known = {*tc.FEATURES, *table.columns}
    arguments["features"] = {text: parse_features(text, own, known) for text in sets} or None
    with _name_file_in_errors(file), output.progress("Measuring quality") as progress:
        result = tc.evaluate(samples=table, **arguments, progress=progress)
    session.write_answer(answers.evaluation.answer(result))


def _add_metrics(session: LearningSession, file: str, own: tuple[str, ...]) -> pd.DataFrame:
    """Read samples, route their traffic again, and add the features of the plugin."""
    others = ("number", "tasks_per_node", "hosts", "fixed", "mappings", "routing", "level")
    refuse_options("needs new samples, but the file of --samples exists", *others)
    traffic = session.traffic
    table = tc.training.read_samples(file)
    torus = None if traffic.torus is None else load_torus(traffic)
    workloads = _load_workloads(session, table)
    if traffic.is_given:
        table = _select_workloads(table, set(workloads))
    with _name_file_in_errors(file), session.output.progress("Routing the samples") as progress:
        return training_samples.add_metrics(
            table,
            own,
            workloads=workloads,
            torus=torus,
            max_messages=MAX_MESSAGES,
            n_jobs=session.work.jobs,
            progress=partial(progress, "samples"),
        )


def _load_workloads(session: LearningSession, table: pd.DataFrame) -> dict[str, tc.Workload]:
    """Return the workload from --comm, or else the shipped datasets not stored with the samples."""
    names, traffic = list(dict.fromkeys(table["workload"])), session.traffic
    if traffic.is_given:
        workload = load_application(traffic, simulated=False).workload
        session.omitted = workload.omitted
        # If the samples have only one workload, ignore its name: the file may have been renamed.
        return {names[0] if len(names) == 1 else workload.name: workload}
    stored = table.attrs["provenance"].get("workloads")
    stored = stored if isinstance(stored, dict) else {}
    shipped = [name for name in names if name not in stored and name in datasets.names()]
    return {
        name: load_application(TrafficOptions(comms=(name,)), simulated=False).workload
        for name in shipped
    }


def _select_workloads(table: pd.DataFrame, names: set[str]) -> pd.DataFrame:
    selected = table[table["workload"].isin(names)].reset_index(drop=True)
    if selected.empty:
        found = ", ".join(sorted(set(table["workload"]))[:3])
        raise InputError("no samples of this graph", found=found, expected=" or ".join(names))
    selected.attrs = dict(table.attrs)
    return selected


@contextmanager
def _name_file_in_errors(file: str | None) -> Iterator[None]:
    """Add the name of the sample file to errors that do not name a file."""
    try:
        yield
    except InputError as error:
        raise error if error.file else error.replace(file=file) from None
