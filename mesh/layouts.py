"""Layouts: which node of a torus each place of a logical mesh is, and how long a step takes so.

What layouts share is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, permutations, product, takewhile
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import PickledByFields, lazy
from toruscast.mapping.strategies.orders import divisors, walk_loop, walk_snake
from toruscast.mapping.torus import Torus
from toruscast.workers import Task

from .devices import Devices
from .step_times import Groups, MeshProblem, Score, box_of, box_score, is_uniform, score
from .traffic import MeshAxes, MeshTraffic

# Most ways to cut the dimensions that are scored; the plainest come first.
MAX_SPLITS = 100_000
# Layouts that a worker scores at a time.
_BLOCK = 500
# Boxes of the torus that a smaller mesh may fill, and layouts of pieces in each.
_BOXES, _SPLITS_IN_BOX = 24, 2_000
# Times that differ by less than this share are equal.
ALIKE = 1e-6
# Orders of the axes in which a walk is cut; of five axes these are all.
_MAX_NESTS = 120


class DimensionPart(NamedTuple):
    """``size`` nodes along a dimension, ``stride`` apart."""

    dimension: int
    stride: int
    size: int


Pieces = tuple[DimensionPart, ...]
Cut = Sequence[Pieces]


def splits(shape: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[Pieces, ...]]:
    """Give every way to cut the dimensions into pieces for axes of these sizes.

    An axis takes at most one piece of a dimension. The ways with the fewest cuts come first.
    """
    taken: list[list[DimensionPart]] = [[] for _ in sizes]

    def cut(dimension: int, left: tuple[int, ...]) -> Iterator[tuple[Pieces, ...]]:
        if dimension == len(shape):
            if all(size == 1 for size in left):
                yield tuple(tuple(pieces) for pieces in taken)
            return
        for parts in _factorisations(shape[dimension], left):
            stride, rest = 1, list(left)
            for axis, size in parts:
                taken[axis].append(DimensionPart(dimension, stride, size))
                stride *= size
                rest[axis] //= size
            yield from cut(dimension + 1, tuple(rest))
            for axis, _ in parts:
                taken[axis].pop()

    yield from cut(0, tuple(sizes))


@lru_cache(10_000)
def _factorisations(size: int, left: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    """Cuts of a dimension among axes, the fewest first: (axis, size), each axis once at most."""
    if size == 1:
        return [()]
    found: list[tuple[tuple[int, int], ...]] = []
    for axis, most in enumerate(left):
        for part in divisors(math.gcd(size, most)):
            if part > 1:
                others = tuple(1 if a == axis else n for a, n in enumerate(left))
                found += [((axis, part), *rest) for rest in _factorisations(size // part, others)]
    return sorted(found, key=len)


def cell_of(torus: Torus, pieces: Pieces) -> Torus:
    """Return the part of a torus after which the lines along some pieces repeat, as a torus.

    No route between nodes of a line leaves it. It is the whole torus where links differ, rings are
    twisted, or other dimensions decide on ties.
    """
    if not is_uniform(torus):
        return torus
    shape = [1] * torus.ndim
    for dimension, stride, size in pieces:
        shape[dimension] = max(shape[dimension], stride * size)
    # Nodes of a line lie apart by less than the cell is long: half a ring at most, or all of it.
    return box_of(torus, shape)


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"


class Curve(NamedTuple):
    """An order of the cells of a grid."""

    name: str
    steps: NDArray[np.int64]  # (cells, dimensions of the grid)


def curves(sizes: Sequence[int]) -> list[Curve]:
    """Return the orders of a grid's cells that an axis may take, the plainest first."""
    if len(sizes) == 0:
        return [Curve("in order", np.zeros((1, 0), dtype=np.int64))]
    if len(sizes) == 1:
        line = np.arange(sizes[0])[:, None]
        # There over the even places and back over the odd ones: no step is longer than two.
        folded = np.concatenate([line[::2], line[1::2][::-1]])
        return [Curve("in order", line), Curve("folded", folded)][: 2 if sizes[0] > 3 else 1]
    found = []
    orders = list(permutations(range(len(sizes))))
    walks: dict[str, Callable[[Sequence[int]], NDArray[np.int64] | None]] = {
        "in order": lambda sizes: np.indices(sizes).reshape(len(sizes), -1).T,
        "a loop": walk_loop,
        "a snake": walk_snake,
    }
    for name, walk in walks.items():
        for order in orders:
            cells = walk([sizes[d] for d in order])
            if cells is not None:
                back = np.empty_like(cells)
                back[:, list(order)] = cells
                found.append(Curve(name, back))
    return found


@dataclass(frozen=True, eq=False)
class AxisLayout:
    """An axis on the torus: its pieces of the dimensions, and the order in which it walks them."""

    pieces: Pieces
    curve: Curve

    def offsets(self, torus: Torus) -> NDArray[np.int64]:
        """Return how far each place of the axis is from the first, in node numbers, ``(size,)``."""
        strides = torus.node_strides
        apart = [strides[piece.dimension] * piece.stride for piece in self.pieces]
        return np.asarray(self.curve.steps @ np.array(apart, dtype=np.int64))

    def in_words(self, torus: Torus) -> str:
        """Return where it lies, in words."""
        words = []
        for dimension, stride, size in self.pieces:
            letter = torus.axes[dimension]
            if size == torus.shape[dimension]:
                words.append(letter)
            elif stride == 1:
                words.append(f"{size} of {letter}")
            elif stride * size == torus.shape[dimension]:
                words.append(f"every {_nth(stride)} of {letter}")
            else:
                words.append(f"{size} of every {_nth(stride)} of {letter}")
        names = ", ".join(words) or "one device"
        return names if self.curve.name == "in order" else f"{names}, {self.curve.name}"


def lines_along(torus: Torus, laid: Sequence[AxisLayout]) -> NDArray[np.int64]:
    """Return the nodes of every group along some axes, the last one fastest, ``(groups, n)``."""
    offsets = np.zeros(1, dtype=np.int64)
    for axis in laid:
        offsets = np.add.outer(offsets, axis.offsets(torus)).ravel()
    begin = np.zeros(1, dtype=np.int64)
    for d, (size, apart) in enumerate(zip(torus.shape, torus.node_strides, strict=True)):
        coords = np.arange(size)
        for dimension, stride, length in (piece for axis in laid for piece in axis.pieces):
            if dimension == d:
                coords = coords[(coords // stride) % length == 0]
        begin = np.add.outer(begin, coords * apart).ravel()
    return begin[:, None] + offsets


def mesh_of(torus: Torus, laid: Sequence[AxisLayout]) -> NDArray[np.int64]:
    """Return the node of each place of a mesh with this axis layout, in mesh shape."""
    nodes = np.zeros((), dtype=np.int64)
    for axis in laid:
        nodes = np.add.outer(nodes, axis.offsets(torus))
    return nodes


def cut_curves(
    torus: Torus, axes: MeshAxes, ours: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], str]]:
    """Give meshes cut from one walk over all nodes that are ours, with a name each.

    The walk is a snake or a loop over the torus; it is cut to the axes, any of them fastest. A
    mesh that is smaller takes the first nodes.
    """
    if torus.n_nodes == 1:
        yield np.zeros(axes.sizes, dtype=np.int64), "one device"
        return
    is_ours = np.isin(np.arange(torus.n_nodes), ours)
    strides = torus.node_strides
    long = [d for d, size in enumerate(torus.shape) if size > 1]
    wide = [a for a, size in enumerate(axes.sizes) if size > 1]
    seen: set[bytes] = set()
    for name, walk in (("a loop", walk_loop), ("a snake", walk_snake)):
        for order in permutations(long):
            cells = walk([torus.shape[d] for d in order])
            if cells is None:
                continue
            nodes = cells @ strides[list(order)]
            nodes = nodes[is_ours[nodes]][: axes.n_tasks]
            for nest in islice(permutations(wide), _MAX_NESTS):
                sizes = [axes.sizes[a] for a in nest]
                folded = nodes.reshape(sizes).transpose(np.argsort(nest)).reshape(axes.sizes)
                key = folded.tobytes()
                if key not in seen:
                    seen.add(key)
                    inner = axes.names[nest[-1]] if nest else axes.names[-1]
                    letters = "".join(torus.axes[d] for d in reversed(order))
                    yield folded, f"{name} over {letters}, {inner} fastest"


def boxes_in(
    torus: Torus, n: int, ours: NDArray[np.int64]
) -> Iterator[tuple[Torus, NDArray[np.int64]]]:
    """Give the boxes of n nodes that are all ours, each as a torus of its own and its nodes.

    A box lies at the first place where all of its nodes are ours. The most compact come first.

    Examples
    --------
    >>> for box, nodes in boxes_in(Torus((4, 4), wrap=False), 4, np.arange(2, 16)):
    ...     print(box, nodes.tolist())
    2mx2m [2, 3, 6, 7]
    1mx4m [4, 5, 6, 7]
    4mx1m [2, 6, 10, 14]
    """
    is_ours = np.isin(np.arange(torus.n_nodes), ours)
    shapes = [
        shape
        for shape in product(*([b for b in divisors(n) if b <= s] for s in torus.shape))
        if math.prod(shape) == n
    ]
    for shape in sorted(shapes, key=lambda shape: (max(shape), shape)):
        inside = np.stack(np.unravel_index(np.arange(n), shape), axis=1)
        free = [
            range(1 if b == s else s if w else s - b + 1)
            for b, s, w in zip(shape, torus.shape, torus.wrap, strict=True)
        ]
        for corner in product(*free):
            nodes = torus.node((inside + corner) % torus.shape).astype(np.int64)
            if is_ours[nodes].all():
                yield box_of(torus, shape), nodes
                break


@dataclass(frozen=True, eq=False)
class RankedLayout(PickledByFields):
    """A layout and the time that a step communicates with it.

    Attributes
    ----------
    problem : MeshProblem
        What a step sends.
    sent : tuple of Score
        The score of each collective.
    place : ndarray of int or tuple of AxisLayout
        The node at each place of the mesh, or where each axis lies.
    name : str
        How the layout is called, if not by its axes.
    """

    problem: MeshProblem
    sent: tuple[Score, ...]
    place: NDArray[np.int64] | tuple[AxisLayout, ...]
    name: str = ""

    @lazy
    def nodes(self) -> NDArray[np.int64]:
        """The node of the torus at each place, in the shape of the mesh."""
        place = self.place
        return mesh_of(self.problem.torus, place) if isinstance(place, tuple) else place

    @property
    def words(self) -> str:
        """How the axes lie."""
        if self.name or not isinstance(self.place, tuple):
            return self.name
        pairs = zip(self.problem.axes.names, self.place, strict=True)
        return "; ".join(f"{name}: {laid.in_words(self.problem.torus)}" for name, laid in pairs)

    @lazy
    def time(self) -> float:
        """Seconds that a step communicates."""
        return self.problem.step_time(self.sent)

    @property
    def source(self) -> Literal["simulated", "predicted"]:
        """By simulated packets, or by link loads in closed form."""
        simulated = all(each.simulated is not None for each in self.sent)
        return "simulated" if simulated and not self.problem.overlap else "predicted"

    def link_seconds(self) -> NDArray[np.float64]:
        """Return how long each link works in a step, ``(n_collectives, n_links)``.

        Seconds in closed form, repeated runs of a collective together.
        """
        rows = []
        for each in self.problem.traffic:
            found = score(each, self.problem.groups(each, self.nodes), with_links=True)
            rows.append(found.link_seconds * each.times)
        return np.stack(rows)


# Layouts by the rounded times of a step and of everything that is sent.
_Fastest = dict[tuple[int, ...], RankedLayout]


@dataclass(eq=False)
class LayoutScorer:
    """Scores of layouts; a collective along one axis depends on the place of that axis alone."""

    problem: MeshProblem
    # The host of each node; if given, the nodes of a host must form a box of the mesh.
    hosts: NDArray[np.int64] | None = None
    _best: dict[tuple[int, Pieces], AxisLayout] = field(default_factory=dict)
    _seen: dict[tuple[int, tuple[Pieces, ...]], Score] = field(default_factory=dict)
    _to_all: dict[tuple[float, tuple[int, ...], bytes], Score] = field(default_factory=dict)
    _cells: dict[tuple[int, ...] | Pieces, Torus] = field(default_factory=dict)
    _walks: dict[Pieces, list[tuple[AxisLayout, Groups]]] = field(default_factory=dict)

    def of_mesh(self, mesh: NDArray[np.int64], name: str = "") -> RankedLayout:
        """Return the layout of a mesh of nodes."""
        problem = self.problem
        sent = (self._complete(each, problem.groups(each, mesh)) for each in problem.traffic)
        return RankedLayout(problem, tuple(sent), mesh, name)

    def of_pieces(self, cut: Cut) -> RankedLayout:
        """Return the layout of axes on these pieces, each walking its own in the best order."""
        laid = tuple(self._laid(axis, pieces) for axis, pieces in enumerate(cut))
        sent = tuple(self._sent_along(i, laid) for i in range(len(self.problem.traffic)))
        return RankedLayout(self.problem, sent, laid)

    def _complete(self, traffic: MeshTraffic, groups: Groups, bucket: Score | None = None) -> Score:
        """Score a collective, with the seconds of all links where several share them."""
        torus = self.problem.torus
        found = self._scored(traffic, groups, bucket, with_links=self.problem.overlap)
        if groups.torus is torus:
            return found
        # The link of the torus that is this one of its first cell.
        node, port = divmod(found.busiest, 2 * torus.ndim)
        first = int(torus.node(groups.torus.coords[node])) * 2 * torus.ndim
        return replace(found, busiest=first + port)

    def _scored(
        self,
        traffic: MeshTraffic,
        groups: Groups,
        bucket: Score | None = None,
        *,
        with_links: bool = False,
    ) -> Score:
        if traffic.collective != "alltoall":
            return score(traffic, groups, bucket, with_links=with_links)
        # Neither the order in a group nor that of the groups matters.
        ordered = np.sort(groups.nodes, axis=1)
        key = (traffic.nbytes, groups.torus.shape, ordered[np.argsort(ordered[:, 0])].tobytes())
        if key not in self._to_all:
            self._to_all[key] = score(traffic, groups, with_links=self.problem.overlap)
        return self._to_all[key]

    def _laid(self, axis: int, pieces: Pieces) -> AxisLayout:
        """The axis on these pieces, walked so that what is sent along it alone is fastest."""
        key = (axis, pieces)
        if key in self._best:
            return self._best[key]
        name = self.problem.axes.names[axis]
        alone = {i: t for i, t in enumerate(self.problem.traffic) if t.axes == (name,)}
        walks = self._walked(pieces)
        if self.hosts is not None:
            walks = [walk for walk in walks if self._in_a_row(walk[0])] or walks
        boxes = {i: box_score(traffic, walks[0][1]) for i, traffic in alone.items()}
        times = [
            sum(t.times * self._scored(t, groups, boxes[i]).time for i, t in alone.items())
            for _, groups in (walks if alone else walks[:1])
        ]
        # Times that differ by rounding are equal; the plainest walk is the first.
        best = next(i for i, time in enumerate(times) if time <= min(times) * (1 + 1e-9))
        laid, groups = walks[best]
        for i, traffic in alone.items():
            self._seen[i, (pieces,)] = self._complete(traffic, groups, boxes[i])
        self._best[key] = laid
        return laid

    def _in_a_row(self, laid: AxisLayout) -> bool:
        """Whether the nodes of each host follow each other along every line of an axis."""
        assert self.hosts is not None
        hosts = self.hosts[lines_along(self.problem.torus, [laid])]
        runs = (np.diff(hosts, axis=1) != 0).sum(axis=1)
        different = (np.diff(np.sort(hosts, axis=1), axis=1) != 0).sum(axis=1)
        return bool((runs == different).all())

    def _groups_along(self, laid: Sequence[AxisLayout]) -> Groups:
        """Groups along axes; where links are shared, those of the whole torus."""
        cell = self.problem.torus
        if not self.problem.overlap:
            pieces = tuple(piece for one in laid for piece in one.pieces)
            if pieces not in self._cells:
                cell = cell_of(cell, pieces)
                self._cells[pieces] = self._cells.setdefault(cell.shape, cell)
            cell = self._cells[pieces]
        return Groups(lines_along(cell, laid), cell)

    def _walked(self, pieces: Pieces) -> list[tuple[AxisLayout, Groups]]:
        """The walks over pieces."""
        if pieces not in self._walks:
            every = [AxisLayout(pieces, each) for each in curves([piece.size for piece in pieces])]
            self._walks[pieces] = [(laid, self._groups_along([laid])) for laid in every]
        return self._walks[pieces]

    def _sent_along(self, item: int, laid: Sequence[AxisLayout]) -> Score:
        """Score a collective along its axes."""
        problem, traffic = self.problem, self.problem.traffic[item]
        own = [laid[problem.axes.number(name)] for name in traffic.axes] or laid
        key = (item, tuple(each.pieces for each in own))
        if key not in self._seen:
            if traffic.axes:
                groups = self._groups_along(own)
            else:
                groups = problem.groups(traffic, mesh_of(problem.torus, own))
            self._seen[key] = self._complete(traffic, groups)
        return self._seen[key]


def best_layouts(
    scorer: LayoutScorer,
    devices: Devices,
    n: int,
    n_jobs: int,
    progress: Callable[[int, int], object] | None = None,
    max_splits: int = MAX_SPLITS,
    is_over: Callable[[], bool] | None = None,
) -> tuple[int, list[RankedLayout]]:
    """Return how many layouts were scored, and the n fastest that differ in their times.

    They are of pieces where the mesh fills the torus, or cut from a walk. Workers score blocks of
    them; their number changes nothing. ``is_over`` ends the search early.
    """
    torus, axes = scorer.problem.torus, scorer.problem.axes
    cuts: Iterator[Cut] = iter(())
    if axes.n_tasks == torus.n_nodes:
        cuts = islice(splits(torus.shape, axes.sizes), max_splits + 1)
    blocks = list(iter(lambda: list(islice(cuts, _BLOCK)), []))
    task = Task(_best_of_pieces, scorer, n, is_over)
    found = task.in_order(blocks, n_jobs, progress=progress)
    walks = cut_curves(torus, axes, devices.nodes)
    found.append(_best(scorer, (scorer.of_mesh(*walk) for walk in walks), n, is_over))
    if axes.n_tasks < torus.n_nodes:
        found.append(_best(scorer, _in_boxes(scorer, devices, n), n))
    fastest: _Fastest = {}
    for _, some in found:
        for times, layout in some.items():
            fastest.setdefault(times, layout)
    return sum(number for number, _ in found), [*_first(fastest, n).values()]


def _best_of_pieces(
    scorer: LayoutScorer, n: int, is_over: Callable[[], bool] | None, cuts: Sequence[Cut]
) -> tuple[int, _Fastest]:
    return _best(scorer, map(scorer.of_pieces, cuts), n, is_over)


def _best(
    scorer: LayoutScorer,
    layouts: Iterable[RankedLayout],
    n: int,
    is_over: Callable[[], bool] | None = None,
) -> tuple[int, _Fastest]:
    """Return how many layouts were scored, and the n fastest that differ in their times."""
    number, fastest = 0, _Fastest()
    if is_over is not None:
        layouts = takewhile(lambda _: not is_over(), layouts)
    for counted, layout in enumerate(layouts, start=1):
        if scorer.hosts is not None and not is_together(layout.nodes, scorer.hosts):
            continue
        number = counted
        times = (*scorer.problem.times(layout.sent), layout.time)
        alike = tuple(round(float(np.log(t)) / ALIKE) if t else 0 for t in times)
        fastest.setdefault(alike, layout)
        if len(fastest) > 50 * n:
            fastest = _first(fastest, n)
    return number, _first(fastest, n)


def _first(fastest: _Fastest, n: int) -> _Fastest:
    """The n fastest; equal ones stay in the order in which they were scored."""
    return dict(sorted(fastest.items(), key=lambda each: each[1].time)[:n])


def _in_boxes(scorer: LayoutScorer, devices: Devices, n: int) -> Iterator[RankedLayout]:
    """Give the fastest layouts of pieces in each box of the torus that the mesh fills."""
    axes, torus = scorer.problem.axes, scorer.problem.torus
    for box, nodes in islice(boxes_in(torus, axes.n_tasks, devices.nodes), _BOXES):
        hosts = None if scorer.hosts is None else scorer.hosts[nodes]
        inside = LayoutScorer(replace(scorer.problem, torus=box), hosts)
        cuts = list(islice(splits(box.shape, axes.sizes), _SPLITS_IN_BOX))
        corner = ",".join(map(str, torus.coords[nodes[0]].tolist()))
        size = "x".join(map(str, box.shape))
        for layout in _best_of_pieces(inside, n, None, cuts)[1].values():
            name = f"{layout.words}, in {size} from ({corner})"
            yield scorer.of_mesh(nodes[layout.nodes], name)


def is_together(mesh: NDArray[np.int64], hosts: NDArray[np.int64]) -> bool:
    """Whether the nodes of each host form a box of a mesh.

    Examples
    --------
    >>> hosts = np.array([0, 0, 1, 1])
    >>> is_together(np.array([0, 1, 2, 3]), hosts), is_together(np.array([0, 2, 1, 3]), hosts)
    (True, False)
    """
    _, of_place, count = np.unique(hosts[mesh].ravel(), return_inverse=True, return_counts=True)
    box = np.ones(count.size, dtype=np.int64)
    for place in np.unravel_index(np.arange(mesh.size), mesh.shape):
        low, high = np.full(count.size, mesh.size), np.zeros(count.size, dtype=np.int64)
        np.minimum.at(low, of_place, place)
        np.maximum.at(high, of_place, place)
        box *= high - low + 1
    return bool((box == count).all())
