"""``toruscast doctor``: what files are, what is in them and what is wrong with them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import click

from toruscast.report.units import nbytes
from toruscast.wording import one_line

from . import options
from .failures import WRONG_INPUT
from .inputs import load_torus
from .output import Output
from .placing_options import placing_options
from .reading_options import include_option, reading_options
from .records import Host, Placing, Reading, as_record

if TYPE_CHECKING:
    from toruscast.mapping import Torus
    from toruscast.mapping.formats.dialect import Dialect
    from toruscast.mapping.formats.source import Source


@click.command("doctor")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@as_record(
    "place",
    Host,
    click.option("--torus", metavar="TORUS", help=f"The host of mappings. {options.TORUS_HELP}"),
    options.network_option,
)
@as_record("placing", Placing, *placing_options)
@as_record("reading", Reading, *reading_options, include_option)
@options.output_record
def command(
    files: tuple[str, ...], place: Host, placing: Placing, reading: Reading, output: Output
) -> int:
    """Say what each FILE is, what is in it and what is wrong with it.

    Exit status: 0 if all can be used, 2 if one cannot.
    """
    import pandas as pd

    output.check()
    host = None if place.torus is None else load_torus(place)
    reports = []
    with output.progress("Reading") as progress:
        for done, file in enumerate(files):
            progress(done, len(files))
            reports.append(_report(file, host, reading, placing))
    output.write({"files": reports}, pd.DataFrame(reports))
    if output.for_people:
        for report in reports:
            for line in _words(report):
                click.echo(one_line(line) if not line.startswith("  ") else f"  {one_line(line)}")
    return WRONG_INPUT if any(report["faults"] for report in reports) else 0


def _report(file: str, torus: Torus | None, reading: Reading, placing: Placing) -> dict[str, Any]:
    """What is known of one file."""
    from toruscast.errors import InputError, MissingFileError
    from toruscast.mapping.formats.registry import identify, recognised
    from toruscast.mapping.formats.source import Source

    report: dict[str, Any] = {"file": file, "fits": [], "faults": [], "notes": []}
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            source = Source(file, torus=torus)
            fits = recognised(source)
            if reading.form != "auto":
                fits = [identify(source, "graph", reading.form)]
            elif not fits:
                fits = [identify(source, "graph")]
            report["fits"] = [
                {"format": d.name, "holds": d.holds, "what it is": d.title} for d in fits
            ]
            kinds = [dialect.holds for dialect in fits]
            if kinds.count("graph") > 1:
                identify(source, "graph")
            report |= _content(source, fits, torus, reading, placing)
        report["notes"] += [str(warning.message) for warning in caught]
    except MissingFileError as error:
        # A name that is none fits every format of folders and prefixes.
        report |= {"fits": [], "faults": [str(error)]}
    except InputError as error:
        report["faults"].append(str(error))
    return report


def _content(
    source: Source,
    fits: list[Dialect],
    torus: Torus | None,
    reading: Reading,
    placing: Placing,
) -> dict[str, Any]:
    """What the first dialect that can be read finds in the file."""
    from toruscast.errors import InputError
    from toruscast.mapping.formats import (
        read_hosts,
        read_mappings,
        read_times,
        read_torus,
        read_workload,
    )
    from toruscast.mapping.formats.facts import graph_facts

    kinds = [dialect.holds for dialect in fits]
    no_mapping: dict[str, str] = {}
    if torus is not None and "mapping" in kinds:
        try:
            mappings = read_mappings(source.path, torus, **placing.how)
            return {"mappings": len(mappings), "tasks": mappings[0].n_tasks}
        except InputError as error:
            # Bare numbers may be a graph as well as a mapping; then they are the graph.
            if "graph" not in kinds:
                raise
            no_mapping = {"no_mapping": str(error)}
    if "graph" in kinds:
        workload = read_workload(source.path, include=reading.include, **reading.how)
        return graph_facts(workload.total) | {"phases": len(workload)} | no_mapping
    if "torus" in kinds:
        host = read_torus(source.path)
        return {"torus": str(host), "nodes": host.n_nodes, "links": int(host.link_exists.sum())}
    if "hosts" in kinds and torus is not None:
        return {"hosts": len(read_hosts(source.path, torus).names)}
    if "times" in kinds:
        return {"times": len(read_times(source.path))}
    return {}


def _words(report: dict[str, Any]) -> list[str]:
    """The report in lines for people."""
    from toruscast.mapping.formats.dialect import NOUNS
    from toruscast.wording import counted

    kinds = [f"{f['format']}, a {NOUNS[f['holds']]}: {f['what it is']}" for f in report["fits"]]
    lines = [f"{report['file']}: {' or '.join(kinds) or 'not known'}"]
    if "edges" in report:
        parts = [
            counted(report["tasks"], "task"),
            counted(report["edges"], "edge"),
            nbytes(report["bytes"]),
            counted(report["messages"], "message"),
            "symmetric" if report["symmetric"] else "not symmetric",
        ]
        if report["phases"] > 1:
            parts.append(counted(report["phases"], "phase"))
        if report["to_itself"]:
            parts.append(f"{nbytes(report['to_itself'])} of tasks to themselves")
        lines.append("  " + ", ".join(parts))
        isolated = report["isolated"]
        if isolated:
            names = ", ".join(map(str, report["first_isolated"]))
            more = ", ..." if isolated > len(report["first_isolated"]) else ""
            lines.append(f"  {counted(isolated, 'task')} without traffic: {names}{more}")
    for key in ("mappings", "times"):
        if key in report:
            of = f" of {counted(report['tasks'], 'task')}" if "tasks" in report else ""
            lines.append(f"  {counted(report[key], key[:-1])}{of}")
    if "torus" in report:
        sizes = f"{counted(report['nodes'], 'node')}, {counted(report['links'], 'link')} one way"
        lines.append(f"  {report['torus']}: {sizes}")
    if "hosts" in report:
        lines.append(f"  {counted(report['hosts'], 'host')}")
    may_map = any(f["holds"] == "mapping" for f in report["fits"]) and "mappings" not in report
    if may_map and not report["faults"]:
        why = report.get("no_mapping", "--torus is needed to look into it")
        lines.append(f"  as a mapping: {why}")
    lines += [f"  note: {note}" for note in report["notes"]]
    lines += [f"  fault: {fault}" for fault in report["faults"]]
    return lines
