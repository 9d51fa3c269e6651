"""Kernels of the nodes: tasks hand over messages, FIFOs inject packets, ports receive them."""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel

from ._event_kernels import free_tick, nearest_tick, put, schedule
from ._link_kernels import first_fifo, random_bits
from .state import NONE, PARTS, SLOTS, State

_FIRST_TASK, _LAST_TASK, _IN_HAND = 0, 1, 2


@bare_kernel
def begin_round(state: State, task: int, now: int) -> None:
    """Queue a task at its worker, which hands over the messages of the task's round."""
    w = state.tasks.worker_of[task]
    state.tasks.following[task] = NONE
    if state.tasks.worker[w, _FIRST_TASK] == NONE:
        state.tasks.worker[w, _FIRST_TASK] = task
        state.tasks.worker[w, _LAST_TASK] = task
        _take_in_hand(state, w, now)
    else:
        state.tasks.following[state.tasks.worker[w, _LAST_TASK]] = task
        state.tasks.worker[w, _LAST_TASK] = task


@bare_kernel
def _take_in_hand(state: State, w: int, now: int) -> None:
    """Let a worker prepare the first message of its first task's round."""
    task = state.tasks.worker[w, _FIRST_TASK]
    rounds = state.rounds.waits.size // state.tasks.current.size
    row = task * rounds + state.tasks.current[task]
    m = state.rounds.begin[row]
    state.tasks.worker[w, _IN_HAND] = m
    put(
        state,
        now + (state.packets.message[m].overhead if m < state.rounds.begin[row + 1] else 0),
        w,
    )


@bare_kernel
def hand_over(state: State, w: int, now: int) -> None:
    """Let a worker hand over the message it has prepared."""
    task = state.tasks.worker[w, _FIRST_TASK]
    rounds = state.rounds.waits.size // state.tasks.current.size
    row = task * rounds + state.tasks.current[task]
    m = state.tasks.worker[w, _IN_HAND]
    if m < state.rounds.begin[row + 1]:
        _send(state, state.rounds.first[m], now)
        m += 1
        state.tasks.worker[w, _IN_HAND] = m
        if m < state.rounds.begin[row + 1]:
            put(state, now + state.packets.message[m].overhead, w)
            return
    # The round is handed over. The worker is free for the next task; this task goes on or waits.
    follower = state.tasks.following[task]
    state.tasks.worker[w, _FIRST_TASK] = follower
    state.tasks.current[task] += rounds
    if follower != NONE:
        _take_in_hand(state, w, now)
    _go_on(state, task, now)


@bare_kernel
def _go_on(state: State, task: int, now: int) -> None:
    """Begin a task's next round if this one is handed over and all its messages have arrived."""
    rounds = state.rounds.waits.size // state.tasks.current.size
    done = state.tasks.current[task] - rounds
    if done < 0 or state.rounds.waits[task * rounds + done] > 0 or done + 1 == rounds:
        return
    state.tasks.current[task] = done + 1
    begin_round(state, task, now)
    if state.rounds.asked.size > 0:
        _answer_questions(state, task * rounds + done + 1, now)


@bare_kernel
def _answer_questions(state: State, row: int, now: int) -> None:
    """Answer the questions that came before the round began, in the order of their arrival."""
    last = state.rounds.asked[row]
    m = last
    while m != NONE:
        m = np.int64(state.packets.message[m].next)
        _send(state, state.rounds.then[m], now)
        if m == last:
            break


@bare_kernel
def _send(state: State, m: int, now: int) -> None:
    """Put a message into its FIFO, and wake the FIFO."""
    f = _post(state, m, now)
    if f != NONE:
        schedule(state, state.packets.packet.size + state.links.link.size + f, now)


@bare_kernel
def _post(state: State, m: int, now: int) -> int:
    """Put a message into its FIFO; return a FIFO to wake, or NONE."""
    message = state.packets.message[m]
    message.ready = now
    f = message.fifo
    if f == NONE:
        state.packets.receipt[m].finish = now + message.copy
        state.packets.receipt[m].left = 0
        if state.rules.dependent:
            put(state, now + message.copy, state.tasks.worker.shape[0] + m)
        return NONE
    first = first_fifo(state, f)
    filling = state.packets.filling[first]
    filling.length += 1
    filling.most = max(filling.most, filling.length)
    queue = state.packets.fifo[first]
    message.next = NONE
    if queue.head == NONE:
        queue.head = m
    else:
        state.packets.message[queue.tail].next = m
    queue.tail = m
    for i in range(first, first + state.rules.shared_by):
        fifo = state.packets.fifo[i]
        if not fifo.busy and fifo.outside < state.rules.outside:
            fifo.busy = 1
            return i
    return NONE


@bare_kernel
def feed(state: State, f: int, now: int) -> int:
    """Bring a FIFO's next packet to the router; return NONE if there is none or no room."""
    fifo = state.packets.fifo[f]
    queue = state.packets.fifo[first_fifo(state, f)]
    m = queue.head
    if m == NONE or fifo.outside == state.rules.outside:
        fifo.busy = 0
        return NONE
    message = state.packets.message[m]
    height = state.events.clock[SLOTS] - 1
    state.events.clock[SLOTS] = height
    p = state.packets.free[height]
    packet = state.packets.packet[p]
    packet.route = message.route if message.ties == 0 else _break_ties(state, m)
    packet.message = m
    packet.wire = message.wire
    packet.place = -2 - f
    packet.tail = now
    message.to_send -= 1
    if message.to_send == 0:
        queue.head = message.next
        filling = state.packets.filling[first_fifo(state, f)]
        filling.length -= 1
        filling.stay += now - message.ready
    elif state.rules.by_packet and message.next != NONE:
        queue.head = message.next
        state.packets.message[queue.tail].next = m
        message.next = NONE
        queue.tail = m
    if state.packets.turns_left.size > 0:
        state.packets.turns_left[np.uint64(f)] = np.int64(
            packet.wire * state.rules.turns_a_byte + 0.5
        )
    fifo.outside += 1
    parts = np.int64(packet.wire * state.rules.injection + 0.5)
    fifo.free_at = max(fifo.free_at, now << PARTS) + parts
    schedule(state, state.packets.packet.size + state.links.link.size + f, free_tick(fifo))
    return p


@bare_kernel
def leave_fifo(state: State, f: int, waited: int, now: int) -> None:
    """Let a FIFO go on when one of its packets begins to leave the node."""
    fifo = state.packets.fifo[f]
    fifo.outside -= 1
    fifo.waited += waited
    if not fifo.busy and state.packets.fifo[first_fifo(state, f)].head != NONE:
        fifo.busy = 1
        event = state.packets.packet.size + state.links.link.size + f
        schedule(state, event, max(now, free_tick(fifo)))


@bare_kernel
def _break_ties(state: State, m: int) -> np.uint64:
    """Return the route of a message's next packet; ties are decided by its number, or at random."""
    message = state.packets.message[m]
    coin = np.uint64(message.to_send ^ message.coin)
    if state.rules.draws_ties:
        coin = random_bits(np.uint64(state.rules.seed), np.uint64(m), coin)
    route = message.route
    for i in range(state.fields.width.size):
        if (message.ties >> i) & 1:
            if coin & np.uint64(1):
                plus = route & state.fields.mask[2 * state.fields.order[i]]
                route = (route & ~plus) | (plus << state.fields.width[i])
            coin >>= np.uint64(1)
    return route


@bare_kernel
def take_in(state: State, p: int, now: int) -> None:
    """Receive a packet at a node."""
    packet = state.packets.packet[p]
    m = packet.message
    taking = nearest_tick(np.int64(packet.wire * state.rules.reception + 0.5))
    ticks = max(taking, np.int64(np.int32(packet.tail - now)))
    receipt = state.packets.receipt[m]
    receipt.finish = max(receipt.finish, now + ticks)
    left = receipt.left - 1
    receipt.left = left
    state.packets.free[state.events.clock[SLOTS]] = p
    state.events.clock[SLOTS] += 1
    if left == 0 and state.rounds.then.size > 0:
        event = state.packets.packet.size + state.links.link.size + state.packets.fifo.size + m
        schedule(state, event, receipt.finish)


@bare_kernel
def message_arrived(state: State, m: int, now: int) -> None:
    """Continue what waited for a message: its sequel, or its receiver's round."""
    sequel = state.rounds.then[m]
    if sequel != NONE:
        if state.rounds.asked.size == 0 or not _asked_early(state, m, sequel):
            _send(state, sequel, now)
        return
    if not state.rules.dependent:
        return
    _count_down(state, state.rounds.receiver[m], now)
    if state.rounds.first[m] != m:
        # A sender that had to ask first waits until the message has arrived.
        _count_down(state, state.rounds.sender[m], now)


@bare_kernel
def _asked_early(state: State, m: int, sequel: int) -> bool:
    """Keep a question if its receiver has not begun the round; return whether it was kept."""
    asking = state.rounds.then[sequel]
    if asking == NONE:
        return False
    row = state.rounds.receiver[asking]
    rounds = state.rounds.waits.size // state.tasks.current.size
    if state.tasks.current[row // rounds] % rounds >= row % rounds:
        return False
    last = state.rounds.asked[row]
    if last == NONE:
        state.packets.message[m].next = m
    else:
        state.packets.message[m].next = state.packets.message[last].next
        state.packets.message[last].next = m
    state.rounds.asked[row] = m
    return True


@bare_kernel
def _count_down(state: State, row: int, now: int) -> None:
    """Reduce the messages that a task's round waits for by one."""
    state.rounds.waits[row] -= 1
    rounds = state.rounds.waits.size // state.tasks.current.size
    task = row // rounds
    if state.rounds.waits[row] == 0 and state.tasks.current[task] - rounds == row - task * rounds:
        _go_on(state, task, now)
