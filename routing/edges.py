"""Data of a graph's edges that is the same under every mapping: units, packets, readiness."""

from __future__ import annotations

import math
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import CommGraph, Torus

from ._sort_kernels import keys_of, places_of, sort_keys
from .packets import hand_over_times, packet_counts

# Larger graphs get these arrays anew for each mapping, because they take 64 bytes an edge.
_MOST_KEPT = 2**24
# Bits of the lower of two units in one number.
HALF = 32
_KEPT: WeakKeyDictionary[CommGraph, tuple[object, Prepared]] = WeakKeyDictionary()


class Edges(NamedTuple):
    """The edges for the pass, sorted by source."""

    first: NDArray[np.int64]  # (T + 1,)
    dst: NDArray[np.int32]  # (E,) tasks
    n_messages: NDArray[np.float64]  # (E,)
    nbytes: NDArray[np.float64]  # (E,)
    # (E, 2) units of bytes, without and with headers; or both side by side in one number, (E, 1),
    # so that a run of links takes one update. The headers are in the upper half then.
    units: NDArray[np.int64]
    packets: NDArray[np.float64]  # (E,)
    ready: NDArray[np.float64]  # (E,) seconds of software before it is handed over

    @property
    def wire_units(self) -> NDArray[np.int64]:
        """Units of bytes with headers, shape ``(E,)``."""
        own = self.units[:, -1]
        return own >> HALF if self.units.shape[1] == 1 else own


class Queue(NamedTuple):
    """The edges with packets in the order in which they are ready, to be read one after the other.

    Taken from their arrays in that order, most would lie in a line of memory of their own.
    """

    edge: NDArray[np.int64]  # (Q,)
    src: NDArray[np.int32]  # (Q,) tasks
    dst: NDArray[np.int32]  # (Q,)
    wire: NDArray[np.float64]  # (Q,) bytes, headers included
    ready: NDArray[np.float64]  # (Q,) seconds


class Prepared(NamedTuple):
    """Edges, and the sizes of the units that their bytes are counted in."""

    edges: Edges
    wire_unit: float
    queue: Queue
    byte_unit: float  # of the bytes without headers


def prepare(comm: CommGraph, torus: Torus) -> Prepared:
    """Return the edges of a graph; they are kept with the graph, for the last torus.

    Examples
    --------
    >>> comm = CommGraph(2, [0], [1], [512])
    >>> prepare(comm, Torus((4,))).edges.wire_units
    array([544])
    """
    key = (torus.network, torus.ties_are_open)
    found = _KEPT.get(comm)
    if found is not None and found[0] == key:
        return found[1]
    packets, per_packet = packet_counts(comm, torus)
    wire_units, wire_unit = _in_steps(packets * per_packet, torus)
    byte_units, byte_unit = _in_steps(comm.nbytes, torus)
    units = np.column_stack((byte_units, wire_units))
    if max(float(byte_units.sum()), float(wire_units.sum())) < 2 ** (HALF - 1):
        units = (byte_units + (wire_units << HALF))[:, np.newaxis]
    _, ready = hand_over_times(comm, torus.network)
    edges = Edges(
        comm.first,
        comm.dst,
        np.asarray(comm.n_messages, dtype=np.float64),
        comm.nbytes,
        units,
        packets.astype(np.float64),
        ready,
    )
    made = Prepared(edges, wire_unit, queue_of(comm, edges, wire_unit, ready), byte_unit)
    if comm.n_edges <= _MOST_KEPT:
        _KEPT[comm] = (key, made)
    return made


def queue_of(comm: CommGraph, edges: Edges, wire_unit: float, ready: NDArray[np.float64]) -> Queue:
    """Return the edges with packets in the order of the seconds at which they are ready."""
    order = order_of(ready)
    order = order[edges.packets[order] > 0]
    wire = np.multiply(edges.wire_units[order], wire_unit, dtype=np.float64)
    return Queue(order, comm.src[order], comm.dst[order], wire, ready[order])


def order_of(number: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the places of numbers of 0 or more in order; equal ones keep their order.

    Numbers that differ by less than 2**-32 of the largest count as equal.

    Examples
    --------
    >>> order_of(np.array([3.0, 1.0, 2.0]))
    array([1, 2, 0])
    """
    key, other = np.empty((2, number.size), dtype=np.uint64)
    keys_of(number, key)
    return places_of(sort_keys(key, other))


def _in_steps(weight: NDArray[np.float64], torus: Torus) -> tuple[NDArray[np.int64], float]:
    """Return weights as `fixed_point` does, in the largest unit that they are all multiples of."""
    units, unit = fixed_point(weight, torus)
    step = int(np.gcd.reduce(units)) // (2 if torus.ties_are_open else 1)
    return (units // step, unit * step) if step > 1 else (units, unit)


def fixed_point(weight: NDArray[np.float64], torus: Torus) -> tuple[NDArray[np.int64], float]:
    """Return weights as integers whose sum stays below 2**62, and the size of their unit."""
    # A split tie halves weights, so they are doubled to stay whole.
    halves = 2 if torus.ties_are_open else 1
    total = float(weight.sum())
    if total < 2.0**61:
        whole = weight.astype(np.int64)
        if (whole == weight).all():
            whole *= halves
            return whole, 1.0 / halves
    # The unit must not be below the smallest number that can be divided by.
    scale = 2.0 ** max(math.ceil(math.log2(total)) - 61, -1022)
    return halves * np.rint(weight / scale).astype(np.int64), scale / halves
