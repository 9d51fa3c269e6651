"""An application step as a sequence of phases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import PickledByFields, lazy
from toruscast.errors import InputError
from toruscast.notebook import html_card
from toruscast.text import counted, nbytes, shown_name

from .comm_graph import COLUMNS, CommGraph, sum_edges
from .task_mapping import TaskMapping


class Unrolled(NamedTuple):
    """All phases side by side in one graph, so that a pass over its edges sees all of them."""

    comm: CommGraph
    """A task of it is a task in one phase; its edges are those of the phases, one after another."""
    task: NDArray[np.int32]
    """Task of the workload of each task of the graph."""
    begin: NDArray[np.int64]
    """Edges of phase p are ``begin[p]`` to ``begin[p + 1]``."""

    @property
    def phase(self) -> NDArray[np.int64]:
        """Phase of every edge."""
        return np.repeat(np.arange(self.begin.size - 1), np.diff(self.begin))

    def placed(self, mapping: TaskMapping) -> TaskMapping:
        """Return the mapping of the graph's tasks."""
        if self.begin.size == 2:
            return mapping
        return TaskMapping(mapping.node[self.task], mapping.n_nodes)


@dataclass(frozen=True, eq=False)
class Workload(PickledByFields):
    """Phases of communication, each a `CommGraph` over the same tasks, one after the other.

    Parameters
    ----------
    phases : sequence of CommGraph
        At least one; a barrier stands between them.
    name : str
        A label for reports; that of the first phase if not given.
    dependent : bool, default False
        Whether the phases are rounds without a barrier, such as the steps of a collective: a task
        goes on to round r + 1 when every message sent to it in round r has arrived, it has handed
        over its own of round r and those that it had to ask for are taken, whatever the other tasks
        do.
    summed : bool, default False
        Whether it is the sum of a whole run, as profiles give it: who waited for whom is lost.

    Raises
    ------
    InputError
        If there is no phase, the phases differ in the number of tasks, or ``dependent`` is not a
        bool.

    Examples
    --------
    >>> step = Workload([CommGraph(2, [0], [1], [10]), CommGraph(2, [1], [0], [30])], name="swap")
    >>> step.total
    CommGraph(swap: 2 tasks, 2 edges, 40 bytes, 2 messages)
    """

    phases: Sequence[CommGraph]
    name: str = ""
    dependent: bool = False
    summed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.phases, Iterable):
            raise InputError("bad phases", found=self.phases, expected="a sequence of CommGraph")
        phases = tuple(self.phases)
        if not phases:
            raise InputError("workload without a phase")
        wrong = [type(phase).__name__ for phase in phases if not isinstance(phase, CommGraph)]
        if wrong:
            raise InputError("bad phase", found=wrong[0], expected="CommGraph")
        sizes = {phase.n_tasks for phase in phases}
        if len(sizes) > 1:
            raise InputError("phases differ in their number of tasks", found=sorted(sizes))
        if not isinstance(self.dependent, bool | np.bool_):
            raise InputError("bad dependent", found=self.dependent, expected="True or False")
        object.__setattr__(self, "phases", phases)
        object.__setattr__(self, "dependent", bool(self.dependent))
        object.__setattr__(self, "name", self.name or phases[0].name)

    def __repr__(self) -> str:
        label = f"{shown_name(self.name)}: " if self.name else ""
        kind = "round" if self.dependent else "phase"
        sent = sum(float(phase.nbytes.sum()) for phase in self.phases)
        return (
            f"Workload({label}{counted(self.n_tasks, 'task')}, "
            f"{counted(len(self.phases), kind)}, {nbytes(sent)})"
        )

    def _repr_html_(self) -> str:
        return html_card(self)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.phases[0].n_tasks

    @property
    def grid(self) -> tuple[int, ...] | None:
        """The logical task grid of the first phase that has one."""
        return next((phase.grid for phase in self.phases if phase.grid), None)

    @lazy
    def total(self) -> CommGraph:
        """The traffic of all phases in one graph."""
        if len(self.phases) == 1:
            return self.phases[0].renamed(self.name)
        # Rounds of an algorithm are often the same object many times.
        times = Counter(map(id, self.phases))
        phases = {id(phase): phase for phase in self.phases}
        ends = (np.concatenate([getattr(p, f) for p in phases.values()]) for f in ("src", "dst"))
        amounts = (
            np.concatenate([getattr(p, f) * times[key] for key, p in phases.items()])
            for f in ("nbytes", "n_messages")
        )
        return sum_edges(self.n_tasks, *ends, *amounts, grid=self.grid, name=self.name)

    @lazy
    def unrolled(self) -> Unrolled:
        """All phases side by side in one graph."""
        sizes = [phase.n_edges for phase in self.phases]
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if len(self.phases) == 1:
            return Unrolled(self.phases[0], np.arange(self.n_tasks, dtype=np.int32), begin)
        src, dst, nbytes, n_messages = (
            np.concatenate([getattr(phase, f) for phase in self.phases]) for f in COLUMNS
        )
        # Only tasks that send or receive in a phase have a place, in the order of their numbers.
        ahead = np.repeat(np.arange(len(sizes)), sizes) * np.int64(self.n_tasks)
        used, place = np.unique(np.concatenate([ahead + src, ahead + dst]), return_inverse=True)
        task = (used % self.n_tasks).astype(np.int32)
        ends = place[: src.size], place[src.size :]
        graph = CommGraph(max(1, used.size), *ends, nbytes, n_messages, name=self.name)
        return Unrolled(graph, task if used.size else np.zeros(1, dtype=np.int32), begin)

    def __iter__(self) -> Iterator[CommGraph]:
        return iter(self.phases)

    def __len__(self) -> int:
        return len(self.phases)


def as_workload(traffic: Workload | CommGraph) -> Workload:
    """Return ``traffic`` as a workload; a single graph becomes its only phase.

    Raises
    ------
    InputError
        If it is neither.
    """
    if not isinstance(traffic, Workload | CommGraph):
        raise InputError(
            "bad traffic", found=type(traffic).__name__, expected="a Workload or CommGraph"
        )
    return traffic if isinstance(traffic, Workload) else Workload([traffic])
