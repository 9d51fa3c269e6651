"""Layouts of a mesh, each with the times of what is sent, computed once for what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping import Torus
from toruscast.mesh.devices import Devices
from toruscast.mesh.layouts import (
    AxisLayout,
    Pieces,
    boxes_in,
    cell_of,
    curves,
    cut_curves,
    lines_along,
    link_in,
    mesh_of,
    splits,
)
from toruscast.mesh.traffic import PARTS, MeshAxes, MeshTraffic, groups_along
from toruscast.workers import Task

from .closed_form import RingSteps, Score, box_score, ring_seconds, score

# Most ways to cut the dimensions that are scored; the plainest come first.
MOST_SPLITS = 100_000
# Layouts that a worker scores at a time.
_BLOCK = 500
# Boxes of the torus that a smaller mesh may fill, and layouts of pieces in each.
_BOXES, _SPLITS_IN_BOX = 24, 2_000
# Times that differ by less than this share are equal.
ALIKE = 1e-6
Cut = Sequence[Pieces]
# How an axis lies, the nodes of its groups in the part of the torus that repeats, and its rings.
_Walk = tuple[AxisLayout, tuple[NDArray[np.int64], Torus], RingSteps | None]


@dataclass(frozen=True, eq=False)
class LaidMesh:
    """A layout with its scores: axes laid piece by piece, or a mesh of nodes."""

    scores: tuple[Score, ...]
    laid: tuple[AxisLayout, ...] = ()
    mesh: NDArray[np.int64] | None = None
    name: str = ""

    def nodes(self, torus: Torus) -> NDArray[np.int64]:
        """The node at each place of the mesh."""
        return mesh_of(torus, self.laid) if self.mesh is None else self.mesh

    def in_words(self, torus: Torus, axes: MeshAxes) -> str:
        """How the axes lie."""
        pairs = zip(axes.names, self.laid, strict=True) if self.laid else ()
        return self.name or "; ".join(f"{name}: {laid.in_words(torus)}" for name, laid in pairs)


@dataclass(eq=False)
class Scored:
    """Scores of layouts; a collective along one axis depends on the place of that axis alone."""

    torus: Torus
    axes: MeshAxes
    traffic: tuple[MeshTraffic, ...]
    overlap: bool
    # The host of each node; if given, the nodes of a host must form a box of the mesh.
    hosts: NDArray[np.int64] | None = None
    _best: dict[tuple[int, Pieces], AxisLayout] = field(default_factory=dict)
    _seen: dict[tuple[int, tuple[Pieces, ...]], Score] = field(default_factory=dict)
    _to_all: dict[tuple[float, tuple[int, ...], bytes], Score] = field(default_factory=dict)
    _cells: dict[tuple[int, ...] | Pieces, Torus] = field(default_factory=dict)
    _walks: dict[Pieces, list[_Walk]] = field(default_factory=dict)

    def of_mesh(self, mesh: NDArray[np.int64], name: str = "") -> LaidMesh:
        """Return the layout of a mesh of nodes."""
        scores = tuple(self._timed(t, self.lines(t, mesh)) for t in self.traffic)
        return LaidMesh(scores, mesh=mesh, name=name)

    def times(self, layout: LaidMesh) -> list[float]:
        """Return the seconds of all runs of each collective of a step."""
        pairs = zip(layout.scores, self.traffic, strict=True)
        return [found.time * each.times for found, each in pairs]

    def step_time(self, layout: LaidMesh) -> float:
        """Return the seconds of a step, of collectives in turn or at once."""
        times = self.times(layout)
        if not self.overlap:
            return sum(times)
        pairs = zip(layout.scores, self.traffic, strict=True)
        busy = sum(found.link_seconds * each.times for found, each in pairs)
        return max(float(np.max(busy)), *times)

    def lines(self, traffic: MeshTraffic, mesh: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nodes of each group."""
        if traffic.axes:
            return groups_along(mesh, self.axes, traffic.axes)
        return mesh.ravel()[traffic.group_table(self.axes)]

    def of_pieces(self, cut: Sequence[Pieces]) -> LaidMesh:
        """Return the layout of axes on these pieces, each walking its own in the best order."""
        laid = tuple(self._laid(axis, pieces) for axis, pieces in enumerate(cut))
        return LaidMesh(tuple(self._score(i, laid) for i in range(len(self.traffic))), laid)

    def _timed(
        self,
        traffic: MeshTraffic,
        lines: NDArray[np.int64],
        steps: RingSteps | None = None,
        bucket: Score | None = None,
        cell: Torus | None = None,
    ) -> Score:
        found = self._scored(traffic, lines, steps, bucket, cell)
        if not self.overlap:
            # The times of links matter only where several collectives share them.
            found = found.without_links()
            if cell is not None:
                found = replace(found, busiest=link_in(self.torus, cell, found.busiest))
            return found
        if found.link_seconds.size:
            return found
        ways = 1 if found.algorithm == "ring" else 2
        return replace(found, link_seconds=ring_seconds(traffic, lines, self.torus, ways))

    def _scored(
        self,
        traffic: MeshTraffic,
        lines: NDArray[np.int64],
        steps: RingSteps | None,
        bucket: Score | None,
        cell: Torus | None,
    ) -> Score:
        torus = cell or self.torus
        if traffic.collective != "alltoall":
            return score(traffic, lines, torus, steps=steps, bucket=bucket)
        # Neither the order in a group nor that of the groups matters.
        groups = np.sort(lines, axis=1)
        key = (traffic.nbytes, torus.shape, groups[np.argsort(groups[:, 0])].tobytes())
        if key not in self._to_all:
            found = score(traffic, lines, torus)
            self._to_all[key] = found if self.overlap else found.without_links()
        return self._to_all[key]

    def _laid(self, axis: int, pieces: Pieces) -> AxisLayout:
        """The axis on these pieces, walked so that what is sent along it alone is fastest."""
        key = (axis, pieces)
        if key in self._best:
            return self._best[key]
        name = self.axes.names[axis]
        alone = [i for i, t in enumerate(self.traffic) if t.axes == (name,)]
        walks = self._walked(pieces)
        if self.hosts is not None:
            walks = [walk for walk in walks if self._in_a_row(walk[0])] or walks
        boxes = {i: self._box(i, walks[0][0]) for i in alone}
        times = []
        for _, (lines, cell), steps in walks if alone else walks[:1]:
            each = [
                self.traffic[i].times
                * self._scored(self.traffic[i], lines, steps, boxes[i], cell).time
                for i in alone
            ]
            times.append(sum(each))
        # Times that differ by rounding are equal; the plainest walk is the first.
        best = next(i for i, time in enumerate(times) if time <= min(times) * (1 + 1e-9))
        laid, (lines, cell), steps = walks[best]
        for i in alone:
            seen = self._timed(self.traffic[i], lines, steps, boxes[i], cell)
            self._seen[(i, (pieces,))] = seen
        self._best[key] = laid
        return laid

    def _in_a_row(self, laid: AxisLayout) -> bool:
        """Whether the nodes of each host follow each other along every line of an axis."""
        assert self.hosts is not None
        hosts = self.hosts[lines_along(self.torus, [laid])]
        runs = (np.diff(hosts, axis=1) != 0).sum(axis=1)
        different = (np.diff(np.sort(hosts, axis=1), axis=1) != 0).sum(axis=1)
        return bool((runs == different).all())

    def _lines_of(self, laid: Sequence[AxisLayout]) -> tuple[NDArray[np.int64], Torus]:
        """Nodes of the groups along axes, in the part of the torus that repeats, and this part."""
        if self.overlap:
            return lines_along(self.torus, laid), self.torus
        pieces = tuple(piece for one in laid for piece in one.pieces)
        if pieces not in self._cells:
            cell = cell_of(self.torus, pieces)
            self._cells[pieces] = self._cells.setdefault(cell.shape, cell)
        return lines_along(self._cells[pieces], laid), self._cells[pieces]

    def _walked(self, pieces: Pieces) -> list[_Walk]:
        """The walks over pieces, with the link loads of their steps where rings use them."""
        if pieces not in self._walks:
            walks = []
            for curve in curves([piece.size for piece in pieces]):
                laid = AxisLayout(pieces, curve)
                lines, steps = self._lines_of([laid]), None
                if pieces and any(t.collective in PARTS for t in self.traffic):
                    steps = RingSteps(*lines)
                walks.append((laid, lines, steps))
            self._walks[pieces] = walks
        return self._walks[pieces]

    def _box(self, item: int, laid: AxisLayout) -> Score | None:
        traffic = self.traffic[item]
        if traffic.collective not in PARTS or traffic.algorithm not in ("", "bucket"):
            return None
        return box_score(traffic, *self._lines_of([laid]))

    def _score(self, item: int, laid: Sequence[AxisLayout]) -> Score:
        traffic = self.traffic[item]
        if traffic.axes:
            own = [laid[self.axes.number(name)] for name in traffic.axes]
        else:
            own = list(laid)
        key = (item, tuple(each.pieces for each in own))
        if key not in self._seen:
            if traffic.axes:
                lines, cell = self._lines_of(own)
            else:
                lines, cell = self.lines(traffic, mesh_of(self.torus, own)), self.torus
            self._seen[key] = self._timed(traffic, lines, cell=cell)
        return self._seen[key]


@dataclass(frozen=True)
class Best:
    """The fastest of some layouts, one of each kind of times."""

    number: int  # of layouts looked at
    # Seconds of a step and the layout, by the times of everything that is sent.
    kept: dict[tuple[int, ...], tuple[float, LaidMesh]]

    def first(self, n: int) -> Best:
        """Return the n fastest; equal ones stay in the order in which they were scored."""
        return Best(self.number, dict(sorted(self.kept.items(), key=lambda e: e[1][0])[:n]))


def best_layouts(
    scored: Scored,
    devices: Devices,
    n: int,
    n_jobs: int,
    progress: Callable[[int, int], object] | None = None,
    most_splits: int = MOST_SPLITS,
    is_over: Callable[[], bool] | None = None,
) -> Best:
    """Return the n fastest layouts: of pieces where the mesh fills the torus, or cut from a walk.

    Workers score blocks of them; their number changes nothing. ``is_over`` ends the search early.
    """
    torus, axes = scored.torus, scored.axes
    cuts: Iterable[Cut] = ()
    if axes.n_tasks == torus.n_nodes:
        cuts = islice(splits(torus.shape, axes.sizes), most_splits + 1)
    task = Task(best_of_pieces, scored, n, is_over)
    found = task.in_order(list(_blocks(cuts)), n_jobs, progress=progress)
    walks = cut_curves(torus, axes, devices.nodes)
    found.append(_best(scored, (scored.of_mesh(*walk) for walk in walks), n, is_over))
    if axes.n_tasks < torus.n_nodes:
        found.append(_best(scored, _in_boxes(scored, devices, n), n))
    kept: dict[tuple[int, ...], tuple[float, LaidMesh]] = {}
    for each in found:
        for times, layout in each.kept.items():
            kept.setdefault(times, layout)
    return Best(sum(each.number for each in found), kept).first(n)


def best_of_pieces(
    scored: Scored, n: int, is_over: Callable[[], bool] | None, cuts: Sequence[Cut]
) -> Best:
    """Return the n fastest of layouts of pieces."""
    return _best(scored, map(scored.of_pieces, cuts), n, is_over)


def _best(
    scored: Scored,
    layouts: Iterable[LaidMesh],
    n: int,
    is_over: Callable[[], bool] | None = None,
) -> Best:
    found = Best(0, {})
    if is_over is not None:
        layouts = takewhile(lambda _: not is_over(), layouts)
    for number, layout in enumerate(layouts, start=1):
        if scored.hosts is not None and not is_together(layout.nodes(scored.torus), scored.hosts):
            continue
        seconds = scored.step_time(layout)
        times = (*scored.times(layout), seconds)
        alike = tuple(round(float(np.log(t)) / ALIKE) if t else 0 for t in times)
        found.kept.setdefault(alike, (seconds, layout))
        found = Best(number, found.kept)
        if len(found.kept) > 50 * n:
            found = found.first(n)
    return found.first(n)


def _in_boxes(scored: Scored, devices: Devices, n: int) -> Iterator[LaidMesh]:
    """Give the fastest layouts of pieces in each box of the torus that the mesh fills."""
    sizes = scored.axes.sizes
    for box, nodes in islice(boxes_in(scored.torus, scored.axes.n_tasks, devices.nodes), _BOXES):
        hosts = None if scored.hosts is None else scored.hosts[nodes]
        inside = Scored(box, scored.axes, scored.traffic, scored.overlap, hosts)
        cuts = list(islice(splits(box.shape, sizes), _SPLITS_IN_BOX))
        for _, layout in best_of_pieces(inside, n, None, cuts).kept.values():
            corner = ",".join(map(str, scored.torus.coords[nodes[0]].tolist()))
            size = "x".join(map(str, box.shape))
            name = f"{layout.in_words(box, scored.axes)}, in {size} from ({corner})"
            yield scored.of_mesh(nodes[layout.nodes(box)], name)


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


def _blocks(cuts: Iterable[Cut]) -> Iterator[list[Cut]]:
    source = iter(cuts)
    while block := list(islice(source, _BLOCK)):
        yield block
