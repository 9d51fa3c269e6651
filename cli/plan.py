"""``toruscast plan``: the next mapping to run on the machine, and when to stop."""

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
    POSITIVE,
    CandidateOptions,
    TrafficOptions,
    WorkOptions,
    option,
    sub_command,
    times_option,
    top_option,
)
from .output import Output, check_output_folder
from .problem import load_problem
from .slow import decision_results, run_loop, times

_DEFAULT_RUNS = 30
_SHARE = click.FloatRange(min=1e-4, max=1)


@dataclass(frozen=True)
class _RunOptions:
    GROUP: ClassVar = "Work"
    times: str | None = times_option("Times of the runs so far, in a file that may not exist yet")
    batch: int = option(
        "Number of mappings to suggest, or to run before choosing again.", "K", default=1
    )
    runs: int | None = option(
        "Maximum number of runs, including those in --times.  [default: no limit; 30 with --run]"
    )
    noise: float | None = option(
        "Relative standard deviation of a run's time, such as 0.02.  [default: estimated from "
        "repeated runs]",
        "SHARE",
        type=_SHARE,
        rare=True,
    )
    tolerance: float | None = option(
        "Relative gain that is not worth more runs, such as 0.005.  [default: 0.01, or 1.5 times "
        "the noise if that is larger]",
        "SHARE",
        type=_SHARE,
        rare=True,
    )
    run_cost: float | None = option(
        "Stop when the next run is expected to shorten the time of the chosen mapping by less "
        "than this.",
        "SECONDS",
        type=click.FloatRange(min=0),
        needs=("times",),
        rare=True,
    )
    top: int = top_option(10)


@dataclass(frozen=True)
class _ScriptOptions(MappingFile):
    out: str | None = option(
        "Write the next mappings to this folder, or the best one if the runs suffice.", "FOLDER"
    )
    script: str | None = option(
        "RUNS THIS COMMAND for each chosen mapping. {map} is replaced by the mapping file, and "
        "needs no quotes. The last line that the command prints must be its time in seconds, such "
        "as 1.25, which is appended to --times at once. A repeated command resumes from --times.",
        "'CMD {map}'",
        "--run",
        group="Work",
        needs=("times",),
    )
    timeout: float = option(
        "Stop a run of --run after this many seconds.",
        "S",
        default=3600.0,
        type=POSITIVE,
        group="Work",
        needs=("script",),
        rare=True,
    )

    def check_paths(self, times_path: str | None, hosts: str | None) -> None:
        """Raise, before the work starts, if the script or the output folder cannot be used."""
        if self.script is not None and times_path is not None:
            run_loop.check_command(self.script, run_loop.run_folder(times_path))
        if self.out_format is not None:
            check_format("", self.out_format, hosts)
        if self.out is not None:
            check_output_folder(self.out)

    def check_names(self, mappings: Sequence[tc.TaskMapping], times_path: str | None) -> None:
        """Raise if a mapping's name cannot be a file name, or its file would overwrite the runs."""
        names = decision_results.candidate_names(mappings)
        if self.script is not None and times_path is not None:
            times.check_appendable(times_path, names)
        if self.out is None:
            return
        for name in names:
            if name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
                raise InputError("name of a mapping is not a file name", found=repr(name))
            file = os.path.realpath(Path(self.out) / f"{name}{self.suffix}")
            if times_path is not None and file == os.path.realpath(times_path):
                found = f"mapping {name!r} in --out {self.out}"
                raise InputError("file of runs would be overwritten", file=times_path, found=found)

    def write_into(
        self, mapping: tc.TaskMapping, name: str, folder: Path, hosts: str | None
    ) -> tuple[Path, str]:
        """Write a mapping to a folder; return its file and advice on its use."""
        with folder_to_fill(folder):
            file = folder / f"{name}{self.suffix}"
            return file, tc.write_mapping(mapping, file, self.folder_format, hosts=hosts)

    def run_script(
        self,
        plan: tc.decision.Plan,
        times_path: str,
        hosts: str | None,
        options: _RunOptions,
        output: Output,
    ) -> None:
        """Run the script until the runs suffice, and print a message after each run."""
        max_runs = _DEFAULT_RUNS if options.runs is None else options.runs
        with output.progress("Running") as progress:

            def report(name: str, time: float) -> None:
                best = plan.name_of(plan.best)
                output.message(
                    f"run {plan.n_runs}: {name} took {seconds(time)}; {best} leads, "
                    f"{probability(plan.verdict.certainty)} sure"
                )
                progress("runs", plan.n_runs, max_runs)

            def write(mapping: tc.TaskMapping, folder: Path) -> Path:
                # The script may pass the path to a shell, so avoid characters that shells expand.
                name = re.sub(r"^\.|[^\w.,=@%+-]", "_", plan.name_of(mapping), flags=re.ASCII)
                return self.write_into(mapping, name, folder, hosts)[0]

            progress("runs", plan.n_runs, max_runs)
            run_loop.run_plan(
                plan,
                self.script or "",
                times_path,
                write,
                timeout=self.timeout,
                max_runs=max_runs,
                batch=options.batch,
                observed=report,
            )


@sub_command("plan")
def command(
    traffic: TrafficOptions,
    candidates: CandidateOptions,
    options: _RunOptions,
    launch: _ScriptOptions,
    work: WorkOptions,
    output: Output,
) -> None:
    """Choose the next mapping to run, and stop when the runs suffice.

    A model predicts communication times. The rest of a measured time, and its noise, are learned
    from the runs. The next run is the one that is expected to improve the choice most.

    \b
    toruscast plan --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv --out next/
    toruscast plan --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv \\
        --run './job.sh {map}' --runs 30
    """  # noqa: D301
    launch.check_paths(options.times, candidates.hosts)
    output.check(others={"--out": launch.out, "--times": options.times})
    script_times = None if launch.script is None else options.times
    if script_times is not None:
        check_target(script_times)
    loaded = load_problem(traffic, work.routing)
    problem = loaded.problem
    mappings = load_mappings(problem, candidates, work.seed)
    launch.check_names(mappings, options.times)
    if launch.out_format is not None:
        given = mappings if candidates.mappings else ()
        check_job("", launch.out_format, problem, candidates, given)
    with nullcontext() if script_times is None else run_loop.lock_runs(script_times):
        with output.progress("Planning") as progress:
            plan = tc.plan(
                problem,
                mappings=mappings,
                times=options.times,
                noise=options.noise,
                tolerance=options.tolerance,
                run_cost=options.run_cost,
                n_jobs=work.jobs,
                seed=work.seed,
                progress=progress,
            )
        if script_times is not None:
            launch.run_script(plan, script_times, candidates.hosts, options, output)
    n_left = options.batch
    if options.runs is not None:
        n_left = min(n_left, options.runs - plan.n_runs)
    upcoming = [] if plan.is_enough or n_left < 1 else plan.ask(n_left)
    written = {}
    if launch.out is not None:
        for mapping in [plan.best] if plan.is_enough else upcoming:
            name = plan.name_of(mapping)
            file, advice = launch.write_into(mapping, name, Path(launch.out), candidates.hosts)
            written[file] = advice
    output.write_answer(
        answers.plan.answer(
            plan,
            upcoming=upcoming,
            written=written,
            times=options.times,
            setting=loaded.summary(plan.mappings),
            top=options.top,
        ),
        {"toruscast": tc.__version__, **loaded.describe()},
    )
