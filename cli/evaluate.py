"""``toruscast evaluate``: how well feature sets forecast mappings that they have not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from . import options
from .judged import judge_metrics
from .learning import MINE, load_plugin, names_of, obtain_samples
from .output import Output
from .phrases import check_page, report_option
from .records import SampleSource, Traffic, Work
from .runs import learn_from_runs, scored

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.training import Measured, Target, TimePredictor
    from toruscast.training.evaluate.pmnf_baseline import PMNFBaseline

BASELINE = "analytic"


@click.command("evaluate")
@options.sample_options
@click.option(
    "--features",
    "chosen",
    metavar="SET",
    multiple=True,
    help="A feature set, features joined by commas, or a sum such as prior+mine; repeat to "
    "compare. The first is the baseline of the gain.  [default: all sets that the samples allow]",
)
@options.plugin_option(options.FEATURES_MINE)
@click.option(
    "--target",
    type=click.Choice(["correction", "slowdown", "time"]),
    help="What is learned.  [default: correction with features of the sketch, slowdown with the "
    "set 'relative', else time]",
)
@click.option(
    "--level",
    type=click.IntRange(1, 2),
    help="Features to compute with --comm: 2 adds the simulator's.  "
    "[default: what --features need]",
)
@click.option(
    "--baseline",
    type=click.Choice(["pmnf"]),
    help="Add a scaling model of message size, nodes and lower bound beside the sets; for samples "
    "of several sizes, trained on the smaller ones too.",
)
@options.splits_option
@options.routed_work_options
@report_option
@options.output_record
def command(
    traffic: Traffic,
    source: SampleSource,
    chosen: tuple[str, ...],
    plugin: str | None,
    target: Target | None,
    level: int | None,
    baseline: str | None,
    splits: int,
    work: Work,
    report: str | None,
    output: Output,
) -> None:
    """Measure how well feature sets forecast held-out mappings.

    Two thirds of the samples train, one third is forecast, over and over. A metric of your own is a
    function in a Python file; without --features the answer is what it adds to the set 'prior' and
    to the best set, within each workload and torus (10 splits unless --splits says otherwise).
    Samples of a table are not simulated again.

    \b
        from toruscast.features import register
        @register("busiest_share")
        def busiest_share(traffic):
            return traffic.link_bytes.max() / traffic.link_bytes.sum()

    \b
    toruscast evaluate --comm lammps-lj-64 --torus 4x4x4
    toruscast evaluate --comm lammps-lj-64 --torus 4x4x4 --samples lj.parquet --plugin my.py
    toruscast evaluate --samples samples.parquet --plugin my.py
    toruscast evaluate --samples samples.parquet --features prior --features H5
    toruscast evaluate --comm app.edges --torus 8x8x8 --mappings maps/ --times runs.csv
    """  # noqa: D301
    output.check({"--report": report}, also={"--samples": source.samples})
    check_page(report)
    if baseline and source.times is not None:
        raise click.UsageError("--baseline takes no --times")
    mine = load_plugin(plugin)
    if mine and not chosen and not baseline and source.times is None:
        judge_metrics(traffic, source, mine, level, splits, work, output, report)
        return
    if chosen in ((), (MINE,)) and mine:
        # A metric of one's own is worth what it adds to those that are there.
        chosen = (BASELINE, f"{BASELINE}+{MINE}", MINE)
    if source.times is not None:
        _evaluate_runs(traffic, source, chosen, level or 1, mine, splits, work, output, report)
        return
    columns: list[str] = []
    if traffic.is_given:
        from toruscast.training import needed_level

        wanted = {text: names_of(text, mine) for text in chosen}
        columns = [name for names in wanted.values() for name in names]
        needed = needed_level(columns, target)
        level = needed if level is None else max(level, needed)
    table = obtain_samples(
        traffic,
        source,
        level or 1,
        work,
        output,
    )
    sets = _sets(chosen, mine, table, source.samples)
    learners = _learners(sets, target, baseline)
    scores, gain = _scored(table, learners, splits, work, output)
    large = None
    if baseline and table[["workload", "torus"]].drop_duplicates().shape[0] > 1:
        from toruscast.training.evaluate.pmnf_baseline import small_to_large

        large = small_to_large(table, learners)
    _show(table, sets, scores, gain, mine, output, report, large=large)


def _evaluate_runs(
    traffic: Traffic,
    source: SampleSource,
    chosen: tuple[str, ...],
    level: int,
    mine: tuple[str, ...],
    splits: int,
    work: Work,
    output: Output,
    report: str | None,
) -> None:
    """Compare a line in a simulated time with what sets of features add to it."""
    from toruscast.features.registry import select
    from toruscast.training.evaluate.feature_set_gain import gains

    wanted = [name for text in chosen for name in names_of(text, mine)]
    more = wanted or [feature.name for feature in select(None, level)]
    found = learn_from_runs(traffic, source, (), more, work, output)
    table = found.table.assign(time=found.runs.times)
    sets = _sets(chosen, mine, table, None)
    scores = scored(found, sets, splits, work, output)
    _show(table, sets, scores, gains(scores), mine, output, report, found)


def _show(
    table: pd.DataFrame,
    sets: dict[str, tuple[str, ...]],
    scores: pd.DataFrame,
    gain: pd.DataFrame,
    mine: tuple[str, ...],
    output: Output,
    report: str | None,
    found: Measured | None = None,
    large: pd.DataFrame | None = None,
) -> None:
    """Write and print how good the sets are, and each feature alone."""
    from toruscast.answers.evaluation import answer
    from toruscast.training import single_features

    single = single_features(table)
    output.deliver(
        answer(table, sets, scores, gain, single, mine=mine, found=found, large=large), report
    )


def _sets(
    chosen: tuple[str, ...], mine: tuple[str, ...], table: pd.DataFrame, file: str | None
) -> dict[str, tuple[str, ...]]:
    """Return the features of each set; without a choice, all sets that the table has."""
    from toruscast.errors import InputError
    from toruscast.features import FEATURES
    from toruscast.training import FEATURE_SETS

    if not chosen:
        sets = {n: f for n, f in FEATURE_SETS.items() if set(f) <= set(table.columns)}
        if not sets:
            raise InputError(
                "samples without any feature set",
                file=file,
                expected="--features with columns of the table",
            )
        return sets
    known = {*FEATURES, *table.columns}
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
    sets: dict[str, tuple[str, ...]], target: Target | None, baseline: str | None
) -> dict[str, TimePredictor | PMNFBaseline]:
    """Return a learner for each set, after the baseline if one is wanted."""
    from toruscast.training import TimePredictor, usual_target
    from toruscast.training.evaluate.pmnf_baseline import PMNFBaseline

    first: dict[str, TimePredictor | PMNFBaseline] = {baseline: PMNFBaseline()} if baseline else {}
    return first | {n: TimePredictor(f, target or usual_target(f)) for n, f in sets.items()}


def _scored(
    table: pd.DataFrame,
    learners: dict[str, TimePredictor | PMNFBaseline],
    splits: int,
    work: Work,
    output: Output,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Score every learner on the same splits."""
    from toruscast.training import repeated_splits
    from toruscast.training.evaluate.feature_set_gain import gains

    with output.progress("Scoring feature sets") as progress:
        scores = repeated_splits(
            table,
            learners,
            n_splits=splits,
            seed=work.seed,
            n_jobs=work.jobs,
            progress=progress,
        )
    return scores, gains(scores)
