"""What a strategy places, and the registry of strategies by name."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import Slow, lazy
from toruscast.errors import InputError
from toruscast.validation import check_type, whole_number

from ..comm_graph import CommGraph, Partners, sum_edges
from ..problem import MappingProblem
from ..task_mapping import MAX_SLOTS, Allocation, TaskMapping, check_room, min_capacity
from ..torus import Torus
from ..twist import Metric, images
from .orders import near_cube

if TYPE_CHECKING:
    from ..comm_graph import Traffic
    from ..problem import TorusLike
    from . import placement_kernels as placement_kernels
else:
    # numba takes long to start, and few strategies need it.
    placement_kernels = Slow("toruscast.mapping.strategies.placement_kernels")


@dataclass(frozen=True, eq=False)
class Placement:
    """The task of placing tasks on nodes.

    A *place* is a slot of a node: place ``p`` is slot ``p % tasks_per_node`` of node
    ``p // tasks_per_node``.

    Parameters
    ----------
    problem : MappingProblem
        Strategies read the total of its traffic and fold its grid; without a grid, tasks count as
        numbered along a near-cubic one of three dimensions.
    tasks_per_node : int, optional
        The ``capacity`` of a node; the least that suffices if not given.
    is_late : callable
        Whether a strategy that looks at several mappings is to end with the best so far.

    Examples
    --------
    >>> placement = Placement(MappingProblem(CommGraph(12, [0], [1], [8]), "3x3"))
    >>> placement.grid, placement.capacity, placement.n_places
    ((3, 2, 2), 2, 18)
    """

    problem: MappingProblem
    tasks_per_node: int | None = None
    is_late: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        n_tasks, n_nodes = self.n_tasks, self.torus.usable_nodes.size
        capacity = self.tasks_per_node
        if capacity is None:
            capacity = min(min_capacity(n_tasks, n_nodes), MAX_SLOTS)
        capacity = whole_number(capacity, "tasks per node", 1, MAX_SLOTS)
        check_room(n_tasks, n_nodes, capacity)
        object.__setattr__(self, "tasks_per_node", capacity)

    @property
    def capacity(self) -> int:
        """Tasks that a node holds: as given, or the least that suffices."""
        assert self.tasks_per_node is not None
        return self.tasks_per_node

    @property
    def torus(self) -> Torus:
        """The host."""
        return self.problem.torus

    @property
    def total(self) -> CommGraph:
        """The traffic of all phases."""
        return self.problem.comm

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.problem.n_tasks

    @property
    def n_places(self) -> int:
        """Slots of all nodes."""
        return self.torus.n_nodes * self.capacity

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the torus, and the slots of a node."""
        return (*self.torus.shape, self.capacity)

    @lazy
    def grid(self) -> tuple[int, ...]:
        """The logical task grid."""
        return self.problem.workload.grid or near_cube(self.n_tasks, 3)

    @lazy
    def letters(self) -> str:
        """A letter for each torus dimension, as the machine calls them, and T for the slots."""
        return self.torus.axes + "T"

    @lazy
    def partners(self) -> Partners:
        """Traffic both ways between tasks."""
        sent = (self.total.src != self.total.dst) & (self.total.nbytes > 0)
        ends = np.array([self.total.src[sent], self.total.dst[sent]])
        src, dst = np.hstack([ends, ends[::-1]])
        both = sum_edges(self.n_tasks, src, dst, np.tile(self.total.nbytes[sent], 2))
        return Partners(both.first.copy(), both.dst.astype(np.int64), both.nbytes.copy())

    @lazy
    def metric(self) -> Metric:
        """Distances on the torus, for kernels."""
        shape, twist = self.torus.shape, self.torus.twist
        return Metric(np.array(shape), np.array(self.torus.wrap), images(shape, twist))

    @lazy
    def bases(self) -> dict[str, NDArray[Any]]:
        """Mappings that others start from, by name, each made once."""
        return {}

    def mapping(self, node: NDArray[Any], name: str) -> TaskMapping:
        """Return the mapping of a name, given the node of each task."""
        return TaskMapping(node, self.torus, tasks_per_node=self.capacity, name=name)

    def hop_bytes(self, node: NDArray[Any]) -> float:
        """Return the sum of bytes times hops over all edges, for a node of each task."""
        edges = self.total
        if self.torus.twist:
            return float(self.torus.distance(node[edges.src], node[edges.dst]) @ edges.nbytes)
        return float(
            placement_kernels.sum_hop_bytes(
                edges.src,
                edges.dst,
                edges.nbytes,
                self.torus.coords[node],
                np.array(self.torus.shape, dtype=np.int32),
                np.array(self.torus.wrap),
            )
        )


Rng = np.random.Generator
Place = Callable[[Placement, str, Rng], NDArray[Any]]
Variants = Callable[[Placement], list[str]]


@dataclass(frozen=True)
class Strategy:
    """A family of mappings: how a variant places the tasks, and which variants there are."""

    family: str
    """The first word of its mappings' names."""
    form: str
    """The family and, after a hyphen, what its variants look like: "tilt-DIMS-K"."""
    place: Place
    """Function of placement, variant and random generator: the node of each task."""
    variants: Variants
    """Function of a placement: variants to try, best first; an empty one is the bare family."""
    example: str
    """One of its names."""
    parameters: str
    """How the capitals of the form are written; empty where there are none."""
    sampled: bool = True
    """Whether `sample` takes from it without being asked to."""


class VariantError(InputError):
    """A variant that its family does not know; `nodes` adds the form of its names."""

    def __init__(self) -> None:
        super().__init__("bad strategy parameters")


STRATEGIES: dict[str, Strategy] = {}


def register(
    form: str,
    variants: Variants | None = None,
    *,
    example: str = "",
    parameters: str = "",
    sampled: bool = True,
) -> Callable[[Place], Place]:
    """Register a function as a strategy, under the first word of ``form``.

    The arguments are fields of `Strategy`. Without ``variants`` there are none, or the bare family
    if the form has no hyphen. In ``parameters``, {letters}, {dimensions}, {grid} and {places} stand
    for those of the torus with its slots T, of the torus, of the tasks, and their number. A
    function raises `VariantError` if it does not know a variant.

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
        raise InputError("strategy name taken", found=family)

    def add(place: Place) -> Place:
        default: Variants = (lambda _: []) if argument else (lambda _: [""])
        STRATEGIES[family] = Strategy(
            family, form, place, variants or default, example or form, parameters, sampled
        )
        return place

    return add


def patterns() -> tuple[str, ...]:
    """Return the form of every strategy's name; capitals are parameters.

    `STRATEGIES` describes the parameters of each.

    Examples
    --------
    >>> [form for form in patterns() if form.startswith(("swap", "tile"))]
    ['swap-K-NAME', 'tile-SIZES']
    """
    return tuple(sorted(strategy.form for strategy in STRATEGIES.values()))


def names() -> tuple[str, ...]:
    """Return a name that each strategy takes, on a large enough torus of three dimensions.

    Examples
    --------
    >>> [name for name in names() if name.startswith(("swap", "tile"))]
    ['swap-10-identity', 'tile-2x2x2']
    """
    return tuple(sorted(strategy.example for strategy in STRATEGIES.values()))


def chosen(kinds: Iterable[str] | None) -> list[Strategy]:
    """Return the strategies of some families, in order; without ``kinds``, the usual ones."""
    if kinds is None:
        return [strategy for strategy in STRATEGIES.values() if strategy.sampled]
    check_type(kinds, "kinds", Iterable, "names of strategies")
    wanted = [kinds] if isinstance(kinds, str) else list(kinds)
    unknown = [kind for kind in wanted if kind not in STRATEGIES]
    if unknown or not wanted:
        found = unknown[0] if unknown else "none"
        expected = f"some of {', '.join(STRATEGIES)}"
        raise InputError("unknown kind of mapping", found=found, expected=expected)
    return [strategy for family, strategy in STRATEGIES.items() if family in wanted]


def variants(
    traffic: Traffic,
    torus: TorusLike,
    *,
    tasks_per_node: int | None = None,
    kinds: Iterable[str] | None = None,
) -> list[str]:
    """Return the names of all structured mappings that `sample` would try for this traffic.

    Parameters
    ----------
    traffic, torus, tasks_per_node, kinds
        As for `sample`.

    Examples
    --------
    >>> variants(CommGraph(4, [0], [1], [8], grid=(2, 2)), "2x2")[:3]
    ['identity', 'permute-YX', 'zigzag-XY']
    """
    placement = Placement(MappingProblem(traffic, torus), tasks_per_node)
    return [name for strategy in chosen(kinds) for name in variant_names(placement, strategy)]


def variant_names(placement: Placement, strategy: Strategy) -> list[str]:
    """Return the names of a strategy's variants."""
    return [join(strategy.family, variant) for variant in strategy.variants(placement)]


def make(
    name: str,
    traffic: Traffic,
    torus: TorusLike,
    *,
    tasks_per_node: int | None = None,
    seed: int = 1,
) -> TaskMapping:
    """Return one mapping by its name.

    Parameters
    ----------
    name : str
        A strategy and its parameters, as listed by `patterns`; ``@2``, ``@3``, ... after the name
        of a random strategy give further draws.
    traffic, torus
        Traffic and host, in any form that `MappingProblem` accepts.
    tasks_per_node : int, optional
        Capacity of a node; the least that suffices if not given.
    seed : int
        Seed of what is drawn at random; each name has its own stream.

    Examples
    --------
    >>> line = CommGraph(4, [0, 1, 2], [1, 2, 3], [8, 8, 8], grid=(4,))
    >>> make("zigzag-XY", line, "2x2").node
    array([0, 1, 3, 2], dtype=int32)
    """
    check_type(name, "strategy", str, "a name such as identity")
    placement = Placement(MappingProblem(traffic, torus), tasks_per_node)
    return placement.mapping(nodes(placement, name, whole_number(seed, "seed", 0)), name)


def nodes(placement: Placement, name: str, seed: int) -> NDArray[Any]:
    """Node of each task under the mapping of that name."""
    return _place(placement, name, seed)[0]


def draws(placement: Placement, name: str) -> bool:
    """Return whether the mapping of that name depends on the seed."""
    return _place(placement, name, 0)[1]


def _place(placement: Placement, name: str, seed: int) -> tuple[NDArray[Any], bool]:
    """Return the node of each task, and whether anything was drawn at random."""
    plain, at, draw = name.partition("@")
    family, _, variant = plain.partition("-")
    strategy = STRATEGIES.get(family)
    if strategy is None:
        raise InputError(
            "unknown strategy", found=name, expected=f"a name such as {', '.join(names())}"
        )
    takes = "-" in strategy.form
    if bool(variant) != takes:
        what = "strategy without its parameters" if takes else "strategy takes no parameters"
        raise InputError(what, found=name, expected=_name_form(placement, strategy))
    if at and not re.fullmatch("0|[1-9][0-9]*", draw):
        raise InputError(
            "bad number of a draw", found=name, expected=f"a whole number behind @ as in {plain}@2"
        )
    rng = stream(name, seed)
    before = rng.bit_generator.state
    try:
        node = np.asarray(strategy.place(placement, variant, rng))
    except VariantError as error:
        expected = _name_form(placement, strategy)
        raise InputError(error.message, found=name, expected=expected) from None
    is_drawn = rng.bit_generator.state != before
    if at and not is_drawn:
        raise InputError("nothing is drawn at random", found=name, expected=plain)
    if (node < 0).any():
        expected = "a torus whose nodes are connected by links"
        raise InputError("strategy cannot place all tasks", found=name, expected=expected)
    return _on_ours(placement, family, node), is_drawn


def _on_ours(placement: Placement, family: str, node: NDArray[Any]) -> NDArray[Any]:
    """Move tasks from nodes of others to the nearest of ours; tasks in order take ours in order."""
    torus, capacity = placement.torus, placement.capacity
    if not torus.exclusions.nodes:
        return node
    ours = Allocation(torus, tasks_per_node=capacity)
    if family == "identity":
        return ours.in_order(placement.n_tasks).node
    return ours.confine(placement.mapping(node, family)).node


def stream(name: str, seed: int) -> Rng:
    """Random numbers for a name."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def join(family: str, variant: str) -> str:
    """Name of a variant."""
    return f"{family}-{variant}" if variant else family


def _name_form(placement: Placement, strategy: Strategy) -> str:
    """The form of a strategy's names, with a fitting example if there is one."""
    if not strategy.parameters:
        return strategy.form
    suitable = variant_names(placement, strategy)[:1]
    if not suitable and _takes_example(strategy, placement):
        suitable = [strategy.example]
    such = f" such as {suitable[0]}" if suitable else ""
    values = {
        "{letters}": " ".join(placement.letters),
        "{dimensions}": " ".join(placement.torus.axes),
        "{grid}": "x".join(map(str, placement.grid)),
        "{places}": str(placement.n_places),
    }
    parameters = strategy.parameters
    for field_name, value in values.items():
        # A plug-in's text may hold other braces.
        parameters = parameters.replace(field_name, value)
    return f"{strategy.form}{such}; {parameters}"


def _takes_example(strategy: Strategy, placement: Placement) -> bool:
    """Whether the strategy takes its own example."""
    if strategy.example == strategy.form:
        return False
    variant = strategy.example.partition("-")[2]
    try:
        strategy.place(placement, variant, stream(strategy.example, 0))
    except InputError:
        return False
    return True
