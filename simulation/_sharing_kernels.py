"""Kernels of max-min fairness: what each message gets of the places that it shares with others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel
from toruscast._llvm import prefetch

# Fields of the clock and of the counts. Rates were computed at SHARED and are computed again at
# DEADLINE at the latest, or at DUE if a message begins before. All messages that flow get RATES
# bytes a second, and those that ended since SHARED had FREED. BEGAN is the sum of the times when
# those that flow began. Since SHARED, MOVES messages began or ended; MOMENTS is the sum of the
# seconds from SHARED to each.
NOW, DEADLINE, RATES, FREED, BEGAN, SHARED, DUE, MOVES, MOMENTS = range(9)
EVENTS, ACTIVE, CHANGED, ARRIVED, SOON, NEWCOMERS = range(6)
# Fields of a message: bytes a second, bytes left at SHARED, when it began, when it arrived.
RATE, LEFT, BEGUN, CAME = range(4)
# Whether a message has a rate.
RATED, WITHOUT, NOT_FLOWING = range(3)
# Fields of a place: bytes a second that no message has, and the weights of those without a rate.
FREE, WANTED = range(2)
# More of a place: the level and the weights of the messages that it holds, the weights of those
# that began or ended since SHARED, their sum times the seconds after SHARED, and the seconds from
# then to NOW on average.
LEVEL, HELD, MOVED, MOMENT, ELAPSED = range(5)


class Flows(NamedTuple):
    """What stays as it is. Messages stand in the order of task, round and turn."""

    round: NDArray[np.int64]  # (M,)
    task: NDArray[np.int32]  # (M,)
    receiver: NDArray[np.int32]  # (M,) task
    software: NDArray[np.float64]  # (M,) seconds
    copying: NDArray[np.float64]  # (M,) seconds within the node, below 0 for the others
    asking: NDArray[np.float64]  # (M,) seconds of a question, as of its answer, below 0 for none
    latency: NDArray[np.float64]  # (M,) seconds
    weight: NDArray[np.float64]  # (M,)
    first: NDArray[np.int64]  # (M + 1,) where the places of a message begin in `place`
    place: NDArray[np.int32]  # (H,)
    part: float  # of a message that goes to each of its places; some are listed twice
    capacity: NDArray[np.float64]  # (Q,) bytes a second
    sharers: NDArray[np.int64]  # (Q + 1,) where the messages of a place begin in `sharer`
    thread: NDArray[np.int64]  # (T,) that hands over a task's messages


class FlowState(NamedTuple):
    """What changes."""

    clock: NDArray[np.float64]  # (9,) by the fields above
    counts: NDArray[np.int64]  # (6,)
    missing: NDArray[np.int32]  # (R, T) what a task still waits for in a round
    entered: NDArray[np.int64]  # (T,) round
    following: NDArray[np.int64]  # (T + 1,) next message to hand over
    free: NDArray[np.float64]  # (threads,) when
    asked: NDArray[np.int64]  # (T,) a message that waits for the receiver's round
    behind: NDArray[np.int64]  # (M,) another
    handed_over: NDArray[np.float64]  # (M,)
    message: NDArray[np.float64]  # (M, 4) by the fields above
    turn: NDArray[np.uint8]  # (M,) RATED, WITHOUT or NOT_FLOWING
    event_time: NDArray[np.float64]  # (M + T,) a heap
    event: NDArray[np.int64]  # (M + T,) message or task, and what happens
    shared: NDArray[np.float64]  # (Q, 2) by the fields above
    moved: NDArray[np.float64]  # (Q, 5) by the fields above
    flowing: NDArray[np.float64]  # (M,) weight while it flows, else 0
    holder: NDArray[np.int32]  # (M,) place that holds a message
    sharer: NDArray[np.int32]  # (H,) messages that flow, place by place
    n_sharers: NDArray[np.int64]  # (Q,)
    newcomer: NDArray[np.int64]  # (M,) messages that flow and have no rate yet
    without: NDArray[np.int32]  # those of a place that have no rate yet
    lowest: NDArray[np.int64]  # (Q,) places, a heap by `height`
    height: NDArray[np.float64]  # (Q,) their levels, or less
    soon: NDArray[np.int64]  # (M,) messages with rates, a heap
    soon_end: NDArray[np.float64]  # (M,) when they end


# Levels that differ by less than rounding are one.
_EVEN = 1 + 1e-9
_AHEAD = 8
# Rates are computed again when the messages that ended had this part of all rates, or those that
# began are this part of all; when this part of the mean age has passed; or when a message has
# waited this part of the time that it would take. Each part is in errors, and at most _MOST.
_CHANGE, _AGE, _WAIT, _MOST = 10, 10, 2, 0.5


@bare_kernel
def enter(flows: Flows, state: FlowState, m: int, error: float) -> None:
    """Let a message flow from now on; it gets a rate when it has waited a part of its own time."""
    counts, clock = state.counts, state.clock
    weight = flows.weight[m]
    state.message[m, BEGUN] = clock[NOW]
    state.turn[m], state.flowing[m] = WITHOUT, weight
    state.newcomer[counts[NEWCOMERS]] = m
    counts[NEWCOMERS] += 1
    counts[ACTIVE] += 1
    clock[BEGAN] += clock[NOW]
    level = np.inf
    for h in range(flows.first[m], flows.first[m + 1]):
        q = flows.place[h]
        state.sharer[flows.sharers[q] + state.n_sharers[q]] = m
        state.n_sharers[q] += 1
        _move(state, q, weight * flows.part)
        had = state.shared[q, FREE] + state.moved[q, LEVEL] * state.moved[q, HELD]
        fair = flows.capacity[q] / (state.n_sharers[q] * weight * flows.part)
        level = min(level, max(fair, had / (state.moved[q, HELD] + state.moved[q, MOVED])))
    _count_move(state)
    # At the levels of its places as they are.
    wait = min(_WAIT * error, _MOST) * state.message[m, LEFT] / (weight * level)
    due = min(max(clock[DUE], clock[NOW]), clock[NOW] + wait)
    clock[DEADLINE] = min(clock[DEADLINE], due)
    if counts[NEWCOMERS] > min(_CHANGE * error, _MOST) * counts[ACTIVE]:
        counts[CHANGED] = 1


@bare_kernel
def leave(flows: Flows, state: FlowState, m: int, error: float) -> None:
    """Let a message flow no more; what it had is shared when enough has been freed."""
    clock, counts, message = state.clock, state.counts, state.message
    for h in range(flows.first[m], flows.first[m + 1]):
        state.shared[flows.place[h], FREE] += message[m, RATE] * flows.part
        _move(state, flows.place[h], flows.weight[m] * flows.part)
    _count_move(state)
    state.turn[m], state.flowing[m] = NOT_FLOWING, 0.0
    clock[BEGAN] -= message[m, BEGUN]
    clock[RATES] -= message[m, RATE]
    clock[FREED] += message[m, RATE]
    counts[ACTIVE] -= 1
    if clock[FREED] > min(_CHANGE * error, _MOST) * (clock[RATES] + clock[FREED]):
        counts[CHANGED] = 1


@bare_kernel
def _move(state: FlowState, q: int, weight: float) -> None:
    """Note that a message of a place begins or ends now."""
    state.moved[q, MOVED] += weight
    state.moved[q, MOMENT] += weight * (state.clock[NOW] - state.clock[SHARED])


@bare_kernel
def _count_move(state: FlowState) -> None:
    """Count a message that begins or ends now."""
    state.clock[MOVES] += 1
    state.clock[MOMENTS] += state.clock[NOW] - state.clock[SHARED]


@bare_kernel
def share(flows: Flows, state: FlowState, error: float) -> None:
    """Work out the rates of all messages that flow, and when these end."""
    counts, clock = state.counts, state.clock
    for i in range(counts[NEWCOMERS]):
        state.soon[counts[SOON] + i] = state.newcomer[i]
    counts[SOON] = counts[ACTIVE]
    for i in range(counts[SOON]):
        state.turn[state.soon[i]] = WITHOUT
    clock[RATES] = 0.0
    _fill(flows, state, _empty(flows, state), error)
    first = np.inf
    n_first = 0
    for i in range(counts[SOON]):
        m = state.soon[i]
        end = clock[NOW] + state.message[m, LEFT] / state.message[m, RATE]
        state.soon_end[i] = end
        if error == 0:
            if end < first:
                first, n_first = end, 0
            place = n_first if end == first else i
            state.soon[i], state.soon_end[i] = state.soon[place], state.soon_end[place]
            state.soon[place], state.soon_end[place] = m, end
            n_first += end == first
    if error > 0:
        heap_up(state.soon_end, state.soon, counts[SOON])
    counts[NEWCOMERS] = counts[CHANGED] = 0
    clock[FREED] = clock[MOVES] = clock[MOMENTS] = 0.0
    clock[SHARED] = clock[NOW]
    own = clock[NOW] - clock[BEGAN] / max(counts[ACTIVE], 1)
    clock[DUE] = clock[DEADLINE] = clock[NOW] + min(_AGE * error, _MOST) * own
    if counts[SOON]:
        clock[DEADLINE] = max(clock[DEADLINE], state.soon_end[0])


@bare_kernel
def _empty(flows: Flows, state: FlowState) -> int:
    """Make all places free, and list those that have messages as a heap; return their number."""
    clock, shared, moved = state.clock, state.shared, state.moved
    sharer, flowing = state.sharer, state.flowing
    past = clock[NOW] - clock[SHARED]
    average = past - clock[MOMENTS] / max(clock[MOVES], 1)
    size = 0
    for q in range(flows.capacity.size):
        begin = flows.sharers[q]
        n, total = 0, 0.0
        for i in range(begin, begin + state.n_sharers[q]):
            m = sharer[i]
            if flowing[m] > 0:
                sharer[begin + n] = m
                n += 1
                total += flowing[m]
        state.n_sharers[q] = n
        shared[q, FREE], shared[q, WANTED] = flows.capacity[q], total * flows.part
        moved[q, ELAPSED] = average
        if moved[q, MOVED] > 0:
            moved[q, ELAPSED] = past - moved[q, MOMENT] / moved[q, MOVED]
        moved[q, LEVEL] = moved[q, HELD] = moved[q, MOVED] = moved[q, MOMENT] = 0.0
        if n:
            state.lowest[size] = q
            state.height[size] = flows.capacity[q] / shared[q, WANTED]
            size += 1
    heap_up(state.height, state.lowest, size)
    return size


@bare_kernel
def _fill(flows: Flows, state: FlowState, size: int, error: float) -> None:
    """Give all messages their rates: those of the lowest place next, again and again."""
    height, lowest, shared = state.height, state.lowest, state.shared
    reached = 0.0
    left = state.counts[SOON]
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
            soon = flows.first[state.without[min(i + _AHEAD, n - 1)]]
            prefetch(flows.place, soon)
            prefetch(flows.place, soon + 16)
            m = state.without[i]
            # A place may list a message twice.
            if state.turn[m] == WITHOUT:
                state.turn[m] = RATED
                _give(flows, state, m, q, level * flows.weight[m])
                left -= 1


@bare_kernel
def _list_without(flows: Flows, state: FlowState, q: int) -> int:
    """List the messages of a place without a rate; return how many they are."""
    sharer, without, turn = state.sharer, state.without, state.turn
    n = 0
    for i in range(flows.sharers[q], flows.sharers[q] + state.n_sharers[q]):
        m = sharer[i]
        without[n] = m
        if turn[m] == WITHOUT:
            prefetch(state.message, np.int64(m) * 4)
            n += 1
    return n


@bare_kernel
def _give(flows: Flows, state: FlowState, m: int, q: int, rate: float) -> None:
    """Give a message its rate everywhere, and take off what it has sent since the last one."""
    message, clock = state.message, state.clock
    had = message[m, RATE]
    elapsed = clock[NOW] - message[m, BEGUN]
    if had > 0:
        message[m, LEFT] -= had * (clock[NOW] - clock[SHARED])
        elapsed = state.moved[q, ELAPSED]
        if rate > had:
            elapsed = min(elapsed, state.moved[state.holder[m], ELAPSED])
    message[m, LEFT] -= (rate - had) * elapsed
    message[m, RATE], state.holder[m] = rate, q
    clock[RATES] += rate
    taken, wanted = rate * flows.part, flows.weight[m] * flows.part
    shared, place = state.shared, flows.place
    for h in range(flows.first[m], flows.first[m + 1]):
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
