"""Compare all-to-alls with the bisection bound, on a cube and on a longer torus; writes CSV.

    python benchmarks/bisection.py --out FOLDER

Routing is adaptive, with eight packets per message. Tasks are on shuffled nodes, so that not all of
them send in the same direction at the same time. In one case they are on the nodes in order, where
they do. `reached` is the bound divided by the time. For each dimension, the table has the share of
time in which its links send, and the mean number of packets in the buffers behind them.
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
    """Return the ratio of bound to time of an all-to-all, and the use of its links."""
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
    """Simulate all cases and write the table."""
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
