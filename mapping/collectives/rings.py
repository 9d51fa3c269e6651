"""Rings over the ranks or along the dimensions of a torus, and exchanges of ranks apart.

Sources: Thakur et al., IJHPCA 19, 2005 (ring, pairwise exchange); Barnett et al., "Global combine
on mesh architectures with wormhole routing", IPPS 1993, and Jain and Sabharwal, "Optimal bucket
algorithms for large MPI collectives on torus interconnects", ICS'10 (bucket); Chen et al.,
"Performance evaluation of allgather algorithms on terascale Linux cluster with Fast Ethernet",
HPCASIA'05 (neighbour exchange); Bruck et al., "Efficient algorithms for all-to-all communications
in multiport message-passing systems", IEEE Trans. Parallel Distrib. Syst. 8, 1997.
"""

from __future__ import annotations

import math

import numpy as np

from toruscast.errors import InputError

from .butterflies import is_mirrored
from .schedule import Call, Lanes, Round, backwards, followed, register


def _ring(call: Call, *, reduces: bool) -> Lanes:
    """A lane for each port: n - 1 rounds of its share of a block, up the ranks and down."""
    n = call.n_tasks
    if call.ports > 2:
        raise InputError("bad number of ports of a ring", found=call.ports, expected="1 or 2")
    if n == 1:
        return ((),) * call.ports
    ranks, block = np.arange(n), call.nbytes / n / call.ports
    return tuple(
        (Round(ranks, (ranks + way) % n, block, reduces=reduces, times=n - 1),)
        for way in (1, -1)[: call.ports]
    )


def _bucket(call: Call) -> Lanes:
    """Reduce-scatter in rings along one dimension after the other, each port with another first."""
    ranks, ndim = np.arange(math.prod(call.shape)).reshape(call.shape), len(call.shape)
    lanes = []
    for port in range(call.ports):
        direction = 1 if is_mirrored(port, ndim) else -1
        share, lane = call.nbytes / call.ports, []
        for dim in ((port + turn) % ndim for turn in range(ndim)):
            if (size := call.shape[dim]) > 1:
                # Each ring leaves a task a share of the buffer.
                share /= size
                ends = ranks.ravel(), np.roll(ranks, direction, axis=dim).ravel()
                lane.append(Round(*ends, share, reduces=True, times=size - 1))
        lanes.append(tuple(lane))
    return tuple(lanes)


def _neighbor_exchange(call: Call) -> Lanes:
    """Allgather by swaps with the two neighbours in turn: one block first, then always two."""
    n = call.n_tasks
    if n % 2:
        raise InputError("neighbour exchange", found=n, expected="an even number of tasks")
    ranks = np.arange(n)
    with_next = np.where(ranks % 2 == 0, ranks + 1, ranks - 1)
    with_last = np.where(ranks % 2 == 0, ranks - 1, ranks + 1) % n
    lane = [Round(ranks, with_next, call.nbytes / n)]
    lane += [
        Round(ranks, with_last if number % 2 else with_next, 2 * call.nbytes / n)
        for number in range(1, n // 2)
    ]
    return (tuple(lane),)


def _shifts(call: Call) -> Lanes:
    """All-to-all: in round r task a sends to a + r and receives from a - r."""
    ranks, n = np.arange(call.n_tasks), call.n_tasks
    return (tuple(Round(ranks, (ranks + r) % n, call.nbytes / n) for r in range(1, n)),)


def _bruck_alltoall(call: Call) -> Lanes:
    """All-to-all in ceil(log2 n) rounds: round k moves the blocks whose way has bit k by 2**k."""
    ranks, n, lane = np.arange(call.n_tasks), call.n_tasks, []
    for step in range((n - 1).bit_length()):
        blocks = int((ranks >> step & 1).sum())
        lane.append(Round(ranks, (ranks + 2**step) % n, call.nbytes / n * blocks))
    return (tuple(lane),)


def _bruck_allgather(call: Call) -> Lanes:
    """Allgather in ceil(log2 n) rounds: all that a task holds goes 2**k ranks back."""
    ranks, n, lane = np.arange(call.n_tasks), call.n_tasks, []
    for step in range((n - 1).bit_length()):
        blocks = min(2**step, n - 2**step)
        lane.append(Round(ranks, (ranks - 2**step) % n, call.nbytes / n * blocks))
    return (tuple(lane),)


def _ring_allreduce(call: Call) -> Lanes:
    return followed(_ring(call, reduces=True), _ring(call, reduces=False))


def _bucket_allreduce(call: Call) -> Lanes:
    return followed(down := _bucket(call), backwards(down))


register("allgather/ring", lambda call: _ring(call, reduces=False), ports=True)
register("reduce_scatter/ring", lambda call: _ring(call, reduces=True), ports=True)
register("allreduce/ring", _ring_allreduce, ports=True)
register("allgather/bucket", lambda call: backwards(_bucket(call)), ports=True)
register("reduce_scatter/bucket", _bucket, ports=True)
register("allreduce/bucket", _bucket_allreduce, ports=True)
register("allgather/neighbor_exchange", _neighbor_exchange)
register("allgather/bruck", _bruck_allgather)
register("alltoall/bruck", _bruck_alltoall)
register("alltoall/pairwise", _shifts)
# All messages are under way at once.
register("alltoall/linear", _shifts, at_once=True)
