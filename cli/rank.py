"""``toruscast rank``: the fastest of several candidate mappings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import click

import toruscast as tc
from toruscast import answers
from toruscast.text import printable

from .learning import COVERAGE, load_plugin
from .mappings import MappingFile, check_job, is_folder_path, load_mappings, load_scattered_job
from .options import (
    POSITIVE,
    CandidateOptions,
    TrafficOptions,
    WorkOptions,
    option,
    plugin_option,
    refuse_options,
    sub_command,
    times_option,
    top_option,
)
from .output import Output
from .problem import LoadedProblem, load_problem

# If simulations take more minutes than this, a message says so in advance.
_LONG_MINUTES = 2.0


@dataclass(frozen=True)
class _BudgetOptions:
    GROUP: ClassVar = "Work"
    RARE: ClassVar = True
    goal: Literal["fastest", "order"] = option(
        "Goal of the simulations: the fastest candidate, or the order of all candidates.",
        default="fastest",
    )
    simulations: int | None = option(
        "Maximum number of candidates to simulate with real packets.  [default: 30, or all for "
        "--goal order]"
    )
    seconds: float | None = option(
        "Start no simulation after S seconds.  [default for --goal order: 30]", "S", type=POSITIVE
    )
    rcc: float = option(
        "Stop when this share of pairs is expected to be in the right order.",
        "SHARE",
        default=0.97,
        type=click.FloatRange(0.5, 1.0),
        needs=("goal=order",),
    )
    no_simulation: bool = option(
        "Predict without simulating.", default=False, excludes=("simulations", "seconds", "rcc")
    )


@dataclass(frozen=True)
class _RankOptions:
    model: str = option(
        "A model made by 'toruscast train'.  [default: the model of this package]",
        "FILE",
        default="default",
        show_default=False,
        rare=True,
    )
    plugin: str | None = plugin_option(", which --model uses", needs=("model",), rare=True)
    times: str | None = times_option(
        "Learn from measured times of some of the --mappings instead of using a model",
        needs=("mappings",),
    )
    check: bool = option(
        "Simulate all candidates at the end, order them by simulated time, and score the "
        "prediction.",
        default=False,
    )
    top: int = top_option(10)
    coords: str | None = option(
        "Nodes of a non-contiguous job on Fugaku: a line X Y Z a b c for each node, ordered so "
        "that the last dimension of --torus varies fastest. The candidates are then the rank "
        "orders of the launcher.",
        "FILE",
        group="Machine",
        rare=True,
    )


@sub_command("rank")
def command(
    traffic: TrafficOptions,
    candidates: CandidateOptions,
    options: _RankOptions,
    limits: _BudgetOptions,
    work: WorkOptions,
    best: MappingFile,
    output: Output,
) -> None:
    """Find the fastest of several mappings of an application on a torus.

    A model predicts the time of every candidate from its routes. Candidates that may be fastest are
    then simulated, until the answer is proved or likely enough, or the budget is spent.

    \b
    toruscast rank --comm lammps-lj-512 --torus 8x8x8 --check
    toruscast rank --comm app.prof --torus bluegene_q:1024 --mappings maps/ --out best.map
    toruscast rank --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv
    toruscast rank --comm app.edges --torus fugaku:4x6x8 --candidates orders --out best.vcoord
    """  # noqa: D301
    if options.times is not None:
        reason = "cannot be used with --times, whose runs train the model and check it"
        refuse_options(reason, "model", "check")
    output.check(others={"--out": best.out})
    best.check(candidates.hosts, may_be_folder=True)
    load_plugin(options.plugin)
    loaded = load_problem(traffic, work.routing)
    problem = loaded.problem
    in_job: dict[str, tc.TaskMapping] = {}
    if options.coords is None:
        mappings = load_mappings(problem, candidates, work.seed)
        given = mappings if candidates.mappings else ()
        check_job(best.out, best.out_format, problem, candidates, given)
    else:
        excluded = ("mappings", "candidates", "tasks_per_node", "hosts", "mapping_columns", "fixed")
        reason = "cannot be used with --coords"
        refuse_options(reason, *excluded, "changes", "slow_links", "allocation")
        mappings, in_job = load_scattered_job(problem, options.coords)
        network = mappings[0].torus or problem.torus
        problem = tc.MappingProblem(problem.workload, network, problem.routing)
        loaded = replace(loaded, problem=problem)
    is_measured = options.times is not None
    budget = _limit_budget(problem, mappings, is_measured, limits, options.check, work.jobs, output)
    with output.progress("Ranking") as progress:
        ranking = tc.rank(
            problem,
            mappings=mappings,
            model=options.model,
            times=options.times,
            goal=limits.goal,
            budget=budget,
            check=options.check,
            coverage=COVERAGE,
            n_jobs=work.jobs,
            seed=work.seed,
            progress=progress,
        )
    setting = _describe_ranking(loaded, ranking, options)
    output.write_answer(
        answers.rank.answer(ranking, setting=setting, top=options.top),
        {
            "toruscast": tc.__version__,
            **loaded.describe(),
            "seed": work.seed,
            "model": {
                "source": options.times or options.model,
                "n_samples": ranking.fitted.n_samples_,
                "features": list(ranking.fitted.required_columns),
                "target": ranking.fitted.target,
            },
        },
    )
    if best.out is not None and is_folder_path(best.out):
        best.write_all(mappings, problem.torus, candidates.hosts, output)
    elif best.out is not None:
        mapping = in_job.get(ranking.best.name or "", ranking.best)
        output.print_line(best.write(mapping, mapping.torus or problem.torus, candidates.hosts))


def _limit_budget(
    problem: tc.MappingProblem,
    mappings: list[tc.TaskMapping],
    is_measured: bool,
    limits: _BudgetOptions,
    check: bool,
    n_jobs: int,
    output: Output,
) -> tc.Budget:
    """Return the budget; announce long simulations, and limit them to the announced time."""
    max_simulations = 0 if limits.no_simulation else limits.simulations
    budget = tc.Budget(max_simulations, limits.seconds, limits.rcc)
    n_simulations, seconds = budget.limits(limits.goal, len(mappings))
    # With measured times, the model needs a simulation of every candidate.
    simulates_all = check or (is_measured and n_simulations > 0)
    if math.isfinite(seconds) and not simulates_all:
        return budget
    n_simulations = len(mappings) if simulates_all else n_simulations
    minutes = tc.decision.simulation_minutes(problem, mappings, n_simulations)
    minutes = math.ceil(minutes / n_jobs)
    if minutes <= _LONG_MINUTES:
        return budget
    advice = "omit --check to simulate fewer" if check else "--no-simulation avoids them"
    if not simulates_all:
        advice = "no simulation starts later; set --seconds or --simulations to change this"
    estimate = f"{'about' if simulates_all else 'at most'} {minutes:,} minutes"
    output.message(f"simulating {n_simulations} mappings takes {estimate}; {advice}")
    return budget if simulates_all else replace(budget, seconds=60.0 * minutes)


def _describe_ranking(loaded: LoadedProblem, ranking: tc.Ranking, options: _RankOptions) -> str:
    """Return the question in one line, with the source of the times."""
    names = {"adaptive": "adaptive routing; ", "by_size": "routing by message size; "}
    routing = names.get(ranking.problem.routing, "")
    n_measured = ranking.cost.measured
    if ranking.networks is not None:
        origin = f"simulated on {ranking.cost.networks} plausible networks of the machine"
        origin += f", weighted by measured times of {n_measured} of them" if n_measured else ""
    elif options.times is not None:
        origin = f"predicted from measured times of {n_measured} of them"
    else:
        is_default = options.model == "default"
        model = "the default model" if is_default else f"the model {printable(options.model)}"
        suffix = ", and simulated where uncertain"
        if ranking.fitted.target == "measured":
            suffix = ", trained on measured times"
        origin = f"predicted by {model} ({ranking.fitted.n_samples_} samples){suffix}"
    return f"{loaded.summary(ranking.mappings)}; {routing}{origin}."
