"""Kernels that return the kind of the network, the places of FIFOs, and the ports of a route.

Three kinds have a kernel of their own: the usual network, adaptive packets on it, and all others
(`Rules.special`). There the first of these functions are constants to the compiler, which leaves
out the code of other kinds.
"""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel, trailing_zeros

from .._state import FIRST_COME, KINDS, LANES_A_LINK, OWN_LANES, State


@bare_kernel
def is_usual(state: State) -> bool:
    """Return whether the network is of the usual kind."""
    return state.rules.special is None and state.rules.adaptive is None


@bare_kernel
def is_adaptive(state: State) -> bool:
    """Return whether packets may choose among links."""
    return (
        state.rules.adaptive is not None
        if state.rules.special is None
        else state.rules.adaptive != 0
    )


@bare_kernel
def arbitration(state: State) -> int:
    """Return the rule for the next packet of a link: FIRST_COME or ROUND_ROBIN."""
    return FIRST_COME if state.rules.special is None else state.rules.arbitration


@bare_kernel
def counts_arrivals(state: State) -> bool:
    """Return whether buffers count packets that come; else they count those that go.

    The sums are the same at the end of a run. A packet that goes is counted beside its wait, in the
    same cache line. Packets that come are counted only if counters are read during the run.
    """
    return state.rules.special is not None


@bare_kernel
def inputs(state: State) -> int:
    """Return the number of lanes of each kind at a link."""
    return 1 if state.rules.special is None else state.rules.inputs


@bare_kernel
def lane_of(state: State, out: int, lane: int) -> int:
    """Return the place of a link's lane; the usual network has one of FIRST and one of SECOND."""
    if is_usual(state):
        return out * LANES_A_LINK + OWN_LANES + lane
    return out * KINDS * inputs(state) + lane


@bare_kernel
def second_channel(state: State, out: int) -> int:
    """Return the channel of the second kind of lane."""
    return 0 if state.rules.special is None else int(state.links.rest[out].second_channel)


@bare_kernel
def first_fifo(state: State, f: int) -> int:
    """Return the FIFO whose queue a FIFO takes from."""
    if state.rules.shared_by == 1:
        return f
    return f - np.int64(np.uint32(f) % np.uint32(state.rules.shared_by))  # type: ignore[return-value]


@bare_kernel
def node_of(state: State, f: int) -> int:
    """Return the node of a FIFO."""
    return np.int64(np.uint32(f) // np.uint32(state.rules.fifos))  # type: ignore[return-value]


@bare_kernel
def port_of(state: State, route: int) -> int:
    """Return the next port of a route in dimension order."""
    port: int = state.fields.port[np.uint64(trailing_zeros(route))]
    return port


@bare_kernel
def zone_of(state: State, p: int) -> int:
    """Return the fields of the ports that an adaptive packet may choose; 0 for none."""
    packet = state.packets.packet[p]
    zone: int = np.uint64(0)  # type: ignore[assignment]
    row = np.uint64(0)
    if state.fields.zone.shape[0] > 1:
        row = np.uint64(state.packets.message[packet.message].zones)
    for z in range(state.fields.zone.shape[1]):
        zone = packet.route & state.fields.zone[row, np.uint64(z)]
        if zone != 0:
            break
    if state.rules.ties_minus:
        # Only a tie leaves both ways of a dimension.
        for port in range(0, state.fields.mask.size, 2):
            if zone & state.fields.mask[np.uint64(port + 1)]:
                zone &= ~state.fields.mask[np.uint64(port)]
    return zone
