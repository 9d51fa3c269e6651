"""The messages that the simulators send, in the order in which tasks hand them over."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload

from .packets import hand_over_times, packet_counts, software_times
from .routing import fifos_of


class Messages(NamedTuple):
    """The edges of one or more rounds that send something, ordered by task, round and turn.

    All arrays are of shape ``(n_messages,)``.
    """

    round: NDArray[np.int64]
    edge: NDArray[np.int64]
    task: NDArray[np.int32]
    src: NDArray[np.int32]  # nodes
    dst: NDArray[np.int32]
    receiver: NDArray[np.int32]  # task
    fifo: NDArray[np.int32]  # number within its node, NONE for a message within a node
    nbytes: NDArray[np.float64]
    packets: NDArray[np.int64]
    wire: NDArray[np.float64]
    software: NDArray[np.float64]
    asks: NDArray[np.bool_]  # whether it first waits for the receiver's answer
    merged: float  # real packets that one simulated packet carries, on average


# Messages of each graph without their nodes, for its last network and coarsening, unless they take
# much memory; their places among all edges, and their packets if none are merged.
_Kept = tuple[Messages, NDArray[np.int64], NDArray[np.int64]]
_KEPT: WeakKeyDictionary[CommGraph, tuple[object, _Kept]] = WeakKeyDictionary()
_MOST_KEPT = 2**22


def list_messages(
    traffic: Workload | CommGraph, torus: Torus, mapping: TaskMapping, coarsening: int
) -> Messages:
    """Return the messages of all rounds."""
    workload = as_workload(traffic)
    comm = workload.unrolled.comm
    key, kept = _KEPT.get(comm, (None, None))
    if kept is None or key != (torus.network, coarsening):
        kept = _unplaced(workload, torus, coarsening)
        if comm.n_edges <= _MOST_KEPT:
            _KEPT[comm] = (torus.network, coarsening), kept
    listed, place, real = kept
    src, dst = mapping.node[listed.task], mapping.node[listed.receiver]
    remote = src != dst
    if torus.network.fifo_rule == "first_free":
        # All messages of a node wait in one queue.
        fifo = np.where(remote, np.int32(0), np.int32(-1))
    else:
        fifo = fifos_of(workload, torus, mapping)[place]
    merged = 1.0
    if coarsening > 1:
        before, after = (float(n.sum(where=remote)) for n in (real, listed.packets))
        merged = max(before, 1.0) / max(after, 1.0)
    asks = listed.asks & remote
    return listed._replace(src=src, dst=dst, fifo=fifo, asks=asks, merged=merged)


def _unplaced(workload: Workload, torus: Torus, coarsening: int) -> _Kept:
    network, all_rounds = torus.network, workload.unrolled
    comm = all_rounds.comm
    packets, wire = packet_counts(comm, torus, coarsening)
    edge, _ = hand_over_times(comm, network)
    edge = edge[packets[edge] > 0]
    number = all_rounds.phase[edge]
    task = all_rounds.task[comm.src[edge]]
    if len(workload) > 1:
        by_task = np.lexsort((number, task))
        edge, number, task = edge[by_task], number[by_task], task[by_task]
    nbytes = comm.nbytes[edge]
    nowhere = np.zeros(0, dtype=np.int32)
    listed = Messages(
        round=number,
        edge=edge - all_rounds.begin[number],
        task=task,
        src=nowhere,
        dst=nowhere,
        receiver=all_rounds.task[comm.dst[edge]],
        fifo=nowhere,
        nbytes=nbytes,
        packets=packets[edge],
        wire=wire[edge],
        software=software_times(comm, network)[edge],
        asks=nbytes / comm.whole_messages[edge] > network.eager_limit,
        merged=1.0,
    )
    return listed, edge, packet_counts(comm, torus)[0][edge]
