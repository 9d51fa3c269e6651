"""The page of results, `docs/studies/results.md`, made from what the experiments found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from studies.bars import count_bars, describe_bar
from toruscast.report.markdown import cell, number, rows, table

from . import EXPERIMENTS, Experiment, Findings
from .folder import FIGURES, figure_name

_INTRO = """# Results

Written by `python -m studies run`; every number on this page comes from the run described here.

**The times and counters of the simulated experiments come from toruscast's packet simulator, not
from a machine.** They show how well forecasts follow a detailed model of the network. The measured
experiments learn from and are tested on times that others measured on real torus machines; each
names its source. RCC is the share of pairs in the right order, R^2 the share of the variance
explained."""
_ORIGIN = {
    "samples": "Simulated: times and counters come from the packet simulator.",
    "data": "Measured.",
}


def results_page(
    findings: Mapping[str, Findings],
    seconds: Mapping[str, float],
    provenance: Mapping[str, Any] | None,
    machine: Mapping[str, str],
    *,
    experiments: Mapping[str, Experiment] = EXPERIMENTS,
    failed: Mapping[str, str] | None = None,
) -> str:
    """Return the page in Markdown; equal arguments give equal pages.

    Parameters
    ----------
    findings, seconds : mapping by name of experiment
        What each found, and how long it took.
    provenance : mapping or None
        Of the table of samples, ``read_samples(path).attrs["provenance"]``; None if none was used.
    machine : mapping of str to str
        As `describe_machine` gives it.
    experiments : mapping of str to Experiment
        All there are, in the order of the page.
    failed : mapping by name of experiment, optional
        Why these found nothing.

    Examples
    --------
    >>> page = results_page({}, {}, None, {"cpu": "a processor", "cores": "2"})
    >>> "Machine: a processor, 2 cores." in page
    True
    """
    ran = [experiments[name] for name in experiments if name in findings]
    parts = [
        _INTRO,
        _made_with(machine),
        _samples(provenance),
        _overview(ran, findings),
        "## All bars",
        _summary(ran, findings),
        _left_out(experiments, findings, failed or {}),
        *(_section(experiment, findings[experiment.name]) for experiment in ran),
        _cost(ran, seconds, provenance),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _made_with(machine: Mapping[str, str]) -> str:
    hardware = [
        machine.get("cpu", ""),
        f"{machine['cores']} cores" if "cores" in machine else "",
        machine.get("system", ""),
    ]
    versions = [f"{k} {v}" for k, v in machine.items() if k not in ("cpu", "cores", "system")]
    text = f"Machine: {', '.join(part for part in hardware if part)}."
    return cell(f"{text} Versions: {', '.join(versions)}." if versions else text)


def _samples(provenance: Mapping[str, Any] | None) -> str:
    if provenance is None:
        return "No table of simulated samples was used."
    keys = ("n_samples", "command", "created", "toruscast", "numpy", "level", "routing", "seed")
    known = {key: cell(provenance.get(key, "unknown")) for key in keys}
    spent = list(_processor_seconds(provenance).values())
    cost = f"{number(sum(spent) / 3600, 3)} processor hours" if spent else "not recorded"
    return (
        f"Simulated samples: {known['n_samples']}, completed {known['created']} by "
        f"`{known['command']}` with toruscast {known['toruscast']} and numpy "
        f"{known['numpy']}; seed {known['seed']}, features of level {known['level']}, routing "
        f"{known['routing']}. Cost of the simulation: {cost}. "
        "`python -m studies build` makes them anew; with `--dry-run` it lists the blocks, and "
        "how many real packets one simulated packet stands for "
        "([what that costs](measurements.md#coarser-packets))."
    )


def _overview(ran: list[Experiment], findings: Mapping[str, Findings]) -> str:
    """A row an experiment: how many of its bars are met."""
    body = []
    for experiment in ran:
        met, bars = count_bars({experiment.name: findings[experiment.name]})
        verdict = f"{met} of {bars}" if bars else "-"
        body.append((f"[{cell(experiment.title)}](#{experiment.name})", verdict))
    return rows(("experiment", "bars met"), body, (False, True)) if body else ""


def _summary(ran: list[Experiment], findings: Mapping[str, Findings]) -> str:
    met, all_bars = count_bars({experiment.name: findings[experiment.name] for experiment in ran})
    body = []
    for experiment in ran:
        link = f"[{cell(experiment.name)}](#{experiment.name})"
        for bar in findings[experiment.name].bars:
            text = describe_bar(bar)
            verdict = f"**{text.verdict}**" if text.verdict == "missed" else text.verdict
            body.append((link, cell(bar.what), text.published, text.bar, text.measured, verdict))
    if not body:
        return "None."
    head = ("experiment", "what", "published", "bar", "measured", "met")
    verdict = f"{met} of {all_bars} bars are met." if all_bars else "No bars are set."
    goals = "Bars are goals of this project, most of them above what was published."
    dash = "A dash stands where nothing is published or no bar is set."
    return f"{verdict} {goals} {dash}\n\n" + rows(
        head, body, (False, False, True, True, True, False)
    )


def _left_out(
    experiments: Mapping[str, Experiment],
    findings: Mapping[str, Findings],
    failed: Mapping[str, str],
) -> str:
    lines = []
    for name, experiment in experiments.items():
        if name not in findings:
            why = failed.get(name, "not run")
            lines.append(f"- `{cell(name)}`, {cell(experiment.title)}: {cell(why)}")
    return "\n".join(["Not on this page:", "", *lines]) if lines else ""


def _section(experiment: Experiment, found: Findings) -> str:
    parts = [
        f'<a id="{experiment.name}"></a>',
        f"## {cell(experiment.title)}",
        f"`{cell(experiment.name)}`. {_ORIGIN[experiment.needs]}",
    ]
    if experiment.sources:
        parts.append("\n".join(["Sources:", "", *(f"- {cell(s)}" for s in experiment.sources)]))
    if experiment.files:
        files = ", ".join(f"`{file}`" for file in experiment.files)
        parts.append(f"Read from the folder of `--data`: {files}.")
    parts.append(found.text.strip())
    for name in found.shown:
        parts += [f"**{cell(name)}**", table(found.tables[name])]
    for chart in found.charts:
        file = figure_name(experiment.name, chart)
        title = cell(chart.title or chart.name).replace("[", "(").replace("]", ")")
        parts.append(f"![{title}]({FIGURES}/{file})")
    if found.notes:
        parts.append("\n".join(["Notes:", "", *(f"- {note.strip()}" for note in found.notes)]))
    return "\n\n".join(part for part in parts if part)


def _cost(
    ran: list[Experiment], seconds: Mapping[str, float], provenance: Mapping[str, Any] | None
) -> str:
    parts = []
    if ran:
        body = [(cell(e.name), number(seconds.get(e.name, math.nan), 3)) for e in ran]
        parts += [
            "Seconds to run each experiment, from its samples or measurements to its tables:",
            rows(("experiment", "seconds"), body, (False, True)),
        ]
    spent = _processor_seconds(provenance or {})
    if spent:
        body = [(cell(name), number(value, 3)) for name, value in spent.items()]
        parts += [
            "Processor seconds to simulate the samples:",
            rows(("block", "processor seconds"), body, (False, True)),
        ]
    return "\n\n".join(["## Cost", *parts]) if parts else ""


def _processor_seconds(provenance: Mapping[str, Any]) -> dict[str, float]:
    """Return what each block cost; files made otherwise may not say it."""
    spent = provenance.get("processor_seconds")
    if not isinstance(spent, Mapping):
        return {}
    return {str(k): float(v) for k, v in spent.items() if isinstance(v, int | float)}
