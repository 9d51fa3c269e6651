"""Samples of distinct mappings, from good to random, optionally without symmetric ones."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import TooFewMappingsError
from toruscast.validation import SEED, Seed, seed_number, whole_number

from ..problem import MappingProblem, as_problem
from ..task_mapping import TaskMapping
from . import registry
from .registry import Placement, Rng, VariantError, place_tasks, register

if TYPE_CHECKING:
    from ..problem import Mappings, ProblemLike, TorusLike


@register("random", lambda _: [])
def random(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Place the tasks on distinct slots, drawn uniformly at random."""
    return rng.permutation(placement.n_places)[: placement.n_tasks] // placement.capacity


@register(
    "swap-K-NAME",
    example="swap-10-identity",
    parameters="K: number of swapped pairs of tasks, NAME: the initial mapping",
)
def swap(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Swap the nodes of K random pairs of tasks, one pair after another, in the mapping NAME."""
    match = re.fullmatch(r"([0-9]{1,9})-([a-z].*)", variant)
    if not match:
        raise VariantError
    n_swaps, base = int(match[1]), match[2]
    if base not in placement.bases:
        # The initial mapping is the same for every seed.
        placement.bases[base], _ = place_tasks(placement, base, seed=0)
    node = placement.bases[base].tolist()
    for a, b in rng.integers(0, len(node), size=(n_swaps, 2)).tolist():
        node[a], node[b] = node[b], node[a]
    return np.array(node, dtype=np.int64)


# With more tasks than this, two or more nodes allow over a hundred thousand mappings.
_MAX_COUNTED_TASKS = 20


@register(
    "nth-K",
    example="nth-5",
    parameters="K: index among all mappings, from 0 to 999999; for few tasks",
)
def nth(placement: Placement, variant: str, rng: Rng) -> NDArray[Any]:
    """Take mapping number K of all mappings in lexicographic order; only for few tasks."""
    if not re.fullmatch("[0-9]{1,6}", variant):
        raise VariantError
    node = next(itertools.islice(all_mappings(placement), int(variant), None), None)
    if node is None:
        raise VariantError
    return np.array(node)


def count_mappings(placement: Placement) -> float:
    """Return the number of distinct mappings; infinite if there are too many to count."""
    n_tasks, capacity = placement.n_tasks, placement.capacity
    n_nodes = placement.torus.usable_nodes.size
    if n_nodes == 1:
        return 1
    if n_tasks > _MAX_COUNTED_TASKS:
        return math.inf
    # The number is n_tasks! times the coefficient of x**n_tasks in f(x)**n_nodes, where f is the
    # sum of x**k / k! for all k up to the capacity. The derivative of f**n gives a recurrence for
    # its coefficients: f (f**n)' = n f' f**n.
    f = [Fraction(1, math.factorial(k)) for k in range(min(capacity, n_tasks) + 1)]
    power = [Fraction(1)]
    for t in range(1, n_tasks + 1):
        terms = range(1, min(t, capacity) + 1)
        total = sum((k * (n_nodes + 1) - t) * f[k] * power[t - k] for k in terms)
        power.append(Fraction(total, t))
    return int(power[n_tasks] * math.factorial(n_tasks))


def all_mappings(placement: Placement) -> Iterator[tuple[int, ...]]:
    """Yield every mapping, given by the node of each task, in lexicographic order."""
    # Depth-first search: `prefix` has the nodes of the first tasks, and `node` is the next node to
    # try for the following task.
    free = [0] * placement.torus.n_nodes
    for node in placement.torus.usable_nodes.tolist():
        free[node] = placement.capacity
    prefix: list[int] = []
    node = 0
    while True:
        if len(prefix) == placement.n_tasks:
            yield tuple(prefix)
        else:
            while node < len(free) and not free[node]:
                node += 1
            if node < len(free):
                free[node] -= 1
                prefix.append(node)
                node = 0
                continue
        if not prefix:
            return
        node = prefix.pop()
        free[node] += 1
        node += 1


# Shares of structured and of swapped mappings in a sample; the remaining mappings are random.
_STRUCTURED, _SWAPPED = 0.55, 0.33
# Structured mappings are equivalent if the relative difference of their hop-bytes is at most this.
_RESOLUTION = 1e-3
# Maximum number of mappings that swaps start from.
_N_BASES = 4


def sample(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    n: int = 84,
    seed: Seed = SEED,
    tasks_per_node: int | None = None,
    exclude: Mappings = (),
    kinds: Iterable[str] | None = None,
) -> list[TaskMapping]:
    """Return ``n`` distinct mappings of different quality, from good to random.

    About half are structured: they are drawn from the families in turn, and have different
    hop-bytes as long as there are enough such mappings. A third are made by random swaps in the
    best of these; the number of swaps increases so that the quality falls in even steps. The others
    are random.

    Parameters
    ----------
    comm, torus
        Traffic and torus, in any form that `MappingProblem` accepts. Traffic without a task grid
        gets a near-cubic one.
    n : int
        Number of mappings.
    seed : int
        Random seed of the swaps and the random mappings.
    tasks_per_node : int, optional
        Capacity of a node; if not given, the minimum with which all tasks fit.
    exclude : mappings, as in `rank`
        Mappings to exclude, so that samples do not overlap.
    kinds : iterable of str, optional
        Families of mappings (the first words of `patterns`), such as ``("permute", "nested")``.
        Swaps and random mappings are included only with ``swap`` and ``random``. If not given, all
        families except ``nested``, which has as many variants as all others together.

    Returns
    -------
    list of TaskMapping
        Mappings with distinct names. With the same name and seed, `make` returns the same mapping.

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
    placement = Placement(as_problem(comm, torus), tasks_per_node)
    return list(_draw_families(DistinctMappings(placement, n, seed, exclude), kinds))


def _draw_families(
    sample: DistinctMappings, kinds: Iterable[str] | None = None
) -> Iterator[TaskMapping]:
    """Yield structured mappings, then swaps of the best of them, then random mappings."""
    families = registry.select_strategies(kinds)
    n, names = sample.n, {family.family for family in families}
    has_swaps, has_random = "swap" in names, "random" in names
    n_structured = math.ceil(_STRUCTURED * n) if has_swaps or has_random else n
    min_structured = n_structured // 2 if has_swaps or has_random else n
    queues = [iter(registry.variant_names(sample.placement, family)) for family in families]
    tried, equivalent = yield from add_structured(sample, queues, n_structured, _have_equal_costs)
    for mapping in equivalent:
        if len(sample.names) >= min_structured:
            break
        # Mappings with equal hop-bytes can have different link loads.
        yield from sample.add(mapping.name, mapping.node)
    n_random = max(1, round((1 - _STRUCTURED - _SWAPPED) * n)) if has_random and n > 1 else 0
    if has_swaps:
        yield from add_swaps(sample, tried, n - n_random)
    if has_random:
        yield from add_random(sample)
    if len(sample.names) < n:
        message = "not enough different mappings of these kinds"
        raise TooFewMappingsError(message, found=len(sample.names), expected=n)


def add_random(sample: DistinctMappings) -> Iterator[TaskMapping]:
    """Yield random mappings until the sample is complete."""
    # After 50 repeated draws few mappings remain, and enumerating them is faster.
    n_repeats = 0
    for copy in itertools.count(1):
        if len(sample.names) >= sample.n or n_repeats == 50:
            break
        new = sample.add("random" if copy == 1 else f"random@{copy}")
        n_repeats += not new
        yield from new
    if len(sample.names) < sample.n:
        for number, node in enumerate(all_mappings(sample.placement)):
            yield from sample.add(f"nth-{number}", np.array(node))
            if len(sample.names) == sample.n:
                break


def count_remaining(placement: Placement, exclude: Sequence[TaskMapping]) -> float:
    """Return the number of mappings that are not excluded; infinite if too many to count."""
    excluded = {m.node.tobytes() for m in exclude if m.occupancy.max() <= placement.capacity}
    return count_mappings(placement) - len(excluded)


class DistinctMappings:
    """A sample that collects ``n`` distinct mappings; it is an error if fewer exist."""

    def __init__(self, placement: Placement, n: int, seed: Seed, exclude: Mappings = ()) -> None:
        self.placement = placement
        self.n = whole_number(n, "number of mappings", 1)
        self.seed = seed_number(seed)
        excluded = placement.problem.mappings(exclude)
        self.names: set[str] = set()
        self.digests = {_digest(mapping.node) for mapping in excluded}
        possible, remaining = count_mappings(placement), count_remaining(placement, excluded)
        if n > remaining:
            found = f"{possible}"
            if remaining < possible:
                found += f", {possible - remaining} of them excluded"
            raise TooFewMappingsError("not enough different mappings", found=found, expected=n)

    def add(self, name: str, node: NDArray[Any] | None = None) -> list[TaskMapping]:
        """Add a mapping and return it in a list, which is empty if it is a repeat or excluded."""
        if node is None:
            node, _ = place_tasks(self.placement, name, self.seed)
        digest = _digest(node)
        if digest in self.digests:
            return []
        self.digests.add(digest)
        self.names.add(name)
        return [self.placement.mapping(node, name)]


def _digest(node: NDArray[Any]) -> bytes:
    return hashlib.blake2b(node.astype(np.int32).tobytes(), digest_size=16).digest()


Costed = tuple[float, TaskMapping]
"""A mapping with its hop-bytes."""


def add_structured(
    sample: DistinctMappings,
    queues: Sequence[Iterator[str]],
    count: float,
    are_equivalent: Callable[[Costed, Costed], bool],
    accepted: Iterable[Costed] = (),
) -> Generator[TaskMapping, None, tuple[list[Costed], list[TaskMapping]]]:
    """Yield up to ``count`` named mappings from the queues in turn, skipping equivalent ones.

    Mappings are compared with each other and with ``accepted``. The generator returns all mappings
    that it tried, and those that it skipped because they were equivalent to others.
    """
    placement = sample.placement
    remaining, different = list(queues), list(accepted)
    tried: list[Costed] = []
    equivalent: list[TaskMapping] = []
    while remaining and count > 0:
        for queue in tuple(remaining):
            for name in queue:
                node, _ = place_tasks(placement, name, sample.seed)
                mapping = placement.mapping(node, name)
                costed = placement.hop_bytes(node), mapping
                tried.append(costed)
                is_new = not any(are_equivalent(costed, other) for other in different)
                if is_new and sample.add(name, node):
                    yield mapping
                    different.append(costed)
                    count -= 1
                    break
                equivalent.append(mapping)
            else:
                remaining.remove(queue)
            if count <= 0:
                break
    return tried, equivalent


def _have_equal_costs(new: Costed, other: Costed) -> bool:
    return abs(new[0] - other[0]) <= _RESOLUTION * other[0]


def add_swaps(
    sample: DistinctMappings, tried: Iterable[Costed], size: int
) -> Iterator[TaskMapping]:
    """Extend the sample to ``size`` mappings: make ever more swaps in good mappings.

    The swaps start from the best ``tried`` mapping of each family, for up to four families.
    """
    placement = sample.placement
    n = size - len(sample.names)
    if n <= 0 or placement.n_tasks == 1:
        return
    # Among equal costs prefer the shorter name.
    bases: list[Costed] = []
    for costed in sorted(tried, key=lambda pair: (round(pair[0], 9), len(pair[1].name))):
        family = costed[1].name.partition("-")[0]
        families = [mapping.name.partition("-")[0] for _, mapping in bases]
        if family not in families and not any(_have_equal_costs(costed, base) for base in bases):
            bases.append(costed)
    names = itertools.cycle([mapping.name for _, mapping in bases[:_N_BASES]])
    # A pair of tasks is unchanged by k swaps with probability exp(-4 k / T), because a swap moves
    # two of the T tasks. Choose k such that this probability falls in even steps.
    levels = (np.arange(n) + 0.5) / n
    counts = np.maximum(1, np.round(-placement.n_tasks / 4 * np.log1p(-levels))).astype(int)
    for count, base in zip(counts.tolist(), names, strict=False):
        plain = f"swap-{count}-{base}"
        for name in [plain, *(f"{plain}@{copy}" for copy in range(2, 6))]:
            if name not in sample.names and (new := sample.add(name)):
                yield from new
                break


def sample_inequivalent(
    placement: Placement, n: int, seed: int, exclude: Sequence[TaskMapping]
) -> tuple[list[TaskMapping], int]:
    """Draw mappings that are not symmetric to each other or to excluded ones.

    Symmetric mappings take nearly the same time, so a model trained on one knows the time of the
    other. If too few mappings remain, symmetric ones complete the sample; the second result is
    their number.
    """
    remaining = count_remaining(placement, exclude)
    excluded = {fingerprint(placement.problem, mapping) for mapping in exclude}
    n_drawn = n
    for _ in range(3):
        mappings = list(_draw_families(DistinctMappings(placement, n_drawn, seed, exclude)))
        distinct: dict[bytes, TaskMapping] = {}
        for mapping in mappings:
            key = fingerprint(placement.problem, mapping)
            if key not in excluded:
                distinct.setdefault(key, mapping)
        if len(distinct) >= n or n_drawn == remaining:
            break
        n_drawn = int(min(n_drawn + n - len(distinct), remaining))
    selected = list(distinct.values())[:n]
    names = {mapping.name for mapping in selected}
    symmetric = [m for m in mappings if m.name not in names][: n - len(selected)]
    return selected + symmetric, len(symmetric)


def fingerprint(problem: MappingProblem, mapping: TaskMapping) -> bytes:
    """Return the hops of all edges as a `bytes` object; it is equal for symmetric mappings."""
    node, comm = mapping.node, problem.comm
    return problem.torus.distance(node[comm.src], node[comm.dst]).tobytes()
