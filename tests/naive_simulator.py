"""A slow, obvious packet simulator: the twin of the kernel, event by event on a heap."""

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count

import naive
import numpy as np

RESERVED, STRAIGHT, TURNING, INJECTION = "reserved", "straight", "turning", "injection"
DETERMINISTIC, ADAPTIVE = 0, 1


@dataclass
class Message:
    edge: int
    dst: int
    ready: int
    to_send: int
    to_receive: int
    wire: float
    finish: int = 0


@dataclass
class Packet:
    message: Message
    odd: bool
    waits_since: int = 0
    link: int = -1
    channel: int = DETERMINISTIC
    tail: int = 0  # tick when its last byte is in the buffer


@dataclass
class Fifo:
    node: int
    messages: deque = field(default_factory=deque)
    waits_since: int = 0


@dataclass
class Output:
    """A link, or the reception port of a node."""

    seconds_per_byte: float
    room: list = field(default_factory=lambda: [0, 0])  # free places behind, per channel
    entry: int = 1
    busy: bool = False
    behind: int = 0  # packets in the buffer behind
    queues: dict = field(
        default_factory=lambda: {q: deque() for q in (RESERVED, STRAIGHT, TURNING, INJECTION)}
    )
    packets: int = 0
    wire_bytes: float = 0.0
    buffer_length: int = 0
    most_buffered: int = 0


class Simulator:
    """One phase on an empty network; ``horizon`` is the farthest that an event may lie ahead."""

    def __init__(self, comm, torus, mapping, routing, tick, horizon):
        self.torus, self.tick, self.horizon = torus, tick, horizon
        self.adaptive = routing == "adaptive"
        self.latency = round(torus.network.hop_latency / tick)
        self.now = 0
        self.events, self.order = [], count()
        self.links = [self._link(link) for link in range(torus.n_links)]
        speed = 1 / torus.network.memory_bandwidth
        self.receivers = [Output(speed) for _ in range(torus.n_nodes)]
        n_fifos = torus.network.fifos
        self.fifos = [Fifo(i // n_fifos) for i in range(torus.n_nodes * n_fifos)]
        self.messages = self._messages(comm, mapping)

    def _link(self, link):
        torus = self.torus
        dimension = link % (2 * torus.ndim) // 2
        output = Output(1 / torus.bandwidth[dimension])
        if naive.far_end(torus, link) is not None:
            depth = torus.network.buffer_packets
            output.room = [depth, depth if self.adaptive else 0]
        # The bubble rule, where packets can stay on a ring for more than a hop.
        if torus.wrap[dimension] and torus.shape[dimension] > 3:
            output.entry = 2
        return output

    def _messages(self, comm, mapping):
        """Put the messages of every edge between nodes into the FIFOs, tasks in turn."""
        network = self.torus.network
        rows = naive.edges(comm, mapping)
        picked = naive.fifos(self.torus, [(a, b) for a, b, _, _ in rows])
        turn, ready = naive.hand_over(comm, network.overhead)
        by_turn = sorted(range(len(rows)), key=lambda e: (turn[e], mapping.slot[comm.src[e]]))
        messages = []
        for e in by_turn:
            a, b, nbytes, n_messages = rows[e]
            packets, wire = naive.packets(nbytes, n_messages, network)
            if a == b or packets == 0:
                continue
            # The kernel keeps the bytes of a packet in single precision.
            wire = float(np.float32(wire))
            message = Message(e, b, round(ready[e] / self.tick), packets, packets, wire)
            self.fifos[a * network.fifos + picked[e]].messages.append(message)
            messages.append(message)
        return messages

    def run(self):
        for fifo in self.fifos:
            self.request(fifo)
        while self.events:
            self.now, _, action, arguments = heapq.heappop(self.events)
            action(*arguments)
        return self

    def at(self, tick, action, *arguments):
        heapq.heappush(self.events, (tick, next(self.order), action, arguments))

    def ordered_link(self, node, dst, odd):
        place, target = naive.coords(self.torus, node), naive.coords(self.torus, dst)
        dimension = next(d for d in self.torus.order if place[d] != target[d])
        sign = naive.chosen_sign(self.torus, place, target, dimension, -1 if odd else 1)
        return naive.link_number(self.torus, node, dimension, sign)

    def emptiest_link(self, node, dst, ordered):
        """The productive link with the most adaptive room; the ordered one, then the first win."""
        candidates = [ordered, *naive.productive_links(self.torus, node, dst)]
        return max(candidates, key=lambda link: self.links[link].room[ADAPTIVE])

    def request(self, fifo):
        """A FIFO asks for the link of its next packet, or waits for its next message."""
        if not fifo.messages:
            return
        message = fifo.messages[0]
        if message.ready > self.now:
            self.at(min(message.ready, self.now + self.horizon), self.request, fifo)
            return
        link = self.ordered_link(fifo.node, message.dst, message.to_send % 2 == 1)
        if self.adaptive:
            link = self.emptiest_link(fifo.node, message.dst, link)
        fifo.waits_since = self.now
        self.links[link].queues[INJECTION].append(fifo)
        self.send(self.links[link], link)

    def channel(self, output, link, queue):
        """Channel that the head of this queue would enter, None if it may not go."""
        if queue == RESERVED:
            return ADAPTIVE
        if queue == STRAIGHT:
            return DETERMINISTIC if output.room[DETERMINISTIC] >= 1 else None
        enters = output.room[DETERMINISTIC] >= output.entry
        if queue == TURNING:
            return DETERMINISTIC if enters else None
        if self.adaptive and output.room[ADAPTIVE] > 0:
            return ADAPTIVE
        fifo = output.queues[INJECTION][0]
        message = fifo.messages[0]
        ordered = self.ordered_link(fifo.node, message.dst, message.to_send % 2 == 1)
        return DETERMINISTIC if enters and ordered == link else None

    def send(self, output, link):
        """Put the longest waiting packet that may go on an idle output; ``link`` None receives."""
        if output.busy:
            return
        may_go = [
            (waiting[0].waits_since, queue, self.channel(output, link, queue))
            for queue, waiting in output.queues.items()
            if waiting and self.channel(output, link, queue) is not None
        ]
        if not may_go:
            return
        _, queue, channel = min(may_go, key=lambda candidate: candidate[0])
        head = output.queues[queue].popleft()
        if queue == INJECTION:
            message = head.messages[0]
            packet = Packet(message, message.to_send % 2 == 1)
            message.to_send -= 1
            if message.to_send == 0:
                head.messages.popleft()
            release = (None, None, head)
        else:
            packet = head
            release = (packet.link, packet.channel, None)
        message = packet.message
        ticks = int(message.wire * (output.seconds_per_byte / self.tick) + 0.5)
        ticks = max(ticks, packet.tail - self.now)
        output.busy = True
        self.at(self.now + ticks, self.fall_idle, output, link, *release)
        if link is None:
            message.to_receive -= 1
            if message.to_receive == 0:
                message.finish = self.now + ticks
            return
        if queue != RESERVED:
            output.room[channel] -= 1
        output.packets += 1
        output.wire_bytes += message.wire
        packet.link, packet.channel = link, channel
        head = self.now + self.latency
        packet.tail = head + ticks
        last_hop = naive.far_end(self.torus, link) == message.dst
        self.at(packet.tail if last_hop else head, self.arrive, packet)

    def arrive(self, packet):
        link, dst = packet.link, packet.message.dst
        output = self.links[link]
        output.behind += 1
        output.buffer_length += output.behind
        output.most_buffered = max(output.most_buffered, output.behind)
        packet.waits_since = self.now
        node = naive.far_end(self.torus, link)
        if node == dst:
            self.receivers[node].queues[RESERVED].append(packet)
            self.send(self.receivers[node], None)
            return
        port = link % (2 * self.torus.ndim)
        here, there = naive.coords(self.torus, node), naive.coords(self.torus, dst)
        straight = packet.channel == DETERMINISTIC and here[port // 2] != there[port // 2]
        if straight:
            onward = node * 2 * self.torus.ndim + port
        else:
            onward = self.ordered_link(node, dst, packet.odd)
        queue = STRAIGHT if straight else TURNING
        if self.adaptive:
            emptiest = self.emptiest_link(node, dst, onward)
            if self.links[emptiest].room[ADAPTIVE] > 0:
                onward, queue = emptiest, RESERVED
                self.links[onward].room[ADAPTIVE] -= 1
        self.links[onward].queues[queue].append(packet)
        self.send(self.links[onward], onward)

    def fall_idle(self, output, link, held_link, held_channel, fifo):
        output.busy = False
        if fifo is not None:
            self.request(fifo)
        else:
            self.links[held_link].room[held_channel] += 1
            self.links[held_link].behind -= 1
            self.send(self.links[held_link], held_link)
        self.send(output, link)


def simulate(comm, torus, mapping, routing, tick, horizon):
    """Return arrival times of all edges, and the links with their counters."""
    simulator = Simulator(comm, torus, mapping, routing, tick, horizon).run()
    _, ready = naive.hand_over(comm, torus.network.overhead)
    finish = [0.0] * comm.n_edges
    for e, (a, b, nbytes, n_messages) in enumerate(naive.edges(comm, mapping)):
        if a == b and round(n_messages) > 0:
            finish[e] = ready[e] + nbytes / torus.network.memory_bandwidth
    for message in simulator.messages:
        assert message.to_receive == 0
        finish[message.edge] = message.finish * tick
    return finish, simulator.links
