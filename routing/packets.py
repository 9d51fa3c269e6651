"""Packets of messages, and the times at which tasks have messages ready."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, Network, Torus, Workload

from .route_kernels import take_turns


def packet_counts(
    comm: CommGraph, torus: Torus, coarsening: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the packets of every edge and the bytes of each on the wire, ``(n_edges,)`` both.

    A message without a byte still sends one packet.
    """
    network = torus.network
    messages = comm.whole_messages
    sent = messages > 0
    each = comm.nbytes / np.maximum(messages, 1)
    packets = messages * np.maximum(np.ceil(each / network.payload), 1)
    wire_bytes = np.where(sent, comm.nbytes + network.header * packets, 0.0)
    packets = np.ceil(packets / coarsening)
    per_packet = wire_bytes / np.maximum(packets, 1)
    most = packets.max(initial=0)
    if most >= 2**53:
        edge = int(np.argmax(packets))
        raise InputError(
            f"too many packets from task {comm.src[edge]} to task {comm.dst[edge]}",
            found=f"{comm.nbytes[edge]:g} bytes",
            expected="fewer than 2**53 packets",
        )
    return packets.astype(np.int64), per_packet


def software_times(comm: CommGraph, network: Network) -> NDArray[np.float64]:
    """Return the seconds of software that each edge costs its task, ``(n_edges,)``."""
    messages = comm.whole_messages
    short = comm.nbytes <= network.short_limit * messages
    each = np.where(short & (network.short_limit > 0), network.short_overhead, network.overhead)
    return np.asarray(messages * each)


def hand_over_times(
    comm: CommGraph, network: Network
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the edges in the order of their hand-over, and the second at which each is ready.

    Edges are grouped by task, in order of the tasks. A task starts with its next higher partner and
    goes round, so that not all tasks of an all-to-all send to task 0 first.
    """
    order = np.empty(comm.n_edges, dtype=np.int64)
    ready = np.empty(comm.n_edges)
    take_turns(comm.first, comm.dst, software_times(comm, network), order, ready)
    return order, ready


def common_message(workload: Workload, torus: Torus) -> int:
    """Return the packets of the median message: half of all packets are in ones at least as long.

    Examples
    --------
    >>> comm = CommGraph(2, [0, 1], [1, 0], [18000, 5000], [9, 1])
    >>> common_message(Workload([comm]), Torus((4,)))
    4
    """
    comm = workload.unrolled.comm
    counts = packet_counts(comm, torus)[0]
    length = counts // np.maximum(comm.whole_messages, 1)
    order = np.argsort(-length, kind="stable")
    sent = counts[order].cumsum()
    if not sent.size or not sent[-1]:
        return 0
    return int(length[order[np.searchsorted(sent, sent[-1] / 2)]])


def mean_message(workload: Workload, torus: Torus) -> float:
    """Return the packets of a message, the mean weighted with its packets; 0 without a message.

    Examples
    --------
    >>> comm = CommGraph(2, [0, 1], [1, 0], [5120, 512], [1, 1])
    >>> mean_message(Workload([comm]), Torus((4,)))  # (10 * 10 + 1 * 1) / 11
    9.181818181818182
    """
    weighted = total = 0.0
    for phase in workload:
        packets = packet_counts(phase, torus)[0].astype(np.float64)
        weighted += float((packets * packets / np.maximum(phase.whole_messages, 1)).sum())
        total += float(packets.sum())
    return weighted / total if total else 0.0


def longest_message(workload: Workload, torus: Torus) -> int:
    """Return the packets of the longest message of all phases.

    Examples
    --------
    >>> comm = CommGraph(2, [0, 1], [1, 0], [5000, 2000], [2, 1])
    >>> longest_message(Workload([comm]), Torus((4,)))
    5
    """
    comm = workload.unrolled.comm
    packets = packet_counts(comm, torus)[0]
    return int((packets / np.maximum(comm.whole_messages, 1)).max(initial=0))
