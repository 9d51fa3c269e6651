"""The messages that the simulators send, in the order in which tasks hand them over."""

from __future__ import annotations

from typing import NamedTuple

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


def list_messages(
    traffic: Workload | CommGraph, torus: Torus, mapping: TaskMapping, coarsening: int
) -> Messages:
    """Return the messages of all rounds."""
    network = torus.network
    workload = as_workload(traffic)
    all_rounds = workload.unrolled
    comm = all_rounds.comm
    packets, wire = packet_counts(comm, torus, coarsening)
    edge, _ = hand_over_times(comm, network)
    edge = edge[packets[edge] > 0]
    number = all_rounds.phase[edge]
    task = all_rounds.task[comm.src[edge]]
    if len(workload) > 1:
        by_task = np.lexsort((number, task))
        edge, number, task = edge[by_task], number[by_task], task[by_task]
    receiver = all_rounds.task[comm.dst[edge]]
    src, dst = mapping.node[task], mapping.node[receiver]
    if network.fifo_rule == "first_free":
        # All messages of a node wait in one queue.
        fifo = np.where(src == dst, np.int32(-1), np.int32(0))
    else:
        fifo = fifos_of(workload, torus, mapping)[edge]
    nbytes = comm.nbytes[edge]
    listed = Messages(
        round=number,
        edge=edge - all_rounds.begin[number],
        task=task,
        src=src,
        dst=dst,
        receiver=receiver,
        fifo=fifo,
        nbytes=nbytes,
        packets=packets[edge],
        wire=wire[edge],
        software=software_times(comm, network)[edge],
        asks=(nbytes / comm.whole_messages[edge] > network.eager_limit) & (src != dst),
        merged=1.0,
    )
    if coarsening == 1:
        return listed
    remote = src != dst
    real = float(packet_counts(comm, torus)[0][edge][remote].sum())
    simulated = float(listed.packets[remote].sum())
    return listed._replace(merged=max(real, 1.0) / max(simulated, 1.0))
