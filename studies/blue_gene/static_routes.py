"""Compare computed routes with routes recorded on Blue Gene/Q, link by link."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast import InputError
from toruscast.routing import routes

from ..study import Findings, Inputs, Target
from .recorded_routes import read_hop_bytes, read_static_routes

ROUTES = "par-comm-data/route/*_route.txt"
HOPS = "par-comm-data/hopbyte/*_hopbyte.txt"
# Mira's block of 1024 nodes does not wrap along D. Its block of 2048 differs from the preset.
OPEN_IN_D = 1024
SHAPE_OF_2048 = (4, 4, 4, 16, 2)


def block_of(path: Path) -> tuple[tc.Torus, int]:
    """Return the torus of a run and its ranks per node, from the name of its file.

    Raises
    ------
    InputError
        If the name does not contain them, or the block is unknown.

    Examples
    --------
    >>> torus, ranks = block_of(Path("MiniMD_Vesta_n128_c4_w_route.txt"))
    >>> torus.shape, ranks
    ((2, 2, 4, 4, 2), 4)
    """
    match = re.search(r"_n(\d{1,6})_c(\d{1,3})(?=_)", path.name)
    if not match or int(match[2]) == 0:
        raise InputError("unknown block", file=path, expected="_n<nodes>_c<ranks>_")
    nodes = int(match[1])
    wrap = (True, True, True, nodes != OPEN_IN_D, True)
    if nodes == math.prod(SHAPE_OF_2048):
        return tc.machines.bluegene_q(SHAPE_OF_2048, wrap=wrap), int(match[2])
    try:
        return tc.machines.bluegene_q(nodes=nodes, wrap=wrap), int(match[2])
    except InputError as error:
        raise InputError(
            error.message, file=path, found=error.found, expected=error.expected
        ) from None


def compare_routes(path: Path) -> dict[str, object]:
    """Return how many recorded routes of a file are reproduced.

    Returns
    -------
    dict
        ``dataset, routes, reproduced, links, links_reproduced``; a route is reproduced if its
        links are those computed, all of them and no other.

    Raises
    ------
    InputError
        If the file cannot be read, or its coordinates are not those of the block.
    """
    torus, ranks = block_of(path)
    table = read_static_routes(path)
    ends = {}
    for side in ("begin", "end"):
        coords = table[[f"{side}_{name}" for name in "abcde"]].to_numpy()
        if (coords >= np.array(torus.shape)).any():
            raise InputError("node outside the block", file=path, expected=f"{torus.shape}")
        ends[side] = torus.node(coords)
    recorded = pd.DataFrame({"src": table["src"], "dst": table["dst"], **ends}).drop_duplicates()
    pairs = recorded[["src", "dst"]].drop_duplicates()
    if pairs.to_numpy().max() >= torus.n_nodes * ranks:
        raise InputError("rank outside the block", file=path, expected=f"{torus.n_nodes} nodes")
    first, links = routes(torus, *(pairs.to_numpy() // ranks).T)
    which = np.repeat(np.arange(len(pairs)), np.diff(first))
    computed = pairs.iloc[which].assign(
        begin=links // (2 * torus.ndim), end=torus.neighbors.ravel()[links]
    )
    both = recorded.merge(computed.drop_duplicates(), how="outer", indicator="where")
    agree = both["where"] == "both"
    right = agree.groupby([both["src"], both["dst"]]).all()
    return {
        "dataset": path.name.removesuffix("_route.txt"),
        "routes": len(right),
        "reproduced": int(right.sum()),
        "links": len(recorded),
        "links_reproduced": int(agree.sum()),
    }


def compare_hops(path: Path) -> dict[str, object]:
    """Return how many recorded hop counts of a file equal the distance.

    Raises
    ------
    InputError
        If the file cannot be read, or names a rank outside its block.
    """
    torus, ranks = block_of(path)
    table = read_hop_bytes(path)
    nodes = table[["src", "dst"]].to_numpy() // ranks
    if nodes.max() >= torus.n_nodes:
        raise InputError("rank outside the block", file=path, expected=f"{torus.n_nodes} nodes")
    equal = torus.distance(nodes[:, 0], nodes[:, 1]) == table["hops"].to_numpy()
    return {
        "dataset": path.name.removesuffix("_hopbyte.txt"),
        "pairs": len(table),
        "equal_hops": int(equal.sum()),
    }


def run(inputs: Inputs) -> Findings:
    """Compare every recorded route and hop count; files that cannot be used are omitted.

    Raises
    ------
    InputError
        If the measurements are not found, or none can be used.
    """
    unusable: dict[str, str] = {}
    found = _each(compare_routes, inputs.files(ROUTES), unusable)
    hops = _each(compare_hops, inputs.files(HOPS), unusable)
    routes_right = float(found["reproduced"].sum() / found["routes"].sum())
    hops_right = float(hops["equal_hops"].sum() / hops["pairs"].sum())
    left_out = "".join(f" Left out: {name} ({why})." for name, why in unusable.items())
    return Findings(
        f"The Blue Gene/Q machines Mira and Vesta recorded {found['routes'].sum():,} routes, and "
        f"the number of hops for {hops['pairs'].sum():,} pairs. {routes_right:.2%} of the "
        f"computed routes agree in every link, and {hops_right:.2%} of the hop counts agree. We "
        "compute the order of dimensions as the firmware does. Two facts come from these routes: "
        "the tie rule (if both directions are equally long, plus from an even coordinate and "
        "minus from an odd one), and that the block of 1024 nodes does not wrap in D. The two "
        "links of a ring of two nodes join the same nodes, so they cannot be distinguished."
        + left_out,
        {"static-routes": found, "static-hops": hops},
        targets=(
            Target("share of recorded routes reproduced link for link", routes_right, 1.0),
            Target("share of recorded hop counts equal to the distance", hops_right, 1.0),
        ),
    )


def _each(
    compare: Callable[[Path], dict[str, object]], files: list[Path], unusable: dict[str, str]
) -> pd.DataFrame:
    """Compare each file; add the faults of files that cannot be used to ``unusable``."""
    rows = []
    for path in files:
        try:
            rows.append(compare(path))
        except InputError as error:
            unusable[path.name] = error.message
    if not rows:
        raise InputError(
            "no file can be used", file=files[0].parent, found="; ".join(unusable.values())
        )
    return pd.DataFrame(rows)
