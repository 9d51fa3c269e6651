"""Rank the layouts of a mesh, the slices that can run it, and the placements of a smaller mesh."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toruscast._slow import pandas as pd
from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.mapping import TaskMapping, Torus
from toruscast.mapping.machines import Machine, TorusLike, as_torus, names
from toruscast.mapping.strategies.orders import divisors
from toruscast.notebook import Result
from toruscast.text import counted, seconds, shown_name
from toruscast.typing import Bools, Ints
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

from .devices import Devices, default_devices, split_chips
from .hlo import HloStep
from .jax_layout import lay_out_as_jax
from .layouts import (
    MAX_SPLITS,
    TIME_TOLERANCE,
    LayoutScorer,
    RankedLayout,
    keeps_hosts_together,
    rank_layouts,
)
from .step_times import (
    CollectiveGroups,
    CollectiveScore,
    MeshProblem,
    simulate_collective,
    time_bound,
)
from .traffic import MeshAxes, MeshTraffic, resolve_traffic

# At least this many layouts, those with the shortest times in closed form, may be simulated.
_MIN_CANDIDATES = 24
# A simulation is identified by the index of its collective and the nodes of the groups. Its inputs
# are the collective, its groups and the algorithm.
_Key = tuple[int, bytes]
_Item = tuple[MeshTraffic, CollectiveGroups, str]


@dataclass(frozen=True, eq=False)
class MeshLayouts(Result):
    """The layouts of a mesh on a torus, the fastest first.

    Attributes
    ----------
    problem : MeshProblem
        The mesh, the traffic of a step and the torus, whose nodes are devices.
    devices : Devices
        The available devices.
    layouts : tuple of RankedLayout
        Layouts that differ in time, the fastest first.
    default : RankedLayout
        JAX's own mesh if the mesh fills a TPU slice, otherwise the devices in the order of their
        numbers.
    default_name : str
        "JAX's own" or "devices in order".
    compared : RankedLayout or None
        The caller's own layout.
    considered : int
        Number of scored layouts.
    all_considered : bool
        Whether every layout of the enumeration was scored.
    """

    problem: MeshProblem
    devices: Devices
    layouts: tuple[RankedLayout, ...]
    default: RankedLayout
    default_name: str
    compared: RankedLayout | None
    considered: int
    all_considered: bool

    @property
    def torus(self) -> Torus:
        """The network."""
        return self.problem.torus

    @property
    def axes(self) -> MeshAxes:
        """The axes of the mesh."""
        return self.problem.axes

    def __repr__(self) -> str:
        best = self.best
        return (
            f"MeshLayouts({self.axes} on {shown_name(self.torus)}: {seconds(best.time)} per step, "
            f"{best.source}; {self.gain:.2f} times as fast as {self.default_name})"
        )

    @property
    def best(self) -> RankedLayout:
        """The fastest layout."""
        return self.layouts[0]

    @property
    def ids(self) -> Ints:
        """The device at each mesh coordinate of the best layout, in mesh shape.

        Entries are indices into the list of all devices sorted by id.
        """
        return self.devices.index_nodes(self.best.nodes)

    def jax_program(self) -> str:
        """Return the lines of a JAX program that build the best mesh.

        The program sorts the devices by id, because ``jax.devices()`` lists them by host.
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
        """Return the lines of a PyTorch/XLA program that build the best mesh.

        Device numbers are those in the names TPU:0, TPU:1, ...

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
        """The best layout as a task mapping, with tasks in C order of the mesh."""
        return TaskMapping(self.best.nodes.ravel(), self.torus, name="mesh")

    @property
    def gain(self) -> float:
        """Communication time in the default layout, divided by the time in the best layout."""
        return self.default.time / self.best.time if self.best.time else 1.0

    @property
    def table(self) -> pd.DataFrame:
        """A row for each layout: ``layout``, ``time`` (seconds), ``source``."""
        rows = [(each.description, each.time, each.source) for each in self.layouts]
        return pd.DataFrame(rows, columns=["layout", "time", "source"])

    @property
    def idle(self) -> int:
        """Number of devices that the mesh does not use."""
        return int(self.devices.nodes.size - self.axes.n_tasks)

    @property
    def not_simulated(self) -> tuple[str, ...]:
        """Labels of the collectives that are not simulated in the best layout."""
        return tuple(
            traffic.label
            for traffic, score in zip(self.problem.traffic, self.best.scores, strict=True)
            if self.problem.overlap or score.simulated is None
        )

    def collective_table(self, layout: RankedLayout | None = None) -> pd.DataFrame:
        """Return a row for each collective of a step, in the best layout or another one.

        Columns: ``what``, ``collective``, ``devices`` (in a group), ``nbytes`` (of one run),
        ``runs`` (in a step), ``time`` and ``bound`` (seconds of all runs; no layout is faster than
        the bound), ``GBps`` (bytes over time), ``share`` (of the step), ``algorithm``, ``source``
        and ``why``.
        """
        return pd.DataFrame(self.collective_rows(layout or self.best))

    def collective_rows(self, layout: RankedLayout) -> list[dict[str, Any]]:
        """Return the rows of `collective_table`."""
        times = self.problem.collective_times(layout.scores)
        total = sum(times)
        busiest_links = layout.link_seconds.argmax(axis=1)
        rows = []
        for traffic, score, time, link in zip(
            self.problem.traffic, layout.scores, times, busiest_links, strict=True
        ):
            groups = self.problem.groups(traffic, layout.nodes)
            rows.append(
                {
                    "what": traffic.label,
                    "collective": traffic.collective,
                    "devices": groups.n,
                    "nbytes": traffic.nbytes,
                    "runs": traffic.runs,
                    "time": time,
                    "bound": time_bound(traffic, groups) * traffic.runs,
                    "GBps": traffic.nbytes * traffic.runs / time / 1e9 if time else float("nan"),
                    "share": time / total if total else 0.0,
                    "algorithm": score.algorithm,
                    "source": "predicted" if score.simulated is None else "simulated",
                    "why": _explain_score(score, self.torus.link_label(link)),
                }
            )
        return rows


def _explain_score(score: CollectiveScore, busiest_link: str) -> str:
    """Return the reason for a collective's time: hops, and the messages on the busiest link."""
    if score.algorithm == "none" or not score.max_hops:
        return "nothing is sent"
    hops = counted(score.max_hops, "hop")
    if score.mean_hops < score.max_hops:
        hops = f"up to {hops}"
    is_ring = score.algorithm != "at once"
    distance = f"neighbours are {hops} apart" if is_ring else f"messages travel {hops}"
    if score.mean_hops < score.max_hops:
        distance += f" ({score.mean_hops:.2g} on average)"
    if score.max_messages <= 1:
        return f"{distance}; no link is shared"
    messages = counted(round(score.max_messages), "message")
    return f"{distance}; {messages} share link {busiest_link}"


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

    The dimensions of the torus are split into pieces for the axes in every possible way. An axis
    walks over its pieces line by line, as a snake, in a loop or folded. Other layouts are cut from
    walks over the whole torus. All times are computed from link loads in closed form. The fastest
    layouts and the default are then simulated packet by packet, and further layouts until the
    fastest one is simulated. `MeshLayouts.not_simulated` lists collectives that have too many
    messages to simulate.

    On a TPU slice that the mesh fills, the default layout is the mesh of `jax.make_mesh`. Otherwise
    it uses the first devices, in the order of their numbers.

    Parameters
    ----------
    torus : Torus, str or sequence of int
        A node is a device. A dimension is added for the devices of a chip if the mesh needs them.
    axes : MeshAxes, mapping or str
        Names and sizes, such as ``{"data": 8, "tensor": 4}`` or ``"data=8,tensor=4"``. None to
        infer them from the groups of an HLO program.
    traffic : sequence of MeshTraffic, str, mapping or HloStep
        The collectives of a step, such as ``"tensor:allreduce:64MB,data:allreduce:1GB"``, a mapping
        such as ``{"data": "allgather:1GB"}``, or a compiled program from `read_hlo`.
    devices : Devices, optional
        The available devices; by default, all devices in the machine's numbering.
    compare : TaskMapping or array-like of int, optional
        Your own layout: a mapping with tasks in C order of the mesh, or the node at each mesh
        coordinate, given as a number or as coordinates.
    hosts : array-like of int, shape (n_nodes,), optional
        The host of each node. The nodes of a host must form a box of the mesh.
    overlap : bool
        Whether the collectives of a step run at the same time and share the links. By default they
        run one after another. Overlapping collectives are not simulated.
    top : int
        Maximum number of layouts to return.
    simulate : int
        Number of layouts to simulate first; 0 disables simulation.
    n_jobs : int, optional
        Threads, or workers of `joblib.parallel_config`; -1 for one per core.
    progress : callable, optional
        Called with "layouts" (blocks of 500) or "simulations", the number done and the total.

    Examples
    --------
    >>> from toruscast.formats import torus
    >>> answer = mesh(torus("tpu_v5e:2x4"), {"x": 8}, "x:exchange:4MB")
    >>> answer.ids.tolist(), round(answer.gain, 2)
    ([0, 2, 4, 6, 7, 5, 3, 1], 1.96)
    """
    torus = as_torus(torus)
    check_type(overlap, "overlap", bool | np.bool_, "True or False")
    report_layouts = progress_of(progress, "layouts")
    check_type(devices, "devices", Devices | None, "Devices")
    top, simulate = whole_number(top, "top", 0), whole_number(simulate, "simulate", 0)
    mesh_axes, sends = resolve_traffic(traffic, axes)
    if devices is None and compare is None:
        torus = split_chips(torus, mesh_axes.n_tasks)
    devices = devices or default_devices(torus)
    if mesh_axes.n_tasks > devices.nodes.size:
        found = f"{mesh_axes}: {mesh_axes.n_tasks}"
        expected = f"at most the {devices.nodes.size} devices of {torus}"
        raise InputError("mesh too large", found=found, expected=expected)
    n_jobs = job_count(n_jobs)
    host_of = None
    if hosts is not None:
        host_of = whole_array(as_array(hosts, "hosts", "the host of each node").ravel(), "host")
        if host_of.size != torus.n_nodes:
            raise InputError("wrong number of hosts", found=host_of.size, expected=torus.n_nodes)
    omitted = traffic.omitted if isinstance(traffic, HloStep) else ()
    problem = MeshProblem(torus, mesh_axes, sends, overlap, omitted)
    scorer = LayoutScorer(problem, host_of)
    n_candidates = max(top, simulate, _MIN_CANDIDATES)
    considered, candidates = rank_layouts(scorer, devices, n_candidates, n_jobs, report_layouts)
    if not candidates:
        found = f"{mesh_axes} on {torus}"
        raise InputError("no layout keeps hosts together", found=found, expected="another mesh")
    is_whole = mesh_axes.n_tasks == torus.n_nodes
    default_name = "devices in order"
    default = devices.nodes[: mesh_axes.n_tasks].reshape(mesh_axes.sizes), default_name
    if is_whole and torus.name.startswith("tpu"):
        default_name = "JAX's own"
        default = lay_out_as_jax(torus, mesh_axes, devices.nodes)
    baselines = [scorer.score_mesh(*default)]
    if compare is not None:
        baselines.append(scorer.score_mesh(_read_nodes(compare, problem), "yours"))
    simulations = _Simulations(n_jobs, progress_of(progress, "simulations"))
    if simulate and not overlap:
        simulations.run([*candidates[:simulate], *baselines])
        simulations.run_until_fastest_is_simulated(candidates)
    layouts = sorted(map(simulations.apply_times, candidates), key=lambda each: each.time)
    default_layout, *compared = map(simulations.apply_times, baselines)
    is_allowed = host_of is None or keeps_hosts_together(default_layout.nodes, host_of)
    if is_allowed and default_layout.time < layouts[0].time * (1 - TIME_TOLERANCE):
        layouts.insert(0, default_layout)
    return MeshLayouts(
        problem=problem,
        devices=devices,
        layouts=tuple(layouts[: max(top, 1)]),
        default=default_layout,
        default_name=default_name,
        compared=compared[0] if compared else None,
        considered=considered,
        all_considered=not is_whole or considered <= MAX_SPLITS,
    )


def step_time(
    nodes: ArrayLike,
    torus: Torus,
    axes: MeshAxes,
    traffic: Sequence[MeshTraffic],
    *,
    overlap: bool = False,
) -> float:
    """Return the communication time of a step in closed form, in seconds.

    Parameters
    ----------
    nodes : array-like of int, shape ``axes.sizes``
        The node at each mesh coordinate.
    torus : Torus
        The network.
    axes : MeshAxes
        Names and sizes of the axes.
    traffic : sequence of MeshTraffic
        The collectives of a step.
    overlap : bool
        Whether the collectives run at the same time, rather than one after another.
    """
    problem = MeshProblem(torus, axes, tuple(traffic), overlap)
    return LayoutScorer(problem).score_mesh(_read_nodes(nodes, problem)).time


class _Simulations:
    """Simulated times of collectives. Collectives with the same groups are simulated once."""

    def __init__(self, n_jobs: int, report: Callable[[int, int], object] | None) -> None:
        self.n_jobs, self.report = n_jobs, report or (lambda done, total: None)
        self.times: dict[_Key, float | None] = {}

    def run(self, layouts: Sequence[RankedLayout]) -> None:
        """Simulate those collectives of some layouts that are not simulated yet."""
        items = {key: item for each in layouts for key, item in self._list_items(each).items()}
        keys = [key for key in items if key not in self.times]
        total = len(self.times) + len(keys)
        self.report(len(self.times), total)
        task = Task(_simulate_item)
        for number, time in task.each([items[key] for key in keys], self.n_jobs):
            self.times[keys[number]] = time
            self.report(len(self.times), total)

    def run_until_fastest_is_simulated(self, layouts: Sequence[RankedLayout]) -> None:
        """Simulate the fastest layout repeatedly, until the fastest one is already simulated."""
        while True:
            fastest = min(layouts, key=lambda layout: self.apply_times(layout).time)
            if self._list_items(fastest).keys() <= self.times.keys():
                return
            self.run([fastest])

    def apply_times(self, layout: RankedLayout) -> RankedLayout:
        """Return a layout with the simulated times that are known so far."""
        scores = list(layout.scores)
        for key in self._list_items(layout):
            scores[key[0]] = replace(scores[key[0]], simulated=self.times.get(key))
        return replace(layout, scores=tuple(scores))

    def _list_items(self, layout: RankedLayout) -> dict[_Key, _Item]:
        """Return the simulation inputs of each collective that sends something."""
        problem, items = layout.problem, {}
        for i, (traffic, score) in enumerate(zip(problem.traffic, layout.scores, strict=True)):
            if score.algorithm != "none":
                groups = problem.groups(traffic, layout.nodes)
                items[i, groups.nodes.tobytes()] = traffic, groups, score.algorithm
        return items


def _simulate_item(item: _Item) -> float | None:
    return simulate_collective(*item)


def _read_nodes(layout: TaskMapping | ArrayLike, problem: MeshProblem) -> Ints:
    """Convert a caller's layout, of nodes or coordinates, to the node at each mesh coordinate."""
    listed = layout.node if isinstance(layout, TaskMapping) else layout
    axes, torus = problem.axes, problem.torus
    shapes = axes.sizes, (axes.n_tasks,)
    array = as_array(listed, "layout", "nodes in mesh shape")
    values = whole_array(array.ravel(), "node")
    if array.shape in [(*shape, torus.ndim) for shape in shapes]:
        values = values.reshape(-1, torus.ndim)
    elif array.shape not in shapes:
        found = f"shape {array.shape}"
        expected = f"the nodes of {axes}, shape {shapes[0]} or {shapes[1]}, or their coordinates"
        raise InputError("layout of another mesh", found=found, expected=expected)
    nodes = torus.check_nodes(values).astype(np.int64)
    if np.unique(nodes).size < nodes.size:
        raise InputError("duplicate node in a layout", expected=f"different nodes for {axes}")
    return nodes.reshape(axes.sizes)


ACCELERATORS = ("tpu", "trainium", "galaxy")


@dataclass(frozen=True, eq=False)
class SliceRanking:
    """Slices with the same number of chips, sorted by the communication time of a step."""

    slices: tuple[str, ...]  # as `machine` accepts them
    answers: tuple[MeshLayouts, ...]  # the layouts on each slice

    @property
    def table(self) -> pd.DataFrame:
        """A row for each slice: ``slice``, ``twisted``, ``time`` (s), ``source``, ``layout``."""
        best = [answer.best for answer in self.answers]
        columns = {
            "slice": self.slices,
            "twisted": [bool(answer.torus.twist) for answer in self.answers],
            "time": [layout.time for layout in best],
            "source": [layout.source for layout in best],
            "layout": [layout.description for layout in best],
        }
        return pd.DataFrame(columns)


def list_slices(name: str, n_chips: int) -> Iterator[tuple[str, Torus]]:
    """Yield the slices of a machine with this many chips, twisted and untwisted.

    Sizes ascend, as vendors write them. If a machine has rings only at multiples of four, all other
    sizes above four are left out. Some slices may not be for sale.
    """
    machine = Machine.from_name(name)
    rules = machine.shapes
    step = rules.rings_if_multiples_of
    sizes = [n for n in divisors(n_chips) if not step or n <= step or n % step == 0]
    shapes: Iterable[tuple[int, ...]] = rules.only or (
        shape for n in rules.dimensions for shape in combinations_with_replacement(sizes, n)
    )
    fitting = [shape for shape in shapes if math.prod(shape) == n_chips]
    # Skip slices with more dimensions of size 1 than necessary.
    min_ones = min((shape.count(1) for shape in fitting), default=0)
    for shape in (shape for shape in fitting if shape.count(1) == min_ones):
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
    """Return the slices with this many chips, sorted by the communication time of a step.

    By default, ``machines`` are all accelerators. The fastest ``simulate`` slices are simulated
    packet by packet. The other arguments are those of `mesh`.

    Examples
    --------
    >>> found = which_slice(8, {"x": 8}, "x:alltoall:8MB", "tpu_v4", simulate=0)
    >>> found.slices
    ('tpu_v4:2x2x2',)
    """
    n_chips = whole_number(n_chips, "number of chips", 1)
    simulate = whole_number(simulate, "simulate", 0)
    check_type(machines, "machines", Iterable, "names of machines")
    chosen = (machines,) if isinstance(machines, str) else tuple(machines)
    for name in chosen:
        check_type(name, "name of a machine", str, "a text")
        bare = re.split(r"[:\s]", name)[0]
        if bare != name:
            expected = f"the machine alone, {bare}"
            raise InputError("slice instead of a machine", found=name, expected=expected)
    chosen = chosen or tuple(name for name in names() if name.startswith(ACCELERATORS))
    slices = [pair for name in chosen for pair in list_slices(name, n_chips)]
    if not slices:
        found = f"{n_chips} of {' or '.join(chosen)}"
        raise InputError("no slice with this many chips", found=found, expected="another number")
    report = progress_of(progress, "slices") or (lambda done, total: None)
    rank = partial(mesh, axes=axes, traffic=traffic, overlap=overlap, top=1, n_jobs=n_jobs)
    n_tasks = resolve_traffic(traffic, axes)[0].n_tasks
    large = [each for each in slices if split_chips(each[1], n_tasks).n_nodes >= n_tasks]
    answers: dict[str, MeshLayouts] = {}
    # If all slices are too small, the first one raises the error.
    for done, (text, torus) in enumerate(large or slices[:1], 1):
        answers[text] = rank(torus, simulate=0)
        report(done, len(large))
    order = sorted(answers, key=lambda text: answers[text].best.time)
    for text in order[: 0 if overlap else simulate]:
        answers[text] = rank(answers[text].torus, simulate=1)
    order = sorted(order, key=lambda text: answers[text].best.time)
    return SliceRanking(tuple(order), tuple(answers[text] for text in order))


# Maximum number of scored placements, and of torus nodes for which free boxes are searched.
_MAX_PLACEMENTS, _MAX_NODES = 4096, 256


@dataclass(frozen=True, eq=False)
class MeshPlacement:
    """A placement of a layout in the torus."""

    layout: RankedLayout  # with its nodes moved, and its original scores
    corner: tuple[int, ...]  # lowest coordinates of its nodes
    time: float  # seconds of communication per step, in closed form
    free_box: int  # nodes of the largest box that stays free; -1 if the torus is too large


def list_placements(answer: MeshLayouts) -> list[MeshPlacement]:
    """Return every placement of the layouts, sorted by time, then by the largest free box.

    A layout is shifted along the dimensions, and rotated between equal dimensions. If several
    placements use the same nodes, only the fastest is returned.
    """
    torus = answer.torus
    available = np.isin(np.arange(torus.n_nodes), answer.devices.nodes)
    placements: dict[bytes, MeshPlacement] = {}
    pairs = (
        (layout, nodes)
        for layout in answer.layouts
        for nodes in _move_layout(torus, layout.nodes, available)
    )
    for number, (layout, nodes) in enumerate(pairs, 1):
        if number > _MAX_PLACEMENTS:
            expected = f"at most {_MAX_PLACEMENTS}; a smaller --top, or a smaller torus"
            raise InputError("too many placements of the mesh", found=number, expected=expected)
        time = LayoutScorer(answer.problem).score_mesh(nodes).time
        key = np.sort(nodes, axis=None).tobytes()
        if key in placements and placements[key].time <= time * (1 + TIME_TOLERANCE):
            continue
        free = available.copy()
        free[nodes] = False
        corner = tuple(map(int, torus.coords[nodes.ravel()].min(axis=0)))
        free_box = _count_largest_box(torus, free) if torus.n_nodes <= _MAX_NODES else -1
        moved = replace(layout, placement=nodes, name=layout.description)
        placements[key] = MeshPlacement(moved, corner, time, free_box)
    fastest = min((each.time for each in placements.values()), default=0.0) or 1.0
    # Times that differ by rounding alone count as equal.
    step = fastest * TIME_TOLERANCE
    return sorted(
        placements.values(), key=lambda each: (round(each.time / step), -each.free_box, each.corner)
    )


def _move_layout(torus: Torus, nodes: Ints, available: Bools) -> Iterator[Ints]:
    """Yield a layout's nodes after each rotation and shift that moves it onto available nodes."""
    coords = torus.coords[nodes.ravel()].astype(np.int64)
    seen: set[bytes] = set()
    size, is_line = np.array(torus.shape), ~np.array(torus.wrap)
    dimensions = list(zip(torus.shape, torus.wrap, torus.bandwidth, strict=True))
    orders = [*permutations(range(torus.ndim))]
    for order in orders[:1] if torus.twist else orders:
        if [dimensions[d] for d in order] != dimensions:
            continue
        rotated = coords[:, order]
        for shift in product(*(range(n) for n in torus.shape)):
            shifted = rotated - rotated.min(axis=0) * is_line + shift
            if ((shifted >= size) & is_line).any():
                continue
            moved = torus.node(shifted % size).astype(np.int64)
            if available[moved].all() and moved.tobytes() not in seen:
                seen.add(moved.tobytes())
                yield moved.reshape(nodes.shape)


def _count_largest_box(torus: Torus, free: Bools) -> int:
    """Return the number of nodes in the largest box of nodes that are ``free``, ``(n_nodes,)``."""
    grid = free.reshape(torus.shape)
    modes: list[Any] = ["wrap" if wrap else "constant" for wrap in torus.wrap]
    shapes = product(*(range(1, n + 1) for n in torus.shape))
    fitting = (shape for shape in shapes if math.prod(shape) <= free.sum())
    for shape in sorted(fitting, key=math.prod, reverse=True):
        # The minimum filter is True at each position where all nodes of the box are free.
        if scipy.ndimage.minimum_filter(grid, shape, mode=modes).any():
            return math.prod(shape)
    return 0
