"""``toruscast evaluate``: how well feature sets forecast mappings that they have not seen."""

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

from .learning import Samples, load_plugin, names_of
from .options import (
    MINE,
    SampleSource,
    Traffic,
    Work,
    is_default,
    option,
    plugin_option,
    refuse,
    splits_option,
    sub_command,
)
from .output import PageOutput
from .problem import load_application, load_torus
from .slow import evaluation, feature_registry, measured_runs, stored

if TYPE_CHECKING:
    from toruscast.training.evaluation import HoldOut, PMNFBaseline

BASELINE = "analytic"
# Of each workload and torus so many messages are routed at most, so that tables of millions of
# messages a mapping take a minute.
MOST = 2**23
_SPLITS = 10


@dataclass(frozen=True)
class Judging:
    """What is compared, and how."""

    chosen: tuple[str, ...] = option(
        "A feature set, features joined by commas, or a sum such as prior+mine; repeat to "
        "compare. The first is the baseline of the gain.  [default: all sets that the samples "
        "allow]",
        "SET",
        "--features",
        default=(),
    )
    plugin: str | None = plugin_option()
    target: Literal["correction", "slowdown", "time"] | None = option(
        "What is learned.  [default: correction with features of the coarse simulation, slowdown "
        "with the set 'relative', else time]"
    )
    level: int | None = option(
        "Features to compute with --comm: 2 adds the simulator's.  [default: what --features need]",
        type=click.IntRange(1, 2),
    )
    baseline: Literal["pmnf"] | None = option(
        "Add a scaling model of message size, nodes and lower bound beside the sets; for samples "
        "of several sizes, trained on the smaller ones too."
    )
    hold_out: Literal["application", "kind", "torus", "size"] | None = option(
        "Instead of random splits, train on all but one workload, kind of traffic or torus, each "
        "in turn, or on all but the largest size, and forecast that one."
    )
    splits: int = splits_option()


@sub_command("evaluate")
def command(
    traffic: Traffic, source: SampleSource, how: Judging, work: Work, output: PageOutput
) -> None:
    """Measure how well feature sets forecast held-out mappings.

    Two thirds of the samples train, one third is forecast, over and over. With --hold-out, whole
    applications, kinds of traffic or tori, or the largest size, are held out instead. A metric of
    your own is a function in a Python file; without --features the answer is what it adds to the
    set 'prior' and to the best set, within each workload and torus (10 splits unless --splits says
    otherwise).
    Samples of a table are not simulated again.

    \b
        from toruscast import register_feature
        @register("busiest_share")
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
    output.check(also={"--samples": source.samples})
    if source.times is not None:
        refuse("without --times", "baseline", "hold_out")
    if how.hold_out:
        if how.plugin and not how.chosen and not how.baseline:
            raise click.UsageError("--hold-out with --plugin needs --features")
        what = ("splits",) if traffic.is_given else ("splits", "seed")
        refuse("without --hold-out, which makes no random splits", *what)
    mine = load_plugin(how.plugin)
    samples = Samples(traffic, source, work, output)
    chosen = how.chosen
    if mine and not chosen and not how.baseline and source.times is None:
        _judge_metrics(samples, mine, how)
        return
    if chosen in ((), (MINE,)) and mine:
        # The question about a metric of one's own is what it adds to those that are there.
        chosen = (BASELINE, f"{BASELINE}+{MINE}", MINE)
    if source.times is not None:
        _evaluate_runs(samples, chosen, mine, how)
        return
    level = how.level or 1
    if traffic.is_given:
        columns = [name for text in chosen for name in names_of(text, mine)]
        level = max(level, tc.training.needed_level(columns, how.target))
    table = samples.obtain(level)
    sets = _sets(chosen, mine, table, source.samples)
    learners = _learners(sets, how)
    if how.hold_out:
        found = _held_out(table, learners, how.hold_out, samples)
        samples.deliver(answers.evaluation.of_held_out(found, how.hold_out, sets))
        return
    scores = samples.score(table, learners, how.splits)
    large = None
    if how.baseline and table[["workload", "torus"]].drop_duplicates().shape[0] > 1:
        large = _held_out(table, learners, "size", samples)
    base = evaluation.baseline_scores(table, how.splits, work.seed)
    samples.deliver(
        answers.evaluation.answer(table, sets, scores, mine=mine, large=large, baselines=base)
    )


def _evaluate_runs(
    samples: Samples, chosen: tuple[str, ...], mine: tuple[str, ...], how: Judging
) -> None:
    """Compare a line in a simulated time with what sets of features add to it."""
    wanted = [name for text in chosen for name in names_of(text, mine)]
    more = wanted or [f.name for f in feature_registry.select_features(None, how.level or 1)]
    found = samples.learn_runs((), more)
    table = found.table.assign(time=found.runs.times)
    sets = _sets(chosen, mine, table, None)
    reference = found.model.reference
    models = {f"line in {reference}": measured_runs.line_in(reference)}
    for name, features in sets.items():
        models[name] = tc.TimePredictor(features, "measured", reference=reference)
    scores = samples.score_runs(found, models, how.splits)
    samples.deliver(answers.evaluation.answer(table, sets, scores, mine=mine, found=found))


def _judge_metrics(samples: Samples, mine: tuple[str, ...], how: Judging) -> None:
    """Say whether metrics of the user's own add to the set ``prior`` and to the best set."""
    stored_in, work = samples.source.samples, samples.work
    if stored_in is not None and os.path.exists(stored_in):  # noqa: PTH110
        table = _from_table(samples, stored_in, mine)
    else:
        table = samples.obtain(max(how.level or 1, tc.training.needed_level(mine, None)))
    n_splits = _SPLITS if is_default("splits") else how.splits
    with samples.output.progress("Judging the metric") as progress:
        found = evaluation.evaluate_metrics(
            table, mine, n_splits=n_splits, seed=work.seed, n_jobs=work.jobs, progress=progress
        )
    samples.deliver(answers.evaluation.of_metrics(found, mine, n_splits))


def _from_table(samples: Samples, file: str, mine: tuple[str, ...]) -> pd.DataFrame:
    """Return the samples of a file with the metrics of their traffic, routed again."""
    others = ("number", "tasks_per_node", "hosts", "fixed", "mappings")
    refuse("with new samples; those of --samples are there already", *others, "routing", "level")
    traffic = samples.traffic
    table = tc.training.read_samples(file)
    torus = None if traffic.torus is None else load_torus(traffic)
    known = _workloads(samples, table)
    if traffic.is_given:
        table = _only(table, set(known))
    with _naming(file), samples.output.progress("Routing the samples") as progress:
        return stored.add_metrics(
            table,
            mine,
            workloads=known,
            torus=torus,
            most=MOST,
            n_jobs=samples.work.jobs,
            progress=progress,
        )


def _workloads(samples: Samples, table: pd.DataFrame) -> dict[str, tc.Workload]:
    """Return the workloads that the table does not tell: that of --comm, and shipped datasets."""
    names, traffic = list(dict.fromkeys(table["workload"])), samples.traffic
    if traffic.is_given:
        workload = load_application(traffic, simulated=False).workload
        samples.omitted = workload.omitted
        # A graph whose file was renamed is still that of the only workload.
        return {names[0] if len(names) == 1 else workload.name: workload}
    told = table.attrs["provenance"].get("workloads")
    known = told if isinstance(told, dict) else {}
    shipped = [name for name in names if name not in known and name in datasets.names()]
    return {
        name: load_application(Traffic(comms=(name,)), simulated=False).workload for name in shipped
    }


def _only(table: pd.DataFrame, names: set[str]) -> pd.DataFrame:
    """Return the samples of these workloads."""
    own = table[table["workload"].isin(names)].reset_index(drop=True)
    if own.empty:
        found = ", ".join(sorted(set(table["workload"]))[:3])
        raise InputError("no samples of this graph", found=found, expected=" or ".join(names))
    own.attrs = dict(table.attrs)
    return own


def _sets(
    chosen: tuple[str, ...], mine: tuple[str, ...], table: pd.DataFrame, file: str | None
) -> dict[str, tuple[str, ...]]:
    """Return the features of each set; without a choice, all sets that the table has."""
    if not chosen:
        sets = {n: f for n, f in tc.training.FEATURE_SETS.items() if set(f) <= set(table.columns)}
        if not sets:
            raise InputError(
                "samples without any feature set",
                file=file,
                expected="--features with columns of the table",
            )
        return sets
    known = {*tc.FEATURES, *table.columns}
    sets = {text: names_of(text, mine, known) for text in chosen}
    missing = [n for names in sets.values() for n in names if n not in table.columns]
    if missing:
        raise InputError(
            "features missing from the samples",
            file=file,
            found=", ".join(dict.fromkeys(missing)),
            expected="samples with them; --comm and --torus simulate new ones",
        )
    return sets


def _learners(
    sets: dict[str, tuple[str, ...]], how: Judging
) -> dict[str, tc.TimePredictor | evaluation.PMNFBaseline]:
    """Return a learner for each set, after the baseline if one is wanted."""
    learners: dict[str, tc.TimePredictor | evaluation.PMNFBaseline] = {}
    if how.baseline:
        learners[how.baseline] = evaluation.PMNFBaseline()
    for name, features in sets.items():
        target = how.target or tc.training.usual_target(features)
        learners[name] = tc.TimePredictor(features, target)
    return learners


def _held_out(
    table: pd.DataFrame,
    learners: dict[str, tc.TimePredictor | PMNFBaseline],
    by: HoldOut,
    samples: Samples,
) -> pd.DataFrame:
    """Score every learner on groups that it did not learn from."""
    jobs = samples.work.jobs
    with _naming(samples.source.samples), samples.output.progress("Holding out") as progress:
        return evaluation.hold_out(table, learners, by, n_jobs=jobs, progress=progress)


@contextmanager
def _naming(file: str | None) -> Iterator[None]:
    """Name the file of the samples in errors without one."""
    try:
        yield
    except InputError as error:
        raise error if error.file else error.replace(file=file) from None
