"""Mappings from which a search starts: fast sources first, then those that gained most a second."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from toruscast.mapping import TaskMapping, Workload, strategies
from toruscast.mapping.allocation import Allocation
from toruscast.mapping.strategies import registry

from .clock import Clock
from .multilevel import multilevel
from .products import product_starts

# Strategies that take a graph apart within .03 s for a thousand tasks.
_FAST = ("bisect-refined", "bisect-graph", "greedy-heaviest")
# Layouts of a product, and multilevel mappings: without a clock, and at most. With a clock, after
# so many multilevel mappings the next have twice the effort, up to 16 times.
_PRODUCTS, _LEVELS, _MOST_LEVELS = 8, 2, 10
# Seconds of the spectral layout: of a task, and of a task cubed where the spectrum is worked out
# whole. Beyond so many tasks it takes longer than any search.
_LAYOUT, _DECOMPOSED, _SPECTRAL = 4e-4, 4e-10, 20_000
# Sources, of the first, that every search draws from.
_ALWAYS = 2
_Energy = Callable[[TaskMapping], float]


def starts(
    workload: Workload,
    allocation: Allocation,
    seed: int,
    clock: Clock,
    energy: _Energy,
) -> list[TaskMapping]:
    """Return different mappings on nodes that are ours, the most promising first.

    Parameters
    ----------
    workload, allocation
        What is sent, and the nodes that are ours.
    seed : int
        Seed of all random choices.
    clock : Clock
        The work ends when it is over; if it never is, the same mappings are made on any machine.
    energy : callable
        A number that is smaller for a more promising mapping.
    """
    sources = _Sources(workload, allocation, seed, clock)
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
    for source in sources.all[: _ALWAYS if sources.has_end else None]:
        while not source.is_over:
            draw(source)
    while sources.has_end:
        left = clock.left
        open_ones = [s for s in sources.all if not s.is_over and s.expected_seconds < left]
        if not open_ones:
            break
        draw(max(open_ones, key=lambda source: source.promise))
    ranked = sorted(found.values(), key=lambda each: each[0])
    return [mapping for _, mapping in ranked]


class _Source:
    """Mappings of one kind, made one by one, and what they gained."""

    def __init__(self, mappings: Iterator[TaskMapping], seconds: float) -> None:
        # What the next mapping takes: as estimated, then as long as the last.
        self.mappings, self.expected_seconds = mappings, seconds
        self.gain, self.draws, self.is_over = 0.0, 0, False

    @property
    def promise(self) -> float:
        """Gain expected a second: as so far, and as if a draw before had gained a tenth."""
        gain = (self.gain + 0.1) / (self.draws + 1) ** 2
        return gain / max(self.expected_seconds, 1e-4)


class _Sources:
    """Where mappings come from, for one workload."""

    def __init__(self, workload: Workload, allocation: Allocation, seed: int, clock: Clock) -> None:
        self.workload, self.allocation, self.seed = workload, allocation, seed
        self.clock, self.has_end = clock, math.isfinite(clock.seconds)
        self.most_levels = _MOST_LEVELS if self.has_end else _LEVELS
        # Strategies see the whole torus.
        room = -(-workload.n_tasks // allocation.torus.n_nodes)
        capacity = min(max(room, 1), allocation.tasks_per_node)
        self.placement = strategies.Placement(workload, allocation.torus, capacity, clock.is_over)
        n = workload.n_tasks
        self.all = [
            _Source(self._named(list(_FAST)), 1e-5 * n),
            _Source(self._products(), 2e-4 * n),
            _Source(self._levels(), 5e-4 * n),
            _Source(self._variants(), 1e-5 * n),
        ]
        if n <= _SPECTRAL:
            seconds = _LAYOUT * n + min(_DECOMPOSED * float(n) ** 3, 1.5)
            self.all.append(_Source(self._named(["spectral"]), seconds))

    def _named(self, names: list[str]) -> Iterator[TaskMapping]:
        placement = self.placement
        for name in names:
            node = registry.nodes(placement, name, self.seed)
            yield self.allocation.confine(registry.mapping(placement, name, node))

    def _variants(self) -> Iterator[TaskMapping]:
        names = strategies.variants(
            self.workload, self.allocation.torus, tasks_per_node=self.placement.capacity
        )
        return self._named([name for name in dict.fromkeys(names) if name not in _FAST])

    def _products(self) -> Iterator[TaskMapping]:
        yield from product_starts(self.workload, self.allocation, _PRODUCTS, self.clock)

    def _levels(self) -> Iterator[TaskMapping]:
        for number in range(self.most_levels):
            effort = 2 ** (number // _LEVELS)
            seed = self.seed + number
            mapping = multilevel(self.workload, self.allocation, seed, self.clock, effort)
            if mapping is None:
                return
            yield mapping.renamed(f"multilevel@{number + 1}")
