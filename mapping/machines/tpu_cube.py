"""Google TPUs with a 3-D network: v4, v5p and TPU7x."""

from __future__ import annotations

import math
from collections.abc import Sequence

from toruscast.errors import InputError
from toruscast.validation import machine_shape

from ..torus import Torus
from ..twist import CAN_BE_TWISTED, usual_twist
from ._accelerator import accelerator_network


def tpu_v4(shape: Sequence[int] = (4, 4, 4), *, twisted: bool | None = None) -> Torus:
    """Return a TPU v4 slice: 3-D, 50 GB/s a link each way.

    The slice wraps if every size is a multiple of 4 (then optical switches close it); a smaller one
    is a mesh. Wrapped slices of k x k x 2k and k x 2k x 2k chips are twisted tori.

    Parameters
    ----------
    shape : sequence of int
        Chips along X, Y and Z.
    twisted : bool, optional
        Whether the slice is a twisted torus, where it can be; it is if not told.

    Raises
    ------
    InputError
        If the slice has more than the 4,096 chips of a pod, or cannot be twisted.

    Notes
    -----
    Published: topology, six links a chip of 50 GB/s each way (Jouppi et al., "TPU v4: an optically
    reconfigurable supercomputer for machine learning with hardware support for embeddings", ISCA
    2023), memory 1,200 GB/s a chip, when slices wrap and which are twisted (Cloud TPU v4
    documentation; how, see `mapping.twist`). Sources differ:
    "How to scale your model" (Austin et al., 2025) gives 45 GB/s a link. Not public, assumed:
    packet format and latency (the defaults), routing order, an injection queue a port, the wiring
    of twisted slices in full.

    Examples
    --------
    >>> str(tpu_v4((4, 4, 8))), str(tpu_v4((2, 2, 4)))
    ('tpu_v4 4x4x8:twisted', 'tpu_v4 2mx2mx4m')
    >>> str(tpu_v4((4, 4, 8), twisted=False))
    'tpu_v4 4x4x8:untwisted'
    """
    sizes = _slice(shape, (3,), "tpu_v4", pod=4096)
    return _twistable(sizes, "tpu_v4", twisted, link=50e9, memory=1200e9)


def tpu_v5p(shape: Sequence[int] = (4, 4, 4), *, twisted: bool | None = None) -> Torus:
    """Return a TPU v5p slice: 3-D, 100 GB/s a link each way.

    The slice wraps if every size is a multiple of 4, else it is a mesh. Wrapped slices
    of k x k x 2k and k x 2k x 2k chips are twisted tori.

    Parameters
    ----------
    shape : sequence of int
        Chips along X, Y and Z.
    twisted : bool, optional
        As for `tpu_v4`.

    Raises
    ------
    InputError
        If the slice has more than the 8,960 chips of a pod, or cannot be twisted.

    Notes
    -----
    Published: 1,200 GB/s of interconnect a chip, both ways together, here divided over six links
    and two ways; 3-D torus from 4x4x4 up, which slices are twisted; memory 2,765 GB/s (Cloud
    TPU v5p documentation). Sources
    differ: "How to scale your model" (Austin et al., 2025) gives 90 GB/s a link each way. Not
    public, assumed: as for `tpu_v4`.

    Examples
    --------
    >>> tpu_v5p((8, 8, 8)).bandwidth[0]
    100000000000.0
    """
    sizes = _slice(shape, (3,), "tpu_v5p", pod=8960)
    return _twistable(sizes, "tpu_v5p", twisted, link=100e9, memory=2765e9)


def tpu7x(shape: Sequence[int] = (4, 4, 4)) -> Torus:
    """Return a TPU7x (Ironwood) slice: two devices a chip, 50 GB/s each way of every chip's links.

    A node is a device, of which a chip has two. They are the fourth dimension, C. The other three
    wrap if each of them is a multiple of 4, else none does.

    Parameters
    ----------
    shape : sequence of int
        Chips along X, Y and Z, or these and a 2.

    Raises
    ------
    InputError
        If the fourth size is not 2, or the slice has more than the 9,216 chips of a pod.

    Notes
    -----
    Published: 1,200 GB/s of interconnect a chip, both ways together; a 3-D torus of up to 9,216
    chips; two devices a chip, the link between them six times as fast as one of the chip's
    interconnect links; memory 7,380 GB/s a chip (Cloud TPU7x documentation). Here a chip's six
    links have 100 GB/s each way, its devices take half of that each, and have 600 GB/s each way
    between them. Sources differ: "How to scale your model" (Austin et al., 2025) gives 90 GB/s a
    link each way. Not public, assumed: how devices share a chip's links, and as for `tpu_v4`;
    whether slices are twisted is not published.

    Examples
    --------
    >>> slice = tpu7x((2, 2, 4))
    >>> str(slice), slice.n_nodes, slice.axes
    ('tpu7x 2mx2mx4mx2m', 32, 'XYZC')
    """
    sizes = _slice(shape, (3, 4), "tpu7x", pod=9216)
    network = accelerator_network(4, 3690e9)
    return Torus(
        (*sizes, 2),
        wrap=(*_wraps(sizes), False),
        bandwidth=(50e9, 50e9, 50e9, 600e9),
        network=network,
        name="tpu7x",
        axes="XYZC",
    )


def _slice(shape: Sequence[int], ndims: tuple[int, ...], name: str, *, pod: int) -> tuple[int, ...]:
    """Chips along the three dimensions of a slice."""
    sizes = machine_shape(shape, ndims, name)
    if sizes[3:] not in ((), (2,)):
        expected = "chips along X, Y and Z, and 2 devices a chip"
        raise InputError(f"bad {name} shape", found=sizes, expected=expected)
    if math.prod(sizes[:3]) > pod:
        raise InputError(f"{name} slice too large", found=sizes, expected=f"at most {pod} chips")
    return sizes[:3]


def _twistable(
    sizes: tuple[int, ...], name: str, twisted: bool | None, *, link: float, memory: float
) -> Torus:
    """A slice, twisted if it can be and is not told otherwise."""
    wrap = _wraps(sizes)
    twist = usual_twist(sizes) if wrap[0] else ()
    if twisted and not twist:
        expected = f"{CAN_BE_TWISTED}, multiples of 4"
        raise InputError(f"{name} slice that is not twisted", found=sizes, expected=expected)
    return Torus(
        sizes,
        wrap=wrap,
        bandwidth=(link,),
        network=accelerator_network(3, memory),
        name=name,
        twist=() if twisted is False else twist,
    )


def _wraps(sizes: Sequence[int]) -> tuple[bool, ...]:
    return (all(size % 4 == 0 for size in sizes),) * len(sizes)
