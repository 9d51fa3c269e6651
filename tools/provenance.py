#!/usr/bin/env python3
"""Describe captures of `datasets/capture/capture.sh` in provenance.json and PROVENANCE.md.

    tools/provenance.py CAPTURE_FOLDER [NAME ...]

Copies the .prof.gz files of the given names, or of all names, from CAPTURE_FOLDER into the datasets
folder and computes every figure from the files. Entries of other datasets do not change. Needs
Python 3.11 and no other packages.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

DATASETS = Path(__file__).resolve().parents[1] / "datasets"
LICENCE = "BSD-3-Clause"
KINDS = {"E": "point_to_point", "I": "inside_collectives"}
EDGE = re.compile(r"([EI])\t(\d+)\t(\d+)\t(\d+) bytes\t(\d+) msgs sent")

INTRODUCTION = """\
# Where the datasets come from

Each `NAME.prof.gz` is the communication graph of one real run, measured with the monitoring that is
built into Open MPI: the text files of all ranks, verbatim, in rank order. The application, its
input and the command are given below. `capture/capture.sh NAME FOLDER` repeats a capture, and
`tools/provenance.py FOLDER` writes this page and `provenance.json` from the result. No figure
here was typed by hand. `tools/pack_datasets.py` writes the same edges to `NAME.npz`, which loads
faster.

The captures are measurements made for this project and are released under the licence of the
repository, BSD-3-Clause. The applications are not included: LAMMPS and Quantum ESPRESSO are free
software with licences of their own, and so is the pseudopotential that the latter reads from its
Debian package.

Besides the captures there are published tables as CSV, whose first lines name their sources.

The whole run is counted: start-up (for lammps-droplet-128 with a short minimisation, the first of
its two loops), the iterations given, and the final statistics. For traffic per iteration, divide.
The files hold no times. Repeating lammps-lj-64 on the same machine gave the same E, I and C lines
to the byte; only the order of the communicators differed. Another version of Open MPI may choose
other algorithms for collective operations, and so other I lines.

## What the lines say

Fields are separated by tabs. Counts are those of the sender.

| line | meaning |
|---|---|
| `E src dst N bytes M msgs sent [histogram]` | messages that the application sent itself |
| `I src dst N bytes M msgs sent [histogram]` | messages that collectives sent on its behalf |
| `C src dst N bytes M msgs sent` | collectives as they were called, spread over pairs of ranks |
| `D name procs: ...` | a communicator and its ranks; the next three lines belong to it |
| `O2A`, `A2O`, `A2A` | one-to-all, all-to-one and all-to-all operations on it |

C and I describe the same collective operations, before and after Open MPI chose an algorithm: never
add them. E and I are the messages that travelled. A histogram stands once for each pair of ranks,
on the E line if there is one and on the I line otherwise, and counts E and I together: bin 0 holds
the empty messages, bin k those of 2^(k-1) to 2^k - 1 bytes.
"""

PEERS = """
## Figures

Peers: distinct ranks that a rank sends to, as minimum / median / maximum. Asymmetry: the share of
the bytes that would have to be taken away for both directions of every pair to carry as much as
each other (0: symmetric, 1: one way only).

| dataset | ranks | iterations | traffic | edges | bytes | messages | peers | asymmetry |
|---|---|---|---|---|---|---|---|---|
"""


def traffic_figures(n_ranks: int, edges: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    """Summarise edges (source, destination, bytes, messages); ranks without peers count as zero."""
    volume = {(s, d): nbytes for s, d, nbytes, _ in edges}
    difference = sum(abs(nbytes - volume.get((d, s), 0)) for (s, d), nbytes in volume.items())
    # The loop meets a pair with traffic in one direction once, but it counts for both directions.
    difference += sum(nbytes for (s, d), nbytes in volume.items() if (d, s) not in volume)
    total = sum(volume.values())
    destinations = Counter(s for s, _ in volume)
    peers = [destinations[rank] for rank in range(n_ranks)]
    return {
        "edges": len(edges),
        "bytes": total,
        "messages": sum(messages for *_, messages in edges),
        "peers_per_rank": {
            "min": min(peers),
            "median": statistics.median(peers),
            "max": max(peers),
        },
        "asymmetry": round(difference / (2 * total), 6) if total else 0.0,
    }


def is_periodic_halo(grid: list[int], edges: list[tuple[int, int, int, int]]) -> bool:
    """Return whether the edges are exactly those of neighbours in a periodic grid in C order."""
    size = 1
    for length in grid:
        size *= length
    expected = set()
    for rank in range(size):
        stride = size
        for length in grid:
            stride //= length
            here = rank // stride % length
            for step in (-1, 1):
                expected.add((rank, rank + ((here + step) % length - here) * stride))
    return {(s, d) for s, d, *_ in edges} == expected


def printed_facts(log: str) -> dict[str, Any]:
    """Return the facts that the application printed about itself and its processor grid."""
    facts: dict[str, Any] = {"application": "", "process_grid": None}
    if match := re.search(r"^LAMMPS \((.+)\)", log, re.MULTILINE):
        facts["application"] = f"LAMMPS {match[1]}"
    elif match := re.search(r"Program PWSCF v\.(\S+)", log):
        facts["application"] = f"Quantum ESPRESSO pw.x {match[1]}"
    if match := re.search(r"(\d+) by (\d+) by (\d+) MPI processor grid", log):
        facts["process_grid"] = [int(length) for length in match.groups()]
    if match := re.search(r"Y-proc x Z-proc =\s+(\d+)\s+(\d+)", log):
        facts["fft_layout"] = [int(length) for length in match.groups()]
    if loops := re.findall(r"^Loop time of \S+ on \d+ procs for (\d+) steps", log, re.MULTILINE):
        facts["steps_of_each_loop"] = [int(steps) for steps in loops]
    if match := re.search(r"convergence has been achieved in\s+(\d+) iterations", log):
        facts["iterations"] = int(match[1])
    fft = r"(?:FFT dimensions: \(|^  grid = )\s*(\d+),?\s+(\d+),?\s+(\d+)"
    if match := re.search(fft, log, re.MULTILINE):
        facts["fft_grid"] = [int(length) for length in match.groups()]
    return facts


def describe(name: str, folder: Path) -> dict[str, Any]:
    """Return the provenance of one capture."""
    file = folder / f"{name}.prof.gz"
    run: dict[str, Any] = json.loads((folder / f"{name}.run.json").read_text())
    facts = printed_facts((folder / f"{name}.log").read_text())
    edges: dict[str, list[tuple[int, int, int, int]]] = {kind: [] for kind in KINDS}
    with gzip.open(file, "rt") as lines:
        for line in lines:
            if match := EDGE.match(line):
                source, destination, nbytes, messages = map(int, match.groups()[1:])
                edges[match[1]].append((source, destination, nbytes, messages))
    # The application may print a processor grid and then discard it; ignore that grid.
    grid = facts.pop("process_grid") if run["layout"] == "processor grid" else None
    data = file.read_bytes()
    record = {
        "file": file.name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "licence": LICENCE,
        **run,
        "process_grid": grid,
        **{key: value for key, value in facts.items() if key != "process_grid"},
        "traffic": {
            title: traffic_figures(run["ranks"], edges[kind]) for kind, title in KINDS.items()
        },
    }
    record["point_to_point_is_periodic_halo"] = (
        is_periodic_halo(grid, edges["E"]) if grid else False
    )
    return record


def page(records: dict[str, dict[str, Any]]) -> str:
    """Return the text of PROVENANCE.md."""
    parts = [INTRODUCTION, PEERS]
    for name, record in records.items():
        for title, figures in record["traffic"].items():
            peers = figures["peers_per_rank"]
            cells = [
                name,
                record["ranks"],
                record["iterations"],
                title.replace("_", " "),
                *(f"{figures[what]:,}" for what in ("edges", "bytes", "messages")),
                f"{peers['min']} / {peers['median']:g} / {peers['max']}",
                f"{figures['asymmetry']:.4f}",
            ]
            parts.append(f"| {' | '.join(map(str, cells))} |\n")
    for name, record in records.items():
        grid = record["process_grid"]
        layout = f"processor grid {' x '.join(map(str, grid))}" if grid else record["layout"]
        if record["point_to_point_is_periodic_halo"]:
            layout += ", rank numbers in C order; the E edges are exactly its periodic halo"
        loops = record.get("steps_of_each_loop")
        fft, ranks = record.get("fft_grid"), record.get("fft_layout")
        rows = {
            "file": f"`{record['file']}`, {record['bytes']:,} bytes",
            "sha256": f"`{record['sha256']}`",
            "application": record["application"],
            "Debian package": f"{record['package']} {record['package_version']}",
            "MPI": f"Open MPI, Debian package openmpi-bin {record['openmpi_version']}",
            "input": f"`{record['input']}`",
            "run": f"{record['ranks']} ranks, {record['iterations']} {record['iteration_unit']}",
            **({"loops": f"{' + '.join(map(str, loops))} steps"} if loops else {}),
            "layout": layout,
            **({"FFT grid": " x ".join(map(str, fft))} if fft else {}),
            **({"FFT ranks, y x z": " x ".join(map(str, ranks))} if ranks else {}),
            "command": f"`{record['command']}`",
            "captured": f"{record['date']}, {record['machine']}, {record['wall_seconds']:.0f} s",
            "licence": record["licence"],
        }
        parts.append(f"\n## {name}\n\n| | |\n|---|---|\n")
        parts.extend(f"| {key} | {value} |\n" for key, value in rows.items())
    return "".join(parts)


def main(arguments: list[str]) -> int:
    """Copy and describe the captures that the command line names."""
    if not arguments or not Path(arguments[0]).is_dir():
        print("usage: provenance.py CAPTURE_FOLDER [NAME ...]", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    names = arguments[1:] or sorted(
        file.name.removesuffix(".run.json") for file in folder.glob("*.run.json")
    )
    register = DATASETS / "provenance.json"
    records: dict[str, dict[str, Any]] = (
        json.loads(register.read_text()) if register.exists() else {}
    )
    for name in names:
        records[name] = describe(name, folder)
        shutil.copyfile(folder / f"{name}.prof.gz", DATASETS / f"{name}.prof.gz")
    records = dict(sorted(records.items()))
    register.write_text(json.dumps(records, indent=2) + "\n")
    (DATASETS / "PROVENANCE.md").write_text(page(records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
