"""Slow, obvious links of the packet simulator's twin, the buffers behind them, and packets."""

import math
from collections import defaultdict, deque
from dataclasses import dataclass, field

import naive
from naive_nodes import Fifo, Message

DETERMINISTIC, SECOND_DETERMINISTIC, ADAPTIVE = 0, 1, 2
# What a packet in dimension order needs to enter a link: room in the first channel; in the second,
# or with the bubble rule to enter the ring. Free packets may take any of several links.
FIRST, SECOND, FREE = 0, 1, 2
# Parts of a tick in which links, FIFOs and reception ports count when they are free.
PARTS = 1024


@dataclass(eq=False)
class Buffer:
    """A channel behind a link."""

    link: "Link"
    channel: int
    size: int

    def __post_init__(self):
        self.room = self.size


@dataclass(eq=False)
class Packet:
    message: Message
    minus: set  # dimensions where it takes the minus way of a tie
    held: Buffer | Fifo  # where it is
    size: int  # bytes of a buffer that it takes
    tail: int = 0  # tick when all of it is there
    since: int = 0

    @property
    def node(self):
        return self.held.node if isinstance(self.held, Fifo) else self.held.link.far


@dataclass(eq=False)
class Link:
    number: int
    node: int
    port: int
    far: int | None
    entry: int  # free bytes that a packet of the second kind needs
    second_channel: int  # channel of the second kind
    free_at: int = 0  # in parts of ticks
    armed: bool = False  # an event will look at it
    turn: int = 0
    lanes: dict = field(default_factory=lambda: defaultdict(deque))  # by kind and input
    behind: int = 0
    packets: int = 0
    wire_bytes: float = 0.0
    max_packets: int = 0
    waited: int = 0

    @property
    def free_tick(self):
        return self.free_at // PARTS

    def room(self, channel):
        return self.buffers[channel].room

    def in_order(self):
        """Lanes with their queues: by kind, then by input."""
        return sorted(self.lanes.items(), key=lambda pair: pair[0])

    @property
    def waiting(self):
        return any(self.lanes.values())


def nearest_tick(parts):
    """Whole ticks next to a number of parts."""
    return (parts + PARTS // 2) // PARTS


def buffer_sizes(rounds, torus, mapping, coarsening):
    """Bytes of the largest packet, and of a channel; real places to one for such packets.

    If packets are merged, a channel holds three of them where it held that many.
    """
    network = torus.network
    real = simulated = 0
    largest = 1.0
    for comm in rounds:
        for a, b, nbytes, n in naive.edges(comm, mapping):
            count, wire = naive.packets(nbytes, n, network, coarsening)
            if a != b:
                largest = max(largest, wire)
                simulated += count
                real += naive.packets(nbytes, n, network)[0]
    merged = max(real, 1) / max(simulated, 1)
    least = min(network.buffer_packets, 3) if merged > 1 else 1
    size = network.buffer_packets * (network.payload + network.header)
    largest = math.ceil(largest)
    size = max(size, largest * least)
    return largest, size, network.buffer_packets / (size // largest) if merged > 1 else 1.0
