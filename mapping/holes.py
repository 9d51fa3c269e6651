"""What of a torus is not ours, not there, or slower than the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.validation import real_number, whole_number

if TYPE_CHECKING:
    from .torus import Torus


@dataclass(frozen=True)
class Holes:
    """Nodes of others, missing links and slow ones; made by `Torus.without` and `with_links`.

    Attributes
    ----------
    nodes : tuple of int
        Nodes that take no task of ours. Their routers forward messages as ever.
    links : tuple of int
        Directed links that are not there. What would go over one is an error: these machines' fixed
        routes do not lead round it.
    slow : tuple of (int, float)
        Bytes per second of each link that is slower than its dimension's.
    """

    nodes: tuple[int, ...] = ()
    links: tuple[int, ...] = ()
    slow: tuple[tuple[int, float], ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any hole."""
        return bool(self.nodes or self.links or self.slow)

    def __str__(self) -> str:
        """Say how many there are."""
        parts = ((self.nodes, "nodes of others"), (self.links, "missing"), (self.slow, "slow"))
        return ", ".join(f"{len(found)} {what}" for found, what in parts if found)


def without(torus: Torus, nodes: ArrayLike, links: ArrayLike) -> Holes:
    """Return the holes of a torus and more."""
    gone = np.unique(torus.check_nodes(nodes)).tolist()
    lost = {_existing(torus, link) for link in np.atleast_1d(np.asarray(links)).tolist()}
    old = torus.holes
    kept = tuple(pair for pair in old.slow if pair[0] not in lost)
    every = tuple(sorted({*old.nodes, *gone}))
    if len(every) == torus.n_nodes:
        raise InputError("no node left", found=f"{len(every)} nodes of others", expected="one less")
    return Holes(every, tuple(sorted({*old.links, *lost})), kept)


def slowed(torus: Torus, bandwidths: Mapping[int, float]) -> Holes:
    """Return the holes of a torus and links of these bandwidths."""
    slow = dict(torus.holes.slow)
    for link, bandwidth in bandwidths.items():
        number = _existing(torus, link)
        most = torus.bandwidth[number % (2 * torus.ndim) // 2]
        real_number(bandwidth, f"bandwidth of link {number}", 1, np.inf)
        if bandwidth > most:
            raise InputError(
                f"link {number} faster than its dimension",
                found=f"{bandwidth:g} bytes/s",
                expected=f"at most {most:g}",
            )
        slow[number] = float(bandwidth)
    return Holes(torus.holes.nodes, torus.holes.links, tuple(sorted(slow.items())))


def usable_nodes(torus: Torus) -> NDArray[np.int64]:
    """Return the nodes that are ours, in order."""
    return np.setdiff1d(np.arange(torus.n_nodes), np.array(torus.holes.nodes, dtype=np.int64))


def link_speeds(torus: Torus) -> NDArray[np.float64]:
    """Return the bytes per second of every directed link, ``(n_links,)``."""
    speed = np.tile(np.repeat(np.array(torus.bandwidth), 2), torus.n_nodes)
    for link, bandwidth in torus.holes.slow:
        speed[link] = bandwidth
    return speed


def read_link(torus: Torus, text: str) -> int:
    """Return the link of a number or of a label such as ``(0,2,1) +1``.

    Raises
    ------
    InputError
        If it is neither.

    Examples
    --------
    >>> from toruscast.mapping import Torus
    >>> read_link(Torus((4, 4, 2)), "(0,2,1) -1"), read_link(Torus((4, 4, 2)), "33")
    (33, 33)
    """
    word = text.strip()
    label = re.fullmatch(r"\(([0-9, ]+)\) ?([+-])([0-9])", word)
    if re.fullmatch("[0-9]{1,9}", word):
        return whole_number(int(word), "link", 0, torus.n_links - 1)
    if label is None:
        raise InputError("bad link", found=text, expected="a number, or a label as (0,2,1) +1")
    node = int(torus.node([int(part) for part in label[1].split(",")]))
    return torus.link(node, int(label[3]), 1 if label[2] == "+" else -1)


def _existing(torus: Torus, link: object) -> int:
    number = whole_number(link, "link", 0, torus.n_links - 1)
    if not torus.link_exists[number] and number not in torus.holes.links:
        raise InputError("no such link", found=torus.link_label(number), expected="no mesh's edge")
    return number
