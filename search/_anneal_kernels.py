"""Kernels of simulated annealing: proposed steps, loads kept up to date, and the walk."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel
from toruscast._llvm import prefetch


class Ends(NamedTuple):
    """The edges at each task, those of task t from ``first[t]`` to ``first[t + 1]``."""

    first: NDArray[np.int64]  # (T + 1,)
    partner: NDArray[np.int32]  # (I,)
    sends: NDArray[np.bool_]  # (I,) whether the task is the edge's source
    weight: NDArray[np.int64]  # (I,) units
    base: NDArray[np.int64]  # (I,) the phase's number times R
    unit: float  # bytes of a unit of weight


class Uses(NamedTuple):
    """The resources between nodes: those from a to b from ``first[a * N + b]`` to the next one."""

    first: NDArray[np.int32]  # (N * N + 1,)
    resource: NDArray[np.unsignedinteger]  # (U,)
    share: NDArray[np.int32]  # (U,) share of each unit, in parts; empty if every share is one part
    hops: NDArray[np.uint16]  # (N * N,)
    n_nodes: int
    parts: int  # of a unit


class Change(NamedTuple):
    """Effect of a proposed change on the loads; ``load`` is all zero between proposals."""

    load: NDArray[np.int64]  # (P * R,) parts
    listed: NDArray[np.int64]  # (2 * P * R,) the loads that the change touches
    amount: NDArray[np.int64]  # (2 * P * R,) by how much
    node: NDArray[np.int32]  # (T,) where each task is after it
    is_moved: NDArray[np.bool_]  # (T,)
    begin: NDArray[np.int32]  # (2 * most I of a task,) uses that are taken away or added
    end: NDArray[np.int32]
    weight: NDArray[np.int64]
    base: NDArray[np.int64]


@bare_kernel
def propose(
    ends: Ends,
    uses: Uses,
    node: NDArray[np.int32],
    moved: NDArray[np.int64],
    n_moved: int,
    with_loads: bool,
    change: Change,
) -> tuple[int, int]:
    """Compute the effect of moving tasks to the nodes of ``change.node``.

    Return the number of loads that change, and the change of hops times units.
    """
    n_listed = 0
    hops = 0
    for i in range(n_moved):
        change.is_moved[moved[i]] = True
    for i in range(n_moved):
        task = moved[i]
        old, new = np.int64(node[task]), np.int64(change.node[task])
        n = 0
        # The places of the uses are looked up for all edges first; otherwise each edge waits for
        # memory.
        for e in range(ends.first[task], ends.first[task + 1]):
            partner = ends.partner[e]
            sends = ends.sends[e]
            # An edge between two moving tasks is changed once, at its source.
            if not sends and change.is_moved[partner]:
                continue
            there, then = np.int64(node[partner]), np.int64(change.node[partner])
            before = old * uses.n_nodes + there if sends else there * uses.n_nodes + old
            after = new * uses.n_nodes + then if sends else then * uses.n_nodes + new
            weight = ends.weight[e]
            hops += weight * (np.int64(uses.hops[after]) - np.int64(uses.hops[before]))
            if with_loads:
                change.begin[n] = uses.first[before]
                change.end[n] = uses.first[before + 1]
                change.weight[n] = -weight
                change.base[n] = ends.base[e]
                change.begin[n + 1] = uses.first[after]
                change.end[n + 1] = uses.first[after + 1]
                change.weight[n + 1] = weight
                change.base[n + 1] = ends.base[e]
                prefetch(uses.resource, np.int64(change.begin[n]))
                prefetch(uses.resource, np.int64(change.begin[n + 1]))
                n += 2
        n_listed = _add_uses(uses, n, change, n_listed)
    for i in range(n_moved):
        change.is_moved[moved[i]] = False
    return _gather(n_listed, change), hops


@bare_kernel
def _add_uses(uses: Uses, n: int, change: Change, n_listed: int) -> int:
    """Add weights to the resources of edges; list those that were zero, and return their number."""
    for i in range(n):
        weight, base = change.weight[i], change.base[i]
        for u in range(change.begin[i], change.end[i]):
            place = base + np.int64(uses.resource[u])
            amount = weight * uses.share[u] if uses.share.size else weight
            before = change.load[place]
            change.listed[n_listed] = place
            n_listed += before == 0
            change.load[place] = before + amount
        if n_listed > change.load.size:
            # Keep each load once; one that came back to zero may be listed twice.
            n_listed = _gather(n_listed, change)
            for k in range(n_listed):
                change.load[change.listed[k]] = change.amount[k]
    return n_listed


@bare_kernel
def _gather(n_listed: int, change: Change) -> int:
    """Move each change of a load into ``amount``; return the number of changes."""
    n = 0
    for i in range(n_listed):
        place = change.listed[i]
        amount = change.load[place]
        change.load[place] = 0
        change.listed[n] = place
        change.amount[n] = amount
        n += amount != 0
    return n


@bare_kernel
def withdraw(
    node: NDArray[np.int32], moved: NDArray[np.int64], n_moved: int, change: Change
) -> None:
    """Forget a proposal."""
    for i in range(n_moved):
        change.node[moved[i]] = node[moved[i]]


@bare_kernel
def accept(
    node: NDArray[np.int32],
    load: NDArray[np.int64],
    moved: NDArray[np.int64],
    n_moved: int,
    n_listed: int,
    change: Change,
) -> None:
    """Carry a proposal out."""
    for i in range(n_moved):
        node[moved[i]] = change.node[moved[i]]
    for i in range(n_listed):
        load[change.listed[i]] += change.amount[i]


@kernel
def move_tasks(
    ends: Ends,
    uses: Uses,
    node: NDArray[np.int32],
    load: NDArray[np.int64],
    moved: NDArray[np.int64],
    change: Change,
) -> int:
    """Move tasks to the nodes of ``change.node``; return the change of hops times units."""
    n_listed, hops = propose(ends, uses, node, moved, moved.size, True, change)
    accept(node, load, moved, moved.size, n_listed, change)
    return hops


@kernel
def add_all(ends: Ends, uses: Uses, node: NDArray[np.int32], load: NDArray[np.int64]) -> int:
    """Add the loads of all edges. (T,) -> (P * R,); return hops times units."""
    hops = np.int64(0)
    for task in range(node.size):
        for e in range(ends.first[task], ends.first[task + 1]):
            if not ends.sends[e]:
                continue
            pair = np.int64(node[task]) * uses.n_nodes + node[ends.partner[e]]
            hops += ends.weight[e] * np.int64(uses.hops[pair])
            for u in range(uses.first[pair], uses.first[pair + 1]):
                amount = ends.weight[e] * (uses.share[u] if uses.share.size else 1)
                load[ends.base[e] + np.int64(uses.resource[u])] += amount
    return hops


Random = NDArray[np.uint64]
# Limits of a random number below which a step is an exchange with a place near a partner, with any
# place, or a chain of three; other steps permute boxes.
_NEAR, _ANY, _CHAIN = 0.62, 0.80, 0.95
# Places of a node that are looked at for one whose task would best go the other way.
_LOOKED_AT = 6
# Steps that begin at one of the tasks on the busiest resources.
_FROM_HOT = 0.35


class Places(NamedTuple):
    """Places for tasks; those of node n from ``first[n]`` to ``first[n + 1]``."""

    first: NDArray[np.int64]  # (N + 1,)
    node: NDArray[np.int32]  # (S,)
    content: NDArray[np.int32]  # (S,) task there, -1 for none
    of_task: NDArray[np.int64]  # (T,) -1 for a task that stays
    movable: NDArray[np.int32]  # (T,) or fewer: the tasks that may move
    neighbors: NDArray[np.int32]  # (N, 2 * D)
    size: NDArray[np.int64]  # (D,) nodes along each dimension


class ProposedStep(NamedTuple):
    """A proposed step: contents of places move to other places, all at once."""

    to: NDArray[np.int64]  # (S,)
    task: NDArray[np.int32]  # (S,) new content of the place; -1 for nothing
    moved: NDArray[np.int64]  # (T,) the tasks whose node changes
    count: NDArray[np.int64]  # (1,) places in the step
    box: NDArray[np.int32]  # (2, N) nodes of one or two boxes
    is_in_box: NDArray[np.bool_]  # (N,)
    extent: NDArray[np.int64]  # (D,)
    max_nodes: int  # in a box


@bare_kernel
def draw(random: Random) -> int:
    """Draw 31 random bits (xorshift64*, Vigna, 2016)."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(33))


@bare_kernel
def below(random: Random, n: int) -> int:
    """Draw a random number from 0 to n - 1."""
    return (draw(random) * n) >> 31


@bare_kernel
def uniform(random: Random) -> float:
    """Draw a random number from 0 to 1."""
    return draw(random) * 2.0**-31


@bare_kernel
def propose_step(
    places: Places,
    steps: ProposedStep,
    ends: Ends,
    uses: Uses,
    node: NDArray[np.int32],
    hot: NDArray[np.int32],
    random: Random,
    new_node: NDArray[np.int32],
) -> int:
    """Fill in a step; return how many tasks change nodes, 0 if there is no step."""
    steps.count[0] = 0
    kind = uniform(random)
    if kind >= _CHAIN:
        _permute_boxes(places, steps, random)
    else:
        source = hot if hot.size and uniform(random) < _FROM_HOT else places.movable
        task = source[below(random, source.size)]
        place = places.of_task[task]
        target = -1
        if kind < _NEAR or kind >= _ANY:
            target = _near_partner(places, ends, node, task, random)
            if target >= 0 and kind < _NEAR:
                target = _easiest(places, ends, uses, node, target, node[task], random)
        else:
            target = below(random, places.node.size)
        if target < 0 or target == place:
            return 0
        _put(places, steps, place, target)
        other = places.content[target]
        third = -1
        if kind >= _ANY and other >= 0:
            third = _near_partner(places, ends, node, other, random)
        if third >= 0 and third not in (place, target):
            _put(places, steps, target, third)
            _put(places, steps, third, place)
        else:
            _put(places, steps, target, place)
    n_moved = 0
    for i in range(steps.count[0]):
        task = steps.task[i]
        if task >= 0 and node[task] != places.node[steps.to[i]]:
            new_node[task] = places.node[steps.to[i]]
            steps.moved[n_moved] = task
            n_moved += 1
    return n_moved


@bare_kernel
def _put(places: Places, steps: ProposedStep, place: int, target: int) -> None:
    """Add the move of one place's content to another place."""
    i = steps.count[0]
    steps.task[i] = places.content[place]
    steps.to[i] = target
    steps.count[0] = i + 1


@bare_kernel
def _near_partner(
    places: Places, ends: Ends, node: NDArray[np.int32], task: int, random: Random
) -> int:
    """Return a place on, or beside, the node of one of a task's partners; -1 if there is none."""
    degree = ends.first[task + 1] - ends.first[task]
    if degree == 0:
        return -1
    partner = ends.partner[ends.first[task] + below(random, degree)]
    there = np.int64(node[partner])
    ports = places.neighbors.shape[1]
    port = below(random, ports + 1)
    if port < ports:
        there = np.int64(places.neighbors[there, port])
        if there < 0:
            return -1
    n = places.first[there + 1] - places.first[there]
    return places.first[there] + below(random, n) if n else -1


@bare_kernel
def _easiest(
    places: Places,
    ends: Ends,
    uses: Uses,
    node: NDArray[np.int32],
    target: int,
    other: int,
    random: Random,
) -> int:
    """Of some places on the target's node, that whose task costs the fewest hops on another."""
    there = np.int64(places.node[target])
    n = places.first[there + 1] - places.first[there]
    if n == 1:
        return target
    best = target
    least = np.int64(2) ** 62
    begin = below(random, n)
    for i in range(min(n, _LOOKED_AT)):
        place = places.first[there] + (begin + i) % n
        task = places.content[place]
        cost = np.int64(0)
        if task >= 0:
            for e in range(ends.first[task], ends.first[task + 1]):
                partner = np.int64(node[ends.partner[e]])
                # Hops are the same both ways.
                after = np.int64(uses.hops[np.int64(other) * uses.n_nodes + partner])
                before = np.int64(uses.hops[there * uses.n_nodes + partner])
                cost += ends.weight[e] * (after - before)
        if cost < least:
            best, least = place, cost
    return best


@bare_kernel
def _permute_boxes(places: Places, steps: ProposedStep, random: Random) -> None:
    """Exchange two boxes of nodes; or mirror, turn or shift one box."""
    ndim = places.size.size
    n_nodes = places.first.size - 1
    corner = below(random, n_nodes)
    volume = 1
    for d in range(ndim):
        size = places.size[d]
        extent = 1 + below(random, min(size, 4))
        if below(random, 6) == 0:
            extent = size
        elif below(random, 2) == 0:
            extent = 1
        if volume * extent > steps.max_nodes:
            extent = 1
        steps.extent[d] = extent
        volume *= extent
    along = below(random, ndim)
    if not _list_box(places, steps, corner):
        return
    how = below(random, 4)
    extent = steps.extent[along]
    size = places.size[along]
    if how == 0:
        if 2 * extent > size:
            return
        shift = extent + below(random, size - 2 * extent + 1)
        _exchange_box(places, steps, volume, along, shift)
        return
    # Nodes of the box are numbered with the first dimension fastest.
    stride = 1
    for d in range(along):
        stride *= steps.extent[d]
    other = (along + 1 + below(random, max(ndim - 1, 1))) % ndim
    other_stride = 1
    for d in range(other):
        other_stride *= steps.extent[d]
    shift = 1 + below(random, max(extent - 1, 1))
    for i in range(volume):
        c = i // stride % extent
        if how == 1:
            j = i + (extent - 1 - 2 * c) * stride
        elif how == 2:
            j = i + ((c + shift) % extent - c) * stride
        else:
            if steps.extent[other] != extent or other == along:
                steps.count[0] = 0
                return
            k = i // other_stride % extent
            j = i + (k - c) * stride + (c - k) * other_stride
        if j != i:
            _put_node(places, steps, steps.box[0, i], steps.box[0, j])


@bare_kernel
def _list_box(places: Places, steps: ProposedStep, corner: int) -> bool:
    """List the nodes of a box; return False if it cannot be permuted."""
    n = 1
    steps.box[0, 0] = corner
    room = places.first[corner + 1] - places.first[corner]
    if room == 0:
        return False
    for d in range(places.size.size):
        inner = n
        for _ in range(1, steps.extent[d]):
            for i in range(n - inner, n):
                there = np.int64(places.neighbors[steps.box[0, i], 2 * d])
                if there < 0 or places.first[there + 1] - places.first[there] != room:
                    return False
                steps.box[0, i + inner] = there
            n += inner
    # On a twisted ring a box may meet itself.
    twice = False
    for i in range(n):
        twice |= steps.is_in_box[steps.box[0, i]]
        steps.is_in_box[steps.box[0, i]] = True
    for i in range(n):
        steps.is_in_box[steps.box[0, i]] = False
    return not twice


@bare_kernel
def _exchange_box(places: Places, steps: ProposedStep, volume: int, along: int, shift: int) -> None:
    """Exchange a box with another some hops away, unless they overlap or differ in places."""
    fits = True
    for i in range(volume):
        steps.is_in_box[steps.box[0, i]] = True
    for i in range(volume):
        there = np.int64(steps.box[0, i])
        for _ in range(shift):
            if there >= 0:
                there = np.int64(places.neighbors[there, 2 * along])
        here = steps.box[0, i]
        room = places.first[here + 1] - places.first[here]
        if (
            there < 0
            or steps.is_in_box[there]
            or places.first[there + 1] - places.first[there] != room
        ):
            fits = False
            break
        steps.box[1, i] = there
    for i in range(volume):
        steps.is_in_box[steps.box[0, i]] = False
    if fits:
        for i in range(volume):
            _put_node(places, steps, steps.box[0, i], steps.box[1, i])
            _put_node(places, steps, steps.box[1, i], steps.box[0, i])


@bare_kernel
def _put_node(places: Places, steps: ProposedStep, source: int, target: int) -> None:
    """Add the move of all of a node's content to another node."""
    for i in range(places.first[source + 1] - places.first[source]):
        _put(places, steps, places.first[source] + i, places.first[target] + i)


class Objective(NamedTuple):
    """The quantity that annealing makes small."""

    rate: NDArray[
        np.float64
    ]  # (P * R,) weight of a part of a load, relative to the busiest one at first
    n_phases: int
    doublings: int  # the norm's power is 2 ** doublings
    by_loads: bool  # whether loads count; else only hops
    hop_share: float  # weight of a unit of traffic times a hop


class Walker(NamedTuple):
    """The mapping that annealing changes."""

    ends: Ends
    uses: Uses
    change: Change
    places: Places
    steps: ProposedStep
    node: NDArray[np.int32]  # (T,)
    load: NDArray[np.int64]  # (P * R,)
    random: Random


@bare_kernel
def raised(value: float, doublings: int) -> float:
    """Return a value to the power of 2 ** doublings."""
    for _ in range(doublings):
        value *= value
    return value


@kernel
def sums_of_powers(objective: Objective, load: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of the loads' powers in each phase. (P * R,) -> (P,)."""
    n_resources = load.size // objective.n_phases
    sums = np.zeros(objective.n_phases)
    for place in range(load.size):
        if load[place]:
            x = load[place] * objective.rate[place]
            sums[place // n_resources] += raised(x, objective.doublings)
    return sums


@kernel
def heat_of_tasks(
    objective: Objective,
    ends: Ends,
    uses: Uses,
    node: NDArray[np.int32],
    load: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return how much each task's traffic adds to the sums of powers now. -> (T,)."""
    slope = np.zeros(load.size)
    for place in range(load.size):
        if load[place]:
            x = load[place] * objective.rate[place]
            slope[place] = raised(x, objective.doublings) / load[place]
    heat = np.zeros(node.size)
    for task in range(node.size):
        for e in range(ends.first[task], ends.first[task + 1]):
            here, there = np.int64(node[task]), np.int64(node[ends.partner[e]])
            pair = here * uses.n_nodes + there if ends.sends[e] else there * uses.n_nodes + here
            on_way = 0.0
            for u in range(uses.first[pair], uses.first[pair + 1]):
                on_way += slope[ends.base[e] + np.int64(uses.resource[u])]
            heat[task] += on_way * ends.weight[e]
    return heat


@kernel
def anneal(
    walker: Walker,
    objective: Objective,
    hot: NDArray[np.int32],
    n_steps: int,
    hot_at: float,
    cold_at: float,
) -> tuple[int, int]:
    """Propose steps while the temperature falls; return the change of hops, and proposals.

    ``hot`` lists the tasks to begin with.
    """
    load, change = walker.load, walker.change
    steps = walker.steps
    n_resources = load.size // objective.n_phases
    root = 1.0 / 2.0**objective.doublings
    sums = sums_of_powers(objective, load) if objective.by_loads else np.zeros(1)
    new_sums = sums.copy()
    smooth = 0.0
    for phase in range(sums.size):
        smooth += sums[phase] ** root
    cooling = math.log(cold_at / hot_at) / max(n_steps - 1, 1)
    hops = 0
    proposals = 0
    for step in range(n_steps):
        n_moved = propose_step(
            walker.places,
            steps,
            walker.ends,
            walker.uses,
            walker.node,
            hot,
            walker.random,
            change.node,
        )
        if n_moved == 0:
            continue
        proposals += 1
        n_listed, more_hops = propose(
            walker.ends, walker.uses, walker.node, steps.moved, n_moved, objective.by_loads, change
        )
        new_smooth = smooth
        if objective.by_loads:
            for phase in range(sums.size):
                new_sums[phase] = sums[phase]
            for i in range(n_listed):
                place = change.listed[i]
                rate = objective.rate[place]
                before = load[place] * rate
                after = (load[place] + change.amount[i]) * rate
                phase = place // n_resources if sums.size > 1 else 0
                new_sums[phase] += raised(after, objective.doublings) - raised(
                    before, objective.doublings
                )
            new_smooth = 0.0
            for phase in range(sums.size):
                # Rounding may give a value below zero.
                new_smooth += max(new_sums[phase], 0.0) ** root
        worse = new_smooth - smooth + more_hops * objective.hop_share
        temperature = hot_at * math.exp(cooling * step)
        if worse <= 0 or uniform(walker.random) < math.exp(-worse / temperature):
            accept(walker.node, load, steps.moved, n_moved, n_listed, change)
            for i in range(steps.count[0]):
                task = steps.task[i]
                walker.places.content[steps.to[i]] = task
                if task >= 0:
                    walker.places.of_task[task] = steps.to[i]
            for phase in range(sums.size):
                sums[phase] = new_sums[phase]
            smooth = new_smooth
            hops += more_hops
        else:
            withdraw(walker.node, steps.moved, n_moved, change)
    return hops, proposals
