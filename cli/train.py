"""``toruscast train``: a predictor in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toruscast.wording import counted, printable

from . import options
from .learning import check_use, load_plugin, names_of, obtain_samples
from .output import Output
from .phrases import check_page, report_option
from .records import SampleSource, Traffic, Work, is_default
from .runs import learn_from_runs

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.training import Measured, Target, Training


@click.command("train")
@options.sample_options
@click.option("--out", required=True, metavar="FILE.npz", help="The model file.")
@click.option(
    "--features",
    "chosen",
    metavar="SET|NAME,NAME",
    default="sketch",
    show_default=True,
    help="Feature set or features to learn from.",
)
@options.plugin_option(options.FEATURES_MINE)
@click.option(
    "--target",
    type=click.Choice(["correction", "slowdown", "time"]),
    help="Learn the time over that of the sketch or over its lower bound, which carry over to "
    "other sizes, or the time.  [default: correction with features of the sketch, slowdown with "
    "the set 'relative', else time]",
)
@options.splits_option
@options.routed_work_options
@report_option
@options.output_record
def command(
    traffic: Traffic,
    source: SampleSource,
    out: str,
    chosen: str,
    plugin: str | None,
    target: Target | None,
    splits: int,
    work: Work,
    report: str | None,
    output: Output,
) -> None:
    """Train a predictor, tell how good it is on held-out mappings, and save it.

    \b
    toruscast train --comm lammps-lj-64 --torus 4x4x4 -n 168 --out lj.npz
    toruscast train --samples samples.parquet --out model.npz --features analytic
    toruscast train --comm app.edges --torus 8x8x8 --mappings maps/ --times runs.csv --out m.npz
    """  # noqa: D301
    output.check({"--out": out, "--report": report}, {"--samples": source.samples})
    check_page(report)
    from toruscast.answers.learned import answer
    from toruscast.training import (
        TimePredictor,
        feature_set,
        needed_level,
        save_predictor,
        usual_target,
    )
    from toruscast.training.samples.application import train_on

    mine = load_plugin(plugin)
    if source.times is not None:
        names = () if is_default("chosen") else names_of(chosen, mine)
        check_use(mine, names or None)
        _train_on_runs(traffic, source, names, out, splits, work, output, report)
        return
    names = names_of(chosen, mine) if traffic.is_given or mine else ()
    check_use(mine, names)
    table = obtain_samples(
        traffic,
        source,
        needed_level(names, target),
        work,
        output,
    )
    features = _features(chosen, mine, table)
    aim = target or usual_target(feature_set(features))
    model = TimePredictor(features, aim)
    output.message(f"measuring quality on {splits} splits")
    with output.progress("Measuring quality") as progress:
        found = train_on(
            table, model, n_splits=splits, seed=work.seed, n_jobs=work.jobs, progress=progress
        )
    save_predictor(model, out, table.attrs.get("provenance"))
    output.deliver(answer(found, setting=_saved(found, out), file=out), report)


def _train_on_runs(
    traffic: Traffic,
    source: SampleSource,
    names: tuple[str, ...],
    out: str,
    splits: int,
    work: Work,
    output: Output,
    report: str | None,
) -> None:
    """Learn from times of a machine, and save the model that is worth it."""
    from toruscast.answers.learned import answer
    from toruscast.training import repeated_splits, save_predictor, summarise
    from toruscast.training.evaluate.metrics import METRICS_OF_RUNS

    found = learn_from_runs(traffic, source, names, (), work, output)
    table = found.table.assign(time=found.runs.times)
    output.message(f"measuring quality on {splits} splits")
    with output.progress("Measuring quality") as progress:
        scores = repeated_splits(
            table,
            found.model,
            n_splits=splits,
            seed=work.seed,
            n_jobs=work.jobs,
            metrics=METRICS_OF_RUNS,
            progress=progress,
        )
    save_predictor(found.model, out, found.model.provenance_)
    shown = answer(found, quality=summarise(scores), setting=_saved(found, out), file=out)
    output.deliver(shown, report)


def _saved(found: Training | Measured, out: str) -> str:
    """Return what was trained and where it is, in a line."""
    model = found.model
    return (
        f"Trained on {counted(model.n_samples_, 'sample')}, "
        f"{counted(len(model.feature_names_in_), 'feature')}; saved as {printable(out)}."
    )


def _features(chosen: str, mine: tuple[str, ...], table: pd.DataFrame) -> str | tuple[str, ...]:
    """Return the name of a set, so that the model remembers it, or features of the table."""
    from toruscast.training import FEATURE_SETS

    return chosen if chosen in FEATURE_SETS else names_of(chosen, mine, table.columns)
