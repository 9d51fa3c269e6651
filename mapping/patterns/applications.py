"""Phases of whole applications."""

from __future__ import annotations

from collections.abc import Sequence

from ..workload import Workload
from .edges import all_to_all_along, faces, halo, label, task_grid


def pf3d(
    grid: Sequence[int] = (16, 8, 128),
    *,
    fft_nbytes: float = 16384,
    plane_nbytes: float = 393216,
    halo_nbytes: float = 65536,
    n_messages: float = 1,
) -> Workload:
    """Return a step of the laser-plasma code pF3D as four phases.

    All-to-alls within the rows of X and then of Y, for each Z (the two-dimensional Fourier
    transforms of a plane); the exchange of planes with the neighbours in Z (advection); and the
    exchange with the six nearest neighbours. No dimension is periodic.

    Parameters
    ----------
    grid : sequence of int
        Tasks along X, Y and Z; tasks are numbered in C order.
    fft_nbytes : float
        Bytes between each pair of a transform's all-to-all.
    plane_nbytes : float
        Bytes of the plane to each neighbour in Z.
    halo_nbytes : float
        Bytes to each of the six nearest neighbours.
    n_messages : float
        Messages that carry each of these. The default sizes are round figures, not measurements.

    Raises
    ------
    InputError
        If the grid is not three positive sizes.

    Examples
    --------
    >>> step = pf3d((4, 2, 3))
    >>> [(phase.name, phase.n_edges) for phase in step]
    [('fft-x', 72), ('fft-y', 24), ('planes-z', 32), ('neighbours', 92)]
    """
    sizes = task_grid(grid, 3)
    along_z = [(0, 0, -1), (0, 0, 1)]
    phases = [
        all_to_all_along(sizes, 0, fft_nbytes, n_messages, name="fft-x"),
        all_to_all_along(sizes, 1, fft_nbytes, n_messages, name="fft-y"),
        halo(sizes, along_z, [plane_nbytes] * 2, False, n_messages, name="planes-z"),
        halo(sizes, faces(3), [halo_nbytes] * 6, False, n_messages, name="neighbours"),
    ]
    return Workload(phases, name=f"pf3d-{label(sizes)}")
