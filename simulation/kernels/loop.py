"""Kernel of the packet-level simulator: the event loop.

Each packet-hop costs an event where its head arrives at a router and, if others wait, one where the
link falls free. Work is done only there; nothing scans idle nodes or finished messages.
"""

from __future__ import annotations

import numpy as np

from toruscast._jit import entry_kernel
from toruscast._llvm import point_to

from .._state import CHUNK, CHUNKS, DELIVERED, FIRSTS, HELD, HOPS, NONE, NOW, State
from .arrival import arrive, proceed
from .departure import announce, serve
from .event import arm, bring, event_of, free_tick, next_tick, schedule
from .network import is_adaptive
from .node import begin_round, feed, hand_over, message_arrived
from .task_event import next_task_tick, take

_LAST = CHUNK - 1


@entry_kernel
def start(all_arrays: State) -> None:
    """Begin every task's first round."""
    state: State = point_to(all_arrays)
    for task in range(state.tasks.current.size):
        begin_round(state, task, state.events.clock[NOW])


@entry_kernel
def run(all_arrays: State, until: int, budget: int) -> int:
    """Run until a tick, or for some packet-hops; return whether any event is left.

    ``HELD`` of the clock becomes the tick of the next event if that is later, else 0.
    """
    state: State = point_to(all_arrays)
    n_packets = state.packets.packet.size
    n_links = state.links.link.size
    n_fifos = state.packets.fifo.size
    now = state.events.clock[NOW]
    hops = 0
    tick = now
    while hops < budget:
        tick = next_tick(state, now)
        of_tasks = next_task_tick(state)
        if of_tasks != NONE and (tick == NONE or of_tasks < tick):
            tick = of_tasks
        if tick == NONE or tick > until:
            break
        now = tick
        while next_task_tick(state) == now:
            who = take(state)
            n_workers = state.tasks.worker.shape[0]
            if who >= n_workers:
                schedule(state, n_packets + n_links + n_fifos + who - n_workers, now)
            else:
                hand_over(state, who, now)
        slot = state.events.wheel[now & (state.events.wheel.size - 1)]
        i = np.int64(slot.first)
        if i == NONE:
            continue
        # Events of this tick may add others to it.
        while i != slot.end:
            if (i & _LAST) == _LAST:
                state.events.spare[np.uint64(state.events.clock[CHUNKS])] = i - _LAST
                state.events.clock[CHUNKS] += 1
                i = state.events.chunk[np.uint64(i)]
            if (i & _LAST) == 0:
                bring(state, i, np.int64(slot.end), now)
            event = event_of(state.events.chunk[np.uint64(i)])
            i += 1
            p = NONE
            out = NONE
            if event < n_packets:
                hops += state.packets.packet[event].route != DELIVERED
                p = event
                arrive(state, p, now)
            elif event < n_packets + n_links:
                out = event - n_packets
                link = state.links.link[out]
                if free_tick(link) <= now:
                    arm(state, out, 0)
                else:
                    # It was served in the meantime.
                    schedule(state, event, free_tick(link), out)
                    out = NONE
            elif event < n_packets + n_links + n_fifos:
                p = feed(state, event - n_packets - n_links, now)
            else:
                message_arrived(state, event - n_packets - n_links - n_fifos, now)
            if p != NONE:
                out = proceed(state, p, now)
            while out != NONE or (is_adaptive(state) and state.events.clock[FIRSTS] != NONE):
                if is_adaptive(state) and state.events.clock[FIRSTS] != NONE:
                    announce(state, now)
                    state.events.clock[FIRSTS] = NONE
                if out != NONE:
                    out = serve(state, out, now)
        state.events.spare[np.uint64(state.events.clock[CHUNKS])] = (i - 1) & ~_LAST
        state.events.clock[CHUNKS] += 1
        slot.first = NONE
        slot.end = _LAST
        word = np.uint64((now >> 6) & (state.events.filled.size - 1))
        state.events.filled[word] &= ~(np.uint64(1) << np.uint64(now & 63))
    state.events.clock[NOW] = now
    state.events.clock[HOPS] += hops
    state.events.clock[HELD] = tick if tick > until else 0
    return int(tick != NONE)
