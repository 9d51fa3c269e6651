"""The messages that the simulators send, in the order in which tasks hand them over."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, TaskMapping, Torus

from .packets import hand_over_times, packet_counts, software_times
from .routing import injection_fifos


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


def list_messages(
    rounds: list[CommGraph], torus: Torus, mapping: TaskMapping, coarsening: int
) -> Messages:
    """Return the messages of the rounds."""
    network = torus.network
    columns = []
    real = 0.0
    for number, comm in enumerate(rounds):
        packets, wire = packet_counts(comm, torus, coarsening)
        edge, _ = hand_over_times(comm, network)
        edge = edge[packets[edge] > 0]
        task, receiver = comm.src[edge], comm.dst[edge]
        src, dst = mapping.node[task], mapping.node[receiver]
        if coarsening > 1:
            real += float(packet_counts(comm, torus)[0][edge][src != dst].sum())
        nbytes = comm.nbytes[edge]
        size = nbytes / comm.whole_messages[edge]
        asks = (size > network.eager_limit) & (src != dst)
        columns.append(
            (
                np.full(edge.size, number),
                edge,
                task,
                src,
                dst,
                receiver,
                _queues_of(comm, torus, mapping)[edge],
                nbytes,
                packets[edge],
                wire[edge],
                software_times(comm, network)[edge],
                asks,
            )
        )
    every: list[Any] = [*columns[0]]
    if len(rounds) > 1:
        rank, _, task, *_ = stacked = [np.concatenate(c) for c in zip(*columns, strict=True)]
        by_task = np.lexsort((rank, task))
        every = [column[by_task] for column in stacked]
    listed = Messages._make([*every, 1.0])
    if coarsening == 1:
        return listed
    simulated = float(listed.packets[listed.src != listed.dst].sum())
    return listed._replace(merged=max(real, 1.0) / max(simulated, 1.0))


def _queues_of(comm: CommGraph, torus: Torus, mapping: TaskMapping) -> NDArray[np.int32]:
    """Return the FIFO of the node in which each edge's messages wait, NONE within a node."""
    if torus.network.fifo_rule != "first_free":
        return injection_fifos(comm, torus, mapping)
    node = mapping.node
    return np.where(node[comm.src] == node[comm.dst], np.int32(-1), np.int32(0))
