"""Communication graphs, and workloads of several phases."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._lazy import PickledByFields, lazy
from toruscast._slow import networkx as nx
from toruscast._slow import pandas as pd
from toruscast._slow import sparse
from toruscast.errors import DuplicateEdgeError, InputError, TaskGridError
from toruscast.notebook import NotebookCard
from toruscast.text import counted, nbytes, shown_name
from toruscast.typing import Floats, Int32s, Ints
from toruscast.validation import (
    as_array,
    check_below,
    check_type,
    real_number,
    whole_array,
    whole_number,
    whole_sizes,
)

from .omissions import Omission
from .task_mapping import TaskMapping

MAX_TASKS = 2**31 - 1
MAX_AMOUNT = 1e300
COLUMNS = ("src", "dst", "nbytes", "n_messages")
# NetworkX's names for the first three columns of an edge list.
_EDGE_LIST = ("source", "target", "weight")


@dataclass(frozen=True, eq=False)
class CommGraph(NotebookCard, PickledByFields):
    """A directed communication graph, its edges sorted by source, then destination.

    Parameters
    ----------
    n_tasks : int
        Number of tasks; tasks are numbered 0 to ``n_tasks - 1``.
    src, dst : array-like of int, shape (n_edges,)
        Sending and receiving task of each edge. Pairs are unique.
    nbytes : array-like of float, shape (n_edges,)
        Bytes sent over each edge.
    n_messages : array-like of float, shape (n_edges,), optional
        Number of messages that carry these bytes; one per edge if not given.
    grid : tuple of int, optional
        Logical grid of the application's tasks, in C order. Mapping strategies use it.
    name : str
        A label for reports.

    Examples
    --------
    >>> comm = CommGraph(3, [0, 2, 1], [1, 0, 2], [100, 50, 70])
    >>> comm
    CommGraph(3 tasks, 3 edges, 220 bytes, 3 messages)
    >>> comm.to_pandas()
       src  dst  nbytes  n_messages
    0    0    1   100.0         1.0
    1    1    2    70.0         1.0
    2    2    0    50.0         1.0
    """

    n_tasks: int
    src: Int32s
    dst: Int32s
    nbytes: Floats
    n_messages: Floats
    grid: tuple[int, ...] | None
    name: str

    def __init__(
        self,
        n_tasks: int,
        src: ArrayLike,
        dst: ArrayLike,
        nbytes: ArrayLike,
        n_messages: ArrayLike | None = None,
        *,
        grid: tuple[int, ...] | None = None,
        name: str = "",
    ) -> None:
        n_tasks, columns = _check_edges(n_tasks, src, dst, nbytes, n_messages)
        if not _are_sorted(*columns[:2]):
            key = columns[0] * np.int64(n_tasks)
            key += columns[1]
            order = np.argsort(key, kind="stable")
            key = key[order]
            repeats = np.flatnonzero(key[1:] == key[:-1])
            if repeats.size:
                found = f"{key[repeats[0]] // n_tasks} -> {key[repeats[0]] % n_tasks} twice"
                raise DuplicateEdgeError("duplicate edge", found=found, expected="each pair once")
            columns = [column[order] for column in columns]
        if grid is not None:
            grid = whole_sizes(grid, "task grid")
            if math.prod(grid) != n_tasks:
                raise TaskGridError("bad task grid", found=grid, expected=f"a product of {n_tasks}")
        for column in columns:
            column.setflags(write=False)
        vars(self).update(zip(COLUMNS, columns, strict=True), n_tasks=n_tasks, grid=grid, name=name)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.src.size)

    @lazy
    def whole_messages(self) -> Floats:
        """Messages that a simulation sends per edge, rounded half to even, shape ``(n_edges,)``."""
        return np.rint(self.n_messages)

    @lazy
    def first(self) -> Ints:
        """Index of each task's first edge, shape ``(n_tasks + 1,)``.

        The edges from task t are ``first[t]:first[t + 1]``.

        Examples
        --------
        >>> CommGraph(3, [0, 0, 2], [1, 2, 0], [100, 50, 70]).first
        array([0, 2, 2, 3])
        """
        first = np.concatenate([[0], np.cumsum(np.bincount(self.src, minlength=self.n_tasks))])
        first.setflags(write=False)
        return first

    def scaled(self, factor: float) -> CommGraph:
        """Return the graph with bytes and messages multiplied by ``factor``.

        For example, scale a capture of 100 time steps by 1/100 to get the traffic of one step.
        """
        factor = real_number(factor, "factor", 0)
        # The constructor rejects values that overflow.
        with np.errstate(over="ignore"):
            return replace(self, nbytes=self.nbytes * factor, n_messages=self.n_messages * factor)

    def without_self_messages(self) -> CommGraph:
        """Return the graph without the edges from a task to itself."""
        others = self.src != self.dst
        return replace(self, **{f: getattr(self, f)[others] for f in COLUMNS})

    def renamed(self, name: str, grid: tuple[int, ...] | None = None) -> CommGraph:
        """Return the graph with another name and, if given, another logical task grid."""
        grid = self.grid if grid is None else grid
        # An unchanged graph keeps its cached values.
        if (name, grid) == (self.name, self.grid):
            return self
        return replace(self, name=name, grid=grid)

    def equals(self, other: CommGraph) -> bool:
        """Whether both graphs have the same tasks, edges, bytes and messages."""
        return self.n_tasks == other.n_tasks and all(
            np.array_equal(getattr(self, f), getattr(other, f)) for f in COLUMNS
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row per edge and columns src, dst, nbytes and n_messages."""
        return pd.DataFrame({f: getattr(self, f) for f in COLUMNS})

    def to_networkx(self) -> nx.DiGraph[int]:
        """Return a directed graph whose edges carry ``nbytes`` and ``n_messages``."""
        graph: nx.DiGraph[int] = nx.DiGraph(name=self.name)
        graph.add_nodes_from(range(self.n_tasks))
        for src, dst, *amounts in zip(*(getattr(self, f).tolist() for f in COLUMNS), strict=True):
            graph.add_edge(src, dst, nbytes=amounts[0], n_messages=amounts[1])
        return graph

    def to_scipy(self, values: str = "nbytes") -> sparse.csr_array:
        """Return ``nbytes`` or ``n_messages`` as a sparse matrix, source by destination.

        Edges of zero bytes stay as explicit zeros.
        """
        shape = (self.n_tasks, self.n_tasks)
        return sparse.csr_array((getattr(self, values), (self.src, self.dst)), shape=shape)

    def __repr__(self) -> str:
        label = f"{shown_name(self.name)}: " if self.name else ""
        return (
            f"CommGraph({label}{counted(self.n_tasks, 'task')}, {counted(self.n_edges, 'edge')}, "
            f"{counted(self.nbytes.sum(), 'byte')}, {counted(self.n_messages.sum(), 'message')})"
        )

    def _card_facts(self) -> list[tuple[str, object]]:
        """Return the facts that a notebook displays, as (label, value) pairs."""
        facts: list[tuple[str, object]] = [
            ("tasks", f"{self.n_tasks:,}"),
            ("edges", f"{self.n_edges:,}"),
            ("bytes", f"{self.nbytes.sum():,.0f}"),
            ("messages", f"{self.n_messages.sum():,.0f}"),
        ]
        if self.grid is not None:
            facts.append(("task grid", "x".join(map(str, self.grid))))
        return facts


def sum_edges(
    n_tasks: int,
    src: ArrayLike,
    dst: ArrayLike,
    nbytes: ArrayLike,
    n_messages: ArrayLike | None = None,
    *,
    grid: tuple[int, ...] | None = None,
    name: str = "",
) -> CommGraph:
    """Build a graph from a list of edges, adding up bytes and messages of repeated pairs.

    Parameters and errors are those of `CommGraph`.

    Examples
    --------
    >>> sum_edges(2, [0, 0], [1, 1], [10, 20])
    CommGraph(2 tasks, 1 edge, 30 bytes, 2 messages)
    """
    n_tasks, (s, d, *amounts) = _check_edges(n_tasks, src, dst, nbytes, n_messages)
    key, pair = np.unique(s * np.int64(n_tasks) + d, return_inverse=True)
    sums = [_sum_groups(pair, amount, key.size) for amount in amounts]
    return CommGraph(n_tasks, key // n_tasks, key % n_tasks, *sums, grid=grid, name=name)


def _sum_groups(group: NDArray[np.intp], amounts: Floats, n_groups: int) -> Floats:
    """Return the sum of the amounts in each group, ``(n,) (n,) -> (n_groups,)``."""
    # If the sum must be rounded, sort the amounts, so that it does not depend on the edges' order.
    if (amounts % 1).any() or amounts.sum() >= 2**53:
        order = np.argsort(amounts)
        group, amounts = group[order], amounts[order]
    return np.bincount(group, weights=amounts, minlength=n_groups).astype(np.float64, copy=False)


def _check_edges(
    n_tasks: int, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike, n_messages: ArrayLike | None
) -> tuple[int, list[NDArray[Any]]]:
    """Return the number of tasks and the four columns of edges as arrays of equal length."""
    n_tasks = whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    columns: list[NDArray[Any]] = [
        _check_tasks(src, "src", n_tasks),
        _check_tasks(dst, "dst", n_tasks),
        _check_amounts(nbytes, "nbytes"),
    ]
    n_edges = columns[0].size
    n_messages = np.ones(n_edges) if n_messages is None else n_messages
    columns.append(_check_amounts(n_messages, "n_messages"))
    if not all(column.size == n_edges for column in columns):
        found = [column.size for column in columns]
        expected = "one value of src, dst, nbytes and n_messages for each edge"
        raise InputError("columns differ in length", found=found, expected=expected)
    return n_tasks, columns


def _check_tasks(values: ArrayLike, name: str, n_tasks: int) -> Int32s:
    """Return task numbers as 32-bit integers."""
    # Read-only arrays are shared instead of copied.
    shared = isinstance(values, np.ndarray) and values.dtype == np.int32 and values.ndim == 1
    shared = shared and not values.flags.writeable  # type: ignore[union-attr]
    array: NDArray[Any] = np.asarray(values) if shared else whole_array(values, name)
    check_below(array, f"{name} of edge", n_tasks)
    return array if shared else array.astype(np.int32)


def _are_sorted(src: Int32s, dst: Int32s) -> bool:
    """Whether the edges are sorted by source and destination, without a repeated pair."""
    increasing = src[1:] > src[:-1]
    increasing |= (src[1:] == src[:-1]) & (dst[1:] > dst[:-1])
    return bool(increasing.all())


def _check_amounts(values: ArrayLike, name: str) -> Floats:
    """Return an array of one number per edge, each from 0 to the maximum amount."""
    array = as_array(values, name, "one number per edge")
    if array.size == 0:
        return np.zeros(0)
    if array.ndim != 1 or array.dtype.kind not in "iufb":
        raise InputError(f"bad {name}", found=array.dtype, expected="one number per edge")
    # Keep broadcast arrays (stride 0), which save the memory for a value per edge.
    if array.strides != (0,) or array.dtype != np.float64:
        array = array.astype(np.float64)
    # The limit keeps sums over many edges finite.
    distinct = array[:1] if array.strides == (0,) else array
    if not (distinct.min() >= 0 and distinct.max() <= MAX_AMOUNT):
        bad = np.flatnonzero(~((array >= 0) & (array <= MAX_AMOUNT)))[0]
        expected = f"0 to {MAX_AMOUNT:g}"
        raise InputError(f"bad {name} of edge {bad}", found=array[bad], expected=expected)
    return array


def from_networkx(graph: nx.Graph[Any], weight: str = "nbytes", **options: Any) -> CommGraph:
    """Convert a NetworkX graph to a communication graph.

    Parameters
    ----------
    graph : networkx.Graph or DiGraph
        Nodes 0 to n - 1 become the tasks with these numbers. Nodes of other types, such as strings
        or coordinates, become tasks in the order of ``graph.nodes``. An undirected edge becomes two
        directed edges.
    weight : str
        Edge attribute with the bytes. The attribute ``n_messages`` is 1 if missing.
    **options
        ``grid`` and ``name`` of `CommGraph`.

    Examples
    --------
    >>> import networkx as nx
    >>> from_networkx(nx.DiGraph([(0, 1, {"nbytes": 8})]))
    CommGraph(2 tasks, 1 edge, 8 bytes, 1 message)
    >>> from_networkx(nx.Graph([("left", "right", {"weight": 8})]), weight="weight")
    CommGraph(2 tasks, 2 edges, 16 bytes, 2 messages)
    """
    check_type(graph, "graph", nx.Graph, "a NetworkX graph")
    check_type(weight, "weight", str, "the name of an attribute")
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    if all(isinstance(node, Integral) for node in numbers):
        # If nodes have other numbers, tasks without traffic may be missing.
        if numbers.keys() != set(range(len(numbers))):
            expected = "0 to n - 1, as networkx.convert_node_labels_to_integers makes them"
            raise InputError("bad node labels", found=list(graph.nodes)[:5], expected=expected)
        numbers = {node: node for node in numbers}
    directed = graph if graph.is_directed() else graph.to_directed()
    rows = []
    for s, d, data in directed.edges(data=True):
        if weight not in data:
            expected = " or ".join(f"weight={name!r}" for name in data)
            expected = expected or "bytes, as networkx.set_edge_attributes sets them"
            raise InputError(f"edge {(s, d)} without {weight!r}", found=data, expected=expected)
        rows.append((numbers[s], numbers[d], data[weight], data.get("n_messages", 1)))
    src, dst, nbytes, messages = zip(*rows, strict=True) if rows else ((), (), (), ())
    build = sum_edges if directed.is_multigraph() else CommGraph
    return build(len(graph), src, dst, nbytes, messages, **options)


def from_scipy(
    nbytes: sparse.sparray | sparse.spmatrix,
    n_messages: sparse.sparray | sparse.spmatrix | None = None,
    **options: Any,
) -> CommGraph:
    """Convert a square sparse matrix of bytes, source by destination, to a communication graph.

    Duplicate entries of a COO matrix are added up, as in SciPy. Every stored entry of either matrix
    becomes an edge.

    Examples
    --------
    >>> from scipy.sparse import coo_array
    >>> from_scipy(coo_array(([5.0], ([0], [1])), shape=(2, 2)))
    CommGraph(2 tasks, 1 edge, 5 bytes, 1 message)
    """
    sent = _as_coo(nbytes)
    if sent.ndim != 2 or sent.shape[0] != sent.shape[1]:
        raise InputError("matrix is not square", found=sent.shape)
    sent.sum_duplicates()
    n_tasks = sent.shape[0]
    if n_messages is None:
        return CommGraph(n_tasks, sent.row, sent.col, sent.data, **options)
    counts = _as_coo(n_messages)
    if counts.shape != sent.shape:
        raise InputError("matrices differ in shape", found=counts.shape, expected=sent.shape)
    return sum_edges(
        n_tasks,
        np.concatenate([sent.row, counts.row]),
        np.concatenate([sent.col, counts.col]),
        np.concatenate([sent.data, np.zeros(counts.nnz)]),
        np.concatenate([np.zeros(sent.nnz), counts.data]),
        **options,
    )


def _as_coo(matrix: Any) -> Any:
    """Convert a matrix of numbers to coordinate format."""
    try:
        array = sparse.coo_array(matrix)
    except (TypeError, ValueError):
        raise InputError("bad matrix", found=repr(matrix), expected="a SciPy matrix") from None
    if array.dtype.kind not in "iufb":
        raise InputError("bad matrix", found=array.dtype, expected="numbers")
    # Sums of duplicates could overflow the matrix's own type.
    return array.astype(np.float64)


def from_pandas(table: pd.DataFrame, n_tasks: int | None = None, **options: Any) -> CommGraph:
    """Convert a table with an edge in each row to a communication graph.

    The columns are either ``src``, ``dst``, ``nbytes`` and, optionally, ``n_messages``, or
    ``source``, ``target`` and ``weight``, as in a table from `networkx.to_pandas_edgelist`.

    Examples
    --------
    >>> import pandas as pd
    >>> from_pandas(pd.DataFrame({"src": [0], "dst": [3], "nbytes": [64]}))
    CommGraph(4 tasks, 1 edge, 64 bytes, 1 message)
    """
    if not hasattr(table, "columns"):
        raise InputError("bad table", found=type(table).__name__, expected="a DataFrame")
    found = list(table.columns)
    if "src" not in found:
        table = table.rename(columns=dict(zip(_EDGE_LIST, COLUMNS, strict=False)))
    missing = [column for column in COLUMNS[:3] if column not in table.columns]
    if missing:
        expected = f"{', '.join(missing)}; DataFrame.rename(columns=...) renames others"
        raise InputError("missing columns", found=found, expected=expected)
    src, dst = whole_array(table["src"], "src"), whole_array(table["dst"], "dst")
    if n_tasks is None:
        n_tasks = int(max(src.max(initial=0), dst.max(initial=0))) + 1
    messages = table["n_messages"] if "n_messages" in table.columns else None
    return CommGraph(n_tasks, src, dst, table["nbytes"], messages, **options)


class UnrolledGraph(NamedTuple):
    """All phases as one graph in which each phase has its own copies of the tasks."""

    comm: CommGraph  # a task is a (phase, task) pair; edges are in the order of the phases
    task: Int32s  # task of the workload for each task of `comm`
    begin: Ints  # edges of phase p are `begin[p]:begin[p + 1]`

    @property
    def phase(self) -> Ints:
        """Phase of each edge."""
        return np.repeat(np.arange(self.begin.size - 1), np.diff(self.begin))

    def placed(self, mapping: TaskMapping) -> TaskMapping:
        """Return the mapping for the tasks of `comm`, given the mapping of the workload's tasks."""
        if self.begin.size == 2:
            return mapping
        capacity = mapping.tasks_per_node * (self.begin.size - 1)
        return TaskMapping(mapping.node[self.task], mapping.n_nodes, tasks_per_node=capacity)


class Partners(NamedTuple):
    """Bytes that pairs of tasks exchange, summed over both directions."""

    first: Ints  # entries of task t are `first[t]:first[t + 1]`
    partner: Ints
    nbytes: Floats


@dataclass(frozen=True, eq=False)
class Workload(NotebookCard, PickledByFields):
    """A sequence of communication phases, each a `CommGraph` over the same tasks.

    Parameters
    ----------
    phases : sequence of CommGraph
        At least one phase. A barrier separates consecutive phases.
    name : str
        A label for reports; the name of the first phase if not given.
    dependent : bool, default False
        Whether the phases are rounds without barriers, such as the steps of a collective. A task
        starts round r + 1 when it has received and sent all its messages of round r. With
        rendezvous, receivers must also have accepted the messages it sent.
    summed : bool, default False
        Whether the traffic is the sum over a whole run, as in profiles that lack the order of
        messages.
    omitted : sequence of Omission
        Parts of the file that these phases omit or count only once.

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
    omitted: Sequence[Omission] = ()

    def __post_init__(self) -> None:
        check_type(self.phases, "phases", Iterable, "a sequence of CommGraph")
        phases = tuple(self.phases)
        if not phases:
            raise InputError("workload without a phase")
        for phase in phases:
            check_type(phase, "phase", CommGraph, "a CommGraph")
        sizes = {phase.n_tasks for phase in phases}
        if len(sizes) > 1:
            raise InputError("phases differ in their number of tasks", found=sorted(sizes))
        check_type(self.dependent, "dependent", bool | np.bool_, "True or False")
        check_type(self.omitted, "omitted", Iterable, "a sequence of Omission")
        check_type(self.name, "name of a workload", str, "a text")
        vars(self).update(
            phases=phases,
            omitted=tuple(self.omitted),
            dependent=bool(self.dependent),
            name=self.name or phases[0].name,
        )

    def __repr__(self) -> str:
        label = f"{shown_name(self.name)}: " if self.name else ""
        kind = "round" if self.dependent else "phase"
        sent = sum(float(phase.nbytes.sum()) for phase in self.phases)
        omissions = f", {counted(len(self.omitted), 'omission')}" if self.omitted else ""
        return (
            f"Workload({label}{counted(self.n_tasks, 'task')}, "
            f"{counted(len(self.phases), kind)}, {nbytes(sent)}{omissions})"
        )

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
        # The rounds of an algorithm often repeat one object, so multiply it by its repetitions.
        repeats = Counter(map(id, self.phases))
        phases = list({id(phase): phase for phase in self.phases}.values())
        return sum_edges(
            self.n_tasks,
            np.concatenate([phase.src for phase in phases]),
            np.concatenate([phase.dst for phase in phases]),
            np.concatenate([phase.nbytes * repeats[id(phase)] for phase in phases]),
            np.concatenate([phase.n_messages * repeats[id(phase)] for phase in phases]),
            grid=self.grid,
            name=self.name,
        )

    @lazy
    def unrolled(self) -> UnrolledGraph:
        """All phases as one graph; each phase has only tasks that send or receive in it."""
        sizes = [phase.n_edges for phase in self.phases]
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        if len(self.phases) == 1:
            return UnrolledGraph(self.phases[0], np.arange(self.n_tasks, dtype=np.int32), begin)
        src, dst, nbytes, n_messages = (
            np.concatenate([getattr(phase, f) for phase in self.phases]) for f in COLUMNS
        )
        # Number only the tasks that send or receive in a phase.
        offset = np.repeat(np.arange(len(sizes)), sizes) * np.int64(self.n_tasks)
        used, number = np.unique(np.concatenate([offset + src, offset + dst]), return_inverse=True)
        task = (used % self.n_tasks).astype(np.int32)
        src, dst = np.split(number, 2)
        graph = CommGraph(max(1, used.size), src, dst, nbytes, n_messages, name=self.name)
        return UnrolledGraph(graph, task if used.size else np.zeros(1, dtype=np.int32), begin)

    def __iter__(self) -> Iterator[CommGraph]:
        return iter(self.phases)

    def __len__(self) -> int:
        return len(self.phases)


if TYPE_CHECKING:
    Matrix = sparse.sparray | sparse.spmatrix | NDArray[Any]
    Traffic = Workload | CommGraph | nx.Graph[Any] | pd.DataFrame | Matrix


def as_workload(traffic: Traffic) -> Workload:
    """Return traffic as a workload; a graph, table or matrix becomes its only phase."""
    if isinstance(traffic, Workload):
        return traffic
    if isinstance(traffic, CommGraph):
        return Workload([traffic])
    # Identify the type by its attributes, without importing its package.
    other: Any = traffic
    if hasattr(other, "adj"):
        return Workload([from_networkx(other)])
    if hasattr(other, "columns"):
        return Workload([from_pandas(other)])
    if hasattr(other, "tocoo") or (isinstance(other, np.ndarray) and other.ndim == 2):
        return Workload([from_scipy(other)])
    expected = "a Workload, a CommGraph, a NetworkX graph, a DataFrame or a matrix of bytes"
    raise InputError("bad traffic", found=type(traffic).__name__, expected=expected)
