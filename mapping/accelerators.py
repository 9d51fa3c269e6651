"""Presets of accelerators with a torus network, each from public sources.

Docstrings say which numbers are published, as in `machines`, which offers these presets too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from toruscast.errors import InputError
from toruscast.validation import machine_shape

from .network import Network
from .torus import Torus


def tpu_v4(shape: Sequence[int] = (4, 4, 4)) -> Torus:
    """Return a TPU v4 slice: 3-D, six links a chip of 50 GB/s each way.

    The slice wraps if every size is a multiple of 4 (then optical switches close it); a smaller one
    is a mesh.

    Raises
    ------
    InputError
        If the slice has more than the 4,096 chips of a pod.

    Notes
    -----
    Published: topology, link rate (Jouppi et al., "TPU v4: an optically reconfigurable
    supercomputer for machine learning with hardware support for embeddings", ISCA 2023), memory
    1,200 GB/s a chip, when slices wrap (Cloud TPU documentation). Twisted tori are not modelled.
    Not public, assumed: packet format and latency (the defaults), routing order, an injection queue
    a port.

    Examples
    --------
    >>> str(tpu_v4((4, 4, 8))), str(tpu_v4((2, 2, 4)))
    ('tpu_v4 4x4x8', 'tpu_v4 2mx2mx4m')
    """
    return _tpu(shape, "tpu_v4", link=50e9, memory=1200e9, pod=4096)


def tpu_v5p(shape: Sequence[int] = (4, 4, 4)) -> Torus:
    """Return a TPU v5p slice: 3-D, six links a chip of 100 GB/s each way.

    The slice wraps if every size is a multiple of 4, else it is a mesh.

    Raises
    ------
    InputError
        If the slice has more than the 8,960 chips of a pod.

    Notes
    -----
    Published: 1,200 GB/s of interconnect a chip, both ways together, here divided over six links
    and two ways; 3-D torus from 4x4x4 up; memory 2,765 GB/s (Cloud TPU v5p documentation). Not
    public, assumed: as for `tpu_v4`.

    Examples
    --------
    >>> tpu_v5p((8, 8, 8)).bandwidth[0]
    100000000000.0
    """
    return _tpu(shape, "tpu_v5p", link=100e9, memory=2765e9, pod=8960)


def trainium2(shape: Sequence[int] = (4, 4, 4)) -> Torus:
    """Return a Trn2 instance (4x4: 16 chips) or UltraServer (4x4x4: 64 chips, the default).

    The third dimension is the ring through the same place of the four instances.

    Raises
    ------
    InputError
        If the shape is neither.

    Notes
    -----
    Published: topology, 1,024 GB/s a chip within and 256 GB/s between instances, memory 2.9 TB/s a
    chip (AWS Neuron documentation, Trn2 architecture). Assumed: these count both ways together, so
    a link has 128 and 64 GB/s each way. Not public, assumed: packet format and latency (the
    defaults), routing order, an injection queue a port.

    Examples
    --------
    >>> trainium2().bandwidth
    (128000000000.0, 128000000000.0, 64000000000.0)
    """
    sizes = machine_shape(shape, (2, 3), "Trainium2")
    if any(size != 4 for size in sizes):
        raise InputError("bad Trainium2 shape", found=sizes, expected="4x4 or 4x4x4")
    return Torus(
        sizes,
        bandwidth=(128e9, 128e9, 64e9)[: len(sizes)],
        network=_accelerator(len(sizes), 2900e9),
        name="trainium2",
    )


def _tpu(shape: Sequence[int], name: str, *, link: float, memory: float, pod: int) -> Torus:
    sizes = machine_shape(shape, (3,), name)
    if math.prod(sizes) > pod:
        raise InputError(f"{name} slice too large", found=sizes, expected=f"at most {pod} chips")
    wrap = all(size % 4 == 0 for size in sizes)
    return Torus(sizes, wrap=(wrap,), bandwidth=(link,), network=_accelerator(3, memory), name=name)


def _accelerator(ndim: int, memory: float) -> Network:
    """Return a network with an injection queue for each port."""
    return Network(fifos=2 * ndim, fifo_rule="first_dimension", memory_bandwidth=memory)
