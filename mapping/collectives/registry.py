"""Every collective algorithm by name."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from toruscast.errors import InputError
from toruscast.validation import real_number, whole_number, whole_sizes

from . import butterflies, exchanges, pipelined, rings, torus_butterflies, tree_shapes, trees
from .schedule import Build, Schedule

_REGISTRY: dict[str, Build] = {}


def names(collective: str = "") -> tuple[str, ...]:
    """Return the names of the algorithms, all or those of one collective.

    Examples
    --------
    >>> names("alltoall")
    ('alltoall/bine', 'alltoall/bruck', 'alltoall/linear', 'alltoall/pairwise')
    """
    chosen = (name for name in _REGISTRY if not collective or name.split("/")[0] == collective)
    return tuple(sorted(chosen))


def schedule(
    name: str,
    n_tasks: int,
    nbytes: float,
    shape: Sequence[int] | None = None,
    *,
    ports: int = 1,
    segment: float = 0,
    element: float = 4,
) -> Schedule:
    """Return the rounds of a collective algorithm; task 0 is the root.

    Parameters
    ----------
    name : str
        One of `names`: the collective, a slash, the algorithm.
    n_tasks : int
    nbytes : float
        Size of the whole buffer: of the vector that is broadcast or reduced, of the blocks of all
        tasks together in a gather, scatter or allgather, of what each task sends in an all-to-all.
    shape : sequence of int, optional
        Tasks along the dimensions of the torus that the algorithm sees, ranks in C order; one
        dimension if not given.
    ports : int
        Ports among which the buffer is split, for algorithms that drive several by themselves.
    segment : float
        Bytes of the pieces in which the algorithm sends, if it does; 0: in one piece.
    element : float
        Bytes of an element. An allreduce round a ring of fewer elements than tasks has no block for
        each of them and runs as recursive doubling, as Open MPI's does (coll_base_allreduce.c).

    Returns
    -------
    Schedule
        `Schedule.workload` gives it as a workload of dependent rounds.

    Raises
    ------
    InputError
        If the name is not known, the shape does not hold the tasks, or the algorithm does not run
        on that number of tasks or ports.

    Examples
    --------
    >>> plan = schedule("allreduce/bine", 8, 1024, (2, 2, 2), ports=3)
    >>> [int(phase.nbytes.sum()) for phase in plan.workload()]
    [8192, 8192, 8192]
    """
    if name not in _REGISTRY:
        raise InputError("unknown collective algorithm", found=name, expected=" or ".join(names()))
    n_tasks = whole_number(n_tasks, "number of tasks", 1)
    nbytes = real_number(nbytes, "nbytes", 0)
    segment = real_number(segment, "segment", 0)
    sizes = (n_tasks,) if shape is None else whole_sizes(shape, "task grid")
    if math.prod(sizes) != n_tasks:
        raise InputError("tasks do not fill the grid", found=sizes, expected=f"{n_tasks} tasks")
    ports = whole_number(ports, "ports", 1)
    if ports > 6:
        raise InputError("bad number of ports", found=ports, expected="1 to 6")
    element = real_number(element, "bytes of an element", 0)
    if name == "allreduce/ring" and nbytes < n_tasks * element:
        plan = _REGISTRY["allreduce/recursive_doubling"](n_tasks, nbytes, sizes, 1, segment)
        return replace(plan, name=name)
    return _REGISTRY[name](n_tasks, nbytes, sizes, ports, segment)


def _on_ranks(name: str, build: Callable[[int, float], Schedule]) -> None:
    _one_port(name, lambda n, nbytes, shape, segment: build(n, nbytes))


def _one_port(name: str, build: Callable[[int, float, tuple[int, ...], float], Schedule]) -> None:
    def entry(
        n: int, nbytes: float, shape: tuple[int, ...], ports: int, segment: float
    ) -> Schedule:
        if ports != 1:
            raise InputError(f"{name} drives one port", found=ports, expected=1)
        return build(n, nbytes, shape, segment)

    _REGISTRY[name] = entry


def _on_trees() -> None:
    shapes: dict[str, Callable[[int], tree_shapes.Parents]] = {
        "linear": tree_shapes.flat,
        "binary": tree_shapes.binary,
        "in_order_binary": tree_shapes.in_order_binary,
        "chain": functools.partial(tree_shapes.chains, fanout=4),
        "pipeline": tree_shapes.chains,
    }
    for key, parents in (shapes | {"binomial": trees.binomial_parents}).items():
        name = f"bcast/{key}"
        _on_ranks(
            name,
            lambda n, nbytes, name=name, parents=parents: trees.broadcast(  # type: ignore[misc]
                name, n, nbytes, parents(n)
            ),
        )
    for key, parents in (shapes | {"binomial": tree_shapes.in_order_binomial}).items():
        _reduce_tree(f"reduce/{key}", parents)


def _reduce_tree(name: str, parents: Callable[[int], tree_shapes.Parents]) -> None:
    """A reduction up a tree, in segments if there are."""

    def build(n: int, nbytes: float, shape: tuple[int, ...], segment: float) -> Schedule:
        if segment:
            return pipelined.reduce_tree(name, n, nbytes, parents(n), segment)
        return trees.reduce(name, n, nbytes, parents(n))

    _one_port(name, build)


def _linear_allreduce(n: int, nbytes: float) -> Schedule:
    parent = tree_shapes.flat(n)
    up, down = trees.reduce("", n, nbytes, parent), trees.broadcast("", n, nbytes, parent)
    return Schedule("allreduce/linear", n, nbytes, (up.lanes[0] + down.lanes[0],))


def _linear_scatter(n: int, nbytes: float) -> Schedule:
    star = trees.broadcast("", n, nbytes / n, tree_shapes.flat(n))
    return Schedule("scatter/linear", n, nbytes, star.lanes)


def _binomial_scatter(n: int, nbytes: float) -> Schedule:
    lane = trees.rank_binomial(n, nbytes)
    return Schedule("scatter/binomial", n, nbytes, (lane,))


def _binary_butterflies() -> None:
    def flat(build: Callable[..., Schedule]) -> Callable[[int, float], Schedule]:
        return lambda n, nbytes: build(n, nbytes, (n,))

    _on_ranks("allgather/recursive_doubling", flat(butterflies.allgather))
    _on_ranks("allreduce/recursive_doubling", flat(butterflies.allreduce))
    _on_ranks("allreduce/rabenseifner", flat(butterflies.rabenseifner))
    _on_ranks("reduce_scatter/recursive_halving", flat(butterflies.reduce_scatter))


def _on_torus(name: str, build: Callable[..., Schedule]) -> None:
    _REGISTRY[name] = lambda n, nbytes, shape, ports, segment: build(n, nbytes, shape, ports=ports)


def _pipelined(name: str, build: Callable[..., Schedule]) -> None:
    _REGISTRY[name] = lambda n, nbytes, shape, ports, segment: build(
        n, nbytes, shape, trees=ports, segment=segment
    )


_on_trees()
_binary_butterflies()
_REGISTRY |= torus_butterflies.entries("bine", "bine")
_REGISTRY |= torus_butterflies.entries("torus_binary", "binary")
_on_ranks("allgather/neighbor_exchange", rings.neighbor_exchange)
_on_ranks("allgather/bruck", exchanges.bruck_allgather)
_on_ranks("alltoall/bruck", exchanges.bruck_alltoall)
_on_ranks("alltoall/pairwise", exchanges.pairwise)
_on_ranks("alltoall/linear", exchanges.linear)
_on_ranks("allreduce/linear", _linear_allreduce)
_on_ranks("bcast/split_binary", trees.split_binary_broadcast)
_on_ranks("scatter/linear", _linear_scatter)
_on_ranks("gather/linear", lambda n, b: trees.upwards("gather/linear", _linear_scatter(n, b)))
_on_ranks("scatter/binomial", _binomial_scatter)
_on_ranks("gather/binomial", lambda n, b: trees.upwards("gather/binomial", _binomial_scatter(n, b)))
_on_torus("allgather/ring", rings.allgather)
_on_torus("reduce_scatter/ring", rings.reduce_scatter)
_on_torus("allreduce/ring", rings.allreduce)
_on_torus("allgather/bucket", rings.bucket_allgather)
_on_torus("reduce_scatter/bucket", rings.bucket_reduce_scatter)
_on_torus("allreduce/bucket", rings.bucket_allreduce)
_pipelined("bcast/pipelined_trees", pipelined.broadcast)
_pipelined("reduce/pipelined_trees", pipelined.reduce)
_pipelined("allreduce/pipelined_trees", pipelined.allreduce)


_one_port("alltoall/bine", lambda n, nbytes, shape, segment: butterflies.alltoall(n, nbytes, shape))
