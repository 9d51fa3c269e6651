"""Kernels of links: ports, buffers, claims, arbitration, and packed routes.

A lane is a queue of packets at a link, and a channel is a part of the buffer after a link. The
first packet of each lane at a node claims the links that it may take next. A set of lanes, ports or
channels is a number with a bit for each member. `state` defines the records and their fields.

The default network has no special rules and no adaptive packets; it has its own machine code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel, trailing_zeros
from toruscast._llvm import equal_of_64, sharing_of_16, sharing_of_64
from toruscast.routing.route_kernels import (
    Grid,
    goes_plus,
    ring_distance,
    sum_other_coordinates,
)
from toruscast.typing import Bools, Int32s

from .state import (
    ADAPTIVE_CHANNEL,
    CHANNEL_BITS,
    FIRST,
    FIRST_COME,
    FREE,
    KINDS,
    LANES_PER_LINK,
    LANES_PER_WORD,
    NONE,
    OWN_LANES,
    ROUND_ROBIN,
    SECOND,
    RouteFields,
    State,
)


@bare_kernel
def is_default_network(state: State) -> bool:
    return state.rules.special is None and state.rules.adaptive is None


@bare_kernel
def is_adaptive(state: State) -> bool:
    return (
        state.rules.adaptive is not None
        if state.rules.special is None
        else state.rules.adaptive != 0
    )


@bare_kernel
def arbitration(state: State) -> int:
    return FIRST_COME if state.rules.special is None else state.rules.arbitration


@bare_kernel
def counts_arrivals(state: State) -> bool:
    """Return whether buffers count packets on arrival instead of departure.

    Both give the same sums at the end of a run. Counting on departure uses the same cache line as
    the wait. Counting on arrival is needed if counters are read during the run.
    """
    return state.rules.special is not None


@bare_kernel
def n_inputs(state: State) -> int:
    """Return the number of lanes of each kind at a link."""
    return 1 if state.rules.special is None else state.rules.n_inputs


@bare_kernel
def lane_index(state: State, out: int, lane: int) -> int:
    """Return the index of a lane; the default network has one FIRST and one SECOND lane."""
    if is_default_network(state):
        return out * LANES_PER_LINK + OWN_LANES + lane
    return out * KINDS * n_inputs(state) + lane


@bare_kernel
def second_channel(state: State, out: int) -> int:
    """Return the channel that lanes of kind SECOND enter: 1 with datelines, else 0."""
    return 0 if state.rules.special is None else int(state.links.extra[out].second_channel)


@bare_kernel
def queue_fifo(state: State, f: int) -> int:
    """Return the FIFO whose record holds the queue of FIFO ``f``."""
    if state.rules.shared_by == 1:
        return f
    return f - np.int64(np.uint32(f) % np.uint32(state.rules.shared_by))


@bare_kernel
def node_of_fifo(state: State, f: int) -> int:
    # Unsigned 32-bit division is faster than 64-bit division.
    return np.int64(np.uint32(f) // np.uint32(state.rules.fifos))


@bare_kernel
def next_port(state: State, route: int) -> int:
    """Return the first port, in dimension order, that has hops left."""
    port: int = state.fields.port[np.uint64(trailing_zeros(route))]
    return port


@bare_kernel
def zone_fields(state: State, p: int) -> int:
    """Return the route fields of the ports that an adaptive packet may choose; 0 for none.

    These are the ports with hops left in the first zone (set of dimensions) that has any hops left.
    """
    packet = state.packets.packet[p]
    zone: int = np.uint64(0)
    row = np.uint64(0)
    if state.fields.zone.shape[0] > 1:
        row = np.uint64(state.packets.message[packet.message].zones)
    for z in range(state.fields.zone.shape[1]):
        zone = packet.route & state.fields.zone[row, np.uint64(z)]
        if zone != 0:
            break
    if state.rules.ties_minus:
        # A route has hops left in both directions of a dimension only at a tie. Drop the plus hops.
        for port in range(0, state.fields.mask.size, 2):
            if zone & state.fields.mask[np.uint64(port + 1)]:
                zone &= ~state.fields.mask[np.uint64(port)]
    return zone


@bare_kernel
def buffer_bytes(state: State, wire: float) -> int:
    """Return the bytes that a packet takes in a buffer; an empty packet takes one byte.

    With the bubble rule, every packet takes as many bytes as the largest. Otherwise the free bytes
    of a ring could be spread over its buffers in parts that are too small for any packet.
    """
    if state.rules.whole_places:
        return state.rules.largest
    return min(max(np.int64(np.ceil(wire)), 1), state.rules.largest)


@bare_kernel
def channel_of(buffer: int) -> int:
    return buffer & ((1 << CHANNEL_BITS) - 1)


@bare_kernel
def link_before(buffer: int) -> int:
    """Return the link that ends at a buffer."""
    return buffer >> CHANNEL_BITS


@bare_kernel
def count_packet(counter: Any, packets: int, wire: float) -> None:
    """Count a packet that enters or leaves a buffer that holds ``packets`` packets."""
    counter.packets += 1
    counter.wire_bytes += wire
    counter.max_packets = max(counter.max_packets, packets)


@bare_kernel
def free_bytes(state: State, out: int, channel: int) -> int:
    if is_default_network(state) or channel == 0:
        return np.int64(state.links.link[out].credit)
    extra = state.links.extra[out]
    return np.int64(extra.second_credit if channel == 1 else extra.adaptive_credit)


@bare_kernel
def reserve_bytes(state: State, buffer: int, size: int) -> None:
    """Reserve bytes of a buffer; a negative size frees them."""
    out = buffer >> CHANNEL_BITS
    channel = channel_of(buffer)
    if is_default_network(state) or channel == 0:
        state.links.link[out].credit -= size
    elif channel == 1:
        state.links.extra[out].second_credit -= size
    else:
        state.links.extra[out].adaptive_credit -= size


# Value of `LinkRecords.ordered` for a lane without packets.
_NO_CLAIM = 255


@bare_kernel
def words_per_node(state: State) -> int:
    """Return how many 64-bit words are needed for one bit for each lane of a node."""
    if state.rules.special is None:
        return 1
    lanes = state.fields.shift.size * KINDS * n_inputs(state)
    return (lanes + LANES_PER_WORD - 1) // LANES_PER_WORD


@bare_kernel
def claim_index(state: State, holder: int, lane: int) -> int:
    """Return the index of a lane among the claims of its node."""
    link = state.links.extra[holder]
    port = np.int64(state.links.link[holder].port)
    row = np.int64(link.node) * words_per_node(state) * LANES_PER_WORD
    return row + port * KINDS * n_inputs(state) + lane


@bare_kernel
def port_ranks(state: State, fields: int) -> int:
    """Return the ranks, as bits, of the ports with hops left; ``fields`` is a packed route."""
    bits: int = sharing_of_16(state.fields.ranked, 0, fields)
    return bits


@bare_kernel
def set_claims(state: State, index: int, adaptive_ranks: int, ordered_rank: int, kind: int) -> None:
    """Store the links that a lane's first packet may take, adaptively and in dimension order."""
    state.links.adaptive_ranks[np.uint64(index)] = adaptive_ranks
    state.links.ordered[np.uint64(index)] = 2 * ordered_rank + kind


@bare_kernel
def clear_claims(state: State, index: int) -> None:
    """Remove the claims of a lane whose first packet leaves."""
    state.links.adaptive_ranks[np.uint64(index)] = 0
    state.links.ordered[np.uint64(index)] = _NO_CLAIM


@bare_kernel
def find_claims(state: State, out: int, word: int, free: int) -> np.uint64:
    """Return, as bits, the lanes of a word whose first packet can enter a link."""
    extra = state.links.extra[out]
    rank = np.int64(extra.rank)
    row = (np.int64(extra.node) * words_per_node(state) + word) * LANES_PER_WORD
    adaptive = sharing_of_64(state.links.adaptive_ranks, row, (free >> FREE & 1) << rank)
    first = equal_of_64(state.links.ordered, row, 2 * rank + FIRST)
    second = equal_of_64(state.links.ordered, row, 2 * rank + SECOND)
    ready: np.uint64 = adaptive
    ready |= first & np.uint64(-(free >> FIRST & 1))
    ready |= second & np.uint64(-(free >> SECOND & 1))
    return ready


@bare_kernel
def entry_kind(state: State, index: int, out: int, free: int) -> int:
    """Return the kind, such as FREE, under which a ready lane's first packet enters a link."""
    rank = np.uint64(state.links.extra[out].rank)
    adaptive_ranks = np.int64(state.links.adaptive_ranks[np.uint64(index)])
    if free & (1 << FREE) and (adaptive_ranks >> np.int64(rank)) & 1:
        return FREE
    return np.int64(state.links.ordered[np.uint64(index)]) & 1


@bare_kernel
def emptiest_link(state: State, node: int, zone: int) -> int:
    """Return the zone's link with the most free minus queued bytes; NONE if the zone is empty."""
    first = node * state.fields.shift.size
    best = NONE
    max_free = -(2**62)
    while zone != 0:
        out = first + state.fields.ports[np.uint64(trailing_zeros(zone))]
        zone &= zone - np.uint64(1)
        free = free_bytes(state, out, ADAPTIVE_CHANNEL) - state.links.extra[out].queued
        if free > max_free:
            max_free = free
            best = out
    return best


@bare_kernel
def lane_kind(state: State, p: int, out: int, straight_port: int) -> int:
    """Return the lane, FIRST or SECOND, of a packet that follows the dimension order.

    ``straight_port`` is the port that continues the packet's last hop.

    Bubble rule: packets that go straight are FIRST, packets that enter a ring are SECOND. (The
    default network computes this when the packet is sent.)

    Dateline rule: packets that will cross the edge of the ring take the second channel, packets
    that will cross its middle take the first, and other packets draw a channel at random. No packet
    in the first channel crosses the edge, and no packet in the second crosses the middle, so full
    buffers cannot form a cycle. An adaptive packet that returns to dimension order may draw a
    different channel than before, because it holds only one buffer at a time.
    """
    packet = state.packets.packet[p]
    link = state.links.link[out]
    port = np.uint64(link.port)
    goes_straight = link.port == straight_port and channel_of(packet.buffer) != ADAPTIVE_CHANNEL
    if second_channel(state, out) == 0:
        return FIRST if goes_straight else SECOND
    if goes_straight:
        return channel_of(packet.buffer)
    hops = np.int64((packet.route & state.fields.mask[port]) >> state.fields.shift[port])
    extra = state.links.extra[out]
    if hops > np.int64(extra.to_edge):
        return SECOND
    if hops > np.int64(extra.to_middle):
        return FIRST
    link_seed = random_bits(np.uint64(state.rules.seed), np.uint64(0), np.uint64(out))
    # The tail time does not change while the packet waits, so each call draws the same channel.
    tail = np.uint64(np.uint32(packet.tail))
    bits = random_bits(link_seed, np.uint64(packet.message), tail)
    return SECOND if bits & np.uint64(1) else FIRST


@bare_kernel
def _choose_ready_lane(state: State, out: int, ready: int) -> int:
    """Return the lane that sends first, of those in the bits ``ready``, or NONE.

    It is the lane whose first packet arrived earliest or, with round robin, the next input's lane.
    """
    if ready == 0:
        return NONE
    best = trailing_zeros(ready)
    others = ready & (ready - np.uint64(1))
    if others == 0:
        return best
    if arbitration(state) == ROUND_ROBIN:
        return _choose_round_robin(state, state.links.extra[out].turn, ready)
    base = lane_index(state, out, 0)
    while others != 0:
        lane = trailing_zeros(others)
        others &= others - np.uint64(1)
        if _is_older(state, base + lane, base + best):
            best = lane
    return best


@bare_kernel
def _is_older(state: State, lane: int, other: int) -> bool:
    return np.int32(state.links.lane[lane].since - state.links.lane[other].since) < 0


@bare_kernel
def _choose_round_robin(state: State, turn: int, ready: int) -> int:
    """Return a ready lane of the first input, from ``turn`` on, that has one; else NONE.

    The order of the lanes of an input is FIRST, SECOND, FREE.
    """
    best = NONE
    min_distance = KINDS * n_inputs(state)
    while ready != 0:
        lane = trailing_zeros(ready)
        ready &= ready - np.uint64(1)
        kind = lane // n_inputs(state)
        distance = lane - kind * n_inputs(state) - turn
        if distance < 0:
            distance += n_inputs(state)
        distance = KINDS * distance + kind
        if distance < min_distance:
            min_distance = distance
            best = lane
    return best


@bare_kernel
def open_channels(state: State, out: int) -> int:
    """Return, as bits, the kinds of lanes for which the buffer after a link has enough space."""
    link = state.links.link[out]
    # Arithmetic instead of branches, because the CPU cannot predict the fill level of buffers.
    free = np.int64(free_bytes(state, out, 0) >= state.rules.largest) << FIRST
    needed = link.entry * state.rules.largest
    free += np.int64(free_bytes(state, out, second_channel(state, out)) >= needed) << SECOND
    if is_adaptive(state) and free_bytes(state, out, ADAPTIVE_CHANNEL) >= state.rules.largest:
        free |= 1 << FREE
    return free


@bare_kernel
def choose_lane(state: State, out: int, free: int) -> int:
    """Return the lane that a link serves next in dimension order, or NONE."""
    if is_default_network(state):
        return _choose_of_two(state, out, free & np.int64(state.links.link[out].lanes))
    kind_lanes = (np.uint64(1) << np.uint64(n_inputs(state))) - np.uint64(1)
    ready = np.uint64(0)
    if free & (1 << FIRST):
        ready |= kind_lanes
    if free & (1 << SECOND):
        ready |= kind_lanes << np.uint64(n_inputs(state))
    return _choose_ready_lane(state, out, ready & state.links.link[out].lanes)


@bare_kernel
def _choose_of_two(state: State, out: int, ready: int) -> int:
    """Return the ready lane, FIRST or SECOND, that has waited longer, or NONE if none is ready."""
    first = state.links.lane[lane_index(state, out, FIRST)].since
    second = state.links.lane[lane_index(state, out, SECOND)].since
    # ``ready`` is 1 for the first lane, 2 for the second, and 3 for both. In the last case it is
    # replaced by 1 or 2, for the lane that has waited longer. The lane is this number minus one.
    # This avoids a branch, which the CPU could not predict.
    longer = 1 + np.int64(np.int32(second - first) < 0)
    return ((ready + (ready == 3) * (longer - 3)) & 3) - 1


@bare_kernel
def choose_adaptive_lane(state: State, out: int, free: int) -> int:
    """Return the lane that a link serves next, from the lanes of all links of its node, or NONE.

    The link's own lanes come first, then the lanes of other links, so that a link is not idle while
    the first packet of any lane could take it.
    """
    if free == 0:
        return NONE
    port = np.int64(state.links.link[out].port)
    lanes = KINDS * n_inputs(state)
    own_lane = out * lanes
    has_more_words = words_per_node(state) > 1
    word = port * lanes // LANES_PER_WORD if has_more_words else 0
    bit = port * lanes - LANES_PER_WORD * word
    node_ready = find_claims(state, out, word, free)
    ready = node_ready >> np.uint64(bit)
    if has_more_words and bit + lanes > LANES_PER_WORD:
        ready |= find_claims(state, out, word + 1, free) << np.uint64(LANES_PER_WORD - bit)
    ready &= (np.uint64(1) << np.uint64(lanes)) - np.uint64(1)
    if ready != 0:
        return own_lane + _choose_ready_lane(state, out, ready)
    # If waits are equal, choose the lane that follows the link's own lanes first, in cyclic order.
    n_node_lanes = state.fields.shift.size * lanes
    base = own_lane - port * lanes
    best = NONE
    min_distance = n_node_lanes
    for w in range(words_per_node(state)):
        ready = find_claims(state, out, w, free) if has_more_words else node_ready
        while ready != 0:
            lane = base + LANES_PER_WORD * w + trailing_zeros(ready)
            ready &= ready - np.uint64(1)
            distance = lane - own_lane if lane >= own_lane else lane - own_lane + n_node_lanes
            if (
                best == NONE
                or _is_older(state, lane, best)
                or (distance < min_distance and not _is_older(state, best, lane))
            ):
                best = lane
                min_distance = distance
    return best


@bare_kernel
def random_bits(seed: int, high: int, low: int) -> np.uint64:
    """Return 64 random bits from a 64-bit seed and two unsigned numbers below 2**32.

    A counter is mixed as in SplitMix64 (Steele et al., OOPSLA'14).
    """
    bits = low + (high << np.uint64(32)) + seed * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@kernel
def pack_routes(
    grid: Grid,
    fields: RouteFields,
    src: Int32s,
    dst: Int32s,
    is_adaptive_edge: Bools,
    message: NDArray[Any],
) -> None:
    """Write each message's packed route and open ties into its record. (E,) (E,) (E,) -> (E,).

    At an open tie the plus field is filled; if packets choose adaptively, both fields are. If
    packets are split at ties, ``coin`` has the odd packet's direction at each tie, as bits in
    routing order.
    """
    for e in range(src.size):
        both_directions = is_adaptive_edge[e] and not grid.tie.adaptive_fixed
        uses_coin = not both_directions or grid.tie.adaptive_minus
        packed = np.uint64(0)
        open_ties = 0
        coin = 0
        n_ties = 0
        for i in range(grid.shape.size):
            k = grid.order[i]
            s = grid.coords[src[e], k]
            t = grid.coords[dst[e], k]
            if s == t:
                continue
            size = grid.shape[k]
            wrap = grid.wrap[k] == 1
            hops = np.uint64(ring_distance(s, t, size, wrap))
            tie = wrap and 2 * abs(t - s) == size
            plus = goes_plus(s, t, size, wrap, grid.tie, sum_other_coordinates(grid, dst[e], k))
            if plus or (tie and both_directions):
                packed |= hops << fields.shift[2 * k]
            if not plus or (tie and both_directions):
                packed |= hops << fields.shift[2 * k + 1]
            if tie and uses_coin and grid.tie.is_open:
                open_ties |= 1 << i
                if not grid.tie.is_drawn:
                    # Directions alternate between neighbours, and between messages that use the
                    # same ring but differ in other coordinates.
                    both = sum(grid.coords[src[e]]) + sum(grid.coords[dst[e]]) - t
                    coin |= (1 - both % 2) << n_ties
                n_ties += 1
        message[e].route = packed
        message[e].ties = open_ties
        message[e].coin = coin
