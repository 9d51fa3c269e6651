"""A slow, obvious flow-level simulator: the twin of the kernels."""

import heapq
import math
from dataclasses import dataclass
from itertools import count

import naive
from naive_nodes import queues


@dataclass(eq=False)
class Message:
    """All messages of an edge, which flow as one."""

    round: int
    edge: int
    task: int
    receiver: int
    software: float
    left: float
    copying: float | None  # within a node
    latency: float = 0.0
    asking: float | None = None
    weight: float = 1.0
    parts: dict | None = None  # of it at each place that it shares with others
    handed_over: float = 0.0
    arrived: float = math.nan


def ways(torus, a, b):
    """Part of a message on each link of its way; half of it goes each way where ties are split."""
    parts = {}
    for split_sign in (1, -1):
        for link in naive.route(torus, a, b, split_sign):
            parts[link] = parts.get(link, 0.0) + 0.5
    return parts


def list_messages(rounds, torus, mapping):
    """Messages of the rounds by task, round and turn."""
    network = torus.network
    messages = []
    for number, comm in enumerate(rounds):
        rows = naive.edges(comm, mapping)
        fifo = queues(torus, [(a, b) for a, b, _, _ in rows], [round(n) == 0 for *_, n in rows])
        software = naive.software(comm, network)
        for e in naive.hand_over(comm, network)[0]:
            a, b, nbytes, n_messages = rows[e]
            packets, wire = naive.packets(nbytes, n_messages, network)
            if not packets:
                continue
            m = Message(
                number,
                e,
                int(comm.src[e]),
                int(comm.dst[e]),
                software[e],
                packets * wire,
                nbytes / network.memory_bandwidth if a == b else None,
            )
            if a != b:
                links = ways(torus, a, b)
                m.latency = naive.dilation(torus, a, b) * network.hop_latency
                if nbytes / round(n_messages) > network.eager_limit:
                    m.asking = m.latency + network.header / max(torus.bandwidth)
                m.weight = 1 / sum(part / bandwidth(torus, q) for q, part in links.items())
                m.parts = {**links, ("fifo", a, fifo[e]): 1.0, ("node", b): 1.0}
            messages.append(m)
    return sorted(messages, key=lambda m: (m.task, m.round))


def bandwidth(torus, link):
    return torus.bandwidth[link % (2 * torus.ndim) // 2]


def capacity(torus, place):
    if isinstance(place, int):
        return bandwidth(torus, place)
    if place[0] == "node":
        return torus.network.memory_bandwidth
    together = torus.network.fifos if torus.network.fifo_rule == "first_free" else 1
    return together * max(torus.bandwidth)


def fair_rates(messages, torus):
    """Max-min fair rates by weight: fill the place with the lowest level, then the next."""
    free = {place: capacity(torus, place) for m in messages for place in m.parts}
    rates = {}
    while len(rates) < len(messages):
        rest = [m for m in messages if m not in rates]
        levels = {
            place: free[place] / sum(m.weight * m.parts.get(place, 0.0) for m in rest)
            for place in {place for m in rest for place in m.parts}
        }
        lowest = min(levels, key=levels.get)
        for m in rest:
            if lowest in m.parts:
                rates[m] = levels[lowest] * m.weight
                for place, part in m.parts.items():
                    free[place] = max(free[place] - rates[m] * part, 0.0)
    return rates


class Simulator:
    """Rounds without a barrier between them."""

    def __init__(self, rounds, torus, mapping):
        self.torus, self.last_round = torus, len(rounds) - 1
        self.messages = list_messages(rounds, torus, mapping)
        self.now, self.events, self.order = 0.0, [], count()
        self.flowing = []
        self.round = dict.fromkeys(range(rounds[0].n_tasks), -1)
        self.asked = []  # messages that wait for their receivers' rounds
        self.waits_for = {}  # by task and round
        shared = torus.network.feeding == "messages"
        self.thread = {t: int(mapping.node[t]) if shared else t for t in self.round}
        self.free_at = dict.fromkeys(self.thread.values(), 0.0)
        for m in self.messages:
            self.waits_for.setdefault((m.receiver, m.round), []).append(m)
            if m.asking is not None:
                self.waits_for.setdefault((m.task, m.round), []).append(m)

    def later(self, time, action, *arguments):
        heapq.heappush(self.events, (time, next(self.order), action, arguments))

    def run(self):
        for task in self.round:
            self.go_on(task)
        while self.events or self.flowing:
            rates = fair_rates(self.flowing, self.torus)
            ends = [self.now + m.left / rates[m] for m in self.flowing]
            time = min(ends + [event[0] for event in self.events[:1]])
            ended = [m for m, end in zip(self.flowing, ends, strict=True) if end <= time]
            for m in self.flowing:
                m.left = max(m.left - rates[m] * (time - self.now), 0.0)
            self.now = time
            self.flowing = [m for m in self.flowing if m not in ended]
            while self.events and self.events[0][0] <= time:
                _, _, action, arguments = heapq.heappop(self.events)
                action(*arguments)
            for m in ended:
                self.arrive(m)
        return self

    def go_on(self, task):
        """Enter the next round when nothing is missing in the one before."""
        while self.round[task] < self.last_round:
            if self.waits_for.get((task, self.round[task])):
                return
            self.round[task] += 1
            thread = self.thread[task]
            ready = max(self.free_at[thread], self.now)
            for m in [m for m in self.asked if m.receiver == task]:
                if m.round <= self.round[task]:
                    self.asked.remove(m)
                    self.answer(m)
            for m in self.messages:
                if m.task == task and m.round == self.round[task]:
                    ready += m.software
                    m.handed_over = ready
                    self.later(ready, self.hand_over, m)
            self.free_at[thread] = ready
            self.later(ready, self.end_round, task)
            self.waits_for.setdefault((task, self.round[task]), []).append("its turn")

    def hand_over(self, m):
        if m.copying is not None:
            self.later(self.now + m.copying, self.arrive, m)
        elif m.asking is None:
            self.later(self.now + m.latency, self.flow, m)
        else:
            self.later(self.now + m.asking, self.ask, m)

    def end_round(self, task):
        self.waits_for[task, self.round[task]].remove("its turn")
        self.go_on(task)

    def ask(self, m):
        if self.round[m.receiver] >= m.round:
            self.answer(m)
        else:
            self.asked.append(m)

    def answer(self, m):
        self.later(self.now + m.asking + m.latency, self.flow, m)

    def flow(self, m):
        self.flowing.append(m)

    def arrive(self, m):
        m.arrived = self.now
        self.waits_for[m.receiver, m.round].remove(m)
        self.go_on(m.receiver)
        if m.asking is not None:
            self.waits_for[m.task, m.round].remove(m)
            self.go_on(m.task)
