"""Schedules of collective algorithms: their rounds, workloads and total traffic."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from toruscast.errors import InputError
from toruscast.typing import Floats, Ints
from toruscast.validation import real_number, whole_number, whole_sizes

from ..comm_graph import CommGraph, Workload, sum_edges

# Each collective and its other names in MPI, NCCL, XLA and JAX, in lower case and without hyphens
# and underscores. The last three are collectives of device meshes.
COLLECTIVES = {
    "allreduce": ("psum",),
    "allgather": (),
    "reduce_scatter": ("psumscatter", "reducescatterblock"),
    "alltoall": (),
    "bcast": ("broadcast", "collectivebroadcast"),
    "reduce": (),
    "gather": (),
    "scatter": (),
    "permute": ("collectivepermute", "ppermute", "shift"),
    "pipeline": (),
    "exchange": (),
}
# Maximum number of tasks of a collective, and of an all-to-all, to limit the number of edges.
MAX_TASKS = 2**16
MAX_ALL_TO_ALL_TASKS = 2**12
# Algorithms in which each task sends directly to every other task.
ALL_PAIRS = ("alltoall/pairwise", "alltoall/linear")
# Graphs with at least this many edges store constant columns as broadcast arrays.
_MAX_COPIED_EDGES = 2**22
# Number of tasks per block, which limits the size of temporary arrays.
_BLOCK_SIZE = 2**8


@dataclass(frozen=True, eq=False)
class Round:
    """Messages of one step of a collective; the arrays have shape ``(n_messages,)``."""

    src: Ints
    dst: Ints
    nbytes: Floats
    reduces: bool  # whether receivers combine the received data with their own
    times: int  # number of repetitions of the round
    pieces: float  # number of segments that each message is split into

    def __init__(
        self,
        src: ArrayLike,
        dst: ArrayLike,
        nbytes: ArrayLike,
        *,
        reduces: bool = False,
        times: int = 1,
        pieces: float = 1.0,
    ) -> None:
        src, dst = np.asarray(src, dtype=np.int64), np.asarray(dst, dtype=np.int64)
        nbytes = np.broadcast_to(np.asarray(nbytes, dtype=np.float64), src.shape)
        vars(self).update(
            src=src, dst=dst, nbytes=nbytes, reduces=reduces, times=times, pieces=pieces
        )

    def reversed(self, *, reduces: bool = False) -> Round:
        """Return the round with senders and receivers exchanged."""
        return replace(self, src=self.dst, dst=self.src, reduces=reduces)


# The rounds of one port. An algorithm that uses several ports has several lanes.
Lane = tuple[Round, ...]
Lanes = tuple[Lane, ...]


@dataclass(frozen=True, eq=False)
class Schedule:
    """The messages of every round of a collective.

    Attributes
    ----------
    name : str
        Name in the registry.
    n_tasks : int
    nbytes : float
        Size of the collective's buffer: the vector of a broadcast or reduction, all blocks of a
        gather, scatter or allgather, and the data that each task sends in an all-to-all.
    lanes : tuple of tuples of Round
        The rounds of each port that the algorithm uses; each port carries its share of the buffer.
    at_once : bool
        Whether a task starts all rounds at once, so that their order has no effect.

    Examples
    --------
    >>> swap = Round([0, 1], [1, 0], 8, reduces=True, times=2)
    >>> rounds = Schedule("allreduce/twice", 2, 8, ((swap,),)).workload()
    >>> len(rounds), rounds.dependent, rounds.total.nbytes.tolist()
    (2, True, [16.0, 16.0])
    """

    name: str
    n_tasks: int
    nbytes: float
    lanes: Lanes
    at_once: bool = False

    def rounds(self) -> Iterator[tuple[int, tuple[Round, ...]]]:
        """Yield the number of repetitions and the rounds of each set of simultaneous rounds."""
        # If rounds repeat equally often in all lanes, the repetitions need not be expanded.
        if len({tuple(step.times for step in lane) for lane in self.lanes}) == 1:
            yield from ((steps[0].times, steps) for steps in zip(*self.lanes, strict=True))
            return
        lanes = [[step for step in lane for _ in range(step.times)] for lane in self.lanes]
        numbers = range(max(map(len, lanes)))
        simultaneous = (tuple(lane[n] for lane in lanes if n < len(lane)) for n in numbers)
        for _, equal in itertools.groupby(simultaneous, key=lambda steps: tuple(map(id, steps))):
            first, *others = equal
            yield 1 + len(others), first

    def workload(self) -> Workload:
        """Return the rounds of all lanes as one workload; with ``at_once``, as a single phase."""
        phases: list[CommGraph] = []
        for times, steps in self.rounds():
            phases += [merged(self.n_tasks, steps, self.name)] * times
        phases = phases or [CommGraph(self.n_tasks, [], [], [], name=self.name)]
        if self.at_once:
            phases = [Workload(phases, name=self.name).total]
        return Workload(phases, name=self.name, dependent=True)


class CollectiveCall(NamedTuple):
    """Arguments of an algorithm; see `schedule`."""

    n_tasks: int
    nbytes: float
    shape: tuple[int, ...]
    ports: int = 1
    segment: float = 0.0


Algorithm = Callable[[CollectiveCall], Lanes]


class _RegisteredAlgorithm(NamedTuple):
    build_lanes: Algorithm
    uses_ports: bool = False  # whether it can use several ports
    at_once: bool = False


_ALGORITHMS: dict[str, _RegisteredAlgorithm] = {}


def register(name: str, build_lanes: Algorithm, **flags: bool) -> None:
    """Register an algorithm; the flags are ``uses_ports`` and ``at_once``."""
    _ALGORITHMS[name] = _RegisteredAlgorithm(build_lanes, **flags)


def reverse_lanes(lanes: Lanes, *, reduces: bool = False) -> Lanes:
    """Return the lanes with the order of rounds and the direction of messages reversed."""
    return tuple(tuple(step.reversed(reduces=reduces) for step in reversed(lane)) for lane in lanes)


def concatenate_lanes(first: Lanes, second: Lanes) -> Lanes:
    """Return the lanes of two algorithms that run one after the other."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def find_collective(word: str) -> str | None:
    """Return the registered name of a collective such as "All-Reduce"; None if it is unknown."""
    plain = re.sub("[-_]", "", word.lower())
    matches = (n for n, others in COLLECTIVES.items() if plain in (n.replace("_", ""), *others))
    return next(matches, None)


def names(collective: str = "") -> tuple[str, ...]:
    """Return the names of all algorithms, or those of one collective.

    Examples
    --------
    >>> names("alltoall")
    ('alltoall/bine', 'alltoall/bruck', 'alltoall/linear', 'alltoall/pairwise')
    """
    return tuple(sorted(n for n in _ALGORITHMS if collective in ("", n.split("/")[0])))


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
        One of `names`, as ``collective/algorithm``.
    n_tasks, nbytes
        See `Schedule`.
    shape : sequence of int, optional
        Tasks along each dimension of the torus, with ranks in C order; one dimension if not given.
    ports : int
        Number of ports that share the buffer, for algorithms that can use several.
    segment : float
        Maximum bytes of a segment, for algorithms that send segments; 0 for a single segment.
    element : float
        Bytes of an element. With fewer elements than tasks, a ring allreduce runs as recursive
        doubling, as in Open MPI (coll_base_allreduce.c).

    Examples
    --------
    >>> plan = schedule("allreduce/bine", 8, 1024, (2, 2, 2), ports=3)
    >>> [int(phase.nbytes.sum()) for phase in plan.workload()]
    [8192, 8192, 8192]
    """
    if name not in _ALGORITHMS:
        raise InputError("unknown collective algorithm", found=name, expected=" or ".join(names()))
    n_tasks = whole_number(n_tasks, "number of tasks", 1)
    nbytes = real_number(nbytes, "nbytes", 0)
    segment = real_number(segment, "segment", 0)
    sizes = (n_tasks,) if shape is None else whole_sizes(shape, "task grid")
    if math.prod(sizes) != n_tasks:
        raise InputError("tasks do not fill the grid", found=sizes, expected=f"{n_tasks} tasks")
    # Any grid may use the six network interfaces of a Fugaku node.
    ports = whole_number(ports, "number of ports", 1, max(6, 2 * len(sizes)))
    element = real_number(element, "bytes of an element", 0)
    call = CollectiveCall(n_tasks, nbytes, sizes, ports, segment)
    algorithm = _ALGORITHMS[name]
    if name == "allreduce/ring" and nbytes < n_tasks * element:
        algorithm, call = _ALGORITHMS["allreduce/recursive_doubling"], call._replace(ports=1)
    if call.ports != 1 and not algorithm.uses_ports:
        raise InputError(f"{name} uses one port", found=ports, expected=1)
    return Schedule(name, n_tasks, nbytes, algorithm.build_lanes(call), algorithm.at_once)


def merged(n_tasks: int, steps: Sequence[Round], name: str = "") -> CommGraph:
    """Combine the messages of several rounds in one graph."""
    src = np.concatenate([step.src for step in steps])
    dst = np.concatenate([step.dst for step in steps])
    nbytes = np.concatenate([step.nbytes for step in steps])
    pieces = np.concatenate([np.full(step.src.size, step.pieces) for step in steps])
    return sum_edges(n_tasks, src, dst, nbytes, pieces, name=name)


def check_size(name: str, n: int) -> None:
    """Raise `InputError` if ``n`` tasks would make too many edges."""
    limit = MAX_ALL_TO_ALL_TASKS if name.startswith("alltoall") else MAX_TASKS
    if n > limit:
        raise InputError(f"too many tasks for {name}", found=n, expected=f"at most {limit}")


def collective_total(
    name: str, groups: Ints, nbytes: float, n_tasks: int, times: int = 1
) -> CommGraph:
    """Return the total traffic of a collective that runs in each group, ``(n_groups, n)``."""
    n = groups.shape[1]
    check_size(name, n)
    if name in ALL_PAIRS:
        return _connect_all_pairs(groups, nbytes / n * times, float(times), n_tasks)
    rounds = schedule(name, n, nbytes).rounds()
    phases = [merged(n, steps).scaled(repetitions * times) for repetitions, steps in rounds]
    if not phases:
        return CommGraph(n_tasks, [], [], [])
    return copy_to_groups(Workload(phases).total, groups, n_tasks)


def copy_to_groups(graph: CommGraph, groups: Ints, n_tasks: int) -> CommGraph:
    """Copy a graph to the tasks of each group, ``(n_groups, n)``, and sum the copies."""
    src, dst = groups[:, graph.src].ravel(), groups[:, graph.dst].ravel()
    amounts = (np.tile(column, len(groups)) for column in (graph.nbytes, graph.n_messages))
    return sum_edges(n_tasks, src, dst, *amounts)


def estimate_edges(name: str, groups: Ints) -> int:
    """Return the approximate number of edges of a collective."""
    n = groups.shape[1]
    partners: int = n - 1 if name.startswith("alltoall") else n.bit_length()
    return groups.size * partners


def _connect_all_pairs(groups: Ints, nbytes: float, n_messages: float, n_tasks: int) -> CommGraph:
    """Return a graph of equal edges between all tasks of each group, ``(n_groups, n)``."""
    n = groups.shape[1]
    members = np.sort(groups, axis=1).astype(np.int32)
    # List the tasks in ascending order, each with the other members of its group.
    order = np.argsort(members, axis=None)
    src, dst = members.ravel()[order], np.empty((members.size, n - 1), np.int32)
    for start in range(0, src.size, _BLOCK_SIZE):
        rows = slice(start, start + _BLOCK_SIZE)
        is_other = np.arange(n) != order[rows, None] % n
        dst[rows] = members[order[rows] // n][is_other].reshape(dst[rows].shape)
    src, dst = np.repeat(src, n - 1), dst.ravel()
    for column in (src, dst):
        column.setflags(write=False)
    amounts = [np.broadcast_to(np.float64(value), src.shape) for value in (nbytes, n_messages)]
    if src.size < _MAX_COPIED_EDGES:
        amounts = [amount.copy() for amount in amounts]
    is_disjoint = np.unique(members).size == members.size
    return (CommGraph if is_disjoint else sum_edges)(n_tasks, src, dst, *amounts)
