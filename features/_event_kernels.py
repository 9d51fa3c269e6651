"""Kernels of the wheel of ticks, which holds what happens in the network.

Every event of the network lies less than a turn of the wheel ahead, so it goes straight into the
list of its tick. A list is a chain of chunks of 15 events and not of single ones: the events that
come next are known early, and their cache misses overlap.
"""

from __future__ import annotations

import numpy as np

from toruscast.mapping._jit import at, bare_kernel, prefetch, trailing_zeros

from ._buffer_kernels import link_of
from ._claim_kernels import bring_claims
from ._network_kernels import inputs, is_adaptive, port_of
from ._simulator_state import CHUNK, CHUNKS, DELIVERED, KINDS, NONE, State

_LAST = CHUNK - 1


@bare_kernel
def schedule(state: State, event: int, tick: int) -> None:
    """Let an event happen at a tick less than a turn of the wheel ahead."""
    place = tick & (state.wheel.size - 1)
    slot = at(state.wheel, place)
    end = slot.end
    if (end & _LAST) == _LAST:
        height = state.clock[CHUNKS] - 1
        state.clock[CHUNKS] = height
        fresh = state.spare[np.uint64(height)]
        if slot.first == NONE:
            slot.first = fresh
            state.filled[np.uint64(place >> 6)] |= np.uint64(1) << np.uint64(place & 63)
        else:
            state.chunk[np.uint64(end)] = fresh
        end = fresh
    state.chunk[np.uint64(end)] = event
    slot.end = end + 1


@bare_kernel
def next_tick(state: State, now: int) -> int:
    """Tick of the next event in the wheel, from ``now`` on; NONE if there is none."""
    words = state.filled.size - 1
    word = (now >> 6) & words
    bits = state.filled[np.uint64(word)] >> np.uint64(now & 63)
    if bits != 0:
        return now + trailing_zeros(bits)
    ahead = 64 - (now & 63)
    for _ in range(words + 1):
        word = (word + 1) & words
        bits = state.filled[np.uint64(word)]
        if bits != 0:
            return now + ahead + trailing_zeros(bits)
        ahead += 64
    return NONE


@bare_kernel
def bring(state: State, i: int, end: int) -> None:
    """Bring what the events of a chunk will touch into the cache, all at once.

    An event touches half a dozen records somewhere in tens of megabytes. Asked for together their
    ways from memory overlap: without this 16,384 tasks take half as long again. The second pass
    follows what the first has brought. More passes, or looking at the ticks to come as well, cost
    more than they gain, as do branches on what is still on its way. Events of a kind are looked at
    together, by the bits of a word: a processor cannot guess of which kind the next one is.
    """
    n_packets = state.packet.size
    n_links = state.link.size
    n_fifos = state.fifo.size
    ports = state.fields.shift.size
    entrances = inputs(state)
    lanes = KINDS * entrances
    stop = min(i | _LAST, end) if (i ^ end) < CHUNK else i | _LAST
    arriving = np.uint64(0)
    freed = np.uint64(0)
    for k in range(i, stop):
        event = state.chunk[np.uint64(k)]
        bit = np.uint64(k & _LAST)
        arriving |= np.uint64(event < n_packets) << bit
        freed |= np.uint64(event < n_packets + n_links) << bit
    every = ((np.uint64(1) << np.uint64(stop - i)) - np.uint64(1)) << np.uint64(i & _LAST)
    others = every ^ freed
    freed ^= arriving
    begin = i & ~_LAST
    bits = arriving
    while bits != 0:
        event = state.chunk[np.uint64(begin + trailing_zeros(bits))]
        bits &= bits - np.uint64(1)
        packet = at(state.packet, event)
        came = link_of(state, packet.place)
        prefetch(state.counter, came)
        out = at(state.link, came).far * ports + port_of(state, packet.route)
        prefetch(state.link, out)
        prefetch(state.lane, out * lanes)
        # Wanted at the end of its way only (no hops left, or DELIVERED, which is one less than
        # none): before, the first one, which is there already.
        at_end = packet.route + np.uint64(1) <= np.uint64(1)
        prefetch(state.receipt, packet.message * np.int64(at_end))
    bits = freed
    while bits != 0:
        out = state.chunk[np.uint64(begin + trailing_zeros(bits))] - n_packets
        bits &= bits - np.uint64(1)
        prefetch(state.link, out)
        base = out * lanes
        prefetch(state.packet, at(state.lane, base).head)
        prefetch(state.packet, at(state.lane, base + entrances).head)
        if is_adaptive(state):
            bring_claims(state, out, False)
    while others != 0:
        f = state.chunk[np.uint64(begin + trailing_zeros(others))] - n_packets - n_links
        others &= others - np.uint64(1)
        if f < n_fifos:
            prefetch(state.message, at(state.fifo, f).head)
    while arriving != 0:
        event = state.chunk[np.uint64(begin + trailing_zeros(arriving))]
        arriving &= arriving - np.uint64(1)
        packet = at(state.packet, event)
        came = link_of(state, packet.place)
        out = at(state.link, came).far * ports + port_of(state, packet.route)
        prefetch(state.packet, at(state.lane, out * lanes).tail)
        prefetch(state.packet, at(state.lane, out * lanes + entrances).tail)
        if is_adaptive(state) and packet.route != DELIVERED:
            ways = packet.route
            while ways != 0:
                port = port_of(state, ways)
                ways &= ~state.fields.mask[np.uint64(port)]
                prefetch(state.link, at(state.link, came).far * ports + port)
    while freed != 0:
        out = state.chunk[np.uint64(begin + trailing_zeros(freed))] - n_packets
        freed &= freed - np.uint64(1)
        base = out * lanes
        if is_adaptive(state):
            bring_claims(state, out, True)
        for head in (at(state.lane, base).head, at(state.lane, base + entrances).head):
            held = at(state.packet, head).place
            if held >= 0:
                behind = link_of(state, held)
                prefetch(state.link, behind)
                prefetch(state.lane, behind * lanes)
            else:
                prefetch(state.fifo, -2 - held)
