"""How far hot links hang together: a metric after one that was published later.

Jha et al., "Measuring congestion in high-performance datacenter interconnects", NSDI'20, find on
Blue Waters' torus that links stall in regions that hang together. Here the bytes of a link stand
for the time that it stalls, and one level of heat, half of the busiest link's bytes, for several.
"""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from toruscast._features import RoutedTraffic, register_feature


@register_feature("hot_region", description="links of the largest region that is half as hot")
def hot_region(traffic: RoutedTraffic) -> float:
    """Return how many links the largest region has whose links carry half of the most bytes."""
    torus, load = traffic.torus, traffic.all_link_bytes
    hot = np.flatnonzero(load > load.max() / 2)
    if not hot.size:
        return 0.0
    start, end = hot // (2 * torus.ndim), torus.neighbors.ravel()[hot]
    touching = coo_array((np.ones(hot.size), (start, end)), shape=(torus.n_nodes, torus.n_nodes))
    _, region = connected_components(touching, directed=False)
    return float(np.bincount(region[start]).max())
