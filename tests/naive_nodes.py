"""Slow, obvious nodes of the packet simulator's twin: events, tasks, messages, FIFOs."""

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count

import naive
import numpy as np

_WORD = 2**64 - 1


class Clock:
    """Events in the order of time; those of one tick in the order in which they were made.

    What tasks do (`later`) comes before what the network does (`at`) in the same tick.
    """

    def __init__(self):
        self.now, self.order = 0, count()
        self.tasks, self.network = [], []

    def at(self, tick, action, *arguments):
        heapq.heappush(self.network, (tick, next(self.order), action, arguments))

    def later(self, tick, action, *arguments):
        heapq.heappush(self.tasks, (tick, next(self.order), action, arguments))

    def run(self):
        while self.tasks or self.network:
            self.now = min(queue[0][0] for queue in (self.tasks, self.network) if queue)
            for queue in (self.tasks, self.network):
                while queue and queue[0][0] == self.now:
                    _, _, action, arguments = heapq.heappop(queue)
                    action(*arguments)


@dataclass(eq=False)
class Message:
    """All messages of an edge, which travel as one; or a packet that asks or answers."""

    number: int
    src: int
    dst: int
    fifo: int
    packets: int
    wire: float
    task: int = -1
    receiver: int = -1
    round: int = 0
    edge: int = -1
    overhead: int = 0
    copy: int = 0
    sequel: "Message | None" = None  # answer to this question, or the message asked for
    ready: int = 0
    finish: int = 0

    def __post_init__(self):
        self.to_send = self.to_receive = self.packets
        self.opening = self  # what its task hands over: itself, or the question before it


@dataclass(eq=False)
class Fifo:
    number: int
    node: int
    messages: deque  # of its own, or of its node
    busy: bool = False  # an event will let it go on
    outside: int = 0  # packets of it that wait at the router
    turns: int = 0  # of its packet there, before it goes
    free_at: int = 0  # in parts of ticks
    waited: int = 0
    posted: list = field(default_factory=list)
    most: int = 0
    stay: int = 0  # of the messages that have left it


@dataclass(eq=False)
class Worker:
    """What hands over messages: a task's own, or one for all tasks of a node."""

    tasks: deque = field(default_factory=deque)
    in_hand: deque = field(default_factory=deque)


@dataclass(eq=False)
class Task:
    worker: Worker
    rounds: list  # messages of each round in the order of their turns
    waits: list  # messages still to arrive in each round
    asked: dict = field(default_factory=dict)  # answers that wait for a round, by round
    round: int = 0
    handed_over: bool = False


def list_messages(rounds, torus, mapping, coarsening, tick):
    """Messages of the rounds by task, round and turn; questions and answers come after them."""
    network = torus.network
    messages = []
    for number, comm in enumerate(rounds):
        rows = naive.edges(comm, mapping)
        fifo = queues(torus, [(a, b) for a, b, _, _ in rows], [round(n) == 0 for *_, n in rows])
        order, _ = naive.hand_over(comm, network)
        software = naive.software(comm, network)
        for e in (e for e in order if round(rows[e][3]) > 0):
            a, b, nbytes, n_messages = rows[e]
            packets, wire = naive.packets(nbytes, n_messages, network, coarsening)
            messages.append(
                Message(
                    0,
                    a,
                    b,
                    fifo[e],
                    packets,
                    wire=float(np.float32(wire)),  # as the kernel keeps it
                    task=int(comm.src[e]),
                    receiver=int(comm.dst[e]),
                    round=number,
                    edge=e,
                    overhead=round(software[e] / tick),
                    copy=round(nbytes / network.memory_bandwidth / tick),
                )
            )
    messages.sort(key=lambda m: (m.task, m.round))
    for number, message in enumerate(messages):
        message.number = number
    asking = [
        m
        for m in messages
        if m.src != m.dst and _size(rounds[m.round], m.edge) > network.eager_limit
    ]
    answer_fifo = queues(torus, [(m.dst, m.src) for m in asking], [False] * len(asking))
    for i, m in enumerate(asking):
        number = len(messages) + 2 * i
        answer = Message(number + 1, m.dst, m.src, answer_fifo[i], 1, network.header, sequel=m)
        m.opening = Message(number, m.src, m.dst, m.fifo, 1, network.header, sequel=answer)
    return messages


def queues(torus, ends, silent):
    """FIFO in which each edge's messages wait; FIFOs that take from one queue do so at FIFO 0."""
    fifo = naive.fifos(torus, ends, silent)
    return [min(f, 0) for f in fifo] if torus.network.fifo_rule == "first_free" else fifo


def _size(comm, e):
    return float(comm.nbytes[e]) / round(float(comm.n_messages[e]))


def drawn(seed, high, low):
    """Random bits of a seed and two numbers."""
    bits = (low + (high << 32) + seed * 0x9E3779B97F4A7C15) & _WORD
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & _WORD
    return bits ^ (bits >> 31)


def minus_ways(torus, message, left, seed):
    """Dimensions where a packet of this message takes the minus way of a tie that is left open.

    ``left`` is the number of packets that the message has to send, this one included.
    """
    coin = left
    if torus.tie_break in ("random", "booksim"):
        coin = drawn(seed, message.number, coin)
    minus = set()
    if torus.tie_break in ("split", "random", "booksim"):
        here, there = naive.coords(torus, message.src), naive.coords(torus, message.dst)
        for d in torus.routing_order:
            if len(naive.signs(torus, here, there, d)) == 2:
                # Of an odd number of packets to split, coordinates send the last.
                sums = sum(here) + sum(there) - there[d]
                odd = torus.tie_break == "split" and sums % 2 == 0
                if (coin & 1) ^ odd:
                    minus.add(d)
                coin >>= 1
    return minus


class Nodes:
    """Tasks hand messages over to FIFOs, round by round; ``wake`` feeds an idle FIFO."""

    def __init__(self, clock, messages, n_rounds, torus, mapping, outside, wake):
        network = torus.network
        self.clock, self.wake, self.n_rounds = clock, wake, n_rounds
        self.fifos = []
        for i in range(torus.n_nodes * network.fifos):
            shares = network.fifo_rule == "first_free" and i % network.fifos > 0
            queue = self.fifos[-1].messages if shares else deque()
            self.fifos.append(Fifo(i, i // network.fifos, queue))
        self.fifos_a_node, self.outside = network.fifos, outside
        at_node = [Worker() for _ in range(torus.n_nodes)]
        self.tasks = []
        for node in mapping.node.tolist():
            worker = at_node[node] if network.feeding == "messages" else Worker()
            self.tasks.append(Task(worker, [[] for _ in range(n_rounds)], [0] * n_rounds))
        for m in messages:
            self.tasks[m.task].rounds[m.round].append(m)
            for waiting in self.waiting_for(m):
                waiting.waits[m.round] += 1

    def waiting_for(self, message):
        """Tasks whose round waits for a message: who had to ask before sending it waits too."""
        asked = message.opening is not message
        return [self.tasks[message.receiver], *([self.tasks[message.task]] if asked else [])]

    def start(self):
        for task in self.tasks:
            self.begin_round(task)

    def begin_round(self, task):
        task.handed_over = False
        task.worker.tasks.append(task)
        if len(task.worker.tasks) == 1:
            self.take_in_hand(task.worker)

    def take_in_hand(self, worker):
        task = worker.tasks[0]
        worker.in_hand = deque(task.rounds[task.round])
        overhead = worker.in_hand[0].overhead if worker.in_hand else 0
        self.clock.later(self.clock.now + overhead, self.hand_over, worker)

    def hand_over(self, worker):
        if worker.in_hand:
            self.post(worker.in_hand.popleft().opening)
        if worker.in_hand:
            overhead = worker.in_hand[0].overhead
            self.clock.later(self.clock.now + overhead, self.hand_over, worker)
            return
        task = worker.tasks.popleft()
        task.handed_over = True
        if worker.tasks:
            self.take_in_hand(worker)
        self.go_on(task)

    def go_on(self, task):
        if task.handed_over and task.waits[task.round] == 0 and task.round + 1 < self.n_rounds:
            task.round += 1
            self.begin_round(task)
            for answer in task.asked.pop(task.round, []):
                self.post(answer)

    def post(self, message):
        now = message.ready = self.clock.now
        if message.src == message.dst:
            message.finish = now + message.copy
            message.to_receive = 0
            self.clock.later(message.finish, self.copied, message)
            return
        fifo = self.fifo_of(message)
        fifo.posted.append(message)
        fifo.most = max(fifo.most, sum(m.to_send > 0 for m in fifo.posted))
        self.queue(message)

    def fifo_of(self, message):
        # Of those that share a queue, the first has number 0: so is the message's.
        return self.fifos[message.src * self.fifos_a_node + message.fifo]

    def queue(self, message):
        """Put a message at the end of its queue, and wake a FIFO that takes from it."""
        queue = self.fifo_of(message).messages
        queue.append(message)
        for fifo in self.fifos:
            if fifo.messages is queue and not fifo.busy and fifo.outside < self.outside:
                fifo.busy = True
                self.clock.at(self.clock.now, self.wake, fifo)
                break

    def copied(self, message):
        self.clock.at(self.clock.now, self.arrived, message)

    def arrived(self, message):
        """All of a message is there: its answer or its data goes, or who waited for it goes on."""
        answer = message.sequel
        if answer is not None:
            if answer.sequel is not None:
                # Nobody answers before the round in which there is a place for the message.
                asking = answer.sequel
                receiver = self.tasks[asking.receiver]
                if receiver.round < asking.round:
                    receiver.asked.setdefault(asking.round, []).append(answer)
                    return
            self.post(answer)
            return
        for task in self.waiting_for(message):
            task.waits[message.round] -= 1
            self.go_on(task)
