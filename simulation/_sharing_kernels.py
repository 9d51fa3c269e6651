"""Kernels of max-min fairness: rates of messages that share links, FIFOs and receivers.

Letters in the comments: M messages, T tasks, R rounds, Q resources (links, FIFOs and receivers), H
resources of all messages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel
from toruscast._llvm import prefetch
from toruscast.typing import Floats, Int32s, Ints

# Fields of the clock and of the counts. Rates were computed at SHARED and are computed again by
# DEADLINE, or at DUE without changes. RATES is the sum of all rates at SHARED. CHANGED is the share
# of messages that began since SHARED, plus the share of RATES of messages that ended. FIRST_END is
# the end of the first message. BEGINNINGS is the sum of the begin times of flowing messages, and
# BRIEFNESS is their mean 1 / duration. MOVES messages began or ended since SHARED, and MOMENTS is
# the sum of the seconds from SHARED to each of them. STAMP is the parity of the last computation.
NOW, DEADLINE, SHARED, DUE, RATES, CHANGED = range(6)
FIRST_END, BEGINNINGS, BRIEFNESS, MOVES, MOMENTS = range(6, 11)
CLOCK_FIELDS = 11
EVENTS, ACTIVE, ARRIVED, N_ENDING, STAMP = range(5)
COUNTS = 5
# Fields of a message, one cache line: weight, bytes a second, bytes left at SHARED, begin time,
# begin and end of its entries in `resource`, the resource that limits its rate, and arrival time.
WEIGHT, RATE, LEFT, BEGUN, FIRST, LAST, BOTTLENECK, ARRIVED_AT = range(8)
MESSAGE_FIELDS = 8
# A flowing message has the STAMP of its last rate, initially that of the rates before its begin.
NOT_FLOWING = 2
# Fields of a resource: free bytes a second, and the weight of messages without a rate.
FREE, WANTED = range(2)
# More fields of a resource: the number and the weight of its messages, the level and the weight of
# the messages that it limits, the weight of messages that began or ended since SHARED, this weight
# times the seconds after SHARED, and the mean seconds from these changes to NOW.
N_MESSAGES, TOTAL_WEIGHT, LEVEL, HELD_WEIGHT, MOVED_WEIGHT, WEIGHTED_TIME, ELAPSED = range(7)
RESOURCE_FIELDS = 7


class FlowInputs(NamedTuple):
    """Constant inputs. Messages are ordered by task, round and hand-over."""

    round: Ints  # (M,)
    task: Int32s  # (M,)
    receiver: Int32s  # (M,) task
    software: Floats  # (M,) seconds
    copying: Floats  # (M,) seconds of a copy within the node, -1 between nodes
    asking: Floats  # (M,) seconds of a question or an answer, -1 for none
    latency: Floats  # (M,) seconds
    resource: Int32s  # (H,)
    part: float  # share of a message on each of its resources; some are listed twice
    capacity: Floats  # (Q,) bytes a second
    sharers: Ints  # (Q + 1,) begin of the messages of a resource in `sharer`
    thread: Ints  # (T,) thread that hands over the messages of a task


class FlowState(NamedTuple):
    clock: Floats  # (CLOCK_FIELDS,)
    counts: Ints  # (COUNTS,)
    missing: Int32s  # (R, T) events that a task still waits for in a round
    entered: Ints  # (T,) round
    following: Ints  # (T + 1,) next message to hand over
    free: Floats  # (threads,) time when a thread is free
    asked: Ints  # (T,) first message that waits for the round of its receiver
    next_asked: Ints  # (M,) next such message
    handed_over: Floats  # (M,)
    message: Floats  # (M, MESSAGE_FIELDS)
    stamp: NDArray[np.uint8]  # (M,) NOT_FLOWING, or the parity of its last rate
    event_time: Floats  # (M + T,) a heap
    event: Ints  # (M + T,) message or task, and kind of event
    shared: Floats  # (Q, 2) by the fields above
    moved: Floats  # (Q, PLACE_FIELDS)
    sharer: Int32s  # (H,) flowing or ended messages by resource
    n_sharers: Ints  # (Q,)
    unrated: Int32s  # messages of a resource without a rate
    lowest: Ints  # (Q,) resources, a heap by `height`
    height: Floats  # (Q,) lower bounds of their levels
    ending: Ints  # (M,) messages that end by DUE, a heap by `end_time`
    end_time: Floats  # (M,)


# Levels within rounding are equal.
_LEVEL_TOLERANCE = 1 + 1e-9
_PREFETCH_DISTANCE = 8
# Rates are computed again if CHANGED exceeds a limit, after a share of the mean age or of the mean
# duration of messages, or if a message has waited for a share of its own time. Each share is the
# error times its factor, and at most _MAX_SHARE.
_CHANGE_FACTOR, _AGE_FACTOR, _DURATION_FACTOR, _WAIT_FACTOR, _MAX_SHARE = 10, 10, 2, 2, 0.5


@bare_kernel
def start_flow(flows: FlowInputs, state: FlowState, m: int, error: float) -> None:
    """Start a message, which gets a rate after a share of its own time at the latest."""
    counts, clock, message, moved = state.counts, state.clock, state.message, state.moved
    weight = message[m, WEIGHT]
    message[m, BEGUN] = clock[NOW]
    clock[BEGINNINGS] += clock[NOW]
    state.stamp[m] = counts[STAMP]
    level = np.inf
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        q = flows.resource[h]
        state.sharer[flows.sharers[q] + state.n_sharers[q]] = m
        state.n_sharers[q] += 1
        _record_move(state, q, weight * flows.part, 1)
        available = state.shared[q, FREE] + moved[q, LEVEL] * moved[q, HELD_WEIGHT]
        fair_level = flows.capacity[q] / moved[q, TOTAL_WEIGHT]
        level = min(
            level, max(fair_level, available / (moved[q, HELD_WEIGHT] + moved[q, MOVED_WEIGHT]))
        )
    # Estimate its duration from the current levels of its resources.
    wait = min(_WAIT_FACTOR * error, _MAX_SHARE) * message[m, LEFT] / (weight * level)
    clock[DEADLINE] = min(clock[DEADLINE], clock[NOW] + wait)
    _record_change(state, 1.0 / max(counts[ACTIVE], 1), error)
    counts[ACTIVE] += 1


@bare_kernel
def end_flow(flows: FlowInputs, state: FlowState, m: int, error: float) -> None:
    """End a message, whose rate is shared at the next computation."""
    message = state.message
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        q = flows.resource[h]
        state.shared[q, FREE] += message[m, RATE] * flows.part
        _record_move(state, q, message[m, WEIGHT] * flows.part, -1)
    _record_change(state, message[m, RATE] / state.clock[RATES], error)
    state.clock[BEGINNINGS] -= message[m, BEGUN]
    state.stamp[m] = NOT_FLOWING
    state.counts[ACTIVE] -= 1


@bare_kernel
def _record_move(state: FlowState, q: int, weight: float, change: int) -> None:
    """Record that a message of a resource begins or ends now."""
    moved = state.moved
    moved[q, N_MESSAGES] += change
    moved[q, TOTAL_WEIGHT] += change * weight
    moved[q, MOVED_WEIGHT] += weight
    moved[q, WEIGHTED_TIME] += weight * (state.clock[NOW] - state.clock[SHARED])


@bare_kernel
def _record_change(state: FlowState, part: float, error: float) -> None:
    """Record the share of a message that begins or ends now, and update the deadline."""
    clock = state.clock
    clock[MOVES] += 1
    clock[MOMENTS] += clock[NOW] - clock[SHARED]
    clock[CHANGED] += part
    if clock[CHANGED] > min(_CHANGE_FACTOR * error, _MAX_SHARE):
        clock[DEADLINE] = clock[NOW]


@bare_kernel
def share_resources(flows: FlowInputs, state: FlowState, error: float) -> None:
    """Compute the rates of all flowing messages, and the ends that come before the next rates."""
    counts, clock = state.counts, state.clock
    counts[STAMP] = 1 - counts[STAMP]
    age = clock[NOW] - clock[BEGINNINGS] / counts[ACTIVE]
    step = min(_AGE_FACTOR * error, _MAX_SHARE) * age
    if clock[BRIEFNESS] > 0:
        step = min(step, min(_DURATION_FACTOR * error, _MAX_SHARE) / clock[BRIEFNESS])
    clock[DUE] = clock[NOW] + step
    clock[FIRST_END] = np.inf
    clock[RATES] = clock[BRIEFNESS] = 0.0
    counts[N_ENDING] = 0
    _assign_rates(flows, state, _reset_resources(flows, state), error)
    heapify(state.end_time, state.ending, counts[N_ENDING])
    clock[BRIEFNESS] /= counts[ACTIVE]
    clock[SHARED] = clock[NOW]
    clock[DEADLINE] = max(clock[DUE], clock[FIRST_END])
    clock[CHANGED] = clock[MOVES] = clock[MOMENTS] = 0.0


@bare_kernel
def _reset_resources(flows: FlowInputs, state: FlowState) -> int:
    """Free all resources, make a heap of those with messages, and return its size."""
    clock, shared, moved = state.clock, state.shared, state.moved
    elapsed = clock[NOW] - clock[SHARED]
    mean_elapsed = elapsed - clock[MOMENTS] / max(clock[MOVES], 1)
    size = 0
    for q in range(flows.capacity.size):
        shared[q, FREE], shared[q, WANTED] = flows.capacity[q], moved[q, TOTAL_WEIGHT]
        moved[q, ELAPSED] = mean_elapsed
        if moved[q, MOVED_WEIGHT] > 0:
            moved[q, ELAPSED] = elapsed - moved[q, WEIGHTED_TIME] / moved[q, MOVED_WEIGHT]
        moved[q, LEVEL] = moved[q, HELD_WEIGHT] = 0.0
        moved[q, MOVED_WEIGHT] = moved[q, WEIGHTED_TIME] = 0.0
        if moved[q, N_MESSAGES] > 0:
            state.lowest[size] = q
            state.height[size] = flows.capacity[q] / moved[q, TOTAL_WEIGHT]
            size += 1
        else:
            # Remove rounding errors.
            moved[q, TOTAL_WEIGHT] = 0.0
            state.n_sharers[q] = 0
    heapify(state.height, state.lowest, size)
    return size


@bare_kernel
def _assign_rates(flows: FlowInputs, state: FlowState, size: int, error: float) -> None:
    """Set the rates of all messages by progressive filling, from the lowest level on."""
    height, lowest, shared, message = state.height, state.lowest, state.shared, state.message
    last_level = 0.0
    n_left = state.counts[ACTIVE]
    while n_left > 0:
        lowest_level, q = height[0], lowest[0]
        level = last_level
        if shared[q, WANTED] > 0:
            level = max(shared[q, FREE], 0.0) / shared[q, WANTED]
        next_level = np.inf
        if size > 1:
            next_level = height[1]
        if size > 2:
            next_level = min(next_level, height[2])
        if level > max(lowest_level * _LEVEL_TOLERANCE, next_level * (1 + error)):
            sift_down(height, lowest, size, 0, level, q)
            continue
        size -= 1
        heap_pop(height, lowest, size)
        n = _list_unrated(flows, state, q)
        if n == 0:
            continue
        # Keep rounding from reducing a level to zero.
        level = max(level, last_level if error == 0 else last_level / 2)
        last_level = max(last_level, level)
        state.moved[q, LEVEL], state.moved[q, HELD_WEIGHT] = level, shared[q, WANTED]
        for i in range(n):
            ahead = state.unrated[min(i + _PREFETCH_DISTANCE, n - 1)]
            first = np.int64(message[ahead, FIRST])
            prefetch(flows.resource, first)
            prefetch(flows.resource, first + 16)
            m = state.unrated[i]
            # A resource may list a message twice.
            if state.stamp[m] != state.counts[STAMP]:
                state.stamp[m] = state.counts[STAMP]
                _set_rate(flows, state, m, q, level * message[m, WEIGHT])
                n_left -= 1


@bare_kernel
def _list_unrated(flows: FlowInputs, state: FlowState, q: int) -> int:
    """List the messages of a resource without a rate, and return their number."""
    sharer, unrated, stamp = state.sharer, state.unrated, state.stamp
    n = n_flowing = 0
    begin = flows.sharers[q]
    for i in range(begin, begin + state.n_sharers[q]):
        m = sharer[i]
        if stamp[m] == NOT_FLOWING:
            continue
        sharer[begin + n_flowing] = m
        n_flowing += 1
        unrated[n] = m
        if stamp[m] != state.counts[STAMP]:
            prefetch(state.message, np.int64(m) * MESSAGE_FIELDS)
            n += 1
    state.n_sharers[q] = n_flowing
    return n


@bare_kernel
def _set_rate(flows: FlowInputs, state: FlowState, m: int, q: int, rate: float) -> None:
    """Set the rate of a message, and subtract the bytes sent since its last rate."""
    message, clock, counts = state.message, state.clock, state.counts
    old_rate = message[m, RATE]
    if old_rate > 0:
        elapsed = state.moved[q, ELAPSED]
        if rate > old_rate:
            elapsed = min(elapsed, state.moved[np.int64(message[m, BOTTLENECK]), ELAPSED])
        message[m, LEFT] -= old_rate * (clock[NOW] - clock[SHARED]) + (rate - old_rate) * elapsed
    else:
        message[m, LEFT] -= rate * (clock[NOW] - message[m, BEGUN])
    message[m, RATE], message[m, BOTTLENECK] = rate, q
    clock[RATES] += rate
    end = clock[NOW] + message[m, LEFT] / rate
    clock[BRIEFNESS] += 1 / max(end - message[m, BEGUN], 1e-30)
    if end <= max(clock[DUE], clock[FIRST_END]):
        if end < clock[FIRST_END]:
            # Listed messages that end after DUE wait for the next rates.
            if clock[FIRST_END] > clock[DUE]:
                counts[N_ENDING] = 0
            clock[FIRST_END] = end
        state.ending[counts[N_ENDING]], state.end_time[counts[N_ENDING]] = m, end
        counts[N_ENDING] += 1
    rate_share, weight_share = rate * flows.part, message[m, WEIGHT] * flows.part
    shared, resource = state.shared, flows.resource
    for h in range(np.int64(message[m, FIRST]), np.int64(message[m, LAST])):
        shared[resource[h], FREE] -= rate_share
        shared[resource[h], WANTED] -= weight_share


@bare_kernel
def heap_push(key: Floats, items: Ints, size: int, new_key: float, item: int) -> None:
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if key[parent] <= new_key:
            break
        key[i] = key[parent]
        items[i] = items[parent]
        i = parent
    key[i] = new_key
    items[i] = item


@bare_kernel
def sift_down(
    key: Floats, items: Ints, size: int, position: int, new_key: float, item: int
) -> None:
    """Put an item at a position of a heap, and move lower keys up."""
    i = position
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and key[child + 1] < key[child]:
            child += 1
        if new_key <= key[child]:
            break
        key[i] = key[child]
        items[i] = items[child]
        i = child
    key[i] = new_key
    items[i] = item


@bare_kernel
def heap_pop(key: Floats, items: Ints, size: int) -> None:
    sift_down(key, items, size, 0, key[size], items[size])


@bare_kernel
def heapify(key: Floats, items: Ints, size: int) -> None:
    for i in range(size // 2 - 1, -1, -1):
        sift_down(key, items, size, i, key[i], items[i])
