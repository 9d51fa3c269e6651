"""Measure level-1 features of graphs that are held, and of those that are read in pieces.

    python benchmarks/stream.py --out FOLDER

Writes stream.csv: processor seconds and the most memory of a process of its own that opens a
Parquet table of a million tasks and computes the features of one mapping, compiled before. The
graphs are written to a temporary folder: 105 million edges take 0.4 GB there.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

import toruscast as tc
from toruscast.answers.machine import describe_machine

N_TASKS = 2**20
SHAPE = (16, 16, 16, 8, 2)
CASES = [("held", 1), ("held", 10), ("in pieces", 1), ("in pieces", 10), ("in pieces", 100)]
_TASKS_A_GROUP = 2**15
_FARTHEST = 4096


def write(path: Path, partners: int) -> None:
    """Write a graph in which each task sends to so many of those after it."""
    draw = np.random.default_rng(1)
    schema = pa.schema([("src", pa.int32()), ("dst", pa.int32()), ("nbytes", pa.float64())])
    schema = schema.with_metadata({"n_tasks": str(N_TASKS)})
    with parquet.ParquetWriter(path, schema) as writer:
        for first in range(0, N_TASKS, _TASKS_A_GROUP):
            task = np.arange(first, first + _TASKS_A_GROUP)
            ahead = 1 + np.sort(draw.choice(_FARTHEST, partners, replace=False))
            src = np.repeat(task, partners).astype(np.int32)
            dst = ((task[:, None] + ahead) % N_TASKS).ravel().astype(np.int32)
            nbytes = draw.integers(1, 10_000, src.size).astype(float)
            writer.write_table(pa.table([src, dst, nbytes], schema=schema))


def measure(way: str, path: Path) -> dict[str, float]:
    """Compute the features of one mapping in this process."""
    torus = tc.Torus(SHAPE)
    small = tc.CommGraph(2, [0], [1], [8])
    tc.extract(small, torus, tc.TaskMapping([0, 1], torus))
    mapping = tc.TaskMapping(np.arange(N_TASKS) // (N_TASKS // torus.n_nodes), torus)
    start = time.process_time()
    graph = tc.read_comm(path) if way == "held" else tc.stream_comm(path)
    tc.extract(graph, torus, mapping)
    seconds = time.process_time() - start
    return {"edges": graph.n_edges, "seconds": seconds, "bytes": peak()}


def peak() -> int:
    """Return the most memory that this process has held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Measure each case in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for stream.csv")
    parser.add_argument("--measure", nargs=2, metavar=("WAY", "FILE"), help="this case alone")
    arguments = parser.parse_args()
    if arguments.measure:
        way, path = arguments.measure
        print(json.dumps(measure(way, Path(path))))
        return
    if arguments.out is None:
        parser.error("--out is needed")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for way, partners in CASES:
            path = Path(folder) / f"{partners}.parquet"
            if not path.exists():
                write(path, partners)
            told = subprocess.run(
                [sys.executable, __file__, "--measure", way, path],
                check=True,
                capture_output=True,
                text=True,
            )
            rows.append({"way": way} | json.loads(told.stdout))
    table = pd.DataFrame(rows)
    table["bytes_an_edge"] = (
        table.groupby("way")["bytes"].diff() / table.groupby("way")["edges"].diff()
    )
    found = describe_machine()
    for name in ("cpu", "cores", "Python", "toruscast", "numpy", "numba"):
        table[name.lower()] = found[name]
    arguments.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(arguments.out / "stream.csv", index=False)
    print(table.to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
