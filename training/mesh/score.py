"""Times of collectives in closed form, from what their rounds put on the links.

**The exact case.** On a ring of ``n`` chips whose links carry ``w`` bytes per second each way, an
allreduce of ``B`` bytes is a reduce-scatter and an allgather, ``n - 1`` rounds each. In a round
every chip sends one block to the next chip:

- one way: ``B / n`` bytes, a hop away, each link carries one block: ``B / (n w)`` a round, so
  ``2 (n - 1) / n * B / w`` in all;
- two ways: half a block each way, on the two directions of each link: half of that, which is
  ``2 (n - 1) / n * B / (2 w)``.

Each round adds what a message costs in software (of two, both) and the latency of its hops, for a
chip sends in a round what it got in the last: ``2 (n - 1) (o + h)`` with one hop a round.

On a line the ring is folded (0, 2, 4, ..., 5, 3, 1) or closed by one long way back. Either way each
direction of each link carries one block of a one-way ring: on the folded line the ring goes there
over the even chips and back over the odd ones. So one way takes the same time as on a closed ring,
but for the hops: two a round at most, or ``2 (n - 1) / n`` on average with the long way back. A
two-way ring puts two half blocks on each direction: it gains nothing on a line.

Elsewhere the busiest link of a round sets the pace: the most blocks that go over one link, over its
bandwidth. A chain of rounds round a ring waits once for each of its edges in turn, so the latency
of a round is that of an edge on average.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.mapping.mesh import MeshTraffic
from toruscast.routing.pairs import pair_loads

from .bucket import Box, bucket_score
from .ends import ends
from .grids import product_grid
from .rings import PARTS, RingSteps, ring_score
from .scored import Score, made, on_the_wire


def score(
    traffic: MeshTraffic,
    lines: NDArray[np.int64],
    torus: Torus,
    *,
    steps: RingSteps | None = None,
    bucket: Score | None = None,
) -> Score:
    """Return what a collective takes in closed form; of several algorithms the fastest.

    Parameters
    ----------
    traffic : MeshTraffic
    lines : ndarray of int, shape (n_groups, n)
        Nodes of each group, in the group's order; or sender and receiver of each pair.
    torus : Torus
    steps : RingSteps, optional
        Of these lines, where they are known.
    bucket : Score, optional
        Of these groups, where it is known.

    Examples
    --------
    >>> torus = Torus((8,), bandwidth=1e9)
    >>> found = score(MeshTraffic("allreduce", 512e6, ("x",)), np.arange(8)[None], torus)
    >>> found.algorithm, round(found.time, 3), 2 * 7 / 8 * 512e6 * 544 / 512 / 2e9
    ('two-way-ring', 0.476, 0.476)
    """
    if lines.shape[1] == 1:
        return made(0.0, "none", np.zeros(torus.n_links), np.zeros(1), 0.0)
    if traffic.collective not in PARTS:
        return _once(traffic, lines, torus)
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


def box_score(traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus) -> Score | None:
    """Return what the bucket algorithm takes; None where groups are no boxes of the torus."""
    grid = product_grid(torus, lines)
    if grid is None or grid.ndim < 3:
        return None
    return bucket_score(Box(grid, torus), traffic)


def least_time(traffic: MeshTraffic, n: int, torus: Torus) -> float:
    """Return seconds below which no layout takes the collective.

    A chip sends over all its links at once at most. In an allreduce each of n must send
    2 (n - 1) / n of the buffer, in an allgather or reduce-scatter half of that, in an all-to-all
    (n - 1) / n; one message goes over one link.
    """
    if n == 1:
        return 0.0
    out = np.where(torus.link_exists, torus.link_bandwidth, 0.0).reshape(torus.n_nodes, -1)
    if traffic.collective in (*PARTS, "alltoall"):
        share = (n - 1) / n * PARTS.get(traffic.collective, 1)
        return share * traffic.nbytes / float(out.sum(axis=1).max())
    return traffic.nbytes / float(out.max())


def _once(traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus) -> Score:
    """Messages all at once; a task hands its own over one after the other."""
    n, network = lines.shape[1], torus.network
    to_all = traffic.collective == "alltoall"
    each = n - 1 if to_all else 2 if traffic.collective == "exchange" else 1
    wire = on_the_wire(traffic.nbytes / n if to_all else traffic.nbytes, torus)
    load, hops = np.zeros(torus.n_links), [np.zeros(0, dtype=np.int32)]
    for src, dst in ends(traffic, lines):
        load += pair_loads(torus, src, dst)
        hops.append(torus.distance(src, dst))
    every = np.concatenate(hops)
    busy = load * wire / torus.link_bandwidth
    handed = each * network.overhead + wire / max(torus.bandwidth)
    sending = max(float(busy.max(initial=0)) + network.overhead, handed)
    mean = float(every.mean()) if every.size else 0.0
    time = sending + mean * network.hop_latency
    return made(time, "at once", busy, every, float(load.max(initial=0)))
