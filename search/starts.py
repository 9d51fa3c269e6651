"""Start mappings of a search: from strategies, multilevel coarsening, and other programs."""

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
from toruscast.typing import Ints

from ._anneal_kernels import ResourceTable
from ._graph_kernels import match_pairs
from .annealing import Annealer, Clock, Goal
from .products import make_product_starts

# Graph strategies that take less than .03 s for a thousand tasks.
_FAST = ("bisect-refined", "bisect-graph", "greedy-heaviest")
# Number of layouts of a product that are kept, and number that each source evaluates. Seconds per
# task to find the factors; seconds to evaluate a layout, per task and per pair of tasks.
_MAX_PRODUCTS, _LAYOUT_COUNTS = 8, (5, 60, 600)
_FACTOR_SECONDS, _LAYOUT_SECONDS = 5e-5, (2e-6, 3e-9)
# Efforts of multilevel mappings, mappings for each effort, and seconds per task with effort 1.
_EFFORTS, _MAPPINGS_PER_EFFORT, _MULTILEVEL_SECONDS = (1, 2, 4, 8, 16), 2, 2e-4
# Seconds per task of a spectral layout, and seconds of a full decomposition per task cubed. Maximum
# tasks for a full decomposition, and for any layout (larger ones outlast a search).
_SPECTRAL_SECONDS, _CUBIC_SECONDS = 1e-4, 4e-10
_MAX_CUBIC, _MAX_SPECTRAL = 1500, 20_000
# Seconds per task that a strategy takes for one mapping.
_STRATEGY_SECONDS = 1e-5
# Prior gain of a source, and of product and spectral layouts, which are often the best.
_PRIOR_GAIN, _LAYOUT_GAIN = 0.1, 0.6


def generate_starts(
    problem: MappingProblem,
    allocation: Allocation,
    seed: int,
    clock: Clock,
    energy: Callable[[TaskMapping], float],
    allotments: Iterable[float],
) -> Iterator[list[TaskMapping]]:
    """Yield all distinct mappings so far, sorted by energy, after each allotment of seconds.

    The next mapping is always drawn from the source with the highest expected gain per second,
    among the sources that are expected to finish in the remaining seconds.
    """
    first, *sources = _list_sources(problem, allocation, seed, clock)
    candidates: dict[bytes, tuple[float, TaskMapping]] = {}
    best = math.inf
    budget = 0.0
    for seconds in allotments:
        budget += seconds
        # The first source is always exhausted, so that every search has good starts.
        while not (first.is_exhausted and clock.is_over()):
            affordable = [s for s in sources if not s.is_exhausted and s.seconds <= budget]
            # The prior counts as one draw. The mean gain is again divided by the number of draws,
            # to favour sources with few draws.
            affordable.sort(key=lambda s: -s.gain / (s.n_draws + 1) ** 2 / s.seconds)
            if first.is_exhausted and not affordable:
                break
            source = affordable[0] if first.is_exhausted else first
            mappings = next(source.mappings, [])
            # The clock may have interrupted the source.
            if not mappings or (first.is_exhausted and clock.is_over()):
                source.is_exhausted = True
                continue
            budget -= source.seconds
            for mapping in mappings:
                candidates.setdefault(mapping.node.tobytes(), (energy(mapping), mapping))
            previous, best = best, min(value for value, _ in candidates.values())
            source.n_draws += 1
            source.gain += 1 - best / previous if 0 < previous < math.inf else 0.0
        yield [mapping for _, mapping in sorted(candidates.values(), key=lambda pair: pair[0])]


@dataclass
class _StartSource:
    """An iterator of start mappings, with its estimated cost and its gain so far."""

    mappings: Iterator[list[TaskMapping]]
    seconds: float  # of each draw, estimated
    gain: float = _PRIOR_GAIN  # sum over the draws, plus a prior
    n_draws: int = 0
    is_exhausted: bool = False


def _list_sources(
    problem: MappingProblem, allocation: Allocation, seed: int, clock: Clock
) -> list[_StartSource]:
    """Return the sources of starts. Every search exhausts the first one."""
    n = problem.n_tasks
    placement = strategies.Placement(problem, is_late=clock.is_over)

    def map_with(names: Iterable[str]) -> Iterator[list[TaskMapping]]:
        for name in names:
            node, _ = registry.place_tasks(placement, name, seed)
            yield [allocation.confine(placement.mapping(node, name))]

    def map_with_variants() -> Iterator[list[TaskMapping]]:
        names = dict.fromkeys(strategies.variants(problem))
        yield from map_with(name for name in names if name not in _FAST)

    def make_products(count: int) -> Iterator[list[TaskMapping]]:
        yield make_product_starts(problem, allocation, _MAX_PRODUCTS, clock, count)

    def make_multilevel(first: int, effort: int) -> Iterator[list[TaskMapping]]:
        for number in range(first, first + _MAPPINGS_PER_EFFORT):
            mapping = multilevel(problem, allocation, seed + number, clock, effort)
            if mapping is None:
                return
            yield [mapping.renamed(f"multilevel@{number + 1}")]

    first_sources = map_with(_FAST), map_with_variants()
    sources = [_StartSource(mappings, _STRATEGY_SECONDS * n) for mappings in first_sources]
    layout_seconds = _LAYOUT_SECONDS[0] * n + _LAYOUT_SECONDS[1] * n**2
    for count in _LAYOUT_COUNTS:
        seconds = _FACTOR_SECONDS * n + count * layout_seconds
        sources.append(_StartSource(make_products(count), seconds, _LAYOUT_GAIN))
    for number, effort in enumerate(_EFFORTS):
        mappings = make_multilevel(_MAPPINGS_PER_EFFORT * number, effort)
        sources.append(_StartSource(mappings, effort * _MULTILEVEL_SECONDS * n))
    if n <= _MAX_SPECTRAL:
        seconds = _SPECTRAL_SECONDS * n + (_CUBIC_SECONDS * float(n) ** 3 if n <= _MAX_CUBIC else 0)
        sources.append(_StartSource(map_with(["spectral"]), seconds, _LAYOUT_GAIN))
    return sources


# Coarsening ends at this many nodes, because annealing then succeeds from any start.
_MAX_COARSEST_NODES = 32
# At the coarsest level, and at finer levels: initial temperature, as a share of the mean energy per
# item, and number of proposals per item.
_COARSEST, _FINER = (0.6, 1200), (0.15, 240)
_FINAL_TEMPERATURE, _SWEEPS, _MIN_SWEEP_STEPS = 0.003, 24, 200


@dataclass(frozen=True, eq=False)
class _CoarseLevel:
    """A coarse graph and torus; each item or node merges a pair of the finer level."""

    weight: sparse.csr_array
    torus: Torus
    hops: NDArray[np.uint16]  # (N, N)
    capacity: int
    nodes: Ints  # allocated nodes
    items: Ints  # (V, 2) items of the finer level
    halves: Ints  # (N, 2) nodes of the finer level


def multilevel(
    problem: MappingProblem, allocation: Allocation, seed: int, clock: Clock, effort: int = 1
) -> TaskMapping | None:
    """Return a mapping with few hop-bytes, or None if tasks are fixed.

    Tasks and nodes are merged in pairs, level by level (Karypis and Kumar, SIAM J. Sci. Comput. 20,
    1998; for both graphs Pellegrini and Roman, HPCN'96). The coarsest level is annealed. Then pairs
    are split, and each finer level is annealed again.
    """
    if allocation.fixed:
        return None
    rng = np.random.default_rng(seed)
    levels = _coarsen(problem, allocation, rng)
    coarsest = levels[-1]
    slots = np.repeat(coarsest.nodes, coarsest.capacity)
    node = rng.permutation(slots)
    for level, finer in zip(levels[::-1], [*levels[-2::-1], None], strict=True):
        temperature, steps = _COARSEST if level is coarsest else _FINER
        level_seed = int(rng.integers(2**31))
        node = _anneal_level(level, node, temperature, effort * steps, level_seed, clock)
        if finer is not None:
            finer_node = np.empty(finer.weight.shape[0], dtype=np.int64)
            finer_node[level.items] = level.halves[node]
            node = finer_node
    node, capacity = node[: problem.n_tasks], allocation.tasks_per_node
    return TaskMapping(node, problem.torus, tasks_per_node=capacity, name="multilevel")


def _coarsen(
    problem: MappingProblem, allocation: Allocation, rng: np.random.Generator
) -> list[_CoarseLevel]:
    """Return the levels from the problem itself to the coarsest graph and torus.

    Each level halves the number of slots per node if it is even, or else the longest even dimension
    of the torus.
    """
    torus, capacity = problem.torus, allocation.tasks_per_node
    nodes = np.sort(np.asarray(allocation.nodes, dtype=np.int64))
    n_items = nodes.size * capacity
    traffic = problem.comm.without_self_messages().to_scipy()
    traffic = (traffic + traffic.T).tocoo()
    shape = (n_items, n_items)
    weight = sparse.csr_array((traffic.data, (traffic.row, traffic.col)), shape=shape)
    all_nodes = np.arange(torus.n_nodes)
    hops = torus.distance(all_nodes[:, None], all_nodes).astype(np.uint16)
    no_pairs = np.zeros((0, 2), dtype=np.int64)
    levels = [_CoarseLevel(weight, torus, hops, capacity, nodes, no_pairs, no_pairs)]
    while True:
        level = levels[-1]
        dimension = _find_dimension_to_halve(level)
        grid = np.arange(level.torus.n_nodes).reshape(level.torus.shape)
        if level.capacity % 2 == 0:
            halves = np.repeat(grid.reshape(-1, 1), 2, axis=1)
            coarse_torus, nodes, capacity = level.torus, level.nodes, level.capacity // 2
            hops = level.hops
        elif dimension is not None:
            size = grid.shape[dimension]
            near = grid.take(range(0, size, 2), dimension).ravel()
            far = grid.take(range(1, size, 2), dimension).ravel()
            halves = np.stack([near, far], axis=1)
            sizes = list(level.torus.shape)
            sizes[dimension] = size // 2
            coarse_torus, capacity = Torus(tuple(sizes), level.torus.wrap), level.capacity
            nodes = np.arange(coarse_torus.n_nodes)
            hops = level.hops[np.ix_(near, near)]
        else:
            return levels
        items, weight = _merge_pairs(level.weight, rng)
        levels.append(_CoarseLevel(weight, coarse_torus, hops, capacity, nodes, items, halves))


def _find_dimension_to_halve(level: _CoarseLevel) -> int | None:
    """Return the longest even dimension; None for a small, twisted or partly used torus."""
    torus = level.torus
    if torus.n_nodes <= _MAX_COARSEST_NODES or level.nodes.size < torus.n_nodes or torus.twist:
        return None
    sizes = [size if size % 2 == 0 else 0 for size in torus.shape]
    return int(np.argmax(sizes)) if max(sizes) > 1 else None


def _merge_pairs(
    weight: sparse.csr_array, rng: np.random.Generator
) -> tuple[Ints, sparse.csr_array]:
    """Return pairs of items with much traffic, ``(V / 2, 2)``, and the graph between the pairs."""
    n = weight.shape[0]
    mate = np.empty(n, dtype=np.int64)
    # Visit neighbours one after the other, so that more items find a free partner.
    shuffled = rng.permutation(n)
    rows = weight[shuffled]
    order = shuffled[csgraph.reverse_cuthill_mckee(rows[:, shuffled], symmetric_mode=True)]
    indptr, indices = weight.indptr.astype(np.int64), weight.indices.astype(np.int32)
    match_pairs(indptr, indices, weight.data, order.astype(np.int64), mate)
    first = np.flatnonzero(np.arange(n) < mate)
    pair = np.empty(n, dtype=np.int64)
    pair[first] = pair[mate[first]] = np.arange(first.size)
    entries = weight.tocoo()
    row, column = pair[entries.row], pair[entries.col]
    is_between = row != column
    edges = row[is_between], column[is_between]
    merged = sparse.csr_array((entries.data[is_between], edges), shape=(first.size, first.size))
    merged.sum_duplicates()
    return np.stack([first, mate[first]], axis=1), merged


def _anneal_level(
    level: _CoarseLevel, node: NDArray[Any], temperature: float, steps: int, seed: int, clock: Clock
) -> Ints:
    """Return the node of each item, ``(V,)``, after annealing the hop-bytes of a level.

    ``temperature`` is a share of the mean energy per item, ``steps`` the proposals per item.
    """
    entries = sparse.triu(level.weight, k=1).tocoo()
    n_items, n_nodes = level.weight.shape[0], level.torus.n_nodes
    if not entries.nnz or n_nodes < 2 or clock.is_over():
        return node.astype(np.int64)
    comm = CommGraph(n_items, entries.row, entries.col, entries.data)
    problem = MappingProblem(comm, level.torus)
    # Annealing by hop-bytes needs no resources.
    first, resource = np.zeros(n_nodes**2 + 1, dtype=np.int32), np.zeros(0, dtype=np.uint16)
    share = resource.astype(np.int32)
    table = ResourceTable(first, resource, share, level.hops.ravel(), n_nodes, 1)
    start = TaskMapping(node, level.torus, tasks_per_node=level.capacity)
    slots = np.repeat(level.nodes, level.capacity).astype(np.int32)
    movable = np.arange(n_items, dtype=np.int32)
    annealer = Annealer(problem, start, (slots, movable), Goal(by_loads=False), table, seed)
    for sweep in range(_SWEEPS):
        start_at, end_at = (
            temperature * (_FINAL_TEMPERATURE / temperature) ** (t / _SWEEPS) / n_items
            for t in (sweep, sweep + 1)
        )
        n_steps = max(_MIN_SWEEP_STEPS, steps * n_items // _SWEEPS)
        annealer.anneal_sweep(n_steps, start_at, end_at)
        if clock.is_over():
            break
    return annealer.best_node.astype(np.int64)


# The program has the second name in Debian's package.
_SCOTCH_NAMES = ("scotch_gmap", "gmap")
# Scotch needs integer weights whose sum fits into 31 bits.
_MAX_WEIGHT = 2.0**29
_SCOTCH_STRATEGIES = ("-cq", "-cs")


def map_with_programs(
    programs: Sequence[str],
    problem: MappingProblem,
    allocation: Allocation,
    seed: int,
    runs: int = 4,
) -> list[TaskMapping]:
    """Return mappings by other programs, confined to the allocation."""
    mappings = []
    for program in programs:
        run = _PROGRAMS.get(program) if isinstance(program, str) else None
        if run is None:
            expected = " or ".join(sorted(_PROGRAMS))
            raise InputError("unknown program", found=program, expected=expected)
        for number in range(runs):
            node = run(problem, seed + number)
            name = f"{program}@{number + 1}"
            placed = TaskMapping(node, problem.torus, tasks_per_node=node.size, name=name)
            mappings.append(allocation.confine(placed))
    return mappings


def _integer_weights(problem: MappingProblem) -> sparse.csr_array:
    """Return the bytes that each two tasks exchange, scaled to positive whole numbers."""
    weights = problem.comm.without_self_messages().to_scipy()
    weights = sparse.csr_array(weights + weights.T)
    is_whole = (weights.data == np.rint(weights.data)).all()
    scale = max(float(weights.sum()) / _MAX_WEIGHT, 1.0 if is_whole else 1e-300)
    weights.data = np.maximum(np.rint(weights.data / scale), 1).astype(np.int64)
    return weights


def _map_with_scotch(problem: MappingProblem, seed: int) -> Ints:
    """Map the tasks with Scotch, onto the whole torus; return the node of each task."""
    program = next(filter(None, map(shutil.which, _SCOTCH_NAMES)), None)
    if program is None:
        raise InputError("Scotch is not installed", found="no gmap", expected="scotch_gmap or gmap")
    torus = problem.torus
    # Renumber the tasks at random, so that each seed gives another mapping.
    new_number = np.random.default_rng(seed).permutation(problem.n_tasks)
    weights = _integer_weights(problem).tocoo()
    edges = new_number[weights.row], new_number[weights.col]
    renumbered = sparse.csr_array((weights.data, edges), shape=weights.shape)
    target = f"torusXD {torus.ndim} {' '.join(map(str, torus.shape[::-1]))}\n"
    if not all(torus.wrap):
        target = target.replace("torusXD", "meshXD")
    # Scotch reads the target from a pipe and the graph from stdin, so no file is written.
    read_end, write_end = os.pipe()
    try:
        os.write(write_end, target.encode())
        os.close(write_end)
        result = subprocess.run(
            [program, _SCOTCH_STRATEGIES[seed % 2], "-", f"/dev/fd/{read_end}", "-"],
            input=_format_scotch_graph(renumbered),
            capture_output=True,
            text=True,
            pass_fds=(read_end,),
            check=False,
        )
    finally:
        os.close(read_end)
    lines = [line.split() for line in result.stdout.splitlines()[1:]]
    if result.returncode or len(lines) != problem.n_tasks:
        message = (result.stderr.strip().splitlines() or ["no mapping"])[0]
        raise InputError("Scotch failed", found=message, expected="a mapping of every task")
    pairs = np.array(lines, dtype=np.int64)
    node = np.empty(problem.n_tasks, dtype=np.int64)
    node[pairs[:, 0]] = pairs[:, 1]
    return node[new_number]


def _format_scotch_graph(weights: sparse.csr_array) -> str:
    """Return a graph in Scotch's format: one line per task, with its weights and partners."""
    n = weights.shape[0]
    lines = [f"0\n{n} {weights.nnz}\n0 010"]
    for task in range(n):
        part = slice(weights.indptr[task], weights.indptr[task + 1])
        pairs = zip(weights.data[part].tolist(), weights.indices[part].tolist(), strict=True)
        words = [f"{weight} {partner}" for weight, partner in pairs]
        lines.append(" ".join([str(len(words)), *words]))
    return "\n".join(lines) + "\n"


def _map_with_mt_kahypar(problem: MappingProblem, seed: int) -> Ints:
    """Map the tasks with Mt-KaHyPar, onto the graph of the torus; return the node of each task."""
    try:
        mtkahypar = importlib.import_module("mtkahypar")
    except ImportError:
        raise InputError(
            "Mt-KaHyPar is not installed",
            found="no module mtkahypar",
            expected="an installed module",
        ) from None
    torus = problem.torus
    mtkahypar.set_seed(seed)
    program = _initialize(mtkahypar)
    context = program.context_from_preset(mtkahypar.PresetType.DEFAULT)
    context.logging = False
    node, port = np.nonzero(torus.neighbors >= 0)
    neighbor = torus.neighbors[node, port]
    pairs = np.unique(np.stack([node, neighbor], axis=1)[node < neighbor], axis=0)
    links = list(map(tuple, pairs.tolist()))
    target = program.create_target_graph(
        context, torus.n_nodes, len(links), links, [1] * len(links)
    )
    context.set_mapping_parameters(torus.n_nodes, 0.03)  # accepted imbalance of the nodes
    upper = sparse.triu(_integer_weights(problem), k=1).tocoo()
    edges = list(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    graph = program.create_graph(
        context, problem.n_tasks, len(edges), edges, [1] * problem.n_tasks, upper.data.tolist()
    )
    placed = graph.map_onto_graph(target, context)
    return np.array([placed.block_id(task) for task in range(problem.n_tasks)])


@cache
def _initialize(mtkahypar: Any) -> Any:
    """Return the program, initialised once because it starts threads."""
    return mtkahypar.initialize(os.cpu_count() or 1)


_PROGRAMS = {"scotch": _map_with_scotch, "mt-kahypar": _map_with_mt_kahypar}
