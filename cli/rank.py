"""``toruscast rank``: which candidate mapping is fastest, how sure that is, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import click

import toruscast as tc
from toruscast import answers
from toruscast.text import printable

from .learning import COVERAGE, load_plugin
from .mappings import (
    MappingFile,
    check_job,
    is_folder,
    load_mappings,
    scattered_job,
    write_to_folder,
)
from .options import (
    ABOVE_0,
    Candidates,
    Traffic,
    Work,
    option,
    plugin_option,
    refuse,
    sub_command,
    times_option,
    top_option,
)
from .output import Output, PageOutput
from .problem import Setting, load_setting

_STAGES = {"features": "Routing", "simulations": "Simulating"}
# Minutes of simulation from which on they are announced.
_LONG = 2.0


@dataclass(frozen=True)
class Basis:
    """What a forecast rests on: a model, or times that were measured."""

    model: str = option(
        "A model made by 'toruscast train'.  [default: the one that comes with toruscast]",
        "FILE",
        default="default",
        show_default=False,
    )
    plugin: str | None = plugin_option(" that the model of --model reads", needs=("model",))
    times: str | None = times_option(
        "Measured times of some of --mappings, which alone train the model", needs=("mappings",)
    )


@dataclass(frozen=True)
class Limits:
    """How much may be simulated before the answer."""

    GROUP: ClassVar = "Work"
    goal: Literal["fastest", "order"] = option(
        "What simulations shall decide: which candidate is fastest, or the order of all.",
        default="fastest",
    )
    simulations: int | None = option(
        "Most candidates to simulate with real packets before the answer.  [default: 30; for the "
        "order all]",
        "N",
        excludes=("no_simulation",),
    )
    seconds: float | None = option(
        "Start no simulation after S seconds.  [default for the order: 30]",
        "S",
        type=ABOVE_0,
        excludes=("no_simulation",),
    )
    rcc: float = option(
        "Of --goal order: the share of pairs that shall be expected in the right order.",
        "SHARE",
        default=0.97,
        type=click.FloatRange(0.5, 1.0),
        needs=("goal=order",),
        excludes=("no_simulation",),
    )
    no_simulation: bool = option("Forecast only.", default=False)

    @property
    def budget(self) -> tc.Budget:
        """The same for the library."""
        return tc.Budget(0 if self.no_simulation else self.simulations, self.seconds, self.rcc)


@dataclass(frozen=True)
class RankOptions:
    """What the answer holds besides."""

    check: bool = option(
        "Simulate all candidates afterwards, order them by that, and score the answer.",
        default=False,
    )
    top: int = top_option(10)
    coords: str | None = option(
        "Of a job on Fugaku that is not contiguous: where its nodes are, a line of X Y Z a b c for "
        "each, the last dimension of --torus fastest. Its candidates are the orders of the "
        "launcher.",
        "FILE",
        group="Machine",
    )


@sub_command("rank")
def command(
    traffic: Traffic,
    candidates: Candidates,
    basis: Basis,
    limits: Limits,
    how: RankOptions,
    work: Work,
    best: MappingFile,
    output: PageOutput,
) -> None:
    """Find the fastest of several mappings of an application on a torus.

    A model forecasts the time of every candidate from its routes. Simulations go to the candidates
    that may be the fastest, until the answer is proved or sure, or the budget is spent.

    \b
    toruscast rank --comm lammps-lj-512 --torus 8x8x8 --check
    toruscast rank --comm app.prof --torus bluegene_q:1024 --mappings maps/ --out best.map
    toruscast rank --comm app.prof --torus 8x8x8 --mappings maps/ --times runs.csv
    toruscast rank --comm app.edges --torus fugaku:4x6x8 --candidates orders --out best.vcoord
    """  # noqa: D301
    if basis.times is not None:
        refuse("without --times, whose runs train the model and check it", "model", "check")
    output.check(also={"--out": best.out})
    best.check(candidates.hosts, folder=True)
    load_plugin(basis.plugin)
    setting = load_setting(traffic, work.routing)
    problem = setting.problem
    in_job: dict[str, tc.TaskMapping] = {}
    if how.coords is None:
        mappings = load_mappings(problem, candidates, work.seed)
        given = mappings if candidates.mappings else ()
        check_job(best.out, best.out_format, problem, candidates, given)
    else:
        own = ("mappings", "candidates", "tasks_per_node", "hosts", "mapping_columns", "fixed")
        refuse("without --coords", *own, "changes", "slow_links", "allocation")
        mappings, in_job = scattered_job(problem, how.coords)
        network = mappings[0].torus or problem.torus
        problem = tc.MappingProblem(problem.workload, network, problem.routing)
        setting = replace(setting, problem=problem)
    budget = _budget(problem, mappings, basis, limits, how, work, output)
    with output.progress("Routing") as show:

        def tell(stage: str, done: int, total: int) -> None:
            show(done, total, _STAGES[stage])

        found = tc.rank(
            problem.workload,
            problem.torus,
            mappings,
            model=basis.model,
            times=basis.times,
            goal=limits.goal,
            budget=budget,
            routing=problem.routing,
            check=how.check,
            coverage=COVERAGE,
            n_jobs=work.jobs,
            seed=work.seed,
            progress=tell,
        )
    output.deliver(
        answers.rank.answer(found, setting=_in_words(setting, found, basis), top=how.top),
        {
            "toruscast": tc.__version__,
            **setting.describe(),
            "seed": work.seed,
            "model": {
                "source": basis.times or basis.model,
                "n_samples": found.fitted.n_samples_,
                "features": list(found.fitted.required_columns),
                "target": found.fitted.target,
            },
        },
    )
    if best.out is not None and is_folder(best.out):
        write_to_folder(mappings, problem.torus, best.out, output)
    elif best.out is not None:
        chosen = in_job.get(found.best.name or "", found.best)
        output.say(best.write(chosen, chosen.torus or problem.torus, candidates.hosts))


def _budget(
    problem: tc.MappingProblem,
    mappings: list[tc.TaskMapping],
    basis: Basis,
    limits: Limits,
    how: RankOptions,
    work: Work,
    output: Output,
) -> tc.Budget:
    """Return the budget; say how long simulations may take, where that is long, and end them so."""
    budget = limits.budget
    most, seconds = budget.limits(limits.goal, len(mappings))
    # Measured times are explained by simulated ones, of every candidate.
    every = how.check or (basis.times is not None and most > 0)
    if math.isfinite(seconds) and not every:
        return budget
    most = len(mappings) if every else most
    minutes = tc.decision.simulation_minutes(problem, mappings, most)
    minutes = math.ceil(minutes / work.jobs)
    if minutes <= _LONG:
        return budget
    less = "without --check fewer" if how.check else "--no-simulation leaves them out"
    less = less if every else "none begins later; --seconds or --simulations change that"
    about = "about" if every else "at most"
    output.message(f"{about} {minutes:,} minutes of simulation ahead, for {most} mappings; {less}")
    return budget if every else replace(budget, seconds=60.0 * minutes)


def _in_words(setting: Setting, found: tc.Ranking, basis: Basis) -> str:
    """Return what is ranked and by what, in a line."""
    routing = {
        "adaptive": "adaptive routing; ",
        "by_size": "routing by message size; ",
    }.get(found.problem.routing, "")
    model = basis.model
    origin = "the default model" if model == "default" else f"the model {printable(model)}"
    origin += f" ({found.fitted.n_samples_} samples)"
    decided = " and simulated where it decides"
    if basis.times is not None:
        origin, decided = f"measured times of {found.cost.measured} of them", ""
    elif found.fitted.target == "measured":
        decided = ", which learned from times of a machine"
    if found.networks is not None:
        several = f"simulated on {found.cost.networks} networks that the machine may have"
        weighed = f", weighed by measured times of {found.cost.measured} of them"
        origin, decided = several, weighed if found.cost.measured else ""
    else:
        origin = f"forecast by {origin}"
    return f"{setting.of(found.mappings)}; {routing}{origin}{decided}."
