"""An application step as a sequence of phases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toruscast._lazy import PickledByFields, lazy
from toruscast.errors import InputError

from .comm_graph import CommGraph, sum_edges


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
