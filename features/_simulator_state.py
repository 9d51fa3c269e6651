"""What the packet simulator's event loop works on.

Letters in the comments: N nodes, L = N * 2 * D links, O = L + N outputs (every link, then the
reception port of every node), P packet slots, F = N * fifos injection FIFOs, E messages, W ticks of
the wheel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._route_kernels import Grid

# Queues of an output. A packet in GRANTED needs no credit, one in STRAIGHT goes on along its ring,
# one in TURNING enters the ring; FIFOs waits for injection FIFOs.
GRANTED, STRAIGHT, TURNING, FIFOS = 0, 1, 2, 3
DETERMINISTIC, ADAPTIVE = 0, 1
NONE = -1

OUTPUT = np.dtype(
    [
        ("head", np.int32, 4),
        ("tail", np.int32, 4),
        ("credits", np.int32, 2),  # free places behind the link: deterministic and adaptive channel
        ("entry", np.int32),  # free places needed to enter the ring (the bubble rule)
        ("far", np.int32),  # node at the far end
        ("release", np.int32),  # buffer or FIFO that the packet on the wire leaves
        ("busy", np.int32),
        ("ticks_per_byte", np.float64),
        ("packets", np.int64),
        ("queued", np.int64),  # packets found in the buffer by each arrival, summed up
        ("occupied", np.int32),
        ("most", np.int32),
        ("wire_bytes", np.float64),
    ],
    align=True,
)
PACKET = np.dtype(
    [
        ("since", np.int64),  # tick of joining its queue
        ("tail", np.int64),  # tick when all of it is in its buffer
        ("dst", np.int32),
        ("message", np.int32),
        ("buffer", np.int32),  # 2 * link + channel that holds it
        ("next", np.int32),
        ("wire", np.float32),
        ("odd", np.int32),  # parity of its number, by which a split tie goes
    ],
    align=True,
)
FIFO = np.dtype(
    [
        ("since", np.int64),
        ("place", np.int32),  # the message at its head, and where its list ends
        ("end", np.int32),
        ("left", np.int32),  # packets of that message still to send
        ("next", np.int32),
    ],
    align=True,
)
MESSAGE = np.dtype(
    [
        ("ready", np.int64),
        ("finish", np.int64),
        ("dst", np.int32),
        ("packets", np.int32),
        ("left", np.int32),
        ("wire", np.float32),  # bytes of each packet, header included
    ],
    align=True,
)


class State(NamedTuple):
    """Everything the event loop works on."""

    grid: Grid
    output: NDArray[Any]  # (O,) OUTPUT
    packet: NDArray[Any]  # (P,) PACKET
    fifo: NDArray[Any]  # (F,) FIFO
    message: NDArray[Any]  # (E,) MESSAGE, those of a FIFO in a row
    free: NDArray[np.int32]  # (P + 1,) stack of free slots, its height in the last place
    following: NDArray[np.int32]  # (P + O + F,) next event of the same tick
    first: NDArray[np.int32]  # (W,) first and last event of each tick
    last: NDArray[np.int32]
    pending: NDArray[np.int64]  # (1,) events in the wheel
    fifos: int
    latency: int
    adaptive: int
