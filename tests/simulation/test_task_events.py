"""The queue and the heap of what tasks do next, against a heap alone."""

import heapq

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toruscast._jit import kernel
from toruscast.mapping import CommGraph, MappingProblem, TaskMapping, Torus
from toruscast.routing.messages import list_messages
from toruscast.simulation._event_kernels import add_task_event, next_task_tick, pop_task_event
from toruscast.simulation.setup import build_state
from toruscast.simulation.state import NONE

CAPACITY = 5


def state_of_room():
    """A state of the simulator's own with room for so many events.

    Of a type of this file, the compiled kernels that are kept would not load without it.
    """
    # A worker for each task, and a row more.
    comm, torus = CommGraph(CAPACITY - 1, [0], [1], [8]), Torus((2,))
    mapping = TaskMapping(np.arange(CAPACITY - 1) % 2, torus)
    messages = list_messages(MappingProblem(comm, torus), mapping, 1)
    state, _ = build_state(messages, 1, torus, mapping, "deterministic")
    assert len(state.events.heap) == len(state.events.task_queue) == CAPACITY
    return state


@kernel
def play(state, delays, seen):
    """Put an event for each delay from the tick taken last; take the earliest for each NONE."""
    now = 0
    for i in range(delays.size):
        if delays[i] == NONE:
            now = next_task_tick(state)
            seen[i, 0] = now
            seen[i, 1] = pop_task_event(state) if now != NONE else NONE
        else:
            add_task_event(state, now + delays[i], i)
    return next_task_tick(state)


@st.composite
def steps(draw):
    """Delays of events to put, NONE to take one: never more than fit."""
    delays = st.sampled_from(draw(st.sampled_from([[0], [7], [0, 1], [3, 0, 1000], range(20)])))
    found, inside = [], 0
    for _ in range(draw(st.integers(0, 60))):
        taken = inside and (inside == CAPACITY or draw(st.booleans()))
        found.append(NONE if taken else draw(delays))
        inside += -1 if taken else 1
    return found


@settings(deadline=None)
@given(steps())
@example([1000, 1, 2, NONE, 0, NONE, 5, NONE, NONE, NONE])
def test_events_come_out_by_tick_then_in_the_order_they_went_in(delays):
    state = state_of_room()
    seen = np.full((len(delays), 2), -9)
    last = play(state, np.array(delays, dtype=np.int64), seen)
    heap, now = [], 0
    for i, delay in enumerate(delays):
        if delay == NONE:
            now, who = heapq.heappop(heap)
            assert seen[i].tolist() == [now, who]
        else:
            heapq.heappush(heap, (now + delay, i))
    assert last == (heap[0][0] if heap else NONE)
