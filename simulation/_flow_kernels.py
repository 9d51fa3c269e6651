"""Kernels of the flow simulator: the event loop of messages and rounds."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel, entry_kernel

from ._sharing_kernels import (
    ACTIVE,
    ARRIVED,
    ARRIVED_AT,
    DEADLINE,
    EVENTS,
    N_ENDING,
    NOW,
    FlowInputs,
    FlowState,
    end_flow,
    heap_pop,
    heap_push,
    share_resources,
    start_flow,
)

NONE = -1
# Kinds of events: the head of a message has arrived, a message was copied within its node, or a
# task has handed over its round.
FLOWS, COPIED, HANDED_OVER = 0, 1, 2
KINDS = 3


@entry_kernel
def begin(flows: FlowInputs, state: FlowState) -> None:
    for task in range(flows.thread.size):
        _begin_next_round(flows, state, task)


@entry_kernel
def advance(flows: FlowInputs, state: FlowState, error: float, steps: int) -> bool:
    """Process some time steps, and return whether any events are left."""
    clock, counts = state.clock, state.counts
    for _ in range(steps):
        if counts[ACTIVE] > 0 and clock[DEADLINE] <= clock[NOW]:
            share_resources(flows, state, error)
        if counts[EVENTS] == 0 and counts[ACTIVE] == 0:
            return False
        now = clock[DEADLINE] if counts[ACTIVE] > 0 else np.inf
        if counts[N_ENDING] > 0:
            now = min(now, state.end_time[0])
        if counts[EVENTS] > 0:
            now = min(now, state.event_time[0])
        now = clock[NOW] = max(now, clock[NOW])
        while counts[EVENTS] > 0 and state.event_time[0] <= now:
            _process_event(flows, state, error)
        while counts[N_ENDING] > 0 and state.end_time[0] <= now:
            end, m = state.end_time[0], state.ending[0]
            counts[N_ENDING] -= 1
            heap_pop(state.end_time, state.ending, counts[N_ENDING])
            end_flow(flows, state, m, error)
            _record_arrival(flows, state, m, end)
    return True


@bare_kernel
def _begin_next_round(flows: FlowInputs, state: FlowState, task: int) -> None:
    """Start a task's next round if it may begin, and hand over its messages."""
    rounds = state.missing.shape[0]
    if state.entered[task] + 1 < rounds and (
        state.entered[task] < 0 or state.missing[state.entered[task], task] == 0
    ):
        state.entered[task] += 1
        _answer_questions(flows, state, task)
        thread = flows.thread[task]
        ready = max(state.free[thread], state.clock[NOW])
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
    """Send a message after its hand-over, or its question."""
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
            answer_arrival = max(arrival, state.clock[NOW]) + flows.asking[m]
            _add_event(state, answer_arrival + flows.latency[m], m * KINDS + FLOWS)
        else:
            state.next_asked[m] = state.asked[task]
            state.asked[task] = m
        m = next_message


@bare_kernel
def _process_event(flows: FlowInputs, state: FlowState, error: float) -> None:
    key = state.event[0]
    state.counts[EVENTS] -= 1
    heap_pop(state.event_time, state.event, state.counts[EVENTS])
    m, kind = key // KINDS, key % KINDS
    if kind == COPIED:
        _record_arrival(flows, state, m, state.clock[NOW])
    elif kind == HANDED_OVER:
        task = m
        state.missing[state.entered[task], task] -= 1
        _begin_next_round(flows, state, task)
    else:
        start_flow(flows, state, m, error)


@bare_kernel
def _record_arrival(flows: FlowInputs, state: FlowState, m: int, time: float) -> None:
    state.message[m, ARRIVED_AT] = time
    state.counts[ARRIVED] += 1
    state.missing[flows.round[m], flows.receiver[m]] -= 1
    _begin_next_round(flows, state, flows.receiver[m])
    if flows.asking[m] >= 0:
        state.missing[flows.round[m], flows.task[m]] -= 1
        _begin_next_round(flows, state, flows.task[m])


@bare_kernel
def _add_event(state: FlowState, time: float, key: int) -> None:
    heap_push(state.event_time, state.event, state.counts[EVENTS], time, key)
    state.counts[EVENTS] += 1
