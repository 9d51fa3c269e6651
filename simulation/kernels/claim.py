"""Kernels of claims: which first packets of lanes may take a link, under adaptive routing.

A node has a row with the ways of the first packet of each of its lanes, so that a change of a lane
is two writes, and one comparison of a vector finds the lanes that may take a link. (A bit of each
lane at each link takes three writes a packet, three more to take them back, and a look at every
packet that claims.)
"""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel
from toruscast._llvm import equal_of_64, sharing_of_16, sharing_of_64

from .._state import FIRST, FREE, KINDS, LANES_A_WORD, SECOND, State
from .network import inputs

_NOBODY = 255


@bare_kernel
def words(state: State) -> int:
    """Return the number of words of lanes in a node's row, as laid out by `build_state`."""
    if state.rules.special is None:
        return 1
    lanes = state.fields.shift.size * KINDS * inputs(state)
    return (lanes + LANES_A_WORD - 1) // LANES_A_WORD


@bare_kernel
def seat(state: State, holder: int, lane: int) -> int:
    """Return the place of a link's lane in its node's row."""
    link = state.links.rest[holder]
    port = np.int64(state.links.link[holder].port)
    row = np.int64(link.node) * words(state) * LANES_A_WORD
    return row + port * KINDS * inputs(state) + lane  # type: ignore[return-value]


@bare_kernel
def ranks(state: State, fields: int) -> int:
    """Return the bits of ports, by rank, of which a route has a field."""
    found: int = sharing_of_16(state.fields.ranked, 0, fields)
    return found


@bare_kernel
def claim(state: State, place: int, free: int, ordered: int, kind: int) -> None:
    """Write down the ways of the packet at a lane's head: ranks of ports, and one in order."""
    state.links.ways[np.uint64(place)] = free
    state.links.ordered[np.uint64(place)] = 2 * ordered + kind


@bare_kernel
def withdraw(state: State, place: int) -> None:
    """Forget the ways of the packet at a lane's head."""
    state.links.ways[np.uint64(place)] = 0
    state.links.ordered[np.uint64(place)] = _NOBODY


@bare_kernel
def claims(state: State, out: int, word: int, free: int) -> np.uint64:
    """Return bits of a word of lanes whose first packet can enter a link that has such room."""
    rest = state.links.rest[out]
    rank = np.int64(rest.rank)
    row = (np.int64(rest.node) * words(state) + word) * LANES_A_WORD
    adaptive = sharing_of_64(state.links.ways, row, (free >> FREE & 1) << rank)
    first = equal_of_64(state.links.ordered, row, 2 * rank + FIRST)
    second = equal_of_64(state.links.ordered, row, 2 * rank + SECOND)
    found: np.uint64 = adaptive
    found |= first & np.uint64(-(free >> FIRST & 1))
    found |= second & np.uint64(-(free >> SECOND & 1))
    return found


@bare_kernel
def enters_as(state: State, place: int, out: int, free: int) -> int:
    """Return how the packet at a lane's head, which can, enters a link."""
    rank = np.uint64(state.links.rest[out].rank)
    ways = np.int64(state.links.ways[np.uint64(place)])
    if free & (1 << FREE) and (ways >> np.int64(rank)) & 1:
        return FREE
    return np.int64(state.links.ordered[np.uint64(place)]) & 1  # type: ignore[return-value]
