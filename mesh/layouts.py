"""Layouts: the torus node at each coordinate of a logical mesh, and the time of a step.

A split divides the dimensions of the torus into pieces, and assigns some to each mesh axis. The
axis then walks over the nodes of its pieces in some order. The time of a collective depends only on
the layout of its own axes, so `LayoutScorer` scores it once for all splits that share this layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice, permutations, product, takewhile
from typing import Literal, NamedTuple

import numpy as np

from toruscast._lazy import PickledByFields, lazy
from toruscast.mapping.strategies.orders import divisors, walk_loop, walk_snake
from toruscast.mapping.torus import Torus
from toruscast.text import joined
from toruscast.typing import Floats, Ints
from toruscast.workers import Task

from .devices import Devices
from .step_times import (
    CollectiveGroups,
    CollectiveScore,
    MeshProblem,
    cut_box,
    has_separable_routes,
    score_bucket,
    score_collective,
)
from .traffic import MeshAxes, MeshTraffic

# Maximum number of scored splits of the dimensions. Splits with the fewest cuts come first.
MAX_SPLITS = 100_000
# Layouts that a worker scores at a time.
_BLOCK = 500
# Maximum number of boxes that are tried for a smaller mesh, and of splits per box.
_BOXES, _SPLITS_IN_BOX = 24, 2_000
# Times that differ by less than this share are equal.
TIME_TOLERANCE = 1e-6
# Maximum number of axis orders for the cuts of a walk: all orders of up to five axes.
_MAX_AXIS_ORDERS = 120


class DimensionPart(NamedTuple):
    """``size`` nodes along a dimension, ``stride`` apart."""

    dimension: int
    stride: int
    size: int


Pieces = tuple[DimensionPart, ...]
Split = Sequence[Pieces]


def split_dimensions(shape: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[Pieces, ...]]:
    """Yield every split of the dimensions into pieces for axes of these sizes.

    An axis gets at most one piece of a dimension. The splits with the fewest cuts come first.
    """

    def split(
        dimension: int, remaining: tuple[int, ...], pieces: tuple[Pieces, ...]
    ) -> Iterator[tuple[Pieces, ...]]:
        """Split this dimension and the later ones for axes of the remaining sizes."""
        if dimension == len(shape):
            if all(size == 1 for size in remaining):
                yield pieces
            return
        for parts in _list_factorisations(shape[dimension], remaining):
            stride, sizes_left, longer = 1, [*remaining], [*pieces]
            for axis, size in parts:
                longer[axis] = (*longer[axis], DimensionPart(dimension, stride, size))
                stride *= size
                sizes_left[axis] //= size
            yield from split(dimension + 1, tuple(sizes_left), tuple(longer))

    yield from split(0, tuple(sizes), ((),) * len(sizes))


@lru_cache(10_000)
def _list_factorisations(
    size: int, axis_sizes: tuple[int, ...]
) -> list[tuple[tuple[int, int], ...]]:
    """Return every factorisation of a dimension into pieces (axis, size), the shortest first.

    An axis occurs at most once in a factorisation. The size of its piece divides the axis's size.
    """
    if size == 1:
        return [()]
    found: list[tuple[tuple[int, int], ...]] = []
    for axis, axis_size in enumerate(axis_sizes):
        for part in divisors(math.gcd(size, axis_size)):
            if part > 1:
                others = tuple(1 if a == axis else n for a, n in enumerate(axis_sizes))
                tails = _list_factorisations(size // part, others)
                found += [((axis, part), *tail) for tail in tails]
    return sorted(found, key=len)


class GridWalk(NamedTuple):
    """An order in which to visit the cells of a grid."""

    name: str
    cells: Ints  # (n_cells, grid dimensions)


def list_walks(sizes: Sequence[int]) -> list[GridWalk]:
    """Return the walks over a grid that an axis may take, the simplest first."""
    if len(sizes) == 0:
        return [GridWalk("in order", np.zeros((1, 0), dtype=np.int64))]
    if len(sizes) == 1:
        line = np.arange(sizes[0])[:, None]
        # Walk out over the even cells and back over the odd ones, in steps of at most two.
        folded = np.concatenate([line[::2], line[1::2][::-1]])
        return [GridWalk("in order", line), GridWalk("folded", folded)][: 2 if sizes[0] > 3 else 1]
    found = []
    walks: dict[str, Callable[[Sequence[int]], Ints | None]] = {
        "in order": lambda sizes: np.indices(sizes).reshape(len(sizes), -1).T,
        "loop": walk_loop,
        "snake": walk_snake,
    }
    for name, walk in walks.items():
        for order in permutations(range(len(sizes))):
            walked = walk([sizes[d] for d in order])
            if walked is not None:
                cells = np.empty_like(walked)
                cells[:, list(order)] = walked
                found.append(GridWalk(name, cells))
    return found


@dataclass(frozen=True, eq=False)
class AxisLayout:
    """An axis on the torus: its pieces of the dimensions, and its walk over them."""

    pieces: Pieces
    walk: GridWalk

    def offsets(self, torus: Torus) -> Ints:
        """Return the node numbers along the axis relative to the first node, ``(size,)``."""
        strides = [torus.node_strides[piece.dimension] * piece.stride for piece in self.pieces]
        return np.asarray(self.walk.cells @ np.array(strides, dtype=np.int64))

    def describe(self, torus: Torus) -> str:
        """Return a phrase that follows the axis name, such as "loops over 4x2 blocks in XY"."""
        if not self.pieces:
            return "has one device"
        blocks = [piece for piece in self.pieces if piece.stride == 1]
        letters = "".join(torus.axes[piece.dimension] for piece in blocks)
        regions = [letters] if blocks else []
        if any(piece.size < torus.shape[piece.dimension] for piece in blocks):
            shape = "x".join(str(piece.size) for piece in blocks)
            where = f" in {letters}" if len(blocks) < torus.ndim else ""
            is_line = len(blocks) == 1
            regions = [
                f"blocks of {shape} along {letters}" if is_line else f"{shape} blocks{where}"
            ]
        strided: dict[tuple[int, str], list[str]] = {}
        for dimension, stride, size in self.pieces:
            if stride > 1:
                is_whole = stride * size == torus.shape[dimension]
                ending = "" if is_whole else f" in blocks of {stride * size}"
                strided.setdefault((stride, ending), []).append(torus.axes[dimension])
        for (stride, ending), along in strided.items():
            regions.append(f"every {_ordinal(stride)} node along {joined(along)}{ending}")
        verb = {"loop": "loops over", "snake": "snakes over"}.get(
            self.walk.name, "spans" if blocks else "takes"
        )
        return f"{verb} {joined(regions)}" + ", folded" * (self.walk.name == "folded")


def _ordinal(number: int) -> str:
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    words = {2: "second", 3: "third", 4: "fourth"}
    return words.get(number, f"{number}{ending}")


def list_axis_lines(torus: Torus, layouts: Sequence[AxisLayout]) -> Ints:
    """Return the nodes of every group along some axes, ``(n_groups, n)``, last axis fastest.

    A group starts at each node that has position 0 in all pieces of these axes.
    """
    offsets = np.zeros(1, dtype=np.int64)
    for layout in layouts:
        offsets = np.add.outer(offsets, layout.offsets(torus)).ravel()
    first = np.zeros(1, dtype=np.int64)
    for d, (size, node_stride) in enumerate(zip(torus.shape, torus.node_strides, strict=True)):
        coords = np.arange(size)
        for dimension, stride, length in (piece for layout in layouts for piece in layout.pieces):
            if dimension == d:
                coords = coords[(coords // stride) % length == 0]
        first = np.add.outer(first, coords * node_stride).ravel()
    return first[:, None] + offsets


def build_mesh(torus: Torus, layouts: Sequence[AxisLayout]) -> Ints:
    """Return the node at each mesh coordinate, in mesh shape, from the layouts of the axes."""
    nodes = np.zeros((), dtype=np.int64)
    for layout in layouts:
        nodes = np.add.outer(nodes, layout.offsets(torus))
    return nodes


def cut_walks(torus: Torus, axes: MeshAxes, available: Ints) -> Iterator[tuple[Ints, str]]:
    """Yield meshes cut from walks over all available nodes, each with a description.

    A walk is a snake or a loop over the torus. Its nodes fill the mesh, once for each order of the
    axes. A mesh that is smaller than the torus takes the first nodes.
    """
    if torus.n_nodes == 1:
        yield np.zeros(axes.sizes, dtype=np.int64), "one device"
        return
    is_available = np.isin(np.arange(torus.n_nodes), available)
    dimensions = [d for d, size in enumerate(torus.shape) if size > 1]
    long_axes = [a for a, size in enumerate(axes.sizes) if size > 1]
    seen: set[bytes] = set()
    for name, walk in (("loop", walk_loop), ("snake", walk_snake)):
        for order in permutations(dimensions):
            cells = walk([torus.shape[d] for d in order])
            if cells is None:
                continue
            nodes = cells @ torus.node_strides[list(order)]
            nodes = nodes[is_available[nodes]][: axes.n_tasks]
            for axis_order in islice(permutations(long_axes), _MAX_AXIS_ORDERS):
                sizes = [axes.sizes[a] for a in axis_order]
                mesh = nodes.reshape(sizes).transpose(np.argsort(axis_order)).reshape(axes.sizes)
                key = mesh.tobytes()
                if key not in seen:
                    seen.add(key)
                    fastest = axes.names[axis_order[-1]] if axis_order else axes.names[-1]
                    letters = "".join(torus.axes[d] for d in reversed(order))
                    yield mesh, f"a {name} over {letters}, {fastest} varying fastest"


def find_boxes(torus: Torus, n: int, available: Ints) -> Iterator[tuple[Torus, Ints]]:
    """Yield boxes of n available nodes, each as a torus with the box's nodes in the whole torus.

    Each shape yields the first box whose nodes are all available. The most compact shapes come
    first.

    Examples
    --------
    >>> for box, nodes in find_boxes(Torus((4, 4), wrap=False), 4, np.arange(2, 16)):
    ...     print(box, nodes.tolist())
    2mx2m [2, 3, 6, 7]
    1mx4m [4, 5, 6, 7]
    4mx1m [2, 6, 10, 14]
    """
    is_available = np.isin(np.arange(torus.n_nodes), available)
    lengths = product(*([b for b in divisors(n) if b <= size] for size in torus.shape))
    shapes = [shape for shape in lengths if math.prod(shape) == n]
    for shape in sorted(shapes, key=lambda shape: (max(shape), shape)):
        inside = np.stack(np.unravel_index(np.arange(n), shape), axis=1)
        positions = [
            range(1 if length == size else size if wrap else size - length + 1)
            for length, size, wrap in zip(shape, torus.shape, torus.wrap, strict=True)
        ]
        for corner in product(*positions):
            nodes = torus.node((inside + corner) % torus.shape).astype(np.int64)
            if is_available[nodes].all():
                yield cut_box(torus, shape), nodes
                break


@dataclass(frozen=True, eq=False)
class RankedLayout(PickledByFields):
    """A layout and the communication time of a step.

    Attributes
    ----------
    problem : MeshProblem
        The mesh, its traffic and the torus.
    scores : tuple of CollectiveScore
        The score of each collective.
    placement : ndarray of int or tuple of AxisLayout
        The node at each mesh coordinate, or the layout of each axis.
    name : str
        Description of the layout; by default, that of its axes.
    """

    problem: MeshProblem
    scores: tuple[CollectiveScore, ...]
    placement: Ints | tuple[AxisLayout, ...]
    name: str = ""

    @lazy
    def nodes(self) -> Ints:
        """The node at each mesh coordinate, in mesh shape."""
        if isinstance(self.placement, tuple):
            return build_mesh(self.problem.torus, self.placement)
        return self.placement

    @property
    def description(self) -> str:
        """The name or, without a name, the pieces and the walk of each axis in words."""
        if self.name or not isinstance(self.placement, tuple):
            return self.name
        pairs = zip(self.problem.axes.names, self.placement, strict=True)
        return "; ".join(f"{name} {layout.describe(self.problem.torus)}" for name, layout in pairs)

    @lazy
    def time(self) -> float:
        """Communication time of a step, in seconds."""
        return self.problem.step_time(self.scores)

    @property
    def source(self) -> Literal["simulated", "predicted"]:
        """Whether the time is from simulated packets or from link loads in closed form."""
        simulated = all(score.simulated is not None for score in self.scores)
        return "simulated" if simulated and not self.problem.overlap else "predicted"

    @lazy
    def link_seconds(self) -> Floats:
        """Busy seconds of each link in a step, in closed form, ``(n_collectives, n_links)``."""
        rows = []
        for traffic in self.problem.traffic:
            groups = self.problem.groups(traffic, self.nodes)
            score = score_collective(traffic, groups, with_links=True)
            rows.append(score.link_seconds * traffic.runs)
        return np.stack(rows)


# The fastest layouts. The key is the rounded logarithm of each collective's time and of the step's,
# so only one of several layouts with equal times is kept.
_LayoutsByTimes = dict[tuple[int, ...], RankedLayout]


@dataclass(eq=False)
class LayoutScorer:
    """Scores layouts. Scores of collectives are cached, as they depend only on their own axes."""

    problem: MeshProblem
    # Host of each node. If given, the nodes of a host must form a box of the mesh.
    hosts: Ints | None = None
    # Caches: the fastest walk by axis and pieces, scores by index of the collective and pieces,
    # all-to-all scores by bytes and nodes, and all walks by pieces.
    _best: dict[tuple[int, Pieces], AxisLayout] = field(default_factory=dict)
    _scores: dict[tuple[int, tuple[Pieces, ...]], CollectiveScore] = field(default_factory=dict)
    _alltoall: dict[tuple[float, tuple[int, ...], bytes], CollectiveScore] = field(
        default_factory=dict
    )
    _walks: dict[Pieces, list[tuple[AxisLayout, CollectiveGroups]]] = field(default_factory=dict)

    def score_mesh(self, mesh: Ints, name: str = "") -> RankedLayout:
        """Score the layout with these nodes, given in mesh shape."""
        problem = self.problem
        pairs = ((traffic, problem.groups(traffic, mesh)) for traffic in problem.traffic)
        scores = tuple(self._score(traffic, groups) for traffic, groups in pairs)
        return RankedLayout(problem, scores, mesh, name)

    def score_split(self, split: Split) -> RankedLayout:
        """Score the layout of the axes on these pieces, each axis with its fastest walk."""
        layouts = tuple(self._choose_walk(axis, pieces) for axis, pieces in enumerate(split))
        indices = range(len(self.problem.traffic))
        scores = tuple(self._score_along_axes(i, layouts) for i in indices)
        return RankedLayout(self.problem, scores, layouts)

    def _score(
        self,
        traffic: MeshTraffic,
        groups: CollectiveGroups,
        bucket: CollectiveScore | None = None,
    ) -> CollectiveScore:
        """Score a collective; an all-to-all is scored once for all orders of its members."""
        with_links = self.problem.overlap
        if traffic.collective != "alltoall":
            return score_collective(traffic, groups, bucket, with_links=with_links)
        nodes = np.sort(groups.nodes, axis=1)
        key = (traffic.nbytes, groups.torus.shape, nodes[np.argsort(nodes[:, 0])].tobytes())
        if key not in self._alltoall:
            self._alltoall[key] = score_collective(traffic, groups, with_links=with_links)
        return self._alltoall[key]

    def _choose_walk(self, axis: int, pieces: Pieces) -> AxisLayout:
        """Return the walk over the pieces that is fastest for the traffic along this axis alone."""
        key = (axis, pieces)
        if key in self._best:
            return self._best[key]
        name = self.problem.axes.names[axis]
        along_axis = {i: t for i, t in enumerate(self.problem.traffic) if t.axes == (name,)}
        walks = self._list_axis_layouts(pieces)
        if self.hosts is not None:
            walks = [walk for walk in walks if self._keeps_hosts_in_runs(walk[0])] or walks
        # The bucket algorithm takes equally long for all walks.
        buckets = {i: score_bucket(traffic, walks[0][1]) for i, traffic in along_axis.items()}
        times = [
            sum(t.runs * self._score(t, groups, buckets[i]).time for i, t in along_axis.items())
            for _, groups in (walks if along_axis else walks[:1])
        ]
        # If times differ only by rounding, prefer the simplest walk.
        best = next(i for i, time in enumerate(times) if time <= min(times) * (1 + 1e-9))
        layout, groups = walks[best]
        for i, traffic in along_axis.items():
            self._scores[i, (pieces,)] = self._score(traffic, groups, buckets[i])
        self._best[key] = layout
        return layout

    def _keeps_hosts_in_runs(self, layout: AxisLayout) -> bool:
        """Return whether the nodes of each host are consecutive along every line of an axis."""
        assert self.hosts is not None
        hosts = self.hosts[list_axis_lines(self.problem.torus, [layout])]
        changes = (np.diff(hosts, axis=1) != 0).sum(axis=1)
        fewest = (np.diff(np.sort(hosts, axis=1), axis=1) != 0).sum(axis=1)
        return bool((changes == fewest).all())

    def _build_groups(self, layouts: Sequence[AxisLayout]) -> CollectiveGroups:
        """Return the groups along axes within the smallest box whose copies contain all groups.

        The box is the whole torus if collectives share links, or if routes could leave a copy.
        """
        torus = self.problem.torus
        if not self.problem.overlap and has_separable_routes(torus):
            box = [1] * torus.ndim
            for dimension, stride, size in (piece for each in layouts for piece in each.pieces):
                box[dimension] = max(box[dimension], stride * size)
            # A box spans a whole ring or at most half of it, so shortest routes stay inside it.
            torus = cut_box(torus, tuple(box))
        return CollectiveGroups(list_axis_lines(torus, layouts), torus)

    def _list_axis_layouts(self, pieces: Pieces) -> list[tuple[AxisLayout, CollectiveGroups]]:
        """Return every walk over the pieces, each with the groups of an axis that takes it."""
        if pieces not in self._walks:
            walks = list_walks([piece.size for piece in pieces])
            layouts = [AxisLayout(pieces, walk) for walk in walks]
            self._walks[pieces] = [(layout, self._build_groups([layout])) for layout in layouts]
        return self._walks[pieces]

    def _score_along_axes(self, index: int, layouts: Sequence[AxisLayout]) -> CollectiveScore:
        """Score the collective with this index, from the layouts of all axes."""
        problem, traffic = self.problem, self.problem.traffic[index]
        if traffic.axes:
            layouts = [layouts[problem.axes.index(name)] for name in traffic.axes]
        key = (index, tuple(layout.pieces for layout in layouts))
        if key not in self._scores:
            if traffic.axes:
                groups = self._build_groups(layouts)
            else:
                groups = problem.groups(traffic, build_mesh(problem.torus, layouts))
            self._scores[key] = self._score(traffic, groups)
        return self._scores[key]


def rank_layouts(
    scorer: LayoutScorer,
    devices: Devices,
    n: int,
    n_jobs: int,
    progress: Callable[[int, int], object] | None = None,
    max_splits: int = MAX_SPLITS,
    is_over: Callable[[], bool] | None = None,
) -> tuple[int, list[RankedLayout]]:
    """Return the number of scored layouts, and the n fastest ones with different times.

    Layouts are cuts of walks and, if the mesh fills the torus, splits of the dimensions. Workers
    score blocks of layouts; the result does not depend on the number of workers. The search ends
    early when ``is_over`` returns True.
    """
    torus, axes = scorer.problem.torus, scorer.problem.axes
    splits: Iterator[Split] = iter(())
    if axes.n_tasks == torus.n_nodes:
        splits = islice(split_dimensions(torus.shape, axes.sizes), max_splits + 1)
    blocks = list(iter(lambda: list(islice(splits, _BLOCK)), []))
    task = Task(_rank_splits, scorer, n, is_over)
    scored = task.in_order(blocks, n_jobs, progress=progress)
    walks = cut_walks(torus, axes, devices.nodes)
    scored.append(_keep_fastest(scorer, (scorer.score_mesh(*walk) for walk in walks), n, is_over))
    if axes.n_tasks < torus.n_nodes:
        scored.append(_keep_fastest(scorer, _rank_in_boxes(scorer, devices, n), n))
    fastest: _LayoutsByTimes = {}
    for _, layouts in scored:
        for times, layout in layouts.items():
            fastest.setdefault(times, layout)
    return sum(number for number, _ in scored), [*_take_fastest(fastest, n).values()]


def _rank_splits(
    scorer: LayoutScorer, n: int, is_over: Callable[[], bool] | None, splits: Sequence[Split]
) -> tuple[int, _LayoutsByTimes]:
    return _keep_fastest(scorer, map(scorer.score_split, splits), n, is_over)


def _keep_fastest(
    scorer: LayoutScorer,
    layouts: Iterable[RankedLayout],
    n: int,
    is_over: Callable[[], bool] | None = None,
) -> tuple[int, _LayoutsByTimes]:
    """Return the number of scored layouts, and the n fastest by their times.

    Layouts that separate the nodes of a host are skipped.
    """
    n_scored, fastest = 0, _LayoutsByTimes()
    if is_over is not None:
        layouts = takewhile(lambda _: not is_over(), layouts)
    for count, layout in enumerate(layouts, start=1):
        if scorer.hosts is not None and not keeps_hosts_together(layout.nodes, scorer.hosts):
            continue
        n_scored = count
        times = (*scorer.problem.collective_times(layout.scores), layout.time)
        key = tuple(round(float(np.log(t)) / TIME_TOLERANCE) if t else 0 for t in times)
        fastest.setdefault(key, layout)
        # Drop slow layouts now and then to save memory.
        if len(fastest) > 50 * n:
            fastest = _take_fastest(fastest, n)
    return n_scored, _take_fastest(fastest, n)


def _take_fastest(fastest: _LayoutsByTimes, n: int) -> _LayoutsByTimes:
    """Return the n fastest; layouts of equal time keep their order."""
    return dict(sorted(fastest.items(), key=lambda each: each[1].time)[:n])


def _rank_in_boxes(scorer: LayoutScorer, devices: Devices, n: int) -> Iterator[RankedLayout]:
    """Yield the n fastest splits of each box that the mesh fills, scored on the whole torus."""
    axes, torus = scorer.problem.axes, scorer.problem.torus
    for box, nodes in islice(find_boxes(torus, axes.n_tasks, devices.nodes), _BOXES):
        hosts = None if scorer.hosts is None else scorer.hosts[nodes]
        box_scorer = LayoutScorer(replace(scorer.problem, torus=box), hosts)
        splits = list(islice(split_dimensions(box.shape, axes.sizes), _SPLITS_IN_BOX))
        corner = ",".join(map(str, torus.coords[nodes[0]].tolist()))
        size = "x".join(map(str, box.shape))
        for layout in _rank_splits(box_scorer, n, None, splits)[1].values():
            name = f"{layout.description}, in the {size} box at ({corner})"
            yield scorer.score_mesh(nodes[layout.nodes], name)


def keeps_hosts_together(mesh: Ints, hosts: Ints) -> bool:
    """Return whether the nodes of each host form a box of the mesh.

    Examples
    --------
    >>> hosts = np.array([0, 0, 1, 1])
    >>> meshes = np.array([0, 1, 2, 3]), np.array([0, 2, 1, 3])
    >>> [keeps_hosts_together(mesh, hosts) for mesh in meshes]
    [True, False]
    """
    # The nodes of a host form a box if they fill the box between their extreme coordinates.
    _, host, count = np.unique(hosts[mesh].ravel(), return_inverse=True, return_counts=True)
    box = np.ones(count.size, dtype=np.int64)
    for coords in np.unravel_index(np.arange(mesh.size), mesh.shape):
        low, high = np.full(count.size, mesh.size), np.zeros(count.size, dtype=np.int64)
        np.minimum.at(low, host, coords)
        np.maximum.at(high, host, coords)
        box *= high - low + 1
    return bool((box == count).all())
