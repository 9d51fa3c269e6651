"""``toruscast doctor``: what files are, what is in them and what is wrong with them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Table
from toruscast.errors import InputError
from toruscast.text import counted, nbytes, one_line

from .app import WRONG_INPUT
from .options import Placing, Reading, TorusOptions, argument, sub_command
from .output import Output
from .slow import dialects, guess, readers, registry, sources
from .torus import load_torus

if TYPE_CHECKING:
    from toruscast.formats.dialect import Dialect
    from toruscast.formats.source import Source
    from toruscast.mapping import Torus

# Files that no format of the registry is, by their suffixes.
_OTHERS = {
    "model": (".npz", ".skops"),
    "samples": (".parquet",),
    "measurements": (".extra-p", ".csv", ".json", ".jsonl", ".txt"),
}


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
        answers.blocks.of_table(
            head, Table(pd.DataFrame(reports), ()), below=texts, content={"files": reports}
        )
    )
    return WRONG_INPUT if bad else 0


def _report(file: str, torus: Torus | None, reading: Reading, placing: Placing) -> dict[str, Any]:
    """Return what the first reader that takes a file finds in it, or why all refuse it."""
    report: dict[str, Any] = {"file": file, "fits": [], "faults": [], "notes": []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            source = sources.Source(file, torus=torus)
            fits = _fits(source, reading)
        except InputError as error:
            return report | {"faults": [str(error)]}
        report["fits"] = [{"format": d.name, "holds": d.holds, "what it is": d.title} for d in fits]
        for kind in _kinds(source, fits):
            try:
                report |= _contents(kind, source, fits, reading, placing) | {"faults": []}
                break
            except InputError as error:
                report["faults"].append(str(error))
    return report | {"notes": [str(warning.message) for warning in caught]}


def _fits(source: Source, reading: Reading) -> list[Dialect]:
    """Return the dialects of a file: those that the caller names, or those that it fits."""
    for holds in ("graph", "mapping"):
        if (name := reading.format_of(holds)) != "auto":
            return [registry.dialect_of(name, holds)]
    return [registry.dialect_of("table", "graph")] if reading.columns else guess.formats_of(source)


def _kinds(source: Source, fits: list[Dialect]) -> list[str]:
    """Return what a file may hold, the likeliest first."""
    file = os.fspath(source.path)
    kinds: list[str] = list(dict.fromkeys(fit.holds for fit in fits))
    kinds = kinds or ["mapping" if Path(file).is_dir() else "graph"]
    return [*kinds, *(kind for kind, suffixes in _OTHERS.items() if file.endswith(suffixes))]


def _contents(
    kind: str, source: Source, fits: list[Dialect], reading: Reading, placing: Placing
) -> dict[str, Any]:
    """Return what the reader of one kind of files finds."""
    file, torus = os.fspath(source.path), source.torus
    match kind:
        case "graph":
            workload = tc.read_workload(file, include=reading.include, **reading.how)
            about = [line for fit in fits for line in fit.describe(source)]
            return readers.graph_facts(workload) | {"phases": len(workload), "about": about}
        case "mapping" | "hosts" if torus is None:
            raise InputError("no torus to read it for", file=file, expected="--torus TORUS")
        case "mapping" if torus is not None:
            mappings = tc.read_mappings(file, torus, **placing.how)
            return {"mappings": len(mappings), "tasks": mappings[0].n_tasks}
        case "hosts" if torus is not None:
            return {"hosts": len(tc.read_hosts(file, torus).names)}
        case "torus":
            host = tc.read_torus(file)
            return {"torus": str(host), "nodes": host.n_nodes, "links": host.n_existing_links}
        case "times":
            return {"times": len(tc.read_times(file))}
        case "samples":
            return {"samples": len(tc.training.read_samples(file)), "is": "samples for --samples"}
        case "model":
            return {"features": tc.load_predictor(file).n_features_in_, "is": "a model for --model"}
    found = tc.scaling.read_measurements(file)
    names = ", ".join(found[0].parameters)
    points = sum(len(each.points) for each in found)
    return {"points": points, "is": f"measurements by {names}; 'toruscast pmnf fit' reads it"}


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the report in lines for people."""
    kinds = [
        f"{f['format']}, a {dialects.NOUNS[f['holds']]}: {f['what it is']}" for f in report["fits"]
    ]
    yield f"{report['file']}: {report.get('is') or ' or '.join(kinds) or 'not known'}"
    if "edges" in report:
        yield from _graph_lines(report)
    for key in ("points", "mappings", "times", "hosts", "samples", "features"):
        if key in report:
            of = f" of {counted(report['tasks'], 'task')}" if "tasks" in report else ""
            yield f"{counted(report[key], key[:-1])}{of}"
    if "torus" in report:
        sizes = f"{counted(report['nodes'], 'node')}, {counted(report['links'], 'link')} one way"
        yield f"{report['torus']}: {sizes}"
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
    yield from report["about"]
