"""Raw results of the packet simulator for phases without a barrier between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.routing.messages import Messages


class Snapshot(NamedTuple):
    """The links at one moment: bytes so far and packets in the buffer, ``(n_links,)`` both."""

    time: float
    wire_bytes: NDArray[np.float64]
    occupied: NDArray[np.int32]


class Stretch(NamedTuple):
    """One or more phases without a barrier between them; times in seconds from the start."""

    phases: tuple[int, ...]
    begin: float
    end: float
    messages: Messages
    handed_over: NDArray[np.float64]  # (n_messages,)
    arrived: NDArray[np.float64]
    packets: NDArray[np.int64]  # (n_links,)
    wire_bytes: NDArray[np.float64]
    most: NDArray[np.int64]
    waited: NDArray[np.float64]
    fifo_waited: NDArray[np.float64]  # (n_nodes * fifos,)
    fifo_most: NDArray[np.int32]
    fifo_stay: NDArray[np.float64]
    snapshots: tuple[Snapshot, ...]
    log: NDArray[np.float64]  # (entries, 4) time, kind, packet slot, place
    not_logged: int  # events after the log was full
    watched: int  # message that it follows, -1 if none
