"""``toruscast train``: a predictor in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import toruscast as tc
from toruscast import answers
from toruscast.text import counted, printable

from .learning import Samples, check_use, load_plugin, names_of
from .options import (
    SampleSource,
    Traffic,
    Work,
    is_default,
    option,
    plugin_option,
    splits_option,
    sub_command,
)
from .output import PageOutput
from .slow import drawn_samples


@dataclass(frozen=True)
class Learning:
    """What is learned, and where it goes."""

    out: str = option("The model file.", "FILE.npz", required=True, group="Output")
    chosen: str = option(
        "Feature set or features to learn from.", "SET|NAME,NAME", "--features", default="coarse"
    )
    plugin: str | None = plugin_option()
    target: Literal["correction", "slowdown", "time"] | None = option(
        "Learn the time over that of a coarse simulation or over its lower bound, which carry over "
        "to other sizes, or the time.  [default: correction with features of the coarse "
        "simulation, slowdown with the set 'relative', else time]",
    )
    splits: int = splits_option()


@sub_command("train")
def command(
    traffic: Traffic, source: SampleSource, how: Learning, work: Work, output: PageOutput
) -> None:
    """Train a predictor, say how good it is on held-out mappings, and save it.

    \b
    toruscast train --comm lammps-lj-64 --torus 4x4x4 -n 168 --out lj.npz
    toruscast train --samples samples.parquet --out model.npz --features analytic
    toruscast train --comm app.edges --torus 8x8x8 --mappings maps/ --times runs.csv --out m.npz
    """  # noqa: D301
    output.check({"--out": how.out}, {"--samples": source.samples})
    mine = load_plugin(how.plugin)
    samples = Samples(traffic, source, work, output)
    if source.times is not None:
        names = () if is_default("chosen") else names_of(how.chosen, mine)
        check_use(mine, names or None)
        _train_on_runs(samples, names, how)
        return
    names = names_of(how.chosen, mine) if traffic.is_given or mine else ()
    check_use(mine, names)
    table = samples.obtain(tc.training.needed_level(names, how.target))
    # The model remembers the name of a set.
    features: str | tuple[str, ...] = how.chosen
    if how.chosen not in tc.training.FEATURE_SETS:
        features = names_of(how.chosen, mine, table.columns)
    aim = how.target or tc.training.usual_target(tc.training.feature_set(features))
    model = tc.TimePredictor(features, aim)
    output.message(f"measuring quality on {how.splits} splits")
    with output.progress("Measuring quality") as progress:
        found = drawn_samples.train_on(
            table, model, n_splits=how.splits, seed=work.seed, n_jobs=work.jobs, progress=progress
        )
    tc.save_predictor(model, how.out)
    samples.deliver(answers.learned.answer(found, setting=_saved(model, how.out), file=how.out))


def _train_on_runs(samples: Samples, names: tuple[str, ...], how: Learning) -> None:
    """Learn from times of a machine, and save the model that held-out times prefer."""
    found = samples.learn_runs(names, ())
    samples.output.message(f"measuring quality on {how.splits} splits")
    quality = tc.training.summarise(samples.score_runs(found, found.model, how.splits))
    tc.save_predictor(found.model, how.out, found.model.provenance_)
    setting = _saved(found.model, how.out)
    samples.deliver(answers.learned.answer(found, quality=quality, setting=setting, file=how.out))


def _saved(model: tc.TimePredictor, out: str) -> str:
    """Return what was trained and where it is, in a line."""
    return (
        f"Trained on {counted(model.n_samples_, 'sample')}, "
        f"{counted(len(model.feature_names_in_), 'feature')}; saved as {printable(out)}."
    )
