"""``toruscast train``: train a predictor and save it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import toruscast as tc
from toruscast import answers
from toruscast.text import counted, printable

from .learning import (
    LearningSession,
    SampleSourceOptions,
    check_plugin_is_used,
    load_plugin,
    parse_features,
    splits_option,
)
from .options import (
    TrafficOptions,
    WorkOptions,
    is_default,
    option,
    plugin_option,
    sub_command,
)
from .output import Output
from .slow import metrics, training_application


@dataclass(frozen=True)
class _TrainOptions:
    out: str = option("The model file.", "FILE.npz", required=True, group="Output")
    features: str = option(
        "Feature set or features to train on. If a table lacks the default set, the default is "
        "all its columns.",
        "SET|NAME,NAME",
        "--features",
        default="coarse",
    )
    plugin: str | None = plugin_option()
    target: Literal["correction", "slowdown", "time"] | None = option(
        "Quantity to predict: the time, or its ratio to the time of a coarse simulation "
        "(correction) or to its lower bound (slowdown). The ratios also apply to other sizes.  "
        "[default: correction if features need the coarse simulation, slowdown for the set "
        "'relative', else time]"
    )
    splits: int = splits_option()


@sub_command("train")
def command(
    traffic: TrafficOptions,
    source: SampleSourceOptions,
    options: _TrainOptions,
    work: WorkOptions,
    output: Output,
) -> None:
    """Train a predictor, measure its quality on held-out mappings, and save it.

    \b
    toruscast train --comm lammps-lj-64 --torus 4x4x4 -n 168 --out lj.npz
    toruscast train --samples samples.parquet --out model.npz --features analytic
    toruscast train --samples counters.csv --out counters.npz
    toruscast train --comm app.edges --torus 8x8x8 --mappings maps/ --times runs.csv --out m.npz
    """  # noqa: D301
    output.check({"--out": options.out}, {"--samples": source.samples})
    own = load_plugin(options.plugin)
    session = LearningSession(traffic, source, work, output)
    if source.times is not None:
        names = () if is_default("features") else parse_features(options.features, own)
        check_plugin_is_used(own, names or None)
        _learn_runs(session, names, options)
        return
    names = parse_features(options.features, own) if traffic.is_given or own else ()
    check_plugin_is_used(own, names)
    table = session.load_samples(tc.training.needed_level(names, options.target))
    # If a feature set was given, pass its name, because the model file stores it.
    features: str | tuple[str, ...] | None = options.features
    if is_default("features") and not {*tc.training.FEATURE_SETS["coarse"]} <= {*table.columns}:
        features = None
    elif options.features not in tc.training.FEATURE_SETS:
        features = parse_features(options.features, own, table.columns)
    learned = tc.training.feature_set(features or tuple(table.columns))
    target = options.target or tc.training.usual_target(learned)
    model = tc.TimePredictor(features, target)
    output.message(f"measuring quality on {options.splits} splits")
    with output.progress("Measuring quality") as progress:
        result = training_application.train_on(
            table,
            model,
            n_splits=options.splits,
            seed=work.seed,
            n_jobs=work.jobs,
            progress=progress,
        )
    tc.save_predictor(model, options.out)
    setting = _describe_model(model, options.out)
    session.write_answer(answers.learned.answer(result, setting=setting, file=options.out))


def _learn_runs(session: LearningSession, names: tuple[str, ...], options: _TrainOptions) -> None:
    """Learn from measured times, and save the model with the best held-out score."""
    run_model = session.learn_runs(names)
    session.output.message(f"measuring quality on {options.splits} splits")
    with session.output.progress("Measuring quality") as progress:
        scores = tc.training.repeated_splits(
            run_model.table.assign(time=run_model.runs.times),
            run_model.model,
            n_splits=options.splits,
            seed=session.work.seed,
            metrics=metrics.METRICS_OF_RUNS,
            n_jobs=session.work.jobs,
            progress=progress,
        )
    tc.save_predictor(run_model.model, options.out, run_model.model.provenance_)
    setting = _describe_model(run_model.model, options.out)
    quality = tc.training.summarise(scores)
    answer = answers.learned.answer(run_model, quality=quality, setting=setting, file=options.out)
    session.write_answer(answer)


def _describe_model(model: tc.TimePredictor, file: str) -> str:
    return (
        f"Trained on {counted(model.n_samples_, 'sample')}, "
        f"{counted(len(model.feature_names_in_), 'feature')}; saved as {printable(file)}."
    )
