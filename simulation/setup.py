"""Layout of the packet simulator's state: links, messages, workers, wheel."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import Network, TaskMapping, Torus
from toruscast.mapping.torus import TIE_RULES
from toruscast.routing.messages import Messages
from toruscast.routing.routing import fifos_between, grid_of
from toruscast.validation import Routing

from . import state as records
from ._link_kernels import pack_routes
from .state import LARGEST_PACKET, PLACES, clock_of

T = TypeVar("T", bound=tuple[Any, ...])

_LINE = 64
_HUGE = 2**21
_SMALL = _HUGE // 2


def blank(size: int, dtype: np.dtype[Any] | type) -> NDArray[Any]:
    """Return a placeholder for zeros, which takes no memory until `side_by_side` lays it out."""
    dtype = np.dtype(dtype)
    return np.ndarray((size,), dtype, bytes(dtype.itemsize), strides=(0,))


def side_by_side(arrays: T) -> T:
    """Return a (nested) named tuple with its arrays copied into one block, each on its own lines.

    The event loop jumps within tens of megabytes. With pages of 4 KiB, nearly every jump would also
    wait for an address translation. Arrays of less than half of a huge page stay in small ones.
    """
    size = sum(-(-array.nbytes // _LINE) * _LINE for array in _arrays(arrays))
    if size <= _SMALL:
        memory, align = np.zeros(size + _LINE, dtype=np.uint8), _LINE
    else:
        memory, align = _huge_pages(size + 2 * _HUGE), _HUGE
    moved: T = _moved(arrays, memory, -memory.ctypes.data % align)[0]
    return moved


def _huge_pages(size: int) -> NDArray[np.uint8]:
    # Systems without such flags give the same memory.
    private = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    block = mmap.mmap(-1, size, **({"flags": private} if private else {}))
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # If the system has no huge pages, small ones are used; nothing else changes.
        with suppress(OSError):
            block.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(block, dtype=np.uint8)


def _arrays(value: tuple[Any, ...]) -> Iterator[NDArray[Any]]:
    for item in value:
        if isinstance(item, np.ndarray):
            yield item
        elif isinstance(item, tuple):
            yield from _arrays(item)


def _moved(value: tuple[Any, ...], memory: NDArray[np.uint8], start: int) -> tuple[Any, int]:
    """Return a tuple with its arrays copied to a place in memory, and the place after them."""
    items: list[Any] = []
    for item in value:
        if isinstance(item, np.ndarray):
            place = memory[start : start + item.nbytes]
            if item.strides != (0,):
                # The copy is made as bytes, because NumPy copies records field by field.
                place[:] = item.reshape(-1).view(np.uint8)
            items.append(np.ndarray(item.shape, item.dtype, place))
            start += -(-item.nbytes // _LINE) * _LINE
        elif isinstance(item, tuple):
            inner, start = _moved(item, memory, start)
            items.append(inner)
        else:
            items.append(item)
    return type(value)(*items), start


_MOST_ROOM = 2**30
# Packets of a message are counted in 32 bits.
_MOST_PACKETS = 2**31
_ARBITRATION = {"first_come": records.FIRST_COME, "round_robin": records.ROUND_ROBIN}
NONE = records.NONE


def is_special(network: Network, looked_at: bool) -> bool:
    """Return whether a network is not of the usual kind, which has kernels of its own.

    ``looked_at``: whether counters are read before all packets have arrived.
    """
    return network.arbitration != "first_come" or network.deadlock == "dateline" or looked_at


@lru_cache(maxsize=8)
def fields_of(torus: Torus) -> records.Fields:
    """Return the fields in which routes keep the hops left through each port."""
    ports = 2 * torus.ndim
    shift, mask = np.zeros(ports, dtype=np.uint64), np.zeros(ports, dtype=np.uint64)
    width = np.zeros(torus.ndim, dtype=np.uint64)
    # An empty route may name any port, which is only prefetched.
    port_of = np.zeros(65, dtype=np.int64)
    at = 0
    for i, k in enumerate(torus.routing_order):
        farthest = _most_hops(torus, k)
        bits = max(1, farthest.bit_length())
        width[i] = bits
        for port in (2 * k, 2 * k + 1):
            shift[port], mask[port] = at, ((1 << bits) - 1) << at
            port_of[at : at + bits] = port
            at += bits
    ports_ranked = np.array([port for k in torus.routing_order for port in (2 * k, 2 * k + 1)])
    ranked = np.zeros(records.MOST_PORTS, dtype=np.uint64)
    ranked[:ports] = mask[ports_ranked]
    zone = np.zeros((len(torus.zone_sets), torus.ndim), dtype=np.uint64)
    for row, zones in zip(zone, torus.zone_sets, strict=True):
        for z, dims in enumerate(zones):
            row[z] = np.bitwise_or.reduce(mask.reshape(-1, 2)[list(dims)], axis=None)
    order = np.array(torus.routing_order, dtype=np.int64)
    return records.Fields(shift, mask, width, order, port_of, ranked, ports_ranked, zone)


def _most_hops(torus: Torus, dimension: int) -> int:
    """Return the most hops of a message along a dimension."""
    if torus.twist:
        return int(np.abs(torus.minimal_hops.hops[:, dimension]).max())
    size = torus.shape[dimension]
    return size // 2 if torus.wrap[dimension] else size - 1


def build_state(
    messages: Messages,
    n_rounds: int,
    torus: Torus,
    mapping: TaskMapping,
    routing: Routing,
    *,
    seed: int = 0,
    places: int = PLACES,
    looked_at: bool = False,
    halved: int = 0,
) -> tuple[records.State, float]:
    """Return the state before the first event, and the seconds of a tick.

    A buffer has room for at least ``places`` merged packets, if it has room for as many real ones.
    ``halved`` tells how often the number of ticks was halved, as in `clock_of`.
    """
    fields, adaptive = fields_of(torus), routing == "adaptive"
    special = 1 if is_special(torus.network, looked_at) else None
    whole = _largest_packet(messages)
    tick, wheel = clock_of(messages, torus, halved)
    message = message_records(messages, torus, tick, fields, adaptive)
    rounds = rounds_of(messages, mapping.n_tasks, n_rounds)
    room = _room(torus.network, messages.merged, whole, places)
    # Real packets for each that a channel holds.
    ratio = _real_places(torus.network) / (room // whole) if messages.merged > 1 else 1.0
    rules = _rules(torus, tick, room, whole, ratio, adaptive, special)
    rules = rules._replace(seed=seed, dependent=int(n_rounds > 1))
    credits = _credits(torus, adaptive, room)
    links = _links(torus, credits, rules)
    packets = _packets(torus, message, credits, rules, ratio)
    tasks = _tasks(mapping, torus.network)
    local = int((messages.src == messages.dst).sum()) if rules.dependent else 0
    n_slots = packets.free.size
    n_events = n_slots + torus.n_links + packets.fifo.size + rounds.then.size
    events = _events(wheel, n_events, n_slots, len(tasks.worker) + local + 1)
    state = side_by_side(records.State(rules, fields, links, packets, rounds, tasks, events))
    # The memory of a link holds either of them; see `_state`.
    link = state.links.link
    if special is None and not adaptive:
        links = state.links._replace(lane=link.view(np.uint8).view(records.LANE))
    else:
        links = state.links._replace(rest=link.view(records.REST))
    return state._replace(links=links), tick


def _largest_packet(messages: Messages) -> int:
    """Return the bytes of the largest packet, header included."""
    most = int(messages.packets.max(initial=0))
    if most >= _MOST_PACKETS:
        raise InputError(
            "too many packets on one edge",
            found=most,
            expected="fewer than 2**31; a larger coarsening (--coarsening) merges them",
        )
    largest = float(messages.wire.max(initial=1.0, where=messages.src != messages.dst))
    whole = max(math.ceil(largest), 1)
    if whole > LARGEST_PACKET:
        raise InputError(
            "packet too long",
            found=f"{whole:.6g} bytes",
            expected=f"at most {LARGEST_PACKET}: coarsening times payload and header",
        )
    return whole


def _rules(
    torus: Torus,
    tick: float,
    room: int,
    whole: int,
    ratio: float,
    adaptive: bool,
    special: int | None,
) -> records.Rules:
    """Return the constants of the network; ``room`` and ``whole`` as in `_room`."""
    network, ties = torus.network, TIE_RULES[torus.tie_break]
    parts = 2**records.PARTS / tick
    inputs = 1
    if network.arbitration == "round_robin":
        # All lanes of a link are bits of one 64-bit number; lanes that do not fit share a turn.
        inputs = min(2 * torus.ndim + network.fifos, 64 // records.KINDS)
    slow = (
        torus.link_bandwidth if torus.exclusions.slow else np.repeat(np.array(torus.bandwidth), 2)
    )
    return records.Rules(
        special=special,
        fifos=network.fifos,
        whole_places=int(network.deadlock == "bubble"),
        inputs=inputs,
        latency=round(network.hop_latency / tick),
        parts_per_byte=parts / slow,
        largest=whole,
        reception_ports=network.reception_ports,
        reception=parts * network.reception_ports / network.memory_bandwidth,
        arbitration=_ARBITRATION[network.arbitration],
        adaptive=int(adaptive) if adaptive or special is not None else None,
        outside=max(1, round(network.fifo_packets / max(ratio, 1.0))),
        turns_a_byte=_real_places(network) / network.fifo_packets / (room // whole * whole),
        injection=parts / max(torus.bandwidth),
        shared_by=network.fifos if network.fifo_rule == "first_free" else 1,
        by_packet=int(network.feeding == "packets"),
        draws_ties=ties.is_drawn,
        ties_minus=ties.adaptive_minus,
        stays=int(network.escape == "stays"),
        seed=0,
        dependent=0,
    )


def _links(torus: Torus, credits: NDArray[np.int32], rules: records.Rules) -> records.Links:
    """Return idle links."""
    network, adaptive = torus.network, bool(rules.adaptive)
    is_usual = rules.special is None and not adaptive
    link = np.zeros(torus.n_links, dtype=records.LINK)
    link["far"] = torus.neighbors.ravel()
    link["port"] = np.tile(np.arange(2 * torus.ndim), torus.n_nodes)
    link["entry"] = 1
    if network.deadlock == "bubble":
        # A ring of up to three nodes is crossed in one hop, so no packet stays on it.
        circular = [
            2 if w and k > 3 else 1 for k, w in zip(torus.ring_lengths, torus.wrap, strict=True)
        ]
        link["entry"] = np.tile(np.repeat(circular, 2), torus.n_nodes)
    link["credit"] = credits[0]
    if not is_usual:
        _fill_rest(link.view(records.REST), torus, credits)
    # One word for each node on the usual network: `words` in `kernels/claim.py`.
    lanes = 2 * torus.ndim * records.KINDS * rules.inputs
    n_ways = -(-lanes // records.LANES_A_WORD) * records.LANES_A_WORD * torus.n_nodes
    return records.Links(
        link=link,
        rest=blank(0, records.REST),
        counter=blank(torus.n_links, records.COUNTER),
        lane=blank(0 if is_usual else link.size * records.KINDS * rules.inputs, records.LANE),
        node=blank(torus.n_nodes if adaptive else 0, records.NODE),
        ways=blank(n_ways if adaptive else 0, np.uint16),
        ordered=np.full(n_ways if adaptive else 0, 255, dtype=np.uint8),
        port=blank(torus.n_nodes * network.reception_ports, np.int64),
    )


def _packets(
    torus: Torus,
    message: NDArray[np.void],
    credits: NDArray[np.int32],
    rules: records.Rules,
    ratio: float,
) -> records.PacketRecords:
    """Return messages without a sent packet, with slots for as many as can be on the way."""
    network = torus.network
    n_fifos = torus.n_nodes * network.fifos
    fifo = np.zeros(n_fifos, dtype=records.FIFO)
    fifo["head"] = NONE
    smallest = min(
        rules.largest, max(1, math.ceil(float(message["wire"].min(initial=rules.largest))))
    )
    to_send = int(message["to_send"].sum(where=message["fifo"] != NONE))
    held = sum(int((credit // smallest).sum()) for credit in credits)
    n_slots = min(to_send, n_fifos * rules.outside + held)
    # All packets of a buffer queue for a link together; a FIFO has only one packet, or a few, at
    # the router, however long they are.
    gives_way = network.fifo_packets < ratio and network.arbitration == "first_come"
    receipt = np.zeros(message.size, dtype=records.RECEIPT)
    receipt["left"] = message["to_send"]
    return records.PacketRecords(
        packet=blank(n_slots, records.PACKET),
        free=np.arange(n_slots, dtype=np.int32),
        fifo=fifo,
        filling=blank(n_fifos, records.FILLING),
        turns_left=blank(n_fifos if gives_way else 0, np.int32),
        message=message,
        receipt=receipt,
    )


def _tasks(mapping: TaskMapping, network: Network) -> records.Tasks:
    """Return tasks before their first round, and who hands over their messages."""
    by_node = network.feeding == "messages"
    worker_of = mapping.node if by_node else np.arange(mapping.n_tasks)
    n_workers = int(worker_of.max(initial=0)) + 1
    return records.Tasks(
        current=blank(mapping.n_tasks, np.int32),
        following=np.full(mapping.n_tasks, NONE, dtype=np.int32),
        worker=np.full((n_workers, 3), NONE, dtype=np.int32),
        worker_of=worker_of.astype(np.int32),
    )


def _events(wheel: int, n_events: int, n_slots: int, n_waiting: int) -> records.EventRecords:
    """Return an empty wheel of so many ticks, for so many events at a time."""
    n_chunks = min(wheel, n_events + 1) + n_events // (records.CHUNK - 1) + 1
    empty = np.zeros(wheel, dtype=records.WHEEL)
    empty["first"], empty["end"] = NONE, records.CHUNK - 1
    clock = np.zeros(10, dtype=np.int64)
    clock[records.FIRSTS] = NONE
    clock[records.CHUNKS], clock[records.SLOTS] = n_chunks, n_slots
    return records.EventRecords(
        wheel=empty,
        filled=blank(wheel // 64, np.uint64),
        chunk=blank(n_chunks * records.CHUNK, np.int64),
        brought=blank(records.CHUNK, np.int32),
        spare=np.arange(n_chunks, dtype=np.int32) * records.CHUNK,
        heap=np.zeros((n_waiting, 3), dtype=np.int64),
        task_queue=np.zeros((n_waiting, 3), dtype=np.int64),
        clock=clock,
    )


def _real_places(network: Network) -> int:
    """Return the real packets that a channel holds."""
    return min(network.buffer_packets, _MOST_ROOM // (network.payload + network.header))


def _room(network: Network, merged: float, largest: int, places: int) -> int:
    """Return the bytes of a channel, enough for ``places`` merged packets if it held as many."""
    whole = network.payload + network.header
    least = 1 if merged <= 1 else min(network.buffer_packets, places)
    return min(max(network.buffer_packets * whole, least * largest), _MOST_ROOM)


def _credits(torus: Torus, adaptive: bool, room: int) -> NDArray[np.int32]:
    """Return the bytes of each link's channels: dimension order, second, adaptive. (3, L)."""
    channels = np.array([[True], [torus.network.deadlock == "dateline"], [adaptive]])
    return np.where(channels & torus.link_exists, np.int32(room), np.int32(0))


def _fill_rest(rest: NDArray[np.void], torus: Torus, credits: NDArray[np.int32]) -> None:
    """Fill in the fields of links that only unusual networks need."""
    _, rest["second_credit"], rest["adaptive_credit"] = credits
    rest["second_channel"] = torus.network.deadlock == "dateline"
    rest["node"] = np.repeat(np.arange(torus.n_nodes), 2 * torus.ndim)
    rank = 2 * np.argsort(torus.routing_order)[:, None] + np.arange(2)
    rest["rank"] = np.tile(rank.ravel(), torus.n_nodes)
    last, here = np.array(torus.ring_lengths) - 1, torus.ring_places
    middle = last // 2  # last node of the lower half
    edge = np.stack((last - here, here))
    half = np.stack(
        (
            np.where(here > middle, last, middle) - here,
            np.where(here > middle, here - middle - 1, here),
        )
    )
    for field, hops in (("to_edge", edge), ("to_middle", half)):
        rest[field] = np.where(torus.wrap, hops, 2**30).transpose(1, 2, 0).ravel()


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
    if asking.size and network.fifo_rule != "first_free":
        fifo[n + 1 :: 2] = fifos_between(torus, src[n + 1 :: 2], dst[n + 1 :: 2])
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
