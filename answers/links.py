"""How long each link works under several mappings, and which task pairs stand behind it."""

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
from toruscast.mapping import MappingProblem, TaskMapping, Torus
from toruscast.text import shown_name

if TYPE_CHECKING:
    from toruscast._features import traffic as routed
    from toruscast.routing import routing
else:
    globals().update(lazy_modules(__name__))

# A page of 512 tasks stays below 400 kB, one of 16,384 tasks below 2 MB.
_MOST_SHARES, _FEWEST = 130_000, 3
# Hottest links whose task pairs a page keeps, and pairs of each.
_MOST_LISTED, PAIRS = 1200, 3
# Hops of all messages up to which the pairs behind links are looked for.
_MOST_HOPS = 20_000_000
# Pixels of a table of links.
_HEIGHT = 330.0
# Busy times are kept in steps of 1/250 of the busiest link; this value marks a missing link.
STEPS, MISSING = 250, 255
BARS = " ▁▂▃▄▅▆▇█"
"""What a share of the busiest link looks like in a terminal, from idle to full."""


class Candidate(NamedTuple):
    """A mapping on the map of links; ``time`` is that of the whole exchange, from any source."""

    name: str
    mapping: TaskMapping
    time: float


class Behind(NamedTuple):
    """The task pairs that put most bytes on links.

    ``links`` are numbers ``(n,)``; ``ends`` sender and receiver ``(n, PAIRS, 2)``, -1 where there
    are no more; ``nbytes`` is ``(n, PAIRS)``.
    """

    links: NDArray[np.int64]
    ends: NDArray[np.int32]
    nbytes: NDArray[np.float64]


class LinkUse(NamedTuple):
    """How long each link works under a candidate, and for whom.

    ``time`` is that of the whole exchange. ``busy`` are seconds ``(n_links,)``, or
    ``(n_parts, n_links)`` where the parts of a step are known.
    """

    name: str
    time: float
    busy: NDArray[np.float64]
    behind: Behind | None = None

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Busy seconds of each link, ``(n_links,)``."""
        total: NDArray[np.float64] = np.atleast_2d(self.busy).sum(axis=0)
        return total


@dataclass(frozen=True)
class LinkMap:
    """A map of all links of a torus under each of several mappings.

    ``load`` returns so many uses when drawn: the best, what it is compared with, others. ``parts``
    are the names of the parts of a step, where uses tell them.
    """

    torus: Torus
    load: Callable[[int], Sequence[LinkUse]]
    parts: Sequence[str] = ()


def link_uses(problem: MappingProblem, candidates: Sequence[Candidate]) -> list[LinkUse]:
    """Return the use of links under candidates; the first two with their task pairs."""
    uses = []
    for i, candidate in enumerate(candidates):
        traffic = routed.RoutedTraffic(problem, candidate.mapping)
        busy = traffic.all_wire_bytes / problem.torus.link_bandwidth
        behind = pairs_behind(traffic, busy) if i < 2 else None
        uses.append(LinkUse(candidate.name, candidate.time, busy, behind))
    return uses


def max_candidates(torus: Torus) -> int:
    """Return how many candidates a page may hold."""
    return max(_FEWEST, _MOST_SHARES // max(torus.n_links, 1))


def pairs_behind(traffic: routed.RoutedTraffic, busy: NDArray[np.float64]) -> Behind | None:
    """Return the task pairs behind the hottest links; None where packets choose their way."""
    torus, comm, node = traffic.torus, traffic.comm, traffic.mapping.node
    if traffic.problem.routing != "deterministic" or torus.ties_are_open or torus.zones:
        return None
    src, dst = node[comm.src], node[comm.dst]
    hops = torus.distance(src, dst)
    if int(hops.sum()) > _MOST_HOPS:
        return None
    hottest = np.sort(np.argsort(-busy, kind="stable")[:_MOST_LISTED])
    hottest = hottest[busy[hottest] > 0]
    first, links = routing.routes(torus, src, dst)
    edge = np.repeat(np.arange(comm.n_edges), np.diff(first))
    wanted = np.zeros(torus.n_links, dtype=bool)
    wanted[hottest] = True
    links, edge = links[wanted[links]], edge[wanted[links]]
    order = np.lexsort((-comm.nbytes[edge], links))
    links, edge = links[order], edge[order]
    starts = np.flatnonzero(np.diff(links, prepend=-1))
    place = np.arange(links.size) - np.repeat(starts, np.diff(starts, append=links.size))
    most = place < PAIRS
    row, edge, place = np.searchsorted(hottest, links[most]), edge[most], place[most]
    ends = np.full((hottest.size, PAIRS, 2), -1, dtype=np.int32)
    ends[row, place, 0], ends[row, place, 1] = comm.src[edge], comm.dst[edge]
    amount = np.zeros((hottest.size, PAIRS))
    amount[row, place] = comm.nbytes[edge]
    return Behind(hottest, ends, amount)


def network_data(view: LinkMap) -> dict[str, Any]:
    """Return what the script of a page draws the links from.

    Each use is a row of ``busy``: seconds over those of its busiest link, in steps of 1/250;
    ``most`` holds these seconds, so that all uses can be drawn on one scale.
    """
    torus, uses = view.torus, view.load(max_candidates(view.torus))
    most = [float(use.seconds[torus.link_exists].max(initial=0.0)) for use in uses]
    whole = [in_steps(use.seconds, top, torus) for use, top in zip(uses, most, strict=True)]
    parts = [
        in_steps(row, top, torus)
        for use, top in zip(uses, most, strict=True)
        for row in (np.atleast_2d(use.busy) if view.parts else ())
    ]
    return {
        "shape": list(torus.shape),
        "wrap": [bool(each) for each in torus.wrap],
        "twisted": bool(torus.twist),
        "dimensions": dimension_names(torus),
        "names": [shown_name(use.name) for use in uses],
        "times": [use.time for use in uses],
        "most": most,
        "steps": STEPS,
        "missing": MISSING,
        "busy": _packed(np.concatenate(whole)),
        "pairs": {i: _pairs(use.behind) for i, use in enumerate(uses) if use.behind is not None},
        "pairs_a_link": PAIRS,
        "parts": [shown_name(part) for part in view.parts],
        "part_busy": _packed(np.concatenate(parts)) if parts else None,
    }


def dimension_names(torus: Torus) -> list[str]:
    """Return a letter of each dimension, or its number where it has none."""
    letters = torus.axes or ""
    return [letters[k] if k < len(letters) else str(k) for k in range(torus.ndim)]


def in_steps(busy: NDArray[np.float64], most: float, torus: Torus) -> NDArray[np.uint8]:
    """Return busy seconds in steps of 1/250 of ``most``, `MISSING` where there is no link."""
    steps = np.clip(np.round(busy / (most or 1.0) * STEPS), 0, STEPS)
    # A link that works at all is no idle one.
    steps = np.where((busy > 0) & (steps == 0), 1, steps)
    return np.where(torus.link_exists, steps, MISSING).astype(np.uint8)


def _pairs(behind: Behind) -> dict[str, str]:
    return {
        "links": _packed(behind.links.astype(np.int32)),
        "ends": _packed(behind.ends.ravel()),
        "bytes": _packed(behind.nbytes.astype(np.float32).ravel()),
    }


def _packed(array: NDArray[Any]) -> str:
    """Return little-endian bytes of an array, deflated, in base64."""
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode("ascii")


def places(shape: Sequence[int]) -> tuple[int, list[dict[str, Any]]]:
    """Return the size of a cell and, for each dimension of more than one node, how it is laid out.

    The links of a dimension and direction are a table: a row for each ring, a column for each place
    along it. Tall tables continue to the right of themselves, in ``bands`` of ``rows`` rings.
    The script of the page lays its picture out in the same way.
    """
    n = math.prod(shape)
    cell = max(2, min(10, int(math.sqrt(220_000 / (n * 2 * len(shape))))))
    blocks = []
    for k, size in enumerate(shape):
        if size < 2:
            continue
        rings = n // size
        # Bands end where a group of rings does: the dimension before the last of the others.
        others = [s for j, s in enumerate(shape) if j != k]
        group = others[-1] if len(others) > 1 else 1
        most = max(1, int(_HEIGHT / cell) // group) * group
        # Bands of about the same height.
        rows = math.ceil(rings / math.ceil(rings / most) / group) * group
        blocks.append(
            {
                "dimension": k,
                "columns": size,
                "rows": rows,
                "bands": math.ceil(rings / rows),
                "group": group,
            }
        )
    return cell, blocks


def heat_lines(torus: Torus, busy: NDArray[np.float64], width: int) -> list[tuple[str, str, str]]:
    """Return a name and two lines for each dimension: of its plus and of its minus links.

    A character shows the busiest of the links that leave the nodes with one coordinate, over
    the busiest link of all; where a dimension has more coordinates than ``width``, for several.
    """
    most = float(busy.max()) or 1.0
    links = np.moveaxis(busy.reshape(torus.n_nodes, torus.ndim, 2), 0, -1)
    drawn = []
    for k, axis in enumerate(torus.axes):
        at = np.zeros((2, torus.shape[k]))
        for way in range(2):
            np.maximum.at(at[way], torus.coords[:, k], links[k, way])
        parts = np.array_split(at, min(width, at.shape[1]), axis=1)
        # A link that works at all is no idle one.
        levels = [np.ceil(part.max(axis=1) / most * (len(BARS) - 1)).astype(int) for part in parts]
        plus, minus = ("".join(BARS[level[way]] for level in levels) for way in (0, 1))
        drawn.append((axis, plus, minus))
    return drawn
