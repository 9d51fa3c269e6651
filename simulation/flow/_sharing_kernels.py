"""Kernels of max-min fairness: what each message gets of the places that it shares with others.

Where nothing began or ended since, a place's messages and their weights are as they were. A message
is one cache line, its places another; both are asked for before their turn.
"""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel
from toruscast._llvm import prefetch

from ._flow_state import (
    ACTIVE,
    BEGAN,
    BEGUN,
    BEGUN_SINCE,
    CHANGED,
    DEADLINE,
    FIRST,
    FIRST_END,
    FREE,
    FREED,
    IN_USE,
    LAST,
    LEFT,
    LEVEL,
    MISSED,
    MISSED_AT,
    NOT_FLOWING,
    NOW,
    RATE,
    RATES,
    SHARES,
    SHARING,
    SINCE,
    SOON,
    TOUCHED,
    WANTED,
    WEIGHT,
    Flows,
    FlowState,
)
from ._heap_kernels import heap_up, sink, take_top

# Levels that differ by less than rounding are one.
_EVEN = 1 + 1e-9
_AHEAD = 8
# Rates stay as they are for so many times the part of their own time that messages may lose: the
# average says little about the few that matter in the end. With 8, a halo of 16,384 tasks takes a
# quarter less time, but single messages of small ones may be 23 % off in place of 7 %.
_FARTHEST = 2


@bare_kernel
def touch(flows: Flows, state: FlowState, m: int) -> None:
    """Note that something began or ended at the places of a message."""
    for h in range(np.int64(state.message[m, FIRST]), np.int64(state.message[m, LAST])):
        q = flows.place[h]
        if not state.is_touched[q]:
            state.is_touched[q] = True
            state.touched[state.counts[TOUCHED]] = q
            state.counts[TOUCHED] += 1


@bare_kernel
def enter(flows: Flows, state: FlowState, m: int) -> None:
    """Let a message flow from now on, and so share its places."""
    state.message[m, BEGUN] = state.clock[NOW]
    state.turn[m] = state.counts[SHARES] & 1
    for h in range(np.int64(state.message[m, FIRST]), np.int64(state.message[m, LAST])):
        q = flows.place[h]
        state.sharer[flows.sharers[q] + state.n_sharers[q]] = m
        state.n_sharers[q] += 1
    touch(flows, state, m)
    # It has missed nothing yet.
    state.clock[MISSED] *= state.counts[ACTIVE] / (state.counts[ACTIVE] + 1)
    state.clock[BEGAN] += state.clock[NOW]
    state.counts[ACTIVE] += 1
    state.counts[CHANGED] = 1
    state.counts[BEGUN_SINCE] = 1


@bare_kernel
def leave(flows: Flows, state: FlowState, m: int, error: float) -> None:
    """Let a message flow no more, and find until when the others can do without what it leaves.

    They miss what it had from now on, until rates are worked out anew: that is due when they have
    missed the part ``error`` of the time for which they have flowed, on average.
    """
    clock, counts = state.clock, state.counts
    state.turn[m] = NOT_FLOWING
    touch(flows, state, m)
    clock[BEGAN] -= state.message[m, BEGUN]
    counts[ACTIVE] -= 1
    if counts[ACTIVE] == 0:
        return
    now = clock[NOW]
    miss(state)
    clock[FREED] += state.message[m, RATE]
    rest = clock[RATES] - clock[FREED]
    a_second = clock[FREED] / rest if rest > 0 else np.inf
    spare = error * (now - clock[BEGAN] / counts[ACTIVE]) - clock[MISSED]
    if a_second > error:
        clock[DEADLINE] = min(clock[DEADLINE], now + max(spare, 0.0) / (a_second - error))


@bare_kernel
def miss(state: FlowState) -> None:
    """Add up what the messages that flow have missed."""
    clock = state.clock
    passed = clock[NOW] - clock[MISSED_AT]
    rest = clock[RATES] - clock[FREED]
    if clock[FREED] > 0 and rest > 0:
        clock[MISSED] += passed * clock[FREED] / rest
    clock[MISSED_AT] = clock[NOW]


@bare_kernel
def share(flows: Flows, state: FlowState, error: float) -> None:
    """Work out the rates: the shares of each place by weight, what one cannot use for the others.

    The place with the lowest level is full next: its messages get that level, for their weight, and
    what they take is no longer free elsewhere. What others have taken since a level was worked out
    can only have raised it, so that levels are looked at again when they are the lowest; up to the
    part ``error`` of it, the order of places does not matter. Where messages have only ended since,
    a place is not looked at before it has come near to its last level.
    """
    counts = state.counts
    for k in range(counts[TOUCHED]):
        _refresh(flows, state, state.touched[k])
    counts[TOUCHED] = 0
    # Levels may fall where messages begin, and a little where they end.
    known = (1 - 2 * error) * (error > 0 and not counts[BEGUN_SINCE])
    size = counts[IN_USE]
    for k in range(size):
        q = state.in_use[k]
        state.shared[q, FREE] = flows.capacity[q]
        state.shared[q, WANTED] = state.total[q]
        state.shared[q, SHARING] = state.n_sharers[q]
        level = flows.capacity[q] / state.total[q]
        state.height[k] = max(level, known * state.shared[q, LEVEL])
        # Known again only if the place is full again: else it would stay as it once was.
        state.shared[q, LEVEL] = 0.0
        state.lowest[k] = q
    heap_up(state.height, state.lowest, size)
    miss(state)
    clock = state.clock
    counts[SHARES] += 1
    counts[SOON] = 0
    clock[RATES] = clock[FREED] = 0.0
    own = clock[NOW] - clock[BEGAN] / max(counts[ACTIVE], 1)
    clock[DEADLINE] = clock[NOW] + _FARTHEST * error * own
    clock[FIRST_END] = np.inf
    _fill(flows, state, size, error)
    clock[DEADLINE] = max(clock[DEADLINE], clock[FIRST_END])
    _keep_soon(state)
    clock[SINCE] = clock[NOW]
    counts[CHANGED] = 0
    counts[BEGUN_SINCE] = 0


@bare_kernel
def _refresh(flows: Flows, state: FlowState, q: int) -> None:
    """Drop the messages of a place that have ended, and add up the weights of the others."""
    begin = flows.sharers[q]
    n = 0
    total = 0.0
    for i in range(begin, begin + state.n_sharers[q]):
        m = state.sharer[i]
        if state.turn[m] != NOT_FLOWING:
            state.sharer[begin + n] = m
            total += state.message[m, WEIGHT]
            n += 1
    state.n_sharers[q] = n
    state.total[q] = total * flows.part
    state.is_touched[q] = False
    last = state.counts[IN_USE] - 1
    if n > 0 and state.use[q] < 0:
        state.use[q] = last + 1
        state.in_use[last + 1] = q
        state.counts[IN_USE] += 1
    elif n == 0 and state.use[q] >= 0:
        state.in_use[state.use[q]] = state.in_use[last]
        state.use[state.in_use[last]] = state.use[q]
        state.use[q] = -1
        state.counts[IN_USE] = last


@bare_kernel
def _fill(flows: Flows, state: FlowState, size: int, error: float) -> None:
    """Give the messages their rates: those of the lowest place next, again and again."""
    height, lowest = state.height, state.lowest
    turn = state.counts[SHARES] & 1
    reached = 0.0
    left = state.counts[ACTIVE]
    while left > 0:
        key, q = height[0], lowest[0]
        if state.shared[q, SHARING] <= 0:
            size -= 1
            take_top(height, lowest, size)
            continue
        level = reached
        if state.shared[q, WANTED] > 0:
            level = state.shared[q, FREE] / state.shared[q, WANTED]
        others = np.inf
        if size > 1:
            others = height[1]
        if size > 2:
            others = min(others, height[2])
        if level > max(key * _EVEN, others * (1 + error)):
            sink(height, lowest, size, 0, level, q)
            continue
        size -= 1
        take_top(height, lowest, size)
        # Rounding must not let a level fall to nothing.
        level = max(level, reached if error == 0 else reached / 2)
        reached = max(reached, level)
        state.shared[q, LEVEL] = level
        n = _list_without(flows, state, q, turn)
        for i in range(n):
            soon = state.without[min(i + _AHEAD, n - 1)]
            prefetch(flows.place, np.int64(state.message[soon, FIRST]))
            m = state.without[i]
            # A place may list a message twice.
            if state.turn[m] != turn:
                state.turn[m] = turn
                _give(flows, state, m, level * state.message[m, WEIGHT])
                left -= 1


@bare_kernel
def _list_without(flows: Flows, state: FlowState, q: int, turn: int) -> int:
    """List the messages of a place without a rate; return how many they are."""
    begin = flows.sharers[q]
    n = 0
    for i in range(begin, begin + state.n_sharers[q]):
        m = state.sharer[i]
        state.without[n] = m
        if state.turn[m] != turn:
            prefetch(state.message, np.int64(m) * 8)
            n += 1
    return n


@bare_kernel
def _keep_soon(state: FlowState) -> None:
    """Keep those of the messages noted that end before the deadline, as a heap."""
    n = 0
    for i in range(state.counts[SOON]):
        if state.soon_end[i] <= state.clock[DEADLINE]:
            state.soon[n], state.soon_end[n] = state.soon[i], state.soon_end[i]
            n += 1
    state.counts[SOON] = n
    heap_up(state.soon_end, state.soon, n)


@bare_kernel
def _give(flows: Flows, state: FlowState, m: int, rate: float) -> None:
    """Give a message its rate everywhere; note it if it may be among the first to end."""
    message, now = state.message, state.clock[NOW]
    message[m, LEFT] -= message[m, RATE] * (now - state.clock[SINCE])
    message[m, RATE] = rate
    clock, counts = state.clock, state.counts
    clock[RATES] += rate
    end = now + max(message[m, LEFT], 0.0) / rate
    clock[FIRST_END] = min(clock[FIRST_END], end)
    if end <= max(clock[DEADLINE], clock[FIRST_END]):
        state.soon[counts[SOON]] = m
        state.soon_end[counts[SOON]] = end
        counts[SOON] += 1
    taken, wanted = rate * flows.part, message[m, WEIGHT] * flows.part
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        q = flows.place[h]
        state.shared[q, SHARING] -= 1
        state.shared[q, FREE] = max(state.shared[q, FREE] - taken, 0.0)
        state.shared[q, WANTED] -= wanted
