"""Learning in the command line: samples, measured runs and models, and how good forecasts are."""

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
from .options import MINE, SampleSource, Traffic, Work, refuse
from .output import PageOutput
from .problem import load_setting
from .slow import drawn_samples, metrics

if TYPE_CHECKING:
    from toruscast.decision import RunModel
    from toruscast.mapping import MappingProblem, Omission

# Share of the times that the intervals shall hold.
COVERAGE = 0.9


def names_of(
    text: str, mine: tuple[str, ...] = (), known: Iterable[str] | None = None
) -> tuple[str, ...]:
    """Return the features of names joined by commas or plus signs, each once."""
    features = tuple(tc.FEATURES if known is None else known)
    sets = {**tc.training.FEATURE_SETS, **({MINE: mine} if mine else {})}
    found: list[str] = []
    for part in (word.strip() for word in text.replace("+", ",").split(",")):
        if part in sets:
            found += sets[part]
        elif part in features:
            found.append(part)
        elif part == MINE:
            raise InputError("no features of your own", found=MINE, expected="--plugin FILE.py")
        else:
            similar = closest(part, (*sets, *features), f"a name in {', '.join(sets)} or a feature")
            raise InputError("unknown feature or feature set", found=part, expected=similar)
    return tuple(dict.fromkeys(found))


def check_use(mine: tuple[str, ...], wanted: Iterable[str] | None) -> None:
    """Raise if features are named and none of them is the user's own, though there are some."""
    if mine and wanted is not None and not set(mine) & set(wanted):
        raise InputError(
            "no feature of --plugin is used",
            found=", ".join(mine),
            expected=f"--features with one, such as prior+{MINE}",
        )


def load_plugin(path: str | None) -> tuple[str, ...]:
    """Run a Python file, if one is given, and return the features that it registers."""
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
        expected = "a function under toruscast.register_feature"
        raise InputError("plugin registers no feature", file=path, expected=expected)
    return added


@dataclass
class Samples:
    """Mappings with their times, as a command's options ask for them."""

    traffic: Traffic
    source: SampleSource
    work: Work
    output: PageOutput
    omitted: Sequence[Omission] | None = None
    """What the traffic lacks, once it is read."""

    def read_problem(self) -> MappingProblem:
        """Read the problem that the options ask for."""
        problem = load_setting(self.traffic, self.work.routing).problem
        self.omitted = problem.workload.omitted
        return problem

    def deliver(self, answer: answers.blocks.Answer) -> None:
        """Write an answer, with what the traffic lacks."""
        self.output.deliver(replace(answer, omitted=self.omitted))

    def obtain(self, level: int) -> pd.DataFrame:
        """Simulate samples where an application is given, else read them."""
        traffic, source, work = self.traffic, self.source, self.work
        if not traffic.is_given:
            if source.samples is None:
                raise click.UsageError("give --comm and --torus, or --samples")
            others = ("number", "tasks_per_node", "hosts", "routing", "level")
            refuse("with --comm", Traffic, *others)
            return tc.training.read_samples(source.samples)
        if source.samples is not None:
            check_target(source.samples)
        refuse("with --times and --mappings", "hosts", "fixed")
        problem = self.read_problem()
        with self.output.progress("Simulating mappings") as progress:
            return drawn_samples.draw_samples(
                problem,
                source.number,
                seed=work.seed,
                tasks_per_node=source.tasks_per_node,
                level=level,
                store_path=source.samples,
                n_jobs=work.jobs,
                progress=progress,
            )

    def learn_runs(self, names: Sequence[str], more: Sequence[str]) -> RunModel:
        """Learn from the measured runs of mappings."""
        source, work = self.source, self.work
        refuse("without --times", "target")
        runs = tc.Runs.from_times(source.times)
        problem = self.read_problem()
        mappings = list(stream_files(problem, source.mappings, source, source.bound))
        missing = len(mappings) - len(runs.names)
        if missing > 0:
            self.output.message(f"{missing} of {len(mappings)} mappings have no time")
        with self.output.progress("Simulating what was measured") as progress:
            found = tc.learn_runs(
                problem.workload,
                problem.torus,
                mappings,
                runs,
                routing=problem.routing,
                simulate=not names or tc.training.needed_level(names) > 1,
                features=names or None,
                more=more,
                seed=work.seed,
                n_jobs=work.jobs,
                progress=progress,
            )
        found.model.provenance_ |= {"times": source.times}
        return found

    def score(self, table: pd.DataFrame, learners: Any, n_splits: int, **how: Any) -> pd.DataFrame:
        """Score every learner on the same splits; ``how`` goes to `repeated_splits`."""
        work = self.work
        with self.output.progress("Measuring quality") as progress:
            return tc.training.repeated_splits(
                table,
                learners,
                n_splits=n_splits,
                seed=work.seed,
                n_jobs=work.jobs,
                progress=progress,
                **how,
            )

    def score_runs(self, found: RunModel, learners: Any, n_splits: int) -> pd.DataFrame:
        """Score learners on measured runs, by the metrics that suit those."""
        table = found.table.assign(time=found.runs.times)
        return self.score(table, learners, n_splits, metrics=metrics.METRICS_OF_RUNS)
