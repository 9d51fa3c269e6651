"""How long links work in a layout of a mesh."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .answer import MeshForecast, RankedLayout
from .candidates import Scored


def link_seconds(answer: MeshForecast, layout: RankedLayout) -> NDArray[np.float64]:
    """Return how long each link works in a step for each collective, ``(n_collectives, n_links)``.

    Seconds in closed form, repeated runs of a collective together.

    Examples
    --------
    >>> from toruscast.mapping import machine
    >>> from toruscast.training.mesh import mesh
    >>> answer = mesh(machine("tpu_v5e:2x2"), {"x": 4}, "x:exchange:4MB")
    >>> link_seconds(answer, answer.best).shape
    (1, 16)
    """
    scored = Scored(answer.torus, answer.axes, answer.traffic, overlap=True)
    found = scored.of_mesh(layout.nodes)
    return np.stack(
        [score.link_seconds * each.times for score, each in zip(found, answer.traffic, strict=True)]
    )
