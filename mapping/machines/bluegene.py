"""IBM Blue Gene/L, /P and /Q."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast.errors import InputError
from toruscast.validation import machine_shape, whole_number

from ..bluegene_routes import routing_order
from ..dimensions import wraps
from ..network import Network
from ..torus import Torus

_BLUEGENE_Q: dict[int, tuple[int, ...]] = {
    32: (2, 2, 2, 2, 2),
    64: (2, 2, 4, 2, 2),
    128: (2, 2, 4, 4, 2),
    256: (4, 2, 4, 4, 2),
    512: (4, 4, 4, 4, 2),
    1024: (4, 4, 4, 8, 2),
    2048: (4, 4, 8, 8, 2),
    4096: (4, 4, 8, 16, 2),
    8192: (4, 4, 16, 16, 2),
}
# Nodes along a side of a midplane, the smallest block that closes.
_MIDPLANE = 8


def bluegene_l(shape: Sequence[int] = (8, 8, 8)) -> Torus:
    """Return a Blue Gene/L block: three dimensions, 175 MB/s a link each way.

    A block smaller than a midplane (8x8x8) is a mesh in every dimension shorter than 8.

    Notes
    -----
    Published: 175 MB/s a link each way, packets of 32 to 256 bytes in 32-byte steps, about 100 ns a
    hop (Adiga et al., "Blue Gene/L torus interconnection network", IBM J. Res. Dev. 49, 2005);
    memory bandwidth 5.6 GB/s (Gara et al., "Overview of the Blue Gene/L system architecture", in
    the same issue). Not public, assumed: 16 bytes of a packet are its header, buffer depths, six
    injection FIFOs, by the first dimension.

    Examples
    --------
    >>> str(bluegene_l((8, 8, 4)))
    'bluegene_l 8x8x4m'
    """
    return _three_dimensional(shape, "Blue Gene/L", "bluegene_l", (175e6, 100e-9, 5.6e9))


def bluegene_p(shape: Sequence[int] = (8, 8, 8)) -> Torus:
    """Return a Blue Gene/P block: three dimensions, 425 MB/s a link each way.

    A block smaller than a midplane (8x8x8) is a mesh in every dimension shorter than 8.

    Notes
    -----
    Published: 425 MB/s a link each way, packets of 32 to 256 bytes in 32-byte steps (IBM Blue Gene
    team, "Overview of the IBM Blue Gene/P project", IBM J. Res. Dev. 52, 2008), memory bandwidth
    13.6 GB/s. Not public, assumed: 16 bytes of a packet are its header, 64 ns a hop, buffer depths,
    six injection FIFOs, by the first dimension.

    Examples
    --------
    >>> bluegene_p((8, 8, 16)).bandwidth[0]
    425000000.0
    """
    return _three_dimensional(shape, "Blue Gene/P", "bluegene_p", (425e6, 64e-9, 13.6e9))


def bluegene_q(
    shape: Sequence[int] | None = None,
    *,
    nodes: int | None = None,
    wrap: bool | Sequence[bool] = True,
) -> Torus:
    """Return a Blue Gene/Q block: five dimensions A B C D E, 2 GB/s a link each way.

    Parameters
    ----------
    shape : sequence of int, optional
        Nodes along A to E.
    nodes : int, optional
        Instead of the shape: 32, 64, ..., 2048 (the shapes of SciNet's machine), 4096 (the first
        of two used by Jain et al., SC'13) or 8192 (Mira's); 512 if neither is given.
    wrap : bool or sequence of bool
        False for a dimension that is a mesh; the 1,024-node block 4x4x4x8x2 of Mira, for one, did
        not wrap in D.

    Raises
    ------
    InputError
        If the block size is not known or the shape is not five sizes.

    Notes
    -----
    Published: links, packets, FIFOs and 40 ns a hop (Chen et al., "The IBM Blue Gene/Q
    interconnection network and message unit", SC'11); block shapes (SciNet BGQ documentation; Jain
    et al., SC'13). The routing order and the zones of adaptive routing depend on the block, as in
    IBM's firmware and messaging library ([BGQ]; see `bluegene_routes`); which way a packet goes
    round a ring, half-way ties too, is settled when it sets out; recorded routes of Mira and
    Vesta (Fujiwara et al., VAST'17 data), from which the tie rule is read, have that order on all
    six blocks. Not public, assumed: buffer depths.

    Examples
    --------
    >>> block = bluegene_q(nodes=1024)
    >>> block.shape, block.order
    ((4, 4, 4, 8, 2), (3, 1, 2, 0, 4))
    """
    if shape is not None and nodes is not None:
        raise InputError("both a shape and a number of nodes given", found=(shape, nodes))
    if shape is None:
        nodes = 512 if nodes is None else whole_number(nodes, "number of nodes", 1)
        if nodes not in _BLUEGENE_Q:
            known = ", ".join(map(str, _BLUEGENE_Q))
            raise InputError("unknown block size", found=nodes, expected=f"{known}, or a shape")
        shape = _BLUEGENE_Q[nodes]
    sizes = machine_shape(shape, (5,), "Blue Gene/Q")
    rings = wraps(wrap, 5)
    return Torus(
        sizes,
        wrap=rings,
        bandwidth=(2e9,),
        order=routing_order(sizes, rings),
        tie="bluegene",
        name="bluegene_q",
        zones="bluegene_q",
    )


def _three_dimensional(
    shape: Sequence[int], machine: str, name: str, rates: tuple[float, float, float]
) -> Torus:
    """A block of /L or /P; bytes/s of a link, seconds a hop and bytes/s of the memory."""
    sizes = machine_shape(shape, (3,), machine)
    link, hop, memory = rates
    network = Network(
        payload=240,
        header=16,
        hop_latency=hop,
        fifos=6,
        fifo_rule="first_dimension",
        memory_bandwidth=memory,
    )
    wrap = tuple(size >= _MIDPLANE for size in sizes)
    return Torus(sizes, wrap=wrap, bandwidth=(link,), tie="bluegene", network=network, name=name)
