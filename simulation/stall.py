"""The error that names the ring of full buffers of a stalled simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from toruscast._slow import networkx as nx
from toruscast.mapping import Torus

from . import _state as records
from .kernels.network import lane_of

# Most links of a ring that the message names.
_NAMED = 8
_CHANNEL_NAMES = ("", " (second channel)", " (adaptive channel)")


class StallError(RuntimeError):
    """Packets wait for each other's places, and none can move."""


def check_finished(state: records.State, torus: Torus) -> None:
    """Raise `StallError` if packets are left but nothing can move."""
    left = int(state.packets.receipt["left"].sum())
    if left == 0:
        return
    waits: Any = nx.DiGraph()
    for out in np.flatnonzero(state.links.link["lanes"]):
        link = state.links.link[out]
        second = 0 if state.rules.special is None else int(state.links.rest[out]["second_channel"])
        for lane in range(records.KINDS * state.rules.inputs):
            if not (int(link["lanes"]) >> lane) & 1:
                continue
            kind = lane // state.rules.inputs
            channel = second if kind == records.SECOND else 0
            p = int(state.links.lane[lane_of(state, int(out), lane)]["head"])
            while p != records.NONE:
                held = int(state.packets.packet[p]["place"])
                if held >= 0:
                    waits.add_edge(
                        (
                            (held >> records.CHANNEL_BITS) // state.rules.virtual,
                            held & ((1 << records.CHANNEL_BITS) - 1),
                        ),
                        (int(out), channel),
                    )
                p = int(state.packets.packet[p]["next"])
    try:
        cycle = [edge[0] for edge in nx.find_cycle(waits)]
    except nx.NetworkXNoCycle:
        raise StallError(f"the network stalled with {left} packets still to arrive") from None
    names = [torus.link_label(link) + _CHANNEL_NAMES[ch] for link, ch in cycle[:_NAMED]]
    if len(cycle) > _NAMED:
        last, channel = cycle[-1]
        names[-1] = f"... {len(cycle) - _NAMED} more ..."
        names.append(torus.link_label(last) + _CHANNEL_NAMES[channel])
    named = " -> ".join(names)
    raise StallError(
        f"the network stalled with {left} packets still to arrive: the buffers behind these links "
        f'are full and wait for each other: {named}; deadlock="bubble" or "dateline" prevents that'
    )
