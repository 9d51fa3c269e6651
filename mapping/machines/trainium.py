"""AWS Trainium1 and 2. Trainium3 is switched, so that it is no torus."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast.errors import InputError
from toruscast.validation import machine_shape

from ..torus import Torus
from ._accelerator import accelerator_network


def trainium1(shape: Sequence[int] = (4, 4)) -> Torus:
    """Return a Trn1 instance: 2-D, 16 chips, 48 GB/s a link each way.

    Raises
    ------
    InputError
        If the shape is not 4x4.

    Notes
    -----
    Published: 16 chips, their links called a four-dimensional hypercube or a 2-D torus: rings of
    four in two dimensions are just that; 384 GB/s of interconnect a chip, memory 820 GiB/s a chip
    (AWS Neuron documentation, Trn1 and Trn2 architecture). Assumed: this counts both ways together,
    so that each of four links has 48 GB/s each way. Not public, assumed: packet format and latency
    (the defaults), routing order, an injection queue a port.

    Examples
    --------
    >>> trainium1().n_nodes, trainium1().bandwidth[0]
    (16, 48000000000.0)
    """
    sizes = machine_shape(shape, (2,), "Trainium1")
    _all_four(sizes, "Trainium1", "4x4")
    network = accelerator_network(2, 820 * 2**30)
    return Torus(sizes, bandwidth=(48e9,), network=network, name="trainium1")


def trainium2(shape: Sequence[int] = (4, 4, 4)) -> Torus:
    """Return a Trn2 instance (4x4) or UltraServer (4x4x4): 128 and 64 GB/s a link each way.

    An instance has 16 chips, an UltraServer 64. The third dimension is the ring through the same
    place of the four instances.

    Raises
    ------
    InputError
        If the shape is neither.

    Notes
    -----
    Published: topology, 1,024 GB/s a chip within and 256 GB/s between instances, memory 2.9 TB/s a
    chip (AWS Neuron documentation, Trn2 architecture). Assumed: these count both ways together, so
    a link has 128 and 64 GB/s each way. Not public, assumed: as for `trainium1`.

    Examples
    --------
    >>> trainium2().bandwidth
    (128000000000.0, 128000000000.0, 64000000000.0)
    """
    sizes = machine_shape(shape, (2, 3), "Trainium2")
    _all_four(sizes, "Trainium2", "4x4 or 4x4x4")
    return Torus(
        sizes,
        bandwidth=(128e9, 128e9, 64e9)[: len(sizes)],
        network=accelerator_network(len(sizes), 2900e9),
        name="trainium2",
    )


def _all_four(sizes: tuple[int, ...], machine: str, expected: str) -> None:
    if any(size != 4 for size in sizes):
        raise InputError(f"bad {machine} shape", found=sizes, expected=expected)
