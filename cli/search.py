"""``toruscast search`` and ``toruscast explain``: a better mapping, and why one takes its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

import toruscast as tc
from toruscast import answers

from .mappings import MappingFile, check_job, check_seed, load_mapping, stream_files
from .options import (
    MAPPING_HELP,
    Placing,
    Traffic,
    Work,
    mapping_option,
    option,
    search_time_option,
    sub_command,
    top_option,
)
from .output import PageOutput
from .problem import load_setting


@dataclass(frozen=True)
class Search(Placing):
    """Starts, bounds and goal of a search."""

    GROUP: ClassVar = "Mappings"
    mappings: tuple[str, ...] = option(
        "Yours: the gain counts from the best. May be given several times.",
        "FILE|FOLDER",
        default=(),
    )
    seconds: float = search_time_option("How long to search; Ctrl-C ends it with the best so far.")
    objective: str = option(
        "What to minimise: time (simulated) or a feature, such as max_bytes or hop_bytes.",
        "NAME",
        default="time",
        group="Answer",
    )
    extra: tuple[str, ...] = option(
        "Start from what this program finds, too, where it is installed. May be given several "
        "times.",
        default=(),
        multiple=True,
        type=click.Choice(["scotch", "mt-kahypar"]),
        group="Answer",
    )
    top: int = top_option(10)


@sub_command("search")
def search(
    traffic: Traffic, how: Search, work: Work, best: MappingFile, output: PageOutput
) -> None:
    """Search for a better mapping than those of all strategies, and yours.

    Simulated annealing over the loads of links, FIFOs and receivers finds candidates; the best race
    each other as in 'toruscast rank', and the winners are simulated anew.

    \b
    toruscast search --comm lammps-droplet-128 --torus 4x4x8 --seconds 30 --out best.map
    toruscast search --comm app.prof --torus 8x8x8 --allocation nodes.txt --fix 0=17
    """  # noqa: D301
    output.check(also={"--out": best.out})
    best.check(how.hosts)
    setting = load_setting(traffic, work.routing)
    problem = setting.problem
    torus = problem.torus
    check_job(best.out, best.out_format, problem, how, ())
    given: list[tc.TaskMapping] = []
    if how.mappings:
        with output.progress("Reading mappings"):
            given = list(stream_files(problem, how.mappings, how))

    def keep(mapping: tc.TaskMapping, _value: float) -> None:
        best.write(mapping, torus, how.hosts)

    with best.only_if_done(), output.progress(f"Searching for {how.seconds:g} s"):
        found = tc.search(
            problem.workload,
            torus,
            given,
            seconds=how.seconds,
            objective=how.objective,
            fixed=how.bound,
            tasks_per_node=how.tasks_per_node,
            extra=how.extra,
            routing=problem.routing,
            seed=work.seed,
            n_jobs=work.jobs,
            callback=keep,
        )
    in_words = f"{setting.in_words()}."
    output.deliver(answers.search.answer(found, yours=bool(given), setting=in_words, top=how.top))
    output.say(best.write(found.mapping, torus, how.hosts))


@dataclass(frozen=True)
class Compared(Placing):
    """Two mappings."""

    mapping: str = mapping_option(
        f"A file ({MAPPING_HELP}), or a strategy such as identity or random@2.", required=True
    )
    against: str = mapping_option("What it is compared with.", default="identity")
    top: int = top_option(5)


@sub_command("explain")
def explain(traffic: Traffic, two: Compared, work: Work, output: PageOutput) -> None:
    """Explain why a mapping takes its time.

    Which links are hot, which task pairs put the load there, what the model weighs, and which
    exchange of two blocks of nodes would help most.

    \b
    toruscast explain --comm lammps-droplet-128 --torus 4x4x8 --mapping random
    toruscast explain --comm app.prof --torus 8x8x8 --mapping my.map --against best.map
    """  # noqa: D301
    output.check()
    setting = load_setting(traffic, work.routing)
    problem = setting.problem
    check_seed(problem, two, two.mapping, two.against)
    first, second = (
        load_mapping(problem, name, two, work.seed) for name in (two.mapping, two.against)
    )
    with output.progress("Explaining"):
        why = tc.explain(
            problem.workload, problem.torus, first, second, routing=problem.routing, n=two.top
        )
    in_words = f"{setting.in_words()}."
    output.deliver(answers.search.explanation(why, setting=in_words, top=two.top))
