"""Rank the layouts of a mesh, the slices that may run it, and its places; simulate the best."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.mapping import TaskMapping, Torus
from toruscast.mapping.machines import Machine, TorusLike, as_torus, names
from toruscast.mapping.omissions import Omission
from toruscast.mapping.strategies.orders import divisors
from toruscast.notebook import Result
from toruscast.text import counted, seconds, shown_name
from toruscast.validation import (
    Progress,
    as_array,
    check_type,
    job_count,
    progress_of,
    whole_array,
    whole_number,
)
from toruscast.workers import Task

from .devices import Devices, chips_as_devices, usual_devices
from .hlo import HloStep
from .layouts import ALIKE, MAX_SPLITS, LayoutScorer, RankedLayout, best_layouts, is_together
from .step_times import Groups, MeshProblem, Score, simulated_time, time_bound
from .traffic import MeshAxes, MeshTraffic, step_traffic

# Layouts that may be simulated to find the fastest.
_POOL = 24
_Key = tuple[int, bytes]


class MeshTooLargeError(InputError):
    """A mesh has more places than there are devices."""


@dataclass(frozen=True, eq=False)
class MeshLayouts(Result):
    """The layouts of a mesh on a torus, the fastest first.

    Attributes
    ----------
    problem : MeshProblem
        What a step sends, on which torus; also as ``torus``, ``axes``, ``traffic``, ``overlap`` and
        ``omitted``.
    devices : Devices
        The devices that there are.
    layouts : tuple of RankedLayout
        Those that differ in time, the fastest first.
    in_order : RankedLayout
        The devices in the order of their numbers.
    compared : RankedLayout or None
        The layout that the caller brought.
    considered : int
        Layouts that were scored.
    all_considered : bool
        Whether these are all that the enumeration has.
    """

    problem: MeshProblem
    devices: Devices
    layouts: tuple[RankedLayout, ...]
    in_order: RankedLayout
    compared: RankedLayout | None
    considered: int
    all_considered: bool

    @property
    def torus(self) -> Torus:
        """The network; a node is a device."""
        return self.problem.torus

    @property
    def axes(self) -> MeshAxes:
        """The axes of the mesh."""
        return self.problem.axes

    @property
    def traffic(self) -> tuple[MeshTraffic, ...]:
        """The collectives of a step."""
        return self.problem.traffic

    @property
    def overlap(self) -> bool:
        """Whether they run at once."""
        return self.problem.overlap

    @property
    def omitted(self) -> tuple[Omission, ...]:
        """What the traffic lacks of the program that it was read from."""
        return self.problem.omitted

    def __repr__(self) -> str:
        best = self.best
        return (
            f"MeshLayouts({self.axes} on {shown_name(self.torus)}: {seconds(best.time)} "
            f"{best.source}, {self.gain:.2f} times as fast as the devices in order)"
        )

    @property
    def best(self) -> RankedLayout:
        """The fastest layout."""
        return self.layouts[0]

    @property
    def ids(self) -> NDArray[np.int64]:
        """The device at each place of the mesh in the best layout, in mesh shape.

        A device is counted by its place among all devices sorted by their ids.
        """
        return self.devices.places(self.best.nodes)

    def jax_program(self) -> str:
        """Return the lines that make the best mesh in a JAX program.

        The numbers are places among all devices sorted by their ids: ``jax.devices()`` itself lists
        those of a slice host by host.
        """
        ids = self.ids
        literal = np.array2string(ids, separator=", ", threshold=ids.size + 1, max_line_width=10**9)
        literal = re.sub(r"\n+", "\n" + " " * len("ids = np.array("), literal)
        return (
            "import jax\nimport numpy as np\n\n"
            f"ids = np.array({literal})\n"
            "devices = np.array(sorted(jax.devices(), key=lambda device: device.id))\n"
            f"mesh = jax.sharding.Mesh(devices[ids], {self.axes.names!r})\n"
        )

    def torch_program(self) -> str:
        """Return the lines that make the best mesh in a program of PyTorch/XLA.

        Its numbers of devices are those in their names, TPU:0, TPU:1, ...

        Examples
        --------
        >>> from toruscast.formats import torus
        >>> answer = mesh(torus("tpu_v5e:2x2"), {"x": 4}, "x:exchange:4MB")
        >>> print(answer.torch_program(), end="")
        import numpy as np
        import torch_xla.distributed.spmd as xs
        <BLANKLINE>
        mesh = xs.Mesh(np.array([0, 2, 3, 1]), (4,), ('x',))
        """
        return (
            "import numpy as np\nimport torch_xla.distributed.spmd as xs\n\n"
            f"mesh = xs.Mesh(np.array({self.ids.ravel().tolist()}), {self.axes.sizes!r}, "
            f"{self.axes.names!r})\n"
        )

    @property
    def mapping(self) -> TaskMapping:
        """The best layout as a task mapping, tasks in C order of the mesh."""
        return TaskMapping(self.best.nodes.ravel(), self.torus, name="mesh")

    @property
    def gain(self) -> float:
        """How many times faster a step communicates than with the devices in order."""
        return self.in_order.time / self.best.time if self.best.time else 1.0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table."""
        return [
            {"layout": each.words, "time": each.time, "source": each.source}
            for each in self.layouts
        ]

    @property
    def table(self) -> pd.DataFrame:
        """A row for each layout: ``layout``, ``time`` (seconds), ``source``."""
        return pd.DataFrame(self.rows)

    @property
    def idle(self) -> int:
        """Devices that the mesh does not use."""
        return int(self.devices.nodes.size - self.axes.n_tasks)

    @property
    def not_simulated(self) -> tuple[str, ...]:
        """Labels of the collectives whose time in the best layout is in closed form."""
        return tuple(
            traffic.label
            for traffic, sent in zip(self.traffic, self.best.sent, strict=True)
            if self.overlap or sent.simulated is None
        )

    def lines(self, layout: RankedLayout | None = None) -> pd.DataFrame:
        """Return a row for each collective of a step, in the best layout or another.

        Columns ``what``, ``collective``, ``devices`` (of a group), ``nbytes`` (of one run),
        ``times`` (runs in a step), ``time`` and ``bound`` (seconds of all its runs in a step; no
        layout is faster than the bound), ``GBps`` (the buffers over the time), ``share`` (of the
        times of the step), ``algorithm``, ``source`` and ``why``.
        """
        return pd.DataFrame(self.step_rows(layout or self.best))

    def step_rows(self, layout: RankedLayout) -> list[dict[str, Any]]:
        """Return the rows of `lines` in a layout."""
        times = self.problem.times(layout.sent)
        total = sum(times)
        rows = []
        for traffic, sent, time in zip(self.traffic, layout.sent, times, strict=True):
            groups = self.problem.groups(traffic, layout.nodes)
            rows.append(
                {
                    "what": traffic.label,
                    "collective": traffic.collective,
                    "devices": groups.n,
                    "nbytes": traffic.nbytes,
                    "times": traffic.times,
                    "time": time,
                    "bound": time_bound(traffic, groups) * traffic.times,
                    "GBps": traffic.nbytes * traffic.times / time / 1e9 if time else float("nan"),
                    "share": time / total if total else 0.0,
                    "algorithm": sent.algorithm,
                    "source": "predicted" if sent.simulated is None else "simulated",
                    "why": _reason(sent, self.torus),
                }
            )
        return rows


def _reason(score: Score, torus: Torus) -> str:
    """Return what slows a collective down, or that nothing does."""
    if score.algorithm == "none" or not score.farthest:
        return "nothing is sent"
    words = []
    if score.farthest > 1:
        words.append(f"hops up to {score.farthest}, {score.hops:.2g} on average")
    if score.sharing > 1:
        messages = counted(round(score.sharing), "message")
        words.append(f"{messages} of a step share the link {torus.link_label(score.busiest)}")
    if not words:
        return "neighbours are one hop apart, no link is shared"
    return "; ".join(words)


def mesh(
    torus: TorusLike,
    axes: MeshAxes | Mapping[str, int] | str | None,
    traffic: Sequence[MeshTraffic] | MeshTraffic | HloStep | str,
    *,
    devices: Devices | None = None,
    compare: TaskMapping | ArrayLike | None = None,
    hosts: ArrayLike | None = None,
    overlap: bool = False,
    top: int = 5,
    simulate: int = 3,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> MeshLayouts:
    """Return the layouts of a sharded model's mesh on a torus, the fastest first.

    The axes get pieces of the torus's dimensions in every way, each walked line by line, as a
    snake, round a loop or folded; or they are cut from walks over the whole torus. Times are of
    link loads in closed form. The fastest few and the devices in order are simulated packet by
    packet, and more until the fastest is a simulated one. `MeshLayouts.not_simulated` names
    collectives with too many messages.

    Parameters
    ----------
    torus : Torus, str or sequence of int
        A node is a device. A dimension for the devices of a chip is added where the mesh has a
        place for each.
    axes : MeshAxes, mapping or str
        Names and sizes, such as ``{"data": 8, "tensor": 4}`` or ``"data=8,tensor=4"``. None where
        the groups of an HLO program define them.
    traffic : sequence of MeshTraffic, str, mapping or HloStep
        What a step sends, such as ``"tensor:allreduce:64MB,data:allreduce:1GB"``, a mapping of axes
        such as ``{"data": "allgather:1GB"}``, or what `read_hlo` reads of a compiled program.
    devices : Devices, optional
        The devices that are there; all, numbered as the machine does, if not given.
    compare : TaskMapping or array-like of int, optional
        A layout of the caller's own: tasks in C order of the mesh, or the node at each place, by
        its number or its coordinates.
    hosts : array-like of int, shape (n_nodes,), optional
        The host of each node, whose nodes must form a box of the mesh.
    overlap : bool
        Whether the collectives of a step run at once and share the links; else one after another.
        Times of such steps are never simulated.
    top : int
        Most layouts to return.
    simulate : int
        Layouts to simulate first; with 0 none is.
    n_jobs : int, optional
        Threads, or as many workers as `joblib.parallel_config` starts; -1 for one a core.
    progress : callable, optional
        Called with "layouts" (blocks of 500) or "simulations", those done and all.

    Examples
    --------
    >>> from toruscast.formats import torus
    >>> answer = mesh(torus("tpu_v5e:2x2"), {"x": 4}, "x:exchange:4MB")
    >>> answer.ids.tolist(), round(answer.gain, 2)
    ([0, 2, 3, 1], 1.96)
    """
    torus = as_torus(torus)
    check_type(overlap, "overlap", bool | np.bool_, "True or False")
    laid_out = progress_of(progress, "layouts")
    check_type(devices, "devices", Devices | None, "Devices")
    top, simulate = whole_number(top, "top", 0), whole_number(simulate, "simulate", 0)
    mesh, sends = step_traffic(traffic, axes)
    # Chips become their devices where the mesh has a place for each.
    if devices is None and compare is None:
        torus = chips_as_devices(torus, mesh.n_tasks)
    devices = devices or usual_devices(torus)
    if mesh.n_tasks > devices.nodes.size:
        found = f"{mesh}: {mesh.n_tasks}"
        expected = f"at most the {devices.nodes.size} devices of {torus}"
        raise MeshTooLargeError("mesh too large", found=found, expected=expected)
    n_jobs = job_count(n_jobs)
    together = (
        None
        if hosts is None
        else whole_array(
            as_array(hosts, "hosts", "the host of each node").ravel(), "host of a node"
        )
    )
    if together is not None and together.size != torus.n_nodes:
        raise InputError("hosts of other nodes", found=together.size, expected=torus.n_nodes)
    omitted = traffic.omitted if isinstance(traffic, HloStep) else ()
    problem = MeshProblem(torus, mesh, sends, overlap, omitted)
    scorer = LayoutScorer(problem, together)
    considered, candidates = best_layouts(
        scorer,
        devices,
        max(top, simulate, _POOL),
        n_jobs,
        progress=laid_out,
    )
    if not candidates:
        found = f"{mesh} on {torus}"
        raise InputError("no layout keeps hosts together", found=found, expected="another mesh")
    plain = devices.nodes[: mesh.n_tasks].reshape(mesh.sizes)
    others = [scorer.of_mesh(plain, "devices in order")]
    if compare is not None:
        others.append(scorer.of_mesh(_own_nodes(compare, problem), "yours"))
    report = progress_of(progress, "simulations") or (lambda done, total: None)
    simulations = _Simulations(n_jobs, report)
    if simulate and not overlap:
        simulations.run([*candidates[:simulate], *others])
        simulations.run_until_first(candidates)
    layouts = sorted(map(simulations.timed, candidates), key=lambda each: each.time)
    in_order, *asked = map(simulations.timed, others)
    allowed = together is None or is_together(plain, together)
    if allowed and in_order.time < layouts[0].time * (1 - ALIKE):
        layouts.insert(0, in_order)
    return MeshLayouts(
        problem=problem,
        devices=devices,
        layouts=tuple(layouts[: max(top, 1)]),
        in_order=in_order,
        compared=asked[0] if asked else None,
        considered=considered,
        all_considered=mesh.n_tasks != torus.n_nodes or considered <= MAX_SPLITS,
    )


def step_time(
    nodes: ArrayLike,
    torus: Torus,
    axes: MeshAxes,
    traffic: Sequence[MeshTraffic],
    *,
    overlap: bool = False,
) -> float:
    """Return the seconds of a step with the node at each place of the mesh, in closed form."""
    problem = MeshProblem(torus, axes, tuple(traffic), overlap)
    return LayoutScorer(problem).of_mesh(_own_nodes(nodes, problem)).time


class _Simulations:
    """Simulated times of collectives, once for those with the same groups."""

    def __init__(self, n_jobs: int, report: Callable[[int, int], object]) -> None:
        self.n_jobs, self.report = n_jobs, report
        self.times: dict[_Key, float | None] = {}

    def run(self, layouts: Sequence[RankedLayout]) -> None:
        """Simulate the collectives of layouts."""
        items = {key: item for each in layouts for key, item in self._groups(each).items()}
        keys = [key for key in items if key not in self.times]
        total = len(self.times) + len(keys)
        self.report(len(self.times), total)
        task = Task(_simulate_item)
        for number, time in task.each([items[key] for key in keys], self.n_jobs):
            self.times[keys[number]] = time
            self.report(len(self.times), total)

    def run_until_first(self, layouts: Sequence[RankedLayout]) -> None:
        """Simulate the fastest layout until the fastest is one that was simulated, or cannot be."""
        while True:
            fastest = min(layouts, key=lambda layout: self.timed(layout).time)
            if self._groups(fastest).keys() <= self.times.keys():
                return
            self.run([fastest])

    def timed(self, layout: RankedLayout) -> RankedLayout:
        """Return a layout with its time, of simulated packets where they are known."""
        sent = list(layout.sent)
        for key in self._groups(layout):
            sent[key[0]] = replace(sent[key[0]], simulated=self.times.get(key))
        return replace(layout, sent=tuple(sent))

    def _groups(self, layout: RankedLayout) -> dict[_Key, tuple[MeshTraffic, Groups, str]]:
        """Return the collectives that send something, their groups and algorithms."""
        found = {}
        for i, (traffic, score) in enumerate(zip(layout.problem.traffic, layout.sent, strict=True)):
            if score.algorithm != "none":
                groups = layout.problem.groups(traffic, layout.nodes)
                found[i, groups.nodes.tobytes()] = traffic, groups, score.algorithm
        return found


def _simulate_item(item: tuple[MeshTraffic, Groups, str]) -> float | None:
    return simulated_time(*item)


def _own_nodes(compare: TaskMapping | ArrayLike, problem: MeshProblem) -> NDArray[np.int64]:
    """The nodes of a layout that the caller brought, in mesh shape."""
    given = compare.node if isinstance(compare, TaskMapping) else compare
    axes, torus = problem.axes, problem.torus
    shapes = axes.sizes, (axes.n_tasks,)
    array = as_array(given, "layout", "nodes in mesh shape")
    values = whole_array(array.ravel(), "node")
    if array.shape in [(*shape, torus.ndim) for shape in shapes]:
        values = values.reshape(-1, torus.ndim)
    elif array.shape not in shapes:
        found = f"shape {array.shape}"
        expected = f"the nodes of {axes}, shape {shapes[0]} or {shapes[1]}, or their coordinates"
        raise InputError("layout of another mesh", found=found, expected=expected)
    nodes = torus.check_nodes(values).astype(np.int64)
    if np.unique(nodes).size < nodes.size:
        expected = f"a node for each place of {axes}"
        raise InputError("node stands twice in a layout", expected=expected)
    return nodes.reshape(axes.sizes)


ACCELERATORS = ("tpu", "trainium", "galaxy")


@dataclass(frozen=True, eq=False)
class SliceRanking:
    """Slices of as many chips, sorted by the time that a step communicates."""

    slices: tuple[str, ...]  # as `machine` takes them
    answers: tuple[MeshLayouts, ...]  # the layouts on each

    @property
    def table(self) -> pd.DataFrame:
        """A row for each: ``slice``, ``twisted``, ``time`` (seconds), ``source``, ``layout``."""
        rows = [
            {
                "slice": text,
                "twisted": bool(answer.torus.twist),
                "time": answer.best.time,
                "source": answer.best.source,
                "layout": answer.best.words,
            }
            for text, answer in zip(self.slices, self.answers, strict=True)
        ]
        return pd.DataFrame(rows)


def shapes_of(name: str, n_chips: int) -> Iterator[tuple[str, Torus]]:
    """Give the slices of so many chips that a machine has, twisted or not.

    Sizes rise, as vendors write them. Where rings close at multiples of four, longer sizes are such
    multiples. Not every one is sold everywhere.
    """
    machine = Machine.from_name(name)
    rules = machine.shapes
    step = rules.rings_if_multiples_of
    sizes = [n for n in divisors(n_chips) if not step or n <= step or n % step == 0]
    found = [
        shape
        for n in rules.dimensions
        for shape in combinations_with_replacement(sizes, n)
        if math.prod(shape) == n_chips
    ]
    if rules.only:
        found = [shape for shape in rules.only if math.prod(shape) == n_chips]
    # A slice is no thinner than it must be.
    thin = min((shape.count(1) for shape in found), default=0)
    found = [shape for shape in found if shape.count(1) == thin]
    for shape in found:
        text = f"{name}:{'x'.join(map(str, shape))}"
        try:
            torus = machine(shape)
        except InputError:
            continue
        yield text, torus
        if torus.twist:
            yield f"{text}:untwisted", machine(shape, twisted=False)


def which_slice(
    n_chips: int,
    axes: MeshAxes | Mapping[str, int] | str | None,
    traffic: Sequence[MeshTraffic] | MeshTraffic | HloStep | str,
    machines: str | Sequence[str] = (),
    *,
    overlap: bool = False,
    simulate: int = 3,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> SliceRanking:
    """Return the slices of so many chips, sorted by the time that a step communicates.

    Axes, traffic and the other arguments are those of `mesh`. Without machines all
    accelerators are ranked. So many of the fastest as ``simulate`` says are simulated packet by
    packet.

    Examples
    --------
    >>> found = which_slice(8, {"x": 8}, "x:alltoall:8MB", "tpu_v4", simulate=0)
    >>> found.slices
    ('tpu_v4:2x2x2',)
    """
    n_chips = whole_number(n_chips, "number of chips", 1)
    simulate = whole_number(simulate, "simulate", 0)
    check_type(machines, "machines", Iterable, "names of machines")
    asked = (machines,) if isinstance(machines, str) else tuple(machines)
    for name in asked:
        check_type(name, "name of a machine", str, "a text")
        bare = re.split(r"[:\s]", name)[0]
        if bare != name:
            expected = f"the machine alone, {bare}"
            raise InputError("slice where a machine is meant", found=name, expected=expected)
    asked = asked or tuple(name for name in names() if name.startswith(ACCELERATORS))
    found = [pair for name in asked for pair in shapes_of(name, n_chips)]
    if not found:
        raise InputError(
            "no slice of so many chips",
            found=f"{n_chips} of {' or '.join(asked)}",
            expected="another",
        )
    report = progress_of(progress, "slices") or (lambda done, total: None)
    rank = partial(mesh, axes=axes, traffic=traffic, overlap=overlap, top=1, n_jobs=n_jobs)
    answers: dict[str, MeshLayouts] = {}
    refused: InputError | None = None
    for done, (text, torus) in enumerate(found, 1):
        try:
            answers[text] = rank(torus, simulate=0)
        except MeshTooLargeError as error:
            refused = error
        report(done, len(found))
    if not answers and refused is not None:
        raise refused
    order = sorted(answers, key=lambda text: answers[text].best.time)
    for text in order[: 0 if overlap else simulate]:
        answers[text] = rank(answers[text].torus, simulate=1)
    order = sorted(order, key=lambda text: answers[text].best.time)
    return SliceRanking(tuple(order), tuple(answers[text] for text in order))


# Most places that are scored, and nodes of a torus whose largest free box is sought.
_MAX_PLACES, _MAX_NODES = 4096, 256


@dataclass(frozen=True, eq=False)
class MeshPlacement:
    """A place of the mesh."""

    layout: RankedLayout  # moved there, with its scores before
    corner: tuple[int, ...]  # lowest coordinates of its nodes, rings counted from 0
    time: float  # seconds that a step communicates, in closed form
    rest: int  # nodes of the largest box that stays free; -1 on tori too large to look


def placements(answer: MeshLayouts) -> list[MeshPlacement]:
    """Return every place of the layouts of an answer: the fastest first, then by what stays free.

    A layout is moved along the dimensions, and turned where dimensions are alike. Only the
    fastest of places with the same nodes is returned.
    """
    torus = answer.torus
    there = np.isin(np.arange(torus.n_nodes), answer.devices.nodes)
    found: dict[bytes, MeshPlacement] = {}
    number = 0
    for layout in answer.layouts:
        for nodes in _moved_nodes(torus, layout.nodes, there):
            number += 1
            if number > _MAX_PLACES:
                expected = f"at most {_MAX_PLACES}; a smaller --top, or a smaller torus"
                raise InputError("too many places of the mesh", found=number, expected=expected)
            time = LayoutScorer(answer.problem).of_mesh(nodes).time
            key = np.sort(nodes, axis=None).tobytes()
            if key in found and found[key].time <= time * (1 + ALIKE):
                continue
            free = there.copy()
            free[nodes] = False
            corner = tuple(map(int, torus.coords[nodes.ravel()].min(axis=0)))
            rest = _largest_box(torus, free) if torus.n_nodes <= _MAX_NODES else -1
            moved = replace(layout, place=nodes, name=layout.words)
            found[key] = MeshPlacement(moved, corner, time, rest)
    fastest = min((each.time for each in found.values()), default=0.0) or 1.0
    # Times that differ by rounding alone are equal.
    step = fastest * ALIKE
    return sorted(
        found.values(), key=lambda each: (round(each.time / step), -each.rest, each.corner)
    )


def _moved_nodes(
    torus: Torus, nodes: NDArray[np.int64], there: NDArray[np.bool_]
) -> Iterator[NDArray[np.int64]]:
    """Give the nodes of a layout turned and moved in every way that stays on devices."""
    coords = torus.coords[nodes.ravel()].astype(np.int64)
    seen: set[bytes] = set()
    size = np.array(torus.shape)
    for order in _equal_orders(torus):
        turned = coords[:, order]
        for move in product(*(range(n) for n in torus.shape)):
            moved = turned - turned.min(axis=0) * ~np.array(torus.wrap) + move
            outside = (moved >= size) & ~np.array(torus.wrap)
            if outside.any():
                continue
            place = torus.node(moved % size).astype(np.int64)
            if there[place].all() and place.tobytes() not in seen:
                seen.add(place.tobytes())
                yield place.reshape(nodes.shape)


def _equal_orders(torus: Torus) -> Iterator[list[int]]:
    """Give the orders of the dimensions in which the torus is the same."""
    alike = list(zip(torus.shape, torus.wrap, torus.bandwidth, strict=True))
    for order in permutations(range(torus.ndim)):
        if [alike[d] for d in order] == alike and (list(order) == sorted(order) or not torus.twist):
            yield list(order)


def _largest_box(torus: Torus, free: NDArray[np.bool_]) -> int:
    """Nodes of the largest box that is free."""
    best = 0
    begins = [(0, 1, free.reshape(torus.shape))]
    while begins:
        d, volume, grid = begins.pop()
        if d == torus.ndim:
            best = max(best, volume if grid.any() else 0)
            continue
        whole = grid
        for length in range(1, torus.shape[d] + 1):
            if length > 1:
                following = np.roll(grid, 1 - length, axis=d)
                if not torus.wrap[d]:
                    index = [slice(None)] * torus.ndim
                    index[d] = slice(torus.shape[d] - length + 1, None)
                    following[tuple(index)] = False
                whole = whole & following
            if not whole.any():
                break
            begins.append((d + 1, volume * length, whole))
    return best
