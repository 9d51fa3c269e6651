"""How busy links are along each dimension, as a line of characters for a terminal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toruscast.features import RoutedTraffic
from toruscast.mapping import Torus

STEPS = " ▁▂▃▄▅▆▇█"
"""What a share of the busiest link looks like, from idle to full."""


def heat_lines(traffic: RoutedTraffic, width: int) -> list[tuple[str, str, str]]:
    """Return a name and two lines for each dimension: of its plus and of its minus links.

    A character stands for the busiest of the links that leave the nodes with one coordinate, over
    the busiest link of all; where a dimension has more coordinates than ``width``, for several.

    Examples
    --------
    >>> from toruscast.mapping import CommGraph, TaskMapping, Workload
    >>> comm = CommGraph(3, [0, 0], [1, 2], [200_000, 100_000])
    >>> routed = RoutedTraffic(Workload([comm]), Torus((4,)), TaskMapping([0, 1, 2], 4))
    >>> heat_lines(routed, 40)
    [('X', '█▃  ', '    ')]
    """
    torus = traffic.torus
    busy = traffic.all_wire_bytes / torus.link_bandwidth
    return [
        (
            torus.axes[k],
            _line(torus, busy, k, 0, width),
            _line(torus, busy, k, 1, width),
        )
        for k in range(torus.ndim)
    ]


def _line(torus: Torus, busy: NDArray[np.float64], dimension: int, way: int, width: int) -> str:
    most = float(busy.max())
    links = busy.reshape(torus.n_nodes, 2 * torus.ndim)[:, 2 * dimension + way]
    at = np.zeros(torus.shape[dimension])
    np.maximum.at(at, torus.coords[:, dimension], links)
    if at.size > width:
        at = np.array([part.max() for part in np.array_split(at, width)])
    # A link that works at all is no idle one.
    share = at / most if most else at
    levels = np.ceil(share * (len(STEPS) - 1)).astype(int)
    return "".join(STEPS[level] for level in levels)
