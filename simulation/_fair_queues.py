"""Layout of the arrays that fair queueing keeps for links and messages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import Torus

from . import _state as records
from ._memory import blank


def fair_queues(
    torus: Torus,
    fields: records.Fields,
    message: NDArray[np.void],
    tick: float,
    n_slots: int,
) -> records.FairQueues:
    """Return clocks and tags at the start; empty ones without fair queueing."""
    if torus.network.arbitration != "fair":
        none = np.zeros(0, dtype=np.int64)
        return records.FairQueues(none, none, none, none, none.astype(np.int32), none, none)
    if torus.holes.slow:
        raise InputError(
            "fair arbitration knows one bandwidth a dimension",
            found=str(torus),
            expected="another arbitration where links are slow",
        )
    hops = np.zeros(message.size, dtype=np.int64)
    along = np.zeros(message.size)  # seconds a byte
    for port, (shift, mask) in enumerate(zip(fields.shift, fields.mask, strict=True)):
        on_port: NDArray[Any] = ((message["route"] & mask) >> shift).astype(np.int64)
        hops += on_port
        along += on_port / torus.bandwidth[port // 2]
    first = np.zeros(message.size + 1, dtype=np.int64)
    np.cumsum(hops, out=first[1:])
    parts = 2**records.PARTS / tick
    return records.FairQueues(
        clock=blank(torus.n_links, np.int64),
        ended=blank(2 * int(first[-1]), np.int64),
        first=first[:-1],
        cost=np.rint(message["wire"] * along * parts).astype(np.int64),
        last=blank(4 * int(first[-1]), np.int32),
        tag=blank(n_slots, np.int64),
        place=blank(n_slots, np.int64),
    )
