"""``toruscast doctor``: check the format and the content of files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import toruscast as tc
from toruscast._slow import pandas as pd
from toruscast.answers.table import Table
from toruscast.errors import InputError
from toruscast.mapping.omissions import describe_omissions
from toruscast.text import counted, nbytes, one_line

from .app import WRONG_INPUT
from .options import GraphFileOptions, MappingFileOptions, TorusOptions, argument, sub_command
from .output import Output
from .problem import format_graph, load_torus
from .slow import format_dialect, format_registry, format_source, readers

if TYPE_CHECKING:
    from toruscast.formats.dialect import Dialect
    from toruscast.formats.source import Source
    from toruscast.mapping import Torus

# Files that are not in the format registry: first bytes, a name in the content, description.
_OTHER_FILES = {
    "model": (b"PK", b"metadata.npy", "a model for --model"),
    "samples": (b"PAR1", b"toruscast samples", "samples for --samples"),
    "measurements": (b"PK", b"experiment.json", "measurements{} for 'toruscast pmnf fit'"),
}
_MEASUREMENT_SUFFIXES = (".csv", ".json", ".jsonl", ".txt")


@dataclass(frozen=True)
class _FileArguments:
    files: tuple[str, ...] = argument("FILE...", nargs=-1)


@sub_command("doctor")
def command(
    arguments: _FileArguments,
    machine: TorusOptions,
    mappings: MappingFileOptions,
    graphs: GraphFileOptions,
    output: Output,
) -> int:
    """Report the format, the content and the errors of each FILE.

    Exit status: 0 if all files can be used, 2 otherwise.
    """
    output.check()
    files = arguments.files
    torus = None if machine.torus is None else load_torus(machine)
    reports = []
    with output.progress("Reading") as progress:
        for done, file in enumerate(files):
            progress("files", done, len(files))
            reports.append(_check_file(file, torus, graphs, mappings))
    n_bad = sum(bool(report["faults"]) for report in reports)
    problems = f"{n_bad} with problems" if n_bad else "no problems"
    head = f"{counted(len(files), 'file')} read, {problems}"
    if len(files) == 1:
        head = f"{one_line(files[0])} {'cannot' if n_bad else 'can'} be used"
    texts = ["\n  ".join(map(one_line, _format_report(report))) for report in reports]
    table = Table(pd.DataFrame(reports), ())
    output.write_table(head, table, below=texts, content={"files": reports})
    return WRONG_INPUT if n_bad else 0


def _check_file(
    file: str, torus: Torus | None, graphs: GraphFileOptions, mappings: MappingFileOptions
) -> dict[str, Any]:
    """Return a file's content as read by the first reader that accepts it, or else the faults."""
    report: dict[str, Any] = {"file": file, "fits": [], "faults": [], "notes": [], "summary": []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            source = format_source.Source(file, torus=torus)
            other = _detect_other_file(source)
            dialects = [] if other else _find_dialects(source, graphs)
        except InputError as error:
            return report | {"faults": [str(error)]}
        report["fits"] = [
            {"format": d.name, "holds": d.holds, "what it is": d.title} for d in dialects
        ]
        kinds: list[str] = list(dict.fromkeys(dialect.holds for dialect in dialects))
        may_be_measurements = file.lower().endswith(_MEASUREMENT_SUFFIXES)
        if other:
            kinds, report["is"] = [other], _OTHER_FILES[other][2].format("")
        elif not kinds or may_be_measurements:
            kinds = kinds or ["mapping" if Path(file).is_dir() else "graph"]
            kinds.append("measurements")
        for kind in kinds:
            try:
                report |= _read_content(kind, source, dialects, graphs, mappings) | {"faults": []}
                break
            except InputError as error:
                if kind != "measurements" or other or may_be_measurements:
                    report["faults"].append(str(error))
    return report | {"notes": [str(warning.message) for warning in caught]}


def _detect_other_file(source: Source) -> str | None:
    """Return the key in `_OTHER_FILES` that matches the content of a file, or None."""
    for kind, (start, name, _) in _OTHER_FILES.items():
        if source.start.startswith(start) and name in source.data:
            return kind
    return None


def _find_dialects(source: Source, graphs: GraphFileOptions) -> list[Dialect]:
    """Return the file format that the user names, or else all formats that match the file."""
    for holds in ("graph", "mapping"):
        if (name := graphs.format_of(holds)) != "auto":
            return [format_registry.find_dialect(name, holds)]
    if graphs.columns:
        return [format_registry.find_dialect("table", "graph")]
    return format_registry.match_dialects(source)


def _read_content(
    kind: str,
    source: Source,
    dialects: list[Dialect],
    graphs: GraphFileOptions,
    mappings: MappingFileOptions,
) -> dict[str, Any]:
    """Read a file as the given kind; return JSON entries, where ``summary`` is a list of lines."""
    file, torus = os.fspath(source.path), source.torus
    if kind == "graph":
        workload = tc.read_workload(file, include=graphs.include, **graphs.reader_arguments)
        about = [line for dialect in dialects for line in dialect.describe(source)]
        facts = readers.graph_facts(workload) | {"about": about}
        facts["omitted"] = list(map(asdict, workload.omitted))
        omitted = filter(None, [describe_omissions(workload.omitted)])
        # Remove repeated lines, because some formats describe their omissions themselves.
        lines = dict.fromkeys([*_describe_graph(facts), *omitted, *about])
        return facts | {"summary": list(lines)}
    if kind == "torus":
        host = tc.read_torus(file)
        links = counted(host.n_existing_links, "directed link")
        sizes = f"{counted(host.n_nodes, 'node')}, {links}"
        facts = {"torus": str(host), "nodes": host.n_nodes, "links": host.n_existing_links}
        return facts | {"summary": [f"{host}: {sizes}"]}
    suffix, more = "", dict[str, Any]()
    if kind in ("mapping", "hosts"):
        if torus is None:
            raise InputError("a file of nodes needs a torus", file=file, expected="--torus TORUS")
        if kind == "mapping":
            read = tc.read_mappings(file, torus, **mappings.reader_arguments)
            more = {"tasks": read[0].n_tasks}
            more |= {"is": "a folder of mappings"} if Path(file).is_dir() else {}
            key, n, suffix = "mappings", len(read), f" of {counted(more['tasks'], 'task')}"
        else:
            key, n = kind, len(tc.read_hosts(file, torus).names)
    elif kind in ("times", "samples"):
        read_rows = tc.read_times if kind == "times" else tc.training.read_samples
        key, n = kind, len(read_rows(file))
    elif kind == "model":
        key, n = "features", tc.load_predictor(file).n_features_in_
    else:
        measurements = tc.scaling.read_measurements(file)
        key, n = "points", sum(len(table.points) for table in measurements)
        suffix = f" by {', '.join(measurements[0].parameters)}"
    if kind in _OTHER_FILES:
        description = _OTHER_FILES[kind][2].format(suffix)
        return {key: n, "summary": [counted(n, key[:-1])], "is": description}
    return {key: n, "summary": [f"{counted(n, key[:-1])}{suffix}"], **more}


def _describe_graph(facts: dict[str, Any]) -> Iterator[str]:
    """Yield a line about size and symmetry, and a line about tasks without traffic, if any."""
    line = format_graph(facts) + (", symmetric" if facts["symmetric"] else ", not symmetric")
    if facts["phases"] > 1:
        line += f", {counted(facts['phases'], 'phase')}"
    if facts["to_itself"]:
        line += f", {nbytes(facts['to_itself'])} of tasks to themselves"
    yield line
    if facts["isolated"]:
        names = ", ".join(map(str, facts["first_isolated"]))
        more = ", ..." if facts["isolated"] > len(facts["first_isolated"]) else ""
        yield f"{counted(facts['isolated'], 'task')} without traffic: {names}{more}"


def _format_report(report: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that the command prints for a file."""
    kinds = [
        f"{fit['format']}, a {format_dialect.KIND_NAMES[fit['holds']]}: {fit['what it is']}"
        for fit in report["fits"]
    ]
    yield f"{report['file']}: {report.get('is') or ' or '.join(kinds) or 'unknown'}"
    yield from report["summary"]
    yield from (f"note: {note}" for note in report["notes"])
    yield from (f"fault: {fault}" for fault in report["faults"])
