"""What surrounds the links of a torus, and how Blue Gene/Q's software routes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from toruscast.validation import one_of, real_number, whole_number

FifoRule = Literal["bluegene_q", "first_dimension", "round_robin", "first_free"]
DeadlockRule = Literal["bubble", "dateline"]
Arbitration = Literal["first_come", "round_robin"]
Feeding = Literal["tasks", "messages", "packets"]
Escape = Literal["returns", "stays"]
Rules = Literal["given", "unknown"]

# The most is far more than any machine has, and little enough for arrays with a place for each and
# for sums.
_RANGES: dict[str, tuple[int, float]] = {
    **dict.fromkeys(("header", "hop_latency", "overhead", "start", "short_overhead"), (0, 10**9)),
    **dict.fromkeys(("fifos", "reception_ports"), (1, 1024)),
    "payload": (1, 10**9),
    "buffer_packets": (1, 10**9),
    "short_limit": (0, 10**15),
    "fifo_packets": (1, 2**20),
    "memory_bandwidth": (1, math.inf),
}
# Limits that nothing may exceed.
_ENDLESS = ("deterministic_limit", "eager_limit")

_CHOICES: dict[str, tuple[str, Any]] = {
    "fifo_rule": ("FIFO rule", FifoRule),
    "deadlock": ("deadlock rule", DeadlockRule),
    "arbitration": ("arbitration", Arbitration),
    "feeding": ("feeding", Feeding),
    "escape": ("escape", Escape),
    "rules": ("rules", Rules),
}


@dataclass(frozen=True)
class Network:
    """Constants of a machine's network; the defaults are Blue Gene/Q's.

    Parameters
    ----------
    payload, header : int
        Bytes of payload that a packet holds at most, and of header that it carries besides.
    hop_latency : float
        Seconds from the head of a packet entering a link to the head being ready to leave the next
        router.
    buffer_packets : int
        Full packets that each virtual channel of the input buffer behind a link holds: at least 2
        for the bubble rule; else at least 1. Of short ones more, but by the bubble rule every
        packet takes a place of the longest that is sent. No more than 2^30 bytes.
    fifos : int
        Torus injection FIFOs of a node.
    fifo_rule : {"bluegene_q", "first_dimension", "round_robin", "first_free"}
        How a message picks its injection FIFO. With ``first_free`` a node's messages wait in one
        queue, and each FIFO at work takes the next packet of it when it is free; a message that
        comes sets one idle FIFO to work, so that one alone goes through one. Counts that know no
        time deal them out in turn. ``round_robin`` begins anew in every phase and round.
    fifo_packets : int
        Packets of an injection FIFO that may wait at the router for their links at once.
    overhead : float
        Seconds of software that a task spends on each message it sends.
    memory_bandwidth : float
        Bytes per second at which a node takes packets in, and at which each message within a node
        goes, however many others do.
    deadlock : {"bubble", "dateline"}
        How rings are kept from filling up. ``bubble``: a packet enters a ring only if one free
        place is left on it behind the packet. ``dateline``: two virtual channels; a packet whose
        way round crosses the ring's edge takes the second, one that crosses its middle the first,
        any other one of them at random.
    arbitration : {"first_come", "round_robin"}
        Which of the packets that wait for a link goes next: the one that has waited longest there,
        or the next input's in turn (21 at most; FIFOs beyond share a turn).
    feeding : {"tasks", "messages", "packets"}
        Order in which the messages of a node's tasks enter its injection FIFOs. ``tasks``: the
        first message of each task, the second of each, and so on. ``messages``: all of the first
        task's, then all of the second's. ``packets``: as ``tasks``, but a FIFO sends one packet of
        each of its messages in turn.
    escape : {"returns", "stays"}
        Whether an adaptive packet that went on in dimension order for want of room may come back
        into the adaptive channel, or keeps to dimension order from then on.
    deterministic_limit : float
        Where the routing goes ``by_size``, a phase keeps to dimension order if its longest message
        has at most so many bytes; else all of it is adaptive. Infinite for never.
    reception_ports : int
        Ports at which a node takes packets in; together they take in ``memory_bandwidth``.
    short_limit : int
        Bytes up to which a message is short; 0: none.
    short_overhead : float
        Seconds of software for a short message, instead of ``overhead``.
    eager_limit : float
        Bytes above which a message first asks its receiver and waits for the answer (rendezvous);
        of dependent rounds, the receiver answers once it has begun the message's. Infinite for
        never.
    start : float
        Seconds before the first messages of a phase are handed over, once for rounds that depend on
        each other: what a compiled program takes to begin a collective.
    rules : {"given", "unknown"}
        Whether ``fifo_rule``, ``feeding`` and ``arbitration`` are known to be the machine's. Where
        they are not, `rank` takes the mean over several networks; a simulation takes
        the rules as they stand here.

    Notes
    -----
    Packet sizes, the FIFOs and the 40 ns a hop are Blue Gene/Q's (Chen et al., "The IBM
    Blue Gene/Q interconnection network and message unit", SC'11), and so is the limit of 64 KiB
    above which its messaging library routes dynamically. The overhead is the order of
    magnitude of an MPI send on its cores, the memory bandwidth that of STREAM on a node. How deep
    the buffers of a torus router are is rarely published: 32 packets are an assumption. With
    shallower ones, packets for a hot link stand in the way of others, and the time depends more on
    chance (figures in `docs/studies/measurements.md`).

    Blue Gene's routers follow the bubble rule (Puente et al., "The adaptive bubble router", J.
    Parallel Distrib. Comput. 61, 2001); datelines are Dally and Seitz's ("Deadlock-free message
    routing in multiprocessor interconnection networks", IEEE Trans. Comput. 36, 1987), two of them,
    so that both channels are in use, the Cray T3D's (Scott and Thorson, "Optimized routing in the
    Cray T3D", PCRCW'94). Short and rendezvous messages are common to MPI libraries. Their limits
    are settings of the library, not of the machine, and off by default. The short overhead is an
    assumption. That packets may come back from the escape channel is Duato's ("A new theory of
    deadlock-free adaptive routing in wormhole networks", IEEE Trans. Parallel Distrib. Syst. 4,
    1993) and the adaptive bubble router's; BookSim 2's minimal adaptive packets stay there.

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
    rules: Rules = "given"

    def __post_init__(self) -> None:
        for name, (what, choices) in _CHOICES.items():
            one_of(getattr(self, name), what, get_args(choices))
        for item in fields(self):
            value, name = getattr(self, item.name), item.name
            if name in _CHOICES or (name in _ENDLESS and value == math.inf):
                continue
            low, high = _RANGES.get(name, (0, math.inf))
            if name == "buffer_packets" and self.deadlock == "bubble":
                # A packet that enters a ring under the bubble rule leaves a place behind it.
                low, name = 2, "buffer_packets for the bubble rule"
            if item.type == "int":
                object.__setattr__(self, item.name, whole_number(value, name, low, int(high)))
            else:
                real_number(value, name, low, high)


Groups = tuple[tuple[int, ...], ...]

# Nodes from which on other defaults hold: flexibilities between which a way is flexible, and zones
# of flexible and of other ways.
_DEFAULTS = (
    (0, (1.5, 3.5), (3, 3)),
    (1024, (1.5, 3.5), (2, 0)),
    (2048, (1.5, 3.5), (3, 0)),
    (8192, (1.5, 2.5), (3, 0)),
    (16384, (1.3, 3.0), (3, 0)),
    (65536, (0.75, 3.0), (3, 0)),
)
FLEXIBLE, OTHER, LINE = range(3)


def routing_order(shape: Sequence[int], wrap: Sequence[bool]) -> tuple[int, ...]:
    """Return the order in which a block corrects its dimensions: those with long ways first."""
    length, mesh = _way_lengths(shape, wrap), _open_dimensions(shape, wrap)
    order = list(range(5))
    # Which of equal dimensions comes first is settled by how the firmware sorts: by exchanges, and
    # it asks for a mesh at the place, not of the dimension that stands there by then. Routes that
    # were recorded on six blocks have just these orders.
    for i in range(5):
        for j in range(i + 1, 5):
            here, there = length[order[i]], length[order[j]]
            if there > here or (there == here and mesh[j]):
                order[i], order[j] = order[j], order[i]
    return tuple(order)


def zone_sets(
    shape: Sequence[int], wrap: Sequence[bool], order: Sequence[int]
) -> tuple[Groups, ...]:
    """Return the zones of flexible ways, of others, and of lines, which have none."""
    length = _way_lengths(shape, wrap)
    longest_first = sorted(order, key=lambda d: -length[d])
    by_length = tuple(tuple(alike) for _, alike in groupby(longest_first, lambda d: length[d]))
    one_by_one = tuple((d,) for d in order)
    # E stands in every group, and thus in the first: it is done then.
    first = tuple(sorted({order[0], 4}))
    with_e = (first, *((d,) for d in order[1:] if d != 4))
    zones = {0: by_length, 2: one_by_one, 3: with_e}
    _, (flexible, other) = _zone_defaults(shape)
    return zones[flexible], zones[other], ()


def zone_numbers(
    shape: Sequence[int],
    coords: NDArray[np.int32],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
) -> NDArray[np.int8]:
    """Return which of `zone_sets` messages between nodes take; (N, 5) (n,) (n,) -> (n,).

    Hops are counted around the ring in meshes too: the library knows the sizes alone.
    """
    flexibility = np.zeros(src.size)
    differ = np.zeros(src.size, dtype=np.int8)
    for d, size in enumerate(shape):
        gap = np.abs(coords[dst, d] - coords[src, d])
        differ += gap > 0
        if d < 4:
            flexibility += np.minimum(gap, size - gap) / max(size // 2, 1)
    (low, high), _ = _zone_defaults(shape)
    number = np.where((low < flexibility) & (flexibility < high), FLEXIBLE, OTHER)
    return np.where(differ > 1, number, LINE).astype(np.int8)


def _zone_defaults(shape: Sequence[int]) -> tuple[tuple[float, float], tuple[int, int]]:
    """Range of flexible ways, and the zones of these and of the others."""
    nodes = int(np.prod(shape))
    return [(limits, zones) for least, limits, zones in _DEFAULTS if nodes >= least][-1]


def _open_dimensions(shape: Sequence[int], wrap: Sequence[bool]) -> list[bool]:
    """Dimensions that are no rings: two nodes along A to D are half a midplane."""
    return [not w or (k == 2 and d < 4) for d, (k, w) in enumerate(zip(shape, wrap, strict=True))]


def _way_lengths(shape: Sequence[int], wrap: Sequence[bool]) -> list[int]:
    """Nodes along each dimension, half as many on rings."""
    mesh = _open_dimensions(shape, wrap)
    return [k if m else k // 2 for k, m in zip(shape, mesh, strict=True)]
