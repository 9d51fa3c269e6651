"""Samples, measured runs and plugins for the commands that learn."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.errors import InputError, MissingFileError
from toruscast.files import check_target
from toruscast.text import closest

from .mappings import stream_files
from .options import (
    MEASURED_HELP,
    PLUGIN_SET,
    MappingFileOptions,
    TrafficOptions,
    WorkOptions,
    multi_option,
    option,
    refuse_options,
    times_option,
)
from .output import Output
from .problem import load_problem
from .slow import training_application

if TYPE_CHECKING:
    from toruscast.decision import RunModel
    from toruscast.mapping import MappingProblem, Omission

# Coverage of prediction intervals.
COVERAGE = 0.9


def splits_option() -> Any:
    """Declare the number of random splits."""
    text = "Number of random splits: two thirds of the samples train, one third tests."
    return option(text, "N", default=50, group="Input")


@dataclass(frozen=True)
class SampleSourceOptions(MappingFileOptions):
    """Samples to learn from: simulated, measured or read from a file."""

    number: int | None = option(
        "Number of mappings to simulate.  [default: 168]",
        "N",
        "-n",
        type=click.IntRange(min=6),
        group="Input",
    )
    times: str | None = times_option(
        "Train on measured times of --mappings instead",
        needs=("mappings",),
        excludes=("number", "samples"),
    )
    mappings: tuple[str, ...] = multi_option(
        MEASURED_HELP, "FILE|FOLDER", needs=("times",), group="Input"
    )
    samples: str | None = option(
        "File of samples. With --comm, simulated samples are stored in it, and an interrupted "
        "run resumes from it. Without --comm, samples are read from it. A table from another "
        "program (CSV or Parquet) needs a column time in seconds. Its other columns of numbers "
        "are features.",
        "FILE",
        group="Input",
    )


def parse_features(
    text: str, plugin_features: tuple[str, ...] = (), known: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Return the features in a list of feature and set names, separated by commas or plus signs."""
    features = tuple(tc.FEATURES if known is None else known)
    own = {PLUGIN_SET: plugin_features} if plugin_features else {}
    sets = {**tc.training.FEATURE_SETS, **own}
    selected: list[str] = []
    for name in (part.strip() for part in text.replace("+", ",").split(",")):
        if name in sets:
            selected += sets[name]
        elif name in features:
            selected.append(name)
        elif name == PLUGIN_SET:
            raise InputError("no own features", found=PLUGIN_SET, expected="--plugin FILE.py")
        else:
            similar = closest(name, (*sets, *features), f"a set ({', '.join(sets)}) or a feature")
            raise InputError("unknown feature or feature set", found=name, expected=similar)
    return tuple(dict.fromkeys(selected))


def check_plugin_is_used(plugin_features: tuple[str, ...], selected: Iterable[str] | None) -> None:
    """Raise if features are selected, but none of them comes from the plugin."""
    if plugin_features and selected is not None and not set(plugin_features) & set(selected):
        found = ", ".join(plugin_features)
        expected = f"--features with one, such as prior+{PLUGIN_SET}"
        raise InputError("no feature of --plugin is used", found=found, expected=expected)


def load_plugin(path: str | None) -> tuple[str, ...]:
    """Run a Python file, if any, and return the names of the features that it registers."""
    if path is None:
        return ()
    if not Path(path).is_file():
        raise MissingFileError("no such file", file=path, expected="a Python file")
    before = set(tc.FEATURES)
    try:
        runpy.run_path(path)
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        found = f"{type(error).__name__}: {error}"
        raise InputError("plugin failed", file=path, line=line, found=found) from None
    added = tuple(name for name in tc.FEATURES if name not in before)
    if not added:
        expected = "a function with toruscast.register_feature"
        raise InputError("plugin registers no feature", file=path, expected=expected)
    return added


@dataclass
class LearningSession:
    """Options of a command that learns from samples, and methods that load them."""

    traffic: TrafficOptions
    source: SampleSourceOptions
    work: WorkOptions
    output: Output
    omitted: Sequence[Omission] | None = None
    """Traffic that the reader omitted, set when the traffic is read."""

    def read_problem(self) -> MappingProblem:
        """Read the mapping problem."""
        problem = load_problem(self.traffic, self.work.routing).problem
        self.omitted = problem.workload.omitted
        return problem

    def write_answer(self, answer: answers.blocks.Answer) -> None:
        """Write an answer, adding the omitted traffic."""
        self.output.write_answer(replace(answer, omitted=self.omitted))

    def load_samples(self, level: int) -> pd.DataFrame:
        """Simulate samples if traffic is given, otherwise read them."""
        traffic, source, work = self.traffic, self.source, self.work
        if not traffic.is_given:
            if source.samples is None:
                raise click.UsageError("give --comm and --torus, or --samples")
            others = ("number", "tasks_per_node", "hosts", "routing", "level")
            refuse_options("needs --comm", TrafficOptions, *others)
            return tc.training.read_samples(source.samples)
        if source.samples is not None:
            check_target(source.samples)
        refuse_options("needs --times and --mappings", "hosts", "fixed")
        problem = self.read_problem()
        with self.output.progress("Simulating mappings") as progress:
            return training_application.draw_samples(
                problem,
                source.number,
                seed=work.seed,
                tasks_per_node=source.tasks_per_node,
                level=level,
                store_path=source.samples,
                n_jobs=work.jobs,
                progress=progress,
            )

    def read_runs(self) -> tuple[MappingProblem, list[tc.TaskMapping], tc.Runs]:
        """Read the problem, the mappings and their measured runs."""
        source = self.source
        refuse_options("cannot be used with --times", "target")
        runs = tc.Runs.from_times(source.times)
        problem = self.read_problem()
        mappings = list(stream_files(problem, source.mappings, source, source.fixed_nodes))
        n_missing = len(mappings) - len(runs.names)
        if n_missing > 0:
            self.output.message(f"{n_missing} of {len(mappings)} mappings have no time")
        return problem, mappings, runs

    def learn_runs(self, names: Sequence[str]) -> RunModel:
        """Fit a model to measured runs, with the features ``names`` if there are any."""
        work, (problem, mappings, runs) = self.work, self.read_runs()
        with self.output.progress("Simulating the measured mappings") as progress:
            run_model = tc.learn_runs(
                problem,
                mappings=mappings,
                times=runs,
                simulate=None if not names or tc.training.needed_level(names) > 1 else 0,
                features=names or None,
                seed=work.seed,
                n_jobs=work.jobs,
                progress=progress,
            )
        run_model.model.provenance_ |= {"times": self.source.times}
        return run_model
