"""Kernels of simulated annealing: proposals, incremental loads, and the annealing loop.

A slot is a place for one task on a node. A step permutes the contents of a few slots, and is
proposed before it is accepted or rejected. A resource is a link, an injection FIFO or a receiver.
Loads are whole numbers: the weight of an edge counts units of bytes, and each resource on its route
takes some parts of every unit.

Letters in the comments: N nodes, D dimensions, T tasks, S slots, P phases, R resources, I
incidences of edges and tasks, U resources on all routes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, kernel
from toruscast._llvm import prefetch
from toruscast.typing import Bools, Floats, Int32s, Ints, UInt64s


class TaskEdges(NamedTuple):
    """Edges of each task; those of task t are ``first[t]:first[t + 1]``."""

    first: Ints  # (T + 1,)
    partner: Int32s  # (I,)
    is_source: Bools  # (I,) whether the task sends
    weight: Ints  # (I,) units
    base: Ints  # (I,) number of the phase times R
    unit: float  # bytes in a unit of weight


class ResourceTable(NamedTuple):
    """Resources on the routes between nodes; those from a to b begin at ``first[a * N + b]``."""

    first: Int32s  # (N * N + 1,)
    resource: NDArray[np.unsignedinteger]  # (U,)
    share: Int32s  # (U,) parts of each unit; (0,) if every share is one part
    hops: NDArray[np.uint16]  # (N * N,)
    n_nodes: int
    parts: int  # parts of a unit


class LoadChange(NamedTuple):
    """Effect of a step on the loads, with scratch memory to compute it."""

    load: Ints  # (P * R,) parts, zero between steps
    listed: Ints  # (2 * P * R,) indices of the changed loads
    amount: Ints  # (2 * P * R,) change of each
    node: Int32s  # (T,) node of each task after the step
    is_moved: Bools  # (T,)
    begin: Int32s  # (2 * max edges of a task,) entries to subtract or to add
    end: Int32s
    weight: Ints
    base: Ints


class LoadState(NamedTuple):
    """A mapping, its loads, and how a step changes both."""

    edges: TaskEdges
    table: ResourceTable
    change: LoadChange
    node: Int32s  # (T,)
    load: Ints  # (P * R,) parts


@bare_kernel
def _pair_index(table: ResourceTable, node: int, partner_node: int, is_source: bool) -> int:
    """Return the index of an edge's route in the table."""
    src, dst = (node, partner_node) if is_source else (partner_node, node)
    return src * table.n_nodes + dst


@bare_kernel
def compute_load_change(
    loads: LoadState, moved: Ints, n_moved: int, with_loads: bool
) -> tuple[int, int]:
    """Compute how the loads change if tasks move to the nodes in ``change.node``.

    Return the number of changed loads, and the change in the total of hops times units.
    """
    edges, table, node, change = loads.edges, loads.table, loads.node, loads.change
    n_listed = 0
    hops = 0
    for i in range(n_moved):
        change.is_moved[moved[i]] = True
    for i in range(n_moved):
        task = moved[i]
        old, new = np.int64(node[task]), np.int64(change.node[task])
        n = 0
        # Look up all edges before any update, so that their cache misses overlap.
        for e in range(edges.first[task], edges.first[task + 1]):
            partner = edges.partner[e]
            is_source = edges.is_source[e]
            # Count an edge between two moving tasks once, at its source.
            if not is_source and change.is_moved[partner]:
                continue
            partner_node, new_partner_node = np.int64(node[partner]), np.int64(change.node[partner])
            before = _pair_index(table, old, partner_node, is_source)
            after = _pair_index(table, new, new_partner_node, is_source)
            weight = edges.weight[e]
            hops += weight * (np.int64(table.hops[after]) - np.int64(table.hops[before]))
            if with_loads:
                for pair, units in ((before, -weight), (after, weight)):
                    change.begin[n] = table.first[pair]
                    change.end[n] = table.first[pair + 1]
                    change.weight[n] = units
                    change.base[n] = edges.base[e]
                    prefetch(table.resource, np.int64(change.begin[n]))
                    n += 1
        n_listed = _add_route_loads(table, n, change, n_listed)
    for i in range(n_moved):
        change.is_moved[moved[i]] = False
    return _collect_changes(n_listed, change), hops


@bare_kernel
def _add_route_loads(table: ResourceTable, n: int, change: LoadChange, n_listed: int) -> int:
    """Add weights to the resources on routes, and list each resource whose change was zero."""
    for i in range(n):
        weight, base = change.weight[i], change.base[i]
        for k in range(change.begin[i], change.end[i]):
            index = base + np.int64(table.resource[k])
            amount = weight * table.share[k] if table.share.size else weight
            before = change.load[index]
            change.listed[n_listed] = index
            n_listed += before == 0
            change.load[index] = before + amount
        if n_listed > change.load.size:
            # A change that returned to zero may be listed again later, so remove repeated entries.
            n_listed = _collect_changes(n_listed, change)
            for k in range(n_listed):
                change.load[change.listed[k]] = change.amount[k]
    return n_listed


@bare_kernel
def _collect_changes(n_listed: int, change: LoadChange) -> int:
    """Move the nonzero changes from ``load`` to ``amount``, and return their number."""
    n = 0
    for i in range(n_listed):
        index = change.listed[i]
        amount = change.load[index]
        change.load[index] = 0
        change.listed[n] = index
        change.amount[n] = amount
        n += amount != 0
    return n


@bare_kernel
def apply_change(loads: LoadState, moved: Ints, n_moved: int, n_listed: int) -> None:
    """Move the tasks, and add the changes to the loads."""
    change = loads.change
    for i in range(n_moved):
        loads.node[moved[i]] = change.node[moved[i]]
    for i in range(n_listed):
        loads.load[change.listed[i]] += change.amount[i]


@kernel
def move_tasks(loads: LoadState, moved: Ints) -> int:
    """Move tasks to the nodes in ``change.node``; return the change in hops times units."""
    n_listed, hops = compute_load_change(loads, moved, moved.size, True)
    apply_change(loads, moved, moved.size, n_listed)
    return hops


@kernel
def add_loads_of_edges(loads: LoadState) -> int:
    """Add the loads of all edges to ``load``, and return the sum of hops times units."""
    edges, table, node, load = loads.edges, loads.table, loads.node, loads.load
    hops = np.int64(0)
    for task in range(node.size):
        for e in range(edges.first[task], edges.first[task + 1]):
            if not edges.is_source[e]:
                continue
            pair = np.int64(node[task]) * table.n_nodes + node[edges.partner[e]]
            hops += edges.weight[e] * np.int64(table.hops[pair])
            for u in range(table.first[pair], table.first[pair + 1]):
                amount = edges.weight[e] * (table.share[u] if table.share.size else 1)
                load[edges.base[e] + np.int64(table.resource[u])] += amount
    return hops


Random = UInt64s
# Cumulative probabilities of the kinds of steps: an exchange with a slot near a partner, an
# exchange with any slot, and a cycle of three slots. All other steps permute boxes of nodes.
_P_NEAR, _P_ANY, _P_CHAIN = 0.62, 0.80, 0.95
# Maximum number of a node's slots that are compared for an exchange.
_MAX_COMPARED_SLOTS = 6
# Probability that a step begins at a task whose messages use the busiest resources.
_P_HOT = 0.35


class Slots(NamedTuple):
    """Slots for tasks; those of node n are ``first[n]:first[n + 1]``."""

    first: Ints  # (N + 1,)
    node: Int32s  # (S,)
    content: Int32s  # (S,) task in the slot, -1 for none
    slot_of_task: Ints  # (T,) -1 for a fixed task
    movable: Int32s  # (at most T,) tasks that may move
    neighbors: Int32s  # (N, 2 * D)
    size: Ints  # (D,) nodes along each dimension


class Step(NamedTuple):
    """A proposed permutation of the contents of slots."""

    to: Ints  # (S,) slot
    task: Int32s  # (S,) new content of the slot, -1 for none
    moved: Ints  # (T,) tasks whose node changes
    count: Ints  # (1,) slots in the step
    box: Int32s  # (2, N) nodes of one or two boxes
    is_in_box: Bools  # (N,)
    extent: Ints  # (D,)
    max_nodes: int  # of a box


class AnnealingState(NamedTuple):
    """The mapping under annealing, its loads, and the proposed step."""

    loads: LoadState
    slots: Slots
    step: Step
    random: Random


@bare_kernel
def draw_bits(random: Random) -> int:
    """Draw 31 random bits (xorshift64*, Vigna, 2016)."""
    x = random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    random[0] = x
    return np.int64((x * np.uint64(2685821657736338717)) >> np.uint64(33))


@bare_kernel
def draw_below(random: Random, n: int) -> int:
    """Draw a whole number from 0 to ``n`` - 1."""
    return (draw_bits(random) * n) >> 31


@bare_kernel
def draw_uniform(random: Random) -> float:
    """Draw a number from 0 to 1."""
    return draw_bits(random) * 2.0**-31


@bare_kernel
def _count_slots(slots: Slots, node: int) -> int:
    return slots.first[node + 1] - slots.first[node]


@bare_kernel
def propose_step(state: AnnealingState, hot_tasks: Int32s) -> int:
    """Propose a random step, and return the number of tasks that change nodes; 0 for no step.

    The kinds of step, by increasing ``kind``: move a task next to a partner, move it anywhere,
    rotate three tasks, permute boxes of nodes. A task in the target slot moves to the vacated slot.
    """
    slots, step, random, node = state.slots, state.step, state.random, state.loads.node
    step.count[0] = 0
    kind = draw_uniform(random)
    if kind >= _P_CHAIN:
        _permute_boxes(slots, step, random)
    else:
        source = hot_tasks if hot_tasks.size and draw_uniform(random) < _P_HOT else slots.movable
        task = source[draw_below(random, source.size)]
        slot = slots.slot_of_task[task]
        target = -1
        if kind < _P_NEAR or kind >= _P_ANY:
            target = _slot_near_partner(state, task)
            if target >= 0 and kind < _P_NEAR:
                target = _cheapest_slot(state, target, node[task])
        else:
            target = draw_below(random, slots.node.size)
        if target < 0 or target == slot:
            return 0
        _add_move(slots, step, slot, target)
        target_task = slots.content[target]
        third_slot = -1
        if kind >= _P_ANY and target_task >= 0:
            third_slot = _slot_near_partner(state, target_task)
        if third_slot >= 0 and third_slot not in (slot, target):
            _add_move(slots, step, target, third_slot)
            _add_move(slots, step, third_slot, slot)
        else:
            _add_move(slots, step, target, slot)
    n_moved = 0
    for i in range(step.count[0]):
        task = step.task[i]
        if task >= 0 and node[task] != slots.node[step.to[i]]:
            state.loads.change.node[task] = slots.node[step.to[i]]
            step.moved[n_moved] = task
            n_moved += 1
    return n_moved


@bare_kernel
def _add_move(slots: Slots, step: Step, slot: int, target: int) -> None:
    """Add the move of a slot's content to another slot."""
    i = step.count[0]
    step.task[i] = slots.content[slot]
    step.to[i] = target
    step.count[0] = i + 1


@bare_kernel
def _slot_near_partner(state: AnnealingState, task: int) -> int:
    """Return a random slot on a random partner's node or on a neighbouring node; -1 for none."""
    slots, random, edges = state.slots, state.random, state.loads.edges
    degree = edges.first[task + 1] - edges.first[task]
    if degree == 0:
        return -1
    partner = edges.partner[edges.first[task] + draw_below(random, degree)]
    target_node = np.int64(state.loads.node[partner])
    ports = slots.neighbors.shape[1]
    port = draw_below(random, ports + 1)
    if port < ports:
        target_node = np.int64(slots.neighbors[target_node, port])
        if target_node < 0:
            return -1
    n = _count_slots(slots, target_node)
    return slots.first[target_node] + draw_below(random, n) if n else -1


@bare_kernel
def _cheapest_slot(state: AnnealingState, target: int, new_node: int) -> int:
    """Return the slot on the target's node that is cheapest to vacate, in hop-bytes.

    The task in it moves to ``new_node``. On nodes with many slots, a random sample is compared.
    """
    slots, edges, table = state.slots, state.loads.edges, state.loads.table
    target_node = np.int64(slots.node[target])
    n = _count_slots(slots, target_node)
    if n == 1:
        return target
    best = target
    min_cost = np.int64(2) ** 62
    offset = draw_below(state.random, n)
    for i in range(min(n, _MAX_COMPARED_SLOTS)):
        slot = slots.first[target_node] + (offset + i) % n
        task = slots.content[slot]
        cost = np.int64(0)
        if task >= 0:
            for e in range(edges.first[task], edges.first[task + 1]):
                partner = np.int64(state.loads.node[edges.partner[e]])
                # Distances are symmetric.
                after = np.int64(table.hops[np.int64(new_node) * table.n_nodes + partner])
                before = np.int64(table.hops[target_node * table.n_nodes + partner])
                cost += edges.weight[e] * (after - before)
        if cost < min_cost:
            best, min_cost = slot, cost
    return best


_EXCHANGE, _MIRROR, _SHIFT, _TRANSPOSE = range(4)


@bare_kernel
def _permute_boxes(slots: Slots, step: Step, random: Random) -> None:
    """Exchange two boxes of nodes, or mirror, shift or transpose one box.

    A box begins at a random node and extends by a random number of nodes in each dimension.
    """
    ndim = slots.size.size
    n_nodes = slots.first.size - 1
    corner = draw_below(random, n_nodes)
    volume = 1
    # One extent in six covers the whole dimension, and half of the others are a single node.
    for d in range(ndim):
        size = slots.size[d]
        extent = 1 + draw_below(random, min(size, 4))
        if draw_below(random, 6) == 0:
            extent = size
        elif draw_below(random, 2) == 0:
            extent = 1
        if volume * extent > step.max_nodes:
            extent = 1
        step.extent[d] = extent
        volume *= extent
    dimension = draw_below(random, ndim)
    if not _list_box(slots, step, corner):
        return
    operation = draw_below(random, 4)
    extent = step.extent[dimension]
    size = slots.size[dimension]
    if operation == _EXCHANGE:
        if 2 * extent > size:
            return
        shift = extent + draw_below(random, size - 2 * extent + 1)
        _exchange_box(slots, step, volume, dimension, shift)
        return
    # Cells of a box are numbered with the first dimension varying fastest.
    stride = 1
    for d in range(dimension):
        stride *= step.extent[d]
    other = (dimension + 1 + draw_below(random, max(ndim - 1, 1))) % ndim
    other_stride = 1
    for d in range(other):
        other_stride *= step.extent[d]
    shift = 1 + draw_below(random, max(extent - 1, 1))
    if operation == _TRANSPOSE and (step.extent[other] != extent or other == dimension):
        return
    for cell in range(volume):
        position = cell // stride % extent
        if operation == _MIRROR:
            target = cell + (extent - 1 - 2 * position) * stride
        elif operation == _SHIFT:
            target = cell + ((position + shift) % extent - position) * stride
        else:
            other_position = cell // other_stride % extent
            target = cell + (other_position - position) * (stride - other_stride)
        if target != cell:
            _add_node_move(slots, step, step.box[0, cell], step.box[0, target])


@bare_kernel
def _list_box(slots: Slots, step: Step, corner: int) -> bool:
    """Write the nodes of a box to ``box``, and return whether their contents can be permuted.

    All nodes must have the same number of slots, at least one. A box must not cross the edge of a
    mesh.
    """
    n = 1
    step.box[0, 0] = corner
    capacity = _count_slots(slots, corner)
    if capacity == 0:
        return False
    for d in range(slots.size.size):
        n_layer = n
        # Each layer of nodes is one hop further along this dimension than the previous layer.
        for _ in range(1, step.extent[d]):
            for i in range(n - n_layer, n):
                neighbor = np.int64(slots.neighbors[step.box[0, i], 2 * d])
                if neighbor < 0 or _count_slots(slots, neighbor) != capacity:
                    return False
                step.box[0, i + n_layer] = neighbor
            n += n_layer
    # On a twisted ring, a box may overlap itself.
    overlaps = False
    for i in range(n):
        overlaps |= step.is_in_box[step.box[0, i]]
        step.is_in_box[step.box[0, i]] = True
    for i in range(n):
        step.is_in_box[step.box[0, i]] = False
    return not overlaps


@bare_kernel
def _exchange_box(slots: Slots, step: Step, volume: int, dimension: int, shift: int) -> None:
    """Exchange a box with the box ``shift`` hops away, unless they overlap or differ in slots."""
    is_valid = True
    for i in range(volume):
        step.is_in_box[step.box[0, i]] = True
    for i in range(volume):
        target = np.int64(step.box[0, i])
        for _ in range(shift):
            if target >= 0:
                target = np.int64(slots.neighbors[target, 2 * dimension])
        capacity = _count_slots(slots, step.box[0, i])
        if target < 0 or step.is_in_box[target] or _count_slots(slots, target) != capacity:
            is_valid = False
            break
        step.box[1, i] = target
    for i in range(volume):
        step.is_in_box[step.box[0, i]] = False
    if is_valid:
        for i in range(volume):
            _add_node_move(slots, step, step.box[0, i], step.box[1, i])
            _add_node_move(slots, step, step.box[1, i], step.box[0, i])


@bare_kernel
def _add_node_move(slots: Slots, step: Step, source: int, target: int) -> None:
    """Add moves that bring the contents of a node's slots to another node."""
    for i in range(_count_slots(slots, source)):
        _add_move(slots, step, slots.first[source] + i, slots.first[target] + i)


class Objective(NamedTuple):
    """Constants of the energy that annealing minimises."""

    rate: Floats  # (P * R,) weight per part of a load
    n_phases: int
    doublings: int  # the exponent of the norm is 2 ** doublings
    by_loads: bool  # whether loads count, not only hops
    hop_share: float  # weight of hops times units


@bare_kernel
def raise_to_power(value: float, doublings: int) -> float:
    """Return ``value ** (2 ** doublings)``."""
    for _ in range(doublings):
        value *= value
    return value


@kernel
def sum_powers(objective: Objective, load: Ints) -> Floats:
    """Return the sum of the powers of the loads in each phase. (P * R,) -> (P,)."""
    n_resources = load.size // objective.n_phases
    sums = np.zeros(objective.n_phases)
    for index in range(load.size):
        if load[index]:
            x = load[index] * objective.rate[index]
            sums[index // n_resources] += raise_to_power(x, objective.doublings)
    return sums


@kernel
def compute_task_heat(objective: Objective, loads: LoadState) -> Floats:
    """Return how much each task's traffic contributes to the powers of the loads, (T,).

    The power of a load is divided evenly among its parts. An edge counts at both of its tasks.
    """
    edges, table, node, load = loads.edges, loads.table, loads.node, loads.load
    slope = np.zeros(load.size)
    for index in range(load.size):
        if load[index]:
            x = load[index] * objective.rate[index]
            slope[index] = raise_to_power(x, objective.doublings) / load[index]
    heat = np.zeros(node.size)
    for task in range(node.size):
        for e in range(edges.first[task], edges.first[task + 1]):
            task_node, partner_node = np.int64(node[task]), np.int64(node[edges.partner[e]])
            pair = _pair_index(table, task_node, partner_node, edges.is_source[e])
            route_slope = 0.0
            for u in range(table.first[pair], table.first[pair + 1]):
                route_slope += slope[edges.base[e] + np.int64(table.resource[u])]
            heat[task] += route_slope * edges.weight[e]
    return heat


@kernel
def anneal(
    state: AnnealingState,
    objective: Objective,
    hot_tasks: Int32s,
    n_steps: int,
    initial_temperature: float,
    final_temperature: float,
) -> tuple[int, int]:
    """Anneal with a falling temperature.

    Return the change in the total of hops times units, and the number of proposals.

    The energy is the norm of the loads, with exponent ``2 ** doublings``, summed over phases, plus
    a share of hops times units. A proposal that increases the energy is accepted with probability
    exp(-increase / temperature).
    """
    loads, slots, step = state.loads, state.slots, state.step
    load, change = loads.load, loads.change
    n_resources = load.size // objective.n_phases
    root = 1.0 / 2.0**objective.doublings
    sums = sum_powers(objective, load) if objective.by_loads else np.zeros(1)
    new_sums = sums.copy()
    norm = 0.0
    for phase in range(sums.size):
        norm += sums[phase] ** root
    cooling = math.log(final_temperature / initial_temperature) / max(n_steps - 1, 1)
    hops = 0
    proposals = 0
    for step_number in range(n_steps):
        n_moved = propose_step(state, hot_tasks)
        if n_moved == 0:
            continue
        proposals += 1
        n_listed, hop_change = compute_load_change(loads, step.moved, n_moved, objective.by_loads)
        new_norm = norm
        if objective.by_loads:
            for phase in range(sums.size):
                new_sums[phase] = sums[phase]
            for i in range(n_listed):
                index = change.listed[i]
                rate = objective.rate[index]
                before = load[index] * rate
                after = (load[index] + change.amount[i]) * rate
                phase = index // n_resources if sums.size > 1 else 0
                new_sums[phase] += raise_to_power(after, objective.doublings) - raise_to_power(
                    before, objective.doublings
                )
            new_norm = 0.0
            for phase in range(sums.size):
                # Rounding may make a sum negative.
                new_norm += max(new_sums[phase], 0.0) ** root
        increase = new_norm - norm + hop_change * objective.hop_share
        temperature = initial_temperature * math.exp(cooling * step_number)
        if increase <= 0 or draw_uniform(state.random) < math.exp(-increase / temperature):
            apply_change(loads, step.moved, n_moved, n_listed)
            for i in range(step.count[0]):
                task = step.task[i]
                slots.content[step.to[i]] = task
                if task >= 0:
                    slots.slot_of_task[task] = step.to[i]
            for phase in range(sums.size):
                sums[phase] = new_sums[phase]
            norm = new_norm
            hops += hop_change
        else:
            for i in range(n_moved):
                change.node[step.moved[i]] = loads.node[step.moved[i]]
    return hops, proposals
