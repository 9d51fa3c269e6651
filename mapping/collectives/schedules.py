"""The rounds of collective algorithms by name, the workload that they make, and all they send."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.validation import real_number, whole_number, whole_sizes

from ..comm_graph import CommGraph, Workload, sum_edges

# Each collective with what MPI, NCCL, XLA and JAX call it otherwise, in lower case and without
# hyphens and underscores; the last three are of meshes.
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
# All-to-alls of more tasks have too many messages to list.
MAX_TASKS = 2**16
MAX_PAIRS = 2**12
# Each task sends to each other one.
ALL_PAIRS = ("alltoall/pairwise", "alltoall/linear")
_MANY = 2**22
# Tasks whose receivers are listed at once.
_ROWS = 2**8


@dataclass(frozen=True, eq=False)
class Round:
    """Messages that tasks send at the same step of a collective."""

    src: NDArray[np.int64]
    """Sending task of each message, ``(n_messages,)``."""
    dst: NDArray[np.int64]
    """Receiving task of each."""
    nbytes: NDArray[np.float64]
    """Bytes of each; a number holds for all."""
    reduces: bool
    """Whether the receiver adds what it gets to what it has."""
    times: int
    """How often the round repeats."""
    pieces: float
    """Messages that each of these is cut into."""

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
        ends = [np.asarray(end, dtype=np.int64) for end in (src, dst)]
        amounts = np.broadcast_to(np.asarray(nbytes, dtype=np.float64), ends[0].shape)
        vars(self).update(
            src=ends[0], dst=ends[1], nbytes=amounts, reduces=reduces, times=times, pieces=pieces
        )

    def reversed(self, *, reduces: bool = False) -> Round:
        """The same messages the other way."""
        return replace(self, src=self.dst, dst=self.src, reduces=reduces)


Lane = tuple[Round, ...]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Who sends how much to whom in every round of a collective.

    Attributes
    ----------
    name : str
        Name in the registry.
    n_tasks : int
    nbytes : float
        Size of the collective's whole buffer: of the vector that is broadcast or reduced, of all
        blocks of a gather, scatter or allgather together, of what each task sends in an all-to-all.
    lanes : tuple of tuples of Round
        A lane for each port of the node that the algorithm drives by itself; each carries its share
        of the buffer.
    at_once : bool
        Whether a task starts all its rounds together; they only list the messages.

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
    lanes: tuple[Lane, ...]
    at_once: bool = False

    def rounds(self) -> Iterator[tuple[int, tuple[Round, ...]]]:
        """Rounds of all lanes side by side: repetitions, and a round of each remaining lane."""
        if len({tuple(step.times for step in lane) for lane in self.lanes}) == 1:
            yield from ((steps[0].times, steps) for steps in zip(*self.lanes, strict=True))
            return
        lanes = [[step for step in lane for _ in range(step.times)] for lane in self.lanes]
        numbers = range(max(map(len, lanes)))
        abreast = (tuple(lane[n] for lane in lanes if n < len(lane)) for n in numbers)
        for _, same in itertools.groupby(abreast, key=lambda steps: tuple(map(id, steps))):
            first, *more = same
            yield 1 + len(more), first

    def workload(self) -> Workload:
        """The messages as a workload of dependent rounds, the lanes of a round merged.

        With ``at_once`` it is a single phase; so it is for one task, which sends nothing.
        """
        phases: list[CommGraph] = []
        for times, steps in self.rounds():
            phases += [merged(self.n_tasks, steps, self.name)] * times
        phases = phases or [CommGraph(self.n_tasks, [], [], [], name=self.name)]
        if self.at_once:
            phases = [Workload(phases, name=self.name).total]
        return Workload(phases, name=self.name, dependent=True)


Lanes = tuple[Lane, ...]


class Call(NamedTuple):
    """Arguments of an algorithm, those of `schedule`."""

    n_tasks: int
    nbytes: float
    shape: tuple[int, ...]
    ports: int = 1
    segment: float = 0.0


Algorithm = Callable[[Call], Lanes]


class _Registered(NamedTuple):
    lanes: Algorithm
    several_ports: bool
    at_once: bool


_ALGORITHMS: dict[str, _Registered] = {}


def register(name: str, lanes: Algorithm, *, ports: bool = False, at_once: bool = False) -> None:
    """Register an algorithm; ``ports`` if it drives several ports by itself."""
    _ALGORITHMS[name] = _Registered(lanes, ports, at_once)


def backwards(lanes: Lanes, *, reduces: bool = False) -> Lanes:
    """Return the rounds of each lane from the last to the first, their messages the other way."""
    return tuple(tuple(step.reversed(reduces=reduces) for step in reversed(lane)) for lane in lanes)


def followed(first: Lanes, second: Lanes) -> Lanes:
    """Return each lane with another one after it."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def collective_named(word: str) -> str | None:
    """Return our name of a collective, however it is spelled; None if it is not known.

    Examples
    --------
    >>> [collective_named(word) for word in ("REDUCE_SCATTER_BLOCK", "all-to-all", "BARRIER")]
    ['reduce_scatter', 'alltoall', None]
    """
    plain = re.sub("[-_]", "", word.lower())
    found = (n for n, others in COLLECTIVES.items() if plain in (n.replace("_", ""), *others))
    return next(found, None)


def names(collective: str = "") -> tuple[str, ...]:
    """Return the names of the algorithms, all or those of one collective.

    Examples
    --------
    >>> names("alltoall")
    ('alltoall/bine', 'alltoall/bruck', 'alltoall/linear', 'alltoall/pairwise')
    """
    chosen = (name for name in _ALGORITHMS if not collective or name.split("/")[0] == collective)
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
    n_tasks, nbytes
        As of `Schedule`.
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
    ports = whole_number(ports, "number of ports", 1, max(6, 2 * len(sizes)))
    element = real_number(element, "bytes of an element", 0)
    call = Call(n_tasks, nbytes, sizes, ports, segment)
    chosen = _ALGORITHMS[name]
    if name == "allreduce/ring" and nbytes < n_tasks * element:
        chosen, call = _ALGORITHMS["allreduce/recursive_doubling"], call._replace(ports=1)
    if call.ports != 1 and not chosen.several_ports:
        raise InputError(f"{name} drives one port", found=ports, expected=1)
    return Schedule(name, n_tasks, nbytes, chosen.lanes(call), chosen.at_once)


def merged(n_tasks: int, steps: Sequence[Round], name: str = "") -> CommGraph:
    """Return the messages of several rounds as one graph."""
    src, dst, nbytes = (
        np.concatenate([getattr(step, field) for step in steps])
        for field in ("src", "dst", "nbytes")
    )
    pieces = np.concatenate([np.full(step.src.size, step.pieces) for step in steps])
    return sum_edges(n_tasks, src, dst, nbytes, pieces, name=name)


def check_size(name: str, n: int) -> None:
    """Raise `InputError` if so many tasks have too many messages to list."""
    most = MAX_PAIRS if name.startswith("alltoall") else MAX_TASKS
    if n > most:
        raise InputError(f"too many tasks for {name}", found=n, expected=f"at most {most}")


def collective_total(
    name: str,
    groups: NDArray[np.int64],
    nbytes: float,
    n_tasks: int,
    times: int = 1,
) -> CommGraph:
    """Return what a collective sends in all its rounds among the tasks of each group."""
    n = groups.shape[1]
    check_size(name, n)
    if name in ALL_PAIRS:
        return _all_pairs(groups, nbytes / n * times, float(times), n_tasks)
    rounds = schedule(name, n, nbytes).rounds()
    phases = [merged(n, steps).scaled(often * times) for often, steps in rounds]
    if not phases:
        return CommGraph(n_tasks, [], [], [])
    return in_groups(Workload(phases).total, groups, n_tasks)


def in_groups(graph: CommGraph, groups: NDArray[np.int64], n_tasks: int) -> CommGraph:
    """Return the messages of a graph among the tasks of each group, ``(n_groups, n)``."""
    ends = (groups[:, each].ravel() for each in (graph.src, graph.dst))
    amounts = (np.tile(each, len(groups)) for each in (graph.nbytes, graph.n_messages))
    return sum_edges(n_tasks, *ends, *amounts)


def edges_of(name: str, groups: NDArray[np.int64]) -> int:
    """Return about how many edges a collective has."""
    n = groups.shape[1]
    partners: int = n - 1 if name.startswith("alltoall") else n.bit_length()
    return groups.size * partners


def _all_pairs(
    groups: NDArray[np.int64], nbytes: float, n_messages: float, n_tasks: int
) -> CommGraph:
    """Each task of a group to each other one, listed in the order that graphs have."""
    n_groups, n = groups.shape
    inside = np.sort(groups, axis=1).astype(np.int32)
    tasks, where = np.unique(inside, return_index=True)
    if tasks.size < inside.size or n < 2:
        others = ~np.eye(n, dtype=bool)
        square = np.broadcast_to(inside[:, None, :], (n_groups, n, n))
        dst, src = square[:, others].ravel(), square.swapaxes(1, 2)[:, others].ravel()
        size, count = np.full(src.size, nbytes), np.full(src.size, n_messages)
        return sum_edges(n_tasks, src, dst, size, count)
    src = np.repeat(tasks, n - 1)
    dst = np.empty((tasks.size, n - 1), np.int32)
    for low in range(0, tasks.size, _ROWS):
        rows = slice(low, low + _ROWS)
        to = inside[where[rows] // n]
        dst[rows] = to[to != tasks[rows, None]].reshape(-1, n - 1)
    dst = dst.ravel()
    for column in (src, dst):
        column.setflags(write=False)
    # All edges have this number where they are many.
    amounts = [np.broadcast_to(np.float64(value), src.shape) for value in (nbytes, n_messages)]
    if src.size < _MANY:
        amounts = [amount.copy() for amount in amounts]
    return CommGraph(n_tasks, src, dst, *amounts)
