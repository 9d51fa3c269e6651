"""All-to-alls against the bisection bound, on a cube and on a torus twice as long; writes CSV.

    python benchmarks/bisection.py --out FOLDER

Adaptive routing, eight packets a message, tasks on shuffled nodes so that not all of them send the
same way at the same time, and once on nodes in order, where they do. `reached` is the bound over
the time. For each dimension: the share of the time that its links send, and the packets in the
buffers behind them, on average.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from toruscast.mapping import MappingProblem, TaskMapping, Torus, patterns
from toruscast.routing import time_bounds
from toruscast.simulation import simulate

PACKETS = 8


def reached(shape: tuple[int, ...], shuffled: bool = True) -> dict[str, object]:
    """Return what an all-to-all reaches, and what its links do meanwhile."""
    torus = Torus(shape, tie_break="split")
    node = np.arange(torus.n_nodes)
    mapping = TaskMapping(np.random.default_rng(1).permutation(node) if shuffled else node, torus)
    comm = patterns.all_to_all(torus.n_nodes, 512.0 * PACKETS)
    result = simulate(comm, torus, mapping, routing="adaptive")
    bound = time_bounds(MappingProblem(comm, torus), mapping).link
    links = result.links().groupby("dimension")[["busy_share", "mean_buffered"]].mean()
    row: dict[str, object] = {
        "torus": str(torus),
        "tasks": "shuffled" if shuffled else "in order",
        "packets_a_message": PACKETS,
        "packet_hops": result.packet_hops,
        "reached": bound / result.time,
    }
    for d, (busy, buffered) in enumerate(links.to_numpy().tolist()):
        row |= {f"busy_{d}": busy, f"buffered_{d}": buffered}
    return row


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    cube, long = (8, 8, 8), (8, 8, 16)
    table = pd.DataFrame([reached(cube), reached(long), reached(cube, shuffled=False)])
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / "bisection.csv", index=False)
    print(table.to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    main()
