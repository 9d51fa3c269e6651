"""The bucket algorithm: rings along all dimensions that a group spans, at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.mapping.mesh import MeshTraffic
from toruscast.routing.pairs import pair_loads

from .grids import turns
from .rings import PARTS
from .scored import Score, made, on_the_wire


class Box:
    """What steps along each dimension of the groups' boxes put on the links.

    Parameters
    ----------
    grid : ndarray of int, shape (n_groups, sizes...)
        Nodes of each group, as of `product_grid`.
    torus : Torus
    """

    def __init__(self, grid: NDArray[np.int64], torus: Torus) -> None:
        self.torus = torus
        self.sizes = grid.shape[1:]
        self.loads, self.hops = [], []
        for d in range(1, grid.ndim):
            here, there = grid.ravel(), np.roll(grid, -1, axis=d).ravel()
            self.loads.append((pair_loads(torus, here, there), pair_loads(torus, there, here)))
            self.hops.append(torus.distance(here, there))


def bucket_score(box: Box, traffic: MeshTraffic) -> Score:
    """Return what the rounds of all lanes take, a lane for each dimension and way."""
    torus, network = box.torus, box.torus.network
    time, sharing = 0.0, 0.0
    seconds = np.zeros(torus.n_links)
    means = [float(hops.mean()) for hops in box.hops]
    for rounds, sent in turns(box.sizes, traffic.nbytes):
        busy, messages = np.zeros(torus.n_links), np.zeros(torus.n_links)
        for d, way, block in sent:
            busy += box.loads[d][way] * on_the_wire(block, torus)
            messages += box.loads[d][way]
        busy /= torus.link_bandwidth
        latency = max(means[d] for d, _, _ in sent) * network.hop_latency
        time += rounds * (float(busy.max()) + len(sent) * network.overhead + latency)
        seconds += rounds * busy
        sharing = max(sharing, float(messages.max()))
    parts = PARTS[traffic.collective]
    return made(parts * time, "bucket", parts * seconds, np.concatenate(box.hops), sharing)
