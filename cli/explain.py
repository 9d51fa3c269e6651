"""``toruscast explain``: why a mapping takes its time, and what to try."""

from __future__ import annotations

from dataclasses import dataclass

import toruscast as tc
from toruscast import answers

from .mappings import load_mapping
from .options import MAPPING_HELP, Placing, Traffic, Work, mapping_option, sub_command, top_option
from .output import PageOutput
from .problem import load_setting


@dataclass(frozen=True)
class Compared(Placing):
    """Two mappings."""

    mapping: str = mapping_option(
        f"A file ({MAPPING_HELP}), or a strategy such as identity or random@2.", required=True
    )
    against: str = mapping_option("What it is compared with.", default="identity")
    top: int = top_option(5)


@sub_command("explain")
def command(traffic: Traffic, two: Compared, work: Work, output: PageOutput) -> None:
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
    first, second = (
        load_mapping(problem, name, two, work.seed) for name in (two.mapping, two.against)
    )
    with output.progress("Explaining"):
        why = tc.explain(
            problem.workload, problem.torus, first, second, routing=problem.routing, n=two.top
        )
    in_words = f"{setting.in_words()}."
    output.deliver(answers.search.explanation(why, setting=in_words, top=two.top))
