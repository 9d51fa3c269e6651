"""Kernels of max-min fairness: each message's rate at the places that it shares with others."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel

from ._flow_state import ACTIVE, Flows, FlowState
from ._heap_kernels import rise, take_top

# Levels that differ by rounding only are equal.
_EVEN = 1 + 1e-9
# As long as a pass gives rates to this part of the messages, it is cheaper than place after place.
_WORTH_A_PASS = 1 / 4


@bare_kernel
def share(flows: Flows, state: FlowState) -> None:
    """Compute the rates: shares of each place by weight; the others get what a message cannot use.

    A place is full if all its messages get less there, for their weight, than anywhere else. They
    keep these rates, and their bandwidth is no longer free at other places. This is repeated with
    the remaining messages. One pass finds all such places. Regular traffic takes few passes;
    irregular traffic would take up to a hundred, so `_fill_one_by_one` takes over when a pass gives
    rates to few.
    """
    used = _gather(flows, state)
    left = state.counts[ACTIVE]
    reached = 0.0
    worth = True
    while left > 0 and worth:
        before = left
        reached = max(reached, _set_levels(state, used))
        for i in range(left):
            _look(flows, state, state.unshared[i])
        left = _fill(flows, state, left, reached)
        worth = before - left >= _WORTH_A_PASS * before
    if left > 0:
        _fill_one_by_one(flows, state, left, used, reached)


@bare_kernel
def _fill(flows: Flows, state: FlowState, left: int, reached: float) -> int:
    """Give the messages of all full places their rates; return how many are left."""
    i = 0
    while i < left:
        m = state.unshared[i]
        if state.held_up[state.least[m]]:
            i += 1
            continue
        # Rounding must not make a level zero.
        _give(flows, state, m, max(state.level[state.least[m]], reached) * flows.weight[m])
        left -= 1
        state.unshared[i] = state.unshared[left]
    return left


@bare_kernel
def _fill_one_by_one(flows: Flows, state: FlowState, left: int, used: int, reached: float) -> None:
    """Give the remaining messages their rates, always those of the lowest place next."""
    _list_sharers(flows, state, left, used)
    size = 0
    for k in range(used):
        q = state.in_use[k]
        if state.sharing[q] > 0:
            rise(state.height, state.lowest, size, state.free_part[q] / state.wanted[q], q)
            size += 1
    while left > 0:
        height, q = state.height[0], state.lowest[0]
        size -= 1
        take_top(state.height, state.lowest, size)
        if state.sharing[q] == 0:
            continue
        # Rates given since can only have raised the level.
        level = state.free_part[q] / state.wanted[q]
        if level > height * _EVEN:
            rise(state.height, state.lowest, size, level, q)
            size += 1
            continue
        reached = max(reached, level)
        for i in range(state.sharers[q, 0], state.sharers[q, 1]):
            m = state.sharer[i]
            if state.rate[m] == 0.0:
                _give(flows, state, m, reached * flows.weight[m])
                left -= 1


@bare_kernel
def _list_sharers(flows: Flows, state: FlowState, left: int, used: int) -> None:
    """List the messages without a rate by the places on their ways."""
    end = 0
    for k in range(used):
        q = state.in_use[k]
        state.sharers[q] = end
        end += state.sharing[q]
    for i in range(left):
        m = state.unshared[i]
        state.rate[m] = 0.0
        for h in range(flows.first[m], flows.first[m + 1]):
            q = flows.place[h]
            state.sharer[state.sharers[q, 1]] = m
            state.sharers[q, 1] += 1


@bare_kernel
def _set_levels(state: FlowState, used: int) -> float:
    """Set the level of each place, its rate for a weight of one; return the lowest."""
    lowest = np.inf
    for k in range(used):
        q = state.in_use[k]
        state.held_up[q] = False
        if state.sharing[q] > 0:
            state.level[q] = state.free_part[q] / state.wanted[q]
            lowest = min(lowest, state.level[q])
        else:
            state.level[q] = np.inf
    return lowest


@bare_kernel
def _gather(flows: Flows, state: FlowState) -> int:
    """Sum up the weights at each place; return the number of places in use."""
    used = 0
    for i in range(state.counts[ACTIVE]):
        m = state.active[i]
        state.unshared[i] = m
        for h in range(flows.first[m], flows.first[m + 1]):
            q = flows.place[h]
            if state.sharing[q] == 0:
                state.in_use[used] = q
                used += 1
                state.free_part[q] = flows.capacity[q]
                state.wanted[q] = 0.0
            state.sharing[q] += 1
            state.wanted[q] += flows.weight[m] * flows.part[h]
    return used


@bare_kernel
def _look(flows: Flows, state: FlowState, m: int) -> None:
    """Find the place where a message gets least; mark the other places on its way."""
    least = flows.place[flows.first[m]]
    for h in range(flows.first[m] + 1, flows.first[m + 1]):
        if state.level[flows.place[h]] < state.level[least]:
            least = flows.place[h]
    state.least[m] = least
    more = state.level[least] * _EVEN
    for h in range(flows.first[m], flows.first[m + 1]):
        if state.level[flows.place[h]] > more:
            state.held_up[flows.place[h]] = True


@bare_kernel
def _give(flows: Flows, state: FlowState, m: int, rate: float) -> None:
    """Give a message its rate at all its places."""
    state.rate[m] = rate
    for h in range(flows.first[m], flows.first[m + 1]):
        q = flows.place[h]
        state.sharing[q] -= 1
        state.free_part[q] = max(state.free_part[q] - rate * flows.part[h], 0.0)
        state.wanted[q] -= flows.weight[m] * flows.part[h]
