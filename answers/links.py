"""Busy time of each link under several mappings, and the task pairs that load it."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy_modules
from toruscast._slow import pandas as pd
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.text import shown_name
from toruscast.typing import Floats, Int32s, Ints

if TYPE_CHECKING:
    from toruscast._features import traffic as routed
    from toruscast.routing import routing
else:
    globals().update(lazy_modules(__name__))

# Maximum number of busy times on a page, and minimum number of candidates. With these, a page has
# 400 kB for 512 tasks and 2 MB for 16,384 tasks.
_MAX_BUSY_TIMES, _MIN_CANDIDATES = 130_000, 3
# Maximum links with task pairs on a page, maximum pairs per link, and the mark of an absent pair.
_MAX_LINKS_WITH_PAIRS, MAX_PAIRS, NO_TASK = 1200, 3, -1
# Task pairs are not computed if all edges together have more hops than this.
_MAX_HOPS = 20_000_000
# Maximum height of a grid of links, in pixels.
_MAX_HEIGHT = 330.0
# Area of all cells of a link map, in square pixels.
_MAP_AREA = 220_000
# Width of the coordinates beside a row, and of the smallest cells that have them, in pixels.
_LABEL_WIDTH, _MIN_LABELLED = 24, 5
# A page stores a busy time in one byte: 0 to 250, where 250 is the busiest link, or 255 for none.
STEPS, MISSING = 250, 255
BARS = " ▁▂▃▄▅▆▇█"
"""Characters that a terminal prints for a busy time, from idle to the busiest link."""


class Candidate(NamedTuple):
    """A mapping, and the time of the whole exchange under it: predicted, simulated or measured."""

    name: str
    mapping: TaskMapping
    time: float


class LinkPairs(NamedTuple):
    """The task pairs that send the most bytes over each of ``n`` links.

    ``links`` are link numbers ``(n,)``. ``tasks`` are senders and receivers, ``(n, MAX_PAIRS, 2)``,
    padded with `NO_TASK`. ``nbytes`` has the shape ``(n, MAX_PAIRS)``.
    """

    links: Ints
    tasks: Int32s
    nbytes: Floats


class LinkUse(NamedTuple):
    """Busy time of each link under a candidate, and the task pairs that load it.

    ``time`` is the time of the whole exchange. ``busy`` is in seconds. Its shape is ``(n_links,)``,
    or ``(n_parts, n_links)`` if busy times are known for each part of a step.
    """

    name: str
    time: float
    busy: Floats
    pairs: LinkPairs | None = None

    @property
    def seconds(self) -> Floats:
        """Busy seconds of each link, ``(n_links,)``."""
        total: Floats = np.atleast_2d(self.busy).sum(axis=0)
        return total


@dataclass(frozen=True)
class LinkMap:
    """A map of all links that shows their busy times under several mappings.

    ``make_uses(n)`` returns the link use of at most ``n`` mappings: the best mapping, the mapping
    that it is compared with, then the others. ``parts`` are the names of the parts of a step, if
    the busy times are known for each part.
    """

    torus: Torus
    make_uses: Callable[[int], Sequence[LinkUse]]
    parts: Sequence[str] = ()


def link_uses(problem: MappingProblem, candidates: Sequence[Candidate]) -> list[LinkUse]:
    """Return the use of links under each candidate, with task pairs for the first two."""
    uses = []
    for i, candidate in enumerate(candidates):
        traffic = routed.RoutedTraffic(problem, candidate.mapping)
        busy = traffic.all_wire_bytes / problem.torus.link_bandwidth
        pairs = find_link_pairs(traffic, busy) if i < 2 else None
        uses.append(LinkUse(candidate.name, candidate.time, busy, pairs))
    return uses


def max_candidates(torus: Torus) -> int:
    """Return the maximum number of candidates on a link map, which limits the size of a page."""
    return max(_MIN_CANDIDATES, _MAX_BUSY_TIMES // max(torus.n_links, 1))


def find_link_pairs(traffic: routed.RoutedTraffic, busy: Floats) -> LinkPairs | None:
    """Return the task pairs on the busiest links.

    The result is None if packets may take several routes, or if the routes have too many hops.
    """
    torus, comm, node = traffic.torus, traffic.comm, traffic.mapping.node
    if traffic.problem.routing != "deterministic" or torus.ties_are_open or torus.zones:
        return None
    src, dst = node[comm.src], node[comm.dst]
    hops = torus.distance(src, dst)
    if int(hops.sum()) > _MAX_HOPS:
        return None
    busiest = np.sort(np.argsort(-busy, kind="stable")[:_MAX_LINKS_WITH_PAIRS])
    busiest = busiest[busy[busiest] > 0]
    # The table has a row for each edge and each of the busiest links that the edge uses.
    offsets, links = routing.routes(torus, src, dst)
    edges = np.repeat(np.arange(comm.n_edges), np.diff(offsets))
    table = pd.DataFrame({"link": links, "edge": edges})[np.isin(links, busiest)]
    table["nbytes"] = comm.nbytes[table["edge"]]
    table = table.sort_values(["link", "nbytes"], ascending=[True, False], kind="stable")
    table["position"] = table.groupby("link").cumcount()
    table = table[table["position"] < MAX_PAIRS]
    link, edge, position = table[["link", "edge", "position"]].to_numpy().T
    row = np.searchsorted(busiest, link)
    tasks = np.full((busiest.size, MAX_PAIRS, 2), NO_TASK, dtype=np.int32)
    tasks[row, position, 0], tasks[row, position, 1] = comm.src[edge], comm.dst[edge]
    nbytes = np.zeros((busiest.size, MAX_PAIRS))
    nbytes[row, position] = comm.nbytes[edge]
    return LinkPairs(busiest, tasks, nbytes)


def network_data(view: LinkMap) -> dict[str, Any]:
    """Return the data from which the script of a page draws the links.

    ``busy`` joins the results of `quantize_busy_times` for all mappings. ``max_busy`` is the busy
    time of the busiest link under each mapping, in seconds.
    """
    torus, uses = view.torus, view.make_uses(max_candidates(view.torus))
    max_busy = [float(use.seconds[torus.link_exists].max(initial=0.0)) for use in uses]
    scaled = list(zip(uses, max_busy, strict=True))
    whole = [quantize_busy_times(use.seconds, top, torus) for use, top in scaled]
    parts = [
        quantize_busy_times(row, top, torus)
        for use, top in scaled
        for row in (np.atleast_2d(use.busy) if view.parts else ())
    ]
    return {
        "shape": list(torus.shape),
        "wrap": [bool(wraps) for wraps in torus.wrap],
        "twisted": bool(torus.twist),
        "dimensions": list(torus.axes),
        "names": [shown_name(use.name) for use in uses],
        "times": [use.time for use in uses],
        "max_busy": max_busy,
        "steps": STEPS,
        "missing": MISSING,
        "busy": _encode_array(np.concatenate(whole)),
        "pairs": {i: _encode_pairs(use.pairs) for i, use in enumerate(uses) if use.pairs},
        "pairs_per_link": MAX_PAIRS,
        "parts": [shown_name(part) for part in view.parts],
        "part_busy": _encode_array(np.concatenate(parts)) if parts else None,
    }


def quantize_busy_times(busy: Floats, max_busy: float, torus: Torus) -> NDArray[np.uint8]:
    """Return busy times as integers from 0 to 250 (``max_busy``); missing links are `MISSING`."""
    steps = np.clip(np.round(busy / (max_busy or 1.0) * STEPS), 0, STEPS)
    # Round up small busy times, because only unused links should appear idle.
    steps = np.where((busy > 0) & (steps == 0), 1, steps)
    return np.where(torus.link_exists, steps, MISSING).astype(np.uint8)


def _encode_pairs(pairs: LinkPairs) -> dict[str, str]:
    return {
        "links": _encode_array(pairs.links.astype(np.int32)),
        "ends": _encode_array(pairs.tasks.ravel()),
        "bytes": _encode_array(pairs.nbytes.astype(np.float32).ravel()),
    }


def _encode_array(array: NDArray[Any]) -> str:
    """Return the little-endian bytes of an array, compressed by zlib, in base64."""
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode("ascii")


def lay_out_links(shape: Sequence[int]) -> tuple[int, int, list[dict[str, Any]]]:
    """Return a cell's size and a row label's width in pixels, and a layout for each dimension.

    The links of a dimension in one direction form a grid, with a row per ring and a column per
    position on the ring. A tall grid is split into ``bands`` of ``rows`` rings, side by side.
    Dimensions of size 1 have no grid. The script of the page uses the same layout.
    """
    n = math.prod(shape)
    # Choose cells of 2 to 10 pixels that together have about the area of the map.
    cell = max(2, min(10, int(math.sqrt(_MAP_AREA / (n * 2 * len(shape))))))
    blocks: list[dict[str, Any]] = []
    label = _LABEL_WIDTH if cell >= _MIN_LABELLED else 0
    for k, size in enumerate(shape):
        if size < 2:
            continue
        n_rings = n // size
        # Rings that differ only in the last of the other dimensions are a group. Bands do not
        # split groups.
        others = [s for j, s in enumerate(shape) if j != k]
        group = others[-1] if len(others) > 1 else 1
        max_rows = max(1, int(_MAX_HEIGHT / cell) // group) * group
        # Give all bands about the same height.
        rows = math.ceil(n_rings / math.ceil(n_rings / max_rows) / group) * group
        bands = math.ceil(n_rings / rows)
        block = {"dimension": k, "columns": size, "rows": rows, "bands": bands, "group": group}
        blocks.append(block)
    return cell, label, blocks


def draw_heat_lines(torus: Torus, busy: Floats, width: int) -> list[tuple[str, str, str]]:
    """Return for each dimension its name, a line for its plus links and a line for its minus links.

    Each character shows the longest busy time of the links at one coordinate, relative to the
    busiest link of the torus. If there are over ``width`` coordinates, a character covers several.
    """
    max_busy = float(busy.max()) or 1.0
    links = np.moveaxis(busy.reshape(torus.n_nodes, torus.ndim, 2), 0, -1)
    drawn = []
    for k, axis in enumerate(torus.axes):
        by_coordinate = np.zeros((2, torus.shape[k]))
        for sign in range(2):
            np.maximum.at(by_coordinate[sign], torus.coords[:, k], links[k, sign])
        parts = np.array_split(by_coordinate, min(width, torus.shape[k]), axis=1)
        shares = [part.max(axis=1) / max_busy for part in parts]
        # Round up, because only unused links should appear idle.
        levels = [np.ceil(share * (len(BARS) - 1)).astype(int) for share in shares]
        plus, minus = ("".join(BARS[level[sign]] for level in levels) for sign in (0, 1))
        drawn.append((axis, plus, minus))
    return drawn
