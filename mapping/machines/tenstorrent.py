"""Tenstorrent Galaxy."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast.validation import machine_shape

from ..dimensions import wraps
from ..torus import Torus
from ._accelerator import accelerator_network

# Chips of one Galaxy along each dimension, and bytes per second of an Ethernet channel each way.
_GALAXY = (8, 4)
CHANNEL = 12.5e9


def galaxy(shape: Sequence[int] = (8, 4), *, wrap: bool | Sequence[bool] = True) -> Torus:
    """Return a Tenstorrent Galaxy (Wormhole), or several: 2-D, 50 or 25 GB/s a link each way.

    A dimension within one Galaxy has four Ethernet channels a link, one that goes on in the next
    Galaxy two: its slowest links set the pace, and all of it is taken to be as slow.

    Parameters
    ----------
    shape : sequence of int
        Chips along both dimensions; one Galaxy is 8x4.
    wrap : bool or sequence of bool
        Which dimensions are rings; the others are lines. Cabling decides that: mesh graph
        descriptors say RING or LINE for each. A Galaxy without more cables is ``8mx4m``.

    Notes
    -----
    Published: 8x4 chips a Galaxy with four channels between neighbours, 16x8 of four Galaxies as
    rings with two (mesh graph descriptors of tt-metal, single_galaxy_mesh and
    quad_galaxy_torus_xy); channels of 100 Gbit/s and 288 GB/s of memory a chip (Wormhole
    documentation). Not public, assumed: packet format and latency (the defaults), routing order, an
    injection queue a port.

    Examples
    --------
    >>> galaxy((16, 4), wrap=(True, False)).bandwidth
    (25000000000.0, 50000000000.0)
    """
    sizes = machine_shape(shape, (2,), "Galaxy")
    pairs = zip(sizes, _GALAXY, strict=True)
    bandwidth = tuple((4 if size <= own else 2) * CHANNEL for size, own in pairs)
    network = accelerator_network(2, 288e9)
    return Torus(sizes, wrap=wraps(wrap, 2), bandwidth=bandwidth, network=network, name="galaxy")
