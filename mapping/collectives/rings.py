"""Rings: over the ranks, along the dimensions of a torus (bucket), and neighbour exchange.

Sources: Thakur et al., IJHPCA 19, 2005 (ring); Barnett et al., "Global combine on mesh
architectures with wormhole routing", IPPS 1993, and Jain and Sabharwal, "Optimal bucket algorithms
for large MPI collectives on torus interconnects", ICS'10 (bucket); Chen et al., "Performance
evaluation of allgather algorithms on terascale Linux cluster with Fast Ethernet", HPCASIA'05
(neighbour exchange).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from toruscast.errors import InputError
from toruscast.validation import whole_sizes

from .partners import is_mirrored
from .schedule import Lane, Round, Schedule


def allgather(
    n_tasks: int, nbytes: float, shape: Sequence[int] = (), *, ports: int = 1
) -> Schedule:
    """Allgather round the ring of ranks: n - 1 rounds of a block; on two ports half each way."""
    lanes = _both_ways(n_tasks, nbytes, ports, reduces=False)
    return Schedule("allgather/ring", n_tasks, nbytes, lanes)


def reduce_scatter(
    n_tasks: int, nbytes: float, shape: Sequence[int] = (), *, ports: int = 1
) -> Schedule:
    """Reduce-scatter round the ring of ranks: n - 1 rounds; on two ports half each way."""
    lanes = _both_ways(n_tasks, nbytes, ports, reduces=True)
    return Schedule("reduce_scatter/ring", n_tasks, nbytes, lanes)


def allreduce(
    n_tasks: int, nbytes: float, shape: Sequence[int] = (), *, ports: int = 1
) -> Schedule:
    """Allreduce round the ring of ranks: a reduce-scatter and an allgather.

    On two ports half of each block goes each way.

    Examples
    --------
    >>> [int(phase.nbytes.max()) for phase in allreduce(4, 400, ports=2).workload()][:2]
    [50, 50]
    """
    down = _both_ways(n_tasks, nbytes, ports, reduces=True)
    up = _both_ways(n_tasks, nbytes, ports, reduces=False)
    lanes = tuple(a + b for a, b in zip(down, up, strict=True))
    return Schedule("allreduce/ring", n_tasks, nbytes, lanes)


def neighbor_exchange(n_tasks: int, nbytes: float) -> Schedule:
    """Allgather by swaps with the two neighbours in turn: one block first, then always two.

    Raises
    ------
    InputError
        If the number of tasks is odd.
    """
    if n_tasks % 2:
        raise InputError("neighbour exchange", found=n_tasks, expected="an even number of tasks")
    ranks = np.arange(n_tasks)
    with_next = np.where(ranks % 2 == 0, ranks + 1, ranks - 1)
    with_last = np.where(ranks % 2 == 0, ranks - 1, ranks + 1) % n_tasks
    block = nbytes / n_tasks
    lane = [Round(ranks, with_next, block)]
    lane += [
        Round(ranks, with_last if number % 2 else with_next, 2 * block)
        for number in range(1, n_tasks // 2)
    ]
    return Schedule("allgather/neighbor_exchange", n_tasks, nbytes, (tuple(lane),))


def bucket_allgather(
    n_tasks: int, nbytes: float, shape: Sequence[int], *, ports: int = 1
) -> Schedule:
    """Allgather in rings along one dimension after the other, each port with another one first."""
    lanes = tuple(_reversed(_bucket(shape, nbytes / ports, port)) for port in range(ports))
    return Schedule("allgather/bucket", n_tasks, nbytes, lanes)


def bucket_reduce_scatter(
    n_tasks: int, nbytes: float, shape: Sequence[int], *, ports: int = 1
) -> Schedule:
    """Reduce-scatter in rings along one dimension after the other."""
    lanes = tuple(_bucket(shape, nbytes / ports, port) for port in range(ports))
    return Schedule("reduce_scatter/bucket", n_tasks, nbytes, lanes)


def bucket_allreduce(
    n_tasks: int, nbytes: float, shape: Sequence[int], *, ports: int = 1
) -> Schedule:
    """Allreduce as a bucket reduce-scatter and the allgather back the same way."""
    down = [_bucket(shape, nbytes / ports, port) for port in range(ports)]
    lanes = tuple(lane + _reversed(lane) for lane in down)
    return Schedule("allreduce/bucket", n_tasks, nbytes, lanes)


def _both_ways(n_tasks: int, nbytes: float, ports: int, *, reduces: bool) -> tuple[Lane, ...]:
    """A lane for each port: its share of each block from task to task, up the ranks and down."""
    if ports > 2:
        raise InputError("bad number of ports of a ring", found=ports, expected="1 or 2")
    ranks = np.arange(n_tasks)
    if n_tasks == 1:
        return ((),) * ports
    block = nbytes / n_tasks / ports
    return tuple(
        (Round(ranks, (ranks + way) % n_tasks, block, reduces=reduces, times=n_tasks - 1),)
        for way in (1, -1)[:ports]
    )


def _bucket(shape: Sequence[int], nbytes: float, port: int) -> Lane:
    """Reduce-scatter along dimension ``port``, the next, ...: each leaves a share of the buffer."""
    sizes = whole_sizes(shape, "task grid")
    ranks = np.arange(math.prod(sizes)).reshape(sizes)
    direction = 1 if is_mirrored(port, len(sizes)) else -1
    lane = []
    for turn in range(len(sizes)):
        dim = (port + turn) % len(sizes)
        if sizes[dim] == 1:
            continue
        nbytes /= sizes[dim]
        following = np.roll(ranks, direction, axis=dim)
        lane.append(
            Round(ranks.ravel(), following.ravel(), nbytes, reduces=True, times=sizes[dim] - 1)
        )
    return tuple(lane)


def _reversed(lane: Lane) -> Lane:
    return tuple(step.reversed() for step in reversed(lane))
