"""Check for messages that would cross a missing link."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus

# Number of edges that are searched for one that goes that way.
_LOOKED_AT = 100_000


def check_missing(
    load: NDArray[np.float64], comm: CommGraph, torus: Torus, mapping: TaskMapping
) -> None:
    """Raise `InputError` if a missing link bears a load; name the message.

    Routes are those of the whole torus: dimension order does not avoid a missing link, and makers
    do not say how an adaptive router does.
    """
    from .routing import routes

    missing = np.array(torus.holes.links, dtype=np.int64)
    used = missing[load[missing] > 0]
    if not used.size:
        return
    link = int(used[0])
    src, dst = comm.src[:_LOOKED_AT], comm.dst[:_LOOKED_AT]
    first, links = routes(torus, mapping.node[src], mapping.node[dst])
    places = np.flatnonzero(links == link)
    sent = comm.nbytes[:_LOOKED_AT] > 0
    edges = np.searchsorted(first, places, side="right") - 1
    edges = edges[sent[edges]]
    who = "a message"
    if edges.size:
        who = f"task {src[edges[0]]} to task {dst[edges[0]]}"
    label = f"mapping {mapping.name}".rstrip()
    raise InputError(
        f"{label} needs a link that is missing",
        found=f"{who} goes over {torus.link_label(link)}",
        expected="a mapping whose routes keep off it; routers do not lead round it",
    )
