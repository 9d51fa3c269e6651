"""``toruscast search`` and ``toruscast explain``: find a faster mapping, and explain a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import click

import toruscast as tc
from toruscast import answers

from .mappings import MappingFile, check_job, check_seed, load_mapping, stream_files
from .options import (
    MAPPING_HELP,
    MappingFileOptions,
    TrafficOptions,
    WorkOptions,
    mapping_option,
    multi_option,
    option,
    search_time_option,
    sub_command,
    top_option,
)
from .output import Output
from .problem import load_problem


@dataclass(frozen=True)
class _SearchOptions(MappingFileOptions):
    GROUP: ClassVar = "Mappings"
    mappings: tuple[str, ...] = multi_option(
        "Your mappings. The gain is relative to the best of them.", "FILE|FOLDER"
    )
    seconds: float = search_time_option(
        "Duration of the search in seconds. Ctrl-C ends it with the best mapping so far."
    )
    objective: str = option(
        "Objective to minimise: time (simulated) or a feature, such as max_bytes or hop_bytes.",
        "NAME",
        default="time",
        group="Answer",
        rare=True,
    )
    partitioners: tuple[str, ...] = multi_option(
        "Also start from the mapping of this program, which must be installed.",
        type=click.Choice(["scotch", "mt-kahypar"]),
        group="Answer",
        rare=True,
    )
    top: int = top_option(10)


@sub_command("search")
def command(
    traffic: TrafficOptions,
    options: _SearchOptions,
    work: WorkOptions,
    best: MappingFile,
    output: Output,
) -> None:
    """Search for a mapping that is faster than yours and the mappings of all strategies.

    Simulated annealing reduces the loads of links, FIFOs and receivers. The best mappings are
    compared as in 'toruscast rank', and the winners are simulated.

    \b
    toruscast search --comm lammps-droplet-128 --torus 4x4x8 --seconds 30 --out best.map
    toruscast search --comm app.prof --torus 8x8x8 --allocation nodes.txt --fix 0=17
    """  # noqa: D301
    output.check(others={"--out": best.out})
    best.check(options.hosts)
    loaded = load_problem(traffic, work.routing)
    problem = loaded.problem
    torus = problem.torus
    check_job(best.out, best.out_format, problem, options, ())
    given: list[tc.TaskMapping] = []
    if options.mappings:
        with output.progress("Reading mappings"):
            given = list(stream_files(problem, options.mappings, options))

    def write(mapping: tc.TaskMapping, _value: float) -> None:
        best.write(mapping, torus, options.hosts)

    with best.restore_on_error(), output.progress(f"Searching for {options.seconds:g} s"):
        result = tc.search(
            problem,
            mappings=given,
            seconds=options.seconds,
            objective=options.objective,
            fixed=options.fixed_nodes,
            tasks_per_node=options.tasks_per_node,
            partitioners=options.partitioners,
            seed=work.seed,
            n_jobs=work.jobs,
            callback=write,
        )
    setting = f"{loaded.summary()}."
    output.write_answer(
        answers.search.answer(result, yours=bool(given), setting=setting, top=options.top)
    )
    output.print_line(best.write(result.best, torus, options.hosts))


@dataclass(frozen=True)
class _ExplainOptions(MappingFileOptions):
    mapping: str = mapping_option(
        f"A file ({MAPPING_HELP}), or a strategy such as identity or random@2.", required=True
    )
    against: str = mapping_option("Mapping to compare with.", default="identity")
    top: int = top_option(5)


@sub_command("explain")
def explain(
    traffic: TrafficOptions, options: _ExplainOptions, work: WorkOptions, output: Output
) -> None:
    """Explain the time of a mapping.

    Lists the busiest links, the task pairs that load them, the effect of each feature on the
    predicted time, and the swap of two blocks of nodes that would help most.

    \b
    toruscast explain --comm lammps-droplet-128 --torus 4x4x8 --mapping random
    toruscast explain --comm app.prof --torus 8x8x8 --mapping my.map --against best.map
    """  # noqa: D301
    output.check()
    loaded = load_problem(traffic, work.routing)
    problem = loaded.problem
    names = (options.mapping, options.against)
    check_seed(problem, options, *names)
    mappings = [load_mapping(problem, name, options, work.seed) for name in names]
    with output.progress("Explaining"):
        explanation = tc.explain(problem, mapping=mappings[0], against=mappings[1], top=options.top)
    setting = f"{loaded.summary()}."
    output.write_answer(
        answers.search.explanation_answer(explanation, setting=setting, top=options.top)
    )
