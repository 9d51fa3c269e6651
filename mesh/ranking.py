"""Rank the layouts of a mesh, the slices that may run it, and its places; simulate the best."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, permutations, product
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, sum_edges
from toruscast.mapping.collectives import schedule
from toruscast.mapping.machines import named, names
from toruscast.mapping.strategies.orders import divisors
from toruscast.mapping.task_mapping import check_torus
from toruscast.mesh.devices import Devices, chips_as_devices, usual_devices
from toruscast.mesh.hlo import HloStep
from toruscast.simulation import Simulation, simulate
from toruscast.validation import job_count, whole_array, whole_number
from toruscast.workers import Task

from .candidates import ALIKE, MAX_SPLITS, LayoutScorer, best_layouts, is_together
from .closed_form import Score, message_ends, product_grid
from .layouts import box_of, is_uniform
from .results import MeshForecast, RankedLayout
from .traffic import ALGORITHMS, MeshAxes, MeshTraffic, step_traffic

# Most messages of a collective that is simulated; a ranking must not take long.
MAX_MESSAGES = 200_000
# Most messages if all rounds are simulated, and of the rounds that give the pace of the others.
_ALL_ROUNDS, _FEW_MESSAGES = 60_000, 12_000
# Real packets are merged: to so many of the longest message, and of all messages together. The
# longest keeps the last of these at least: where all are sent at once, and in rounds.
_PACKETS, _MAX_PACKETS, _MIN_PACKETS = 32, 300_000, (8, 4)


def simulated_time(
    traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus, found: Score
) -> float | None:
    """Return the seconds of a collective by simulated packets; None if it has too many messages.

    If there are many equal rounds, a few are simulated, and the others take the pace of the second
    half of these, to within 5 %. Rounds that send the same are simulated once. Flows would be too
    slow: long ones get less of a link that they share, and the rounds wait for them.
    """
    lines, torus = _repeating(lines, torus)
    if found.algorithm not in ALGORITHMS:
        at_once = _at_once(traffic, lines, torus)
        return None if at_once is None else _simulated_rounds(at_once, torus).time
    rounds = _ring_rounds(traffic, lines, torus, found.algorithm)
    if sum(times * phase.n_edges for times, phase in rounds) <= _ALL_ROUNDS:
        every = [phase for times, phase in rounds for _ in range(times)]
        return _simulated_rounds(Workload(every, dependent=True), torus).time
    seconds: dict[tuple[int, bytes, bytes, bytes], float] = {}
    total = 0.0
    for times, phase in rounds:
        few = max(_FEW_MESSAGES // phase.n_edges, 2)
        if 2 * few * phase.n_edges > MAX_MESSAGES:
            return None
        key = times, phase.src.tobytes(), phase.dst.tobytes(), phase.nbytes.tobytes()
        if key not in seconds:
            some = min(times, 2 * few)
            first = _simulated_rounds(Workload([phase] * some, dependent=True), torus)
            seconds[key] = first.time
            if times > some:
                half, end = (float(first.message_times[i].max()) for i in (few - 1, -1))
                seconds[key] += (times - some) * (end - half) / few
        total += seconds[key]
    return total


def _repeating(lines: NDArray[np.int64], torus: Torus) -> tuple[NDArray[np.int64], Torus]:
    """Return the part of a torus in which groups repeat, and those in it."""
    if not is_uniform(torus):
        return lines, torus
    coords = torus.coords[lines]
    shape = list(torus.shape)
    for d, size in enumerate(torus.shape):
        plane = coords[:, 0, d]
        if size == 1 or (coords[..., d] != plane[:, None]).any():
            continue
        moved = coords.copy()
        moved[..., d] = 0
        if (np.unique(moved, axis=0, return_counts=True)[1] == size).all():
            coords, shape[d] = coords[plane == 0], 1
    part = box_of(torus, shape)
    return np.asarray(part.node(coords), dtype=np.int64), part


def _simulated_rounds(rounds: Workload, torus: Torus) -> Simulation:
    longest = max(float(phase.nbytes.max(initial=0.0)) for phase in rounds)
    messages = sum(phase.n_edges for phase in rounds)
    fewest = _MIN_PACKETS[rounds.dependent]
    packets = min(_PACKETS, max(_MAX_PACKETS // max(messages, 1), fewest))
    merged = max(int(longest / torus.network.payload / packets), 1)
    mapping = TaskMapping(np.arange(torus.n_nodes), torus)
    return simulate(rounds, torus, mapping, coarsening=merged)


def _ring_rounds(
    traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus, algorithm: str
) -> list[tuple[int, CommGraph]]:
    """The rounds of one group, run by every group at once: how many in a row, and each."""
    n, kind, nbytes = lines.shape[1], traffic.collective, traffic.nbytes
    if algorithm == "bucket":
        grid = product_grid(torus, lines)
        assert grid is not None
        shape, ports = grid.shape[1:], 2 * (grid.ndim - 1)
        plan = schedule(f"{kind}/bucket", n, nbytes, shape, ports=ports)
        lines = grid.reshape(lines.shape)
    else:
        ports = 1 if algorithm == "ring" else 2
        # Compiled programs send round a ring however few bytes there are.
        plan = schedule(f"{kind}/ring", n, nbytes, ports=ports, element=0)
    phases: list[tuple[int, CommGraph]] = []
    for times, steps in plan.rounds():
        src = np.concatenate([lines[:, step.src].ravel() for step in steps])
        dst = np.concatenate([lines[:, step.dst].ravel() for step in steps])
        amounts = np.concatenate([np.tile(step.nbytes, len(lines)) for step in steps])
        phases.append((times, sum_edges(torus.n_nodes, src, dst, amounts, np.ones(src.size))))
    return phases


def _at_once(traffic: MeshTraffic, lines: NDArray[np.int64], torus: Torus) -> Workload | None:
    kind, n = traffic.collective, lines.shape[1]
    pairs = len(lines) * n * (n - 1) if kind == "alltoall" else 2 * lines.size
    if pairs > MAX_MESSAGES:
        return None
    src, dst = map(np.concatenate, zip(*message_ends(traffic, lines), strict=True))
    nbytes = np.full(src.size, traffic.nbytes / (n if kind == "alltoall" else 1))
    return Workload([sum_edges(torus.n_nodes, src, dst, nbytes, np.ones(src.size))])


# Layouts that may be simulated to find the fastest.
_POOL = 24
_Key = tuple[int, bytes]
Progress = Callable[[Literal["layouts", "simulations"], int, int], object]


class MeshTooLargeError(InputError):
    """A mesh has more places than there are devices."""


def rank_layouts(
    torus: Torus,
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
) -> MeshForecast:
    """Return the layouts of a sharded model's mesh on a torus, the fastest first.

    The axes get pieces of the torus's dimensions in every way, each walked line by line, as a
    snake, round a loop or folded; or they are cut from walks over the whole torus. Times are of
    link loads in closed form. The fastest few and the devices in order are simulated packet by
    packet, and more until the fastest is a simulated one. `MeshForecast.not_simulated` names
    collectives with too many messages.

    Parameters
    ----------
    torus : Torus
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
        A layout of the caller's own: tasks in C order of the mesh, or the node at each place.
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
    >>> from toruscast.mapping import machine
    >>> answer = rank_layouts(machine("tpu_v5e:2x2"), {"x": 4}, "x:exchange:4MB")
    >>> answer.ids.tolist(), round(answer.gain, 2)
    ([0, 2, 3, 1], 1.96)
    """
    check_torus(torus)
    mesh, sends = step_traffic(traffic, axes)
    # Chips become their devices where the mesh has a place for each.
    if devices is None and compare is None:
        torus = chips_as_devices(torus, mesh.n_tasks)
    devices = devices or usual_devices(torus)
    if mesh.n_tasks > devices.nodes.size:
        found = f"{mesh}: {mesh.n_tasks}"
        expected = f"at most the {devices.nodes.size} devices of {torus}"
        raise MeshTooLargeError("mesh too large", found=found, expected=expected)
    n_jobs, tell = job_count(n_jobs), progress or (lambda stage, done, total: None)
    together = None if hosts is None else _checked_hosts(hosts, torus)
    scorer = LayoutScorer(torus, mesh, sends, overlap, together)
    considered, candidates = best_layouts(
        scorer,
        devices,
        max(top, simulate, _POOL),
        n_jobs,
        progress=lambda done, total: tell("layouts", done, total),
    )
    if not candidates:
        found = f"{mesh} on {torus}"
        raise InputError("no layout keeps hosts together", found=found, expected="another mesh")
    plain = devices.nodes[: mesh.n_tasks].reshape(mesh.sizes)
    others = [scorer.ranked(scorer.of_mesh(plain, "devices in order"))]
    if compare is not None:
        others.append(scorer.ranked(scorer.of_mesh(_own_nodes(compare, torus, mesh), "yours")))
    simulations = _Simulations(scorer, n_jobs, tell)
    if simulate and not overlap:
        simulations.run([*candidates[:simulate], *others])
        simulations.run_until_first(candidates)
    layouts = sorted(map(simulations.ranked, candidates), key=lambda each: each.time)
    in_order, *asked = map(simulations.ranked, others)
    allowed = together is None or is_together(plain, together)
    if allowed and in_order.time < layouts[0].time * (1 - ALIKE):
        layouts.insert(0, in_order)
    return MeshForecast(
        torus=torus,
        axes=mesh,
        traffic=sends,
        devices=devices,
        layouts=tuple(layouts[: max(top, 1)]),
        in_order=in_order,
        compared=asked[0] if asked else None,
        considered=considered,
        all_considered=mesh.n_tasks != torus.n_nodes or considered <= MAX_SPLITS,
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
    """Return the seconds of a step with the node at each place of the mesh, in closed form."""
    scorer = LayoutScorer(torus, axes, tuple(traffic), overlap)
    return scorer.step_time(scorer.of_mesh(_own_nodes(nodes, torus, axes)).sent)


class _Simulations:
    """Simulated times of collectives, once for those with the same groups."""

    def __init__(self, scorer: LayoutScorer, n_jobs: int, tell: Progress) -> None:
        self.scorer, self.n_jobs, self.tell = scorer, n_jobs, tell
        self.times: dict[_Key, float | None] = {}

    def run(self, layouts: Sequence[RankedLayout]) -> None:
        """Simulate the collectives of layouts."""
        items = {key: item for each in layouts for key, item in self._groups(each).items()}
        keys = [key for key in items if key not in self.times]
        total = len(self.times) + len(keys)
        self.tell("simulations", len(self.times), total)
        task = Task(_simulate_item, self.scorer.torus)
        for number, time in task.each([items[key] for key in keys], self.n_jobs):
            self.times[keys[number]] = time
            self.tell("simulations", len(self.times), total)

    def run_until_first(self, layouts: Sequence[RankedLayout]) -> None:
        """Simulate the fastest layout until the fastest is one that was simulated, or cannot be."""
        while True:
            fastest = min(layouts, key=lambda layout: self.ranked(layout).time)
            if self._groups(fastest).keys() <= self.times.keys():
                return
            self.run([fastest])

    def ranked(self, layout: RankedLayout) -> RankedLayout:
        """Return a layout with its time, of simulated packets where they are known."""
        sent = list(layout.sent)
        for key in self._groups(layout):
            sent[key[0]] = replace(sent[key[0]], simulated=self.times.get(key))
        return self.scorer.timed(layout.nodes, layout.words, tuple(sent))

    def _groups(
        self, layout: RankedLayout
    ) -> dict[_Key, tuple[MeshTraffic, NDArray[np.int64], Score]]:
        """Return the collectives that send something, and their groups."""
        found = {}
        for i, (traffic, score) in enumerate(zip(self.scorer.traffic, layout.sent, strict=True)):
            if score.algorithm != "none":
                lines = self.scorer.lines(traffic, layout.nodes)
                found[i, lines.tobytes()] = traffic, lines, score
        return found


def _simulate_item(
    torus: Torus, item: tuple[MeshTraffic, NDArray[np.int64], Score]
) -> float | None:
    traffic, lines, score = item
    return simulated_time(traffic, lines, torus, score)


def _checked_hosts(hosts: ArrayLike, torus: Torus) -> NDArray[np.int64]:
    found = whole_array(np.ravel(hosts), "host of a node")
    if found.size != torus.n_nodes:
        raise InputError("hosts of other nodes", found=found.size, expected=torus.n_nodes)
    return found


def _own_nodes(compare: TaskMapping | ArrayLike, torus: Torus, axes: MeshAxes) -> NDArray[np.int64]:
    """The nodes of a layout that the caller brought, in mesh shape."""
    given = compare.node if isinstance(compare, TaskMapping) else compare
    nodes = torus.check_nodes(given).ravel().astype(np.int64)
    twice = np.unique(nodes).size < nodes.size
    if nodes.size != axes.n_tasks or twice:
        found = "a device twice" if twice else f"{nodes.size} devices"
        raise InputError("layout of another mesh", found=found, expected=f"the places of {axes}")
    return nodes.reshape(axes.sizes)


def link_seconds(answer: MeshForecast, layout: RankedLayout) -> NDArray[np.float64]:
    """Return how long each link works in a step for each collective, ``(n_collectives, n_links)``.

    Seconds in closed form, repeated runs of a collective together.
    """
    scorer = LayoutScorer(answer.torus, answer.axes, answer.traffic, overlap=True)
    pairs = zip(scorer.of_mesh(layout.nodes).sent, answer.traffic, strict=True)
    return np.stack([score.link_seconds * each.times for score, each in pairs])


ACCELERATORS = ("tpu", "trainium", "galaxy")
# Slices that are simulated, the fastest first.
_SIMULATED = 3


@dataclass(frozen=True, eq=False)
class RankedSlices:
    """Slices of so many chips, sorted by the time that a step communicates."""

    n_chips: int
    slices: tuple[str, ...]  # as `machine` takes them
    answers: tuple[MeshForecast, ...]  # the layouts on each

    @property
    def table(self) -> pd.DataFrame:
        """A row for each: ``slice``, ``twisted``, ``time`` (seconds), ``how``, ``layout``."""
        rows = [
            {
                "slice": text,
                "twisted": bool(answer.torus.twist),
                "time": answer.best.time,
                "how": answer.best.how,
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
    machine = named(name)
    rules = machine.shapes
    step = rules.rings_if_multiples_of
    sizes = [n for n in divisors(n_chips) if not step or n <= step or n % step == 0]
    found = [
        shape
        for n in rules.dimensions
        for shape in combinations_with_replacement(sizes, n)
        if math.prod(shape) == n_chips
    ]
    # A slice is no thinner than it must be.
    thin = min((shape.count(1) for shape in found), default=0)
    found = [shape for shape in found if shape.count(1) == thin]
    if rules.only:
        found = [shape for shape in rules.only if math.prod(shape) == n_chips]
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
    simulate: bool = True,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> RankedSlices:
    """Return the slices of so many chips, sorted by the time that a step communicates.

    Axes, traffic and the other arguments are those of `rank_layouts`. Without machines all
    accelerators are ranked. With ``simulate`` the three fastest are simulated packet by packet.

    Examples
    --------
    >>> found = which_slice(8, {"x": 8}, "x:alltoall:8MB", "tpu_v4", simulate=False)
    >>> found.slices
    ('tpu_v4:2x2x2',)
    """
    n_chips = whole_number(n_chips, "number of chips", 1)
    asked = (machines,) if isinstance(machines, str) else tuple(machines)
    for name in asked:
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
    tell = progress or (lambda done, total: None)
    answers: dict[str, MeshForecast] = {}
    refused: InputError | None = None
    for done, (text, torus) in enumerate(found, 1):
        try:
            answers[text] = rank_layouts(
                torus, axes, traffic, overlap=overlap, top=1, simulate=0, n_jobs=n_jobs
            )
        except MeshTooLargeError as error:
            refused = error
        tell(done, len(found))
    if not answers and refused is not None:
        raise refused
    order = sorted(answers, key=lambda text: answers[text].best.time)
    torus_of = dict(found)
    for text in order[: _SIMULATED if simulate and not overlap else 0]:
        answers[text] = rank_layouts(
            torus_of[text], axes, traffic, top=1, simulate=1, n_jobs=n_jobs
        )
    order = sorted(order, key=lambda text: answers[text].best.time)
    return RankedSlices(n_chips, tuple(order), tuple(answers[text] for text in order))


# Most places that are scored, and nodes of a torus whose largest free box is sought.
_MAX_PLACES, _MAX_NODES = 4096, 256


@dataclass(frozen=True, eq=False)
class MeshPlacement:
    """A place of the mesh."""

    nodes: NDArray[np.int64]  # in the shape of the mesh
    corner: tuple[int, ...]  # lowest coordinates of its nodes, rings counted from 0
    layout: str  # how the axes lie, before it was moved
    time: float  # seconds that a step communicates, in closed form
    rest: int  # nodes of the largest box that stays free; -1 on tori too large to look


def placements(answer: MeshForecast) -> list[MeshPlacement]:
    """Return every place of the layouts of an answer: the fastest first, then by what stays free.

    A layout is moved along the dimensions, and turned where dimensions are alike. Only the
    fastest of places with the same nodes is returned.
    """
    torus, traffic = answer.torus, answer.traffic
    there = np.isin(np.arange(torus.n_nodes), answer.devices.nodes)
    found: dict[bytes, MeshPlacement] = {}
    number = 0
    for layout in answer.layouts:
        for nodes in _moved_nodes(torus, layout.nodes, there):
            number += 1
            if number > _MAX_PLACES:
                expected = f"at most {_MAX_PLACES}; a smaller --top, or a smaller torus"
                raise InputError("too many places of the mesh", found=number, expected=expected)
            time = step_time(nodes, torus, answer.axes, traffic, overlap=answer.overlap)
            key = np.sort(nodes, axis=None).tobytes()
            if key in found and found[key].time <= time * (1 + ALIKE):
                continue
            free = there.copy()
            free[nodes] = False
            corner = tuple(map(int, torus.coords[nodes.ravel()].min(axis=0)))
            rest = _largest_box(torus, free) if torus.n_nodes <= _MAX_NODES else -1
            found[key] = MeshPlacement(nodes, corner, layout.words, time, rest)
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
