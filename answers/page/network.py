"""The torus on a page: every link with its busy share, candidate beside candidate."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.features import RoutedTraffic
from toruscast.mapping import TaskMapping, Torus, Workload
from toruscast.routing.routing import routes
from toruscast.typing import Routing

# Links times candidates, and links times candidates whose task pairs are listed: a byte, and 30.
from toruscast.wording import shown_name

_MOST_SHARES = 6_000_000
_MOST_LISTED = 50_000
# Hops of all messages up to which the pairs behind links are looked for.
_MOST_HOPS = 20_000_000
PAIRS = 3
# Shares are kept in steps of 1/250; this stands for a link that does not exist.
_STEPS, _MISSING = 250, 255
# Length of the stub that stands for a link, in cells: along the plane, and out of it.
_ALONG, _OUT = 0.44, 0.3


class Candidate(NamedTuple):
    """A mapping as the view of the torus shows it."""

    name: str
    mapping: TaskMapping
    time: float
    """Seconds of the whole exchange, simulated, measured or forecast."""


class LinkUse(NamedTuple):
    """How long each link works under a candidate, and for whom."""

    name: str
    time: float
    """Seconds of the whole exchange."""
    busy: NDArray[np.float64]
    """Seconds, ``(n_links,)``; or ``(n_parts, n_links)`` where the parts of a step are told."""
    pairs: dict[str, str] | None = None
    """Task pairs behind links, as `_pairs_behind` packs them."""


def link_uses(
    workload: Workload, torus: Torus, candidates: Sequence[Candidate], routing: Routing
) -> list[LinkUse]:
    """Return the use of links under as many candidates as stay small, the first ones.

    Raises
    ------
    InputError
        If a mapping does not fit.
    """
    uses = []
    details = max(2, _MOST_LISTED // max(torus.n_links, 1))
    for i, candidate in enumerate(candidates[: most_candidates(torus)]):
        traffic = RoutedTraffic(workload, torus, candidate.mapping, routing)
        busy = traffic.all_wire_bytes / torus.link_bandwidth
        pairs = _pairs_behind(traffic) if i < details else None
        uses.append(LinkUse(candidate.name, candidate.time, busy, pairs))
    return uses


def most_candidates(torus: Torus) -> int:
    """Return how many candidates a page may hold."""
    return max(2, _MOST_SHARES // max(torus.n_links, 1))


def network_data(
    torus: Torus, uses: Sequence[LinkUse], parts: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what the page's script draws the torus from.

    Each link is a stub that leaves its node, halfway to the next one. Two dimensions make a plane;
    the nodes of the others stand in planes of their own, and their links leave at an angle.
    ``parts`` are the names of the parts of a step, where uses tell them.
    """
    shares = [_in_steps(np.atleast_2d(use.busy) / (use.time or 1.0), torus) for use in uses]
    whole = [
        _in_steps(np.atleast_2d(use.busy).sum(axis=0) / (use.time or 1.0), torus) for use in uses
    ]
    return {
        "shape": list(torus.shape),
        "names": [shown_name(use.name) for use in uses],
        "times": [use.time for use in uses],
        "steps": _STEPS,
        "missing": _MISSING,
        "shares": _packed(np.concatenate(whole)),
        "pairs": {i: use.pairs for i, use in enumerate(uses) if use.pairs is not None},
        "pairs_a_link": PAIRS,
        "parts": [shown_name(part) for part in parts],
        "part_shares": _packed(np.concatenate(shares).ravel()) if parts else None,
        **_plane(torus),
    }


def _in_steps(share: NDArray[np.float64], torus: Torus) -> NDArray[np.uint8]:
    steps = np.clip(np.ceil(share * _STEPS), 0, _STEPS)
    return np.where(torus.link_exists, steps, _MISSING).astype(np.uint8)


def _packed(array: NDArray[Any]) -> str:
    """Return little-endian bytes of an array, deflated, in base64."""
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode("ascii")


def _pairs_behind(traffic: RoutedTraffic) -> dict[str, str] | None:
    """Return the task pairs that put most bytes on each link; None where packets choose their way.

    ``(n_links, PAIRS)`` senders, receivers and bytes; a sender of -1 stands for no more pairs.
    """
    torus, comm, node = traffic.torus, traffic.comm, traffic.mapping.node
    if traffic.routing != "deterministic" or torus.ties_are_open or torus.zones:
        return None
    src, dst = node[comm.src], node[comm.dst]
    hops = torus.distance(src, dst)
    if int(hops.sum()) > _MOST_HOPS:
        return None
    first, links = routes(torus, src, dst)
    edge = np.repeat(np.arange(comm.n_edges), np.diff(first))
    order = np.lexsort((-comm.nbytes[edge], links))
    links, edge = links[order], edge[order]
    starts = np.flatnonzero(np.diff(links, prepend=-1))
    place = np.arange(links.size) - np.repeat(starts, np.diff(starts, append=links.size))
    most = place < PAIRS
    links, edge, place = links[most], edge[most], place[most]
    ends = np.full((torus.n_links, PAIRS, 2), -1, dtype=np.int32)
    ends[links, place, 0], ends[links, place, 1] = comm.src[edge], comm.dst[edge]
    amount = np.zeros((torus.n_links, PAIRS), dtype=np.float32)
    amount[links, place] = comm.nbytes[edge]
    return {"ends": _packed(ends.ravel()), "bytes": _packed(amount.ravel())}


def _plane(torus: Torus) -> dict[str, Any]:
    """Return where nodes and links are drawn, in cells of a plane, and the planes' names."""
    by_size = sorted(range(torus.ndim), key=lambda k: -torus.shape[k])
    across, down = (sorted(by_size[:2]) if torus.ndim > 2 else [0, 1])[:2]
    if torus.ndim == 1:
        x, y = torus.coords[:, 0], np.zeros(torus.n_nodes, dtype=np.int32)
    else:
        x, y = torus.coords[:, across], torus.coords[:, down]
    out = [k for k in range(torus.ndim) if k not in (across, down)]
    plane = np.zeros(torus.n_nodes, dtype=np.int64)
    for k in out:
        plane = plane * torus.shape[k] + torus.coords[:, k]
    stubs = []
    for k in range(torus.ndim):
        if k == across:
            way = (_ALONG, 0.0)
        elif k == down:
            way = (0.0, _ALONG)
        else:
            angle = math.pi / 2 * (1 + out.index(k)) / (1 + len(out))
            way = (_OUT * math.cos(angle), -_OUT * math.sin(angle))
        stubs += [way, (-way[0], -way[1])]
    firsts = np.unique(plane, return_index=True)[1]
    letters = torus.axes or ""
    called = [letters[k] if k < len(letters) else str(k) for k in range(torus.ndim)]
    titles = [" ".join(f"{called[k]}={torus.coords[i, k]}" for k in out) for i in firsts]
    return {
        "x": x.tolist(),
        "y": y.tolist(),
        "plane": plane.tolist(),
        "planes": titles,
        "stubs": stubs,
        "dimensions": called,
        "across": across,
        "down": down if torus.ndim > 1 else None,
    }


def hop_shares(
    workload: Workload, torus: Torus, mappings: Sequence[tuple[str, TaskMapping]]
) -> pd.DataFrame:
    """Return the share of the bytes over each number of hops: ``mapping, hops, share``."""
    parts = []
    comm = workload.total
    for label, mapping in mappings:
        hops = torus.distance(mapping.node[comm.src], mapping.node[comm.dst])
        nbytes = np.bincount(hops, comm.nbytes)
        parts.append(
            pd.DataFrame(
                {
                    "mapping": label,
                    "hops": np.arange(nbytes.size),
                    "share": nbytes / (nbytes.sum() or 1.0),
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def binned(
    workload: Workload, place: NDArray[np.integer[Any]], most: int, bins: int = 64
) -> tuple[NDArray[np.float64], float]:
    """Return bytes between bins of tasks, or of nodes, and how many numbers a bin holds.

    ``place`` is the number of each task, below ``most``.
    """
    comm = workload.total
    of = max(1.0, most / bins)
    n = math.ceil(most / of)
    row, column = (place[ends] // of for ends in (comm.src, comm.dst))
    at = row.astype(np.int64) * n + column.astype(np.int64)
    sums = np.bincount(at, comm.nbytes, minlength=n * n).reshape(n, n)
    return sums.astype(np.float64), of
