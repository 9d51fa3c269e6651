"""The simulator's records of messages and handshakes, and the messages that each round waits for.

Record ``i`` is message ``i`` of `Messages`. The handshakes of messages that ask first follow; each
question stands before its answer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.routing import twisted
from toruscast.routing.messages import Messages
from toruscast.routing.route_kernels import pick_fifos
from toruscast.routing.routing import FIFO_RULES, grid_of

from . import _state as records
from .kernels.field import pack_routes

NONE = records.NONE


def message_records(
    messages: Messages, torus: Torus, tick: float, fields: records.Fields, adaptive: bool
) -> NDArray[np.void]:
    """Return records of messages and handshakes, ``(E,)``; with zones, ties are left open."""
    network = torus.network
    asking = np.flatnonzero(messages.asks)
    n = messages.task.size
    message = np.zeros(n + 2 * asking.size, dtype=records.MESSAGE)
    message["next"] = NONE
    message["wire"][:n] = messages.wire
    message["wire"][n:] = network.header
    message["to_send"][:n] = messages.packets
    message["to_send"][n:] = 1
    message["overhead"][:n] = np.rint(messages.software / tick)
    message["copy"][:n] = np.rint(messages.nbytes / network.memory_bandwidth / tick)
    answered = np.repeat(asking, 2)
    forth = np.arange(answered.size) % 2 == 0
    src = np.concatenate(
        (messages.src, np.where(forth, messages.src[answered], messages.dst[answered]))
    )
    dst = np.concatenate(
        (messages.dst, np.where(forth, messages.dst[answered], messages.src[answered]))
    )
    chooses = np.zeros(src.size, dtype=np.bool_)
    if adaptive:
        message["zones"] = torus.zone_set_of(src, dst)
        chooses = torus.has_zones[message["zones"]]
    route, ties = np.zeros(src.size, dtype=np.uint64), np.zeros(src.size, dtype=np.int32)
    coins = np.zeros(src.size, dtype=np.int32)
    if torus.twist:
        route = _pack_hops(fields, torus.twisted_hops(src, dst))
    else:
        pack_routes(grid_of(torus), fields, src, dst, chooses, route, ties, coins)
    message["route"], message["ties"], message["coin"] = route, ties, coins
    fifo = np.concatenate((messages.fifo, np.zeros(2 * asking.size, dtype=np.int32)))
    fifo[n::2] = messages.fifo[asking]
    fifo[n + 1 :: 2] = _fifos_of_answers(torus, src[n + 1 :: 2], dst[n + 1 :: 2])
    message["fifo"] = np.where(fifo >= 0, src.astype(np.int64) * network.fifos + fifo, NONE)
    return message


def _pack_hops(fields: records.Fields, hops: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return routes packed as by `pack_routes`, from hops along each dimension."""
    route = np.zeros(len(hops), dtype=np.uint64)
    for k in range(hops.shape[1]):
        along = np.abs(hops[:, k]).astype(np.uint64)
        shift = fields.shift[2 * k + (hops[:, k] < 0)]
        route |= along << shift
    return route


def _fifos_of_answers(
    torus: Torus, src: NDArray[np.int32], dst: NDArray[np.int32]
) -> NDArray[np.int32]:
    network = torus.network
    answer = np.zeros(src.size, dtype=np.int32)
    if torus.twist and network.fifo_rule in ("bluegene_q", "first_dimension"):
        return twisted.pick_fifos(torus, network.fifo_rule == "first_dimension", src, dst)
    if network.fifo_rule != "first_free":
        pick_fifos(
            grid_of(torus),
            FIFO_RULES[network.fifo_rule],
            network.fifos,
            src,
            dst,
            np.arange(torus.n_nodes, dtype=np.int32),
            answer,
        )
    return answer


def rounds_of(messages: Messages, n_tasks: int, n_rounds: int) -> records.TaskRounds:
    """Return the messages that each round of each task hands over and waits for."""
    asking = np.flatnonzero(messages.asks)
    n, dependent = messages.task.size, n_rounds > 1
    reacts = dependent or asking.size > 0
    then = np.full(n + 2 * asking.size if reacts else 0, NONE, dtype=np.int32)
    # A task first hands over only the question of a message that asks.
    first = np.arange(n)
    if asking.size:
        first[asking] = n + 2 * np.arange(asking.size)
        then[n::2], then[n + 1 :: 2] = n + 1 + 2 * np.arange(asking.size), asking
    rows = messages.task * np.int64(n_rounds) + messages.round
    begin = np.searchsorted(rows, np.arange(n_tasks * n_rounds + 1))
    waits = np.zeros(n_tasks * n_rounds, dtype=np.int32)
    receiver = sender = np.zeros(0, dtype=np.int64)
    if dependent:
        receiver, sender = messages.receiver * np.int64(n_rounds) + messages.round, rows
        np.add.at(waits, receiver, 1)
        np.add.at(waits, rows[asking], 1)
    return records.TaskRounds(
        then,
        first.astype(np.int32),
        receiver.astype(np.int32),
        sender.astype(np.int32),
        begin.astype(np.int32),
        waits,
        np.full(waits.size if dependent and asking.size else 0, NONE, dtype=np.int32),
    )
