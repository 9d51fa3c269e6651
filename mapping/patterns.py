"""Synthetic communication patterns: halos, all-to-alls, exchanges, pF3D, rings, random pairs.

The halo, sub-communicator and pF3D patterns are those of Jain, Bhatele, Robson, Gamblin and Kale,
"Predicting application performance using supervised learning on communication features", SC'13. The
exchanges in rounds are MPICH's all-to-alls for long messages (Thakur, Rabenseifner and Gropp,
"Optimization of collective communication operations in MPICH", IJHPCA 19, 2005). ``nbytes`` and
``n_messages`` are the bytes and messages of each edge.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.typing import Ints
from toruscast.validation import SEED, Seed, check_type, seed_number, whole_number, whole_sizes

from .comm_graph import MAX_TASKS, CommGraph, Workload, as_workload, sum_edges

__all__ = [
    "all_to_all",
    "halo_2d",
    "halo_3d",
    "pairwise_exchange",
    "pf3d",
    "random_pairs",
    "ring",
    "sub_all_to_all",
    "xor_exchange",
]


def halo_2d(
    grid: Sequence[int], nbytes: float, *, periodic: bool = False, n_messages: float = 1
) -> CommGraph:
    """Return the 5-point halo exchange: each task sends to its four neighbours on a 2-D grid.

    Examples
    --------
    >>> halo_2d((3, 3), 100)
    CommGraph(halo-3x3: 9 tasks, 24 edges, 2400 bytes, 24 messages)
    """
    sizes = _check_grid(grid, 2)
    return _build_halo(sizes, _list_face_offsets(2), [nbytes] * 4, periodic, n_messages)


def halo_3d(
    grid: Sequence[int],
    nbytes: float,
    *,
    corner_nbytes: float | None = None,
    periodic: bool = False,
    n_messages: float = 1,
) -> CommGraph:
    """Return the 15-point halo exchange: six faces and eight corners on a 3-D grid.

    Examples
    --------
    >>> halo_3d((4, 4, 4), 8, periodic=True).n_edges == 64 * 14
    True
    """
    sizes = _check_grid(grid, 3)
    offsets = _list_face_offsets(3) + list(itertools.product((-1, 1), repeat=3))
    corner = nbytes if corner_nbytes is None else corner_nbytes
    return _build_halo(sizes, offsets, [nbytes] * 6 + [corner] * 8, periodic, n_messages)


def ring(
    n_tasks: int, nbytes: float, *, both_ways: bool = False, n_messages: float = 1
) -> CommGraph:
    """Return a ring, in which each task sends to the next one and the last to the first.

    Examples
    --------
    >>> ring(5, 10)
    CommGraph(ring-5: 5 tasks, 5 edges, 50 bytes, 5 messages)
    """
    size = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    check_type(both_ways, "both_ways", bool | np.bool_, "True or False")
    offsets = [(-1,), (1,)] if both_ways else [(1,)]
    amounts = [nbytes] * len(offsets)
    return _build_halo((size,), offsets, amounts, True, n_messages, name=f"ring-{size}")


def all_to_all(n_tasks: int, nbytes: float, *, n_messages: float = 1) -> CommGraph:
    """Return an all-to-all, in which every task sends ``nbytes`` to every other task.

    Examples
    --------
    >>> all_to_all(4, 10)
    CommGraph(all-to-all-4: 4 tasks, 12 edges, 120 bytes, 12 messages)
    """
    size = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    return _exchange_along((size,), 0, nbytes, n_messages, name=f"all-to-all-{size}")


def sub_all_to_all(
    n_tasks: int, nbytes: float, *, group: int = 64, n_messages: float = 1
) -> CommGraph:
    """Return all-to-alls over sub-communicators of ``group`` consecutive tasks.

    The logical grid is (number of groups, tasks in a group).

    Examples
    --------
    >>> sub_all_to_all(256, 1024)
    CommGraph(sub-all-to-all-4x64: 256 tasks, 16128 edges, 16515072 bytes, 16128 messages)
    """
    grid = _check_group(n_tasks, group, min_size=1)
    return _exchange_along(grid, 1, nbytes, n_messages, name=f"sub-all-to-all-{format_sizes(grid)}")


def pairwise_exchange(
    n_tasks: int, nbytes: float, group: int | None = None, *, n_messages: float = 1
) -> Workload:
    """Return an all-to-all within groups by pairwise exchange, as dependent rounds.

    In round r = 1, 2, ... task a of a group sends to task a + r and receives from task a - r,
    modulo the size of the group.

    Examples
    --------
    >>> rounds = pairwise_exchange(6, 100, group=3)
    >>> [phase.dst.tolist() for phase in rounds], rounds.dependent
    ([[1, 2, 0, 4, 5, 3], [2, 0, 1, 5, 3, 4]], True)
    """
    grid = _check_group(n_tasks, group)
    number, member = np.divmod(np.arange(math.prod(grid)), grid[1])
    partners = (number * grid[1] + (member + r) % grid[1] for r in range(1, grid[1]))
    return _build_rounds("pairwise-exchange", grid, partners, nbytes, n_messages)


def xor_exchange(
    n_tasks: int, nbytes: float, group: int | None = None, *, n_messages: float = 1
) -> Workload:
    """Return an all-to-all within groups by exclusive or, as dependent rounds.

    In round r = 1, 2, ... tasks a and a XOR r of a group exchange messages.

    Examples
    --------
    >>> [phase.dst.tolist() for phase in xor_exchange(4, 100)]
    [[1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
    """
    grid = _check_group(n_tasks, group)
    if grid[1] & (grid[1] - 1):
        raise InputError("bad group", found=grid[1], expected="a power of two")
    partners = (np.arange(math.prod(grid)) ^ r for r in range(1, grid[1]))
    return _build_rounds("xor-exchange", grid, partners, nbytes, n_messages)


def _check_group(n_tasks: int, group: int | None, min_size: int = 2) -> tuple[int, int]:
    """Return the number of groups and the number of tasks in each."""
    size = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    members = size if group is None else whole_number(group, "group", 1, MAX_TASKS)
    if members < min_size or size % members:
        limit = f", {min_size} or more" if min_size > 1 else ""
        raise InputError("bad group", found=members, expected=f"a divisor of {size} tasks{limit}")
    return size // members, members


def _build_rounds(
    kind: str, grid: tuple[int, int], partners: Iterable[Ints], nbytes: float, n_messages: float
) -> Workload:
    """Return a round for each array in ``partners``, which has the receiver for each sender."""
    n_tasks = math.prod(grid)
    src = np.arange(n_tasks)
    phases = [
        _build_uniform(n_tasks, src, dst, nbytes, n_messages, grid, f"round-{r}")
        for r, dst in enumerate(partners, start=1)
    ]
    return Workload(phases, name=f"{kind}-{format_sizes(grid)}", dependent=True)


def pf3d(
    grid: Sequence[int] = (16, 8, 128),
    *,
    fft_nbytes: float = 16384,
    plane_nbytes: float = 393216,
    halo_nbytes: float = 65536,
    n_messages: float = 1,
) -> Workload:
    """Return a step of the laser-plasma code pF3D as four phases.

    The first two are all-to-alls along X and along Y, for two-dimensional Fourier transforms of the
    planes. The third exchanges planes with the neighbours in Z (advection), and the fourth
    exchanges data with the six nearest neighbours. No dimension is periodic.

    Examples
    --------
    >>> step = pf3d((4, 2, 3))
    >>> [(phase.name, phase.n_edges) for phase in step]
    [('fft-x', 72), ('fft-y', 24), ('planes-z', 32), ('neighbours', 92)]
    """
    sizes = _check_grid(grid, 3)
    along_z, faces = [(0, 0, -1), (0, 0, 1)], _list_face_offsets(3)
    phases = [
        _exchange_along(sizes, 0, fft_nbytes, n_messages, name="fft-x"),
        _exchange_along(sizes, 1, fft_nbytes, n_messages, name="fft-y"),
        _build_halo(sizes, along_z, [plane_nbytes] * 2, False, n_messages, name="planes-z"),
        _build_halo(sizes, faces, [halo_nbytes] * 6, False, n_messages, name="neighbours"),
    ]
    return Workload(phases, name=f"pf3d-{format_sizes(sizes)}")


def random_pairs(
    n_tasks: int, degree: int, nbytes: float, *, seed: Seed = SEED, n_messages: float = 1
) -> CommGraph:
    """Return a graph in which each task sends to ``degree`` distinct random tasks.

    The graph has no logical grid.

    Examples
    --------
    >>> random_pairs(10, 3, 100, seed=7)
    CommGraph(random-10-3: 10 tasks, 30 edges, 3000 bytes, 30 messages)
    """
    size = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    degree = whole_number(degree, "degree", 0, size - 1)
    rng = np.random.default_rng(seed_number(seed))
    # Floyd's sampling without replacement, for all tasks at once. Each draw extends the range by
    # one; if a draw repeats an earlier one, the new end of the range replaces it.
    chosen = np.full((size, degree), -1, dtype=np.int64)
    for i in range(degree):
        last = size - 1 - degree + i
        draw = rng.integers(0, last, size=size, endpoint=True)
        chosen[:, i] = np.where((chosen == draw[:, None]).any(axis=1), last, draw)
    src = np.arange(size)[:, None]
    # Skip the task itself.
    chosen += chosen >= src
    chosen.sort(axis=1)
    return _build_uniform(size, src, chosen, nbytes, n_messages, None, f"random-{size}-{degree}")


PATTERNS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        function.__name__: function
        for function in (all_to_all, halo_2d, halo_3d, pf3d, ring, sub_all_to_all)
    }
)


def from_recipe(recipe: Mapping[str, Any], name: str = "") -> Workload:
    """Return the workload of a pattern, given its name (key ``pattern``) and its arguments."""
    pattern = recipe.get("pattern") if isinstance(recipe, Mapping) else None
    if not isinstance(pattern, str) or pattern not in PATTERNS:
        raise InputError("unknown pattern", found=recipe, expected=f"one of {', '.join(PATTERNS)}")
    arguments = {key: value for key, value in recipe.items() if key != "pattern"}
    try:
        workload = as_workload(PATTERNS[pattern](**arguments))
    except TypeError as error:
        raise InputError(f"bad arguments of pattern {pattern}", found=error) from None
    return Workload(workload.phases, name or workload.name)


def _check_amounts(*amounts: object) -> None:
    for value in amounts:
        check_type(value, "bytes or messages", Real, "a number")


def _build_halo(
    grid: tuple[int, ...],
    offsets: Sequence[tuple[int, ...]],
    nbytes: Sequence[float],
    periodic: bool,
    n_messages: float,
    name: str = "",
) -> CommGraph:
    """Return the graph in which each task sends ``nbytes[i]`` to the task at ``offsets[i]``.

    Offsets are steps along the dimensions of the grid. There are no self-messages and, unless the
    grid is periodic, no edges across its boundary.
    """
    check_type(periodic, "periodic", bool | np.bool_, "True or False")
    _check_amounts(*nbytes, n_messages)
    n_tasks = math.prod(grid)
    # Sorting the offsets also sorts each task's destinations, unless neighbours are periodic.
    pairs = sorted(zip(offsets, nbytes, strict=True))
    coords, sizes = np.indices(grid).reshape(len(grid), -1), np.array(grid)[:, None]
    src = np.repeat(np.arange(n_tasks)[:, None], len(pairs), axis=1)
    dst = np.empty(src.shape, dtype=np.int64)
    for column, (offset, _) in enumerate(pairs):
        neighbor = coords + np.array(offset)[:, None]
        is_inside = periodic | ((neighbor >= 0) & (neighbor < sizes)).all(axis=0)
        number = np.ravel_multi_index(tuple(neighbor), grid, mode="wrap")
        dst[:, column] = np.where(is_inside, number, -1)
    exists = (dst >= 0) & (dst != src)
    amounts = np.broadcast_to([amount for _, amount in pairs], dst.shape)[exists]
    messages = np.full(amounts.size, n_messages, dtype=np.float64)
    build = sum_edges if periodic and min(grid) <= 2 else CommGraph
    name = name or f"halo-{format_sizes(grid)}"
    return build(n_tasks, src[exists], dst[exists], amounts, messages, grid=grid, name=name)


def _exchange_along(
    grid: tuple[int, ...], axis: int, nbytes: float, n_messages: float, name: str
) -> CommGraph:
    """Return an all-to-all within each line of the grid along ``axis``."""
    n_tasks, size = math.prod(grid), grid[axis]
    stride = math.prod(grid[axis + 1 :])
    src = np.arange(n_tasks)[:, None]
    position = src // stride % size
    partner = np.arange(size - 1)[None, :]
    # Skip the task itself.
    partner = partner + (partner >= position)
    dst = src + (partner - position) * stride
    return _build_uniform(n_tasks, src, dst, nbytes, n_messages, grid, name)


def _build_uniform(
    n_tasks: int,
    src: NDArray[Any],
    dst: NDArray[Any],
    nbytes: float,
    n_messages: float,
    grid: tuple[int, ...] | None,
    name: str,
) -> CommGraph:
    """Return a graph of equal edges; row i of ``dst`` lists the destinations of ``src[i]``."""
    _check_amounts(nbytes, n_messages)
    sources = np.broadcast_to(src, dst.shape).ravel()
    values = [np.full(dst.size, value, dtype=np.float64) for value in (nbytes, n_messages)]
    return CommGraph(n_tasks, sources, dst.ravel(), *values, grid=grid, name=name)


def _list_face_offsets(ndim: int) -> list[tuple[int, ...]]:
    unit = np.eye(ndim, dtype=int)
    return [tuple(int(k) for k in row) for row in np.concatenate([-unit, unit])]


def _check_grid(grid: Sequence[int], ndim: int) -> tuple[int, ...]:
    sizes = whole_sizes(grid, "task grid")
    if len(sizes) != ndim:
        raise InputError("bad task grid", found=grid, expected=f"{ndim} sizes of 1 or more")
    if math.prod(sizes) > MAX_TASKS:
        raise InputError("task grid too large", found=grid, expected=f"at most {MAX_TASKS} tasks")
    return sizes


def format_sizes(grid: Sequence[int]) -> str:
    """Return "4x4" for (4, 4)."""
    return "x".join(map(str, grid))
