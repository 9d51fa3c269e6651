"""What surrounds the links of a torus: packets, latency, buffers, injection and reception."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from .errors import InputError
from .validation import real_number, whole_number

FifoRule = Literal["bluegene_q", "first_dimension", "round_robin"]


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
        Full packets that the input buffer behind each link holds (at least 2 for the bubble rule).
    fifos : int
        Torus injection FIFOs of a node.
    fifo_rule : {"bluegene_q", "first_dimension", "round_robin"}
        How a message picks its injection FIFO.
    overhead : float
        Seconds of software that a task spends on each message it sends.
    memory_bandwidth : float
        Bytes per second at which a node takes packets in, and at which messages within a node go.

    Notes
    -----
    Packet sizes, the FIFOs and the 40 ns a hop are Blue Gene/Q's (Chen et al., "The IBM
    Blue Gene/Q interconnection network and message unit", SC'11). The overhead is the order of
    magnitude of an MPI send on its cores, the memory bandwidth that of STREAM on a node. How deep
    the buffers of a torus router are is rarely published: 32 packets are an assumption. With
    shallower ones, packets for a hot link stand in the way of others, and the time depends more on
    chance (figures in `docs/measurements.md`).
    """

    payload: int = 512
    header: int = 32
    hop_latency: float = 40e-9
    buffer_packets: int = 32
    fifos: int = 10
    fifo_rule: FifoRule = "bluegene_q"
    overhead: float = 500e-9
    memory_bandwidth: float = 28e9

    def __post_init__(self) -> None:
        least = {"payload": 1, "buffer_packets": 2, "fifos": 1, "memory_bandwidth": 1}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "fifo_rule":
                if value not in get_args(FifoRule):
                    raise InputError(
                        "bad FIFO rule", found=value, expected=" or ".join(get_args(FifoRule))
                    )
                continue
            low = least.get(item.name, 0)
            if item.type == "int":
                whole_number(value, item.name, low)
            else:
                real_number(value, item.name, low)
