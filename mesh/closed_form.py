"""Times of collectives in closed form, from what their rounds put on the links.

On a ring of ``n`` chips whose links carry ``w`` bytes per second each way, an allreduce of ``B``
bytes is a reduce-scatter and an allgather of ``n - 1`` rounds each. In a round every chip sends
``B / n`` bytes to the next one, so the links take ``2 (n - 1) / n * B / w`` in all, or half of that
if half a block goes each way. A chip sends in a round what it got in the last, so each round adds
the software overhead of its messages and the latency of their hops.

On a line the ring is folded (0, 2, 4, ..., 5, 3, 1) or closed by one long way back. Either way each
direction of each link carries one block of a one-way ring, so that takes as long as on a closed
ring, but for the hops: two a round at most, or ``2 (n - 1) / n`` on average with the long way back.
A two-way ring puts two half blocks on each direction, and gains nothing.

Elsewhere the most blocks that go over one link, over its bandwidth, set the pace of a round. A
chain of rounds waits once for each edge of the ring, so a round's latency is an edge's on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, islice, product
from operator import truediv
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.mesh.traffic import PARTS, MeshTraffic
from toruscast.routing.loads import pair_loads


def product_grid(torus: Torus, lines: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return groups as boxes, ``(n_groups, sizes...)``; None if some group is no such box.

    A box has every combination of its coordinates, which need not lie side by side. All boxes span
    as many places of the same dimensions.

    Examples
    --------
    >>> product_grid(Torus((4, 4)), np.array([[5, 0, 1, 4]])).tolist()
    [[[0, 1], [4, 5]]]
    >>> product_grid(Torus((4, 4)), np.array([[0, 1, 2, 4]])) is None
    True
    """
    # Nodes are numbered in C order, so a box sorted is one in C order.
    nodes = np.sort(lines, axis=1)
    coords = np.sort(torus.coords[nodes], axis=1)
    sizes = 1 + (np.diff(coords, axis=1) != 0).sum(axis=1)
    if (sizes != sizes[0]).any() or np.prod(sizes[0]) != lines.shape[1]:
        return None
    return nodes.reshape(len(lines), *sizes[0][sizes[0] > 1])


Sent = tuple[int, int, float]


def bucket_rounds(sizes: Sequence[int], nbytes: float) -> list[tuple[int, list[Sent]]]:
    """Return the rounds of a bucket reduce-scatter: how many in a row, and what is sent in each.

    A lane for each dimension and way carries its share of the buffer along one dimension after the
    other; each leaves its share of the rest. A round lists (dimension, way, bytes), way 0 is plus.
    """
    ndim = len(sizes)
    lanes: list[list[Sent]] = []
    for way, first in product((0, 1), range(ndim)):
        dims = [*range(first, ndim), *range(first)]
        blocks = accumulate((sizes[d] for d in dims), truediv, initial=nbytes / (2 * ndim))
        pairs = zip(dims, islice(blocks, 1, None), strict=True)
        lanes.append([(d, way, block) for d, block in pairs for _ in range(sizes[d] - 1)])
    rounds = map(list, zip(*lanes, strict=True))
    return [(len(list(same)), sent) for sent, same in groupby(rounds)]


# Pairs of an all-to-all that are listed at once: those of many chips do not fit in memory.
_AT_ONCE = 2**20
Ends = tuple[NDArray[np.int64], NDArray[np.int64]]


def message_ends(traffic: MeshTraffic, lines: NDArray[np.int64]) -> Iterator[Ends]:
    """Give sender and receiver of each message of a collective of a single round, in parts.

    Examples
    --------
    >>> ((src, dst),) = message_ends(MeshTraffic("pipeline", 8, ("stage",)), np.array([[4, 5, 6]]))
    >>> src.tolist(), dst.tolist()
    ([4, 5], [5, 6])
    """
    n = lines.shape[1]
    following = np.roll(lines, -1, axis=1)
    if traffic.pairs is not None:
        yield lines[:, 0], lines[:, 1]
    elif traffic.collective == "pipeline":
        yield lines[:, :-1].ravel(), lines[:, 1:].ravel()
    elif traffic.collective == "permute":
        yield lines.ravel(), following.ravel()
    elif traffic.collective == "exchange":
        here, there = lines.ravel(), following.ravel()
        yield np.concatenate([here, there]), np.concatenate([there, here])
    else:
        some = max(_AT_ONCE // lines.size, 1)
        for begin in range(1, n, some):
            # Each chip sends to those so many places ahead.
            apart = np.arange(begin, min(begin + some, n))
            to = lines[:, (np.arange(n)[:, None] + apart) % n]
            yield np.broadcast_to(lines[:, :, None], to.shape).ravel(), to.ravel()


@dataclass(frozen=True, eq=False)
class Score:
    """Time of a collective that all its groups run at once."""

    time: float  # seconds in closed form
    algorithm: str  # the fastest of those that were asked for
    link_seconds: NDArray[np.float64]  # (n_links,); empty where it is not needed
    busiest: int  # the link that works longest,
    busy: float  # and its seconds
    hops: float  # of its messages on average,
    farthest: int  # and at most
    sharing: float  # most messages of a step over the same link
    simulated: float | None = None  # seconds by packets

    @property
    def seconds(self) -> float:
        """Seconds, by packets where they were simulated."""
        return self.time if self.simulated is None else self.simulated

    def without_links(self) -> Score:
        """The same without the array of all links, to save memory."""
        return replace(self, link_seconds=np.zeros(0))


def score_of(
    time: float,
    algorithm: str,
    seconds: NDArray[np.float64],
    hops: NDArray[np.integer] | NDArray[np.float64],
    sharing: float,
) -> Score:
    """Return a score from the seconds of every link and the hops of every message."""
    busiest = int(seconds.argmax())
    mean = float(hops.mean()) if hops.size else 0.0
    farthest = int(hops.max(initial=0))
    busy = float(seconds[busiest])
    return Score(time, algorithm, seconds, busiest, busy, mean, farthest, sharing)


def on_the_wire(nbytes: float, torus: Torus) -> float:
    """Return the bytes of a message with the headers of its packets."""
    network = torus.network
    return nbytes + network.header * max(math.ceil(nbytes / network.payload), 1)


class _Pace(NamedTuple):
    """The busiest link of a round, its seconds for a byte of every message, and most messages."""

    link: int
    seconds: float
    messages: float


class RingSteps:
    """Load of the links in a step round all groups ``(n_groups, n)``. Arrays are not kept."""

    def __init__(self, lines: NDArray[np.int64], torus: Torus) -> None:
        self.torus, self.lines = torus, lines
        src, dst = lines.ravel(), np.roll(lines, -1, axis=1).ravel()
        onward = pair_loads(torus, src, dst)
        both = onward + pair_loads(torus, dst, src)
        self.paces = {1: self._pace(onward), 2: self._pace(both)}
        hops = torus.distance(src, dst)
        self.hops = float(hops.mean())
        self.farthest = int(hops.max())

    def _pace(self, load: NDArray[np.float64]) -> _Pace:
        seconds = load / self.torus.link_bandwidth
        link = int(seconds.argmax())
        return _Pace(link, float(seconds[link]), float(load.max()))


def ring_score(steps: RingSteps, traffic: MeshTraffic, ways: int) -> Score:
    """Return the score of rounds round the ring, without the seconds of all links."""
    torus, n = steps.torus, steps.lines.shape[1]
    pace = steps.paces[ways]
    wire = on_the_wire(traffic.nbytes / n / ways, torus)
    rounds = PARTS[traffic.collective] * (n - 1)
    latency = ways * torus.network.overhead + steps.hops * torus.network.hop_latency
    return Score(
        time=torus.network.start + rounds * (pace.seconds * wire + latency),
        algorithm="ring" if ways == 1 else "two-way-ring",
        link_seconds=np.zeros(0),
        busiest=pace.link,
        busy=rounds * pace.seconds * wire,
        hops=steps.hops,
        farthest=steps.farthest,
        sharing=pace.messages,
    )


def ring_seconds(
    traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus, ways: int
) -> NDArray[np.float64]:
    """Return the seconds that each link works for all rounds, ``(n_links,)``."""
    n = lines.shape[1]
    wire = on_the_wire(traffic.nbytes / n / ways, torus)
    rounds = PARTS[traffic.collective] * (n - 1)
    src, dst = lines.ravel(), np.roll(lines, -1, axis=1).ravel()
    load = pair_loads(torus, src, dst)
    if ways == 2:
        load = load + pair_loads(torus, dst, src)
    return np.asarray(load / torus.link_bandwidth * (rounds * wire))


def box_score(traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus) -> Score | None:
    """Return the score of the bucket algorithm, with a lane for each dimension and way.

    None where groups are no boxes of the torus.
    """
    grid = product_grid(torus, lines)
    if grid is None or grid.ndim < 3:
        return None
    loads, every = [], []
    for d in range(1, grid.ndim):
        here, there = grid.ravel(), np.roll(grid, -1, axis=d).ravel()
        loads.append((pair_loads(torus, here, there), pair_loads(torus, there, here)))
        every.append(torus.distance(here, there))
    network = torus.network
    time, sharing = 0.0, 0.0
    seconds = np.zeros(torus.n_links)
    means = [float(hops.mean()) for hops in every]
    for rounds, sent in bucket_rounds(grid.shape[1:], traffic.nbytes):
        busy, messages = np.zeros(torus.n_links), np.zeros(torus.n_links)
        for d, way, block in sent:
            busy += loads[d][way] * on_the_wire(block, torus)
            messages += loads[d][way]
        busy /= torus.link_bandwidth
        latency = max(means[d] for d, _, _ in sent) * network.hop_latency
        time += rounds * (float(busy.max()) + len(sent) * network.overhead + latency)
        seconds += rounds * busy
        sharing = max(sharing, float(messages.max()))
    parts = PARTS[traffic.collective]
    time = network.start + parts * time
    return score_of(time, "bucket", parts * seconds, np.concatenate(every), sharing)


def score(
    traffic: MeshTraffic,
    lines: NDArray[np.int64],
    torus: Torus,
    *,
    steps: RingSteps | None = None,
    bucket: Score | None = None,
) -> Score:
    """Return the score of a collective in closed form, by the fastest of its algorithms."""
    if lines.shape[1] == 1:
        nothing = score_of(0.0, "none", np.zeros(torus.n_links), np.zeros(1), 0.0)
        return replace(nothing, simulated=0.0)
    if traffic.collective not in PARTS:
        return _score_at_once(traffic, lines, torus)
    asked = traffic.algorithm
    if bucket is None and asked in ("", "bucket"):
        bucket = box_score(traffic, lines, torus)
    if bucket is not None and asked == "bucket":
        return bucket
    steps = steps or RingSteps(lines, torus)
    ways = {"ring": (1,), "two-way-ring": (2,)}.get(asked, (1, 2))
    found = [ring_score(steps, traffic, each) for each in ways]
    if bucket is not None and not asked:
        found.append(bucket)
    return min(found, key=lambda each: each.time)


def time_bound(traffic: MeshTraffic, n: int, torus: Torus) -> float:
    """Return a lower bound of the seconds of a collective over all layouts.

    A chip sends over all its links at once at most: 2 (n - 1) / n of the buffer in an allreduce, (n
    - 1) / n in its halves and an all-to-all. One message goes over one link.
    """
    if n == 1:
        return 0.0
    out = np.where(torus.link_exists, torus.link_bandwidth, 0.0).reshape(torus.n_nodes, -1)
    if traffic.collective in (*PARTS, "alltoall"):
        share = (n - 1) / n * PARTS.get(traffic.collective, 1)
        return share * traffic.nbytes / float(out.sum(axis=1).max())
    return traffic.nbytes / float(out.max())


def _score_at_once(traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus) -> Score:
    """Score messages that are all sent at once; a task injects its own one after the other."""
    n, network = lines.shape[1], torus.network
    to_all = traffic.collective == "alltoall"
    each = n - 1 if to_all else 2 if traffic.collective == "exchange" else 1
    wire = on_the_wire(traffic.nbytes / n if to_all else traffic.nbytes, torus)
    load, hops = np.zeros(torus.n_links), [np.zeros(0, dtype=np.int32)]
    for src, dst in message_ends(traffic, lines):
        load += pair_loads(torus, src, dst)
        hops.append(torus.distance(src, dst))
    every = np.concatenate(hops)
    busy = load * wire / torus.link_bandwidth
    handed = each * network.overhead + wire / max(torus.bandwidth)
    sending = max(float(busy.max(initial=0)) + network.overhead, handed)
    mean = float(every.mean()) if every.size else 0.0
    time = network.start + sending + mean * network.hop_latency
    return score_of(time, "at once", busy, every, float(load.max(initial=0)))
