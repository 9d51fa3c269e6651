"""``toruscast doctor``: what files are, what is in them and what is wrong with them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Table
from toruscast.errors import InputError
from toruscast.mapping.omissions import describe_omissions
from toruscast.text import counted, nbytes, one_line

from .app import WRONG_INPUT
from .options import Placing, Reading, TorusOptions, argument, sub_command
from .output import Output
from .problem import graph_line, load_torus
from .slow import dialects, readers, registry, sources

if TYPE_CHECKING:
    from toruscast.formats.dialect import Dialect
    from toruscast.formats.source import Source
    from toruscast.mapping import Torus

# Files that no format of the registry is: their start, a name inside, and what they are.
_OTHERS = {
    "model": (b"PK", b"metadata.npy", "a model for --model"),
    "samples": (b"PAR1", b"toruscast samples", "samples for --samples"),
    "measurements": (b"PK", b"experiment.json", "measurements{}; 'toruscast pmnf fit' reads them"),
}
_MEASUREMENTS = (".csv", ".json", ".jsonl", ".txt")


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
    report: dict[str, Any] = {"file": file, "fits": [], "faults": [], "notes": [], "summary": []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            source = sources.Source(file, torus=torus)
            other = _other_kind(source)
            fits = [] if other else _fits(source, reading)
        except InputError as error:
            return report | {"faults": [str(error)]}
        report["fits"] = [{"format": d.name, "holds": d.holds, "what it is": d.title} for d in fits]
        kinds: list[str] = list(dict.fromkeys(fit.holds for fit in fits))
        may_be_measurements = file.lower().endswith(_MEASUREMENTS)
        if other:
            kinds, report["is"] = [other], _OTHERS[other][2].format("")
        elif not kinds or may_be_measurements:
            kinds = kinds or ["mapping" if Path(file).is_dir() else "graph"]
            kinds.append("measurements")
        for kind in kinds:
            try:
                report |= _contents(kind, source, fits, reading, placing) | {"faults": []}
                break
            except InputError as error:
                if kind != "measurements" or other or may_be_measurements:
                    report["faults"].append(str(error))
    return report | {"notes": [str(warning.message) for warning in caught]}


def _other_kind(source: Source) -> str | None:
    """Return which file without a format of the registry this is, by its content."""
    for kind, (start, name, _) in _OTHERS.items():
        if source.start.startswith(start) and name in source.data:
            return kind
    return None


def _fits(source: Source, reading: Reading) -> list[Dialect]:
    """Return the dialects of a file: those that the caller names, or those that it fits."""
    for holds in ("graph", "mapping"):
        if (name := reading.format_of(holds)) != "auto":
            return [registry.dialect_of(name, holds)]
    if reading.columns:
        return [registry.dialect_of("table", "graph")]
    return registry.formats_of(source)


def _contents(
    kind: str, source: Source, fits: list[Dialect], reading: Reading, placing: Placing
) -> dict[str, Any]:
    """Return what the reader of one kind of files finds, with a ``summary`` for people."""
    file, torus = os.fspath(source.path), source.torus
    if kind == "graph":
        workload = tc.read_workload(file, include=reading.include, **reading.how)
        about = [line for fit in fits for line in fit.describe(source)]
        facts = readers.graph_facts(workload) | {"about": about}
        facts["omitted"] = list(map(asdict, workload.omitted))
        omitted = filter(None, [describe_omissions(workload.omitted)])
        # Some formats describe what is omitted as well.
        return facts | {"summary": [*dict.fromkeys([*_graph_lines(facts), *omitted, *about])]}
    if kind == "torus":
        host = tc.read_torus(file)
        links = counted(host.n_existing_links, "directed link")
        sizes = f"{counted(host.n_nodes, 'node')}, {links}"
        facts = {"torus": str(host), "nodes": host.n_nodes, "links": host.n_existing_links}
        return facts | {"summary": [f"{host}: {sizes}"]}
    of, more = "", dict[str, Any]()
    if kind in ("mapping", "hosts"):
        if torus is None:
            raise InputError("no torus to read it for", file=file, expected="--torus TORUS")
        if kind == "mapping":
            mappings = tc.read_mappings(file, torus, **placing.how)
            more = {"tasks": mappings[0].n_tasks}
            more |= {"is": "a folder of mappings"} if Path(file).is_dir() else {}
            key, n, of = "mappings", len(mappings), f" of {counted(more['tasks'], 'task')}"
        else:
            key, n = kind, len(tc.read_hosts(file, torus).names)
    elif kind == "times":
        key, n = kind, len(tc.read_times(file))
    elif kind == "samples":
        key, n = kind, len(tc.training.read_samples(file))
    elif kind == "model":
        key, n = "features", tc.load_predictor(file).n_features_in_
    else:
        found = tc.scaling.read_measurements(file)
        key, n = "points", sum(len(each.points) for each in found)
        of = f" by {', '.join(found[0].parameters)}"
    if kind in _OTHERS:
        return {key: n, "summary": [counted(n, key[:-1])], "is": _OTHERS[kind][2].format(of)}
    return {key: n, "summary": [f"{counted(n, key[:-1])}{of}"], **more}


def _graph_lines(facts: dict[str, Any]) -> Iterator[str]:
    line = graph_line(facts) + (", symmetric" if facts["symmetric"] else ", not symmetric")
    if facts["phases"] > 1:
        line += f", {counted(facts['phases'], 'phase')}"
    if facts["to_itself"]:
        line += f", {nbytes(facts['to_itself'])} of tasks to themselves"
    yield line
    if facts["isolated"]:
        names = ", ".join(map(str, facts["first_isolated"]))
        more = ", ..." if facts["isolated"] > len(facts["first_isolated"]) else ""
        yield f"{counted(facts['isolated'], 'task')} without traffic: {names}{more}"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the report in lines for people."""
    kinds = [
        f"{f['format']}, a {dialects.NOUNS[f['holds']]}: {f['what it is']}" for f in report["fits"]
    ]
    yield f"{report['file']}: {report.get('is') or ' or '.join(kinds) or 'not known'}"
    yield from report["summary"]
    yield from (f"note: {note}" for note in report["notes"])
    yield from (f"fault: {fault}" for fault in report["faults"])
