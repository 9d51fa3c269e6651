"""Random MPI programs, their trace files, and a slow, obvious run of their events on a torus."""

import heapq
from collections import defaultdict, deque
from itertools import pairwise
from typing import NamedTuple

import naive
import numpy as np

from toruscast.formats._round_kernels import COLLECTIVE, COMMUNICATOR, END, RECEIVE, SEND
from toruscast.formats.rounds import choose_algorithm
from toruscast.formats.tracer import HEAD, MAGIC, OPERATIONS, RECORD
from toruscast.mapping.collectives import schedule

WORDS = ("", "bcast", "allreduce", "allgather", "alltoall")
SIZES = (0, 100, 3000, 16_000, 50_000)


class Event(NamedTuple):
    """An event of a rank, with the fields of a record."""

    kind: int
    peer: int = -1
    nbytes: int = 0
    tag: int = 0
    communicator: int = 0
    word: str = ""


def trace_file(folder, rank, size, rows, tail=b"", groups=()):
    """Write the trace of a rank; communicator 0 is the world, the others are ``groups``."""
    head = np.zeros(1, HEAD)
    head["magic"], head["rank"], head["size"], head["library"] = MAGIC, rank, size, b"Test 1"
    data = head.tobytes()
    for number, group in enumerate([range(size), *groups]):
        if rank in group:
            record = np.zeros(1, RECORD)
            record["kind"], record["communicator"] = COMMUNICATOR, number
            record["nbytes"] = len(group)
            members = np.array(group, "<i4").tobytes()
            data += record.tobytes() + members + bytes(-len(members) % RECORD.itemsize)
    records = np.zeros(len(rows), RECORD)
    for record, row in zip(records, rows, strict=True):
        for name, value in row.items():
            record[name] = value
    (folder / f"rank-{rank}.trace").write_bytes(data + records.tobytes() + tail)


def write_trace(folder, ranks, groups, region):
    """Write a program as a trace folder."""
    for rank, events in enumerate(ranks):
        rows = [each._asdict() for each in events]
        for row in rows:
            row["operation"] = OPERATIONS.index(row.pop("word"))
        trace_file(folder, rank, len(ranks), [*rows, {"kind": END}], groups=groups)
    (folder / "trace.json").write_text(f'{{"region": "{region}"}}')


class RandomProgram:
    """A program whose ranks send, wait and call collectives in a random, possible order."""

    def __init__(self, rng, n_blocks=6):
        self.rng, self.n = rng, int(rng.integers(2, 9))
        sizes = rng.integers(2, self.n + 1, 2)
        self.groups = [np.sort(rng.permutation(self.n)[:size]).tolist() for size in sizes]
        self.ranks = [[] for _ in range(self.n)]
        self.pending = []
        for _ in range(n_blocks):
            rng.choice([self._scatter, self._pipeline, self._exchange, self._call, self._overlap])()
        while self.pending:
            self._receive()

    def _send(self, src, dst, nbytes, tag=0):
        self.ranks[src].append(Event(SEND, dst, nbytes, tag))
        self.pending.append((src, dst, nbytes, tag))

    def _receive(self, *message):
        """Complete a message, a random one if none is given; a channel keeps its order."""
        src, dst, _, tag = message or self.pending[self.rng.integers(len(self.pending))]
        first = next(m for m in self.pending if (m[0], m[1], m[3]) == (src, dst, tag))
        self.pending.remove(first)
        self.ranks[dst].append(Event(RECEIVE, src, first[2], tag))

    def _size(self):
        return int(self.rng.choice(SIZES))

    def _scatter(self):
        """Send and receive anything, so that messages overtake each other."""
        for _ in range(self.rng.integers(1, 12)):
            if self.pending and self.rng.random() < 0.5:
                self._receive()
            else:
                src, dst = self.rng.permutation(self.n)[:2].tolist()
                self._send(src, dst, self._size(), int(self.rng.integers(3)))

    def _pipeline(self):
        chain, nbytes = self.rng.permutation(self.n).tolist(), self._size()
        for _ in range(self.rng.integers(1, 6)):
            for src, dst in pairwise(chain):
                self._send(src, dst, nbytes, 7)
                self._receive(src, dst, nbytes, 7)

    def _exchange(self):
        nbytes, shift = self._size(), int(self.rng.integers(1, self.n))
        for _ in range(self.rng.integers(1, 4)):
            for rank in range(self.n):
                self._send(rank, (rank + shift) % self.n, nbytes, 8)
                self._send(rank, (rank - shift) % self.n, nbytes, 9)
            for rank in range(self.n):
                self._receive((rank - shift) % self.n, rank, nbytes, 8)
                self._receive((rank + shift) % self.n, rank, nbytes, 9)

    def _call(self):
        word, number = str(self.rng.choice(WORDS)), int(self.rng.integers(1 + len(self.groups)))
        group = [range(self.n), *self.groups][number]
        root = int(self.rng.choice(group)) if word == "bcast" else -1
        nbytes = self._size() if word else 0
        for rank in group:
            self.ranks[rank].append(Event(COLLECTIVE, root, nbytes, 0, number, word))

    def _overlap(self):
        """Hide an exchange behind a collective."""
        nbytes = self._size()
        for rank in range(self.n):
            self._send(rank, (rank + 1) % self.n, nbytes, 10)
        self._call()
        for rank in range(self.n):
            self._receive(rank, (rank + 1) % self.n, nbytes, 10)


def run_program(ranks, groups, torus, mapping):
    """Seconds of a program: each message starts when its rank reaches it, and links take turns.

    A collective is the messages of its algorithm, a barrier is nothing.
    """
    programs = [deque(each) for each in _expand_calls(ranks, groups)]
    network, clocks = torus.network, [0.0] * len(ranks)
    free = defaultdict(float)
    arrivals, blocked = defaultdict(deque), {}
    ready = [(0.0, rank) for rank in range(len(ranks))]
    last = 0.0
    while ready:
        now, rank = heapq.heappop(ready)
        clocks[rank] = now
        if not programs[rank]:
            continue
        kind, peer, nbytes, *key = programs[rank][0]
        if kind == RECEIVE:
            channel = (peer, rank, *key)
            if not arrivals[channel]:
                blocked[channel] = rank
                continue
            now = max(now, arrivals[channel].popleft())
        else:
            now += network.overhead
            channel = (rank, peer, *key)
            arrival = _transfer(torus, int(mapping[rank]), int(mapping[peer]), nbytes, now, free)
            arrivals[channel].append(arrival)
            last = max(last, arrival)
            if channel in blocked:
                receiver = blocked.pop(channel)
                heapq.heappush(ready, (clocks[receiver], receiver))
        programs[rank].popleft()
        heapq.heappush(ready, (now, rank))
    assert not any(programs)
    return last


def _transfer(torus, src, dst, nbytes, now, free):
    """Arrival of a message that takes each link when it is free."""
    network = torus.network
    if src == dst:
        return now + nbytes / network.memory_bandwidth
    packets, wire = naive.packets(nbytes, 1, network)
    head = end = now
    for link in naive.route(torus, src, dst):
        head = max(head, free[link])
        seconds = packets * wire / torus.link_bandwidth[link]
        end = max(end + network.hop_latency, head + network.hop_latency + seconds)
        free[link] = head + seconds
        head += network.hop_latency
    reception = "reception", dst
    free[reception] = max(head, free[reception]) + packets * wire / network.memory_bandwidth
    return max(end, free[reception])


def _expand_calls(ranks, groups):
    """Replace collectives by the sends and receives of their algorithms."""
    members = [range(len(ranks)), *groups]
    numbers = defaultdict(int)
    for rank, events in enumerate(ranks):
        expanded = []
        for event in events:
            if event.kind != COLLECTIVE:
                expanded.append(event)
                continue
            number = numbers[rank, event.communicator] = numbers[rank, event.communicator] + 1
            group = list(members[event.communicator])
            if event.word == "bcast":
                at = group.index(event.peer)
                group = group[at:] + group[:at]
            nbytes = event.nbytes * (len(group) if event.word == "allgather" else 1)
            if not event.word or not nbytes:
                continue
            name = choose_algorithm("", event.word, len(group), nbytes)
            for step in schedule(name, len(group), nbytes).workload():
                rows = zip(step.src.tolist(), step.dst.tolist(), step.nbytes.tolist(), strict=True)
                own = [(group[src], group[dst], size) for src, dst, size in rows]
                key = {"tag": -number, "communicator": event.communicator}
                expanded += [Event(SEND, d, size, **key) for s, d, size in own if s == rank]
                expanded += [Event(RECEIVE, s, size, **key) for s, d, size in own if d == rank]
        yield expanded
