"""Mappings from which a search starts: by strategies, by levels, and by other programs."""

from __future__ import annotations

import importlib
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus, strategies
from toruscast.mapping.strategies import registry
from toruscast.mapping.task_mapping import Allocation

from ._anneal_kernels import Uses
from ._graph_kernels import match_pairs
from .annealing import Annealer, Clock, Goal
from .products import product_starts

# Strategies that take a graph apart within .03 s for a thousand tasks.
_FAST = ("bisect-refined", "bisect-graph", "greedy-heaviest")
# Layouts of a product that are kept, and seen by each source of them. Seconds of a task to find the
# product, and of a task, and of two, for each layout.
_PRODUCTS, _SEEN, _FACTORS, _SEEING = 8, (5, 60, 600), 5e-5, (2e-6, 3e-9)
# Efforts of multilevel mappings, how many are made with each, and the seconds of a task.
_EFFORTS, _LEVELS, _LEVEL_SECONDS = (1, 2, 4, 8, 16), 2, 2e-4
# Seconds of the spectral layout: of a task, and of a task cubed where the spectrum is worked out
# whole. Beyond so many tasks it takes longer than any search.
_LAYOUT, _DECOMPOSED, _WHOLE, _SPECTRAL = 1e-4, 4e-10, 1500, 20_000
# Gain that each source promises; layouts by products and spectra are often the best there are.
_GAIN, _LAYOUT_GAIN = 0.1, 0.6


def starts(
    problem: MappingProblem,
    allocation: Allocation,
    seed: int,
    clock: Clock,
    energy: Callable[[TaskMapping], float],
    allotments: Iterable[float],
) -> Iterator[list[TaskMapping]]:
    """Yield different mappings on nodes that are ours after each allotment of estimated seconds.

    The most promising are first. They are made in the order of the gain expected a second.
    """
    first, *others = _sources(problem, allocation, seed, clock)
    found: dict[bytes, tuple[float, TaskMapping]] = {}
    best = math.inf
    left = 0.0
    for seconds in allotments:
        left += seconds
        # However late it is, a search has starts that are not bad.
        while not (first.is_over and clock.is_over()):
            affordable = [s for s in others if not s.is_over and s.seconds <= left]
            affordable.sort(key=lambda s: -s.gain / (s.draws + 1) ** 2 / s.seconds)
            if first.is_over and not affordable:
                break
            source = affordable[0] if first.is_over else first
            made = next(source.mappings, [])
            # The clock may have cut them short.
            if not made or (first.is_over and clock.is_over()):
                source.is_over = True
                continue
            left -= source.seconds
            for mapping in made:
                found.setdefault(mapping.node.tobytes(), (energy(mapping), mapping))
            before, best = best, min(value for value, _ in found.values())
            source.draws += 1
            source.gain += 1 - best / before if 0 < before < math.inf else 0.0
        yield [mapping for _, mapping in sorted(found.values(), key=lambda each: each[0])]


@dataclass
class _Source:
    """Mappings of one kind, made one after the other or some at once, and what they gained."""

    mappings: Iterator[list[TaskMapping]]
    seconds: float  # of each step, as estimated
    gain: float = _GAIN  # so far, and as if a draw before had gained that much
    draws: int = 0
    is_over: bool = False


def _sources(
    problem: MappingProblem, allocation: Allocation, seed: int, clock: Clock
) -> list[_Source]:
    """Return the sources of starts, that which every search draws from first."""
    n = problem.n_tasks
    placement = strategies.Placement(problem, is_late=clock.is_over)

    def named(names: Iterable[str]) -> Iterator[list[TaskMapping]]:
        for name in names:
            node, _ = registry.place_tasks(placement, name, seed)
            yield [allocation.confine(placement.mapping(node, name))]

    def variants() -> Iterator[list[TaskMapping]]:
        kinds = registry.select_strategies(None)
        names = (name for kind in kinds for name in registry.variant_names(placement, kind))
        yield from named(name for name in dict.fromkeys(names) if name not in _FAST)

    def products(most: int) -> Iterator[list[TaskMapping]]:
        yield product_starts(problem, allocation, _PRODUCTS, clock, most)

    def levels(number: int, effort: int) -> Iterator[list[TaskMapping]]:
        for each in range(number, number + _LEVELS):
            mapping = multilevel(problem, allocation, seed + each, clock, effort)
            if mapping is None:
                return
            yield [mapping.renamed(f"multilevel@{each + 1}")]

    found = [_Source(named(_FAST), 1e-5 * n), _Source(variants(), 1e-5 * n)]
    each = _SEEING[0] * n + _SEEING[1] * n**2
    found += [
        _Source(products(n_seen), _FACTORS * n + n_seen * each, _LAYOUT_GAIN) for n_seen in _SEEN
    ]
    found += [
        _Source(levels(_LEVELS * number, effort), effort * _LEVEL_SECONDS * n)
        for number, effort in enumerate(_EFFORTS)
    ]
    if n <= _SPECTRAL:
        seconds = _LAYOUT * n + (_DECOMPOSED * float(n) ** 3 if n <= _WHOLE else 0.0)
        found.append(_Source(named(["spectral"]), seconds, _LAYOUT_GAIN))
    return found


# A torus is merged down to this many nodes, which are mapped well from any start.
_FEW_NODES = 32
# Proposals of an item at each level, and the temperatures, as shares of energy over items.
_STEPS, _FIRST_STEPS, _SWEEPS = 240, 1200, 24
_HOT, _FIRST_HOT, _COLD = 0.15, 0.6, 0.003


@dataclass(frozen=True, eq=False)
class _Level:
    """Items, their nodes, and the two items and nodes that each was merged from."""

    weight: sparse.csr_array
    torus: Torus
    hops: NDArray[np.uint16]  # (N, N)
    capacity: int
    nodes: NDArray[np.int64]  # that may be used
    items: NDArray[np.int64]  # (V, 2) of the finer level
    halves: NDArray[np.int64]  # (N, 2) nodes of the finer level


def multilevel(
    problem: MappingProblem, allocation: Allocation, seed: int, clock: Clock, effort: int = 1
) -> TaskMapping | None:
    """Return a mapping of few hop-bytes, or None if tasks are bound.

    Tasks and nodes are merged in pairs, level by level. The smallest level is annealed, then split
    and annealed again (multilevel bipartitioning: Karypis and Kumar, SIAM J. Sci. Comput. 20, 1998;
    of both graphs: Pellegrini and Roman, HPCN'96).
    """
    if allocation.fixed:
        return None
    rng = np.random.default_rng(seed)
    levels = _coarsened(problem, allocation, rng)
    coarsest = levels[-1]
    places = np.repeat(coarsest.nodes, coarsest.capacity)
    node = rng.permutation(places)
    for level, finer in zip(levels[::-1], [*levels[-2::-1], None], strict=True):
        hot, steps = (_FIRST_HOT, _FIRST_STEPS) if level is coarsest else (_HOT, _STEPS)
        node = _annealed(level, node, hot, effort * steps, int(rng.integers(2**31)), clock)
        if finer is not None:
            below = np.empty(finer.weight.shape[0], dtype=np.int64)
            below[level.items] = level.halves[node]
            node = below
    capacity = allocation.tasks_per_node
    node = node[: problem.n_tasks]
    return TaskMapping(node, problem.torus, tasks_per_node=capacity, name="multilevel")


def _coarsened(
    problem: MappingProblem, allocation: Allocation, rng: np.random.Generator
) -> list[_Level]:
    torus, capacity = problem.torus, allocation.tasks_per_node
    nodes = np.sort(np.asarray(allocation.nodes, dtype=np.int64))
    n_items = nodes.size * capacity
    both = problem.comm.without_self_messages().to_scipy()
    both = (both + both.T).tocoo()
    shape = (n_items, n_items)
    weight = sparse.csr_array((both.data, (both.row, both.col)), shape=shape)
    all_nodes = np.arange(torus.n_nodes)
    hops = torus.distance(all_nodes[:, None], all_nodes).astype(np.uint16)
    none = np.zeros((0, 2), dtype=np.int64)
    levels = [_Level(weight, torus, hops, capacity, nodes, none, none)]
    while True:
        now = levels[-1]
        along = _dimension_to_halve(now)
        grid = np.arange(now.torus.n_nodes).reshape(now.torus.shape)
        if now.capacity % 2 == 0:
            halves = np.repeat(grid.reshape(-1, 1), 2, axis=1)
            smaller, nodes, capacity = now.torus, now.nodes, now.capacity // 2
            hops = now.hops
        elif along is not None:
            near, far = (
                grid.take(range(start, grid.shape[along], 2), along).ravel() for start in (0, 1)
            )
            halves = np.stack([near, far], axis=1)
            sizes = list(now.torus.shape)
            sizes[along] //= 2
            smaller, capacity = Torus(tuple(sizes), now.torus.wrap), now.capacity
            nodes = np.arange(smaller.n_nodes)
            hops = now.hops[np.ix_(near, near)]
        else:
            return levels
        items, weight = _merged(now.weight, rng)
        levels.append(_Level(weight, smaller, hops, capacity, nodes, items, halves))


def _dimension_to_halve(level: _Level) -> int | None:
    """Return the longest even dimension, if the whole torus is used and large; else None."""
    torus = level.torus
    if torus.n_nodes <= _FEW_NODES or level.nodes.size < torus.n_nodes or torus.twist:
        return None
    sizes = [size if size % 2 == 0 else 0 for size in torus.shape]
    return int(np.argmax(sizes)) if max(sizes) > 1 else None


def _merged(
    weight: sparse.csr_array, rng: np.random.Generator
) -> tuple[NDArray[np.int64], sparse.csr_array]:
    """Return pairs of items, ``(V / 2, 2)``, and the graph between them."""
    n = weight.shape[0]
    mate = np.empty(n, dtype=np.int64)
    # Neighbouring vertices come one after the other, so that fewer find no free partner.
    drawn = rng.permutation(n)
    order = drawn[csgraph.reverse_cuthill_mckee(weight[drawn][:, drawn], symmetric_mode=True)]
    match_pairs(
        weight.indptr.astype(np.int64),
        weight.indices.astype(np.int32),
        weight.data,
        order.astype(np.int64),
        mate,
    )
    lower = np.flatnonzero(np.arange(n) < mate)
    number = np.empty(n, dtype=np.int64)
    number[lower] = number[mate[lower]] = np.arange(lower.size)
    entries = weight.tocoo()
    row, column = number[entries.row], number[entries.col]
    between = row != column
    merged = sparse.csr_array(
        (entries.data[between], (row[between], column[between])), shape=(lower.size, lower.size)
    )
    merged.sum_duplicates()
    return np.stack([lower, mate[lower]], axis=1), merged


def _annealed(
    level: _Level, node: NDArray[Any], hot: float, steps: int, seed: int, clock: Clock
) -> NDArray[np.int64]:
    """Anneal the items of a level by their hop-bytes."""
    entries = sparse.triu(level.weight, k=1).tocoo()
    n_items, n_nodes = level.weight.shape[0], level.torus.n_nodes
    if not entries.nnz or n_nodes < 2 or clock.is_over():
        return node.astype(np.int64)
    comm = CommGraph(n_items, entries.row, entries.col, entries.data)
    problem = MappingProblem(comm, level.torus)
    first, none = np.zeros(n_nodes**2 + 1, dtype=np.int32), np.zeros(0, dtype=np.uint16)
    uses = Uses(first, none, none.astype(np.int32), level.hops.ravel(), n_nodes, 1)
    start = TaskMapping(node, level.torus, tasks_per_node=level.capacity)
    places = np.repeat(level.nodes, level.capacity).astype(np.int32)
    movable = np.arange(n_items, dtype=np.int32)
    annealer = Annealer(problem, start, (places, movable), Goal(by_loads=False), uses, seed)
    for turn in range(_SWEEPS):
        at, then = (hot * (_COLD / hot) ** (t / _SWEEPS) / n_items for t in (turn, turn + 1))
        annealer.turn(max(200, steps * n_items // _SWEEPS), at, then)
        if clock.is_over():
            break
    return annealer.best_node.astype(np.int64)


# Debian calls it by the second name.
_SCOTCH = ("scotch_gmap", "gmap")
# Weights are whole numbers, whose sum must fit into 31 bits.
_MAX_WEIGHT = 2.0**29
_STRATEGIES = ("-cq", "-cs")


def placed_by(
    programs: Sequence[str],
    problem: MappingProblem,
    allocation: Allocation,
    seed: int,
    runs: int = 4,
) -> list[TaskMapping]:
    """Return what other programs make of it, confined to the allocation."""
    found = []
    for program in programs:
        run = _PROGRAMS.get(program) if isinstance(program, str) else None
        if run is None:
            expected = " or ".join(sorted(_PROGRAMS))
            raise InputError("unknown program", found=program, expected=expected)
        for number in range(runs):
            node = run(problem, seed + number)
            name = f"{program}@{number + 1}"
            placed = TaskMapping(node, problem.torus, tasks_per_node=node.size, name=name)
            found.append(allocation.confine(placed))
    return found


def _weights(problem: MappingProblem) -> sparse.csr_array:
    """Whole weights of the edges between tasks, both ways."""
    both = problem.comm.without_self_messages().to_scipy()
    both = sparse.csr_array(both + both.T)
    is_whole = (both.data == np.rint(both.data)).all()
    scale = max(float(both.sum()) / _MAX_WEIGHT, 1.0 if is_whole else 1e-300)
    both.data = np.maximum(np.rint(both.data / scale), 1).astype(np.int64)
    return both


def _scotch(problem: MappingProblem, seed: int) -> NDArray[np.int64]:
    """Node of each task by ``gmap``, which maps onto the whole torus."""
    program = next(filter(None, map(shutil.which, _SCOTCH)), None)
    if program is None:
        raise InputError("Scotch is not installed", found="no gmap", expected="scotch_gmap or gmap")
    torus = problem.torus
    new = np.random.default_rng(seed).permutation(problem.n_tasks)
    weights = _weights(problem).tocoo()
    shape = weights.shape
    renamed = sparse.csr_array((weights.data, (new[weights.row], new[weights.col])), shape=shape)
    target = f"torusXD {torus.ndim} {' '.join(map(str, torus.shape[::-1]))}\n"
    if not all(torus.wrap):
        target = target.replace("torusXD", "meshXD")
    # The target comes through a pipe, the graph on stdin: nothing is written anywhere.
    read, write = os.pipe()
    try:
        os.write(write, target.encode())
        os.close(write)
        done = subprocess.run(
            [program, _STRATEGIES[seed % 2], "-", f"/dev/fd/{read}", "-"],
            input=_scotch_graph(renamed),
            capture_output=True,
            text=True,
            pass_fds=(read,),
            check=False,
        )
    finally:
        os.close(read)
    lines = [line.split() for line in done.stdout.splitlines()[1:]]
    if done.returncode or len(lines) != problem.n_tasks:
        said = (done.stderr.strip().splitlines() or ["no mapping"])[0]
        raise InputError("Scotch failed", found=said, expected="a mapping of every task")
    pairs = np.array(lines, dtype=np.int64)
    node = np.empty(problem.n_tasks, dtype=np.int64)
    node[pairs[:, 0]] = pairs[:, 1]
    return node[new]


def _scotch_graph(weights: sparse.csr_array) -> str:
    n = weights.shape[0]
    lines = [f"0\n{n} {weights.nnz}\n0 010"]
    for task in range(n):
        part = slice(weights.indptr[task], weights.indptr[task + 1])
        pairs = zip(weights.data[part].tolist(), weights.indices[part].tolist(), strict=True)
        words = [f"{weight} {partner}" for weight, partner in pairs]
        lines.append(" ".join([str(len(words)), *words]))
    return "\n".join(lines) + "\n"


def _mt_kahypar(problem: MappingProblem, seed: int) -> NDArray[np.int64]:
    """Node of each task by Mt-KaHyPar's mapping onto a graph of the nodes that are ours."""
    try:
        mtkahypar = importlib.import_module("mtkahypar")
    except ImportError:
        raise InputError(
            "Mt-KaHyPar is not installed", found="no module mtkahypar", expected="it on the path"
        ) from None
    torus = problem.torus
    mtkahypar.set_seed(seed)
    program = _initialized(mtkahypar)
    context = program.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.logging = False
    node, port = np.nonzero(torus.neighbors >= 0)
    there = torus.neighbors[node, port]
    pairs = np.unique(np.stack([node, there], axis=1)[node < there], axis=0)
    links = list(map(tuple, pairs.tolist()))
    target = program.create_target_graph(
        context, torus.n_nodes, len(links), links, [1] * len(links)
    )
    context.set_mapping_parameters(torus.n_nodes, 0.03)
    upper = sparse.triu(_weights(problem), k=1).tocoo()
    edges = list(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    graph = program.create_graph(
        context,
        problem.n_tasks,
        len(edges),
        edges,
        [1] * problem.n_tasks,
        upper.data.tolist(),
    )
    placed = graph.map_onto_graph(target, context)
    return np.array([placed.block_id(task) for task in range(problem.n_tasks)])


@cache
def _initialized(mtkahypar: Any) -> Any:
    """The program, which starts its threads once."""
    return mtkahypar.initialize(os.cpu_count() or 1)


_PROGRAMS = {"scotch": _scotch, "mt-kahypar": _mt_kahypar}
