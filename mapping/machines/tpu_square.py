"""Google TPUs with a 2-D network: v2, v3, v5e and v6e."""

from __future__ import annotations

from collections.abc import Sequence

from toruscast.errors import InputError
from toruscast.validation import machine_shape

from ..torus import Torus
from ._accelerator import accelerator_network


def tpu_v2(shape: Sequence[int] = (16, 16)) -> Torus:
    """Return a TPU v2 slice: 2-D, 62 GB/s a link each way.

    An axis wraps if it has the 16 chips of the pod.

    Raises
    ------
    InputError
        If an axis has more.

    Notes
    -----
    Published: 2-D torus of 16x16 chips, four links a chip of 496 Gbit/s each way, memory 700 GB/s a
    chip (Jouppi et al., "A domain-specific supercomputer for training deep neural networks",
    Commun. ACM 63(7), 2020). Not public, assumed: that only a whole axis closes, packet format and
    latency (the defaults), routing order, an injection queue a port.

    Examples
    --------
    >>> str(tpu_v2((8, 16)))
    'tpu_v2 8mx16'
    """
    return _square(shape, "tpu_v2", side=16, link=62e9, memory=700e9)


def tpu_v3(shape: Sequence[int] = (32, 32)) -> Torus:
    """Return a TPU v3 slice: 2-D, 82 GB/s a link each way.

    An axis wraps if it has the 32 chips of the pod.

    Raises
    ------
    InputError
        If an axis has more.

    Notes
    -----
    Published: 2-D torus of 32x32 chips, four links a chip of 656 Gbit/s each way (Jouppi et al.,
    Commun. ACM 63(7), 2020), memory 900 GB/s a chip (Cloud TPU v3 documentation). Sources differ:
    "How to scale your model" (Austin et al., 2025) gives 100 GB/s a link each way. Not public,
    assumed: as for `tpu_v2`.

    Examples
    --------
    >>> str(tpu_v3((16, 32)))
    'tpu_v3 16mx32'
    """
    return _square(shape, "tpu_v3", side=32, link=82e9, memory=900e9)


def tpu_v5e(shape: Sequence[int] = (16, 16)) -> Torus:
    """Return a TPU v5e slice: 2-D, 45 GB/s a link each way.

    An axis wraps if it has 16 chips.

    Raises
    ------
    InputError
        If an axis has more than the 16 chips of a pod.

    Notes
    -----
    Published: 45 GB/s a link each way, an axis closes only with all 16 chips ("How to scale your
    model", Austin et al., 2025); pods of 16x16 chips, a 2-D torus; memory 819 GB/s a chip (Cloud
    TPU v5e documentation). Sources differ: that documentation gives 400 GB/s of interconnect a
    chip, both ways together, which is 50 GB/s for each of four links and two ways; ``--network
    bandwidth=50e9`` takes that. Not public, assumed: packet format and latency (the defaults),
    routing order, an injection queue a port.

    Examples
    --------
    >>> str(tpu_v5e((4, 8))), str(tpu_v5e((8, 16)))
    ('tpu_v5e 4mx8m', 'tpu_v5e 8mx16')
    """
    return _square(shape, "tpu_v5e", side=16, link=45e9, memory=819e9)


def tpu_v6e(shape: Sequence[int] = (16, 16)) -> Torus:
    """Return a TPU v6e (Trillium) slice: 2-D, 90 GB/s a link each way.

    An axis wraps if it has 16 chips.

    Raises
    ------
    InputError
        If an axis has more than the 16 chips of a pod.

    Notes
    -----
    Published: 90 GB/s a link each way, an axis closes only with all 16 chips ("How to scale your
    model", Austin et al., 2025); pods of 16x16 chips, a 2-D torus; memory 1,638 GB/s a chip (Cloud
    TPU v6e documentation). Sources differ: that documentation gives 800 GB/s of interconnect a
    chip, both ways together, which is 100 GB/s for each of four links and two ways. Not public,
    assumed: as for `tpu_v5e`.

    Examples
    --------
    >>> tpu_v6e((8, 16)).wrap
    (False, True)
    """
    return _square(shape, "tpu_v6e", side=16, link=90e9, memory=1638e9)


def _square(shape: Sequence[int], name: str, *, side: int, link: float, memory: float) -> Torus:
    sizes = machine_shape(shape, (2,), name)
    if max(sizes) > side:
        expected = f"at most {side} chips along an axis"
        raise InputError(f"{name} slice too large", found=sizes, expected=expected)
    wrap = tuple(size == side for size in sizes)
    network = accelerator_network(2, memory)
    return Torus(sizes, wrap=wrap, bandwidth=(link,), network=network, name=name)
