"""Candidate mappings to choose from: structured ones, then swaps of good ones, then random ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.mapping.problem import as_problem
from toruscast.mapping.strategies import Placement, registry, sampling
from toruscast.mapping.task_mapping import Allocation
from toruscast.mapping.torus import Exclusions
from toruscast.routing.bounds import min_loads
from toruscast.routing.loads import link_loads
from toruscast.typing import Floats
from toruscast.validation import SEED, Routing, Seed

from .annealing import AnnealingRun, AnnealingRuns, anneal_once

if TYPE_CHECKING:
    from toruscast.mapping.problem import ProblemLike, TorusLike

# The same number as in the experiments of Jain et al., SC'13.
_N_CANDIDATES = 84
_FIRST = ("identity", "bisect-refined", "greedy-heaviest")
# Maximum nodes and tasks for the spectral layout and the search.
_MAX_NODES, _MAX_TASKS = 1024, 4096
# Maximum sweeps of the search, maximum edges whose loads it computes (about a microsecond each),
# and temperature of the search, as a share of the mean energy per task.
_MAX_SWEEPS, _MAX_EDGES, _TEMPERATURE = 16, 150_000, 0.03
# Share of random mappings among the mappings that follow the structured ones.
_RANDOM_SHARE = 0.25
# Maximum relative difference of sums with the same terms in a different order.
_ROUNDING = 1e-9


def candidates(
    comm: ProblemLike,
    torus: TorusLike | None = None,
    n: int | None = None,
    *,
    seed: Seed = SEED,
    tasks_per_node: int | None = None,
    routing: Routing = "deterministic",
) -> list[TaskMapping]:
    """Return ``n`` distinct mappings to choose the fastest from.

    The default order is first. Mappings that use the traffic follow: a bisection, a greedy
    placement, a spectral layout, and a short search from the best of these. The last two are
    omitted with more than 4,096 tasks or 1,024 nodes, or if no mapping can have smaller loads than
    the default order. Then come all permutations of the dimensions and, on a torus with faults, all
    reflections. Other structured mappings follow; those with new link loads come first. Swaps of
    good mappings and random ones only fill up the list; `strategies.sample` returns more of these.

    Parameters
    ----------
    n : int, optional
        Number of mappings; by default 84, or all mappings if there are fewer.
    seed : int
        Random seed; the same seed gives the same mappings.
    tasks_per_node : int, optional
        Capacity of a node; by default the smallest with which all tasks fit.

    Examples
    --------
    >>> from toruscast.mapping import patterns
    >>> pairs = patterns.random_pairs(16, 3, 8)
    >>> [mapping.name for mapping in candidates(pairs, "4x4", n=6)]
    ['identity', 'bisect-refined', 'greedy-heaviest', 'spectral', 'search-1-from-bisect-refined',
     'permute-YX']
    """
    problem = as_problem(comm, torus, routing)
    return list(draw_candidates(problem, n, seed, tasks_per_node)[0])


def draw_candidates(
    problem: MappingProblem, n: int | None, seed: Seed, tasks_per_node: int | None
) -> tuple[Iterator[TaskMapping], int]:
    """Return a generator of the mappings of `candidates`, and their number."""
    placement = Placement(problem, tasks_per_node)
    if n is None:
        n = int(min(_N_CANDIDATES, sampling.count_mappings(placement)))
    sample = sampling.DistinctMappings(placement, n, seed)
    return islice(_generate(sample), n), n


def _generate(sample: sampling.DistinctMappings) -> Iterator[TaskMapping]:
    """Yield the mappings of `candidates`, in the order given there."""
    placement = sample.placement
    problem, torus = placement.problem, placement.torus
    accepted: list[sampling.Costed] = []

    def accept(names: list[str]) -> Iterator[TaskMapping]:
        """Yield the new mappings with these names, and store them with their hop-bytes."""
        for name in names:
            for mapping in sample.add(name):
                accepted.append((placement.hop_bytes(mapping.node), mapping))
                yield mapping

    # Without exclusions, routes stay the same, but loads of missing links raise no error.
    plain = replace(torus, exclusions=Exclusions())
    whole = MappingProblem(problem.workload, plain, problem.routing)

    @cache
    def sorted_loads(mapping: TaskMapping) -> Floats:
        copy = TaskMapping(mapping.node, plain, tasks_per_node=mapping.tasks_per_node)
        return np.sort(link_loads(whole, copy))

    def have_equal_loads(one: sampling.Costed, other: sampling.Costed) -> bool:
        """Return whether the sorted link loads of two mappings are equal."""
        # Compare the hop-bytes first: they are the sum of the loads.
        if not math.isclose(one[0], other[0], rel_tol=_ROUNDING):
            return False
        loads, other_loads = sorted_loads(one[1]), sorted_loads(other[1])
        return bool(np.abs(loads - other_loads).max() <= _ROUNDING * loads[-1])

    yield from accept(list(_FIRST))
    is_small = problem.n_tasks <= _MAX_TASKS and torus.n_nodes <= _MAX_NODES
    if is_small and not _has_min_loads(placement, accepted[0][1]):
        yield from accept(["spectral"])
        best = _search_briefly(placement, [mapping for _, mapping in accepted], sample.seed)
        yield from sample.add(best.name, best.node)
    queues = {
        family.family: registry.variant_names(placement, family)
        for family in registry.STRATEGIES.values()
        if family.sampled or family.family == "reflect"
    }
    # With dimension-ordered routes, no symmetry maps one permutation onto another. Reflections are
    # symmetries of a torus whose nodes and links are all equal.
    reflections = queues.pop("reflect")
    yield from accept(queues.pop("permute") + (reflections if torus.exclusions else []))
    names = [iter(queue) for queue in queues.values()]
    structured = sampling.add_structured(sample, names, math.inf, have_equal_loads, accepted)
    tried, equivalent = yield from structured
    for mapping in equivalent:
        yield from sample.add(mapping.name, mapping.node)
    n_random = round(_RANDOM_SHARE * (sample.n - len(sample.names)))
    yield from sampling.add_swaps(sample, accepted + tried, sample.n - n_random)
    yield from sampling.add_random(sample)


def _has_min_loads(placement: Placement, mapping: TaskMapping) -> bool:
    """Return whether a mapping minimises both the hop-bytes and the bytes of the busiest link."""
    problem = placement.problem
    if problem.torus.exclusions:
        return False
    # Rounds overlap, so their loads are added.
    for phase in (problem.total,) if problem.workload.dependent else problem.phases:
        loads = link_loads(phase, mapping)
        bounds = min_loads(phase, placement.capacity)
        if loads.sum() > bounds[0] * (1 + _ROUNDING) or loads.max() > bounds[1] * (1 + _ROUNDING):
            return False
    return True


def _search_briefly(placement: Placement, starts: list[TaskMapping], seed: int) -> TaskMapping:
    """Anneal the start with the lowest energy in a fixed number of sweeps."""
    # Tables of split routes take seconds to build, so use a tie rule without splits.
    torus = replace(placement.torus, tie_break="source_parity")
    problem = MappingProblem(placement.problem.workload, torus)
    allocation = Allocation(torus, tasks_per_node=placement.capacity)
    runs = AnnealingRuns(problem, allocation, "time", seed)
    start = min(starts, key=runs.energy)
    n_edges = problem.comm.n_edges / problem.n_tasks * runs.inputs.steps
    n_sweeps = min(_MAX_SWEEPS, int(_MAX_EDGES / max(n_edges, 1)))
    plan = AnnealingRun(0, _TEMPERATURE, runs.goals[0], start, n_sweeps)
    return anneal_once(runs.inputs, plan)[0] or start
