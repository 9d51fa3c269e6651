"""Families of readers for hostile input: small files to begin from, and how each is read."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from format_examples import example_bytes

import toruscast as tc
from toruscast._mesh.devices import read_devices
from toruscast._mesh.hlo import read_hlo
from toruscast._mesh.traffic import parse_axes, parse_traffic
from toruscast.cli.problem import change_links, restrict_nodes
from toruscast.decision.runs import Runs
from toruscast.errors import InputError
from toruscast.formats import read_hosts, read_mappings, read_runs, read_torus, read_workload
from toruscast.formats.readers import graph_facts
from toruscast.formats.registry import dialects, find_dialect, match_dialects
from toruscast.formats.source import Source
from toruscast.scaling import read_jobs, read_measurements
from toruscast.scaling.codesign import read_application
from toruscast.training import TimePredictor, load_predictor, read_samples, save_predictor
from toruscast.training.store import write_samples

SQUARE = tc.Torus((2, 2))
_SHAPES = ((2, 2), (4, 4), (2, 2, 2), (4, 4, 4), (2, 2, 2, 2, 2), (4, 4, 4, 4, 2), (8, 4))
_WORDS = (tc.torus, parse_axes, parse_traffic, SQUARE.read_link)


@dataclass(frozen=True)
class Family:
    """Readers of one kind of file.

    Parameters
    ----------
    suffix : str
        What the names of its files end in.
    seeds : tuple of bytes
        Files to begin from.
    read : callable
        Path -> what the file holds; an `InputError` where it is none.
    """

    suffix: str
    seeds: tuple[bytes, ...]
    read: Callable[[Path], object]


def families() -> dict[str, Family]:
    """Return every family by its name: the dialects of the registry, then all other files."""
    found = {
        f"{dialect.holds}-{dialect.name}": Family(
            (*dialect.suffixes, "")[0] if dialect.name != "table" else ".csv",
            (_example(dialect),),
            _reader(dialect),
        )
        for dialect in dialects()
        if dialect.read and not dialect.needs
    }
    return found | _others()


def _example(dialect):
    return example_bytes(dialect) or b"c00\nc01\nc02\nc03\n"


def _reader(dialect):
    name = dialect.name
    if dialect.holds == "graph":
        return lambda path: _checked(read_workload(path, format=name, duplicates="sum"))
    if dialect.holds == "torus":
        return lambda path: read_torus(path, format=name)
    if dialect.holds == "hosts":
        return lambda path: read_hosts(path, SQUARE)
    if dialect.holds == "times":
        return lambda path: Runs.from_times({run.mapping: run.time for run in read_runs(path)})
    torus, hosts = _place(dialect)
    return lambda path: [
        mapping.check(mapping.n_tasks, torus)
        for mapping in read_mappings(path, torus, hosts=hosts, format=name)
    ]


def _place(dialect):
    """The first torus on which the example of a mapping fits, with hosts of its names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "example"
        path.write_bytes(_example(dialect))
        for shape in _SHAPES:
            torus = tc.Torus(shape)
            names = [f"c{i:02d}" for i in range(torus.n_nodes)]
            for hosts in (tc.Hosts(names, range(torus.n_nodes), torus), None):
                with suppress(InputError):
                    read_mappings(path, torus, hosts=hosts, format=dialect.name)
                    return torus, hosts
    return SQUARE, None


def _checked(workload):
    # Commands describe every graph.
    graph_facts(workload)
    comm = workload.total
    assert comm.src.size == 0 or max(comm.src.max(), comm.dst.max()) < comm.n_tasks
    assert np.isfinite(comm.nbytes).all()
    assert (comm.nbytes >= 0).all()
    return comm


def _any(path):
    """Guess the format of a file as every command does, and read it as what it seems to be."""
    for dialect in match_dialects(Source(path, torus=SQUARE)):
        with suppress(InputError):
            if dialect.holds == "graph":
                read_workload(path)
            elif dialect.holds == "mapping":
                read_mappings(path, SQUARE)


def _words(path):
    text = path.read_bytes().decode(errors="replace")
    for read in _WORDS:
        with suppress(InputError):
            read(text)


def _written(write, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        write(path)
        return path.read_bytes()


def _model():
    model = TimePredictor(n_estimators=3).fit(np.eye(6), np.arange(1.0, 7.0))
    return _written(lambda path: save_predictor(model, path), ".npz")


def _samples():
    labels = {name: ["a", "b"] for name in ("workload", "torus", "mapping", "key")}
    table = pd.DataFrame({**labels, "max_bytes": [1.0, 2.0], "time": [1e-6, 2e-6]})
    return _written(lambda path: write_samples(table, path, {}), ".parquet")


def _project():
    content = {
        "parameters": ["p"],
        "measurements": {"main": {"time": [{"coordinate": [p], "median": p} for p in (2, 4)]}},
    }
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr("experiment.json", json.dumps(content))
    return stored.getvalue()


_TEXT = b"PARAMETER p\nPOINTS 2 4 8\nREGION main\nMETRIC time\nDATA 1 2\nDATA 3 4\nDATA 5 6\n"
_RECORD = {"params": {"p": 2}, "metric": "time", "callpath": "main", "value": 1.5}
_OBJECT = {
    "parameters": ["p"],
    "measurements": {"main": {"time": [{"point": [p], "values": [1.5]} for p in (2, 4, 8)]}},
}
_NESTED = b"PARAMETER x\nPARAMETER y\nPOINTS ((1) (2)) ((3) (4))\nDATA 5 6\nDATA 7\n"
_TALPAS = b'{"parameters":{"x":2};"metric":"time";"callpath":"a;b";"value":2.5}\n'
_NUMBERED = {
    "parameters": [{"id": 1, "name": "p"}],
    "metrics": [{"id": 1, "name": "time"}],
    "callpaths": [{"id": 1, "name": "main"}],
    "coordinates": [
        {"id": k, "parameter_value_pairs": [{"parameter_id": 1, "parameter_value": p}]}
        for k, p in enumerate((2, 4, 8))
    ],
    "measurements": [
        {"id": k, "metric_id": 1, "callpath_id": 1, "coordinate_id": k, "value": 1.5 * k}
        for k in range(3)
    ],
}
_JOBS = (
    b"job,interconnect,latency,bandwidth,messages,message_bytes,elapsed\n"
    b"a,slow,43e-6,112e6,1000000,2000,900\na,fast,22e-6,216e6,1000000,2000,800\n"
)
_TOML = b'name = "a"\n[requirements]\nbytes_used = "1e5 * n + 200 * p"\nflop = "n * log2(p)^2"\n'
_JSON = b'{"requirements": {"bytes_used": "1e5 * n", "flop": "1e7 * n * log2(p)"}}'


def _others():
    examples = tuple(_example(dialect) for dialect in dialects() if dialect.read)
    devices = _example(find_dialect("devices", "mapping"))
    hlo = _example(find_dialect("hlo", "graph"))
    lines = ["\n".join(json.dumps(_RECORD | {"params": {"p": p}}) for p in (2, 4)).encode()]
    documents = tuple(json.dumps(each, indent=1).encode() for each in (_OBJECT, _NUMBERED))
    return {
        "any": Family("", examples, _any),
        "words": Family("", (b"8x8x8m", b"tpu_v4:4x4x8", b"data=8,tensor=4", b"(0,1) +1"), _words),
        "model": Family(".npz", (_model(),), load_predictor),
        "samples": Family(".parquet", (_samples(),), read_samples),
        "devices": Family(".txt", (devices,), lambda path: read_devices(path, SQUARE)),
        "hlo": Family(".txt", (hlo,), read_hlo),
        "links": Family(".csv", (b'0,1e9\n"(0,1) +1",0\n',), _slowed),
        "allocation": Family(".csv", (b"node\n0\n3\n", b"0,1\n1,1\n"), _allocated),
        "measurements-text": Family(".txt", (_TEXT, _NESTED), read_measurements),
        "measurements-json": Family(".json", documents, read_measurements),
        "measurements-lines": Family(".jsonl", (*lines, _TALPAS), read_measurements),
        "measurements-csv": Family(".csv", (b"p,value\n2,1\n4,1.5\n8,3\n",), read_measurements),
        "measurements-project": Family(".extra-p", (_project(),), read_measurements),
        "jobs": Family(".csv", (_JOBS,), read_jobs),
        "application-toml": Family(".toml", (_TOML,), read_application),
        "application-json": Family(".json", (_JSON,), read_application),
    }


def _slowed(path):
    return change_links(SQUARE, str(path))


def _allocated(path):
    return restrict_nodes(SQUARE, str(path))
