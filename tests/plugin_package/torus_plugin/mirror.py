"""A strategy."""

import numpy as np

from toruscast.mapping.strategies import register


@register("mirror")
def mirror(placement, variant, rng):
    """Fill the nodes from the last to the first."""
    return placement.torus.n_nodes - 1 - np.arange(placement.n_tasks) // placement.capacity
