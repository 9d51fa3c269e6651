"""Initial state of the packet simulator: links, messages, workers and events."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import Network, TaskMapping, Torus
from toruscast.mapping.torus import TIE_RULES
from toruscast.routing.messages import Messages
from toruscast.routing.routing import fifos_between, grid_of
from toruscast.typing import Int32s, UInt64s
from toruscast.validation import Routing

from . import state as records
from ._link_kernels import pack_routes
from .state import LARGEST_PACKET, NONE, PLACES, choose_tick

T = TypeVar("T", bound=tuple[Any, ...])

_CACHE_LINE = 64


def placeholder(size: int, dtype: np.dtype[Any] | type) -> NDArray[Any]:
    """Return zeros that take no memory until `pack_contiguously` copies them."""
    dtype = np.dtype(dtype)
    return np.ndarray((size,), dtype, bytes(dtype.itemsize), strides=(0,))


def pack_contiguously(arrays: T) -> T:
    """Copy the arrays of a (nested) named tuple into one block, aligned to cache lines.

    The event loop accesses tens of megabytes at random. With pages of 4 KiB, nearly every access
    would miss the TLB, but NumPy allocates large blocks in huge pages.
    """
    # Round the size of each array up to whole cache lines.
    sizes = [-(-array.nbytes // _CACHE_LINE) * _CACHE_LINE for array in _iterate_arrays(arrays)]
    memory = np.zeros(sum(sizes) + _CACHE_LINE, dtype=np.uint8)
    begins = accumulate(sizes, initial=-memory.ctypes.data % _CACHE_LINE)

    def copy_item(item: Any) -> Any:
        """Copy an array, or all arrays of a named tuple, into the block, and return the copy."""
        if isinstance(item, tuple):
            return type(item)(*map(copy_item, item))
        if not isinstance(item, np.ndarray):
            return item
        begin = next(begins)
        block = memory[begin : begin + item.nbytes]
        # A placeholder has strides of 0, and its block is 0 already.
        if item.strides != (0,):
            # Copy bytes, because NumPy copies records field by field.
            block[:] = item.reshape(-1).view(np.uint8)
        return np.ndarray(item.shape, item.dtype, block)

    packed: T = copy_item(arrays)
    return packed


def _iterate_arrays(value: tuple[Any, ...]) -> Iterator[NDArray[Any]]:
    """Yield the arrays of a (nested) named tuple."""
    for item in value:
        if isinstance(item, np.ndarray):
            yield item
        elif isinstance(item, tuple):
            yield from _iterate_arrays(item)


_MAX_CHANNEL_BYTES = 2**30
# The packets of a message are counted with 32 bits.
_MAX_PACKETS = 2**31
_ARBITRATION = {"first_come": records.FIRST_COME, "round_robin": records.ROUND_ROBIN}


def is_special(network: Network, reads_counters: bool) -> bool:
    """Return whether a network needs more than the kernels of the default network.

    ``reads_counters`` is whether counters are read before all packets have arrived.
    """
    return network.arbitration != "first_come" or network.deadlock == "dateline" or reads_counters


@lru_cache(maxsize=8)
def get_route_fields(torus: Torus) -> records.RouteFields:
    """Return the bit fields of routes; each field is wide enough for the maximum hops of a port."""
    ports = 2 * torus.ndim
    shift, mask = np.zeros(ports, dtype=np.uint64), np.zeros(ports, dtype=np.uint64)
    width = np.zeros(torus.ndim, dtype=np.uint64)
    # An empty route has no bit set, so its lowest bit counts as 64. Its port is used only to
    # prefetch.
    port_of_bit = np.zeros(65, dtype=np.int64)
    bit = 0
    for i, k in enumerate(torus.routing_order):
        max_hops = _max_hops(torus, k)
        bits = max(1, max_hops.bit_length())
        width[i] = bits
        for port in (2 * k, 2 * k + 1):
            shift[port], mask[port] = bit, ((1 << bits) - 1) << bit
            port_of_bit[bit : bit + bits] = port
            bit += bits
    ports_ranked = np.array([port for k in torus.routing_order for port in (2 * k, 2 * k + 1)])
    ranked = np.zeros(records.MAX_PORTS, dtype=np.uint64)
    ranked[:ports] = mask[ports_ranked]
    zone = np.zeros((len(torus.zone_sets), torus.ndim), dtype=np.uint64)
    for set_number, zones in enumerate(torus.zone_sets):
        for z, dimensions in enumerate(zones):
            port_masks = mask.reshape(-1, 2)[list(dimensions)]
            zone[set_number, z] = np.bitwise_or.reduce(port_masks, axis=None)
    order = np.array(torus.routing_order, dtype=np.int64)
    return records.RouteFields(shift, mask, width, order, port_of_bit, ranked, ports_ranked, zone)


def _max_hops(torus: Torus, dimension: int) -> int:
    """Return the maximum hops of a minimal route along a dimension."""
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
    min_places: int = PLACES,
    reads_counters: bool = False,
    n_halvings: int = 0,
) -> tuple[records.State, float]:
    """Return the state before the first event, and the seconds of a tick.

    A buffer holds at least ``min_places`` merged packets if it holds that many real packets.
    ``n_halvings`` is the number of halvings of ticks, as in `choose_tick`.
    """
    fields, adaptive = get_route_fields(torus), routing == "adaptive"
    special = 1 if is_special(torus.network, reads_counters) else None
    largest = _largest_packet(messages)
    tick, wheel = choose_tick(messages, torus, n_halvings)
    message = build_message_records(messages, torus, tick, fields, adaptive)
    rounds = build_task_rounds(messages, mapping.n_tasks, n_rounds)
    channel_bytes = _channel_bytes(torus.network, messages.merged, largest, min_places)
    packets_per_place = 1.0
    if messages.merged > 1:
        packets_per_place = _count_real_packets(torus.network) / (channel_bytes // largest)
    rules = _build_rules(torus, tick, channel_bytes, largest, packets_per_place, adaptive, special)
    rules = rules._replace(seed=seed, dependent=int(n_rounds > 1))
    credits = _channel_credits(torus, adaptive, channel_bytes)
    links = _build_links(torus, credits, rules)
    packets = _build_packets(torus, message, credits, rules, packets_per_place)
    tasks = _build_tasks(mapping, torus.network)
    n_local = int((messages.src == messages.dst).sum()) if rules.dependent else 0
    n_slots = packets.free.size
    n_events = n_slots + torus.n_links + packets.fifo.size + rounds.next_message.size
    events = _build_events(wheel, n_events, n_slots, len(tasks.worker) + n_local + 1)
    state = pack_contiguously(records.State(rules, fields, links, packets, rounds, tasks, events))
    # The memory of links has either lanes or further fields; see `state.LINK`.
    link = state.links.link
    if special is None and not adaptive:
        links = state.links._replace(lane=link.view(np.uint8).view(records.LANE))
    else:
        links = state.links._replace(extra=link.view(records.EXTRA))
    return state._replace(links=links), tick


def _largest_packet(messages: Messages) -> int:
    """Return the bytes of the largest packet, rounded up; raise `InputError` above the limits."""
    max_packets = int(messages.packets.max(initial=0))
    if max_packets >= _MAX_PACKETS:
        raise InputError(
            "too many packets on one edge",
            found=max_packets,
            expected="fewer than 2**31; a larger coarsening (--coarsening) merges them",
        )
    largest = float(messages.wire.max(initial=1.0, where=messages.src != messages.dst))
    rounded = max(math.ceil(largest), 1)
    if rounded > LARGEST_PACKET:
        raise InputError(
            "packet too long",
            found=f"{rounded:.6g} bytes",
            expected=f"at most {LARGEST_PACKET}: coarsening times payload and header",
        )
    return rounded


def _build_rules(
    torus: Torus,
    tick: float,
    channel_bytes: int,
    largest: int,
    packets_per_place: float,
    adaptive: bool,
    special: int | None,
) -> records.NetworkRules:
    """Return the constants of the network, with times in ticks or in parts of a tick.

    ``largest`` is the bytes of the largest packet. ``packets_per_place`` is the number of real
    packets that a channel holds, divided by the number of simulated packets that it holds.
    """
    network, ties = torus.network, TIE_RULES[torus.tie_break]
    parts = 2**records.PARTS / tick
    n_inputs = 1
    if network.arbitration == "round_robin":
        # The lanes of a link are the bits of a 64-bit number. If 64 are too few, FIFOs share
        # inputs.
        n_inputs = min(2 * torus.ndim + network.fifos, 64 // records.KINDS)
    bandwidth = np.repeat(np.array(torus.bandwidth), 2)
    if torus.exclusions.slow:
        bandwidth = torus.link_bandwidth
    return records.NetworkRules(
        special=special,
        fifos=network.fifos,
        whole_places=int(network.deadlock == "bubble"),
        n_inputs=n_inputs,
        latency=round(network.hop_latency / tick),
        parts_per_byte=parts / bandwidth,
        largest=largest,
        reception_ports=network.reception_ports,
        reception=parts * network.reception_ports / network.memory_bandwidth,
        arbitration=_ARBITRATION[network.arbitration],
        adaptive=int(adaptive) if adaptive or special is not None else None,
        max_at_router=max(1, round(network.fifo_packets / max(packets_per_place, 1.0))),
        turns_a_byte=_count_real_packets(network)
        / network.fifo_packets
        / (channel_bytes // largest * largest),
        injection=parts / max(torus.bandwidth),
        shared_by=network.fifos if network.fifo_rule == "first_free" else 1,
        by_packet=int(network.feeding == "packets"),
        draws_ties=ties.is_drawn,
        ties_minus=ties.adaptive_minus,
        stays=int(network.escape == "stays"),
        seed=0,
        dependent=0,
    )


def _build_links(torus: Torus, credits: Int32s, rules: records.NetworkRules) -> records.LinkRecords:
    """Return idle links with empty buffers; ``credits`` are those of `_channel_credits`."""
    network, adaptive = torus.network, bool(rules.adaptive)
    is_default_network = rules.special is None and not adaptive
    link = np.zeros(torus.n_links, dtype=records.LINK)
    link["far"] = torus.neighbors.ravel()
    link["port"] = np.tile(np.arange(2 * torus.ndim), torus.n_nodes)
    link["entry"] = 1
    if network.deadlock == "bubble":
        # Routes on a ring of up to three nodes have one hop, so no packet stays on such a ring.
        has_bubble = np.array(torus.wrap) & (np.array(torus.ring_lengths) > 3)
        link["entry"] = np.tile(np.repeat(1 + has_bubble, 2), torus.n_nodes)
    link["credit"] = credits[0]
    if not is_default_network:
        _fill_extra(link.view(records.EXTRA), torus, credits)
    # The lanes of each node take up whole words; see `words_per_node`.
    lanes = 2 * torus.ndim * records.KINDS * rules.n_inputs
    n_lanes = 0 if is_default_network else lanes * torus.n_nodes
    n_claims = -(-lanes // records.LANES_PER_WORD) * records.LANES_PER_WORD * torus.n_nodes
    return records.LinkRecords(
        link=link,
        extra=placeholder(0, records.EXTRA),
        counter=placeholder(torus.n_links, records.COUNTER),
        lane=placeholder(n_lanes, records.LANE),
        node=placeholder(torus.n_nodes if adaptive else 0, records.NODE),
        adaptive_ranks=placeholder(n_claims if adaptive else 0, np.uint16),
        ordered=np.full(n_claims if adaptive else 0, 255, dtype=np.uint8),
        port=placeholder(torus.n_nodes * network.reception_ports, np.int64),
    )


def _build_packets(
    torus: Torus,
    message: NDArray[np.void],
    credits: Int32s,
    rules: records.NetworkRules,
    packets_per_place: float,
) -> records.PacketRecords:
    """Return messages before their first packet, empty FIFOs, and slots for packets.

    There is a slot for every packet that can be in the network at one time.
    """
    network = torus.network
    n_fifos = torus.n_nodes * network.fifos
    fifo = np.zeros(n_fifos, dtype=records.FIFO)
    fifo["head"] = NONE
    smallest = min(
        rules.largest, max(1, math.ceil(float(message["wire"].min(initial=rules.largest))))
    )
    to_send = int(message["to_send"].sum(where=message["fifo"] != NONE))
    n_buffered = sum(int((credit // smallest).sum()) for credit in credits)
    n_slots = min(to_send, n_fifos * rules.max_at_router + n_buffered)
    # All packets in a buffer compete for links, but only the first few packets in a FIFO do. Merged
    # packets from FIFOs therefore yield turns to packets from buffers.
    yields_turns = network.fifo_packets < packets_per_place and network.arbitration == "first_come"
    receipt = np.zeros(message.size, dtype=records.RECEIPT)
    receipt["left"] = message["to_send"]
    return records.PacketRecords(
        packet=placeholder(n_slots, records.PACKET),
        free=np.arange(n_slots, dtype=np.int32),
        fifo=fifo,
        filling=placeholder(n_fifos, records.FILLING),
        turns_left=placeholder(n_fifos if yields_turns else 0, np.int32),
        message=message,
        receipt=receipt,
    )


def _build_tasks(mapping: TaskMapping, network: Network) -> records.TaskRecords:
    """Return idle workers: one for each task, or one for each node with feeding "messages"."""
    is_by_node = network.feeding == "messages"
    worker_of = mapping.node if is_by_node else np.arange(mapping.n_tasks)
    n_workers = int(worker_of.max(initial=0)) + 1
    return records.TaskRecords(
        current=placeholder(mapping.n_tasks, np.int32),
        following=np.full(mapping.n_tasks, NONE, dtype=np.int32),
        worker=np.full((n_workers, 3), NONE, dtype=np.int32),
        worker_of=worker_of.astype(np.int32),
    )


def _build_events(wheel: int, n_events: int, n_slots: int, n_waiting: int) -> records.EventRecords:
    """Return a wheel of ``wheel`` ticks without events, with space for ``n_events`` at a time.

    ``n_waiting`` is the maximum number of task events, and ``n_slots`` the number of packet slots.
    """
    n_chunks = min(wheel, n_events + 1) + n_events // (records.CHUNK - 1) + 1
    empty = np.zeros(wheel, dtype=records.WHEEL)
    empty["first"], empty["end"] = NONE, records.CHUNK - 1
    clock = np.zeros(10, dtype=np.int64)
    clock[records.NEW_HEAD] = NONE
    clock[records.N_FREE_CHUNKS], clock[records.N_FREE_SLOTS] = n_chunks, n_slots
    return records.EventRecords(
        wheel=empty,
        filled=placeholder(wheel // 64, np.uint64),
        chunk=placeholder(n_chunks * records.CHUNK, np.int64),
        prefetched=placeholder(records.CHUNK, np.int32),
        free_chunks=np.arange(n_chunks, dtype=np.int32) * records.CHUNK,
        heap=np.zeros(n_waiting, dtype=records.TASK_EVENT),
        task_queue=np.zeros(n_waiting, dtype=records.TASK_EVENT),
        clock=clock,
    )


def _count_real_packets(network: Network) -> int:
    """Return the number of real packets that a channel holds."""
    return min(network.buffer_packets, _MAX_CHANNEL_BYTES // (network.payload + network.header))


def _channel_bytes(network: Network, merged: float, largest: int, min_places: int) -> int:
    """Return a channel's bytes, enough for ``min_places`` merged packets or all real ones."""
    real_bytes = network.buffer_packets * (network.payload + network.header)
    min_packets = 1 if merged <= 1 else min(network.buffer_packets, min_places)
    return min(max(real_bytes, min_packets * largest), _MAX_CHANNEL_BYTES)


def _channel_credits(torus: Torus, adaptive: bool, channel_bytes: int) -> Int32s:
    """Return the bytes of the first, the second and the adaptive channel of each link, (3, L)."""
    channels = np.array([[True], [torus.network.deadlock == "dateline"], [adaptive]])
    return np.where(channels & torus.link_exists, np.int32(channel_bytes), np.int32(0))


def _fill_extra(extra: NDArray[np.void], torus: Torus, credits: Int32s) -> None:
    """Fill in the fields of links that the default network does not have."""
    _, extra["second_credit"], extra["adaptive_credit"] = credits
    extra["second_channel"] = torus.network.deadlock == "dateline"
    extra["node"] = np.repeat(np.arange(torus.n_nodes), 2 * torus.ndim)
    rank = 2 * np.argsort(torus.routing_order)[:, None] + np.arange(2)
    extra["rank"] = np.tile(rank.ravel(), torus.n_nodes)
    last_position, position = np.array(torus.ring_lengths) - 1, torus.ring_places
    middle = last_position // 2  # last position of the lower half
    to_edge = np.stack((last_position - position, position))
    to_middle = np.stack(
        (
            np.where(position > middle, last_position, middle) - position,
            np.where(position > middle, position - middle - 1, position),
        )
    )
    for field, hops in (("to_edge", to_edge), ("to_middle", to_middle)):
        extra[field] = np.where(torus.wrap, hops, 2**30).transpose(1, 2, 0).ravel()


def build_message_records(
    messages: Messages, torus: Torus, tick: float, fields: records.RouteFields, adaptive: bool
) -> NDArray[np.void]:
    """Return records of messages and handshakes, ``(E,)``.

    The records of all messages come first, then the question and the answer of each rendezvous.
    """
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
    # A question goes in the direction of its message, and the answer in the opposite direction.
    src, dst = np.empty((2, message.size), dtype=np.int32)
    src[:n], dst[:n] = messages.src, messages.dst
    src[n::2], dst[n::2] = src[asking], dst[asking]
    src[n + 1 :: 2], dst[n + 1 :: 2] = dst[asking], src[asking]
    is_adaptive_message = np.zeros(src.size, dtype=np.bool_)
    if adaptive:
        message["zones"] = torus.zone_set_of(src, dst)
        is_adaptive_message = torus.has_zones[message["zones"]]
    if torus.twist:
        message["route"] = _pack_hops(fields, torus.twisted_hops(src, dst))
    else:
        pack_routes(grid_of(torus), fields, src, dst, is_adaptive_message, message)
    fifo = np.concatenate((messages.fifo, np.zeros(2 * asking.size, dtype=np.int32)))
    fifo[n::2] = messages.fifo[asking]
    if asking.size and network.fifo_rule != "first_free":
        fifo[n + 1 :: 2] = fifos_between(torus, src[n + 1 :: 2], dst[n + 1 :: 2])
    message["fifo"] = np.where(fifo >= 0, src.astype(np.int64) * network.fifos + fifo, NONE)
    return message


def _pack_hops(fields: records.RouteFields, hops: Int32s) -> UInt64s:
    """Return packed routes, like `pack_routes`, given their hops along each dimension."""
    route = np.zeros(len(hops), dtype=np.uint64)
    for k in range(hops.shape[1]):
        n_hops = np.abs(hops[:, k]).astype(np.uint64)
        shift = fields.shift[2 * k + (hops[:, k] < 0)]
        route |= n_hops << shift
    return route


def build_task_rounds(messages: Messages, n_tasks: int, n_rounds: int) -> records.TaskRounds:
    """Return the messages that each task hands over and waits for in each round.

    The row of a task and a round is ``task * n_rounds + round``.
    """
    asking = np.flatnonzero(messages.asks)
    n, dependent = messages.task.size, n_rounds > 1
    reacts = dependent or asking.size > 0
    next_message = np.full(n + 2 * asking.size if reacts else 0, NONE, dtype=np.int32)
    # For a rendezvous, a task hands over only the question.
    first = np.arange(n)
    if asking.size:
        # The answer follows the question, and the message follows the answer.
        question = n + 2 * np.arange(asking.size)
        first[asking] = question
        next_message[question], next_message[question + 1] = question + 1, asking
    rows = messages.task * np.int64(n_rounds) + messages.round
    begin = np.searchsorted(rows, np.arange(n_tasks * n_rounds + 1))
    waits = np.zeros(n_tasks * n_rounds, dtype=np.int32)
    receiver = sender = np.zeros(0, dtype=np.int64)
    if dependent:
        receiver, sender = messages.receiver * np.int64(n_rounds) + messages.round, rows
        np.add.at(waits, receiver, 1)
        np.add.at(waits, rows[asking], 1)
    n_asked = waits.size if dependent and asking.size else 0
    return records.TaskRounds(
        next_message=next_message,
        first=first.astype(np.int32),
        receiver=receiver.astype(np.int32),
        sender=sender.astype(np.int32),
        begin=begin.astype(np.int32),
        waits=waits,
        asked=np.full(n_asked, NONE, dtype=np.int32),
    )
