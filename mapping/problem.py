"""The mapping problem: traffic, a torus and its routing, validated once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, get_args

from toruscast._lazy import PickledByFields, lazy
from toruscast.errors import InputError
from toruscast.validation import Routing, one_of

from .comm_graph import CommGraph, Workload, as_workload
from .machines import TorusLike as TorusLike
from .machines import as_torus
from .task_mapping import TaskMapping, as_mapping, as_mappings
from .torus import Torus

if TYPE_CHECKING:
    from .comm_graph import Traffic
    from .task_mapping import MappingLike as MappingLike
    from .task_mapping import Mappings as Mappings

    ProblemLike: TypeAlias = "MappingProblem | Traffic"

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False, init=False)
class MappingProblem(PickledByFields):
    """Traffic to map onto a torus, and the routing of its messages.

    Public functions accept a problem in place of the traffic and the torus, or build one from both
    (`as_problem`). Internal functions take only problems. A problem caches derived values, such as
    packets and sorted edges (`derive`).

    Parameters
    ----------
    workload : Workload, CommGraph, networkx.Graph, DataFrame, sparse matrix or ndarray
        A graph becomes the only phase. Arrays are square matrices of bytes, source by destination.
    torus : Torus, str or sequence of int
        A string is a shape such as ``"4x4x8"`` or a machine such as ``"bluegene_q:64"``.
    routing : {"deterministic", "adaptive", "by_size"}

    Examples
    --------
    >>> import numpy as np
    >>> problem = MappingProblem(np.array([[0, 8], [8, 0]]), "4x4")
    >>> problem.workload, problem.torus.n_nodes
    (Workload(2 tasks, 1 phase, 16.0 B), 16)
    >>> [mapping.name for mapping in problem.mappings({"near": [0, 1], "far": [0, 10]})]
    ['near', 'far']
    """

    workload: Workload
    torus: Torus
    routing: Routing

    def __init__(
        self, workload: Traffic, torus: TorusLike, routing: Routing = "deterministic"
    ) -> None:
        one_of(routing, "routing", get_args(Routing))
        vars(self).update(workload=as_workload(workload), torus=as_torus(torus), routing=routing)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.workload.n_tasks

    @property
    def comm(self) -> CommGraph:
        """The traffic of all phases in one graph."""
        return self.workload.total

    @property
    def phases(self) -> tuple[MappingProblem, ...]:
        """A problem for each phase; identical phases share a problem and its cached values.

        With routing ``by_size``, a phase whose longest message exceeds
        ``torus.network.deterministic_limit`` bytes is adaptive, and other phases are deterministic.
        If any round of a dependent workload is adaptive, all of its rounds are.
        """
        # If a problem cached itself, it would stay in memory until garbage collection.
        is_phase = len(self.workload) == 1 and self.routing != "by_size"
        return (self,) if is_phase else self._phases

    @property
    def is_chained(self) -> bool:
        """Whether the workload has several dependent rounds, without barriers."""
        return self.workload.dependent and len(self.workload) > 1

    @property
    def total(self) -> MappingProblem:
        """A problem with a single phase, which is the sum of all phases."""
        return self.phases[0] if len(self.workload) == 1 else self._total

    @property
    def unrolled(self) -> MappingProblem:
        """The phases as one graph with separate tasks for each phase; see `Workload.unrolled`."""
        return self.phases[0] if len(self.workload) == 1 else self._unrolled

    def placed(self, mapping: TaskMapping) -> TaskMapping:
        """Return the mapping for the tasks of `unrolled`."""
        return self.workload.unrolled.placed(mapping)

    @lazy
    def _phases(self) -> tuple[MappingProblem, ...]:
        """A problem for each phase, cached; see `phases`."""
        routings = [self._select_routing(phase) for phase in self.workload]
        if self.workload.dependent and "adaptive" in routings:
            routings = ["adaptive"] * len(routings)
        problems = {
            id(phase): MappingProblem(phase, self.torus, routing)
            for phase, routing in zip(self.workload, routings, strict=True)
        }
        return tuple(problems[id(phase)] for phase in self.workload)

    def _select_routing(self, phase: CommGraph) -> Routing:
        """Return the routing of a phase; with ``by_size``, its longest message determines it."""
        if self.routing != "by_size":
            return self.routing
        sent = phase.whole_messages > 0
        longest = (phase.nbytes[sent] / phase.whole_messages[sent]).max(initial=0.0)
        return "adaptive" if longest > self.torus.network.deterministic_limit else "deterministic"

    @property
    def common_routing(self) -> Routing | None:
        """The routing of all phases; None if they differ."""
        if self.routing != "by_size":
            return self.routing
        routings = {phase.routing for phase in self.phases}
        return routings.pop() if len(routings) == 1 else None

    @lazy
    def _total(self) -> MappingProblem:
        return MappingProblem(self.comm, self.torus, self.common_routing or "deterministic")

    @lazy
    def _unrolled(self) -> MappingProblem:
        comm = self.workload.unrolled.comm
        return MappingProblem(comm, self.torus, self.common_routing or "deterministic")

    def derive(
        self,
        function: Callable[Concatenate[MappingProblem, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function of the problem and hashable arguments, and cache its result."""
        key = (function, args, tuple(kwargs.items()))
        if key not in self._derived:
            self._derived[key] = function(self, *args, **kwargs)
        result: T = self._derived[key]
        return result

    @lazy
    def _derived(self) -> dict[Any, Any]:
        return {}

    def mapping(self, mapping: MappingLike | None, name: str = "") -> TaskMapping:
        """Return one mapping, validated against the tasks and the torus.

        An array gives the node of each task, by number or coordinates.
        """
        checked = as_mapping(mapping, self.torus, name)
        checked.check(self.n_tasks, self.torus)
        return checked

    def mappings(self, mappings: Mappings) -> tuple[TaskMapping, ...]:
        """Return several mappings, each validated.

        The argument is a sequence, a dictionary of mappings by name, or a DataFrame with the nodes
        of a mapping in each column. A single mapping counts as a sequence of one mapping.
        """
        return tuple(map(self.mapping, as_mappings(mappings, self.torus, self.n_tasks)))


def as_problem(
    comm: ProblemLike, torus: TorusLike | None, routing: Routing = "deterministic"
) -> MappingProblem:
    """Return a given problem unchanged, or build one from traffic, a torus and a routing."""
    if not isinstance(comm, MappingProblem):
        if torus is None:
            raise InputError("no torus", expected="torus=, or a MappingProblem as the traffic")
        return MappingProblem(comm, torus, routing)
    if torus is not None:
        expected = "no torus, and mappings by keyword: rank(problem, mappings=...)"
        raise InputError("a MappingProblem and a torus", found=repr(torus), expected=expected)
    if routing not in ("deterministic", comm.routing):
        expected = f"{comm.routing}, the routing of the problem"
        raise InputError("another routing", found=routing, expected=expected)
    return comm
