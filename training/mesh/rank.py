"""Rank the ways to lay the axes of a mesh over a torus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.mapping import TaskMapping, Torus
from toruscast.mapping.hlo import HloStep
from toruscast.mapping.mesh import MeshAxes, MeshTraffic, parse_axes
from toruscast.mapping.mesh.devices import Devices, usual_devices
from toruscast.mapping.mesh.from_hlo import hlo_traffic
from toruscast.mapping.mesh.traffic_text import parse_traffic
from toruscast.mapping.task_mapping import check_torus
from toruscast.validation import job_count
from toruscast.workers import Task

from .answer import MeshForecast, RankedLayout, Sent
from .candidates import MOST_SPLITS, Candidate, Scored, best_layouts, total
from .rounds import simulated_time
from .scored import Score

Progress = Callable[[Literal["layouts", "simulations"], int, int], object]


def mesh(
    torus: Torus,
    axes: MeshAxes | Mapping[str, int] | str | None,
    traffic: Sequence[MeshTraffic] | MeshTraffic | HloStep | str,
    *,
    devices: Devices | None = None,
    compare: TaskMapping | ArrayLike | None = None,
    overlap: bool = False,
    top: int = 5,
    simulate: int = 3,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> MeshForecast:
    """Return the layouts of a sharded model's mesh on a torus, the fastest first.

    Every way is looked at to give the axes pieces of the torus's dimensions, each walked line by
    line, as a snake, round a loop or folded; besides, walks over the whole torus that are cut to
    the axes. Their times are of link loads in closed form; the fastest few are simulated packet by
    packet where that is affordable, as are the devices in order.

    Parameters
    ----------
    torus : Torus
    axes : MeshAxes, mapping or str
        Names and sizes, such as ``{"data": 8, "tensor": 4}`` or ``"data=8,tensor=4"``. None where
        an HLO program's groups tell them.
    traffic : sequence of MeshTraffic, str or HloStep
        What a step sends, such as ``"tensor:allreduce:64MB,data:allreduce:1GB"``, or what
        `read_hlo` reads of a compiled program.
    devices : Devices, optional
        The devices that are there; all, numbered as the machine does, if not given.
    compare : TaskMapping or array-like of int, optional
        A layout of the caller's own: tasks in C order of the mesh, or the node at each place.
    overlap : bool
        Whether the collectives of a step run at once and share the links; else one after another.
        Times of such steps are never simulated.
    top : int
        Layouts to return, at most.
    simulate : int
        Layouts to simulate, at most.
    n_jobs : int, optional
        Threads, or as many workers as `joblib.parallel_config` starts; -1 for one a core.
    progress : callable, optional
        Called with "layouts" or "simulations", how many are done and how many there are; of
        layouts, blocks of 500.

    Returns
    -------
    MeshForecast

    Raises
    ------
    InputError
        If the mesh has more places than there are devices, or the traffic names no axis of it.

    Examples
    --------
    >>> from toruscast.mapping import machine
    >>> answer = mesh(machine("tpu_v5e:2x2"), {"x": 4}, "x:exchange:4MB")
    >>> answer.ids.tolist(), round(answer.gain, 2)
    ([0, 2, 3, 1], 1.98)
    """
    check_torus(torus)
    if isinstance(traffic, HloStep):
        axes, sends = hlo_traffic(traffic, None if axes is None else _axes(axes))
    else:
        axes, sends = _axes(axes), _traffic(traffic)
    for each in sends:
        each.check(axes)
    devices = devices or usual_devices(torus)
    if axes.n_tasks > devices.nodes.size:
        expected = f"at most the {devices.nodes.size} devices of {torus}"
        raise InputError("mesh too large", found=f"{axes}: {axes.n_tasks}", expected=expected)
    scored = Scored(torus, axes, sends, overlap)
    tell = progress or (lambda stage, done, total: None)
    best = best_layouts(
        scored,
        devices,
        max(top, simulate, 1),
        job_count(n_jobs),
        progress=lambda done, total: tell("layouts", done, total),
    )
    first = [layout for _, layout in best.kept.values()]
    plain = devices.nodes[: axes.n_tasks].reshape(axes.sizes)
    others = [Candidate(scored.of_mesh(plain), mesh=plain, name="devices in order")]
    if compare is not None:
        own = _own(compare, torus, axes)
        others.append(Candidate(scored.of_mesh(own), mesh=own, name="yours"))
    deciding = [] if overlap else [*first[:simulate], *(others if simulate else ())]
    simulations = _Simulations(scored, deciding, job_count(n_jobs), tell)
    ranked = [simulations.ranked(each) for each in [*first, *others]]
    asked = ranked[-len(others) :]
    layouts = sorted(ranked[: -len(others)], key=lambda each: each.time)
    full = axes.n_tasks == torus.n_nodes
    return MeshForecast(
        torus=torus,
        axes=axes,
        traffic=sends,
        devices=devices,
        layouts=tuple(layouts[: max(top, 1)]),
        in_order=asked[0],
        compared=asked[1] if len(asked) > 1 else None,
        considered=best.number,
        all_considered=not full or best.number <= MOST_SPLITS,
        overlap=overlap,
    )


def step_time(
    nodes: ArrayLike,
    torus: Torus,
    axes: MeshAxes,
    traffic: Sequence[MeshTraffic],
    *,
    overlap: bool = False,
) -> float:
    """Return the seconds of a step with the node at each place of the mesh, in closed form.

    Examples
    --------
    >>> torus = Torus((2, 2), wrap=False, bandwidth=1e9)
    >>> asked = torus, MeshAxes(("x",), (4,)), [MeshTraffic("exchange", 4e6, ("x",))]
    >>> round(1e3 * step_time(np.arange(4), *asked)), round(1e3 * step_time([0, 1, 3, 2], *asked))
    (9, 4)
    """
    own = _own(nodes, torus, axes)
    scored = Scored(torus, axes, tuple(traffic), overlap)
    return total(Candidate(scored.of_mesh(own), mesh=own), traffic, overlap)


class _Simulations:
    """Simulated times of the layouts that decide, once for each collective that lies alike."""

    def __init__(
        self,
        scored: Scored,
        deciding: Sequence[Candidate],
        n_jobs: int,
        tell: Progress,
    ) -> None:
        self.scored, self.deciding = scored, deciding
        items: dict[tuple[int, bytes], tuple[MeshTraffic, NDArray[np.int64], Score]] = {}
        for layout in deciding:
            nodes = layout.nodes(scored.torus)
            for i, (traffic, score) in enumerate(zip(scored.traffic, layout.scores, strict=True)):
                if score.algorithm != "none":
                    lines = scored.lines(traffic, nodes)
                    items.setdefault((i, lines.tobytes()), (traffic, lines, score))
        self.times: dict[tuple[int, bytes], float | None] = {}
        keys = list(items)
        tell("simulations", 0, len(items))
        for number, time in Task(_simulated, scored.torus).each(items.values(), n_jobs):
            self.times[keys[number]] = time
            tell("simulations", len(self.times), len(items))

    def ranked(self, layout: Candidate) -> RankedLayout:
        """Return a layout with its time, simulated where it decides."""
        scored = self.scored
        nodes = layout.nodes(scored.torus)
        sent = tuple(Sent(found) for found in layout.scores)
        decides = any(layout is each for each in self.deciding)
        if decides:
            sent = tuple(
                replace(each, simulated=self._time(i, nodes, each)) for i, each in enumerate(sent)
            )
        simulated = decides and all(each.simulated is not None for each in sent)
        if scored.overlap:
            time = total(layout, scored.traffic, overlap=True)
        else:
            pairs = zip(sent, scored.traffic, strict=True)
            time = sum(each.time * traffic.times for each, traffic in pairs)
        words = layout.in_words(scored.torus, scored.axes)
        return RankedLayout(nodes, words, sent, time, "simulated" if simulated else "forecast")

    def _time(self, item: int, nodes: NDArray[np.int64], sent: Sent) -> float | None:
        if sent.score.algorithm == "none":
            return 0.0
        lines = self.scored.lines(self.scored.traffic[item], nodes)
        return self.times[(item, lines.tobytes())]


def _simulated(torus: Torus, item: tuple[MeshTraffic, NDArray[np.int64], Score]) -> float | None:
    traffic, lines, score = item
    return simulated_time(traffic, lines, torus, score)


def _axes(axes: MeshAxes | Mapping[str, int] | str | None) -> MeshAxes:
    if isinstance(axes, str):
        return parse_axes(axes)
    if isinstance(axes, Mapping):
        return MeshAxes(tuple(axes), tuple(axes.values()))
    if not isinstance(axes, MeshAxes):
        raise InputError("bad axes", found=repr(axes), expected='such as {"data": 8, "tensor": 4}')
    return axes


def _traffic(traffic: Sequence[MeshTraffic] | MeshTraffic | str) -> tuple[MeshTraffic, ...]:
    if isinstance(traffic, str):
        return parse_traffic(traffic)
    sends = (traffic,) if isinstance(traffic, MeshTraffic) else tuple(traffic)
    if not sends or not all(isinstance(each, MeshTraffic) for each in sends):
        raise InputError("bad traffic", found=repr(traffic), expected="MeshTraffic, one or several")
    return sends


def _own(compare: TaskMapping | ArrayLike, torus: Torus, axes: MeshAxes) -> NDArray[np.int64]:
    """The nodes of a layout that the caller brought, in mesh shape."""
    given = compare.node if isinstance(compare, TaskMapping) else compare
    nodes = torus.check_nodes(given).ravel().astype(np.int64)
    twice = np.unique(nodes).size < nodes.size
    if nodes.size != axes.n_tasks or twice:
        found = "a device twice" if twice else f"{nodes.size} devices"
        raise InputError("layout of another mesh", found=found, expected=f"the places of {axes}")
    return nodes.reshape(axes.sizes)
