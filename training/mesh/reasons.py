"""Why a collective takes its time, in words."""

from __future__ import annotations

from toruscast.mapping import Torus
from toruscast.wording import counted

from .scored import Score


def reason(score: Score, torus: Torus) -> str:
    """Return what slows a collective down, or that nothing does.

    Examples
    --------
    >>> import numpy as np
    >>> from toruscast.mapping.mesh import MeshTraffic
    >>> from .score import score
    >>> lines = np.array([[0, 1, 2, 3]])
    >>> traffic = MeshTraffic("exchange", 4e6, ("x",))
    >>> torus = Torus((4,), wrap=False)
    >>> reason(score(traffic, lines, torus), torus)
    'hops up to 3, 1.5 on average; 2 messages of a step share the link (0) +X'
    """
    if score.algorithm == "none" or not score.farthest:
        return "nothing is sent"
    words = []
    if score.farthest > 1:
        words.append(f"hops up to {score.farthest}, {score.hops:.2g} on average")
    if score.sharing > 1:
        messages = counted(round(score.sharing), "message")
        words.append(f"{messages} of a step share the link {_name(score.busiest, torus)}")
    if not words:
        return "neighbours are one hop apart, no link is shared"
    return "; ".join(words)


def _name(link: int, torus: Torus) -> str:
    """A link by its node and the letter of its dimension."""
    node, port = divmod(link, 2 * torus.ndim)
    place = ",".join(map(str, torus.coords[node].tolist()))
    return f"({place}) {'+-'[port % 2]}{torus.axes[port // 2]}"
