"""Kernels of links: ports, buffers, claims, which packet goes next, and packed routes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel, trailing_zeros
from toruscast._llvm import equal_of_64, sharing_of_16, sharing_of_64
from toruscast.routing.route_kernels import (
    Grid,
    goes_plus,
    hops_along,
    other_coordinates,
)

from .state import (
    ADAPTIVE_CHANNEL,
    CHANNEL_BITS,
    FIRST,
    FIRST_COME,
    FREE,
    KINDS,
    LANES_A_LINK,
    LANES_A_WORD,
    NONE,
    OWN_LANES,
    ROUND_ROBIN,
    SECOND,
    Fields,
    State,
)


@bare_kernel
def is_usual(state: State) -> bool:
    """Return whether the network is of the usual kind."""
    return state.rules.special is None and state.rules.adaptive is None


@bare_kernel
def is_adaptive(state: State) -> bool:
    """Return whether packets may choose among links."""
    return (
        state.rules.adaptive is not None
        if state.rules.special is None
        else state.rules.adaptive != 0
    )


@bare_kernel
def arbitration(state: State) -> int:
    """Return the rule for the next packet of a link: FIRST_COME or ROUND_ROBIN."""
    return FIRST_COME if state.rules.special is None else state.rules.arbitration


@bare_kernel
def counts_arrivals(state: State) -> bool:
    """Return whether buffers count packets that come; else they count those that go.

    The sums are the same at the end of a run. A packet that goes is counted beside its wait, in the
    same cache line. Packets that come are counted only if counters are read during the run.
    """
    return state.rules.special is not None


@bare_kernel
def inputs(state: State) -> int:
    """Return the number of lanes of each kind at a link."""
    return 1 if state.rules.special is None else state.rules.inputs


@bare_kernel
def lane_of(state: State, out: int, lane: int) -> int:
    """Return the place of a link's lane; the usual network has one of FIRST and one of SECOND."""
    if is_usual(state):
        return out * LANES_A_LINK + OWN_LANES + lane
    return out * KINDS * inputs(state) + lane


@bare_kernel
def second_channel(state: State, out: int) -> int:
    """Return the channel of the second kind of lane."""
    return 0 if state.rules.special is None else int(state.links.rest[out].second_channel)


@bare_kernel
def first_fifo(state: State, f: int) -> int:
    """Return the FIFO whose queue a FIFO takes from."""
    if state.rules.shared_by == 1:
        return f
    return f - np.int64(np.uint32(f) % np.uint32(state.rules.shared_by))


@bare_kernel
def node_of(state: State, f: int) -> int:
    """Return the node of a FIFO."""
    return np.int64(np.uint32(f) // np.uint32(state.rules.fifos))


@bare_kernel
def port_of(state: State, route: int) -> int:
    """Return the next port of a route in dimension order."""
    port: int = state.fields.port[np.uint64(trailing_zeros(route))]
    return port


@bare_kernel
def zone_of(state: State, p: int) -> int:
    """Return the fields of the ports that an adaptive packet may choose; 0 for none."""
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
        # Only a tie leaves both ways of a dimension.
        for port in range(0, state.fields.mask.size, 2):
            if zone & state.fields.mask[np.uint64(port + 1)]:
                zone &= ~state.fields.mask[np.uint64(port)]
    return zone


@bare_kernel
def size_of(state: State, wire: float) -> int:
    """Return the bytes of a buffer that a packet takes; an empty packet takes one byte.

    The bubble rule counts whole places: in bytes, a bubble could break into pieces too small for
    any packet.
    """
    if state.rules.whole_places:
        return state.rules.largest
    return min(max(np.int64(np.ceil(wire)), 1), state.rules.largest)


@bare_kernel
def channel_of(place: int) -> int:
    """Return the channel that a buffer's number ends in, see `CHANNEL_BITS`."""
    return place & ((1 << CHANNEL_BITS) - 1)


@bare_kernel
def link_of(place: int) -> int:
    """Return the link before a buffer, from its number, see `CHANNEL_BITS`."""
    return place >> CHANNEL_BITS


@bare_kernel
def count(counter: Any, packets: int, wire: float) -> None:
    """Count a packet that enters or leaves a buffer, and the packets in it, including itself."""
    counter.packets += 1
    counter.wire_bytes += wire
    counter.most = max(counter.most, packets)


@bare_kernel
def room(state: State, out: int, channel: int) -> int:
    """Return the free bytes in a channel behind a link."""
    if is_usual(state) or channel == 0:
        return np.int64(state.links.link[out].credit)
    rest = state.links.rest[out]
    return np.int64(rest.second_credit if channel == 1 else rest.adaptive_credit)


@bare_kernel
def take_room(state: State, place: int, size: int) -> None:
    """Take bytes of a place; a negative size gives them back."""
    out = place >> CHANNEL_BITS
    channel = channel_of(place)
    if is_usual(state) or channel == 0:
        state.links.link[out].credit -= size
    elif channel == 1:
        state.links.rest[out].second_credit -= size
    else:
        state.links.rest[out].adaptive_credit -= size


_NOBODY = 255


@bare_kernel
def words(state: State) -> int:
    """Return the number of words of lanes in a node's row, as laid out by `build_state`."""
    if state.rules.special is None:
        return 1
    lanes = state.fields.shift.size * KINDS * inputs(state)
    return (lanes + LANES_A_WORD - 1) // LANES_A_WORD


@bare_kernel
def seat(state: State, holder: int, lane: int) -> int:
    """Return the place of a link's lane in its node's row."""
    link = state.links.rest[holder]
    port = np.int64(state.links.link[holder].port)
    row = np.int64(link.node) * words(state) * LANES_A_WORD
    return row + port * KINDS * inputs(state) + lane


@bare_kernel
def ranks(state: State, fields: int) -> int:
    """Return the bits of ports, by rank, of which a route has a field."""
    found: int = sharing_of_16(state.fields.ranked, 0, fields)
    return found


@bare_kernel
def claim(state: State, place: int, free: int, ordered: int, kind: int) -> None:
    """Write down the ways of the packet at a lane's head: ranks of ports, and one in order."""
    state.links.ways[np.uint64(place)] = free
    state.links.ordered[np.uint64(place)] = 2 * ordered + kind


@bare_kernel
def withdraw(state: State, place: int) -> None:
    """Forget the ways of the packet at a lane's head."""
    state.links.ways[np.uint64(place)] = 0
    state.links.ordered[np.uint64(place)] = _NOBODY


@bare_kernel
def claims(state: State, out: int, word: int, free: int) -> np.uint64:
    """Return bits of a word of lanes whose first packet can enter a link that has such room."""
    rest = state.links.rest[out]
    rank = np.int64(rest.rank)
    row = (np.int64(rest.node) * words(state) + word) * LANES_A_WORD
    adaptive = sharing_of_64(state.links.ways, row, (free >> FREE & 1) << rank)
    first = equal_of_64(state.links.ordered, row, 2 * rank + FIRST)
    second = equal_of_64(state.links.ordered, row, 2 * rank + SECOND)
    found: np.uint64 = adaptive
    found |= first & np.uint64(-(free >> FIRST & 1))
    found |= second & np.uint64(-(free >> SECOND & 1))
    return found


@bare_kernel
def enters_as(state: State, place: int, out: int, free: int) -> int:
    """Return how the packet at a lane's head, which can, enters a link."""
    rank = np.uint64(state.links.rest[out].rank)
    ways = np.int64(state.links.ways[np.uint64(place)])
    if free & (1 << FREE) and (ways >> np.int64(rank)) & 1:
        return FREE
    return np.int64(state.links.ordered[np.uint64(place)]) & 1


@bare_kernel
def emptiest_link(state: State, node: int, zone: int) -> int:
    """Return a zone's link with the most room, less what waits for it; NONE without zone."""
    first = node * state.fields.shift.size
    best = NONE
    most = -(2**62)
    while zone != 0:
        out = first + state.fields.ports[np.uint64(trailing_zeros(zone))]
        zone &= zone - np.uint64(1)
        free = room(state, out, ADAPTIVE_CHANNEL) - state.links.rest[out].queued
        if free > most:
            most = free
            best = out
    return best


@bare_kernel
def kind_of(state: State, p: int, out: int, came: int) -> int:
    """Return how a packet enters a link in dimension order: FIRST or SECOND.

    ``came`` is the port through which it goes on straight. On the usual network this is known when
    it is sent (`serve`). With datelines no packet in the first channel crosses a ring's edge, and
    none in the second crosses its middle, so that no ring fills up. A packet that crosses neither
    draws a channel. An adaptive packet that comes back may draw the other one: it holds one buffer
    at a time, so only packets that go straight on make channels wait for each other.
    """
    packet = state.packets.packet[p]
    link = state.links.link[out]
    port = np.uint64(link.port)
    straight = link.port == came and channel_of(packet.place) != ADAPTIVE_CHANNEL
    if second_channel(state, out) == 0:
        return FIRST if straight else SECOND
    if straight:
        return channel_of(packet.place)
    hops = np.int64((packet.route & state.fields.mask[port]) >> state.fields.shift[port])
    rest = state.links.rest[out]
    if hops > np.int64(rest.to_edge):
        return SECOND
    if hops > np.int64(rest.to_middle):
        return FIRST
    of_link = random_bits(np.uint64(state.rules.seed), np.uint64(0), np.uint64(out))
    # The time of its tail does not change while the packet waits.
    tail = np.uint64(np.uint32(packet.tail))
    return SECOND if random_bits(of_link, np.uint64(packet.message), tail) & np.uint64(1) else FIRST


@bare_kernel
def _first_of(state: State, out: int, ready: int) -> int:
    """Return the lane that goes first, NONE if there is none."""
    if ready == 0:
        return NONE
    best = trailing_zeros(ready)
    rest = ready & (ready - np.uint64(1))
    if rest == 0:
        return best
    if arbitration(state) == ROUND_ROBIN:
        return _next_in_turn(state, state.links.rest[out].turn, ready)
    base = lane_of(state, out, 0)
    while rest != 0:
        lane = trailing_zeros(rest)
        rest &= rest - np.uint64(1)
        if _is_older(state, base + lane, base + best):
            best = lane
    return best


@bare_kernel
def _is_older(state: State, one: int, other: int) -> bool:
    """Return whether the packet at a lane's head goes before that of another lane."""
    return np.int32(state.links.lane[one].since - state.links.lane[other].since) < 0


@bare_kernel
def _next_in_turn(state: State, turn: int, ready: int) -> int:
    """Return the lane of the next input; within an input, the first kind goes first."""
    best = NONE
    nearest = KINDS * inputs(state)
    while ready != 0:
        lane = trailing_zeros(ready)
        ready &= ready - np.uint64(1)
        kind = lane // inputs(state)
        away = lane - kind * inputs(state) - turn
        if away < 0:
            away += inputs(state)
        away = KINDS * away + kind
        if away < nearest:
            nearest = away
            best = lane
    return best


@bare_kernel
def open_channels(state: State, out: int) -> int:
    """Return bits of the room behind a link: to stay on a ring, to enter it, to be adaptive."""
    link = state.links.link[out]
    # Sums instead of branches, because a processor cannot predict how full a buffer is.
    free = np.int64(room(state, out, 0) >= state.rules.largest) << FIRST
    needed = link.entry * state.rules.largest
    free += np.int64(room(state, out, second_channel(state, out)) >= needed) << SECOND
    if is_adaptive(state) and room(state, out, ADAPTIVE_CHANNEL) >= state.rules.largest:
        free |= 1 << FREE
    return free


@bare_kernel
def choose(state: State, out: int, free: int) -> int:
    """Return the lane whose packet a link sends next in dimension order, NONE if none may go."""
    if is_usual(state):
        return _first_of_two(state, out, free & np.int64(state.links.link[out].lanes))
    kind = (np.uint64(1) << np.uint64(inputs(state))) - np.uint64(1)
    ready = np.uint64(0)
    if free & (1 << FIRST):
        ready |= kind
    if free & (1 << SECOND):
        ready |= kind << np.uint64(inputs(state))
    return _first_of(state, out, ready & state.links.link[out].lanes)


@bare_kernel
def _first_of_two(state: State, out: int, ready: int) -> int:
    """Return the lane that has waited longer, NONE if none is ready; one lane a kind, no branch."""
    first = state.links.lane[lane_of(state, out, FIRST)].since
    second = state.links.lane[lane_of(state, out, SECOND)].since
    # Keep the winner's bit (1 or 2); minus one, that is its lane.
    longer = 1 + np.int64(np.int32(second - first) < 0)
    return ((ready + (ready == 3) * (longer - 3)) & 3) - 1


@bare_kernel
def choose_adaptive(state: State, out: int, free: int) -> int:
    """Return the lane, of all links' lanes, whose packet a link sends next; NONE if none may go.

    The link's own lanes come first, then those of the node's other links, so that a link is not
    idle while the first packet of any lane could take it.
    """
    if free == 0:
        return NONE
    port = np.int64(state.links.link[out].port)
    lanes = KINDS * inputs(state)
    own = out * lanes
    is_long = words(state) > 1
    word = port * lanes // LANES_A_WORD if is_long else 0
    bit = port * lanes - LANES_A_WORD * word
    found = claims(state, out, word, free)
    ready = found >> np.uint64(bit)
    if is_long and bit + lanes > LANES_A_WORD:
        ready |= claims(state, out, word + 1, free) << np.uint64(LANES_A_WORD - bit)
    ready &= (np.uint64(1) << np.uint64(lanes)) - np.uint64(1)
    if ready != 0:
        return own + _first_of(state, out, ready)
    # Among equally long waits, take the next one round from its own lanes.
    around = state.fields.shift.size * lanes
    base = own - port * lanes
    best = NONE
    nearest = around
    for w in range(words(state)):
        ready = claims(state, out, w, free) if is_long else found
        while ready != 0:
            lane = base + LANES_A_WORD * w + trailing_zeros(ready)
            ready &= ready - np.uint64(1)
            away = lane - own if lane >= own else lane - own + around
            if (
                best == NONE
                or _is_older(state, lane, best)
                or (away < nearest and not _is_older(state, best, lane))
            ):
                best = lane
                nearest = away
    return best


@bare_kernel
def random_bits(seed: int, high: int, low: int) -> np.uint64:
    """Return 64 random bits from a 64-bit seed and two numbers below 2**32, all unsigned.

    A counter is mixed as in SplitMix64 (Steele et al., OOPSLA'14).
    """
    bits = low + (high << np.uint64(32)) + seed * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@kernel
def pack_routes(
    grid: Grid,
    fields: Fields,
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    chooses: NDArray[np.bool_],
    route: NDArray[np.uint64],
    ties: NDArray[np.int32],
    coins: NDArray[np.int32],
) -> None:
    """Write routes between nodes, and the dimensions where a packet is to choose. (E,) -> (E,).

    At a tie the plus field is filled, or both fields if packets choose on their way. If packets are
    split at ties, ``coins`` has a bit for each tie, in routing order: the way of the odd packet. A
    packet meets a tie in dimension order, or if adaptive packets go minus at ties.
    """
    for e in range(src.size):
        both_ways = chooses[e] and not grid.tie.adaptive_fixed
        by_coin = not both_ways or grid.tie.adaptive_minus
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
            hops = np.uint64(hops_along(s, t, size, wrap))
            tie = wrap and 2 * abs(t - s) == size
            plus = goes_plus(s, t, size, wrap, grid.tie, other_coordinates(grid, dst[e], k))
            if plus or (tie and both_ways):
                packed |= hops << fields.shift[2 * k]
            if not plus or (tie and both_ways):
                packed |= hops << fields.shift[2 * k + 1]
            if tie and by_coin and grid.tie.is_open:
                open_ties |= 1 << i
                if not grid.tie.is_drawn:
                    # Neighbours send theirs different ways, and so do messages along the same ring
                    # with different other coordinates.
                    both = sum(grid.coords[src[e]]) + sum(grid.coords[dst[e]]) - t
                    coin |= (1 - both % 2) << n_ties
                n_ties += 1
        route[e] = packed
        ties[e] = open_ties
        coins[e] = coin
