"""Fujitsu's Tofu networks: the K computer and Fugaku."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast.errors import InputError
from toruscast.validation import machine_shape

from ..dimensions import wraps
from ..network import Network
from ..torus import Torus

# A unit of twelve nodes, the dimensions a, b and c: only b closes.
_UNIT = (2, 3, 2)
_UNIT_WRAP = (False, True, False)


def k_computer(shape: Sequence[int] = (4, 4, 4), *, wrap: bool | Sequence[bool] = True) -> Torus:
    """Return a K computer network (Tofu): 1-D to 3-D or 6-D, 5 GB/s a link each way.

    Parameters
    ----------
    shape : sequence of int
        One to three sizes of the logical torus, or six (X Y Z a b c) that end in 2, 3, 2.
    wrap : bool or sequence of bool
        As for `tofu_d`.

    Notes
    -----
    Published: 5 GB/s a link each way, ten links and four network interfaces a node; X, Y, Z and b
    rings, a and c lines (Ajima et al., "The Tofu interconnect", IEEE Micro 32(1), 2012); the whole
    machine is 24x18x17x2x3x2; memory 64 GB/s a node (SPARC64 VIIIfx). Not public, assumed: packets
    of 1,920 bytes payload with 32 of header, 100 ns a hop, buffer depths, X to c routing order,
    FIFOs taken in turn.

    Examples
    --------
    >>> k_computer((24, 18, 17, 2, 3, 2)).n_nodes
    88128
    """
    return _tofu(shape, wrap, "K computer", "k_computer", (5e9, 32, 4, 64e9))


def tofu_d(shape: Sequence[int] = (4, 4, 4), *, wrap: bool | Sequence[bool] = True) -> Torus:
    """Return a Fugaku network (Tofu-D): 1-D to 3-D or 6-D, 6.8 GB/s a link each way.

    Parameters
    ----------
    shape : sequence of int
        One to three sizes of the logical torus that users are offered, or six (X Y Z a b c) that
        end in 2, 3, 2.
    wrap : bool or sequence of bool
        Which of the given dimensions, or of X Y Z, close; a (2) and c (2) are meshes and b (3) a
        ring in any case. What an allocation wraps depends on its shape: a part of X, Y or Z that
        is not the whole machine's does not close.

    Notes
    -----
    Published: 6.8 GB/s a link each way, six network interfaces a node, ten ports; a put attains
    6.35 GB/s, 93 % of a link (Ajima et al., "The Tofu interconnect D", CLUSTER 2018); HBM2 1,024
    GB/s a node (A64FX); the whole machine is 24x23x24x2x3x2. Not public, assumed: packets of 1,920
    bytes payload, with as much of header as leaves those 93 %; 100 ns a hop, buffer depths, X to c
    routing order, FIFOs taken in turn. Jobs of up to 384 nodes may be scattered: name their
    coordinates in six dimensions.

    Examples
    --------
    >>> tofu_d((2, 2, 2, 2, 3, 2)).wrap
    (True, True, True, False, True, False)
    """
    return _tofu(shape, wrap, "Tofu-D", "tofu_d", (6.8e9, 136, 6, 1024e9))


def _tofu(
    shape: Sequence[int],
    wrap: bool | Sequence[bool],
    machine: str,
    name: str,
    constants: tuple[float, int, int, float],
) -> Torus:
    """Constants: bytes/s of a link, header, network interfaces and bytes/s of the memory."""
    sizes = machine_shape(shape, (1, 2, 3, 6), machine)
    closed = wraps(wrap, min(len(sizes), 3))
    if len(sizes) == 6:
        if sizes[3:] != _UNIT:
            expected = "six sizes end in 2, 3, 2"
            raise InputError(f"bad {machine} shape", found=sizes, expected=expected)
        closed += _UNIT_WRAP
    link, header, interfaces, memory = constants
    network = Network(
        payload=1920,
        header=header,
        hop_latency=100e-9,
        fifos=interfaces,
        fifo_rule="round_robin",
        memory_bandwidth=memory,
    )
    axes = "XYZabc" if len(sizes) == 6 else ""
    return Torus(sizes, wrap=closed, bandwidth=(link,), network=network, name=name, axes=axes)
