"""Kernels of max-min fairness: what each message gets of the places that it shares with others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel
from toruscast._llvm import prefetch

# Fields of the clock and of the counts. Rates were computed at SHARED and are computed again at
# DEADLINE at the latest, or at DUE if nothing changes before. CHANGED is the part of the messages
# that began since SHARED, and the part of RATES, all bytes a second at SHARED, of those that ended.
# FIRST_END is when the first message ends, BEGINNINGS sums the times when those that flow began,
# BRIEFNESS is their mean 1 / duration. MOVES messages began or ended since SHARED, and MOMENTS sums
# the seconds from SHARED to each. STAMP is the number of the last rates modulo 2.
NOW, DEADLINE, SHARED, DUE, RATES, CHANGED = range(6)
FIRST_END, BEGINNINGS, BRIEFNESS, MOVES, MOMENTS = range(6, 11)
CLOCK_FIELDS = 11
EVENTS, ACTIVE, ARRIVED, SOON, STAMP = range(5)
COUNTS = 5
# Fields of a message, one cache line: weight, bytes a second, bytes left at SHARED, when it began,
# where its places begin and end in `place`, the place that holds it up, when it arrived.
WEIGHT, RATE, LEFT, BEGUN, FIRST, LAST, HOLDER, CAME = range(8)
MESSAGE_FIELDS = 8
# A message that flows has the STAMP of its last rate, at first that of those before it began.
NOT_FLOWING = 2
# Fields of a place: bytes a second that no message has, and the weights of those without a rate.
FREE, WANTED = range(2)
# More of a place: the number and the weights of its messages, the level and the weights of those
# that it holds, the weights of those that began or ended since SHARED, their sum times the seconds
# after SHARED, and the seconds from then to NOW on average.
NUMBER, TOTAL, LEVEL, HELD, MOVED, MOMENT, ELAPSED = range(7)
PLACE_FIELDS = 7


class Flows(NamedTuple):
    """What stays as it is. Messages stand in the order of task, round and turn."""

    round: NDArray[np.int64]  # (M,)
    task: NDArray[np.int32]  # (M,)
    receiver: NDArray[np.int32]  # (M,) task
    software: NDArray[np.float64]  # (M,) seconds
    copying: NDArray[np.float64]  # (M,) seconds within the node, below 0 for the others
    asking: NDArray[np.float64]  # (M,) seconds of a question, as of its answer, below 0 for none
    latency: NDArray[np.float64]  # (M,) seconds
    place: NDArray[np.int32]  # (H,)
    part: float  # of a message that goes to each of its places; some are listed twice
    capacity: NDArray[np.float64]  # (Q,) bytes a second
    sharers: NDArray[np.int64]  # (Q + 1,) where the messages of a place begin in `sharer`
    thread: NDArray[np.int64]  # (T,) that hands over a task's messages


class FlowState(NamedTuple):
    """What changes."""

    clock: NDArray[np.float64]  # (CLOCK_FIELDS,)
    counts: NDArray[np.int64]  # (COUNTS,)
    missing: NDArray[np.int32]  # (R, T) what a task still waits for in a round
    entered: NDArray[np.int64]  # (T,) round
    following: NDArray[np.int64]  # (T + 1,) next message to hand over
    free: NDArray[np.float64]  # (threads,) when
    asked: NDArray[np.int64]  # (T,) a message that waits for the receiver's round
    behind: NDArray[np.int64]  # (M,) another
    handed_over: NDArray[np.float64]  # (M,)
    message: NDArray[np.float64]  # (M, MESSAGE_FIELDS)
    stamp: NDArray[np.uint8]  # (M,) NOT_FLOWING, or the number of its rate modulo 2
    event_time: NDArray[np.float64]  # (M + T,) a heap
    event: NDArray[np.int64]  # (M + T,) message or task, and what happens
    shared: NDArray[np.float64]  # (Q, 2) by the fields above
    moved: NDArray[np.float64]  # (Q, PLACE_FIELDS)
    sharer: NDArray[np.int32]  # (H,) messages that flow or have ended, place by place
    n_sharers: NDArray[np.int64]  # (Q,)
    without: NDArray[np.int32]  # those of a place that have no rate yet
    lowest: NDArray[np.int64]  # (Q,) places, a heap by `height`
    height: NDArray[np.float64]  # (Q,) their levels, or less
    soon: NDArray[np.int64]  # (M,) messages that end before DUE, a heap
    soon_end: NDArray[np.float64]  # (M,) when they end


# Levels that differ by less than rounding are one.
_EVEN = 1 + 1e-9
_AHEAD = 8
# Rates are computed again when CHANGED is over _CHANGE, when the part _AGE of the mean age or the
# part _DURATION of the mean duration has passed, or when a message has waited the part _WAIT of the
# time that it would take. Each part is in errors, and at most _MOST.
_CHANGE, _AGE, _DURATION, _WAIT, _MOST = 10, 10, 2, 2, 0.5


@bare_kernel
def enter(flows: Flows, state: FlowState, m: int, error: float) -> None:
    """Let a message flow from now on; it gets a rate when it has waited a part of its own time."""
    counts, clock, message, moved = state.counts, state.clock, state.message, state.moved
    weight = message[m, WEIGHT]
    message[m, BEGUN] = clock[NOW]
    clock[BEGINNINGS] += clock[NOW]
    state.stamp[m] = counts[STAMP]
    level = np.inf
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        q = flows.place[h]
        state.sharer[flows.sharers[q] + state.n_sharers[q]] = m
        state.n_sharers[q] += 1
        _move(state, q, weight * flows.part, 1)
        had = state.shared[q, FREE] + moved[q, LEVEL] * moved[q, HELD]
        fair = flows.capacity[q] / moved[q, TOTAL]
        level = min(level, max(fair, had / (moved[q, HELD] + moved[q, MOVED])))
    # At the levels of its places as they are.
    wait = min(_WAIT * error, _MOST) * message[m, LEFT] / (weight * level)
    clock[DEADLINE] = min(clock[DEADLINE], clock[NOW] + wait)
    _change(state, 1.0 / max(counts[ACTIVE], 1), error)
    counts[ACTIVE] += 1


@bare_kernel
def leave(flows: Flows, state: FlowState, m: int, error: float) -> None:
    """Let a message flow no more; what it had is shared when enough has been freed."""
    message = state.message
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        q = flows.place[h]
        state.shared[q, FREE] += message[m, RATE] * flows.part
        _move(state, q, message[m, WEIGHT] * flows.part, -1)
    _change(state, message[m, RATE] / state.clock[RATES], error)
    state.clock[BEGINNINGS] -= message[m, BEGUN]
    state.stamp[m] = NOT_FLOWING
    state.counts[ACTIVE] -= 1


@bare_kernel
def _move(state: FlowState, q: int, weight: float, more: int) -> None:
    """Note that a message of a place begins or ends now."""
    moved = state.moved
    moved[q, NUMBER] += more
    moved[q, TOTAL] += more * weight
    moved[q, MOVED] += weight
    moved[q, MOMENT] += weight * (state.clock[NOW] - state.clock[SHARED])


@bare_kernel
def _change(state: FlowState, part: float, error: float) -> None:
    """Count a message that begins or ends now; it is a part of all."""
    clock = state.clock
    clock[MOVES] += 1
    clock[MOMENTS] += clock[NOW] - clock[SHARED]
    clock[CHANGED] += part
    if clock[CHANGED] > min(_CHANGE * error, _MOST):
        clock[DEADLINE] = clock[NOW]


@bare_kernel
def share(flows: Flows, state: FlowState, error: float) -> None:
    """Work out the rates of all messages that flow, and when these end."""
    counts, clock = state.counts, state.clock
    counts[STAMP] = 1 - counts[STAMP]
    age = clock[NOW] - clock[BEGINNINGS] / counts[ACTIVE]
    step = min(_AGE * error, _MOST) * age
    if clock[BRIEFNESS] > 0:
        step = min(step, min(_DURATION * error, _MOST) / clock[BRIEFNESS])
    clock[DUE] = clock[NOW] + step
    clock[FIRST_END] = np.inf
    clock[RATES] = clock[BRIEFNESS] = 0.0
    counts[SOON] = 0
    _fill(flows, state, _empty(flows, state), error)
    heap_up(state.soon_end, state.soon, counts[SOON])
    clock[BRIEFNESS] /= counts[ACTIVE]
    clock[SHARED] = clock[NOW]
    clock[DEADLINE] = max(clock[DUE], clock[FIRST_END])
    clock[CHANGED] = clock[MOVES] = clock[MOMENTS] = 0.0


@bare_kernel
def _empty(flows: Flows, state: FlowState) -> int:
    """Make all places free, and list those that have messages as a heap; return their number."""
    clock, shared, moved = state.clock, state.shared, state.moved
    past = clock[NOW] - clock[SHARED]
    average = past - clock[MOMENTS] / max(clock[MOVES], 1)
    size = 0
    for q in range(flows.capacity.size):
        shared[q, FREE], shared[q, WANTED] = flows.capacity[q], moved[q, TOTAL]
        moved[q, ELAPSED] = average
        if moved[q, MOVED] > 0:
            moved[q, ELAPSED] = past - moved[q, MOMENT] / moved[q, MOVED]
        moved[q, LEVEL] = moved[q, HELD] = moved[q, MOVED] = moved[q, MOMENT] = 0.0
        if moved[q, NUMBER] > 0:
            state.lowest[size] = q
            state.height[size] = flows.capacity[q] / moved[q, TOTAL]
            size += 1
        else:
            # Rounding leaves a little.
            moved[q, TOTAL] = 0.0
            state.n_sharers[q] = 0
    heap_up(state.height, state.lowest, size)
    return size


@bare_kernel
def _fill(flows: Flows, state: FlowState, size: int, error: float) -> None:
    """Give all messages their rates: those of the lowest place next, again and again."""
    height, lowest, shared, message = state.height, state.lowest, state.shared, state.message
    reached = 0.0
    left = state.counts[ACTIVE]
    while left > 0:
        key, q = height[0], lowest[0]
        level = reached
        if shared[q, WANTED] > 0:
            level = max(shared[q, FREE], 0.0) / shared[q, WANTED]
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
        n = _list_without(flows, state, q)
        if n == 0:
            continue
        # Rounding must not let a level fall to nothing.
        level = max(level, reached if error == 0 else reached / 2)
        reached = max(reached, level)
        state.moved[q, LEVEL], state.moved[q, HELD] = level, shared[q, WANTED]
        for i in range(n):
            soon = state.without[min(i + _AHEAD, n - 1)]
            first = np.int64(message[soon, FIRST])
            prefetch(flows.place, first)
            prefetch(flows.place, first + 16)
            m = state.without[i]
            # A place may list a message twice.
            if state.stamp[m] != state.counts[STAMP]:
                state.stamp[m] = state.counts[STAMP]
                _give(flows, state, m, q, level * message[m, WEIGHT])
                left -= 1


@bare_kernel
def _list_without(flows: Flows, state: FlowState, q: int) -> int:
    """List the messages of a place without a rate; return how many they are."""
    sharer, without, stamp = state.sharer, state.without, state.stamp
    n = kept = 0
    begin = flows.sharers[q]
    for i in range(begin, begin + state.n_sharers[q]):
        m = sharer[i]
        if stamp[m] == NOT_FLOWING:
            continue
        sharer[begin + kept] = m
        kept += 1
        without[n] = m
        if stamp[m] != state.counts[STAMP]:
            prefetch(state.message, np.int64(m) * MESSAGE_FIELDS)
            n += 1
    state.n_sharers[q] = kept
    return n


@bare_kernel
def _give(flows: Flows, state: FlowState, m: int, q: int, rate: float) -> None:
    """Give a message its rate everywhere, and take off what it has sent since the last one."""
    message, clock, counts = state.message, state.clock, state.counts
    had = message[m, RATE]
    if had > 0:
        elapsed = state.moved[q, ELAPSED]
        if rate > had:
            elapsed = min(elapsed, state.moved[np.int64(message[m, HOLDER]), ELAPSED])
        message[m, LEFT] -= had * (clock[NOW] - clock[SHARED]) + (rate - had) * elapsed
    else:
        message[m, LEFT] -= rate * (clock[NOW] - message[m, BEGUN])
    message[m, RATE], message[m, HOLDER] = rate, q
    clock[RATES] += rate
    end = clock[NOW] + message[m, LEFT] / rate
    clock[BRIEFNESS] += 1 / max(end - message[m, BEGUN], 1e-30)
    if end <= max(clock[DUE], clock[FIRST_END]):
        if end < clock[FIRST_END]:
            # Those listed end after the next rates are due.
            if clock[FIRST_END] > clock[DUE]:
                counts[SOON] = 0
            clock[FIRST_END] = end
        state.soon[counts[SOON]], state.soon_end[counts[SOON]] = m, end
        counts[SOON] += 1
    taken, wanted = rate * flows.part, message[m, WEIGHT] * flows.part
    shared, place = state.shared, flows.place
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        shared[place[h], FREE] -= taken
        shared[place[h], WANTED] -= wanted


@bare_kernel
def rise(
    key: NDArray[np.float64], what: NDArray[np.int64], size: int, new: float, item: int
) -> None:
    """Put an item into a heap of a size."""
    i = size
    while i > 0:
        above = (i - 1) >> 1
        if key[above] <= new:
            break
        key[i] = key[above]
        what[i] = what[above]
        i = above
    key[i] = new
    what[i] = item


@bare_kernel
def sink(
    key: NDArray[np.float64], what: NDArray[np.int64], size: int, place: int, new: float, item: int
) -> None:
    """Put an item at a place of a heap of a size, or below it, where a lower key must go up."""
    i = place
    while 2 * i + 1 < size:
        below = 2 * i + 1
        if below + 1 < size and key[below + 1] < key[below]:
            below += 1
        if new <= key[below]:
            break
        key[i] = key[below]
        what[i] = what[below]
        i = below
    key[i] = new
    what[i] = item


@bare_kernel
def take_top(key: NDArray[np.float64], what: NDArray[np.int64], size: int) -> None:
    """Take the top out of a heap, which leaves it a size."""
    sink(key, what, size, 0, key[size], what[size])


@bare_kernel
def heap_up(key: NDArray[np.float64], what: NDArray[np.int64], size: int) -> None:
    """Make a heap of items in any order."""
    for i in range(size // 2 - 1, -1, -1):
        sink(key, what, size, i, key[i], what[i])
