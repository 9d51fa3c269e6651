"""Layouts of a mesh, each with the times of what is sent, computed once for what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import NamedTuple

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
from .results import How, RankedLayout

# Most ways to cut the dimensions that are scored; the plainest come first.
MAX_SPLITS = 100_000
# Layouts that a worker scores at a time.
_BLOCK = 500
# Boxes of the torus that a smaller mesh may fill, and layouts of pieces in each.
_BOXES, _SPLITS_IN_BOX = 24, 2_000
# Times that differ by less than this share are equal.
ALIKE = 1e-6
Cut = Sequence[Pieces]


class ScoredLayout(NamedTuple):
    """A layout with its scores: axes laid piece by piece, or a mesh of nodes."""

    sent: tuple[Score, ...]
    laid: tuple[AxisLayout, ...] = ()
    nodes: NDArray[np.int64] | None = None
    name: str = ""


# Seconds of a step and layout, by the rounded times of everything that is sent.
_Fastest = dict[tuple[int, ...], tuple[float, ScoredLayout]]


class _Groups(NamedTuple):
    """Nodes of the groups of a collective, in the part of the torus that repeats."""

    lines: NDArray[np.int64]
    torus: Torus
    steps: RingSteps | None = None


@dataclass(eq=False)
class LayoutScorer:
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
    _walks: dict[Pieces, list[tuple[AxisLayout, _Groups]]] = field(default_factory=dict)

    def of_mesh(self, mesh: NDArray[np.int64], name: str = "") -> ScoredLayout:
        """Return the layout of a mesh of nodes."""
        sent = (self._complete(t, _Groups(self.lines(t, mesh), self.torus)) for t in self.traffic)
        return ScoredLayout(tuple(sent), nodes=mesh, name=name)

    def of_pieces(self, cut: Cut) -> ScoredLayout:
        """Return the layout of axes on these pieces, each walking its own in the best order."""
        laid = tuple(self._laid(axis, pieces) for axis, pieces in enumerate(cut))
        return ScoredLayout(tuple(self._score(i, laid) for i in range(len(self.traffic))), laid)

    def nodes(self, candidate: ScoredLayout) -> NDArray[np.int64]:
        """Return the node at each place of the mesh."""
        return mesh_of(self.torus, candidate.laid) if candidate.nodes is None else candidate.nodes

    def ranked(self, candidate: ScoredLayout) -> RankedLayout:
        """Return a layout with its time, and how its axes lie."""
        pairs = zip(self.axes.names, candidate.laid, strict=True) if candidate.laid else ()
        words = "; ".join(f"{name}: {laid.in_words(self.torus)}" for name, laid in pairs)
        return self.timed(self.nodes(candidate), candidate.name or words, candidate.sent)

    def timed(self, nodes: NDArray[np.int64], words: str, sent: tuple[Score, ...]) -> RankedLayout:
        """Return a layout with the time of its scores."""
        simulated = not self.overlap and all(each.simulated is not None for each in sent)
        how: How = "simulated" if simulated else "forecast"
        return RankedLayout(nodes, words, sent, self.step_time(sent), how)

    def times(self, sent: Sequence[Score]) -> list[float]:
        """Return the seconds of all runs of each collective of a step."""
        return [score.seconds * each.times for score, each in zip(sent, self.traffic, strict=True)]

    def step_time(self, sent: Sequence[Score]) -> float:
        """Return the seconds of a step, of collectives in turn or at once."""
        times = self.times(sent)
        if not self.overlap:
            return sum(times)
        pairs = zip(sent, self.traffic, strict=True)
        busy = sum(score.link_seconds * each.times for score, each in pairs)
        return max(float(np.max(busy)), *times)

    def lines(self, traffic: MeshTraffic, mesh: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the nodes of each group."""
        if traffic.axes:
            return groups_along(mesh, self.axes, traffic.axes)
        return mesh.ravel()[traffic.group_table(self.axes)]

    def _complete(
        self, traffic: MeshTraffic, groups: _Groups, bucket: Score | None = None
    ) -> Score:
        """Score a collective, with the seconds of all links where several share them."""
        found = self._scored(traffic, groups, bucket)
        if not self.overlap:
            found = found.without_links()
            if groups.torus is not self.torus:
                found = replace(found, busiest=link_in(self.torus, groups.torus, found.busiest))
            return found
        if found.link_seconds.size:
            return found
        ways = 1 if found.algorithm == "ring" else 2
        return replace(found, link_seconds=ring_seconds(traffic, groups.lines, self.torus, ways))

    def _scored(self, traffic: MeshTraffic, groups: _Groups, bucket: Score | None = None) -> Score:
        lines, torus, steps = groups
        if traffic.collective != "alltoall":
            return score(traffic, lines, torus, steps=steps, bucket=bucket)
        # Neither the order in a group nor that of the groups matters.
        ordered = np.sort(lines, axis=1)
        key = (traffic.nbytes, torus.shape, ordered[np.argsort(ordered[:, 0])].tobytes())
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
        alone = {i: t for i, t in enumerate(self.traffic) if t.axes == (name,)}
        walks = self._walked(pieces)
        if self.hosts is not None:
            walks = [walk for walk in walks if self._in_a_row(walk[0])] or walks
        boxes = {i: self._box(traffic, walks[0][1]) for i, traffic in alone.items()}
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
        hosts = self.hosts[lines_along(self.torus, [laid])]
        runs = (np.diff(hosts, axis=1) != 0).sum(axis=1)
        different = (np.diff(np.sort(hosts, axis=1), axis=1) != 0).sum(axis=1)
        return bool((runs == different).all())

    def _groups_along(self, laid: Sequence[AxisLayout]) -> _Groups:
        """Groups along axes; where links are shared, those of the whole torus."""
        cell = self.torus
        if not self.overlap:
            pieces = tuple(piece for one in laid for piece in one.pieces)
            if pieces not in self._cells:
                cell = cell_of(self.torus, pieces)
                self._cells[pieces] = self._cells.setdefault(cell.shape, cell)
            cell = self._cells[pieces]
        return _Groups(lines_along(cell, laid), cell)

    def _walked(self, pieces: Pieces) -> list[tuple[AxisLayout, _Groups]]:
        """The walks over pieces, with the link loads of their steps where rings use them."""
        if pieces not in self._walks:
            walks = []
            for curve in curves([piece.size for piece in pieces]):
                laid = AxisLayout(pieces, curve)
                groups = self._groups_along([laid])
                if pieces and any(t.collective in PARTS for t in self.traffic):
                    groups = groups._replace(steps=RingSteps(groups.lines, groups.torus))
                walks.append((laid, groups))
            self._walks[pieces] = walks
        return self._walks[pieces]

    @staticmethod
    def _box(traffic: MeshTraffic, groups: _Groups) -> Score | None:
        if traffic.collective not in PARTS or traffic.algorithm not in ("", "bucket"):
            return None
        return box_score(traffic, groups.lines, groups.torus)

    def _score(self, item: int, laid: Sequence[AxisLayout]) -> Score:
        traffic = self.traffic[item]
        own = [laid[self.axes.number(name)] for name in traffic.axes] or laid
        key = (item, tuple(each.pieces for each in own))
        if key not in self._seen:
            if traffic.axes:
                groups = self._groups_along(own)
            else:
                groups = _Groups(self.lines(traffic, mesh_of(self.torus, own)), self.torus)
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
    torus, axes = scorer.torus, scorer.axes
    cuts: Iterator[Cut] = iter(())
    if axes.n_tasks == torus.n_nodes:
        cuts = islice(splits(torus.shape, axes.sizes), max_splits + 1)
    blocks = list(iter(lambda: list(islice(cuts, _BLOCK)), []))
    task = Task(best_of_pieces, scorer, n, is_over)
    found = task.in_order(blocks, n_jobs, progress=progress)
    walks = cut_curves(torus, axes, devices.nodes)
    found.append(_best(scorer, (scorer.of_mesh(*walk) for walk in walks), n, is_over))
    if axes.n_tasks < torus.n_nodes:
        found.append(_best(scorer, _in_boxes(scorer, devices, n), n))
    fastest: _Fastest = {}
    for _, some in found:
        for times, layout in some.items():
            fastest.setdefault(times, layout)
    ranked = [scorer.ranked(layout) for _, layout in _first(fastest, n).values()]
    return sum(number for number, _ in found), ranked


def best_of_pieces(
    scorer: LayoutScorer, n: int, is_over: Callable[[], bool] | None, cuts: Sequence[Cut]
) -> tuple[int, _Fastest]:
    """Return the n fastest of layouts of pieces."""
    return _best(scorer, map(scorer.of_pieces, cuts), n, is_over)


def _best(
    scorer: LayoutScorer,
    layouts: Iterable[ScoredLayout],
    n: int,
    is_over: Callable[[], bool] | None = None,
) -> tuple[int, _Fastest]:
    number, fastest = 0, _Fastest()
    if is_over is not None:
        layouts = takewhile(lambda _: not is_over(), layouts)
    for counted, layout in enumerate(layouts, start=1):
        if scorer.hosts is not None and not is_together(scorer.nodes(layout), scorer.hosts):
            continue
        number, seconds = counted, scorer.step_time(layout.sent)
        times = (*scorer.times(layout.sent), seconds)
        alike = tuple(round(float(np.log(t)) / ALIKE) if t else 0 for t in times)
        fastest.setdefault(alike, (seconds, layout))
        if len(fastest) > 50 * n:
            fastest = _first(fastest, n)
    return number, _first(fastest, n)


def _first(fastest: _Fastest, n: int) -> _Fastest:
    """The n fastest; equal ones stay in the order in which they were scored."""
    return dict(sorted(fastest.items(), key=lambda each: each[1][0])[:n])


def _in_boxes(scorer: LayoutScorer, devices: Devices, n: int) -> Iterator[ScoredLayout]:
    """Give the fastest layouts of pieces in each box of the torus that the mesh fills."""
    axes, torus = scorer.axes, scorer.torus
    for box, nodes in islice(boxes_in(torus, axes.n_tasks, devices.nodes), _BOXES):
        hosts = None if scorer.hosts is None else scorer.hosts[nodes]
        inside = LayoutScorer(box, axes, scorer.traffic, scorer.overlap, hosts)
        cuts = list(islice(splits(box.shape, axes.sizes), _SPLITS_IN_BOX))
        corner = ",".join(map(str, torus.coords[nodes[0]].tolist()))
        size = "x".join(map(str, box.shape))
        for _, each in best_of_pieces(inside, n, None, cuts)[1].values():
            layout = inside.ranked(each)
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
