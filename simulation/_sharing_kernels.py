"""Kernels of max-min fairness: what each message gets of the places that it shares with others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel
from toruscast._llvm import prefetch

# Places of the clock, and of the counts. Rates are to be worked out again at DEADLINE at the
# latest. All messages that flow get RATES bytes a second, and those that ended since have left
# FREED. BEGAN is the sum of when those that flow began.
NOW, DEADLINE, RATES, FREED, BEGAN = range(5)
EVENTS, ACTIVE, CHANGED, ARRIVED, TOUCHED, SOON, NEWCOMERS, LISTED, FILLED = range(9)
# What is known of a message, in one cache line: weight, bytes a second, bytes left when it got that
# rate, when that was, when it began, where its places begin and end in `place`, when it arrived.
WEIGHT, RATE, LEFT, AT, BEGUN, FIRST, LAST, CAME = range(8)
# Whether a message has a rate; one that was given in this round of sharing may change.
RATED, WITHOUT, LISTED_ONCE, NOT_FLOWING = range(4)
# What is known of a place: bytes a second that nobody has, the weights and the number of the
# messages without a rate, and the level of those that it holds, inf for none.
FREE, WANTED, SHARING, LEVEL = range(4)


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

    clock: NDArray[np.float64]  # (5,) by the places above
    counts: NDArray[np.int64]  # (9,)
    missing: NDArray[np.int32]  # (R, T) what a task still waits for in a round
    entered: NDArray[np.int64]  # (T,) round
    following: NDArray[np.int64]  # (T + 1,) next message to hand over
    free: NDArray[np.float64]  # (threads,) when
    asked: NDArray[np.int64]  # (T,) a message that waits for the receiver's round
    behind: NDArray[np.int64]  # (M,) another
    handed_over: NDArray[np.float64]  # (M,)
    message: NDArray[np.float64]  # (M, 8) by the columns above
    turn: NDArray[np.uint8]  # (M,) RATED, WITHOUT or NOT_FLOWING
    event_time: NDArray[np.float64]  # (M + T,) a heap
    event: NDArray[np.int64]  # (M + T,) message or task, and what happens
    shared: NDArray[np.float64]  # (Q, 4) by the columns above
    touched: NDArray[np.int32]  # (Q,) places where messages began or ended since
    is_touched: NDArray[np.bool_]  # (Q,)
    total: NDArray[np.float64]  # (Q,) weights of its messages, below 0 where others flow by now
    holder: NDArray[np.int32]  # (M,) place that holds a message
    held_weight: NDArray[np.float64]  # (Q,) of the messages that it holds
    sharer: NDArray[np.int32]  # (2 H,) messages that flow place by place, then those listed
    n_sharers: NDArray[np.int64]  # (Q,)
    listed: NDArray[np.int32]  # (M,) messages that get new rates, first those that have none
    filled: NDArray[np.int32]  # (Q,) their places
    at: NDArray[np.int64]  # (Q,) where their list begins in `sharer`
    n_at: NDArray[np.int64]  # (Q,)
    new_level: NDArray[np.float64]  # (Q,) of a place once it is full, else inf
    without: NDArray[np.int32]  # those of a place that have no rate yet
    lowest: NDArray[np.int64]  # (Q,) places, a heap by `height`
    height: NDArray[np.float64]  # (Q,) their levels, or less
    soon: NDArray[np.int64]  # (M,) messages with rates, a heap
    soon_end: NDArray[np.float64]  # (M,) when they end
    seat: NDArray[np.int32]  # (M,) where a message stands in that heap


# Levels that differ by less than rounding are one.
_EVEN = 1 + 1e-9
_AHEAD = 8
# Rates stay as they are for so many times the part of their own time that messages may lose: the
# average says little about the few that matter in the end.
_FARTHEST = 2
# How much looser each round of filling nearby places is, and up to which part of all messages.
_LOOSER, _MOST = 2.0, 0.3


@bare_kernel
def _touch(state: FlowState, q: int) -> None:
    """Note that a message of a place began or ended."""
    state.total[q] = -1.0
    if not state.is_touched[q]:
        state.is_touched[q] = True
        state.touched[state.counts[TOUCHED]] = q
        state.counts[TOUCHED] += 1


@bare_kernel
def enter(flows: Flows, state: FlowState, m: int) -> None:
    """Let a message flow from now on, and so share its places."""
    counts, clock, message = state.counts, state.clock, state.message
    message[m, BEGUN] = message[m, AT] = clock[NOW]
    state.turn[m] = WITHOUT
    state.listed[counts[NEWCOMERS]] = m
    counts[NEWCOMERS] += 1
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        q = flows.place[h]
        state.sharer[flows.sharers[q] + state.n_sharers[q]] = m
        state.n_sharers[q] += 1
        _touch(state, q)
    clock[BEGAN] += clock[NOW]
    counts[ACTIVE] += 1
    counts[CHANGED] = 1


@bare_kernel
def leave(flows: Flows, state: FlowState, m: int, error: float) -> None:
    """Let a message flow no more.

    The others miss what it had until rates are worked out anew: that is due when they miss twice
    the part ``error``, so that they miss that part on average.
    """
    clock, counts, message = state.clock, state.counts, state.message
    state.turn[m] = NOT_FLOWING
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        state.shared[flows.place[h], FREE] += message[m, RATE] * flows.part
        _touch(state, flows.place[h])
    state.held_weight[state.holder[m]] -= message[m, WEIGHT] * flows.part
    clock[BEGAN] -= message[m, BEGUN]
    clock[RATES] -= message[m, RATE]
    clock[FREED] += message[m, RATE]
    counts[ACTIVE] -= 1
    if clock[FREED] > 2 * error * (clock[RATES] + clock[FREED]):
        counts[CHANGED] = 1


@bare_kernel
def share(flows: Flows, state: FlowState, error: float) -> None:
    """Work out the rates: those of all messages, or of those near the ones that began or ended."""
    counts, clock, shared = state.counts, state.clock, state.shared
    clock[FREED] = 0.0
    counts[LISTED] = counts[NEWCOMERS]
    counts[FILLED] = 0
    near = error > 0 and 2 * counts[NEWCOMERS] < counts[ACTIVE]
    if near:
        for k in range(counts[TOUCHED]):
            q = state.touched[k]
            gap = error * shared[q, LEVEL] * state.held_weight[q]
            if shared[q, FREE] > gap or counts[NEWCOMERS]:
                _open(flows, state, q, np.inf)
        near = _fill_near(flows, state, error)
    if not near:
        _list_all(flows, state)
        _fill(flows, state, error)
    _settle(flows, state, error)
    for k in range(counts[TOUCHED]):
        state.is_touched[state.touched[k]] = False
    counts[TOUCHED] = counts[NEWCOMERS] = counts[CHANGED] = 0
    own = clock[NOW] - clock[BEGAN] / max(counts[ACTIVE], 1)
    clock[DEADLINE] = clock[NOW] + _FARTHEST * error * own
    if counts[SOON]:
        clock[DEADLINE] = max(clock[DEADLINE], state.soon_end[0])


@bare_kernel
def _open(flows: Flows, state: FlowState, q: int, level: float) -> None:
    """List the messages of a place that it holds or that are above a level, for new rates."""
    message, counts = state.message, state.counts
    _drop_ended(flows, state, q)
    begin = flows.sharers[q]
    for i in range(begin, begin + state.n_sharers[q]):
        m = state.sharer[i]
        if state.turn[m] == RATED and (
            state.holder[m] == q
            or (level < np.inf and message[m, RATE] > level * message[m, WEIGHT])
        ):
            state.turn[m] = WITHOUT
            state.listed[counts[LISTED]] = m
            counts[LISTED] += 1
            state.held_weight[state.holder[m]] -= message[m, WEIGHT] * flows.part


@bare_kernel
def _drop_ended(flows: Flows, state: FlowState, q: int) -> None:
    """Drop the messages of a place that have ended."""
    begin = flows.sharers[q]
    n = 0
    for i in range(begin, begin + state.n_sharers[q]):
        m = state.sharer[i]
        if state.turn[m] != NOT_FLOWING:
            state.sharer[begin + n] = m
            n += 1
    state.n_sharers[q] = n


@bare_kernel
def _fill_near(flows: Flows, state: FlowState, error: float) -> bool:
    """Fill places with the messages listed, and with others as long as a place is off."""
    counts, shared = state.counts, state.shared
    spread = 0
    off = error
    while counts[LISTED] <= _MOST * counts[ACTIVE]:
        _spread(flows, state, spread)
        spread = counts[LISTED]
        _fill(flows, state, error)
        for i in range(spread):
            state.turn[state.listed[i]] = LISTED_ONCE
        for k in range(counts[FILLED]):
            q = state.filled[k]
            level = state.new_level[q]
            if level < shared[q, LEVEL] * (1 - off):
                _open(flows, state, q, level * (1 + off))
            elif state.held_weight[q] > 0 and (
                shared[q, FREE] > off * shared[q, LEVEL] * state.held_weight[q]
                or shared[q, LEVEL] * (1 + off) < level < np.inf
            ):
                _open(flows, state, q, np.inf)
        if counts[LISTED] == spread:
            return True
        for i in range(spread):
            state.turn[state.listed[i]] = WITHOUT
        off *= _LOOSER
    return False


@bare_kernel
def _spread(flows: Flows, state: FlowState, known: int) -> None:
    """Take back what the messages listed have, and list them by place; the first are known."""
    counts, message, shared = state.counts, state.message, state.shared
    for i in range(counts[LISTED]):
        m = _coming(flows, state, i)
        had, wanted = message[m, RATE] * flows.part, message[m, WEIGHT] * flows.part
        for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
            q = flows.place[h]
            shared[q, FREE] += had
            shared[q, WANTED] += wanted
            shared[q, SHARING] += 1
            if i >= known:
                if not state.n_at[q]:
                    state.filled[counts[FILLED]] = q
                    counts[FILLED] += 1
                state.n_at[q] += 1
    # Their lists stand behind those of all messages.
    begin = flows.place.size
    for k in range(counts[FILLED]):
        q = state.filled[k]
        state.at[q] = begin
        begin += state.n_at[q]
        state.n_at[q] = 0
    for i in range(counts[LISTED]):
        m = _coming(flows, state, i)
        for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
            q = flows.place[h]
            state.sharer[state.at[q] + state.n_at[q]] = m
            state.n_at[q] += 1


@bare_kernel
def _coming(flows: Flows, state: FlowState, i: int) -> int:
    """Return one of the messages listed, and ask for the next ones."""
    last = state.counts[LISTED] - 1
    prefetch(state.message, np.int64(state.listed[min(i + 2 * _AHEAD, last)]) * 8)
    soon = state.listed[min(i + _AHEAD, last)]
    prefetch(flows.place, np.int64(state.message[soon, FIRST]))
    coming: int = state.listed[i]
    return coming


@bare_kernel
def _list_all(flows: Flows, state: FlowState) -> None:
    """List all messages that flow, and make all places free."""
    counts, shared = state.counts, state.shared
    for i in range(counts[SOON]):
        state.listed[counts[NEWCOMERS] + i] = state.soon[i]
        state.turn[state.soon[i]] = WITHOUT
    counts[LISTED] = counts[NEWCOMERS] + counts[SOON]
    counts[FILLED] = 0
    for q in range(flows.capacity.size):
        if state.total[q] < 0:
            _drop_ended(flows, state, q)
            total = 0.0
            for i in range(flows.sharers[q], flows.sharers[q] + state.n_sharers[q]):
                total += state.message[state.sharer[i], WEIGHT]
            state.total[q] = total * flows.part
        shared[q, FREE] = flows.capacity[q]
        shared[q, WANTED], shared[q, SHARING] = state.total[q], state.n_sharers[q]
        shared[q, LEVEL] = np.inf
        state.held_weight[q] = 0.0
        state.at[q], state.n_at[q] = flows.sharers[q], state.n_sharers[q]
        if state.n_at[q]:
            state.filled[counts[FILLED]] = q
            counts[FILLED] += 1


@bare_kernel
def _fill(flows: Flows, state: FlowState, error: float) -> None:
    """Give the messages listed their rates: those of the lowest place next, again and again."""
    height, lowest, shared, counts = state.height, state.lowest, state.shared, state.counts
    size = counts[FILLED]
    for k in range(size):
        q = state.filled[k]
        state.new_level[q] = np.inf
        lowest[k] = q
        height[k] = max(shared[q, FREE], 0.0) / shared[q, WANTED]
    heap_up(height, lowest, size)
    reached = 0.0
    left = counts[LISTED]
    while left > 0:
        key, q = height[0], lowest[0]
        if shared[q, SHARING] <= 0:
            size -= 1
            take_top(height, lowest, size)
            continue
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
        # Rounding must not let a level fall to nothing.
        level = max(level, reached if error == 0 else reached / 2)
        reached = max(reached, level)
        state.new_level[q] = level
        n = _list_without(flows, state, q)
        for i in range(n):
            soon = state.without[min(i + _AHEAD, n - 1)]
            prefetch(flows.place, np.int64(state.message[soon, FIRST]))
            m = state.without[i]
            # A place may list a message twice.
            if state.turn[m] == WITHOUT:
                state.turn[m] = RATED
                state.holder[m] = q
                _give(flows, state, m, level * state.message[m, WEIGHT])
                left -= 1
    for k in range(counts[FILLED]):
        q = state.filled[k]
        shared[q, WANTED] = shared[q, SHARING] = 0.0


@bare_kernel
def _list_without(flows: Flows, state: FlowState, q: int) -> int:
    """List the messages of a place without a rate; return how many they are."""
    n = 0
    for i in range(state.at[q], state.at[q] + state.n_at[q]):
        m = state.sharer[i]
        state.without[n] = m
        if state.turn[m] == WITHOUT:
            prefetch(state.message, np.int64(m) * 8)
            n += 1
    return n


@bare_kernel
def _give(flows: Flows, state: FlowState, m: int, rate: float) -> None:
    """Give a message its rate everywhere."""
    message, now = state.message, state.clock[NOW]
    message[m, LEFT] -= message[m, RATE] * (now - message[m, AT])
    message[m, AT] = now
    state.clock[RATES] += rate - message[m, RATE]
    message[m, RATE] = rate
    taken, wanted = rate * flows.part, message[m, WEIGHT] * flows.part
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        q = flows.place[h]
        state.shared[q, SHARING] -= 1
        state.shared[q, FREE] -= taken
        state.shared[q, WANTED] -= wanted


@bare_kernel
def _settle(flows: Flows, state: FlowState, error: float) -> None:
    """Note which places hold the messages listed, and when these end."""
    counts, message, shared, now = state.counts, state.message, state.shared, state.clock[NOW]
    for k in range(counts[FILLED]):
        q = state.filled[k]
        # What it holds still or holds now; inf where it holds nothing.
        if state.held_weight[q] <= 1e-9 * shared[q, FREE] or state.new_level[q] < shared[q, LEVEL]:
            shared[q, LEVEL] = state.new_level[q]
        state.n_at[q] = 0
    whole = counts[LISTED] == counts[ACTIVE]
    if whole:
        counts[SOON] = 0
    first = np.inf
    n_first = 0
    for i in range(counts[LISTED]):
        m = state.listed[i]
        end = now + max(message[m, LEFT], 0.0) / message[m, RATE]
        if error == 0:
            if end < first:
                first, n_first = end, 0
            place = n_first if end == first else i
            state.soon[i], state.soon_end[i] = state.soon[place], state.soon_end[place]
            state.soon[place], state.soon_end[place] = m, end
            n_first += end == first
            continue
        state.turn[m] = RATED
        state.held_weight[state.holder[m]] += message[m, WEIGHT] * flows.part
        if whole:
            state.soon[i], state.soon_end[i] = m, end
        elif i < counts[NEWCOMERS]:
            counts[SOON] += 1
            _seat(state, counts[SOON] - 1, end, m)
        else:
            _seat(state, state.seat[m], end, m)
    if whole:
        counts[SOON] = counts[LISTED]
    if whole and error > 0:
        heap_up(state.soon_end, state.soon, counts[SOON])
        for i in range(counts[SOON]):
            state.seat[state.soon[i]] = i


@bare_kernel
def _seat(state: FlowState, i: int, end: float, m: int) -> None:
    """Put a message into the heap of ends at a seat, or where it belongs above or below."""
    soon, soon_end, seat, size = state.soon, state.soon_end, state.seat, state.counts[SOON]
    while i > 0:
        above = (i - 1) >> 1
        if soon_end[above] <= end:
            break
        soon_end[i], soon[i] = soon_end[above], soon[above]
        seat[soon[i]] = i
        i = above
    while 2 * i + 1 < size:
        below = 2 * i + 1
        if below + 1 < size and soon_end[below + 1] < soon_end[below]:
            below += 1
        if end <= soon_end[below]:
            break
        soon_end[i], soon[i] = soon_end[below], soon[below]
        seat[soon[i]] = i
        i = below
    soon_end[i], soon[i], seat[m] = end, m, i


@bare_kernel
def take_next(state: FlowState) -> int:
    """Take the message that ends next."""
    m: int = state.soon[0]
    state.counts[SOON] -= 1
    size = state.counts[SOON]
    if size:
        _seat(state, 0, state.soon_end[size], state.soon[size])
    return m


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
