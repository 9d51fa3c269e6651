"""Order mappings by a fluid with finite buffers, and by simulations with longer packets.

    PYTHONPATH=. python benchmarks/fluid.py --out benchmarks/results [--adaptive]

Each case is an application of `studies/unseen/graphs.py` with 30 candidates. The correct order is
that of the simulation with real packets. For each estimate, fluid.csv has the RCC, the regret of
its first choice, and its processor time relative to the real packets. This takes about four
minutes. With ``--adaptive``, all packets route adaptively. adaptive.csv then has the unchanged
release bound, the release bound with an even split over all shortest routes, the release bound with
the split of chunks that choose their routes, and longer packets.

The fluid keeps the bytes of each message in front of each link. In a step, every link takes as many
bytes as its bandwidth and the room behind it allow. It takes them from the queues in proportion to
their sizes. Into a full ring, bytes that stay on the ring go first. A FIFO has one packet in the
queue of its first link. Bytes with several possible links take those with most room in each step.
The length of a step is a fraction of the mean message.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pandas as pd
from numpy.typing import NDArray

import toruscast as tc
from studies.unseen.graphs import KINDS, draw
from toruscast._features import RoutedTraffic
from toruscast.mapping import MappingProblem
from toruscast.routing import routes
from toruscast.routing.messages import list_messages, mean_message_packets
from toruscast.simulation import simulate
from toruscast.training import rcc, regret

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MAPPINGS = 30
CHUNKS = 16
HOSTS = ("8x8x4", "4x4x16", "4x4x4x2x2", "4x4x8", "8x8", "4x4x4")
PACKETS = (4, 16, 64, 24, 256)
# Maximum packet-hops of a simulation.
MOST_HOPS = 4e6
BOUND, CHOSEN = "release bound", "release bound of chosen ways"


class Sent(NamedTuple):
    """The messages of all rounds, sorted by task and round."""

    begin: Ints  # (T * R + 1,) first message of each task and round
    waits: Ints  # (T * R,) messages that it receives
    receiver: Ints  # (M,) row of `waits`
    fifo: Ints  # (M,) of all nodes, -1 within a node
    nbytes: Floats  # (M,) headers included
    packet: Floats  # (M,) bytes of a packet
    software: Floats  # (M,) seconds
    after: Floats  # (M,) seconds from the step of the last byte to the arrival
    rounds: int


class Ways(NamedTuple):
    """The positions of the bytes of messages, and the ways out of each position."""

    first: Ints  # (M + 1,) positions of a message: in the FIFO, then along its ways
    behind: NDArray[np.int32]  # (P,) link that brought them, -1 in the FIFO
    way: NDArray[np.int32]  # (P, W, 4) ways out of it: LINK, AFTER, KIND, NEEDS_ROOM


class Links(NamedTuple):
    """The links and the injection FIFOs."""

    capacity: Floats  # (L,) bytes a second
    room: Floats  # (L,) bytes of the buffer behind it
    bubble: Floats  # (L,) bytes that stay free when a packet enters a ring
    ports: int
    injection: float  # bytes a second of a FIFO
    fifos: int  # of all nodes


# Fields of a way: its link (-1 at the end), the position behind it, whether bytes enter a ring
# there (1) or stay on it (0), and whether they continue from there.
LINK, AFTER, KIND, NEEDS_ROOM = range(4)
# Fields of a link, two of them a kind: bytes that could go in this step, those that queue at its
# beginning, those that need room; parts of the queued and of the others that go.
WANTED, QUEUED, NEEDING, FIRST, REST = 0, 2, 4, 6, 8
# Bytes it may still take, bytes behind it and those that leave in this step, whether it is used.
BUDGET, OCCUPIED, LEAVES, USED = 10, 11, 12, 13


class Moment(NamedTuple):
    """The bytes at each position, and the bytes that move in this step."""

    held: Floats  # (P, 2) bytes, and those that come in
    part: Floats  # (P, W) of a place's bytes that take each way
    link: Floats  # (L, 16)
    used: Ints  # (L,)
    number: Ints  # (1,) of used links


jit = numba.njit(cache=True, error_model="numpy")


@jit
def run(sent: Sent, ways: Ways, links: Links, step: float, passes: int) -> float:
    """Return the time at which all bytes have arrived, in seconds."""
    n_links, n, rounds = links.capacity.size, sent.nbytes.size, sent.rounds
    n_tasks = sent.waits.size // rounds
    n_places, most = ways.way.shape[:2]
    it = Moment(
        np.zeros((n_places, 2)),
        np.ones((n_places, most)),
        np.zeros((n_links, 16)),
        np.zeros(n_links, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )
    it.link[:, FIRST : REST + 2] = 1.0
    left, done = sent.nbytes.copy(), np.zeros(n)
    started = np.zeros(n, dtype=np.bool_)
    active, n_active = np.empty(n, dtype=np.int64), 0
    head, tail = np.full(links.fifos, -1), np.full(links.fifos, -1)
    later = np.full(n, -1)
    sending, n_sending = np.empty(links.fifos, dtype=np.int64), 0
    waits, came = sent.waits.copy(), np.zeros(sent.waits.size)
    current, ready = np.zeros(n_tasks, dtype=np.int64), np.zeros(n_tasks)
    following = sent.begin[np.arange(n_tasks) * rounds].copy()
    for task in range(n_tasks):
        if following[task] < sent.begin[task * rounds + 1]:
            ready[task] = sent.software[following[task]]
    end, now, n_done = 0.0, 0.0, 0
    while n_done < n:
        soonest = np.inf
        for task in range(n_tasks):
            while current[task] < rounds:
                row = task * rounds + current[task]
                m = following[task]
                if m < sent.begin[row + 1]:
                    if ready[task] > now + step / 2:
                        soonest = min(soonest, ready[task])
                        break
                    f = sent.fifo[m]
                    if f < 0:
                        n_done += 1
                        at = ready[task] + sent.after[m]
                        end = max(end, at)
                        waits[sent.receiver[m]] -= 1
                        came[sent.receiver[m]] = max(came[sent.receiver[m]], at)
                    elif head[f] < 0:
                        head[f] = tail[f] = m
                        sending[n_sending] = f
                        n_sending += 1
                    else:
                        later[tail[f]] = m
                        tail[f] = m
                    following[task] = m + 1
                    if m + 1 < sent.begin[row + 1]:
                        ready[task] += sent.software[m + 1]
                    continue
                if waits[row] > 0:
                    break
                current[task] += 1
                ready[task] = max(ready[task], came[row])
                if current[task] < rounds:
                    following[task] = sent.begin[row + 1]
                    if sent.begin[row + 1] < sent.begin[row + 2]:
                        ready[task] += sent.software[sent.begin[row + 1]]
        if n_active == 0 and n_sending == 0:
            if soonest == np.inf:
                break
            now = max(now + step, np.floor(soonest / step) * step)
            continue
        for turn in range(passes + 1):
            moves = turn == passes
            if not moves:
                forget(it)
            for i in range(n_sending):
                f = sending[i]
                free = links.injection * step
                m = head[f]
                while m >= 0 and free > 0.0:
                    if not started[m]:
                        started[m] = True
                        active[n_active] = m
                        n_active += 1
                    amount = min(left[m], free)
                    free -= amount
                    p = ways.first[m]
                    gone = send(
                        ways, links, it, p, amount, min(amount, sent.packet[m]), moves, step
                    )
                    if moves:
                        left[m] -= gone
                        if left[m] > 1e-9 * sent.nbytes[m]:
                            break
                        head[f] = later[m]
                    m = later[m]
            for i in range(n_active):
                m = active[i]
                for p in range(ways.first[m] + 1, ways.first[m + 1]):
                    entering = it.held[p, 1]
                    amount = it.held[p, 0] + entering
                    if amount == 0.0:
                        continue
                    it.held[p, 1] = 0.0
                    b = ways.behind[p]
                    if ways.way[p, 0, LINK] >= 0:
                        queued = min(amount, it.held[p, 0] + sent.packet[m])
                        gone = send(ways, links, it, p, amount, queued, moves, step)
                        if moves:
                            stays = amount - gone
                            if stays < 1e-6:
                                stays = 0.0
                            it.link[b, OCCUPIED] += stays - it.held[p, 0]
                            it.held[p, 0] = stays
                        else:
                            it.link[b, LEAVES] += gone
                    elif moves:
                        missing = sent.nbytes[m] - done[m]
                        done[m] += entering
                        if entering >= missing - 1e-3:
                            at = now + min(step, missing / links.capacity[b]) + sent.after[m]
                            done[m] = np.inf
                            n_done += 1
                            end = max(end, at)
                            waits[sent.receiver[m]] -= 1
                            came[sent.receiver[m]] = max(came[sent.receiver[m]], at)
            if not moves:
                for i in range(it.number[0]):
                    divide(links, it, it.used[i], step)
        kept = 0
        for i in range(n_sending):
            if head[sending[i]] >= 0:
                sending[kept] = sending[i]
                kept += 1
        n_sending = kept
        kept = 0
        for i in range(n_active):
            if done[active[i]] < np.inf:
                active[kept] = active[i]
                kept += 1
        n_active = kept
        now += step
    return end


@jit
def forget(it: Moment) -> None:
    """Reset the requests to the links."""
    for i in range(it.number[0]):
        link = it.link[it.used[i]]
        link[WANTED : NEEDING + 2] = 0.0
        link[USED] = 0.0
    it.number[0] = 0
    it.link[:, LEAVES] = 0.0


@jit
def send(
    ways: Ways,
    links: Links,
    it: Moment,
    p: int,
    amount: float,
    queued: float,
    moves: bool,
    step: float,
) -> float:
    """Request links for the bytes of a position, or move the granted bytes; return their number."""
    most = ways.way.shape[1]
    if not moves and most > 1:
        spread(ways, links, it, p, amount, step)
    gone = 0.0
    for k in range(most):
        u = ways.way[p, k, LINK]
        if u < 0:
            break
        now, whole = queued, amount
        if most > 1:
            share = it.part[p, k]
            if share == 0.0:
                continue
            now, whole = queued * share, amount * share
        kind = ways.way[p, k, KIND]
        flow = now * it.link[u, FIRST + kind] + (whole - now) * it.link[u, REST + kind]
        if moves:
            flow = min(flow, it.link[u, BUDGET])
            it.link[u, BUDGET] -= flow
        else:
            if it.link[u, USED] == 0.0:
                it.link[u, USED] = 1.0
                it.used[it.number[0]] = u
                it.number[0] += 1
            it.link[u, WANTED + kind] += whole
            it.link[u, QUEUED + kind] += now
            it.link[u, NEEDING + kind] += whole * ways.way[p, k, NEEDS_ROOM]
        it.held[ways.way[p, k, AFTER], 1] += flow
        gone += flow
    return gone


@jit
def spread(ways: Ways, links: Links, it: Moment, p: int, amount: float, step: float) -> None:
    """Send bytes along the ways with the most room, up to the capacity of their links."""
    most = ways.way.shape[1]
    it.part[p] = 0.0
    rest = amount
    while rest > 0.0:
        best, room, can = -1, -np.inf, 0.0
        for k in range(most):
            u = ways.way[p, k, LINK]
            if u < 0:
                break
            if it.part[p, k] > 0.0:
                continue
            asked = it.link[u, WANTED] + it.link[u, WANTED + 1]
            free = links.room[u] - it.link[u, OCCUPIED] - asked
            if free > room:
                best, room = k, free
                can = min(links.capacity[u] * step, free + asked) - asked
        if best < 0:
            break
        takes = min(rest, max(can, 1e-3 * amount))
        it.part[p, best] = takes / amount
        rest -= takes
    if rest > 0.0:
        it.part[p] *= amount / (amount - rest)


@jit
def divide(links: Links, it: Moment, u: int, step: float) -> None:
    """Compute the shares of its requests that a link can grant."""
    link = it.link[u]
    can = link[BUDGET] = links.capacity[u] * step
    room = max(0.0, links.room[u] - link[OCCUPIED] + link[LEAVES])
    wanted, queued = link[WANTED] + link[WANTED + 1], link[QUEUED] + link[QUEUED + 1]
    first = rest = 1.0
    if queued >= can:
        first, rest = can / queued, 0.0
    elif wanted > can:
        rest = (can - queued) / (wanted - queued)
    link[FIRST] = link[FIRST + 1] = first
    link[REST] = link[REST + 1] = rest
    needed = links.bubble[u]
    for kind in range(2):
        needed += link[NEEDING + kind]
    if needed <= room:
        return
    stay = link[QUEUED] * first + (link[WANTED] - link[QUEUED]) * rest
    enter = link[QUEUED + 1] * first + (link[WANTED + 1] - link[QUEUED + 1]) * rest
    stays_need = link[NEEDING] / link[WANTED] if link[WANTED] > 0.0 else 0.0
    enters_need = link[NEEDING + 1] / link[WANTED + 1] if link[WANTED + 1] > 0.0 else 0.0
    if stay * stays_need + enter * enters_need + links.bubble[u] <= room:
        return
    # The ring is full, so bytes that are already on it go first and use the whole link.
    free = max(0.0, room - links.bubble[u] - stay * stays_need)
    if enter * enters_need > free:
        part = free / (enter * enters_need)
        link[FIRST + 1] *= part
        link[REST + 1] *= part
        left = min(can - enter * part, link[WANTED])
        if stay < left:
            stay = left
            link[FIRST] = link[REST] = stay / link[WANTED]
    if stay * stays_need > room:
        part = room / (stay * stays_need)
        link[FIRST] *= part
        link[REST] *= part


@jit
def list_ways(
    shape: Ints,
    stride: Ints,
    first: Ints,
    links: Ints,
    start: Ints,
    behind: NDArray[np.int32],
    way: NDArray[np.int32],
) -> None:
    """List the positions of adaptive messages: each node and dimension in their box."""
    ports = 2 * shape.size
    for m in range(first.size - 1):
        hops, port = np.zeros(shape.size, dtype=np.int64), np.zeros(shape.size, dtype=np.int64)
        for i in range(first[m], first[m + 1]):
            k = links[i] % ports // 2
            hops[k] += 1
            port[k] = links[i] % ports
        own = np.flatnonzero(hops)
        step = np.ones(own.size + 1, dtype=np.int64)  # from a cell of the box to the next
        for j in range(own.size):
            step[j + 1] = step[j] * (hops[own[j]] + 1)
        for cell in range(step[-1] if own.size else 0):
            at = cell // step[:-1] % (hops[own] + 1)
            node = links[first[m]] // ports
            for j, k in enumerate(own):
                c = node // stride[k] % shape[k]
                moved = at[j] if port[k] % 2 == 0 else -at[j]
                node += ((c + moved) % shape[k] - c) * stride[k]
            for i in range(own.size if cell else 1):
                if cell and at[i] == 0:
                    continue
                p, n = start[m] + (1 + cell * own.size + i if cell else 0), 0
                for j, k in enumerate(own):
                    if at[j] < hops[k]:
                        after = start[m] + 1 + (cell + step[j]) * own.size + j
                        way[p, n, LINK], way[p, n, AFTER] = node * ports + port[k], after
                        behind[after] = node * ports + port[k]
                        n += 1


def ways_of(torus: tc.Torus, src: Ints, dst: Ints, adaptive: bool) -> Ways:
    """Return the positions of the messages, and the ways out of them."""
    first, links = routes(torus, src, dst)
    hops = np.diff(first)
    ports = 2 * torus.ndim
    start = np.zeros(hops.size + 1, dtype=np.int64)
    if adaptive:
        along = np.zeros((hops.size, torus.ndim), dtype=np.int64)
        np.add.at(along, (np.repeat(np.arange(hops.size), hops), links % ports // 2), 1)
        n_places = 1 + np.prod(along + 1, axis=1) * (along > 0).sum(axis=1)
    else:
        n_places = hops + 1
    np.cumsum(n_places, out=start[1:])
    behind = np.full(start[-1], -1, dtype=np.int32)
    way = np.full((start[-1], torus.ndim if adaptive else 1, 4), -1, dtype=np.int32)
    if adaptive:
        stride = np.cumprod((1, *torus.shape[:0:-1]))[::-1].astype(np.int64)
        list_ways(np.array(torus.shape), stride, first, links, start, behind, way)
    else:
        at = np.arange(links.size) + np.repeat(np.arange(hops.size), hops)
        way[at, 0, LINK], way[at, 0, AFTER] = links, at + 1
        behind[at + 1] = links
    after = way[:, :, AFTER]
    way[:, :, KIND] = (behind[:, None] < 0) | (behind[:, None] % ports != way[:, :, LINK] % ports)
    way[:, :, NEEDS_ROOM] = way[after, 0, LINK] >= 0
    return Ways(start, behind, way)


def fluid(
    workload: tc.Workload,
    torus: tc.Torus,
    mapping: tc.TaskMapping,
    routing: tc.Routing,
    steps: float,
    passes: int = 1,
) -> float:
    """Return the time of the fluid, with a given number of steps in the mean message."""
    network, rounds = torus.network, len(workload)
    listed = list_messages(MappingProblem(workload, torus), mapping, 1)
    rows = listed.task * np.int64(rounds) + listed.round
    receiver = listed.receiver * np.int64(rounds) + listed.round
    n_rows = mapping.n_tasks * rounds
    local = listed.src == listed.dst
    hops = torus.distance(listed.src, listed.dst)
    nbytes = listed.packets * listed.wire
    sent = Sent(
        np.searchsorted(rows, np.arange(n_rows + 1)),
        np.bincount(receiver, minlength=n_rows),
        receiver,
        np.where(local, -1, listed.src * np.int64(network.fifos) + listed.fifo),
        nbytes,
        np.minimum(listed.wire, nbytes),
        listed.software,
        np.where(local, listed.nbytes / network.memory_bandwidth, hops * network.hop_latency),
        rounds,
    )
    whole = network.payload + network.header
    rings = np.array([w and k > 3 for k, w in zip(torus.ring_lengths, torus.wrap, strict=True)])
    adaptive = routing == "adaptive"
    room = np.full(torus.n_links, float(network.buffer_packets * whole))
    links = Links(
        torus.link_bandwidth.astype(np.float64),
        room * (2 if adaptive else 1),
        np.tile(np.repeat(np.where(rings, whole, 0.0), 2), torus.n_nodes),
        2 * torus.ndim,
        float(max(torus.bandwidth)),
        torus.n_nodes * network.fifos,
    )
    ways = ways_of(torus, listed.src, listed.dst, adaptive)
    packets = mean_message_packets(MappingProblem(workload, torus))
    step = max(packets, 1.0) * whole / max(torus.bandwidth) / steps
    return network.start + run(sent, ways, links, step, passes)


@jit
def walk(
    torus: tuple[Ints, Ints, Ints],
    chunk: Ints,
    release: Floats,
    src: Ints,
    hop: Ints,
    nbytes: Floats,
    a_byte: Floats,
    latency: float,
) -> float:
    """Return the time at which the last link is free, if chunks take the link that is free first.

    Chunks come in the order of their release, and each passes all its links before the next one.
    """
    shape, stride, order = torus
    ports = 2 * shape.size
    free = np.zeros(a_byte.size)
    left = np.zeros(shape.size, dtype=np.int64)
    end = 0.0
    for i in range(chunk.size):
        m, here, now = chunk[i], src[chunk[i]], release[i]
        left[:] = hop[m]
        for _ in range(np.abs(left).sum()):
            best, along = -1, -1
            for k in order:
                u = here * ports + 2 * k + (left[k] < 0)
                if left[k] != 0 and (best < 0 or free[u] < free[best]):
                    best, along = u, k
            free[best] = max(free[best], now) + nbytes[m] * a_byte[best]
            now += latency
            end = max(end, free[best] + latency)
            step = 1 if left[along] > 0 else -1
            at = here // stride[along] % shape[along]
            here += ((at + step) % shape[along] - at) * stride[along]
            left[along] -= step
    return end


@jit
def leave(fifo: Ints, ready: Floats, seconds: Floats, order: Ints, n_fifos: int) -> Floats:
    """Return the times at which messages leave their FIFOs one after another, in an order."""
    free, release = np.zeros(n_fifos), np.zeros(fifo.size)
    for m in order:
        release[m] = max(ready[m], free[fifo[m]])
        free[fifo[m]] = release[m] + seconds[m]
    return release


def chosen(workload: tc.Workload, torus: tc.Torus, mapping: tc.TaskMapping) -> float:
    """Return the release bound of the routes that up to 16 chunks of each message choose.

    It is an estimate, because other routes may be faster.
    """
    network = torus.network
    listed = list_messages(MappingProblem(workload, torus), mapping, 1)
    remote = listed.src != listed.dst
    first = np.r_[0, np.flatnonzero(np.diff(listed.task)) + 1]
    sums = np.cumsum(listed.software)
    ready = sums - np.repeat(sums[first] - listed.software[first], np.diff(np.r_[first, sums.size]))
    src, dst, ready = listed.src[remote].astype(np.int64), listed.dst[remote], ready[remote]
    nbytes = (listed.packets * listed.wire)[remote]
    seconds = nbytes / max(torus.bandwidth)
    fifo = src * network.fifos + listed.fifo[remote]
    order = np.argsort(ready, kind="stable")
    release = leave(fifo, ready, seconds, order, torus.n_nodes * network.fifos)
    first, links = routes(torus, src, dst)
    hop = np.zeros((src.size, torus.ndim), dtype=np.int64)
    port = links % (2 * torus.ndim)
    np.add.at(hop, (np.repeat(np.arange(src.size), np.diff(first)), port // 2), 1 - 2 * (port % 2))
    chunks = np.clip(listed.packets[remote], 1, CHUNKS)
    chunk = np.repeat(np.arange(src.size), chunks)
    number = np.arange(chunk.size) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    released = release[chunk] + number * (seconds / chunks)[chunk]
    order = np.argsort(released, kind="stable")
    stride = np.cumprod((1, *torus.shape[:0:-1]))[::-1].astype(np.int64)
    grid = np.array(torus.shape), stride, np.array(torus.routing_order)
    a_byte, latency = 1 / torus.link_bandwidth, network.hop_latency
    return network.start + walk(
        grid, chunk[order], released[order], src, hop, nbytes / chunks, a_byte, latency
    )


class Case(NamedTuple):
    """An application on a torus, with candidates."""

    name: str
    group: str
    workload: tc.Workload
    torus: tc.Torus
    mappings: tuple[tc.TaskMapping, ...]
    routing: tc.Routing


def drawn(group: str, kind: str, host: str, packets: float, seed: int, rounds: int = 1) -> Case:
    """Draw an application, and its candidates."""
    torus = tc.torus(host)
    rngs = [np.random.default_rng([seed, i]) for i in range(rounds)]
    phases = [draw(kind, torus.n_nodes, torus.network.payload, packets, rng) for rng in rngs]
    mappings = tuple(tc.strategies.sample(phases[0], torus, n=MAPPINGS, seed=seed))
    routing = "adaptive" if group.startswith("adaptive") else "deterministic"
    workload = tc.Workload(phases, dependent=rounds > 1)
    return Case(f"{kind}, {host}, {packets:g} packets", group, workload, torus, mappings, routing)


def fluid_cases() -> list[Case]:
    """Return short and long messages, in one exchange, in rounds and adaptive."""
    return [
        drawn("short", "octree", "8x8x4", 4, 901),
        drawn("short", "shifts", "4x4x4x2x2", 1, 902),
        drawn("short", "sparse matrix", "4x4x8", 8, 903),
        drawn("long", "27-point stencil", "4x4x4", 256, 904),
        drawn("long", "octree", "8x8x4", 64, 905),
        drawn("long", "multigrid", "4x4x4x2", 256, 906),
        drawn("long", "transposes", "8x8", 64, 907),
        drawn("long", "unstructured mesh", "8x8x8", 64, 908),
        drawn("long", "communities", "4x4x4", 1024, 909),
        drawn("rounds", "butterfly", "4x4x8", 32, 910, rounds=3),
        drawn("rounds", "power law", "4x4x4", 64, 911, rounds=3),
        drawn("adaptive", "octree", "4x4x8", 64, 912),
        drawn("adaptive", "multigrid", "4x4x4x2", 64, 913),
        drawn("adaptive", "shifts", "4x4x4", 16, 914),
    ]


def adaptive_cases() -> list[Case]:
    """Return the cases that the estimate was developed with, and others."""
    found = []
    for group, seed in (
        ("adaptive, built with", 1),
        ("adaptive, unseen", 2),
        ("adaptive, unseen", 3),
    ):
        for number, kind in enumerate(KINDS):
            host = HOSTS[(number + seed) % len(HOSTS)]
            packets = PACKETS[(2 * number + seed) % len(PACKETS)]
            case = drawn(group, kind, host, packets, seed)
            traffic = RoutedTraffic(MappingProblem(case.workload, case.torus), case.mappings[-1])
            if traffic.packet_hops <= MOST_HOPS:
                found.append(case)
    return found


def scored(case: Case, levels: Sequence[float], steps: Sequence[float]) -> pd.DataFrame:
    """Score the estimates of a case, after a first call of each that compiles its kernels."""
    workload, torus, routing = case.workload, case.torus, case.routing

    def bound(mapping: tc.TaskMapping) -> float:
        return float(RoutedTraffic(MappingProblem(workload, torus, routing), mapping).release_bound)

    def packets(mapping: tc.TaskMapping, merged: int) -> float:
        return float(simulate(workload, torus, mapping, routing=routing, coarsening=merged).time)

    mean = mean_message_packets(MappingProblem(workload, torus))
    estimates: dict[str, Callable[[tc.TaskMapping], float]] = {BOUND: bound}
    for level in levels:
        merged = max(1, round(mean / level))
        estimates[f"{level:g} packets a message"] = partial(packets, merged=merged)
    for step in steps:
        estimates[f"fluid, {step:g} steps a message"] = partial(
            lambda mapping, steps: fluid(workload, torus, mapping, routing, steps), steps=step
        )
    if not steps:
        estimates[CHOSEN] = partial(chosen, workload, torus)
    truth, whole = _clocked(partial(packets, merged=1), case.mappings)
    found = {name: _clocked(each, case.mappings) for name, each in estimates.items()}
    if not steps:
        (even, first), (other, second) = found[BOUND], found[CHOSEN]
        found["geometric mean of both"] = np.sqrt(even * other), first + second
    return pd.DataFrame(
        {
            "group": case.group,
            "case": case.name,
            "orders": name,
            "rcc": rcc(truth, said),
            "regret": regret(truth, said, 1),
            "off": float(np.std(np.log(said / truth))),
            "cost": took / whole,
        }
        for name, (said, took) in found.items()
    )


def _clocked(
    estimate: Callable[[tc.TaskMapping], float], mappings: Sequence[tc.TaskMapping]
) -> tuple[Floats, float]:
    estimate(mappings[0])
    began = time.process_time()
    found = np.array([estimate(mapping) for mapping in mappings])
    return found, time.process_time() - began


def at_equal_cost(table: pd.DataFrame) -> pd.DataFrame:
    """Return for each case the RCC of each fluid minus that of packets at the same cost.

    The RCC of packets is interpolated between two lengths by the logarithm of the cost.
    """
    rows = []
    for _, own in table.groupby("case", sort=False):
        packets = own[own["orders"].str.endswith("packets a message")].sort_values("cost")
        best = np.maximum.accumulate(packets["rcc"])
        for _, each in own[own["orders"].str.startswith("fluid")].iterrows():
            same = np.interp(np.log(each["cost"]), np.log(packets["cost"]), best)
            gain = each["rcc"] - same
            rows.append({"group": each["group"], "orders": each["orders"], "gain": gain})
    return pd.DataFrame(rows)


def main() -> None:
    """Score all cases, print the means, and write all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--adaptive", action="store_true")
    options = parser.parse_args()
    if options.adaptive:
        name, cases, levels, steps = "adaptive", adaptive_cases(), (1, 4, 8, 16, 24), ()
    else:
        name, cases, levels = "fluid", fluid_cases(), (1, 2, 4, 8, 16)
        steps = (1, 2, 4, 8, 16)
    table = pd.concat([scored(case, levels, steps) for case in cases], ignore_index=True)
    options.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out / f"{name}.csv", index=False)
    for group in (*dict.fromkeys(table["group"]), "all"):
        own = table if group == "all" else table[table["group"] == group]
        mean = own.groupby("orders", sort=False)[["rcc", "regret", "off", "cost"]].mean()
        print(f"{group}: {own['case'].nunique()} cases\n{mean.round(3)}\n")
    if steps:
        gain = at_equal_cost(table)
        print("RCC of the fluid less that of packets at equal cost")
        print(gain.pivot_table(index="orders", columns="group", values="gain", sort=False).round(3))
        print(gain.groupby("orders", sort=False)["gain"].mean().round(3))


if __name__ == "__main__":
    main()
