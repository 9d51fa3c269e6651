"""Compare predicted link loads with packets counted on a Blue Gene/P, by code region."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast import CommGraph, InputError, TaskMapping, Torus
from toruscast.mapping import MappingProblem
from toruscast.routing import link_loads

from ..study import Findings, Inputs, Target
from .link_counters import read_link_counters

Floats = NDArray[np.float64]

FILE = "boxfish/example-data/bgpc_links.yaml"
SHAPE = (8, 8, 8)
# Minimum agreement for a pattern to count as found.
FOUND = 0.8
_SHOWN = ["region", "packets", "pattern", "correlation_kept"]


def neighbourhoods() -> dict[str, CommGraph]:
    """Return the candidate patterns: equal messages to all nearby tasks of a grid without wrapping.

    Examples
    --------
    >>> {name: graph.n_edges for name, graph in neighbourhoods().items()}["6 face neighbours"]
    2688
    """
    coords = np.indices(SHAPE).reshape(len(SHAPE), -1).T
    apart = np.abs(coords[:, None] - coords[None])
    steps, box = apart.sum(axis=2), apart.max(axis=2)
    near = {
        "6 face neighbours": steps == 1,
        "26 neighbours of the box": box == 1,
        "tasks within 2 steps": (steps > 0) & (steps <= 2),
        "tasks within 3 steps": (steps > 0) & (steps <= 3),
        "tasks within a box of 2": (box > 0) & (box <= 2),
    }
    n_tasks = len(coords)
    graphs = {}
    for name, mask in near.items():
        src, dst = np.nonzero(mask)
        graphs[name] = CommGraph(n_tasks, src, dst, np.ones(src.size))
    return graphs


def counted_packets(path: Path, torus: Torus) -> pd.DataFrame:
    """Read packets by directed link (rows, all links of the torus) and code region (columns).

    The counts of a region that was entered several times are added.

    Raises
    ------
    InputError
        If the file cannot be read, a row joins nodes that are no neighbours or counts less than
        nothing, a region lacks links, or nothing was counted.
    """
    table = read_link_counters(path)
    names = {"sx", "sy", "sz", "tx", "ty", "tz", "code_region", "packets"}
    if not names <= set(table.columns):
        found = sorted(table.columns)
        raise InputError("column missing", file=path, found=found, expected=sorted(names))
    ends = table[["sx", "sy", "sz", "tx", "ty", "tz"]].to_numpy()
    if (ends < 0).any() or (ends >= np.tile(SHAPE, 2)).any():
        raise InputError("node outside the torus", file=path, expected=f"coordinates of {SHAPE}")
    begin, end = torus.node(ends[:, :3]), torus.node(ends[:, 3:])
    beside = torus.neighbors[begin] == end[:, None]
    if not beside.any(axis=1).all():
        row = int(np.flatnonzero(~beside.any(axis=1))[0])
        raise InputError(
            "link between nodes that are no neighbours", file=path, found=ends[row].tolist()
        )
    negative = np.flatnonzero(table["packets"] < 0)
    if negative.size:
        least = int(table["packets"].iloc[negative[0]])
        raise InputError("bad packets", file=path, found=least, expected="a number from 0 on")
    link = begin * 2 * torus.ndim + beside.argmax(axis=1)
    packets = table.assign(link=link).pivot_table(
        index="link", columns="code_region", values="packets", aggfunc="sum"
    )
    if len(packets) != torus.n_links or packets.isna().to_numpy().any():
        raise InputError(
            "counters missing", file=path, expected=f"{torus.n_links} links in every region"
        )
    if not packets.to_numpy().any():
        raise InputError("counters without packets", file=path, expected="one above 0")
    return packets.astype(float)


def run(inputs: Inputs) -> Findings:
    """Find for each code region the neighbourhood that explains its counters, and how well.

    Raises
    ------
    InputError
        If the measurements are not found or cannot be read.
    """
    (path,) = inputs.files(FILE)
    torus = Torus(SHAPE)
    packets = counted_packets(path, torus)
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    loads = {
        name: np.asarray(link_loads(MappingProblem(graph, torus), mapping), dtype=float)
        for name, graph in neighbourhoods().items()
    }
    # Both directions of a link are in the same half, so the halves share no wire.
    node, direction = np.divmod(np.arange(torus.n_links), 2 * torus.ndim)
    lower = np.where(direction % 2 == 0, node, torus.neighbors.ravel())
    coords = np.stack(np.unravel_index(lower, SHAPE))
    choose = coords.sum(axis=0) % 2 == 0
    rows = []
    for region in packets.columns:
        counted = packets[region].to_numpy()
        if counted.max() == 0:
            continue
        fits = {name: _correlation(load[choose], counted[choose]) for name, load in loads.items()}
        best = max(fits, key=lambda name: fits[name])
        load = loads[best]
        kept = _correlation(load[~choose], counted[~choose])
        rows.append(
            {
                "region": int(region),
                "packets": counted.sum(),
                "pattern": best if kept >= FOUND else f"not known (best tried: {best})",
                "correlation_chosen_on": fits[best],
                "correlation_kept": kept,
                "correlation_all": _correlation(load, counted),
                "correlation_face_neighbours": _correlation(loads["6 face neighbours"], counted),
                "idle_links_agree": float(((load == 0) == (counted == 0)).mean()),
            }
        )
    regions = pd.DataFrame(rows)
    known = regions.set_index("region")["correlation_kept"]
    unknown = ", ".join(map(str, regions["region"][~(regions["correlation_kept"] >= FOUND)]))
    return Findings(
        f"A Blue Gene/P (8x8x8, one task per node) counted the packets on all {torus.n_links:,} "
        "directed links for each region of the code. The messages of the program were not "
        f"published. We therefore try {len(loads)} patterns for each region, in which every task "
        "sends equal messages to nearby tasks. We choose the pattern with the highest "
        "correlation on the links of even nodes, and evaluate it on the links of odd nodes."
        + (f" In region 1 the correlation is {known[1]:.4f}." if 1 in known else "")
        + (f" No pattern explains these regions: {unknown}." if unknown else ""),
        {"link-counts": regions},
        {"Correlation of counted packets with the best pattern": regions[_SHOWN]},
        tuple(
            Target(
                f"correlation with counted packets, region {region}",
                float(kept),
                0.99 if region == 1 else float("nan"),
            )
            for region, kept in known.items()
        ),
    )


def _correlation(x: Floats, y: Floats) -> float:
    return float(np.corrcoef(x, y)[0, 1]) if x.std() > 0 and y.std() > 0 else float("nan")
