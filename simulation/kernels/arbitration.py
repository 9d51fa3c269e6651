"""Kernels that choose the link of a packet, the channel it enters, and the packet a link sends."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel, trailing_zeros

from .._state import (
    ADAPTIVE_CHANNEL,
    FIRST,
    FREE,
    KINDS,
    LANES_A_WORD,
    NONE,
    ROUND_ROBIN,
    SECOND,
    State,
)
from .buffer import channel_of, room
from .claim import claims, words
from .network import arbitration, inputs, is_adaptive, is_usual, lane_of, second_channel


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
