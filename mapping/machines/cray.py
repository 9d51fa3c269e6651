"""Cray XT (SeaStar) and XE, XK (Gemini)."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast.validation import machine_shape

from ..dimensions import wraps
from ..network import Network
from ..torus import Torus


def seastar(shape: Sequence[int] = (8, 8, 8), *, wrap: bool | Sequence[bool] = True) -> Torus:
    """Return a Cray XT3, XT4 or XT5 torus (SeaStar): three dimensions, 3.8 GB/s a link each way.

    Parameters
    ----------
    shape : sequence of int
        Nodes along X, Y and Z.
    wrap : bool or sequence of bool
        False for a dimension that is a mesh: sites cabled some of them so.

    Notes
    -----
    Published: 7.6 GB/s a link, both ways together; HyperTransport of 6.4 GB/s, both ways together,
    between a processor and its router (Brightwell et al., "SeaStar interconnect: balanced bandwidth
    for scalable performance", IEEE Micro 26(3), 2006), here the rate at which a node takes packets
    in; torus or mesh, a router's packets carry up to 64 bytes (Abts, "The Cray XT4 and SeaStar 3-D
    torus interconnect", Encyclopedia of Parallel Computing, 2011). Not public, assumed: 8 bytes of
    header, 60 ns a hop, buffer depths, X, Y, Z routing order, one injection FIFO. XT3's first
    SeaStar had slower links, of which sources give different rates.

    Examples
    --------
    >>> seastar((4, 4, 8)).bandwidth[0]
    3800000000.0
    """
    sizes = machine_shape(shape, (3,), "SeaStar")
    network = Network(
        payload=64,
        header=8,
        hop_latency=60e-9,
        fifos=1,
        fifo_rule="round_robin",
        memory_bandwidth=3.2e9,
    )
    rings = wraps(wrap, 3)
    return Torus(sizes, wrap=rings, bandwidth=(3.8e9,), network=network, name="seastar")


def gemini(shape: Sequence[int] = (8, 8, 8), *, wrap: bool | Sequence[bool] = True) -> Torus:
    """Return a Cray XE6 or XK7 torus (Gemini): three dimensions, 2.85 to 9.1 GB/s a link each way.

    A node of the model is a router with its two hosts. ``tasks_per_node`` therefore counts the
    tasks of both hosts, and traffic between them is taken to stay inside the router.

    Parameters
    ----------
    shape : sequence of int
        Routers along X, Y and Z.
    wrap : bool or sequence of bool
        False for a dimension that is a mesh, as in most jobs' part of a large machine.

    Notes
    -----
    Published: a 3-D torus of routers, two hosts each, with links that differ by dimension
    (Alverson, Roweth and Kaplan, "The Gemini system interconnect", HOTI 2010). The bandwidths X
    5.7, Y 2.85 and Z 9.1 GB/s are what one contention pattern over four Geminis in a line attained
    on Blue Waters (Bienz, BlueWatersModel data, 2018), not the wire's rate. Within a blade links
    are faster than between blades; the model takes all links of a dimension as equal. Not public,
    assumed: X, Y, Z routing order, 64-byte packets with 16 bytes of header, 105 ns a hop, buffer
    depths, one injection FIFO.

    Examples
    --------
    >>> gemini((4, 1, 1)).bandwidth
    (5700000000.0, 2850000000.0, 9100000000.0)
    """
    sizes = machine_shape(shape, (3,), "Gemini")
    network = Network(payload=64, header=16, hop_latency=105e-9, fifos=1, fifo_rule="round_robin")
    return Torus(
        sizes,
        wrap=wraps(wrap, 3),
        bandwidth=(5.7e9, 2.85e9, 9.1e9),
        network=network,
        name="gemini",
    )
