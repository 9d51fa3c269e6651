"""Kernels of the flow simulator: max-min fair rates of messages, and the event loop of rounds.

Messages share resources: links, FIFOs and receivers. The fair rate of a message is its weight times
the level of the resource that limits it. The rates of all messages are computed together, and only
from time to time. Between two computations, each resource adds up the messages that begin or end.
With these sums, the next computation corrects the bytes that were sent in the meantime.

Letters in the comments: M messages, T tasks, R rounds, Q resources, and H pairs of a message and
one of its resources. In the kernels, ``m``, ``q`` and ``h`` are their indices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast._jit import bare_kernel, entry_kernel
from toruscast._llvm import prefetch
from toruscast.typing import Floats, Int32s, Ints

NONE = -1
# Kinds of events: the head of a message has arrived, a message was copied within its node, or a
# task has handed over its round.
FLOWS, COPIED, HANDED_OVER = 0, 1, 2
KINDS = 3
# Stamp of a message that is not flowing. The stamp of a flowing message is the parity of the
# computation that set its rate; if it has no rate yet, of the last computation before it began.
NOT_FLOWING = 2
CLOCK = np.dtype(
    [
        ("now", np.float64),
        ("shared_at", np.float64),  # time of the last computation of rates
        ("due", np.float64),  # time of the next computation if no message begins or ends
        ("deadline", np.float64),  # time of the next computation
        ("first_end", np.float64),  # end of the first message at the current rates
        ("rate_sum", np.float64),  # of all messages at `shared_at`
        # Since `shared_at`: share of messages that began, plus share of `rate_sum` that ended.
        ("changed_share", np.float64),
        ("begin_sum", np.float64),  # sum of the begin times of flowing messages
        ("mean_inverse_duration", np.float64),  # mean of 1 / duration of flowing messages
        ("n_changes", np.float64),  # messages that began or ended since `shared_at`
        ("change_delay_sum", np.float64),  # sum of their delays after `shared_at`
        ("n_events", np.int64),
        ("n_flowing", np.int64),
        ("n_arrived", np.int64),
        ("n_ending", np.int64),
        ("parity", np.int64),  # of the number of computations of rates
    ],
    align=True,
)
# One cache line.
MESSAGE = np.dtype(
    [
        ("weight", np.float64),
        ("rate", np.float64),  # bytes per second
        ("left", np.float64),  # bytes left at `shared_at`
        ("begun", np.float64),  # time when it began to flow
        ("arrived_at", np.float64),
        ("first", np.int64),  # start of its resources in `FlowInputs.resource`
        ("last", np.int64),  # end of its resources
        ("bottleneck", np.int64),  # the resource that limits its rate
    ],
    align=True,
)
# Fields of a resource for the computation of rates.
CAPACITY = np.dtype([("free", np.float64), ("unrated_weight", np.float64)])
# Further fields of a resource. Changed messages are those that began or ended since `shared_at`.
LOAD = np.dtype(
    [
        ("n_messages", np.int64),
        ("weight", np.float64),  # of its messages
        ("level", np.float64),  # rate per weight of the messages that it limits
        ("limited_weight", np.float64),  # of the messages that it limits
        ("changed_weight", np.float64),
        ("weighted_delay", np.float64),  # sum of weight times delay of changed messages
        ("elapsed", np.float64),  # mean seconds since its changes
    ],
    align=True,
)


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
    share: float  # share of a message on each of its resources; some are listed twice
    capacity: Floats  # (Q,) bytes per second
    sharers: Ints  # (Q + 1,) start of each resource's messages in `sharer`
    thread: Ints  # (T,) thread that hands over the messages of a task


class FlowState(NamedTuple):
    """State of the event loop."""

    clock: NDArray[Any]  # (1,) CLOCK
    missing: Int32s  # (R, T) events that a task still waits for in a round
    entered: Ints  # (T,) present round, -1 before the first
    following: Ints  # (T + 1,) next message to hand over
    free: Floats  # (threads,) time when a thread is free
    asked: Ints  # (T,) first message that waits for this receiver to begin the round
    next_asked: Ints  # (M,) next message that waits for the same receiver
    handed_over: Floats  # (M,)
    message: NDArray[Any]  # (M,) MESSAGE
    stamp: NDArray[np.uint8]  # (M,)
    event_time: Floats  # (M + T,) a heap
    event: Ints  # (M + T,) message or task, and kind of event
    available: NDArray[Any]  # (Q,) CAPACITY
    load: NDArray[Any]  # (Q,) LOAD
    sharer: Int32s  # (H,) flowing or ended messages by resource
    n_sharers: Ints  # (Q,)
    unrated: Int32s  # messages of a resource without a rate
    lowest: Ints  # (Q,) resources, a heap by `height`
    height: Floats  # (Q,) lower bounds of their levels
    ending: Ints  # (M,) messages that end by `due`, a heap by `end_time`
    end_time: Floats  # (M,)


# Levels that differ only by rounding count as equal.
_LEVEL_TOLERANCE = 1 + 1e-9
_PREFETCH_DISTANCE = 8
# Rates are computed again when one of four shares is too large: `changed_share`; the time since the
# last computation, relative to the mean age of the messages or relative to their mean duration; or
# the time that a message waits for a rate, relative to its duration. The limit of each share is the
# accepted error times its factor, but at most _MAX_SHARE.
_CHANGE_FACTOR, _AGE_FACTOR, _DURATION_FACTOR, _WAIT_FACTOR, _MAX_SHARE = 10, 10, 2, 2, 0.5


@entry_kernel
def begin(flows: FlowInputs, state: FlowState) -> None:
    """Begin every task's first round."""
    for task in range(flows.thread.size):
        _begin_next_round(flows, state, task)


@entry_kernel
def advance(flows: FlowInputs, state: FlowState, error: float, steps: int) -> bool:
    """Process some time steps, and return whether any events are left."""
    clock = state.clock[0]
    for _ in range(steps):
        if clock.n_flowing > 0 and clock.deadline <= clock.now:
            _share_resources(flows, state, error)
        if clock.n_events == 0 and clock.n_flowing == 0:
            return False
        now = clock.deadline if clock.n_flowing > 0 else np.inf
        if clock.n_ending > 0:
            now = min(now, state.end_time[0])
        if clock.n_events > 0:
            now = min(now, state.event_time[0])
        now = max(now, clock.now)
        clock.now = now
        while clock.n_events > 0 and state.event_time[0] <= now:
            _process_event(flows, state, error)
        while clock.n_ending > 0 and state.end_time[0] <= now:
            end, m = state.end_time[0], state.ending[0]
            clock.n_ending -= 1
            _heap_pop(state.end_time, state.ending, clock.n_ending)
            _end_flow(flows, state, m, error)
            _record_arrival(flows, state, m, end)
    return True


@bare_kernel
def _begin_next_round(flows: FlowInputs, state: FlowState, task: int) -> None:
    """Begin a task's next round if its current round is complete.

    All messages of the round are handed over in this call, each with its own hand-over time.
    """
    rounds = state.missing.shape[0]
    if state.entered[task] + 1 < rounds and (
        state.entered[task] < 0 or state.missing[state.entered[task], task] == 0
    ):
        state.entered[task] += 1
        _answer_questions(flows, state, task)
        thread = flows.thread[task]
        ready = max(state.free[thread], state.clock[0].now)
        m = state.following[task]
        while m < flows.task.size and flows.task[m] == task:
            if flows.round[m] != state.entered[task]:
                break
            ready += flows.software[m]
            state.handed_over[m] = ready
            _send_message(flows, state, m)
            m += 1
        state.following[task] = m
        state.free[thread] = ready
        # A task with an empty round also waits for its turn at a shared thread.
        _add_event(state, ready, task * KINDS + HANDED_OVER)


@bare_kernel
def _send_message(flows: FlowInputs, state: FlowState, m: int) -> None:
    """Schedule the first event of a message that was handed over.

    With a rendezvous, a message flows after its question and the answer. If its receiver has not
    begun the round, the message waits in the receiver's list of questions.
    """
    ready = state.handed_over[m]
    if flows.copying[m] >= 0:
        _add_event(state, ready + flows.copying[m], m * KINDS + COPIED)
    elif flows.asking[m] < 0:
        _add_event(state, ready + flows.latency[m], m * KINDS + FLOWS)
    elif state.entered[flows.receiver[m]] >= flows.round[m]:
        _add_event(state, ready + 2 * flows.asking[m] + flows.latency[m], m * KINDS + FLOWS)
    else:
        state.next_asked[m] = state.asked[flows.receiver[m]]
        state.asked[flows.receiver[m]] = m


@bare_kernel
def _answer_questions(flows: FlowInputs, state: FlowState, task: int) -> None:
    """Answer the questions that waited for the task's round."""
    m = state.asked[task]
    state.asked[task] = NONE
    while m != NONE:
        next_message = state.next_asked[m]
        if flows.round[m] <= state.entered[task]:
            arrival = state.handed_over[m] + flows.asking[m]
            answer_arrival = max(arrival, state.clock[0].now) + flows.asking[m]
            _add_event(state, answer_arrival + flows.latency[m], m * KINDS + FLOWS)
        else:
            state.next_asked[m] = state.asked[task]
            state.asked[task] = m
        m = next_message


@bare_kernel
def _process_event(flows: FlowInputs, state: FlowState, error: float) -> None:
    """Process the earliest event: a message was copied, a task is free, or a message can flow."""
    clock, key = state.clock[0], state.event[0]
    clock.n_events -= 1
    _heap_pop(state.event_time, state.event, clock.n_events)
    item, kind = key // KINDS, key % KINDS
    if kind == COPIED:
        _record_arrival(flows, state, item, clock.now)
    elif kind == HANDED_OVER:
        state.missing[state.entered[item], item] -= 1
        _begin_next_round(flows, state, item)
    else:
        _start_flow(flows, state, item, error)


@bare_kernel
def _record_arrival(flows: FlowInputs, state: FlowState, m: int, time: float) -> None:
    """Record the arrival of a message, and begin the rounds of tasks that waited only for it."""
    state.message[m].arrived_at = time
    state.clock[0].n_arrived += 1
    state.missing[flows.round[m], flows.receiver[m]] -= 1
    _begin_next_round(flows, state, flows.receiver[m])
    if flows.asking[m] >= 0:
        state.missing[flows.round[m], flows.task[m]] -= 1
        _begin_next_round(flows, state, flows.task[m])


@bare_kernel
def _add_event(state: FlowState, time: float, key: int) -> None:
    clock = state.clock[0]
    _heap_push(state.event_time, state.event, clock.n_events, time, key)
    clock.n_events += 1


@bare_kernel
def _start_flow(flows: FlowInputs, state: FlowState, m: int, error: float) -> None:
    """Start a message that has no rate yet, and set a deadline for the next computation of rates.

    The message may wait for a share of its duration, which is estimated from the levels of its
    resources.
    """
    clock, message = state.clock[0], state.message[m]
    message.begun = clock.now
    clock.begin_sum += clock.now
    state.stamp[m] = clock.parity
    level = np.inf
    for h in range(message.first, message.last):
        q = flows.resource[h]
        load = state.load[q]
        state.sharer[flows.sharers[q] + state.n_sharers[q]] = m
        state.n_sharers[q] += 1
        _record_load_change(state, q, message.weight * flows.share, 1)
        available = state.available[q].free + load.level * load.limited_weight
        fair_level = flows.capacity[q] / load.weight
        level = min(level, max(fair_level, available / (load.limited_weight + load.changed_weight)))
    wait = min(_WAIT_FACTOR * error, _MAX_SHARE) * message.left / (message.weight * level)
    clock.deadline = min(clock.deadline, clock.now + wait)
    _record_change(state, 1.0 / max(clock.n_flowing, 1), error)
    clock.n_flowing += 1


@bare_kernel
def _end_flow(flows: FlowInputs, state: FlowState, m: int, error: float) -> None:
    """End a message; the next computation gives its rate to other messages."""
    clock, message = state.clock[0], state.message[m]
    for h in range(message.first, message.last):
        q = flows.resource[h]
        state.available[q].free += message.rate * flows.share
        _record_load_change(state, q, message.weight * flows.share, -1)
    _record_change(state, message.rate / clock.rate_sum, error)
    clock.begin_sum -= message.begun
    state.stamp[m] = NOT_FLOWING
    clock.n_flowing -= 1


@bare_kernel
def _record_load_change(state: FlowState, q: int, weight: float, change: int) -> None:
    """Record that a message on a resource begins (``change`` 1) or ends (-1) now."""
    clock, load = state.clock[0], state.load[q]
    load.n_messages += change
    load.weight += change * weight
    load.changed_weight += weight
    load.weighted_delay += weight * (clock.now - clock.shared_at)


@bare_kernel
def _record_change(state: FlowState, share: float, error: float) -> None:
    """Add the share of a message that begins or ends now, and update the deadline."""
    clock = state.clock[0]
    clock.n_changes += 1
    clock.change_delay_sum += clock.now - clock.shared_at
    clock.changed_share += share
    if clock.changed_share > min(_CHANGE_FACTOR * error, _MAX_SHARE):
        clock.deadline = clock.now


@bare_kernel
def _share_resources(flows: FlowInputs, state: FlowState, error: float) -> None:
    """Compute the rates of all flowing messages, and the time of the next computation.

    Messages that end before then are listed in ``ending``.
    """
    clock = state.clock[0]
    clock.parity = 1 - clock.parity
    mean_age = clock.now - clock.begin_sum / clock.n_flowing
    step = min(_AGE_FACTOR * error, _MAX_SHARE) * mean_age
    if clock.mean_inverse_duration > 0:
        step = min(step, min(_DURATION_FACTOR * error, _MAX_SHARE) / clock.mean_inverse_duration)
    clock.due = clock.now + step
    clock.first_end = np.inf
    clock.rate_sum = 0.0
    clock.mean_inverse_duration = 0.0
    clock.n_ending = 0
    _assign_rates(flows, state, _reset_resources(flows, state), error)
    _heapify(state.end_time, state.ending, clock.n_ending)
    clock.mean_inverse_duration /= clock.n_flowing
    clock.shared_at = clock.now
    clock.deadline = max(clock.due, clock.first_end)
    clock.changed_share = 0.0
    clock.n_changes = 0.0
    clock.change_delay_sum = 0.0


@bare_kernel
def _reset_resources(flows: FlowInputs, state: FlowState) -> int:
    """Free all resources, put the used ones on a heap by level, and return the size of the heap.

    Also compute, for each resource, the mean time since its changes.
    """
    clock = state.clock[0]
    elapsed = clock.now - clock.shared_at
    mean_elapsed = elapsed - clock.change_delay_sum / max(clock.n_changes, 1)
    size = 0
    for q in range(flows.capacity.size):
        load, available = state.load[q], state.available[q]
        available.free = flows.capacity[q]
        available.unrated_weight = load.weight
        load.elapsed = mean_elapsed
        if load.changed_weight > 0:
            load.elapsed = elapsed - load.weighted_delay / load.changed_weight
        load.level = 0.0
        load.limited_weight = 0.0
        load.changed_weight = 0.0
        load.weighted_delay = 0.0
        if load.n_messages > 0:
            state.lowest[size] = q
            state.height[size] = flows.capacity[q] / load.weight
            size += 1
        else:
            # Remove rounding errors.
            load.weight = 0.0
            state.n_sharers[q] = 0
    _heapify(state.height, state.lowest, size)
    return size


@bare_kernel
def _assign_rates(flows: FlowInputs, state: FlowState, size: int, error: float) -> None:
    """Set the rates of all messages by progressive filling, from the lowest level on.

    The level of a resource is its free capacity divided by the weight of its messages that have no
    rate yet. The resource with the lowest level limits these messages. The levels on the heap are
    lower bounds: when other resources limit some of its messages, the level of a resource can only
    increase.
    """
    height, lowest, clock = state.height, state.lowest, state.clock[0]
    last_level = 0.0
    n_left = clock.n_flowing
    while n_left > 0:
        lowest_level, q = height[0], lowest[0]
        available = state.available[q]
        level = last_level
        if available.unrated_weight > 0:
            level = max(available.free, 0.0) / available.unrated_weight
        next_level = np.inf
        if size > 1:
            next_level = height[1]
        if size > 2:
            next_level = min(next_level, height[2])
        if level > max(lowest_level * _LEVEL_TOLERANCE, next_level * (1 + error)):
            _sift_down(height, lowest, size, 0, level, q)
            continue
        size -= 1
        _heap_pop(height, lowest, size)
        n = _list_unrated(flows, state, q)
        if n == 0:
            continue
        # Keep rounding from reducing a level to zero.
        level = max(level, last_level if error == 0 else last_level / 2)
        last_level = max(last_level, level)
        state.load[q].level = level
        state.load[q].limited_weight = available.unrated_weight
        for i in range(n):
            ahead = state.message[state.unrated[min(i + _PREFETCH_DISTANCE, n - 1)]].first
            prefetch(flows.resource, ahead)
            prefetch(flows.resource, ahead + 16)  # the next cache line
            m = state.unrated[i]
            # A resource may list a message twice.
            if state.stamp[m] != clock.parity:
                state.stamp[m] = clock.parity
                _set_rate(flows, state, m, q, level * state.message[m].weight)
                n_left -= 1


@bare_kernel
def _list_unrated(flows: FlowInputs, state: FlowState, q: int) -> int:
    """List the flowing messages of a resource that have no rate yet, and return their number.

    Messages that have ended are removed from the resource's list. A message has its rate from the
    current computation if its stamp equals the current parity.
    """
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
        if stamp[m] != state.clock[0].parity:
            prefetch(state.message, np.int64(m))
            n += 1
    state.n_sharers[q] = n_flowing
    return n


@bare_kernel
def _set_rate(flows: FlowInputs, state: FlowState, m: int, q: int, rate: float) -> None:
    """Set the rate of a message, and subtract the bytes that it has sent since `shared_at`.

    It sent at its old rate until the resource that limits it changed, and since then at the new
    rate.
    """
    message, clock = state.message[m], state.clock[0]
    old_rate = message.rate
    if old_rate > 0:
        elapsed = state.load[q].elapsed
        if rate > old_rate:
            elapsed = min(elapsed, state.load[message.bottleneck].elapsed)
        message.left -= old_rate * (clock.now - clock.shared_at) + (rate - old_rate) * elapsed
    else:
        message.left -= rate * (clock.now - message.begun)
    message.rate = rate
    message.bottleneck = q
    clock.rate_sum += rate
    end = clock.now + message.left / rate
    # The maximum avoids a division by zero.
    clock.mean_inverse_duration += 1 / max(end - message.begun, 1e-30)
    if end <= max(clock.due, clock.first_end):
        if end < clock.first_end:
            # Listed messages that end after `due` now end after the next computation, so drop them.
            if clock.first_end > clock.due:
                clock.n_ending = 0
            clock.first_end = end
        state.ending[clock.n_ending], state.end_time[clock.n_ending] = m, end
        clock.n_ending += 1
    rate_share, weight_share = rate * flows.share, message.weight * flows.share
    for h in range(message.first, message.last):
        available = state.available[flows.resource[h]]
        available.free -= rate_share
        available.unrated_weight -= weight_share


@bare_kernel
def _heap_push(key: Floats, items: Ints, size: int, new_key: float, item: int) -> None:
    """Add an item to a heap of ``size`` items, whose first item has the lowest key."""
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
def _sift_down(
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
def _heap_pop(key: Floats, items: Ints, size: int) -> None:
    """Remove the first item of a heap; ``size`` items are left."""
    _sift_down(key, items, size, 0, key[size], items[size])


@bare_kernel
def _heapify(key: Floats, items: Ints, size: int) -> None:
    for i in range(size // 2 - 1, -1, -1):
        _sift_down(key, items, size, i, key[i], items[i])
