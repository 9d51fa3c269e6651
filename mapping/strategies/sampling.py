"""Samples of distinct mappings, from good to random; symmetric ones can be left out."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import TooFewMappingsError
from toruscast.validation import whole_number

from ..problem import MappingProblem
from ..task_mapping import TaskMapping
from . import registry
from .registry import Placement, Rng, VariantError, nodes, register

if TYPE_CHECKING:
    from ..comm_graph import Traffic
    from ..problem import TorusLike


@register("random", lambda _: [])
def random(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Give the tasks different places, every choice equally likely."""
    return rng.permutation(placement.n_places)[: placement.n_tasks] // placement.capacity


@register(
    "swap-K-NAME",
    lambda _: [],
    example="swap-10-identity",
    parameters="K: pairs of tasks that are swapped, NAME: the mapping in which they are",
)
def swap(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Exchange the nodes of K random pairs of tasks, one after the other, in the mapping NAME."""
    match = re.fullmatch(r"([0-9]{1,9})-([a-z].*)", variant)
    if not match:
        raise VariantError
    return swapped(undisturbed(placement, match[2]), int(match[1]), rng)


def undisturbed(placement: Placement, name: str) -> NDArray[Any]:
    """Return the mapping that swaps start from, the same for every seed."""
    if name not in placement.bases:
        placement.bases[name] = nodes(placement, name, seed=0)
    return placement.bases[name]


def swapped(node: NDArray[Any], count: int, rng: Rng) -> NDArray[Any]:
    """Return ``node`` after ``count`` swaps of two random entries."""
    changed = node.tolist()
    for a, b in rng.integers(0, node.size, size=(count, 2)).tolist():
        changed[a], changed[b] = changed[b], changed[a]
    return np.array(changed, dtype=np.int64)


# With more tasks than this on two nodes or more there are over a hundred thousand mappings.
_FEW_TASKS = 20


@register(
    "nth-K",
    lambda _: [],
    example="nth-5",
    parameters="K: which of all mappings, from 0 on and less than a million; for few tasks",
)
def nth(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Take mapping number K of all, in lexicographic order of the tasks' nodes; for small cases."""
    number = int(variant) if re.fullmatch("[0-9]{1,6}", variant) else -1
    wanted = itertools.islice(all_mappings(placement), max(number, 0), None)
    node = next(wanted, None) if number >= 0 else None
    if node is None:
        raise VariantError
    return np.array(node)


def count_mappings(placement: Placement) -> float:
    """Return how many different mappings there are; infinite if too many to count."""
    tasks, capacity = placement.n_tasks, placement.capacity
    nodes = placement.torus.usable_nodes.size
    if nodes == 1:
        return 1
    if tasks > _FEW_TASKS:
        return math.inf
    # ways[t]: of t given tasks on the nodes so far; nodes join by doubling.
    ways, base = [1] + [0] * tasks, [int(t <= capacity) for t in range(tasks + 1)]
    while nodes:
        if nodes % 2:
            ways = _join_counts(ways, base)
        base, nodes = _join_counts(base, base), nodes // 2
    return ways[tasks]


def all_mappings(placement: Placement) -> Iterator[tuple[int, ...]]:
    """Yield the nodes of the tasks of every mapping, in lexicographic order."""
    free = [0] * placement.torus.n_nodes
    for node in placement.torus.usable_nodes.tolist():
        free[node] = placement.capacity
    chosen: list[int] = []
    node = 0
    while True:
        if len(chosen) == placement.n_tasks:
            yield tuple(chosen)
        else:
            while node < len(free) and not free[node]:
                node += 1
            if node < len(free):
                free[node] -= 1
                chosen.append(node)
                node = 0
                continue
        if not chosen:
            return
        node = chosen.pop()
        free[node] += 1
        node += 1


def _join_counts(a: list[int], b: list[int]) -> list[int]:
    """Ways to split t tasks between two groups of nodes."""
    return [sum(math.comb(t, k) * a[k] * b[t - k] for k in range(t + 1)) for t in range(len(a))]


# Shares of a sample; the rest is random.
_STRUCTURED, _SWAPPED = 0.55, 0.33
# Structured mappings whose hop-bytes differ by less count as equivalent.
_RESOLUTION = 1e-3
_BASES = 4


def sample(
    traffic: Traffic,
    torus: TorusLike,
    n: int = 84,
    seed: int = 1,
    tasks_per_node: int | None = None,
    exclude: Sequence[TaskMapping] = (),
    kinds: Iterable[str] | None = None,
) -> list[TaskMapping]:
    """Return ``n`` distinct mappings of very different quality, best kinds to random.

    About half come from the structured strategies, one family after the other, leaving out those
    with the hop-bytes of one already chosen while there are enough others; a third are the best of
    these disturbed by ever more random swaps, in even steps of quality; the rest is random.

    Parameters
    ----------
    traffic, torus
        Traffic and host, in any form that `MappingProblem` accepts. The logical grid of the traffic
        is used, or a near-cubic one if it has none.
    n : int
        Number of mappings.
    seed : int
        Seed of what is drawn at random; another seed gives other swaps and random mappings.
    tasks_per_node : int, optional
        Capacity of a node; the least that suffices if not given.
    exclude : sequence of TaskMapping
        Mappings that must not be among them, so that samples do not overlap.
    kinds : iterable of str, optional
        Families of mappings, the first words of `patterns`, such as ``("permute", "nested")``.
        Swaps and random mappings are drawn only if ``swap`` and ``random`` are named. If not
        given, all but ``nested``, which has as many variants as all others together.

    Returns
    -------
    list of TaskMapping
        With different names, each of which gives the same mapping to `make` with the same seed.

    Examples
    --------
    >>> from toruscast.mapping import patterns, strategies
    >>> halo = patterns.halo_2d((4, 4), 8)
    >>> mappings = strategies.sample(halo, "4x4", n=20, seed=3)
    >>> len({m.node.tobytes() for m in mappings}), len({m.name for m in mappings})
    (20, 20)
    >>> mappings[0].name, mappings[-1].name
    ('identity', 'random@2')
    """
    placement = Placement(MappingProblem(traffic, torus), tasks_per_node)
    return list(draw_mappings(placement, n, seed, exclude, kinds))


def draw_mappings(
    placement: Placement,
    n: int,
    seed: int,
    exclude: Sequence[TaskMapping] = (),
    kinds: Iterable[str] | None = None,
) -> Iterator[TaskMapping]:
    """Check the arguments of `sample`, and yield each of its mappings when it is needed."""
    n = whole_number(n, "number of mappings", 1)
    seed = whole_number(seed, "seed", 0)
    exclude = placement.problem.mappings(exclude)
    families = registry.chosen(kinds)
    possible, left = count_mappings(placement), count_left(placement, exclude)
    if n > left:
        excluded = f", {possible - left} of them excluded" if left < possible else ""
        found = f"{possible}{excluded}"
        raise TooFewMappingsError("not enough different mappings", found=found, expected=n)
    return _each_mapping(_Selection(placement, seed, exclude), families, n)


def _each_mapping(
    chosen: _Selection, families: Sequence[registry.Strategy], n: int
) -> Iterator[TaskMapping]:
    named = {family.family for family in families}
    swaps, at_random = "swap" in named, "random" in named
    mixed = swaps or at_random
    count = math.ceil(_STRUCTURED * n) if mixed else n
    structured = yield from _add_structured(chosen, families, count, count // 2 if mixed else n)
    n_random = max(1, round((1 - _STRUCTURED - _SWAPPED) * n)) if at_random and n > 1 else 0
    if swaps:
        yield from _add_swaps(chosen, structured, n - n_random)
    if at_random:
        yield from _add_random(chosen, n)
    if chosen.n < n:
        raise TooFewMappingsError(
            "not enough different mappings of these kinds", found=chosen.n, expected=n
        )


def _add_random(chosen: _Selection, n: int) -> Iterator[TaskMapping]:
    """Fill up to ``n`` mappings with random ones."""
    # Exhaustion ends in a list of what there is; before that, chance is faster.
    misses = 0
    for copy in itertools.count(1):
        if chosen.n >= n or misses == 50:
            break
        new = chosen.add("random" if copy == 1 else f"random@{copy}")
        misses += not new
        yield from new
    if chosen.n < n:
        for number, node in enumerate(all_mappings(chosen.placement)):
            yield from chosen.add(f"nth-{number}", np.array(node))
            if chosen.n == n:
                break


def count_left(placement: Placement, exclude: Sequence[TaskMapping]) -> float:
    """Return how many mappings are not excluded; infinite if too many to count."""
    fit = {m.node.tobytes() for m in exclude if m.occupancy.max() <= placement.capacity}
    return count_mappings(placement) - len(fit)


class _Selection:
    """The mappings chosen so far, none twice."""

    def __init__(self, placement: Placement, seed: int, exclude: Sequence[TaskMapping]) -> None:
        self.placement = placement
        self.seed = seed
        self.names: set[str] = set()
        self.taken = {_digest_of(mapping.node) for mapping in exclude}

    @property
    def n(self) -> int:
        """How many are chosen."""
        return len(self.names)

    def add(self, name: str, node: NDArray[Any] | None = None) -> list[TaskMapping]:
        """Choose the mapping of that name and return it; none if it is there already."""
        if node is None:
            node = registry.nodes(self.placement, name, self.seed)
        digest = _digest_of(node)
        if digest in self.taken:
            return []
        self.taken.add(digest)
        self.names.add(name)
        return [self.placement.mapping(node, name)]


def _digest_of(node: NDArray[Any]) -> bytes:
    """Return a short key of a mapping."""
    return hashlib.blake2b(node.astype(np.int32).tobytes(), digest_size=16).digest()


def _add_structured(
    chosen: _Selection, families: Sequence[registry.Strategy], count: int, least: int
) -> Generator[TaskMapping, None, list[tuple[float, str]]]:
    """Choose up to ``count`` structured mappings, the families in turn; return costs and names."""
    placement = chosen.placement
    queues = [iter(registry.variant_names(placement, family)) for family in families]
    costs: list[float] = []
    found: list[tuple[float, str]] = []
    equivalent: list[str] = []
    while queues and len(costs) < count:
        for queue in tuple(queues):
            for name in queue:
                node = registry.nodes(placement, name, chosen.seed)
                cost = placement.hop_bytes(node)
                found.append((cost, name))
                new = [] if _is_near(cost, costs) else chosen.add(name, node)
                yield from new
                if new:
                    costs.append(cost)
                    break
                equivalent.append(name)
            else:
                queues.remove(queue)
            if len(costs) == count:
                break
    # Where hop-bytes tell little apart, links may still be loaded differently.
    for name in equivalent:
        if chosen.n >= least:
            break
        yield from chosen.add(name)
    # The plainer name first among equals.
    return sorted(found, key=lambda pair: (round(pair[0], 9), len(pair[1])))


def _is_near(cost: float, costs: Sequence[float]) -> bool:
    """Whether a cost is within the resolution of another one."""
    return any(abs(cost - other) <= _RESOLUTION * other for other in costs)


def _add_swaps(
    chosen: _Selection, structured: list[tuple[float, str]], until: int
) -> Iterator[TaskMapping]:
    """Fill up to ``until`` mappings with good ones after more and more swaps."""
    placement = chosen.placement
    wanted = until - chosen.n
    if wanted <= 0 or not structured:
        return
    # The best of each family, no two equally good, so that what is disturbed differs in kind.
    bases: dict[str, NDArray[Any]] = {}
    least: list[float] = []
    families: set[str] = set()
    for cost, name in structured:
        family = name.partition("-")[0]
        if family not in families and not _is_near(cost, least):
            bases[name] = undisturbed(placement, name)
            least.append(cost)
            families.add(family)
        if len(bases) == _BASES:
            break
    # A swap moves two tasks, so a share exp(-4 k / T) of the pairs is left after k swaps.
    levels = (np.arange(wanted) + 0.5) / wanted
    counts = np.maximum(1, np.round(-placement.n_tasks / 4 * np.log1p(-levels))).astype(int)
    for count, base in zip(counts.tolist(), itertools.cycle(bases), strict=False):
        plain = f"swap-{count}-{base}"
        names = [plain, *(f"{plain}@{copy}" for copy in range(2, 6))]
        for name in names:
            if name in chosen.names:
                continue
            new = chosen.add(name, swapped(bases[base], count, registry.stream(name, chosen.seed)))
            if new:
                yield from new
                break


def sample_inequivalent(
    placement: Placement, n: int, seed: int, exclude: Sequence[TaskMapping]
) -> tuple[list[TaskMapping], int]:
    """Draw mappings of other distances than the excluded ones and each other.

    A mapping turned or mirrored with the torus takes much the same time, so that a model trained on
    it would know the answer. Where there are too few others, such twins fill up; their number is
    returned too.
    """
    left = count_left(placement, exclude)
    known = {fingerprint(placement.problem, mapping) for mapping in exclude}
    drawn = n
    for _ in range(3):
        mappings = list(draw_mappings(placement, drawn, seed, exclude))
        different: dict[bytes, TaskMapping] = {}
        for mapping in mappings:
            mark = fingerprint(placement.problem, mapping)
            if mark not in known:
                different.setdefault(mark, mapping)
        if len(different) >= n or drawn == left:
            break
        drawn = int(min(drawn + n - len(different), left))
    kept = list(different.values())[:n]
    names = {mapping.name for mapping in kept}
    twins = [mapping for mapping in mappings if mapping.name not in names][: n - len(kept)]
    return kept + twins, len(twins)


def fingerprint(problem: MappingProblem, mapping: TaskMapping) -> bytes:
    """Equal for mappings that differ by a symmetry of the torus: the hops of every edge."""
    node, comm = mapping.node, problem.comm
    return problem.torus.distance(node[comm.src], node[comm.dst]).tobytes()
