"""The placement problem, and the registry of strategies by name."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import LazyModule, lazy
from toruscast.errors import InputError
from toruscast.text import closest
from toruscast.validation import SEED, Seed, check_type, seed_number, whole_number

from ..comm_graph import Partners, sum_edges
from ..problem import MappingProblem, as_problem
from ..task_mapping import MAX_SLOTS, Allocation, TaskMapping, check_tasks_fit, min_capacity
from ..torus import Torus
from ..twist import TorusMetric, find_images
from .orders import factor_near_cube

if TYPE_CHECKING:
    from ..problem import ProblemLike, TorusLike
    from . import placement_kernels as placement_kernels
else:
    # numba is slow to import, and few strategies need it.
    placement_kernels = LazyModule("toruscast.mapping.strategies.placement_kernels")


@dataclass(frozen=True, eq=False)
class Placement:
    """The problem of placing tasks on the slots of nodes.

    Slots are numbered over all nodes: number ``p`` is slot ``p % tasks_per_node`` of node
    ``p // tasks_per_node``.

    Parameters
    ----------
    problem : MappingProblem
        Traffic without a task grid gets a near-cubic one of three dimensions.
    tasks_per_node : int, optional
        The ``capacity`` of a node; by default, the minimum with which all tasks fit.
    is_late : callable
        Returns whether strategies that compare several mappings should stop and return the best.

    Examples
    --------
    >>> placement = Placement(MappingProblem(CommGraph(12, [0], [1], [8]), "3x3"))
    >>> placement.grid, placement.capacity, placement.n_places
    ((3, 2, 2), 2, 18)
    """

    problem: MappingProblem
    tasks_per_node: int | None = None
    is_late: Callable[[], bool] = lambda: False
    capacity: int = field(init=False)
    """Number of tasks that fit on a node."""
    bases: dict[str, NDArray[Any]] = field(init=False, default_factory=dict)
    """Cache of the mappings from which swaps start, by name."""

    def __post_init__(self) -> None:
        n_tasks, n_nodes = self.n_tasks, self.torus.usable_nodes.size
        capacity = self.tasks_per_node
        if capacity is None:
            capacity = min(min_capacity(n_tasks, n_nodes), MAX_SLOTS)
        capacity = whole_number(capacity, "tasks per node", 1, MAX_SLOTS)
        check_tasks_fit(n_tasks, n_nodes, capacity)
        object.__setattr__(self, "capacity", capacity)

    @property
    def torus(self) -> Torus:
        """The torus."""
        return self.problem.torus

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.problem.n_tasks

    @property
    def n_places(self) -> int:
        """Number of slots of all nodes."""
        return self.torus.n_nodes * self.capacity

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the torus, and the number of slots per node."""
        return (*self.torus.shape, self.capacity)

    @lazy
    def grid(self) -> tuple[int, ...]:
        """The logical task grid."""
        return self.problem.workload.grid or factor_near_cube(self.n_tasks, 3)

    @lazy
    def letters(self) -> str:
        """The machine's letter for each dimension, and T for the slots."""
        return self.torus.axes + "T"

    @lazy
    def partners(self) -> Partners:
        """Bytes that pairs of tasks exchange, summed over both directions."""
        comm = self.problem.comm
        is_sent = (comm.src != comm.dst) & (comm.nbytes > 0)
        pairs = np.array([comm.src[is_sent], comm.dst[is_sent]])
        src, dst = np.hstack([pairs, pairs[::-1]])
        both = sum_edges(self.n_tasks, src, dst, np.tile(comm.nbytes[is_sent], 2))
        return Partners(both.first.copy(), both.dst.astype(np.int64), both.nbytes.copy())

    @lazy
    def metric(self) -> TorusMetric:
        """Distances on the torus, for kernels."""
        shape, twist = self.torus.shape, self.torus.twist
        return TorusMetric(np.array(shape), np.array(self.torus.wrap), find_images(shape, twist))

    def mapping(self, node: NDArray[Any], name: str) -> TaskMapping:
        """Return a mapping, given the node of each task."""
        return TaskMapping(node, self.torus, tasks_per_node=self.capacity, name=name)

    def hop_bytes(self, node: NDArray[Any]) -> float:
        """Return bytes times hops, summed over all edges, given the node of each task."""
        edges = self.problem.comm
        if self.torus.twist:
            return float(self.torus.distance(node[edges.src], node[edges.dst]) @ edges.nbytes)
        columns = edges.src, edges.dst, edges.nbytes
        shape, wrap = np.array(self.torus.shape, dtype=np.int32), np.array(self.torus.wrap)
        coords = self.torus.coords[node]
        return float(placement_kernels.sum_hop_bytes(*columns, coords, shape, wrap))


Rng = np.random.Generator
PlaceFunction = Callable[[Placement, str, Rng], NDArray[Any]]
VariantsFunction = Callable[[Placement], list[str]]


@dataclass(frozen=True)
class Strategy:
    """A family of mappings; a mapping is named by family and variant, such as ``tilt-XY-1``."""

    family: str
    form: str  # form of the names, with parameters in capitals: "tilt-LETTERS-K"
    place: PlaceFunction  # returns the node of each task
    variants: VariantsFunction  # returns the variants for a placement, best first
    example: str  # example of a name
    parameters: str  # description of the parameters; empty if there are none
    sampled: bool = True  # whether `sample` uses the family by default


class VariantError(InputError):
    """An invalid variant of a family; `place_tasks` adds the form of the family's names."""

    def __init__(self) -> None:
        super().__init__("bad strategy parameters")


STRATEGIES: dict[str, Strategy] = {}


def register(
    form: str,
    variants: VariantsFunction | None = None,
    *,
    example: str = "",
    parameters: str = "",
    sampled: bool = True,
) -> Callable[[PlaceFunction], PlaceFunction]:
    """Register a function as a strategy, under the first word of ``form``.

    The arguments are fields of `Strategy`. If ``variants`` is not given, a form without parameters
    has a single variant, the family itself; other forms have no variants. ``parameters`` may
    contain {letters} (of the dimensions and the slots), {dimensions} (letters of the dimensions
    only), {grid} (the task grid) and {places} (number of slots), which messages replace. The
    function must raise `VariantError` if the variant is invalid.

    Examples
    --------
    >>> @register("mirror")
    ... def mirror(placement, variant, rng):
    ...     return placement.torus.n_nodes - 1 - np.arange(placement.n_tasks) // placement.capacity
    >>> "mirror" in patterns()
    True
    >>> del STRATEGIES["mirror"]
    """
    family, _, argument = form.partition("-")
    if family in STRATEGIES:
        raise InputError("duplicate strategy name", found=family)

    def add(place: PlaceFunction) -> PlaceFunction:
        default: VariantsFunction = (lambda _: []) if argument else (lambda _: [""])
        STRATEGIES[family] = Strategy(
            family, form, place, variants or default, example or form, parameters, sampled
        )
        return place

    return add


def patterns() -> tuple[str, ...]:
    """Return the forms of all strategies' names; capitals are parameters.

    Examples
    --------
    >>> [form for form in patterns() if form.startswith(("swap", "tile"))]
    ['swap-K-NAME', 'tile-SIZES']
    """
    return tuple(sorted(strategy.form for strategy in STRATEGIES.values()))


def names() -> tuple[str, ...]:
    """Return an example name of each strategy, for a large torus of three dimensions.

    Examples
    --------
    >>> [name for name in names() if name.startswith(("swap", "tile"))]
    ['swap-10-identity', 'tile-2x2x2']
    """
    return tuple(sorted(strategy.example for strategy in STRATEGIES.values()))


def select_strategies(kinds: Iterable[str] | None) -> list[Strategy]:
    """Return the strategies of these families, or all sampled ones, in registration order."""
    if kinds is None:
        return [strategy for strategy in STRATEGIES.values() if strategy.sampled]
    check_type(kinds, "kinds", Iterable, "names of strategies")
    families = [kinds] if isinstance(kinds, str) else list(kinds)
    unknown = [name for name in families if not isinstance(name, str) or name not in STRATEGIES]
    if unknown or not families:
        found = unknown[0] if unknown else "none"
        expected = closest(str(found), STRATEGIES, f"some of {', '.join(STRATEGIES)}")
        raise InputError("unknown kind of mapping", found=found, expected=expected)
    return [strategy for family, strategy in STRATEGIES.items() if family in families]


def variants(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    *,
    tasks_per_node: int | None = None,
    kinds: Iterable[str] | None = None,
) -> list[str]:
    """Return the names of all structured mappings that `sample` tries for the same arguments.

    Examples
    --------
    >>> variants(CommGraph(4, [0], [1], [8], grid=(2, 2)), "2x2")[:3]
    ['identity', 'permute-YX', 'zigzag-XY']
    """
    placement = Placement(as_problem(comm, torus), tasks_per_node)
    families = select_strategies(kinds)
    return [name for family in families for name in variant_names(placement, family)]


def variant_names(placement: Placement, strategy: Strategy) -> list[str]:
    """Return the names of a strategy's variants."""
    family = strategy.family
    return [f"{family}-{v}" if v else family for v in strategy.variants(placement)]


def make(
    name: str,
    comm: ProblemLike,
    torus: TorusLike | None = None,
    *,
    tasks_per_node: int | None = None,
    seed: Seed = SEED,
) -> TaskMapping:
    """Return one mapping by its name.

    Parameters
    ----------
    name : str
        A strategy and its parameters, as listed by `patterns`. For a random strategy, a suffix
        ``@2``, ``@3``, ... selects another draw.
    comm, torus
        Traffic and torus, in any form that `MappingProblem` accepts.
    tasks_per_node : int, optional
        Capacity of a node; by default, the minimum with which all tasks fit.
    seed : int
        Random seed; each name has its own stream of random numbers.

    Examples
    --------
    >>> line = CommGraph(4, [0, 1, 2], [1, 2, 3], [8, 8, 8], grid=(4,))
    >>> make("zigzag-XY", line, "2x2").node
    array([0, 1, 3, 2], dtype=int32)
    """
    check_type(name, "strategy", str, "a name such as identity")
    placement = Placement(as_problem(comm, torus), tasks_per_node)
    node, _ = place_tasks(placement, name, seed_number(seed))
    return placement.mapping(node, name)


def place_tasks(placement: Placement, name: str, seed: int) -> tuple[NDArray[Any], bool]:
    """Return each task's node in a named mapping, and whether the mapping depends on the seed."""
    plain, at, draw = name.partition("@")
    family, _, variant = plain.partition("-")
    strategy = STRATEGIES.get(family)
    if strategy is None:
        similar = closest(name, names(), f"a name such as {', '.join(names())}")
        raise InputError("unknown strategy", found=name, expected=similar)
    has_parameters = "-" in strategy.form
    if bool(variant) != has_parameters:
        fault = "missing parameters" if has_parameters else "strategy without parameters"
        raise InputError(fault, found=name, expected=_describe_form(placement, strategy))
    if at and not re.fullmatch("0|[1-9][0-9]*", draw):
        expected = f"a whole number after @, as in {plain}@2"
        raise InputError("bad number of a draw", found=name, expected=expected)
    rng = named_rng(name, seed)
    initial_state = rng.bit_generator.state
    try:
        node = np.asarray(strategy.place(placement, variant, rng))
    except VariantError as error:
        expected = _describe_form(placement, strategy)
        raise InputError(error.message, found=name, expected=expected) from None
    is_random = rng.bit_generator.state != initial_state
    if at and not is_random:
        raise InputError("not a random strategy", found=name, expected=plain)
    if (node < 0).any():
        expected = "a torus whose nodes are connected by links"
        raise InputError("strategy cannot place all tasks", found=name, expected=expected)
    return _avoid_excluded_nodes(placement, family, node), is_random


def _avoid_excluded_nodes(placement: Placement, family: str, node: NDArray[Any]) -> NDArray[Any]:
    """Move tasks from excluded nodes to the nearest free slots; the identity skips these nodes."""
    torus, capacity = placement.torus, placement.capacity
    if not torus.exclusions.nodes:
        return node
    allocation = Allocation(torus, tasks_per_node=capacity)
    if family == "identity":
        return allocation.in_order(placement.n_tasks).node
    return allocation.confine(placement.mapping(node, family)).node


def named_rng(name: str, seed: int) -> Rng:
    """Return a random generator whose stream is specific to the name."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _describe_form(placement: Placement, strategy: Strategy) -> str:
    """Return the form of a strategy's names, with a valid example if there is one."""
    if not strategy.parameters:
        return strategy.form
    examples = variant_names(placement, strategy)[:1]
    if not examples and _accepts_example(strategy, placement):
        examples = [strategy.example]
    example = f" such as {examples[0]}" if examples else ""
    values = {
        "{letters}": " ".join(placement.letters),
        "{dimensions}": " ".join(placement.torus.axes),
        "{grid}": "x".join(map(str, placement.grid)),
        "{places}": str(placement.n_places),
    }
    parameters = strategy.parameters
    for field_name, value in values.items():
        # `str.format` would fail on other braces in a plug-in's text.
        parameters = parameters.replace(field_name, value)
    return f"{strategy.form}{example}; {parameters}"


def _accepts_example(strategy: Strategy, placement: Placement) -> bool:
    """Return whether the strategy's example name is valid for this placement."""
    if strategy.example == strategy.form:
        return False
    variant = strategy.example.partition("-")[2]
    try:
        strategy.place(placement, variant, named_rng(strategy.example, 0))
    except InputError:
        return False
    return True
