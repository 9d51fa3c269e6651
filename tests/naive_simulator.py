"""A slow, obvious packet simulator: the twin of the kernels, event by event on a heap."""

import math

import naive
from naive_links import (
    ADAPTIVE,
    DETERMINISTIC,
    FIRST,
    FREE,
    PARTS,
    SECOND,
    SECOND_DETERMINISTIC,
    Buffer,
    Link,
    Packet,
    buffer_sizes,
    nearest_tick,
)
from naive_nodes import Clock, Fifo, Nodes, drawn, list_messages, minus_ways


class Simulator:
    """Rounds without a barrier on an empty network; ``horizon``: how far ahead an event may lie."""

    def __init__(self, rounds, torus, mapping, routing, coarsening, seed, tick, horizon):
        self.torus, self.seed = torus, seed
        self.tick, self.horizon = tick, horizon
        self.adaptive = routing == "adaptive"
        self.latency = round(torus.network.hop_latency / tick)
        # The kernel keeps three kinds of lanes of a link in one 64-bit number: FIFOs beyond share a
        # turn.
        self.inlets = 2 * torus.ndim
        self.inputs = min(self.inlets + torus.network.fifos, 21)
        self.clock = Clock()
        self.messages = list_messages(rounds, torus, mapping, coarsening, tick)
        self.largest, size, ratio = buffer_sizes(rounds, torus, mapping, coarsening)
        network = torus.network
        self.outside = max(1, round(network.fifo_packets / max(ratio, 1.0)))
        self.turns_a_byte = 0.0
        if network.fifo_packets < ratio and network.arbitration == "first_come":
            held = size // self.largest * self.largest
            self.turns_a_byte = network.buffer_packets / network.fifo_packets / held
        self.links = [self.link(number, size) for number in range(torus.n_links)]
        self.ports = [[0] * torus.network.reception_ports for _ in range(torus.n_nodes)]
        self.nodes = Nodes(
            self.clock, self.messages, len(rounds), torus, mapping, self.outside, self.feed
        )
        self.ways = {}
        self.first = None  # packet that is now the first of its queue

    def link(self, number, size):
        torus, network = self.torus, self.torus.network
        node, port = divmod(number, 2 * torus.ndim)
        far, dateline = naive.far_end(torus, number), network.deadlock == "dateline"
        # On a ring of up to three nodes no packet goes two hops: none stays on it.
        ring = torus.wrap[port // 2] and len(self.ring(node, port // 2)) > 3
        circular = network.deadlock == "bubble" and ring
        entry = self.largest * (2 if circular else 1)
        link = Link(number, node, port, far, entry, SECOND_DETERMINISTIC if dateline else 0)
        link.buffers = [
            Buffer(link, channel, size if used and far is not None else 0)
            for channel, used in enumerate([True, dateline, self.adaptive])
        ]
        return link

    def ring(self, node, dimension):
        """Nodes on a ring of a dimension, the one with the lowest number first, the way plus."""
        torus = self.torus
        if not torus.wrap[dimension] or torus.shape[dimension] == 1:
            return []
        nodes = [node]
        while len(nodes) == 1 or nodes[-1] != node:
            place = naive.coords(torus, nodes[-1])
            nodes.append(naive.node_at(torus, naive.step(torus, place, dimension, 1)))
        begin = nodes.index(min(nodes[1:]))
        return nodes[begin:-1] + nodes[:begin]

    def run(self):
        self.nodes.start()
        self.clock.run()
        return self

    def parts(self, nbytes, bandwidth, ports=1):
        """Parts of ticks that bytes take, to the nearest one."""
        return int(nbytes * (PARTS / self.tick * ports / bandwidth) + 0.5)

    def feed(self, fifo):
        """Put the next packet of a FIFO before the router."""
        waiting, network = fifo.messages, self.torus.network
        if not waiting or fifo.outside == self.outside:
            fifo.busy = False
            return
        message = waiting[0]
        left = message.to_send
        drawn_ties = not self.chooses(message) or self.torus.tie_break == "booksim"
        minus = minus_ways(self.torus, message, left, self.seed) if drawn_ties else set()
        message.to_send -= 1
        if message.to_send == 0:
            self.nodes.fifo_of(message).stay += self.clock.now - message.ready
        if message.to_send == 0:
            waiting.popleft()
        elif network.feeding == "packets":
            waiting.rotate(-1)
        fifo.turns = int(message.wire * self.turns_a_byte + 0.5)
        fifo.outside += 1
        taking = self.parts(message.wire, max(self.torus.bandwidth))
        fifo.free_at = max(fifo.free_at, self.clock.now * PARTS) + taking
        self.clock.at(fifo.free_at // PARTS, self.feed, fifo)
        # The bubble rule counts places, each of the largest packet; an empty one takes a byte.
        size = max(1, math.ceil(message.wire))
        size = self.largest if network.deadlock == "bubble" else size
        self.proceed(Packet(message, minus, fifo, size, tail=self.clock.now))

    def leave_fifo(self, fifo):
        """A packet of a FIFO begins to leave the node: the next may come before the router."""
        fifo.outside -= 1
        if not fifo.busy and fifo.messages:
            fifo.busy = True
            self.clock.at(max(self.clock.now, fifo.free_at // PARTS), self.feed, fifo)

    def chooses(self, message):
        """Whether the packets of a message may choose among links."""
        return self.adaptive and len(naive.zones_of(self.torus, message.src, message.dst)) > 0

    def productive(self, node, message):
        """Links of the zone, in the order of their dimensions in the routing order, plus first."""
        src, dst = message.src, message.dst
        if self.torus.twist and (node, src, dst) not in self.ways:
            left = naive.hops_left(self.torus, src, dst, node)
            zones = naive.zones_of(self.torus, src, dst)
            zone = next(z for z in zones if any(left[d] for d in z))
            self.ways[node, src, dst] = [
                self.links[naive.link_number(self.torus, node, d, 1 if left[d] > 0 else -1)]
                for d in self.torus.routing_order
                if d in zone and left[d]
            ]
        if (node, src, dst) not in self.ways:
            rank, ports = self.torus.routing_order.index, 2 * self.torus.ndim
            zones = naive.zones_of(self.torus, src, dst)
            links = naive.productive_links(self.torus, node, dst, zones)
            links.sort(key=lambda number: (rank(number % ports // 2), number))
            self.ways[node, src, dst] = [self.links[number] for number in links]
        return self.ways[node, src, dst]

    def ordered(self, packet, node):
        """The link in dimension order, and what the packet needs to enter it.

        Where both ways round are free, an adaptive packet goes plus, unless it has drawn minus.
        """
        torus, held = self.torus, packet.held
        if torus.twist:
            return self.ordered_on_rings(packet, node)
        here, there = naive.coords(torus, node), naive.coords(torus, packet.message.dst)
        d = next(d for d in torus.routing_order if here[d] != there[d])
        if self.chooses(packet.message) and torus.tie_break != "bluegene":
            ways = naive.signs(torus, here, there, d)
            sign = ways[-1 if d in packet.minus else 0]
        else:
            sign = naive.chosen_sign(torus, here, there, d, -1 if d in packet.minus else 1)
        link = self.links[naive.link_number(torus, node, d, sign)]
        straight = (
            isinstance(held, Buffer) and held.link.port == link.port and held.channel != ADAPTIVE
        )
        if torus.network.deadlock != "dateline":
            return link, FIRST if straight else SECOND
        if straight:
            return link, FIRST if held.channel == DETERMINISTIC else SECOND
        return link, self.side(packet, link, here[d], there[d], sign, torus.shape[d], torus.wrap[d])

    def ordered_on_rings(self, packet, node):
        """The same on a twisted torus, by places on rings."""
        torus, held, message = self.torus, packet.held, packet.message
        left = naive.hops_left(torus, message.src, message.dst, node)
        d = next(d for d in torus.routing_order if left[d])
        sign = 1 if left[d] > 0 else -1
        link = self.links[naive.link_number(torus, node, d, sign)]
        straight = (
            isinstance(held, Buffer) and held.link.port == link.port and held.channel != ADAPTIVE
        )
        if torus.network.deadlock != "dateline":
            return link, FIRST if straight else SECOND
        if straight:
            return link, FIRST if held.channel == DETERMINISTIC else SECOND
        ring = self.ring(node, d)
        here, size = ring.index(node), len(ring)
        return link, self.side(packet, link, here, (here + left[d]) % size, sign, size, True)

    def side(self, packet, link, here, there, sign, size, wrap):
        """With datelines, the channel of a packet that comes into a ring: FIRST or SECOND."""
        middle = (size - 1) // 2
        if wrap and (there < here) == (sign > 0):
            return SECOND  # across the edge
        if wrap and (here <= middle) != (there <= middle):
            return FIRST
        of_link = drawn(self.seed, 0, link.number)
        return (FIRST, SECOND)[drawn(of_link, packet.message.number, packet.tail & 0xFFFFFFFF) & 1]

    def entrance(self, held):
        """A packet's turn among the inputs of a router: ports, then FIFOs."""
        network = self.torus.network
        if network.arbitration == "first_come":
            return 0
        if isinstance(held, Buffer):
            return held.link.port
        return self.inlets + held.number % network.fifos % (self.inputs - self.inlets)

    def proceed(self, packet):
        """Let a packet ask for the link that it takes next, or for a reception port."""
        held, dst, node = packet.held, packet.message.dst, packet.node
        if isinstance(held, Fifo):
            packet.since = self.clock.now
        elif node == dst:
            self.deliver(packet)
            return
        link = self.join(packet)
        if self.adaptive:
            if self.first is packet:
                self.serve(link if link.free_tick <= self.clock.now else None)
            return
        if not link.armed and link.free_tick > self.clock.now:
            link.armed = True
            self.clock.at(link.free_tick, self.falls_free, link)
        if not link.armed:
            self.serve(link)

    def join(self, packet):
        """Put a packet last into a queue; returns the link for which it waits."""
        held, node = packet.held, packet.node
        link, kind = self.ordered(packet, node)
        fresh = isinstance(held, Fifo) or held.channel == ADAPTIVE
        if self.chooses(packet.message) and fresh:
            link, kind = self.emptiest(node, packet.message), FREE
        queue = link.lanes[kind, self.entrance(held)]
        queue.append(packet)
        if self.adaptive and len(queue) == 1:
            self.first = packet
        return link

    def emptiest(self, node, message):
        """The link with the most room, less what waits for it already; the first of several."""

        def spare(link):
            lanes = [queue for lane, queue in link.lanes.items() if lane[0] == FREE]
            queued = sum(p.size for queue in lanes for p in queue)
            return link.room(ADAPTIVE) - queued

        return max(self.productive(node, message), key=spare)

    def announce(self, packet):
        """Let every link that a packet, now the first of its queue, may take look for it."""
        now, node = self.clock.now, packet.node
        escape, _ = self.ordered(packet, node)
        ways = {*self.productive(node, packet.message), escape}
        rank = self.torus.routing_order.index
        for way in sorted(ways, key=lambda way: (rank(way.port // 2), way.port)):
            # A free link without room looks again when it gets some.
            open_to = way is escape or way.room(ADAPTIVE) >= self.largest
            if not way.armed and (way.free_tick > now or open_to):
                way.armed = True
                self.clock.at(max(now, way.free_tick), self.falls_free, way)

    def falls_free(self, link):
        if link.free_tick > self.clock.now:
            # It has been served in the meantime.
            self.clock.at(link.free_tick, self.falls_free, link)
            return
        link.armed = False
        self.serve(link)

    def channel_for(self, packet, lane, link):
        """Channel in which a packet of this lane may enter a link now, None if in none."""
        if not self.adaptive:
            kind = lane[0]
        else:
            held = packet.held
            stays = isinstance(held, Buffer) and held.channel != ADAPTIVE
            stays = stays and self.torus.network.escape == "stays"
            allowed = link in self.productive(link.node, packet.message) and not stays
            if allowed and link.room(ADAPTIVE) >= self.largest:
                return ADAPTIVE
            # Only the way in dimension order has the channel in which no ring fills up.
            way, kind = self.ordered(packet, link.node)
            if way is not link:
                return None
        channel = DETERMINISTIC if kind == FIRST else link.second_channel
        needed = self.largest if kind == FIRST else link.entry
        return channel if link.room(channel) >= needed else None

    def choose(self, link):
        """Lane and queue of the packet that goes next, the channel it enters, the lane's link."""
        node = self.node_links(link)
        others = node[link.port + 1 :] + node[: link.port] if self.adaptive else []
        for stolen, sources in ((False, [link]), (True, others)):
            ready = [
                (lane, queue, channel, source)
                for source in sources
                for lane, queue in source.in_order()
                if queue and (channel := self.channel_for(queue[0], lane, link)) is not None
            ]
            if ready:
                return min(ready, key=lambda choice: self.urgency(link, *choice[:2], stolen))
        return None

    def urgency(self, link, lane, queue, stolen):
        """The least goes first; of several the first."""
        if self.torus.network.arbitration == "round_robin" and not stolen:
            return (lane[1] - link.turn) % self.inputs, lane[0]
        return queue[0].since

    def node_links(self, link):
        """All links of a link's node."""
        ports = 2 * self.torus.ndim
        return self.links[link.node * ports : (link.node + 1) * ports]

    def anything_for(self, link):
        """Whether a packet waits that may want this link."""
        return any(way.waiting for way in (self.node_links(link) if self.adaptive else [link]))

    def serve(self, link):
        """Send from a free link, then from the one behind which that made room, and so on."""
        while link is not None or self.first is not None:
            if self.first is not None:
                self.announce(self.first)
                self.first = None
            if link is not None:
                link = self.send(link)

    def send(self, link):
        choice = self.choose(link)
        if choice is None:
            return None
        lane, queue, channel, holder = choice
        if self.gives_way(queue, holder):
            return link
        packet = queue.popleft()
        if self.adaptive and queue:
            self.first = queue[0]
        link.turn = (lane[1] + 1) % self.inputs
        now, held, wire = self.clock.now, packet.held, packet.message.wire
        packet.held = link.buffers[channel]
        packet.held.room -= packet.size
        assert packet.held.room >= 0
        # Off a slower link it cannot go faster than it comes.
        taking = self.parts(wire, self.torus.bandwidth[link.port // 2])
        link.free_at = max(max(link.free_at, now * PARTS) + taking, packet.tail * PARTS)
        ticks = link.free_tick - now
        if not link.armed and self.anything_for(link):
            link.armed = True
            self.clock.at(now + ticks, self.falls_free, link)
        upstream = None
        if isinstance(held, Buffer):
            held.link.waited += now - packet.since
            upstream = self.leave(held, packet)
        else:
            held.waited += now - packet.since
            self.leave_fifo(held)
        packet.tail = self.latency + nearest_tick(link.free_at)
        self.clock.at(now + self.latency, self.arrive, packet)
        return upstream

    def gives_way(self, queue, holder):
        """Whether a FIFO's packet lets others go first, as the real ones that it stands for."""
        packet, now = queue[0], self.clock.now
        waiting = sum(len(others) for others in holder.lanes.values())
        if not isinstance(packet.held, Fifo) or packet.held.turns <= 1 or waiting == 1:
            return False
        queue.popleft()
        if self.adaptive and queue:
            self.announce(queue[0])
        packet.held.turns -= 1
        packet.held.waited += now - packet.since
        packet.since = now
        self.join(packet)
        return True

    def leave(self, buffer, packet):
        """There is room behind a link; returns the link if it can send now."""
        buffer.room += packet.size
        link = buffer.link
        link.behind -= 1
        free = not link.armed and link.free_tick <= self.clock.now
        return link if free and self.anything_for(link) else None

    def arrive(self, packet):
        link = packet.held.link
        link.behind += 1
        link.packets += 1
        link.wire_bytes += packet.message.wire
        link.max_packets = max(link.max_packets, link.behind)
        packet.since = self.clock.now
        self.proceed(packet)

    def deliver(self, packet):
        network, link = self.torus.network, packet.held.link
        ports = self.ports[link.far]
        begin = max(min(ports), self.clock.now * PARTS)
        start = begin // PARTS
        bandwidth = network.memory_bandwidth
        taking = self.parts(packet.message.wire, bandwidth, network.reception_ports)
        ports[ports.index(min(ports))] = begin + taking
        link.waited += start - packet.since
        self.take_in(packet, start, taking)

    def take_in(self, packet, start, taking):
        """The destination takes a packet in as soon as its port is free."""
        now, message = self.clock.now, packet.message
        if start > now:
            self.clock.at(min(start, now + self.horizon), self.take_in, packet, start, taking)
            return
        ticks = max(nearest_tick(taking), packet.tail - now)
        message.finish = max(message.finish, now + ticks)
        message.to_receive -= 1
        if message.to_receive == 0:
            self.clock.at(message.finish, self.nodes.arrived, message)
        self.serve(self.leave(packet.held, packet))
