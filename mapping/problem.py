"""The mapping problem: traffic, a torus and its routing, checked once and passed on together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from toruscast._lazy import PickledByFields, lazy
from toruscast.errors import InputError
from toruscast.validation import Routing, check_routing

from .comm_graph import CommGraph, Workload, as_workload
from .machines import torus_from_text
from .task_mapping import TaskMapping
from .torus import Torus

if TYPE_CHECKING:
    import pandas as pd

    from .comm_graph import Traffic

    TorusLike = Torus | str | Sequence[int]
    MappingLike = TaskMapping | ArrayLike
    Mappings = MappingLike | Iterable[MappingLike] | Mapping[str, MappingLike] | pd.DataFrame

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False, init=False)
class MappingProblem(PickledByFields):
    """Traffic that is mapped onto a torus, and how its messages are routed.

    Public functions build it once from what users have; everything inside takes it. Values derived
    from it, such as packets and sorted edges, are kept with it (`derive`).

    Parameters
    ----------
    workload : Workload, CommGraph, networkx.Graph, DataFrame, sparse matrix or ndarray
        A graph becomes the only phase. Arrays are square matrices of bytes, source by destination.
    torus : Torus, str or sequence of int
        Text is a shape such as ``"4x4x8"`` or a machine such as ``"bluegene_q:64"``.
    routing : {"deterministic", "adaptive", "by_size"}

    Examples
    --------
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
        check_routing(routing)
        vars(self).update(workload=as_workload(workload), torus=as_torus(torus), routing=routing)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.workload.n_tasks

    @property
    def comm(self) -> CommGraph:
        """The traffic of all phases in one graph."""
        return self.workload.total

    @lazy
    def phases(self) -> tuple[MappingProblem, ...]:
        """A problem for each phase; equal phases share one, with what is derived from it."""
        if len(self.workload) == 1:
            return (self,)
        made = {id(each): each for each in self.workload}
        problems = {
            key: MappingProblem(each, self.torus, self.routing) for key, each in made.items()
        }
        return tuple(problems[id(each)] for each in self.workload)

    def derive(
        self,
        function: Callable[Concatenate[MappingProblem, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what a function makes of the problem, computed once for the same arguments."""
        key = (function, args, tuple(kwargs.items()))
        if key not in self._derived:
            self._derived[key] = function(self, *args, **kwargs)
        found: T = self._derived[key]
        return found

    @lazy
    def _derived(self) -> dict[Any, Any]:
        return {}

    def mapping(self, mapping: MappingLike, name: str = "") -> TaskMapping:
        """Return one mapping, checked against the tasks and the torus.

        An array holds the node of each task.
        """
        if not isinstance(mapping, TaskMapping):
            try:
                nodes = np.asarray(mapping)
            except ValueError:
                nodes = np.empty(0, dtype=object)
            if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
                expected = "a TaskMapping, or the node of each task"
                raise InputError("bad mapping", found=repr(mapping), expected=expected)
            mapping = TaskMapping(nodes, self.torus, name=name)
        mapping.check(self.n_tasks, self.torus)
        return mapping

    def mappings(self, mappings: Mappings) -> tuple[TaskMapping, ...]:
        """Return several mappings, each checked.

        They come from a sequence, a dict of names to mappings, or a DataFrame with the nodes of a
        mapping in each column. One mapping alone is a list of one.
        """
        several: Any = mappings
        if isinstance(several, TaskMapping):
            return (self.mapping(several),)
        if hasattr(several, "columns"):
            several = {str(name): several[name].to_numpy() for name in several.columns}
        if isinstance(several, Mapping):
            return tuple(self.mapping(each, str(name)) for name, each in several.items())
        if not isinstance(several, Iterable) or isinstance(several, str):
            expected = "TaskMappings, or arrays with the node of each task"
            raise InputError("bad mappings", found=repr(mappings), expected=expected)
        several = list(several)
        if several and np.ndim(several[0]) == 0 and not isinstance(several[0], TaskMapping):
            return (self.mapping(several),)
        return tuple(map(self.mapping, several))


def as_torus(torus: TorusLike) -> Torus:
    """Return a torus as it is, or that of a text or a shape."""
    if isinstance(torus, str):
        return torus_from_text(torus)
    if isinstance(torus, Torus):
        return torus
    try:
        shape = tuple(torus)
    except TypeError:
        expected = "a Torus, a shape such as (8, 8, 8), or text such as '8x8x8'"
        raise InputError("bad torus", found=torus, expected=expected) from None
    return Torus(shape)
