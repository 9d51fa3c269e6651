"""Kernels of the flow-level simulator: messages begin, flow and arrive."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel, entry_kernel

from ._sharing_kernels import (
    ACTIVE,
    ARRIVED,
    CAME,
    DEADLINE,
    EVENTS,
    NOW,
    SOON,
    Flows,
    FlowState,
    enter,
    leave,
    rise,
    share,
    take_top,
)

NONE = -1
# Kinds of events: a message's head has come through, a message was copied within its node, or a
# task has handed over its round.
FLOWS, COPIED, HANDED_OVER = 0, 1, 2
KINDS = 3


@entry_kernel
def begin(flows: Flows, state: FlowState) -> None:
    """Begin every task's first round."""
    for task in range(flows.thread.size):
        _go_on(flows, state, task)


@entry_kernel
def advance(flows: Flows, state: FlowState, error: float, steps: int) -> bool:
    """Let some events happen; return whether any are left.

    Rates stay as they are in steps that are in proportion to `error`.
    """
    clock, counts = state.clock, state.counts
    for _ in range(steps):
        if counts[ACTIVE] > 0 and clock[DEADLINE] <= clock[NOW]:
            share(flows, state, error)
        if counts[EVENTS] == 0 and counts[ACTIVE] == 0:
            return False
        now = clock[DEADLINE] if counts[ACTIVE] > 0 else np.inf
        if counts[SOON] > 0:
            now = min(now, state.soon_end[0])
        if counts[EVENTS] > 0:
            now = min(now, state.event_time[0])
        now = clock[NOW] = max(now, clock[NOW])
        while counts[EVENTS] > 0 and state.event_time[0] <= now:
            _happen(flows, state, error)
        while counts[SOON] > 0 and state.soon_end[0] <= now:
            end, m = state.soon_end[0], state.soon[0]
            counts[SOON] -= 1
            take_top(state.soon_end, state.soon, counts[SOON])
            leave(flows, state, m, error)
            _arrive(flows, state, m, end)
    return True


@bare_kernel
def _go_on(flows: Flows, state: FlowState, task: int) -> None:
    """Start a task's next round if it may begin, and hand over its messages."""
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
        # This also holds for an empty round: a task waits for its turn at a shared thread.
        _put(state, ready, task * KINDS + HANDED_OVER)


@bare_kernel
def _send(flows: Flows, state: FlowState, m: int) -> None:
    """Send a message that was handed over, or its question."""
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
    """Answer the questions that waited for the task's round."""
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
def _happen(flows: Flows, state: FlowState, error: float) -> None:
    """Process the next event."""
    key = state.event[0]
    state.counts[EVENTS] -= 1
    take_top(state.event_time, state.event, state.counts[EVENTS])
    m, kind = key // KINDS, key % KINDS
    if kind == COPIED:
        _arrive(flows, state, m, state.clock[NOW])
    elif kind == HANDED_OVER:
        task = m
        state.missing[state.entered[task], task] -= 1
        _go_on(flows, state, task)
    else:
        enter(flows, state, m, error)


@bare_kernel
def _arrive(flows: Flows, state: FlowState, m: int, time: float) -> None:
    """Record when a message arrived, and let its tasks go on."""
    state.message[m, CAME] = time
    state.counts[ARRIVED] += 1
    state.missing[flows.round[m], flows.receiver[m]] -= 1
    _go_on(flows, state, flows.receiver[m])
    if flows.asking[m] >= 0:
        state.missing[flows.round[m], flows.task[m]] -= 1
        _go_on(flows, state, flows.task[m])


@bare_kernel
def _put(state: FlowState, time: float, key: int) -> None:
    """Add an event at a time."""
    rise(state.event_time, state.event, state.counts[EVENTS], time, key)
    state.counts[EVENTS] += 1
