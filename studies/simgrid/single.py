"""Single messages and pairs of them, which tell routes, shares and limits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import toruscast as tc
from toruscast.simulation import simulate_flows

from ..study import Findings, Inputs, Target
from .engine import AS_IT_COMES, CROSSED, PLAIN, Engine
from .networks import links_alone, whole

SHAPE = (4, 4, 4)
NBYTES = 1e6
Nodes = NDArray[np.integer]
Ends = tuple[tuple[int, int, int], tuple[int, int, int]]
ORIGIN, X, Y, Z = (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)
CASES: dict[str, Sequence[Ends]] = {
    "one hop": [(ORIGIN, X)],
    "three hops, one in each dimension": [(ORIGIN, (1, 1, 1))],
    "along X and Y, beside one along X": [(ORIGIN, (1, 1, 0)), (ORIGIN, X)],
    "along X and Y, beside one along Y": [(ORIGIN, (1, 1, 0)), (ORIGIN, Y)],
    "along Y and Z, beside one along Y": [(ORIGIN, (0, 1, 1)), (ORIGIN, Y)],
    "half-way from 0, beside one plus": [(ORIGIN, (2, 0, 0)), (ORIGIN, X)],
    "half-way from 1, beside one plus": [(X, (3, 0, 0)), (X, (2, 0, 0))],
    "half-way to 0, beside one minus": [((2, 0, 0), ORIGIN), ((2, 0, 0), X)],
    "half-way from 3, beside one plus": [((3, 0, 0), X), ((3, 0, 0), ORIGIN)],
    "along X and Y, beside one along Y and Z": [(ORIGIN, (1, 1, 0)), (ORIGIN, (0, 1, 1))],
    "one hop, in 4,000 messages of 250 B": [(ORIGIN, X)],
    "there and back over one link": [(ORIGIN, X), (X, ORIGIN)],
    "from one node in six directions": [
        (ORIGIN, end) for end in (X, Y, Z, (3, 0, 0), (0, 3, 0), (0, 0, 3))
    ],
    "from six sides to one node": [
        (start, ORIGIN) for start in (X, Y, Z, (3, 0, 0), (0, 3, 0), (0, 0, 3))
    ],
}
N_MESSAGES = {"one hop, in 4,000 messages of 250 B": 4000}


def run(inputs: Inputs) -> Findings:
    """Send a message or a few of 1 MB and compare when the last one arrives."""
    bare = links_alone(SHAPE)
    engine = Engine.from_torus(bare, inputs.work)
    rows = []
    for name, ends in CASES.items():
        src, dst = (bare.node(np.array(side)) for side in zip(*ends, strict=True))
        size, count = np.full(len(ends), NBYTES), N_MESSAGES.get(name, 1)
        theirs = {
            "SimGrid": PLAIN,
            "with cross-traffic": CROSSED,
            "as it comes": AS_IT_COMES,
        }
        rows.append(
            {"1 MB each": name}
            | {k: engine.times(src, dst, size, how).max() * 1e6 for k, how in theirs.items()}
            | {
                "our links alone": _ours(bare, src, dst, count) * 1e6,
                "our whole machine": _ours(whole(SHAPE), src, dst, count) * 1e6,
            }
        )
    table = pd.DataFrame(rows)
    miss = (table["our links alone"] / table["SimGrid"] - 1).abs().max()
    return Findings(
        "A second message reveals the route of the first, because both slow down if they share a "
        "link. SimGrid routes the first coordinate first, as we do. If both directions are "
        "equally long, it chooses the direction of our tie rule `simgrid` (plus, but minus "
        "towards coordinate 0). SimGrid numbers hosts with the first coordinate fastest, and we "
        "number nodes with the last one fastest. If our node numbers are used as host numbers, "
        "the dimensions are in reverse order. In both simulators, the shares of messages on a "
        "link are inversely proportional to their hops.\n\n"
        "SimGrid does not model headers (32 B per 512 B), software time (half a microsecond per "
        "message, which matters in the row of 4,000 messages), injection FIFOs (which matter in "
        "the row of two messages that share no link, but share a FIFO) and limits of reception. "
        f"If we do not model them either, our times differ from SimGrid's by at most {miss:.2%}. "
        "SimGrid's cross-traffic uses 5 % of the links in the opposite direction. Its default "
        "model takes away 3 % of the bandwidth and multiplies the latency by 13, to model TCP "
        "over Ethernet. Times are in microseconds.",
        {"single-messages": table},
        {"The last message arrives after (us)": table.round(1)},
        (Target("largest difference of single messages", float(miss), 0.01, "at most"),),
    )


def _ours(torus: tc.Torus, src: Nodes, dst: Nodes, count: int) -> float:
    """Return the time of our flows, a task on every node."""
    every = tc.TaskMapping(np.arange(torus.n_nodes), torus)
    comm = tc.CommGraph(
        torus.n_nodes, src, dst, np.full(src.size, NBYTES), np.full(src.size, count)
    )
    return simulate_flows(comm, torus, every).time
