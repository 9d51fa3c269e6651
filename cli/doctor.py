"""``toruscast doctor``: what files are, what is in them and what is wrong with them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toruscast import answers
from toruscast.errors import InputError, MissingFileError
from toruscast.mapping import Torus
from toruscast.mapping.formats import (
    read_hosts,
    read_mappings,
    read_times,
    read_torus,
    read_workload,
)
from toruscast.mapping.formats.dialect import NOUNS, Dialect
from toruscast.mapping.formats.facts import graph_facts
from toruscast.mapping.formats.foreign import Foreign, foreign
from toruscast.mapping.formats.mapping import mapping_files
from toruscast.mapping.formats.registry import identify, recognised
from toruscast.mapping.formats.source import Source
from toruscast.scaling.formats import read_measurements
from toruscast.text import counted, nbytes, one_line

from .app import WRONG_INPUT
from .options import Placing, Reading, TorusOptions, argument, sub_command
from .output import Output
from .torus import load_torus


@dataclass(frozen=True)
class Files:
    """What is looked at."""

    files: tuple[str, ...] = argument("FILE...", nargs=-1)


@sub_command("doctor")
def command(
    which: Files, place: TorusOptions, placing: Placing, reading: Reading, output: Output
) -> int:
    """Say what each FILE is, what is in it and what is wrong with it.

    Exit status: 0 if all can be used, 2 if one cannot.
    """
    output.check()
    files = which.files
    host = None if place.torus is None else load_torus(place)
    reports = []
    with output.progress("Reading") as progress:
        for done, file in enumerate(files):
            progress(done, len(files))
            reports.append(_report(file, host, reading, placing))
    bad = sum(bool(report["faults"]) for report in reports)
    head = f"{counted(len(files), 'file')}, {bad or 'none'} of which cannot be used"
    if len(files) == 1:
        head = f"{one_line(files[0])} {'cannot' if bad else 'can'} be used"
    texts = ["\n  ".join(map(one_line, _lines(report))) for report in reports]
    output.deliver(
        answers.blocks.of_table(head, below=texts, rows=reports, content={"files": reports})
    )
    return WRONG_INPUT if bad else 0


def _report(file: str, torus: Torus | None, reading: Reading, placing: Placing) -> dict[str, Any]:
    """What is known of one file or folder."""
    report: dict[str, Any] = {"file": file, "fits": [], "faults": [], "notes": []}
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            source = Source(file, torus=torus)
            fits = _mappings_of_folder(source) or recognised(source)
            form = reading.format_of("graph")
            if reading.columns and form == "auto" and "table" in [fit.name for fit in fits]:
                # Names that the caller gives are those of a graph.
                fits = [identify(source, "graph", "table")]
            elif form != "auto":
                fits = [identify(source, "graph", form)]
            elif (known := foreign(source)) is not None and not fits:
                report |= {"is": known.name}
                report |= {"remedy": known.remedy} if known.ours else _fault(known, source)
            elif not fits and source.is_file and (measured := _measurements(file)):
                report |= measured
            elif not fits:
                fits = [identify(source, "graph")]
            report["fits"] = [
                {"format": d.name, "holds": d.holds, "what it is": d.title} for d in fits
            ]
            if [dialect.holds for dialect in fits].count("graph") > 1:
                identify(source, "graph")
            report |= _content(source, fits, torus, reading, placing)
        report["notes"] += [str(warning.message) for warning in caught]
    except MissingFileError as error:
        # A name that is none fits every format of folders and prefixes.
        report |= {"fits": [], "faults": [str(error)]}
    except InputError as error:
        report["faults"].append(str(error))
    return report


def _fault(known: Foreign, source: Source) -> dict[str, Any]:
    error = InputError(
        "not read",
        file=source.path,
        line=known.line,
        found=known.name,
        expected=known.remedy or "a format that 'toruscast formats' lists",
    )
    return {"faults": [str(error)]}


def _mappings_of_folder(source: Source) -> list[Dialect]:
    """The dialect of the first mapping in a folder of such; none for anything else."""
    place = Path(source.path)
    if not place.is_dir() or any(place.glob("*.prof*")):
        return []
    try:
        files = mapping_files(place) or []
        fits = recognised(Source(files[0], torus=source.torus))
    except InputError:
        return []
    return [fit for fit in fits if fit.holds == "mapping"][:1]


def _measurements(file: str) -> dict[str, Any]:
    """What a table of measurements for scaling models holds; nothing if it is none."""
    try:
        found = read_measurements(file)
    except InputError:
        return {}
    points = sum(len(each.points) for each in found)
    return {
        "is": "measurements for scaling models",
        "remedy": "'toruscast pmnf fit' reads it",
        "points": points,
        "parameters": list(found[0].parameters),
    }


def _content(
    source: Source,
    fits: list[Dialect],
    torus: Torus | None,
    reading: Reading,
    placing: Placing,
) -> dict[str, Any]:
    """What the first dialect that can be read finds in the file."""
    kinds = [dialect.holds for dialect in fits]
    no_mapping: dict[str, str] = {}
    refused: InputError | None = None
    host = torus
    if host is None and kinds == ["mapping"]:
        host = _guessed_torus(source, fits[0])
    if host is not None and "mapping" in kinds:
        try:
            mappings = read_mappings(source.path, host, **placing.how)
            return {"mappings": len(mappings), "tasks": mappings[0].n_tasks}
        except InputError as error:
            # Bare numbers may be a graph as well as a mapping; then they are the graph.
            if torus is not None and "graph" not in kinds:
                raise
            if torus is not None:
                refused, no_mapping = error, {"no_mapping": str(error)}
    if "graph" in kinds:
        try:
            workload = read_workload(source.path, include=reading.include, **reading.how)
        except InputError as error:
            # What is no good graph may be a good file of another kind.
            if {*kinds} == {"graph"}:
                raise
            raise refused or _which(source, fits, error) from None
        about = [line for fit in fits for line in fit.describe(source)]
        facts = graph_facts(workload) | {"phases": len(workload)} | no_mapping
        return facts | ({"about": about} if about else {})
    if "torus" in kinds:
        host = read_torus(source.path)
        return {"torus": str(host), "nodes": host.n_nodes, "links": host.n_existing_links}
    if "hosts" in kinds and torus is not None:
        return {"hosts": len(read_hosts(source.path, torus).names)}
    if "times" in kinds:
        return {"times": len(read_times(source.path))}
    return {}


def _which(source: Source, fits: list[Dialect], fault: InputError) -> InputError:
    """The question which of several kinds a file is; why it is no graph beside it."""
    graph = next(fit.name for fit in fits if fit.holds == "graph")
    others = [fit for fit in fits if fit.holds != "graph"]
    why = fault.message + ("" if fault.found is None else f", {fault.found}")
    look = "--torus TORUS to look into the mapping" if others[0].holds == "mapping" else "one kind"
    if len(others) > 1:
        look += ", --format to say which"
    return InputError(
        "fits several formats",
        file=source.path,
        line=fault.line,
        found=" and ".join([f"{graph} ({why})", *(fit.name for fit in others)]),
        expected=look + (f"; of {graph} {fault.expected}" if fault.expected else ""),
    )


def _guessed_torus(source: Source, dialect: Dialect) -> Torus | None:
    """A torus that is large enough to count the tasks of mappings of coordinates or nodes."""
    file = (mapping_files(source.path) or [Path(source.path)])[0]
    words = [re.findall("[0-9]+", line) for _, line in Source(file).text.lines()]
    widths = {len(row) for row in words}
    if dialect.name == "bluegene" and len(widths) == 1:
        sizes = [max(int(number) + 1 for number in column) for column in zip(*words, strict=True)]
        sizes = sizes[:-1]
    elif dialect.name in ("nodes", "named-lines", "table"):
        sizes = [1 + max((int(number) for row in words for number in row), default=0)]
    else:
        return None
    try:
        return Torus(tuple(sizes))
    except InputError:
        return None


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the report in lines for people."""
    kinds = [f"{f['format']}, a {NOUNS[f['holds']]}: {f['what it is']}" for f in report["fits"]]
    if "is" in report and not report["faults"]:
        kinds = [f"{report['is']}; {report['remedy']}"]
    yield f"{report['file']}: {' or '.join(kinds) or report.get('is', 'not known')}"
    if "points" in report:
        yield f"{counted(report['points'], 'point')} of {', '.join(report['parameters'])}"
    if "edges" in report:
        yield from _graph_lines(report)
    yield from report.get("about", ())
    for key in ("mappings", "times"):
        if key in report:
            of = f" of {counted(report['tasks'], 'task')}" if "tasks" in report else ""
            yield f"{counted(report[key], key[:-1])}{of}"
    if "torus" in report:
        sizes = f"{counted(report['nodes'], 'node')}, {counted(report['links'], 'link')} one way"
        yield f"{report['torus']}: {sizes}"
    if "hosts" in report:
        yield counted(report["hosts"], "host")
    may_map = any(f["holds"] == "mapping" for f in report["fits"]) and "mappings" not in report
    if may_map and not report["faults"]:
        names = [fit["format"] for fit in report["fits"] if fit["holds"] == "mapping"]
        needed = "--torus is needed to look into it"
        if len(names) > 1:
            needed += f"; where both fit, --format {' or '.join(names)} says which"
        yield f"as a mapping: {report.get('no_mapping', needed)}"
    yield from (f"note: {note}" for note in report["notes"])
    yield from (f"fault: {fault}" for fault in report["faults"])


def _graph_lines(report: dict[str, Any]) -> Iterator[str]:
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
    yield ", ".join(parts)
    if report["isolated"]:
        names = ", ".join(map(str, report["first_isolated"]))
        more = ", ..." if report["isolated"] > len(report["first_isolated"]) else ""
        yield f"{counted(report['isolated'], 'task')} without traffic: {names}{more}"
