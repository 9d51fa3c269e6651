"""Profile the level-1 features, and compare each kernel with the speed of memory.

    python benchmarks/level_one.py --out FOLDER

The table has the processor seconds of each kernel for one mapping, the best of several profiled
runs. A stream over 256 MB in the same process gives the speed of the memory. The bytes of a kernel
are those that it reads or writes sequentially for a message. Random updates of link runs, nodes and
FIFOs are additional.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from run import best_of, case, machine, stream

import toruscast as tc

# Sequential bytes per message. Destinations and their codes are written and read again, 4 bytes
# each. The other columns have 8 bytes, except for the nodes of crossing messages.
PARTS = {
    "fill_hops_and_fifos": ("hops and FIFOs", 8 + 2 * 8),
    "sum_over_edges": ("loads, FIFOs and bounds in one pass", 12 + 8 + 5 * 8),
    "sum_run_loads_over_routes": ("loads along the routes", 12),
    "release_from_fifos": ("when messages leave their FIFOs", 32 + 24),
    "add_released_edges": ("bytes of links in the first quarter of the releases", 8),
    "select_flagged_edges": ("messages that meet a link that may be latest", 8),
    "last_busy_time": ("until when some link is busy", 0),
}
RUNS = {"16,384 tasks": 15, "1,048,576 tasks": 3}


def rows(size: str) -> Iterator[dict[str, Any]]:
    """Yield the seconds of each kernel, of the remaining code, and of all code, for one mapping.

    A problem is prepared once for all of its mappings, so that time has its own row.
    """
    comm, torus, mapping = case(size)
    problem = tc.MappingProblem(comm, torus)
    whole = best_of(lambda: tc.features(problem, mappings=[mapping]), RUNS[size])
    alone = best_of(lambda: tc.features(comm, torus, [mapping]), RUNS[size])
    numbers = np.zeros(2**25, dtype=np.int64)
    a_byte = best_of(lambda: stream(numbers), 5) / numbers.nbytes
    spent: dict[str, list[float]] = {name: [] for name in PARTS}
    for _ in range(RUNS[size]):
        profile = cProfile.Profile(time.process_time)
        profile.runcall(tc.features, problem, mappings=[mapping])
        found = pstats.Stats(profile).stats  # type: ignore[attr-defined]
        taken = {name: cumulated for (_, _, name), (*_, cumulated, _) in found.items()}
        for name in PARTS:
            spent[name].append(taken.get(name, 0.0))
    seconds = {name: min(values) for name, values in spent.items()}
    described = {name: (name, *PARTS[name]) for name in PARTS} | {
        "rest": ("", "the rest", 0),
        "whole": ("", "all level-1 features", sum(nbytes for _, nbytes in PARTS.values())),
        "problem": ("", "preparing the problem, once", 0),
    }
    rest = whole - sum(seconds.values())
    seconds |= {"rest": rest, "whole": whole, "problem": max(alone - whole, 0.0)}
    for name, (kernel, what, nbytes) in described.items():
        limit = nbytes * a_byte * comm.n_edges
        yield {
            "size": size,
            "messages": comm.n_edges,
            "part": what,
            "kernel": kernel,
            "seconds": seconds[name],
            "share": seconds[name] / whole,
            "ns_a_message": seconds[name] / comm.n_edges * 1e9,
            "bytes_a_message": nbytes,
            "stream_gb_per_second": 1e-9 / a_byte,
            "share_of_limit": limit / seconds[name] if limit and seconds[name] else None,
        }


def main() -> None:
    """Measure a small and a large graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for level-one.csv")
    folder = parser.parse_args().out
    table = pd.DataFrame([row for size in RUNS for row in rows(size)])
    folder.mkdir(parents=True, exist_ok=True)
    table.assign(**machine()).to_csv(folder / "level-one.csv", index=False)
    print(table.to_string(index=False, float_format="%.4g"))


if __name__ == "__main__":
    main()
