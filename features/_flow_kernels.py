"""Kernels of the flow-level simulator: what each message gets of the links, and what comes next.

Letters in the comments: M messages, T tasks, R rounds, Q places that messages share (links, FIFOs,
receiving nodes), H the places of all messages, one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toruscast.mapping._jit import bare_kernel, entry_kernel

from ._heap_kernels import rise, take_top

NONE = -1
# What happens: a message's head has come through, it has been copied within its node, or a task has
# handed over its round.
FLOWS, COPIED, HANDED_OVER = 0, 1, 2
KINDS = 3
# Levels that differ by less than rounding are one.
_EVEN = 1 + 1e-9
# Places of the clock, and of the counts.
NOW, SINCE, NEXT = 0, 1, 2
EVENTS, ACTIVE, CHANGED, ARRIVED = 0, 1, 2, 3


class Flows(NamedTuple):
    """What stays as it is. Messages stand in the order of task, round and turn."""

    round: NDArray[np.int64]  # (M,)
    task: NDArray[np.int32]  # (M,)
    receiver: NDArray[np.int32]  # (M,) task
    software: NDArray[np.float64]  # (M,) seconds
    copying: NDArray[np.float64]  # (M,) seconds within the node, below 0 for the others
    asking: NDArray[np.float64]  # (M,) seconds of a question, as of its answer, below 0 for none
    latency: NDArray[np.float64]  # (M,) seconds
    weight: NDArray[np.float64]  # (M,) what its share of a place is proportional to
    first: NDArray[np.int64]  # (M + 1,) where its places begin
    place: NDArray[np.int32]  # (H,)
    part: NDArray[np.float32]  # (H,) of the message that goes there
    capacity: NDArray[np.float64]  # (Q,) bytes a second
    thread: NDArray[np.int64]  # (T,) that hands over a task's messages


class FlowState(NamedTuple):
    """What changes."""

    clock: NDArray[np.float64]  # (3,) seconds
    counts: NDArray[np.int64]  # (4,)
    missing: NDArray[np.int32]  # (R, T) what a task still waits for in a round
    entered: NDArray[np.int64]  # (T,) round
    following: NDArray[np.int64]  # (T + 1,) next message to hand over
    free: NDArray[np.float64]  # (threads,) when
    asked: NDArray[np.int64]  # (T,) a message that waits for the receiver's round
    behind: NDArray[np.int64]  # (M,) another
    handed_over: NDArray[np.float64]  # (M,)
    begun: NDArray[np.float64]  # (M,)
    left: NDArray[np.float64]  # (M,) bytes
    rate: NDArray[np.float64]  # (M,) bytes a second
    end: NDArray[np.float64]  # (M,) if rates stay as they are
    arrived: NDArray[np.float64]  # (M,)
    active: NDArray[np.int64]  # (M,) messages that flow
    event_time: NDArray[np.float64]  # (M + T,) a heap
    event: NDArray[np.int64]  # (M + T,) message or task, and what happens
    sharing: NDArray[np.int64]  # (Q,) messages without a rate yet
    free_part: NDArray[np.float64]  # (Q,) bytes a second that nobody has yet
    wanted: NDArray[np.float64]  # (Q,) sum of their weights
    level: NDArray[np.float64]  # (Q,) bytes a second and weight that each would get
    held_up: NDArray[np.bool_]  # (Q,) a message gets less elsewhere
    in_use: NDArray[np.int32]  # (Q,) places
    unshared: NDArray[np.int64]  # (M,) messages without a rate yet
    least: NDArray[np.int32]  # (M,) place where a message gets least


@entry_kernel
def begin(flows: Flows, state: FlowState) -> None:
    """Let every task begin its first round."""
    for task in range(flows.thread.size):
        _go_on(flows, state, task)


@entry_kernel
def advance(flows: Flows, state: FlowState, near: float, steps: int) -> bool:
    """Let some events happen; returns whether any are left.

    Messages begin and end together where that moves none by more than the part `near` of its own
    time: the rates are worked out once for all of them.
    """
    clock, counts = state.clock, state.counts
    for _ in range(steps):
        if counts[CHANGED]:
            share(flows, state, near)
        if counts[EVENTS] == 0 and counts[ACTIVE] == 0:
            return False
        now = clock[NEXT]
        if counts[EVENTS] > 0:
            now = min(now, state.event_time[0])
        clock[NOW] = now
        flowing = counts[ACTIVE]
        while counts[EVENTS] > 0 and _is_due(flows, state, near):
            _happen(flows, state)
        if clock[NEXT] <= now or counts[CHANGED]:
            _flow(flows, state, flowing, near)
    return True


@bare_kernel
def _is_due(flows: Flows, state: FlowState, near: float) -> bool:
    """Whether the next event may happen now: what begins to flow, a little early too."""
    due = state.clock[NOW]
    m, kind = state.event[0] // KINDS, state.event[0] % KINDS
    if kind == FLOWS:
        h = flows.first[m]
        due += near * state.left[m] * flows.part[h] / flows.capacity[flows.place[h]]
    is_due: bool = state.event_time[0] <= due
    return is_due


@bare_kernel
def _go_on(flows: Flows, state: FlowState, task: int) -> None:
    """Let a task enter its next round if it may, and hand over what it sends in it."""
    rounds = state.missing.shape[0]
    if state.entered[task] + 1 < rounds and (
        state.entered[task] < 0 or state.missing[state.entered[task], task] == 0
    ):
        state.entered[task] += 1
        _answer(flows, state, task)
        thread = flows.thread[task]
        ready = max(state.free[thread], state.clock[NOW])
        m = state.following[task]
        while m < flows.task.size and flows.task[m] == task:
            if flows.round[m] != state.entered[task]:
                break
            ready += flows.software[m]
            state.handed_over[m] = ready
            _send(flows, state, m)
            m += 1
        state.following[task] = m
        state.free[thread] = ready
        # Also of nothing: a task waits for its turn at a thread that others use too.
        _put(state, ready, task * KINDS + HANDED_OVER)


@bare_kernel
def _send(flows: Flows, state: FlowState, m: int) -> None:
    """Send a message that is handed over, or its question."""
    ready = state.handed_over[m]
    if flows.copying[m] >= 0:
        _put(state, ready + flows.copying[m], m * KINDS + COPIED)
    elif flows.asking[m] < 0:
        _put(state, ready + flows.latency[m], m * KINDS + FLOWS)
    elif state.entered[flows.receiver[m]] >= flows.round[m]:
        _put(state, ready + 2 * flows.asking[m] + flows.latency[m], m * KINDS + FLOWS)
    else:
        state.behind[m] = state.asked[flows.receiver[m]]
        state.asked[flows.receiver[m]] = m


@bare_kernel
def _answer(flows: Flows, state: FlowState, task: int) -> None:
    """Answer the questions that were waiting for the task's round."""
    m = state.asked[task]
    state.asked[task] = NONE
    while m != NONE:
        following = state.behind[m]
        if flows.round[m] <= state.entered[task]:
            came = state.handed_over[m] + flows.asking[m]
            answered = max(came, state.clock[NOW]) + flows.asking[m]
            _put(state, answered + flows.latency[m], m * KINDS + FLOWS)
        else:
            state.behind[m] = state.asked[task]
            state.asked[task] = m
        m = following


@bare_kernel
def _happen(flows: Flows, state: FlowState) -> None:
    """Let the next event happen."""
    key = state.event[0]
    state.counts[EVENTS] -= 1
    take_top(state.event_time, state.event, state.counts[EVENTS])
    m, kind = key // KINDS, key % KINDS
    if kind == COPIED:
        _arrive(flows, state, m)
    elif kind == HANDED_OVER:
        task = m
        state.missing[state.entered[task], task] -= 1
        _go_on(flows, state, task)
    else:
        state.active[state.counts[ACTIVE]] = m
        state.counts[ACTIVE] += 1
        state.begun[m] = state.clock[NOW]
        state.counts[CHANGED] = 1


@bare_kernel
def _arrive(flows: Flows, state: FlowState, m: int) -> None:
    """Let a message have arrived, and its tasks go on."""
    state.arrived[m] = state.clock[NOW]
    state.counts[ARRIVED] += 1
    state.missing[flows.round[m], flows.receiver[m]] -= 1
    _go_on(flows, state, flows.receiver[m])
    if flows.asking[m] >= 0:
        state.missing[flows.round[m], flows.task[m]] -= 1
        _go_on(flows, state, flows.task[m])


@bare_kernel
def _flow(flows: Flows, state: FlowState, flowing: int, near: float) -> None:
    """Take what has gone off the messages that were flowing, and end those that have ended."""
    now = state.clock[NOW]
    passed = now - state.clock[SINCE]
    state.clock[SINCE] = now
    for i in range(flowing):
        m = state.active[i]
        state.left[m] -= state.rate[m] * passed
    # From the last on, so that what takes an ended one's place has been looked at.
    for i in range(flowing - 1, -1, -1):
        m = state.active[i]
        if state.end[m] - now <= near * (now - state.begun[m]):
            state.counts[ACTIVE] -= 1
            state.active[i] = state.active[state.counts[ACTIVE]]
            state.counts[CHANGED] = 1
            _arrive(flows, state, m)


@bare_kernel
def share(flows: Flows, state: FlowState, near: float) -> None:
    """Work out the rates: the shares of each place by weight, what one cannot use for the others.

    A place all of whose messages get least there, for their weight, is full: they keep that, and
    what they take is no longer free elsewhere. So again, with the messages that are left. (Always
    to fill the one place with the lowest level next, found by a heap, took three to five times as
    long with regular traffic, and a third less with fifty thousand irregular messages.)
    """
    clock, counts = state.clock, state.counts
    used = _gather(flows, state)
    left = counts[ACTIVE]
    reached = 0.0
    while left > 0:
        lowest = np.inf
        for k in range(used):
            q = state.in_use[k]
            state.held_up[q] = False
            if state.sharing[q] > 0:
                state.level[q] = state.free_part[q] / state.wanted[q]
                lowest = min(lowest, state.level[q])
            else:
                state.level[q] = np.inf
        for i in range(left):
            _look(flows, state, state.unshared[i])
        # Rounding must not let it fall to nothing.
        reached = max(reached, lowest)
        i = 0
        while i < left:
            m = state.unshared[i]
            if state.held_up[state.least[m]]:
                i += 1
                continue
            _give(flows, state, m, max(state.level[state.least[m]], reached) * flows.weight[m])
            left -= 1
            state.unshared[i] = state.unshared[left]
    until = np.inf
    for i in range(counts[ACTIVE]):
        m = state.active[i]
        state.end[m] = clock[NOW] + max(state.left[m], 0.0) / state.rate[m]
        until = min(until, state.end[m] + near * (state.end[m] - state.begun[m]))
    # The first to end waits a little for those that end soon after it.
    clock[NEXT] = np.inf if until == np.inf else 0.0
    for i in range(counts[ACTIVE]):
        if state.end[state.active[i]] <= until:
            clock[NEXT] = max(clock[NEXT], state.end[state.active[i]])
    clock[SINCE] = clock[NOW]
    counts[CHANGED] = 0


@bare_kernel
def _gather(flows: Flows, state: FlowState) -> int:
    """Add up what the messages want of each place; returns how many places any want."""
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
    """Find the place where a message gets least; it holds up the others on its way."""
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
    """Give a message its rate everywhere."""
    state.rate[m] = rate
    for h in range(flows.first[m], flows.first[m + 1]):
        q = flows.place[h]
        state.sharing[q] -= 1
        state.free_part[q] = max(state.free_part[q] - rate * flows.part[h], 0.0)
        state.wanted[q] -= flows.weight[m] * flows.part[h]


@bare_kernel
def _put(state: FlowState, time: float, key: int) -> None:
    """Let an event happen at a time."""
    rise(state.event_time, state.event, state.counts[EVENTS], time, key)
    state.counts[EVENTS] += 1
