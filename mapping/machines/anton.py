"""D. E. Shaw Research's Anton 3."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast.errors import InputError
from toruscast.validation import machine_shape

from ..network import Network
from ..torus import Torus

_LARGEST = 8


def anton3(shape: Sequence[int] = (8, 8, 8)) -> Torus:
    """Return an Anton 3 machine: three dimensions, 58 GB/s a link each way.

    Raises
    ------
    InputError
        If a dimension has more than 8 nodes: the largest machine is 8x8x8.

    Notes
    -----
    Published: a 3-D torus of up to 512 nodes (Shaw et al., "Anton 3: twenty microseconds of
    molecular dynamics simulation before lunch", SC'21); 16 lanes of 29 Gbit/s each way to each of
    six neighbours, flits of 24 bytes, about 34 ns a hop (Shim et al., "The specialized
    high-performance network on Anton 3", HPCA 2022). Compression of what is sent, which that paper
    describes, is not modelled: hand it over as fewer bytes. Not public, assumed: packets of 16
    bytes payload and 8 of header, buffer depths, X, Y, Z routing order, an injection queue a port;
    a node takes packets in as fast as its six links bring them.

    Examples
    --------
    >>> anton3((4, 4, 8)).bandwidth[0]
    58000000000.0
    """
    sizes = machine_shape(shape, (3,), "Anton 3")
    if max(sizes) > _LARGEST:
        raise InputError("Anton 3 too large", found=sizes, expected="at most 8 nodes a dimension")
    network = Network(
        payload=16,
        header=8,
        hop_latency=34e-9,
        fifos=6,
        fifo_rule="first_dimension",
        memory_bandwidth=6 * 58e9,
    )
    return Torus(sizes, bandwidth=(58e9,), network=network, name="anton3")
