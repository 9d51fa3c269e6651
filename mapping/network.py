"""Constants of a network, and the routing zones of Blue Gene/Q's messaging library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from toruscast.typing import Int32s
from toruscast.validation import check_type, one_of, real_number, whole_number

FifoRule = Literal["bluegene_q", "first_dimension", "round_robin", "first_free"]
DeadlockRule = Literal["bubble", "dateline"]
Arbitration = Literal["first_come", "round_robin"]
Feeding = Literal["tasks", "messages", "packets"]
Escape = Literal["returns", "stays"]

# The maxima exceed the values of any machine, but keep array sizes and sums manageable.
_RANGES: dict[str, tuple[int, float]] = {
    **dict.fromkeys(("header", "hop_latency", "overhead", "start", "short_overhead"), (0, 10**9)),
    **dict.fromkeys(("fifos", "reception_ports"), (1, 1024)),
    "payload": (1, 10**9),
    "buffer_packets": (1, 10**9),
    "short_limit": (0, 10**15),
    "fifo_packets": (1, 2**20),
    "memory_bandwidth": (1, math.inf),
}
_UNBOUNDED = ("deterministic_limit", "eager_limit")

RULES = ("fifo_rule", "feeding", "arbitration", "tie_break")
"""Rules of a network that vendors rarely publish; the last is a field of `Torus`."""

_CHOICES: dict[str, tuple[str, Any]] = {
    "fifo_rule": ("FIFO rule", FifoRule),
    "deadlock": ("deadlock rule", DeadlockRule),
    "arbitration": ("arbitration", Arbitration),
    "feeding": ("feeding", Feeding),
    "escape": ("escape", Escape),
}


@dataclass(frozen=True)
class Network:
    """Constants of a machine's network; the defaults are Blue Gene/Q's.

    Parameters
    ----------
    payload, header : int
        Maximum bytes of payload in a packet, and the bytes of its header.
    hop_latency : float
        Seconds from a packet's head entering a link until the head can leave the next router.
    buffer_packets : int
        Number of full packets that fit in each virtual channel of a link's input buffer: at least 2
        with the bubble rule, at least 1 with datelines, and at most 2^30 bytes. More packets fit if
        short, except with the bubble rule, where each takes the longest packet's space.
    fifos : int
        Number of torus injection FIFOs per node.
    fifo_rule : {"bluegene_q", "first_dimension", "round_robin", "first_free"}
        How a message selects its injection FIFO. With ``first_free`` a node has one queue of
        messages, from which each active FIFO takes the next packet when it is free. A new message
        activates one idle FIFO. Analyses without a simulation assign these messages to the FIFOs in
        turn. ``round_robin`` restarts in every phase and round.
    fifo_packets : int
        Number of packets from an injection FIFO that can wait at the router for links at once.
    overhead : float
        Seconds of software time that a task spends on each message it sends.
    memory_bandwidth : float
        Bytes per second that a node can receive from the network. Each message within a node also
        has this bandwidth, regardless of other messages.
    deadlock : {"bubble", "dateline"}
        How rings avoid deadlock. ``bubble``: a packet enters a ring only if this leaves room for
        one more packet. ``dateline``: there are two virtual channels. A packet that crosses the
        ring's edge takes the second, a packet that crosses the ring's middle takes the first, and
        other packets take a random one.
    arbitration : {"first_come", "round_robin"}
        Which waiting packet a link sends next: the packet that has waited longest, or the packet of
        the next input in turn (at most 21 inputs; additional FIFOs share an input).
    feeding : {"tasks", "messages", "packets"}
        Order in which the messages of a node's tasks enter its injection FIFOs. ``tasks``: the
        first message of each task, the second of each, and so on. ``messages``: all messages of the
        first task, then all messages of the second, and so on. ``packets``: as ``tasks``, but each
        FIFO sends one packet of each of its messages in turn.
    escape : {"returns", "stays"}
        Whether an adaptive packet that left a full adaptive channel for the escape channel can
        return to the adaptive channel, or stays in the escape channel, in dimension order.
    deterministic_limit : float
        With routing ``by_size``, a phase is routed in dimension order if its longest message has at
        most this many bytes. Otherwise the whole phase is adaptive.
    reception_ports : int
        Number of ports through which a node receives packets; they share ``memory_bandwidth``.
    short_limit : int
        Maximum bytes of a short message; 0 if there are no short messages.
    short_overhead : float
        Seconds of software time for a short message, instead of ``overhead``.
    eager_limit : float
        Maximum bytes of a message that is sent without rendezvous; infinity disables rendezvous. In
        dependent rounds, a receiver answers a request once it has started the message's round.
    start : float
        Seconds before the first messages of a phase, such as the time that a compiled program takes
        to start a collective. It occurs only once for all dependent rounds.
    unknown_rules : tuple of str
        Which of `RULES` (``fifo_rule``, ``feeding``, ``arbitration`` and the torus's ``tie_break``)
        are not known: all by default, none for a named machine. For unknown rules, `rank`, `search`
        and `plan` average over several plausible networks, while `simulate` uses the values of the
        fields. A rule that differs from its default counts as known.

    Notes
    -----
    Packet sizes, the number of FIFOs and the 40 ns per hop are Blue Gene/Q's (Chen et al., "The IBM
    Blue Gene/Q interconnection network and message unit", SC'11), and so is the limit of 64 KiB
    above which its messaging library routes dynamically. The overhead has the order of magnitude of
    an MPI send on a Blue Gene/Q core. The memory bandwidth is what STREAM measures on a node.
    Vendors rarely publish the buffer sizes of torus routers, so 32 packets is an assumption. With
    smaller buffers, packets for a hot link block others, and the time depends more on chance
    (figures in `benchmarks/measurements.md`).

    Blue Gene's routers follow the bubble rule (Puente et al., "The adaptive bubble router", J.
    Parallel Distrib. Comput. 61, 2001). Datelines are due to Dally and Seitz ("Deadlock-free
    message routing in multiprocessor interconnection networks", IEEE Trans. Comput. 36, 1987). The
    use of two datelines, to balance the channels, comes from the Cray T3D (Scott and Thorson,
    "Optimized routing in the Cray T3D", PCRCW'94). MPI libraries commonly have short and rendezvous
    messages. Their size limits are library settings, and are off by default here. The short
    overhead is an assumption. Packets return from the escape channel in Duato's theory ("A new
    theory of deadlock-free adaptive routing in wormhole networks", IEEE Trans. Parallel Distrib.
    Syst. 4, 1993) and in the adaptive bubble router. With BookSim 2's minimal adaptive routing,
    they stay there.

    Examples
    --------
    >>> Network(deadlock="dateline", buffer_packets=1).buffer_packets
    1
    """

    payload: int = 512
    header: int = 32
    hop_latency: float = 40e-9
    buffer_packets: int = 32
    fifos: int = 10
    fifo_rule: FifoRule = "bluegene_q"
    fifo_packets: int = 1
    overhead: float = 500e-9
    memory_bandwidth: float = 28e9
    deadlock: DeadlockRule = "bubble"
    arbitration: Arbitration = "first_come"
    feeding: Feeding = "tasks"
    deterministic_limit: float = 65536
    reception_ports: int = 1
    short_limit: int = 0
    short_overhead: float = 200e-9
    eager_limit: float = math.inf
    escape: Escape = "returns"
    start: float = 0.0
    unknown_rules: tuple[str, ...] = RULES

    def __post_init__(self) -> None:
        for name, (label, choices) in _CHOICES.items():
            one_of(getattr(self, name), label, get_args(choices))
        check_type(self.unknown_rules, "unknown_rules", list | tuple, "names of rules")
        for name in self.unknown_rules:
            one_of(name, "unknown rule", RULES)
        # Rules that differ from their defaults were stated by the user.
        stated = {n for n in _CHOICES if getattr(self, n) != getattr(type(self), n)}
        unknown = tuple(name for name in self.unknown_rules if name not in stated)
        object.__setattr__(self, "unknown_rules", unknown)
        for item in fields(self):
            value, name = getattr(self, item.name), item.name
            is_infinite = np.isscalar(value) and value == math.inf
            if name in _CHOICES or name == "unknown_rules" or (name in _UNBOUNDED and is_infinite):
                continue
            low, high = _RANGES.get(name, (0, math.inf))
            if name == "buffer_packets" and self.deadlock == "bubble":
                # A packet may enter a ring only if room for another packet remains.
                low, name = 2, "buffer_packets for the bubble rule"
            if item.type == "int":
                object.__setattr__(self, item.name, whole_number(value, name, low, int(high)))
            else:
                real_number(value, name, low, high)

    def with_known(self, *rules: str) -> Network:
        """Return the same network with some of its rules marked as known."""
        unknown = tuple(name for name in self.unknown_rules if name not in rules)
        return replace(self, unknown_rules=unknown)


Groups = tuple[tuple[int, ...], ...]

# The messaging library's defaults by minimum number of nodes of a block: the limits of flexibility
# between which a message counts as flexible, and the zones of flexible and of other messages.
_ZONE_DEFAULTS = (
    (0, (1.5, 3.5), (3, 3)),
    (1024, (1.5, 3.5), (2, 0)),
    (2048, (1.5, 3.5), (3, 0)),
    (8192, (1.5, 2.5), (3, 0)),
    (16384, (1.3, 3.0), (3, 0)),
    (65536, (0.75, 3.0), (3, 0)),
)
FLEXIBLE, OTHER, LINE = range(3)


def routing_order(shape: Sequence[int], wrap: Sequence[bool]) -> tuple[int, ...]:
    """Return the order in which a block routes its dimensions, the longest first."""
    length, mesh = _find_lengths(shape, wrap), _find_meshes(shape, wrap)
    order = list(range(5))
    # The firmware's exchange sort determines the order of dimensions of equal length. It tests
    # mesh[j] rather than mesh[order[j]]. Routes recorded on six blocks confirm these orders.
    for i in range(5):
        for j in range(i + 1, 5):
            first, second = length[order[i]], length[order[j]]
            if second > first or (second == first and mesh[j]):
                order[i], order[j] = order[j], order[i]
    return tuple(order)


def zone_sets(
    shape: Sequence[int], wrap: Sequence[bool], order: Sequence[int]
) -> tuple[Groups, ...]:
    """Return the zones of flexible messages and of others; messages along a line have none."""
    length = _find_lengths(shape, wrap)
    longest_first = sorted(order, key=lambda d: -length[d])
    by_length = tuple(tuple(equal) for _, equal in groupby(longest_first, lambda d: length[d]))
    one_by_one = tuple((d,) for d in order)
    # The library adds E to every group, but packets complete E in the first group.
    first = tuple(sorted({order[0], 4}))
    with_e = (first, *((d,) for d in order[1:] if d != 4))
    zones = {0: by_length, 2: one_by_one, 3: with_e}
    _, (flexible, other) = _find_zone_defaults(shape)
    return zones[flexible], zones[other], ()


def zone_numbers(
    shape: Sequence[int], coords: Int32s, src: Int32s, dst: Int32s
) -> NDArray[np.int8]:
    """Return each message's index in `zone_sets`, given its nodes; (N, 5) (n,) (n,) -> (n,).

    Distances include hops around a ring even on meshes, because the library knows only the sizes.
    """
    flexibility = np.zeros(src.size)
    differ = np.zeros(src.size, dtype=np.int8)
    for d, size in enumerate(shape):
        gap = np.abs(coords[dst, d] - coords[src, d])
        differ += gap > 0
        if d < 4:
            flexibility += np.minimum(gap, size - gap) / max(size // 2, 1)
    (low, high), _ = _find_zone_defaults(shape)
    number = np.where((low < flexibility) & (flexibility < high), FLEXIBLE, OTHER)
    return np.where(differ > 1, number, LINE).astype(np.int8)


def _find_zone_defaults(shape: Sequence[int]) -> tuple[tuple[float, float], tuple[int, int]]:
    """Return the limits of flexibility and the zones for a block with this number of nodes."""
    n_nodes = int(np.prod(shape))
    rows = [(limits, zones) for start, limits, zones in _ZONE_DEFAULTS if n_nodes >= start]
    return rows[-1]


def _find_meshes(shape: Sequence[int], wrap: Sequence[bool]) -> list[bool]:
    """Return whether each dimension is a mesh."""
    # Dimensions A to D with two nodes are half a midplane long and form no ring.
    return [not w or (k == 2 and d < 4) for d, (k, w) in enumerate(zip(shape, wrap, strict=True))]


def _find_lengths(shape: Sequence[int], wrap: Sequence[bool]) -> list[int]:
    """Return the lengths by which the firmware sorts dimensions; rings have half their size."""
    meshes = _find_meshes(shape, wrap)
    return [k if is_mesh else k // 2 for k, is_mesh in zip(shape, meshes, strict=True)]
