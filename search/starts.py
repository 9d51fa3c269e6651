"""Mappings from which a search starts, by strategies and by other programs."""

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

from toruscast.errors import InputError
from toruscast.mapping import MappingProblem, TaskMapping, strategies
from toruscast.mapping.strategies import registry
from toruscast.mapping.task_mapping import Allocation

from .annealing import Clock
from .multilevel import multilevel
from .products import product_starts

# Strategies that take a graph apart within .03 s for a thousand tasks.
_FAST = ("bisect-refined", "bisect-graph", "greedy-heaviest")
# Layouts of a product, and multilevel mappings: without a clock, and at most. With a clock, after
# so many multilevel mappings the next have twice the effort, up to 16 times.
_PRODUCTS, _LEVELS, _MAX_LEVELS = 8, 2, 10
# Seconds of the spectral layout: of a task, and of a task cubed where the spectrum is worked out
# whole. Beyond so many tasks it takes longer than any search.
_LAYOUT, _DECOMPOSED, _SPECTRAL = 4e-4, 4e-10, 20_000
# Sources, of the first, that every search draws from.
_ALWAYS = 2


def starts(
    problem: MappingProblem,
    allocation: Allocation,
    seed: int,
    clock: Clock,
    energy: Callable[[TaskMapping], float],
) -> list[TaskMapping]:
    """Return different mappings on nodes that are ours, the most promising first."""
    has_end = math.isfinite(clock.seconds)
    sources = _sources(problem, allocation, seed, clock)
    found: dict[bytes, tuple[float, TaskMapping]] = {}

    def best() -> float:
        return min((each[0] for each in found.values()), default=math.inf)

    def draw(source: _Source) -> None:
        before, began = best(), clock.spent
        mapping = next(source.mappings, None)
        if mapping is None:
            source.is_over = True
            return
        found.setdefault(mapping.node.tobytes(), (energy(mapping), mapping))
        source.expected_seconds = clock.spent - began
        source.draws += 1
        if math.isfinite(before):
            source.gain += max(1 - best() / before, 0.0) if before else 0.0

    # However late it is, a search has a start that is not bad.
    for source in sources[: _ALWAYS if has_end else None]:
        while not source.is_over:
            draw(source)
    while has_end:
        left = clock.left
        affordable = [s for s in sources if not s.is_over and s.expected_seconds < left]
        if not affordable:
            break
        draw(max(affordable, key=lambda source: source.promise))
    ranked = sorted(found.values(), key=lambda each: each[0])
    return [mapping for _, mapping in ranked]


@dataclass
class _Source:
    """Mappings of one kind, made one by one, and what they gained."""

    mappings: Iterator[TaskMapping]
    # For the next mapping: an estimate, then the seconds of the last one.
    expected_seconds: float
    gain: float = 0.0
    draws: int = 0
    is_over: bool = False

    @property
    def promise(self) -> float:
        """Gain expected a second: as so far, and as if a draw before had gained a tenth."""
        gain = (self.gain + 0.1) / (self.draws + 1) ** 2
        return gain / max(self.expected_seconds, 1e-4)


def _sources(
    problem: MappingProblem, allocation: Allocation, seed: int, clock: Clock
) -> list[_Source]:
    """Return the sources of starts, those that every search draws from first."""
    n, torus = problem.n_tasks, problem.torus
    # Strategies use the whole torus.
    capacity = min(max(-(-n // torus.n_nodes), 1), allocation.tasks_per_node)
    placement = strategies.Placement(problem, capacity, clock.is_over)

    def named(names: Iterable[str]) -> Iterator[TaskMapping]:
        for name in names:
            node = registry.nodes(placement, name, seed)
            yield allocation.confine(placement.mapping(node, name))

    def variants() -> Iterator[TaskMapping]:
        kinds = registry.chosen(None)
        names = (name for kind in kinds for name in registry.variant_names(placement, kind))
        yield from named(name for name in dict.fromkeys(names) if name not in _FAST)

    def products() -> Iterator[TaskMapping]:
        yield from product_starts(problem, allocation, _PRODUCTS, clock)

    def levels() -> Iterator[TaskMapping]:
        for number in range(_MAX_LEVELS if math.isfinite(clock.seconds) else _LEVELS):
            effort = 2 ** (number // _LEVELS)
            mapping = multilevel(problem, allocation, seed + number, clock, effort)
            if mapping is None:
                return
            yield mapping.renamed(f"multilevel@{number + 1}")

    found = [
        _Source(named(_FAST), 1e-5 * n),
        _Source(products(), 2e-4 * n),
        _Source(levels(), 5e-4 * n),
        _Source(variants(), 1e-5 * n),
    ]
    if n <= _SPECTRAL:
        seconds = _LAYOUT * n + min(_DECOMPOSED * float(n) ** 3, 1.5)
        found.append(_Source(named(["spectral"]), seconds))
    return found


# Debian calls it by the second name.
_SCOTCH = ("scotch_gmap", "gmap")
# Weights are whole numbers, whose sum must fit into 31 bits.
_MAX_WEIGHT = 2.0**29
# Runs of a program, each with the tasks numbered anew.
RUNS = 20
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
        run = _PROGRAMS.get(program)
        if run is None:
            expected = " or ".join(sorted(_PROGRAMS))
            raise InputError("unknown program", found=program, expected=expected)
        for number in range(runs):
            node = run(problem, seed + number)
            mapping = TaskMapping(node, problem.torus, name=f"{program}@{number + 1}")
            found.append(allocation.confine(mapping))
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
