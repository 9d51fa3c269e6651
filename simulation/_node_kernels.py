"""Kernels of nodes: hand-over of messages, injection FIFOs, and reception.

A worker prepares the messages of its tasks, one after the other, and hands each to an injection
FIFO. In a rendezvous, a question and its answer are exchanged before the message is sent.
"""

from __future__ import annotations

import numpy as np

from toruscast._jit import bare_kernel

from ._event_kernels import add_task_event, free_tick, round_to_ticks, schedule
from ._link_kernels import queue_fifo, random_bits
from .state import N_FREE_SLOTS, NONE, PARTS, State

# Columns of `TaskRecords.worker`.
_FIRST_TASK, _LAST_TASK, _MESSAGE = 0, 1, 2


@bare_kernel
def queue_round(state: State, task: int, now: int) -> None:
    """Queue a task's current round at its worker, which hands over the messages of the round."""
    w = state.tasks.worker_of[task]
    state.tasks.following[task] = NONE
    if state.tasks.worker[w, _FIRST_TASK] == NONE:
        state.tasks.worker[w, _FIRST_TASK] = task
        state.tasks.worker[w, _LAST_TASK] = task
        _prepare_first_message(state, w, now)
    else:
        state.tasks.following[state.tasks.worker[w, _LAST_TASK]] = task
        state.tasks.worker[w, _LAST_TASK] = task


@bare_kernel
def _prepare_first_message(state: State, w: int, now: int) -> None:
    """Prepare the first message in the round of a worker's first task."""
    task = state.tasks.worker[w, _FIRST_TASK]
    rounds = state.rounds.waits.size // state.tasks.current.size
    row = task * rounds + state.tasks.current[task]
    m = state.rounds.begin[row]
    state.tasks.worker[w, _MESSAGE] = m
    add_task_event(
        state,
        now + (state.packets.message[m].overhead if m < state.rounds.begin[row + 1] else 0),
        w,
    )


@bare_kernel
def hand_over_message(state: State, w: int, now: int) -> None:
    """Hand over a worker's current message, and schedule its next message or its next task.

    After a task has handed over a round, and until it begins the next, its ``current`` is the
    handed-over round plus the number of rounds.
    """
    task = state.tasks.worker[w, _FIRST_TASK]
    rounds = state.rounds.waits.size // state.tasks.current.size
    row = task * rounds + state.tasks.current[task]
    m = state.tasks.worker[w, _MESSAGE]
    if m < state.rounds.begin[row + 1]:
        _send_message(state, state.rounds.first[m], now)
        m += 1
        state.tasks.worker[w, _MESSAGE] = m
        if m < state.rounds.begin[row + 1]:
            add_task_event(state, now + state.packets.message[m].overhead, w)
            return
    # The round is handed over, so the worker continues with its next task.
    next_task = state.tasks.following[task]
    state.tasks.worker[w, _FIRST_TASK] = next_task
    state.tasks.current[task] += rounds
    if next_task != NONE:
        _prepare_first_message(state, w, now)
    _begin_next_round(state, task, now)


@bare_kernel
def _begin_next_round(state: State, task: int, now: int) -> None:
    """Begin a task's next round if the current one is handed over and its messages have arrived."""
    rounds = state.rounds.waits.size // state.tasks.current.size
    round_done = state.tasks.current[task] - rounds
    if (
        round_done < 0
        or state.rounds.waits[task * rounds + round_done] > 0
        or round_done + 1 == rounds
    ):
        return
    state.tasks.current[task] = round_done + 1
    queue_round(state, task, now)
    if state.rounds.asked.size > 0:
        _answer_early_questions(state, task * rounds + round_done + 1, now)


@bare_kernel
def _answer_early_questions(state: State, row: int, now: int) -> None:
    """Answer the questions that arrived before the round began, in order of arrival."""
    last = state.rounds.asked[row]
    m = last
    while m != NONE:
        m = np.int64(state.packets.message[m].next)
        _send_message(state, state.rounds.next_message[m], now)
        if m == last:
            break


@bare_kernel
def _send_message(state: State, m: int, now: int) -> None:
    """Append a message to its FIFO, and schedule the FIFO if it was idle."""
    f = _enqueue_message(state, m, now)
    if f != NONE:
        schedule(state, state.packets.packet.size + state.links.link.size + f, now)


@bare_kernel
def _enqueue_message(state: State, m: int, now: int) -> int:
    """Append a message to its queue, and return an idle FIFO that may send it, or NONE.

    A message within a node is copied, without a FIFO. Each queue is shared by ``shared_by`` FIFOs.
    """
    message = state.packets.message[m]
    message.ready = now
    f = message.fifo
    if f == NONE:
        state.packets.receipt[m].finish = now + message.copy
        state.packets.receipt[m].left = 0
        if state.rules.dependent:
            add_task_event(state, now + message.copy, state.tasks.worker.shape[0] + m)
        return NONE
    first = queue_fifo(state, f)
    filling = state.packets.filling[first]
    filling.length += 1
    filling.max_length = max(filling.max_length, filling.length)
    queue = state.packets.fifo[first]
    message.next = NONE
    if queue.head == NONE:
        queue.head = m
    else:
        state.packets.message[queue.tail].next = m
    queue.tail = m
    for i in range(first, first + state.rules.shared_by):
        fifo = state.packets.fifo[i]
        if not fifo.busy and fifo.at_router < state.rules.max_at_router:
            fifo.busy = 1
            return i
    return NONE


@bare_kernel
def inject_packet(state: State, f: int, now: int) -> int:
    """Inject the next packet of a FIFO and return it.

    Return NONE if the queue is empty, or if too many packets of the FIFO wait at the router.
    """
    fifo = state.packets.fifo[f]
    queue = state.packets.fifo[queue_fifo(state, f)]
    m = queue.head
    if m == NONE or fifo.at_router == state.rules.max_at_router:
        fifo.busy = 0
        return NONE
    message = state.packets.message[m]
    n_free = state.events.clock[N_FREE_SLOTS] - 1
    state.events.clock[N_FREE_SLOTS] = n_free
    p = state.packets.free[n_free]
    packet = state.packets.packet[p]
    packet.route = message.route if message.ties == 0 else _break_ties(state, m)
    packet.message = m
    packet.wire = message.wire
    packet.buffer = -2 - f
    packet.tail = now
    message.to_send -= 1
    if message.to_send == 0:
        queue.head = message.next
        filling = state.packets.filling[queue_fifo(state, f)]
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
    fifo.at_router += 1
    parts = np.int64(packet.wire * state.rules.injection + 0.5)
    fifo.free_at = max(fifo.free_at, now << PARTS) + parts
    schedule(state, state.packets.packet.size + state.links.link.size + f, free_tick(fifo))
    return p


@bare_kernel
def release_fifo(state: State, f: int, waited: int, now: int) -> None:
    """Wake a FIFO when one of its packets begins to leave the node."""
    fifo = state.packets.fifo[f]
    fifo.at_router -= 1
    fifo.waited += waited
    if not fifo.busy and state.packets.fifo[queue_fifo(state, f)].head != NONE:
        fifo.busy = 1
        event = state.packets.packet.size + state.links.link.size + f
        schedule(state, event, max(now, free_tick(fifo)))


@bare_kernel
def _break_ties(state: State, m: int) -> np.uint64:
    """Return the route of the next packet of a message with open ties.

    At each tie, the packets of a message alternate between plus and minus, or draw one at random.
    """
    message = state.packets.message[m]
    coin = np.uint64(message.to_send ^ message.coin)
    if state.rules.draws_ties:
        coin = random_bits(np.uint64(state.rules.seed), np.uint64(m), coin)
    route = message.route
    for i in range(state.fields.width.size):
        if (message.ties >> i) & 1:
            if coin & np.uint64(1):
                # Move the hops from the plus field to the minus field, which is the next one.
                plus = route & state.fields.mask[2 * state.fields.order[i]]
                route = (route & ~plus) | (plus << state.fields.width[i])
            coin >>= np.uint64(1)
    return route


@bare_kernel
def receive_packet(state: State, p: int, now: int) -> None:
    """Record the receipt of a packet, free its slot, and schedule the arrival of its message.

    The arrival is scheduled only if a handshake or a round waits for it.
    """
    packet = state.packets.packet[p]
    m = packet.message
    receive_ticks = round_to_ticks(np.int64(packet.wire * state.rules.reception + 0.5))
    ticks = max(receive_ticks, np.int64(np.int32(packet.tail - now)))
    receipt = state.packets.receipt[m]
    receipt.finish = max(receipt.finish, now + ticks)
    n_left = receipt.left - 1
    receipt.left = n_left
    state.packets.free[state.events.clock[N_FREE_SLOTS]] = p
    state.events.clock[N_FREE_SLOTS] += 1
    if n_left == 0 and state.rounds.next_message.size > 0:
        event = state.packets.packet.size + state.links.link.size + state.packets.fifo.size + m
        schedule(state, event, receipt.finish)


@bare_kernel
def handle_arrival(state: State, m: int, now: int) -> None:
    """Send the next message of a handshake, or update the rounds that wait for a message."""
    next_message = state.rounds.next_message[m]
    if next_message != NONE:
        if state.rounds.asked.size == 0 or not _keep_early_question(state, m, next_message):
            _send_message(state, next_message, now)
        return
    if not state.rules.dependent:
        return
    _decrement_waits(state, state.rounds.receiver[m], now)
    if state.rounds.first[m] != m:
        # With a rendezvous, the sender also waits for the arrival.
        _decrement_waits(state, state.rounds.sender[m], now)


@bare_kernel
def _keep_early_question(state: State, m: int, answer: int) -> bool:
    """If a question arrived before its receiver's round, store it; return whether it did.

    The stored questions of a round form a circular list; `asked` is the last question.
    """
    message = state.rounds.next_message[answer]
    if message == NONE:
        return False
    row = state.rounds.receiver[message]
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
def _decrement_waits(state: State, row: int, now: int) -> None:
    """Decrement the messages that a round waits for; after the last, continue the round's task."""
    state.rounds.waits[row] -= 1
    rounds = state.rounds.waits.size // state.tasks.current.size
    task = row // rounds
    if state.rounds.waits[row] == 0 and state.tasks.current[task] - rounds == row - task * rounds:
        _begin_next_round(state, task, now)
