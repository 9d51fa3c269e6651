"""``toruscast plan``: which mapping to run next on the machine, and when the runs are enough."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

import toruscast as tc
from toruscast import answers
from toruscast.errors import InputError
from toruscast.files import check_target, folder_to_fill
from toruscast.text import probability, seconds

from .mappings import MappingFile, check_format, check_job, load_mappings
from .options import (
    ABOVE_0,
    Candidates,
    Traffic,
    Work,
    option,
    sub_command,
    times_option,
    top_option,
)
from .output import Output, PageOutput, check_folder
from .problem import load_setting
from .slow import forecast_results, registry, run_loop
from .slow import times as times_files

# Runs that a script makes at most unless another number is given.
_RUNS = 30


@dataclass(frozen=True)
class Launch(MappingFile):
    """Where mappings go, and what runs them."""

    out: str | None = option(
        "Write the next mappings here; the best, once the runs are enough.", "FOLDER"
    )
    script: str | None = option(
        "RUNS THIS COMMAND for each mapping that is chosen, {map} being its file, which needs "
        "no quotes. It prints its seconds last, such as 1.25 or 'elapsed: 1.25 s'; they go to "
        "--times at once. Given again after a stop, the command resumes from --times.",
        "'CMD {map}'",
        "--run",
        group="Work",
        needs=("times",),
    )
    timeout: float = option(
        "Seconds after which a run of --run is ended.",
        "S",
        default=3600.0,
        type=ABOVE_0,
        group="Work",
        needs=("script",),
    )

    def check_run(self, times: str | None, hosts: str | None) -> None:
        """Raise early what would be raised after the work."""
        if self.script is not None and times is not None:
            run_loop.check_command(self.script, run_loop.folder_of(times))
        if self.out_format is not None:
            check_format("", self.out_format, hosts)
        if self.out is not None:
            check_folder(self.out)

    def check_names(self, mappings: Sequence[tc.TaskMapping], times: str | None) -> None:
        """Raise early where files of these names cannot be written, or one is the file of runs."""
        names = forecast_results.names_of(mappings)
        if self.script is not None and times is not None:
            times_files.check_appendable(times, names)
        if self.out is None:
            return
        for name in names:
            if name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
                raise InputError("name of a mapping is no file name", found=repr(name))
            file = os.path.realpath(Path(self.out) / f"{name}{self._suffix}")
            if times is not None and file == os.path.realpath(times):
                found = f"mapping {name!r} in --out {self.out}"
                raise InputError("file of runs would be overwritten", file=times, found=found)

    def write_into(
        self, mapping: tc.TaskMapping, name: str, folder: Path, hosts: str | None
    ) -> tuple[Path, str]:
        """Write a mapping under its name into a folder."""
        with folder_to_fill(folder):
            file = folder / f"{name}{self._suffix}"
            return file, tc.write_mapping(mapping, file, self.out_format, hosts=hosts)

    @property
    def _suffix(self) -> str:
        if self.out_format is None:
            return ".map"
        known = registry.dialect_of(self.out_format, "mapping").suffixes
        return next((each for each in known if each.startswith(".")), ".txt")

    def drive(
        self,
        made: tc.decision.Plan,
        times: str,
        hosts: str | None,
        pace: RunLimits,
        output: Output,
    ) -> None:
        """Run the script until the runs are enough, and say how each of them went."""
        limit = _RUNS if pace.runs is None else pace.runs
        with output.progress("Running") as progress:

            def say(name: str, time: float) -> None:
                best = made.name_of(made.best)
                output.message(
                    f"run {made.n_runs}: {name} took {seconds(time)}; {best} leads, "
                    f"{probability(made.verdict.certainty)} sure"
                )
                progress(made.n_runs, limit)

            def write(mapping: tc.TaskMapping, folder: Path) -> Path:
                # Whatever the script does with the path, no shell takes a part of it for a word.
                name = re.sub(r"^\.|[^\w.,=@%+-]", "_", made.name_of(mapping), flags=re.ASCII)
                return self.write_into(mapping, name, folder, hosts)[0]

            progress(made.n_runs, limit)
            run_loop.drive(
                made,
                self.script or "",
                times,
                write,
                timeout=self.timeout,
                most=limit,
                batch=pace.batch,
                observed=say,
            )


_SHARE = click.FloatRange(min=1e-4, max=1)


@dataclass(frozen=True)
class RunLimits:
    """The runs so far, how many there may be, and what is worth one."""

    GROUP: ClassVar = "Work"
    times: str | None = times_option("Runs so far, of a file that need not be there yet")
    batch: int = option("Mappings to name, or to run before looking again.", "K", default=1)
    runs: int | None = option(
        "Most runs, those of --times included.  [default: no limit; with --run 30]", "N"
    )
    noise: float | None = option(
        "Standard deviation of a run's time, such as 0.02.  [default: learned from runs of the "
        "same mapping]",
        "SHARE",
        type=_SHARE,
    )
    goal: float | None = option(
        "A gain that is not worth more runs, such as 0.005.  [default: 0.01, be it in the mean, or "
        "1.5 times the noise where that is larger]",
        "SHARE",
        type=_SHARE,
    )
    run_cost: float | None = option(
        "Seconds that the next run must be expected to take off the time of the mapping that is "
        "chosen; the runs are enough where it gains less.",
        "SECONDS",
        type=click.FloatRange(min=0),
        needs=("times",),
    )
    top: int = top_option(10)


@sub_command("plan")
def command(
    traffic: Traffic,
    candidates: Candidates,
    pace: RunLimits,
    launch: Launch,
    work: Work,
    output: PageOutput,
) -> None:
    """Say which mapping to run next on the machine, and when the runs made are enough.

    A model forecasts the time of the network. What else is in a measured time, and how noisy it is,
    is learned from the runs. The next run is the one that improves the choice most.

    \b
    toruscast plan --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv --out next/
    toruscast plan --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv \\
        --run './job.sh {map}' --runs 30
    """  # noqa: D301
    times = pace.times
    launch.check_run(times, candidates.hosts)
    output.check(also={"--out": launch.out, "--times": times})
    to_fill = None if launch.script is None else times
    if to_fill is not None:
        check_target(to_fill)
    setting = load_setting(traffic, work.routing)
    problem = setting.problem
    mappings = load_mappings(problem, candidates, work.seed)
    launch.check_names(mappings, times)
    if launch.out_format is not None:
        given = mappings if candidates.mappings else ()
        check_job("", launch.out_format, problem, candidates, given)
    with nullcontext() if to_fill is None else run_loop.only_one(to_fill):
        with output.progress("Routing") as progress:
            made = tc.plan(
                problem.workload,
                problem.torus,
                mappings,
                times,
                noise=pace.noise,
                goal=pace.goal,
                run_cost=pace.run_cost,
                routing=problem.routing,
                n_jobs=work.jobs,
                seed=work.seed,
                progress=progress,
            )
        if to_fill is not None:
            launch.drive(made, to_fill, candidates.hosts, pace, output)
    upcoming = _next(made, pace)
    written = {}
    if launch.out is not None:
        for mapping in [made.best] if made.is_enough else upcoming:
            name = made.name_of(mapping)
            file, advice = launch.write_into(mapping, name, Path(launch.out), candidates.hosts)
            written[file] = advice
    output.deliver(
        answers.plan.answer(
            made,
            upcoming=upcoming,
            written=written,
            times=times,
            setting=setting.of(made.mappings),
            top=pace.top,
        ),
        {"toruscast": tc.__version__, **setting.describe()},
    )


def _next(made: tc.decision.Plan, pace: RunLimits) -> list[tc.TaskMapping]:
    """Return the mappings to run next: none if the runs are enough, or all that may be."""
    left = pace.batch if pace.runs is None else min(pace.batch, pace.runs - made.n_runs)
    return [] if made.is_enough or left < 1 else made.ask(left)
