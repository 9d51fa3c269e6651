"""Kernels of later events, in a queue and a heap: tasks' next messages, copies within a node.

Most events come in the order of their ticks, for example if every message costs the same software.
They go into the queue, whose cost does not depend on the number of tasks. The others go into the
heap.
"""

from __future__ import annotations

from toruscast._jit import bare_kernel

from .._state import HEAP, NONE, ORDER, QUEUE_FIRST, QUEUE_LENGTH, State


@bare_kernel
def put(state: State, tick: int, who: int) -> None:
    """Add an event at a tick; events of one tick come out in the order they went in."""
    order = state.events.clock[ORDER]
    state.events.clock[ORDER] = order + 1
    rows = state.events.task_queue.shape[0]
    length = state.events.clock[QUEUE_LENGTH]
    end = state.events.clock[QUEUE_FIRST] + length
    last = end - 1
    if length > 0 and state.events.task_queue[last - rows * (last >= rows), 0] > tick:
        _push(state, tick, order, who)
        return
    end -= rows * (end >= rows)
    state.events.task_queue[end, 0] = tick
    state.events.task_queue[end, 1] = order
    state.events.task_queue[end, 2] = who
    state.events.clock[QUEUE_LENGTH] = length + 1


@bare_kernel
def next_task_tick(state: State) -> int:
    """Return the tick of the earliest event; NONE if there is none."""
    tick = NONE
    if state.events.clock[QUEUE_LENGTH] > 0:
        tick = state.events.task_queue[state.events.clock[QUEUE_FIRST], 0]
    if state.events.clock[HEAP] > 0 and (tick == NONE or state.events.heap[0, 0] < tick):
        tick = state.events.heap[0, 0]
    return tick


@bare_kernel
def take(state: State) -> int:
    """Remove the earliest event, and return it."""
    first = state.events.clock[QUEUE_FIRST]
    queue, heap = state.events.task_queue, state.events.heap
    if state.events.clock[QUEUE_LENGTH] == 0 or (
        state.events.clock[HEAP] > 0
        and (
            heap[0, 0] < queue[first, 0]
            or (heap[0, 0] == queue[first, 0] and heap[0, 1] < queue[first, 1])
        )
    ):
        return _pop(state)
    state.events.clock[QUEUE_LENGTH] -= 1
    state.events.clock[QUEUE_FIRST] = first + 1 if first + 1 < queue.shape[0] else 0
    who: int = queue[first, 2]
    return who


@bare_kernel
def _push(state: State, tick: int, order: int, who: int) -> None:
    """Put an event into the heap."""
    heap = state.events.heap
    i = state.events.clock[HEAP]
    state.events.clock[HEAP] = i + 1
    while i > 0:
        above = (i - 1) >> 1
        if heap[above, 0] <= tick:
            break
        heap[i, 0] = heap[above, 0]
        heap[i, 1] = heap[above, 1]
        heap[i, 2] = heap[above, 2]
        i = above
    heap[i, 0] = tick
    heap[i, 1] = order
    heap[i, 2] = who


@bare_kernel
def _pop(state: State) -> int:
    """Remove the earliest event from the heap, and return it."""
    heap = state.events.heap
    who: int = heap[0, 2]
    size = state.events.clock[HEAP] - 1
    state.events.clock[HEAP] = size
    tick = heap[size, 0]
    order = heap[size, 1]
    last = heap[size, 2]
    i = 0
    while True:
        below = 2 * i + 1
        if below >= size:
            break
        if below + 1 < size and (
            heap[below + 1, 0] < heap[below, 0]
            or (heap[below + 1, 0] == heap[below, 0] and heap[below + 1, 1] < heap[below, 1])
        ):
            below += 1
        if tick < heap[below, 0] or (tick == heap[below, 0] and order < heap[below, 1]):
            break
        heap[i, 0] = heap[below, 0]
        heap[i, 1] = heap[below, 1]
        heap[i, 2] = heap[below, 2]
        i = below
    heap[i, 0] = tick
    heap[i, 1] = order
    heap[i, 2] = last
    return who
