"""``toruscast evaluate``: how well feature sets predict unseen mappings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import click

import toruscast as tc
from toruscast import answers, datasets
from toruscast._slow import pandas as pd
from toruscast.errors import InputError

from .learning import LearningSession, load_plugin, parse_features
from .options import (
    PLUGIN_SET,
    SampleSourceOptions,
    TrafficOptions,
    WorkOptions,
    is_default,
    multi_option,
    option,
    plugin_option,
    refuse_options,
    splits_option,
    sub_command,
)
from .output import PageOutput
from .problem import load_application, load_torus
from .slow import decision_measured, evaluation, feature_registry, training_samples

if TYPE_CHECKING:
    from toruscast.training.evaluation import HoldOut, PMNFBaseline

BASELINE = "analytic"
# Maximum number of messages to route per workload and torus, which limits the time to a minute.
MAX_MESSAGES = 2**23
_METRIC_SPLITS = 10


@dataclass(frozen=True)
class _EvaluateOptions:
    sets: tuple[str, ...] = multi_option(
        "A feature set, features joined by commas, or a sum such as prior+mine. "
        "Gains are relative to the first.  [default: all sets that the samples contain]",
        "SET",
        "--features",
    )
    plugin: str | None = plugin_option()
    target: Literal["correction", "slowdown", "time"] | None = option(
        "Quantity to learn.  [default: correction with features of the coarse simulation, slowdown "
        "with the set 'relative', else time]"
    )
    level: int | None = option(
        "Features to compute with --comm; 2 adds those of the simulator.  [default: as --features "
        "need]",
        type=click.IntRange(1, 2),
    )
    baseline: Literal["pmnf"] | None = option(
        "Compare with a scaling model in message size, nodes and lower bound. Samples must have "
        "several sizes; it is also trained on the smaller ones alone."
    )
    hold_out: Literal["application", "kind", "torus", "size"] | None = option(
        "Instead of random splits, hold out each workload, kind of traffic or torus in turn, or "
        "the largest size, and train on the rest."
    )
    splits: int = splits_option()


@sub_command("evaluate")
def command(
    traffic: TrafficOptions,
    source: SampleSourceOptions,
    options: _EvaluateOptions,
    work: WorkOptions,
    output: PageOutput,
) -> None:
    """Measure how well feature sets predict held-out mappings.

    Repeatedly, two thirds of the samples train and one third tests. With --hold-out, whole
    applications, kinds of traffic or tori, or the largest size, are held out instead. A Python file
    can define your own metric; without --features the answer is its gain over the set 'prior' and
    over the best set, within each workload and torus (10 splits by default). Samples of a file are
    not simulated again.

    \b
        from toruscast import register_feature
        @register_feature("busiest_share")
        def busiest_share(traffic):
            return traffic.link_bytes.max() / traffic.link_bytes.sum()

    \b
    toruscast evaluate --comm lammps-lj-64 --torus 4x4x4
    toruscast evaluate --comm lammps-lj-64 --torus 4x4x4 --samples lj.parquet --plugin my.py
    toruscast evaluate --samples samples.parquet --plugin my.py
    toruscast evaluate --samples samples.parquet --features prior --features H5
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
    sets = options.sets
    if own and not sets and not options.baseline and source.times is None:
        _evaluate_metrics(session, own, options)
        return
    if own and sets in ((), (PLUGIN_SET,)):
        sets = (BASELINE, f"{BASELINE}+{PLUGIN_SET}", PLUGIN_SET)
    if source.times is not None:
        _evaluate_runs(session, sets, own, options)
        return
    level = options.level or 1
    if traffic.is_given:
        names = [name for text in sets for name in parse_features(text, own)]
        level = max(level, tc.training.needed_level(names, options.target))
    table = session.load_samples(level)
    features = _select_sets(sets, own, table, source.samples)
    learners = _make_learners(features, options)
    if options.hold_out:
        scores = _score_held_out(table, learners, options.hold_out, session)
        session.write_answer(answers.evaluation.of_held_out(scores, options.hold_out, features))
        return
    scores = session.score(table, learners, options.splits)
    large = None
    if options.baseline and table[["workload", "torus"]].drop_duplicates().shape[0] > 1:
        large = _score_held_out(table, learners, "size", session)
    baselines = evaluation.baseline_scores(table, options.splits, work.seed)
    session.write_answer(
        answers.evaluation.answer(
            table, features, scores, mine=own, large=large, baselines=baselines
        )
    )


def _evaluate_runs(
    session: LearningSession, sets: tuple[str, ...], own: tuple[str, ...], options: _EvaluateOptions
) -> None:
    """Compare feature sets with the regression of measured on simulated times."""
    names = [name for text in sets for name in parse_features(text, own)]
    of_level = feature_registry.select_features(None, options.level or 1)
    run_model = session.learn_runs((), names or [feature.name for feature in of_level])
    table = run_model.table.assign(time=run_model.runs.times)
    features = _select_sets(sets, own, table, None)
    reference = run_model.model.reference
    models = {f"line in {reference}": decision_measured.make_line_model(reference)}
    for name, selected in features.items():
        models[name] = tc.TimePredictor(selected, "measured", reference=reference)
    scores = session.score_runs(run_model, models, options.splits)
    session.write_answer(
        answers.evaluation.answer(table, features, scores, mine=own, found=run_model)
    )


def _evaluate_metrics(
    session: LearningSession, own: tuple[str, ...], options: _EvaluateOptions
) -> None:
    """Measure the gain of the plugin's features over the set ``prior`` and the best set."""
    file, work = session.source.samples, session.work
    if file is not None and os.path.exists(file):  # noqa: PTH110
        table = _add_metrics(session, file, own)
    else:
        level = max(options.level or 1, tc.training.needed_level(own, None))
        table = session.load_samples(level)
    n_splits = _METRIC_SPLITS if is_default("splits") else options.splits
    with session.output.progress("Evaluating the metric") as progress:
        gains = evaluation.evaluate_metrics(
            table, own, n_splits=n_splits, seed=work.seed, n_jobs=work.jobs, progress=progress
        )
    session.write_answer(answers.evaluation.of_metrics(gains, own, n_splits))


def _add_metrics(session: LearningSession, file: str, own: tuple[str, ...]) -> pd.DataFrame:
    """Return the samples of a file with the plugin's features of their traffic, routed again."""
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
            progress=progress,
        )


def _load_workloads(session: LearningSession, table: pd.DataFrame) -> dict[str, tc.Workload]:
    """Return the workloads that are not stored with the samples: of --comm, or shipped datasets."""
    names, traffic = list(dict.fromkeys(table["workload"])), session.traffic
    if traffic.is_given:
        workload = load_application(traffic, simulated=False).workload
        session.omitted = workload.omitted
        # The file may have been renamed since the samples of its only workload were stored.
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


def _select_sets(
    sets: tuple[str, ...], own: tuple[str, ...], table: pd.DataFrame, file: str | None
) -> dict[str, tuple[str, ...]]:
    """Return the features of each set, by default of all sets that the table contains."""
    if not sets:
        features = {
            name: names
            for name, names in tc.training.FEATURE_SETS.items()
            if set(names) <= set(table.columns)
        }
        if not features:
            raise InputError(
                "samples without any feature set",
                file=file,
                expected="--features with columns of the table",
            )
        return features
    known = {*tc.FEATURES, *table.columns}
    features = {text: parse_features(text, own, known) for text in sets}
    missing = [n for names in features.values() for n in names if n not in table.columns]
    if missing:
        raise InputError(
            "features missing from the samples",
            file=file,
            found=", ".join(dict.fromkeys(missing)),
            expected="samples with them; --comm and --torus simulate new ones",
        )
    return features


def _make_learners(
    features: dict[str, tuple[str, ...]], options: _EvaluateOptions
) -> dict[str, tc.TimePredictor | PMNFBaseline]:
    """Return the baseline, if requested, and a learner for each set."""
    learners: dict[str, tc.TimePredictor | PMNFBaseline] = {}
    if options.baseline:
        learners[options.baseline] = evaluation.PMNFBaseline()
    for name, selected in features.items():
        target = options.target or tc.training.usual_target(selected)
        learners[name] = tc.TimePredictor(selected, target)
    return learners


def _score_held_out(
    table: pd.DataFrame,
    learners: dict[str, tc.TimePredictor | PMNFBaseline],
    by: HoldOut,
    session: LearningSession,
) -> pd.DataFrame:
    file, output = session.source.samples, session.output
    with _name_file_in_errors(file), output.progress("Holding out") as progress:
        return evaluation.hold_out(table, learners, by, n_jobs=session.work.jobs, progress=progress)


@contextmanager
def _name_file_in_errors(file: str | None) -> Iterator[None]:
    """Add the file of the samples to errors that name none."""
    try:
        yield
    except InputError as error:
        raise error if error.file else error.replace(file=file) from None
