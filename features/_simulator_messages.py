"""The messages that the packet simulator sends, in the order in which tasks hand them over."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, TaskMapping, Torus

from .packets import hand_over_times, packet_counts, software_times
from .routing import injection_fifos


class Messages(NamedTuple):
    """The edges of one or more rounds that send something, in the order of task, round, turn.

    All arrays are of shape ``(n_messages,)``.
    """

    round: NDArray[np.int64]
    edge: NDArray[np.int64]
    task: NDArray[np.int64]
    src: NDArray[np.int32]  # nodes
    dst: NDArray[np.int32]
    receiver: NDArray[np.int64]  # task
    fifo: NDArray[np.int32]  # of its node, NONE within a node
    nbytes: NDArray[np.float64]
    packets: NDArray[np.int64]
    wire: NDArray[np.float64]
    software: NDArray[np.float64]
    asks: NDArray[np.bool_]  # whether it waits for its receiver's answer first
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
        numbers = np.flatnonzero(packets > 0)
        # Where all edges send something, a view of each column will do.
        sent = numbers if numbers.size < packets.size else slice(None)
        src, dst = mapping.node[comm.src[sent]], mapping.node[comm.dst[sent]]
        if coarsening > 1:
            real += float(packet_counts(comm, torus)[0][sent][src != dst].sum())
        size = comm.nbytes[sent] / np.rint(comm.n_messages[sent])
        asks = (size > network.eager_limit) & (src != dst)
        columns.append(
            (np.full(numbers.size, number), numbers, comm.src[sent], src, dst, comm.dst[sent],
             _queues_of(comm, torus, mapping)[sent], comm.nbytes[sent], packets[sent],
             wire[sent], software_times(comm, network)[sent], asks,
             hand_over_times(comm, network)[0][sent])
        )  # fmt: skip
    stacked = [
        column[0] if len(rounds) == 1 else np.concatenate(column)
        for column in zip(*columns, strict=True)
    ]
    rank, task, turn = stacked[0], stacked[2], stacked[-1]
    later = np.diff(task)
    if len(rounds) > 1 or (later < 0).any() or ((np.diff(turn) < 0) & (later == 0)).any():
        by_turn = np.lexsort((turn, rank, task))
        stacked = [column[by_turn] for column in stacked]
    columns_and_share: list[Any] = [*stacked[:-1], 1.0]
    listed = Messages(*columns_and_share)
    if coarsening == 1:
        return listed
    simulated = float(listed.packets[listed.src != listed.dst].sum())
    return listed._replace(merged=real / max(simulated, 1.0))


def _queues_of(comm: CommGraph, torus: Torus, mapping: TaskMapping) -> NDArray[np.int32]:
    """FIFO of its node in which each edge's messages wait, -1 within a node."""
    fifo = injection_fifos(comm, torus, mapping)
    return np.minimum(fifo, 0) if torus.network.fifo_rule == "first_free" else fifo
