"""Kernel of the packet-level simulator: an event loop over a timing wheel.

Letters in the comments: N nodes, D dimensions, L = N * 2 * D links, O = L + N outputs (every link,
then the reception port of every node), P packet slots, F = N * fifos injection FIFOs, E messages.

Each packet-hop costs two events: its head arrives at a router, and the output it left falls idle.
Work is done only where one of them happens; nothing scans idle nodes or finished messages. Delays
are whole ticks and shorter than the wheel, so an event goes straight into the list of its tick. The
lists run through the records themselves: no heap, no allocation.
"""

from __future__ import annotations

from toruscast.mapping._jit import bare_kernel

from ._route_kernels import SPLIT, Grid, goes_plus
from ._simulator_state import ADAPTIVE, FIFOS, GRANTED, NONE, STRAIGHT, TURNING, State


@bare_kernel
def _schedule(state: State, event: int, tick: int) -> None:
    place = tick & (state.first.size - 1)
    state.following[event] = NONE
    if state.first[place] == NONE:
        state.first[place] = event
    else:
        state.following[state.last[place]] = event
    state.last[place] = event
    state.pending[0] += 1


@bare_kernel
def _ordered_port(grid: Grid, node: int, dst: int, odd: int) -> int:
    """Port of the dimension-ordered route from ``node``."""
    for i in range(grid.order.size):
        k = grid.order[i]
        s = grid.coords[node, k]
        t = grid.coords[dst, k]
        if s != t:
            size = grid.shape[k]
            plus = goes_plus(s, t, size, grid.wrap[k] == 1, grid.tie)
            if grid.tie == SPLIT and grid.wrap[k] == 1 and 2 * abs(t - s) == size:
                plus = odd == 0
            port: int = 2 * k + (0 if plus else 1)
            return port
    return NONE


@bare_kernel
def _emptiest_port(state: State, node: int, dst: int, ordered: int) -> int:
    """Productive port with the most free adaptive places behind it; at first the ordered one."""
    grid = state.grid
    ports = 2 * grid.shape.size
    best = ordered
    most = state.output[node * ports + ordered].credits[1]
    for k in range(grid.shape.size):
        s = grid.coords[node, k]
        t = grid.coords[dst, k]
        if s == t:
            continue
        gap = t - s
        size = grid.shape[k]
        if grid.wrap[k] == 1 and gap < 0:
            gap += size
        for sign in range(2):
            if grid.wrap[k] == 1:
                productive = 2 * gap <= size if sign == 0 else 2 * gap >= size
            else:
                productive = (gap > 0) == (sign == 0)
            if productive:
                free = state.output[node * ports + 2 * k + sign].credits[1]
                if free > most:
                    most = free
                    best = 2 * k + sign
    return best


@bare_kernel
def _queue(state: State, out: int, queue: int, packet: int, now: int) -> None:
    state.packet[packet].since = now
    state.packet[packet].next = NONE
    if state.output[out].head[queue] == NONE:
        state.output[out].head[queue] = packet
    else:
        state.packet[state.output[out].tail[queue]].next = packet
    state.output[out].tail[queue] = packet


@bare_kernel
def _request(state: State, f: int, now: int) -> None:
    """Let an injection FIFO ask for the output of its next packet, or wait for its next message."""
    fifo = state.fifo[f]
    if fifo.place == fifo.end:
        return
    ports = 2 * state.grid.shape.size
    message = state.message[fifo.place]
    if message.ready > now:
        # Beyond the wheel the event comes early and asks again.
        tick = min(message.ready, now + state.first.size - 1)
        _schedule(state, state.packet.size + state.output.size + f, tick)
        return
    node = f // state.fifos
    port = _ordered_port(state.grid, node, message.dst, fifo.left & 1)
    if state.adaptive == ADAPTIVE:
        port = _emptiest_port(state, node, message.dst, port)
    out = node * ports + port
    state.fifo[f].since = now
    state.fifo[f].next = NONE
    if state.output[out].head[FIFOS] == NONE:
        state.output[out].head[FIFOS] = f
    else:
        state.fifo[state.output[out].tail[FIFOS]].next = f
    state.output[out].tail[FIFOS] = f
    if state.output[out].busy == 0:
        _send(state, out, now)


@bare_kernel
def _send(state: State, out: int, now: int) -> None:
    """Put the packet on an idle output that has waited longest among those that may go."""
    n_links = state.output.size - state.grid.coords.shape[0]
    output = state.output[out]
    chosen = NONE
    since = 9223372036854775807
    channel = 0
    for queue in range(4):
        waiting = output.head[queue]
        if waiting == NONE:
            continue
        if queue == STRAIGHT and output.credits[0] < 1:
            continue
        if queue == TURNING and output.credits[0] < output.entry:
            continue
        if queue == FIFOS:
            arrived = state.fifo[waiting].since
            into = 0
            if state.adaptive == ADAPTIVE and output.credits[1] > 0:
                into = 1
            elif output.credits[0] < output.entry:
                continue
            elif state.adaptive == ADAPTIVE:
                # Only the ordered way may use the deterministic channel.
                node = out // (2 * state.grid.shape.size)
                target = state.message[state.fifo[waiting].place].dst
                odd = state.fifo[waiting].left & 1
                if (
                    _ordered_port(state.grid, node, target, odd)
                    != out - node * 2 * state.grid.shape.size
                ):
                    continue
        else:
            arrived = state.packet[waiting].since
            into = 1 if queue == GRANTED else 0
        if arrived < since:
            since = arrived
            chosen = queue
            channel = into
    if chosen == NONE:
        return
    if chosen == FIFOS:
        f = output.head[FIFOS]
        state.output[out].head[FIFOS] = state.fifo[f].next
        height = state.free[state.free.size - 1] - 1
        state.free[state.free.size - 1] = height
        p = state.free[height]
        m = state.fifo[f].place
        state.packet[p].dst = state.message[m].dst
        state.packet[p].message = m
        state.packet[p].wire = state.message[m].wire
        state.packet[p].odd = state.fifo[f].left & 1
        state.output[out].release = -2 - f
        state.fifo[f].left -= 1
        if state.fifo[f].left == 0:
            state.fifo[f].place = m + 1
            if m + 1 < state.fifo[f].end:
                state.fifo[f].left = state.message[m + 1].packets
    else:
        p = output.head[chosen]
        state.output[out].head[chosen] = state.packet[p].next
        state.output[out].release = state.packet[p].buffer
    wire = state.packet[p].wire
    serialisation = int(wire * output.ticks_per_byte + 0.5)
    if chosen != FIFOS:
        # Coming off a slower link, it cannot go faster than it comes.
        serialisation = max(serialisation, state.packet[p].tail - now)
    idle = now + serialisation
    state.output[out].busy = 1
    _schedule(state, state.packet.size + out, idle)
    if out >= n_links:
        m = state.packet[p].message
        state.message[m].left -= 1
        if state.message[m].left == 0:
            state.message[m].finish = idle
        state.free[state.free[state.free.size - 1]] = p
        state.free[state.free.size - 1] += 1
        return
    if chosen != GRANTED:
        state.output[out].credits[channel] -= 1
    state.output[out].packets += 1
    state.output[out].wire_bytes += wire
    state.packet[p].buffer = 2 * out + channel
    # A router forwards a packet when its head is there; the last one waits for its tail.
    head = now + state.latency
    tail = head + serialisation
    state.packet[p].tail = tail
    _schedule(state, p, tail if output.far == state.packet[p].dst else head)


@bare_kernel
def _arrive(state: State, p: int, now: int) -> None:
    """Take a packet into the buffer behind its link and queue it for its next output."""
    ports = 2 * state.grid.shape.size
    n_links = state.output.size - state.grid.coords.shape[0]
    link = state.packet[p].buffer >> 1
    channel = state.packet[p].buffer & 1
    occupied = state.output[link].occupied + 1
    state.output[link].occupied = occupied
    state.output[link].queued += occupied
    if occupied > state.output[link].most:
        state.output[link].most = occupied
    node = state.output[link].far
    dst = state.packet[p].dst
    if node == dst:
        out = n_links + node
        _queue(state, out, GRANTED, p, now)
        if state.output[out].busy == 0:
            _send(state, out, now)
        return
    came = link % ports
    k = came >> 1
    if channel == 0 and state.grid.coords[node, k] != state.grid.coords[dst, k]:
        ordered = came
    else:
        ordered = _ordered_port(state.grid, node, dst, state.packet[p].odd)
    port = ordered
    queue = STRAIGHT if channel == 0 and port == came else TURNING
    if state.adaptive == ADAPTIVE:
        emptiest = _emptiest_port(state, node, dst, ordered)
        if state.output[node * ports + emptiest].credits[1] > 0:
            # The place is taken now: whoever waits for the wire only can always go on.
            port = emptiest
            queue = GRANTED
            state.output[node * ports + port].credits[1] -= 1
    out = node * ports + port
    _queue(state, out, queue, p, now)
    if state.output[out].busy == 0:
        _send(state, out, now)


@bare_kernel
def _fall_idle(state: State, out: int, now: int) -> None:
    """Free what the packet that has just gone held, and send the next."""
    state.output[out].busy = 0
    release = state.output[out].release
    if release >= 0:
        link = release >> 1
        state.output[link].credits[release & 1] += 1
        state.output[link].occupied -= 1
        if state.output[link].busy == 0:
            _send(state, link, now)
    else:
        _request(state, -2 - release, now)
    if state.output[out].busy == 0:
        _send(state, out, now)


@bare_kernel
def run(state: State) -> int:
    """Send every message; returns the packets still on their way when nothing moves any more."""
    now = 0
    for f in range(state.fifo.size):
        _request(state, f, now)
    n_packets = state.packet.size
    n_outputs = state.output.size
    mask = state.first.size - 1
    while state.pending[0] > 0:
        place = now & mask
        event = state.first[place]
        while event != NONE:
            state.first[place] = state.following[event]
            state.pending[0] -= 1
            if event < n_packets:
                _arrive(state, event, now)
            elif event < n_packets + n_outputs:
                _fall_idle(state, event - n_packets, now)
            else:
                _request(state, event - n_packets - n_outputs, now)
            event = state.first[place]
        now += 1
    left = 0
    for m in range(state.message.size):
        left += state.message[m].left
    return left
