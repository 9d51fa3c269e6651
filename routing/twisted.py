"""Routes, loads and injection FIFOs on a twisted torus, found hop by hop.

The other modules of this room call these functions for a twisted torus; `mapping.twist` defines the
routes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.mapping.bluegene_routes import Groups

Nodes = NDArray[np.int32]
Links = tuple[NDArray[np.int64], NDArray[np.int64]]


def steps(torus: Torus, src: Nodes, hops: NDArray[np.int32]) -> Iterator[Links]:
    """Yield the steps of routes in dimension order: which routes go on, and over which links."""
    here = src.astype(np.int64)
    ports = 2 * torus.ndim
    for k in torus.order:
        port = 2 * k + (hops[:, k] < 0)
        left = np.abs(hops[:, k])
        for done in range(int(left.max(initial=0))):
            going = np.flatnonzero(left > done)
            yield going, here[going] * ports + port[going]
            here[going] = torus.neighbors[here[going], port[going]]


def list_links(torus: Torus, src: Nodes, dst: Nodes) -> Links:
    """Return where each route's links begin, and the links in the order of travel."""
    hops = torus.twisted_hops(src, dst)
    first = np.zeros(src.size + 1, dtype=np.int64)
    np.cumsum(np.abs(hops).sum(axis=1), out=first[1:])
    links = np.empty(first[-1], dtype=np.int64)
    place = first[:-1].copy()
    for going, link in steps(torus, src, hops):
        links[place[going]] = link
        place[going] += 1
    return first, links


def link_loads(
    torus: Torus, src: Nodes, dst: Nodes, weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the sum of the weights of the routes over every link, ``(n_links,)``."""
    load = np.zeros(torus.n_links)
    for going, link in steps(torus, src, torus.twisted_hops(src, dst)):
        load += np.bincount(link, weight[going], minlength=torus.n_links)
    return load


def loads_along(
    torus: Torus, src: Nodes, dst: Nodes, load: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the sum and the maximum of the loads along each route."""
    total, most = np.zeros((2, src.size))
    for going, link in steps(torus, src, torus.twisted_hops(src, dst)):
        total[going] += load[link]
        most[going] = np.maximum(most[going], load[link])
    return total, most


def adaptive_loads(
    torus: Torus, zones: Groups, src: Nodes, dst: Nodes, weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the loads if every message is spread evenly over the orders of its hops."""
    load = np.zeros(torus.n_links)
    hops, which = np.unique(torus.twisted_hops(src, dst), axis=0, return_inverse=True)
    # NumPy 2.0 gives a column.
    which = which.ravel()
    by_way = np.argsort(which, kind="stable")
    begin = np.searchsorted(which[by_way], np.arange(len(hops) + 1))
    for number, way in enumerate(hops):
        own = by_way[begin[number] : begin[number + 1]]
        here = src[own].astype(np.int64)
        for zone in zones:
            here = _spread(torus, way, zone, here, weight[own], load)
    return load


def _spread(
    torus: Torus,
    way: NDArray[np.int32],
    zone: Sequence[int],
    start: NDArray[np.int64],
    weight: NDArray[np.float64],
    load: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Spread messages over the orders of their hops in a zone; return where they end."""
    port = [2 * k + int(way[k] < 0) for k in zone]
    size = [abs(int(way[k])) for k in zone]
    share: dict[tuple[int, ...], float] = defaultdict(float)
    share[(0,) * len(zone)] = 1.0
    nodes = {(0,) * len(zone): start}
    # In C order every cell comes after the cells that lead to it.
    for cell in product(*(range(k + 1) for k in size)):
        left = sum(size) - sum(cell)
        for i in range(len(zone)):
            if cell[i] == size[i]:
                continue
            # The share of orders that goes on this way equals the share of hops left this way.
            part = share[cell] * (size[i] - cell[i]) / left
            link = nodes[cell] * 2 * torus.ndim + port[i]
            np.add.at(load, link, weight * part)
            beyond = (*cell[:i], cell[i] + 1, *cell[i + 1 :])
            share[beyond] += part
            nodes[beyond] = torus.neighbors[nodes[cell], port[i]].astype(np.int64)
    return nodes[tuple(size)]


def pick_fifos(torus: Torus, by_first: bool, src: Nodes, dst: Nodes) -> NDArray[np.int32]:
    """Return the FIFO of each message by its first dimension, or by Blue Gene/Q's rule; -1 within.

    On a twisted torus that rule sums hops instead of coordinate differences.
    """
    hops = torus.twisted_hops(src, dst)[:, torus.order]
    differ = hops != 0
    first = differ.argmax(axis=1)
    dimension = np.array(torus.order)[first]
    plus = hops[np.arange(src.size), first] > 0
    along = 2 * dimension + plus
    mixed = ~differ.any(axis=1) if by_first else differ.sum(axis=1) != 1
    fifo = np.where(mixed, np.abs(hops).sum(axis=1), along) % torus.network.fifos
    return np.where(differ.any(axis=1), fifo, -1).astype(np.int32)
