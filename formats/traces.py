"""Traces of other tools, GOAL and OTF2, and collectives as the messages of an algorithm."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np

from toruscast.errors import InputError
from toruscast.files import as_damaged, at_file
from toruscast.mapping.collectives import names
from toruscast.mapping.collectives.schedules import check_size, estimate_edges, find_collective
from toruscast.mapping.comm_graph import MAX_TASKS, Workload, sum_edges
from toruscast.text import counted

from ._round_kernels import COLLECTIVE, RECEIVE, SEND
from .dialect import Dialect
from .graphs import AnyPath, GraphOptions, check_collectives
from .rounds import COLLECTIVES, Events, rounds_of
from .source import Source, Text, warn_of, whole

# Messages of collectives that are listed round by round.
_LISTED = 2**20
# From traces with more rounds, one iteration is read if they repeat.
_LONG = 1000
# Longer schedules take too long to simulate.
_MAX_ROUNDS = 100_000
# Collectives whose whole buffer is the sum of what the ranks put in.
_SUMMED = ("allgather", "gather", "scatter")


def check_algorithms(chosen: Mapping[str, str]) -> None:
    """Raise `InputError` unless every name is that of a collective, and its algorithm exists."""
    for collective, algorithm in chosen.items():
        if collective not in COLLECTIVES:
            known = ", ".join(sorted(COLLECTIVES))
            raise InputError("unknown collective", found=collective, expected=known)
        if f"{collective}/{algorithm}" not in names():
            known = ", ".join(each.partition("/")[2] for each in names(collective))
            raise InputError(f"unknown algorithm of {collective}", found=algorithm, expected=known)


class RankActions:
    """Messages and collectives of the ranks of a trace, each in its own order."""

    def __init__(self) -> None:
        self._rows: dict[int, list[tuple[int, int, int, int, float, str]]] = defaultdict(list)
        self._calls: Counter[tuple[int, int]] = Counter()
        self.members: dict[int, tuple[int, ...]] = {}
        """Tasks of each communicator."""
        self.sizes: dict[tuple[int, int], float] = {}
        """Bytes of the whole buffer (see `schedule`) of each call of a communicator."""
        self.largest = -1
        """The largest task that sends or receives a message, -1 if none does."""

    def message(
        self, kind: int, task: int, peer: int, nbytes: float, communicator: int = 0, tag: int = 0
    ) -> None:
        """Record that a task sends a message (SEND), or waits for one (RECEIVE)."""
        self._rows[task].append((kind, peer, communicator, tag, nbytes, ""))
        self.largest = max(self.largest, task, peer)

    def collective(
        self, task: int, communicator: int, collective: str, root: int = -1
    ) -> tuple[int, int]:
        """Record that a task takes part in a call; return its key in `sizes`; "" is a barrier."""
        turn = self._calls[task, communicator]
        self._calls[task, communicator] += 1
        self._rows[task].append((COLLECTIVE, root, communicator, turn, 0.0, collective))
        return communicator, turn

    def rounds(self, path: AnyPath, n_tasks: int, options: GraphOptions) -> Workload:
        """Return messages and collectives as rounds that depend on each other."""
        wanted = {"point_to_point": (SEND, RECEIVE), "collective": (COLLECTIVE,)}.get(
            options.include, (SEND, RECEIVE, COLLECTIVE)
        )
        n_tasks = options.at_least(max(n_tasks, self.largest + 1), path)
        first, rows = [0], []
        for task in range(n_tasks):
            rows += [self._row(task, row) for row in self._rows.get(task, ()) if row[0] in wanted]
            first.append(len(rows))
        self._check(path, COLLECTIVE in wanted)
        if not rows:
            raise InputError("trace without a message", file=path)
        kind, peer, communicator, tag, nbytes, word = zip(*rows, strict=True)
        known = ("", *COLLECTIVES)
        events = Events(
            *(np.array(first), np.array(kind, np.uint8), np.array(peer, np.int64)),
            *(np.array(communicator, np.int64), np.array(tag, np.int64), np.array(nbytes, float)),
            *(np.array([known.index(each) for each in word], np.int64), self.members, known),
        )
        chosen = options.collectives
        how = partial(rounds_of, events, name=options.name, algorithms=chosen, most=_LISTED)
        with at_file(path):
            found = how(fold=False)
            if found.n_rounds > _LONG:
                found = how(fold=True)
            if found.unreached:
                raise InputError(
                    "tasks wait for each other",
                    found=counted(found.unreached, "event") + " that never come",
                    expected="sends, and collectives in the same order on all ranks",
                )
            if len(found.workload) > _MAX_ROUNDS:
                raise InputError(
                    "too many rounds", found=len(found.workload), expected=f"at most {_MAX_ROUNDS}"
                )
        options.omitted.extend(found.omitted)
        # Without receives nothing depends on a message, and none lacks its other side.
        unmatched = found.unmatched_text if RECEIVE in kind else ""
        for text in filter(None, (found.repeats_text, unmatched)):
            warn_of(path, text)
        return found.workload

    def _row(
        self, task: int, row: tuple[int, int, int, int, float, str]
    ) -> tuple[int, int, int, int, float, str]:
        kind, peer, communicator, tag, nbytes, word = row
        if kind != COLLECTIVE:
            return row
        # Amounts of these collectives are added over the ranks, so that one rank gets the sum.
        if word not in _SUMMED or task == self.members[communicator][0]:
            nbytes = self.sizes.get((communicator, tag), 0.0)
        return kind, peer, communicator, 0, nbytes, word

    def _check(self, path: AnyPath, with_collectives: bool) -> None:
        """Raise unless the messages of collectives may be listed."""
        words = {
            (communicator, turn): word
            for rows in (self._rows.values() if with_collectives else ())
            for kind, _, communicator, turn, _, word in rows
            if kind == COLLECTIVE and word
        }
        claims = 0
        for (communicator, _), word in words.items():
            group = np.array([self.members[communicator]])
            with at_file(path):
                check_size(word, group.size)
            claims += estimate_edges(word, group)
        check_collectives(path, claims)


def topological_order(
    before: Sequence[Collection[int]], key: Callable[[int], Any] = lambda _: 0
) -> list[int]:
    """Return places in an order in which each comes behind those before it, the least key first.

    Places that wait for each other are left out.

    Examples
    --------
    >>> topological_order([[2], [0], []])
    [2, 0, 1]
    """
    after: list[list[int]] = [[] for _ in before]
    waits = [len(others) for others in before]
    for at, others in enumerate(before):
        for other in others:
            after[other].append(at)
    ready = [(key(at), at) for at, count in enumerate(waits) if not count]
    heapify(ready)
    order = []
    while ready:
        _, at = heappop(ready)
        order.append(at)
        for other in after[at]:
            waits[other] -= 1
            if not waits[other]:
                heappush(ready, (key(other), other))
    return order


HEAD = re.compile(r"num_ranks\s+([0-9]+)")
RANK = re.compile(r"rank\s+([0-9]+)\s*\{?")
TASK = re.compile(
    r"(?:(\w+)\s*:\s*)?(send|recv|calc)\s+([0-9]+)b?(?:\s+(?:to|from)\s+([0-9]+))?"
    r"((?:\s+(?:tag|cpu|nic)\s+[0-9]{1,18})*)"
)
_TASK_LINE = "send SIZEb to RANK [tag TAG] [cpu CPU] [nic GPU]"
NEEDS = re.compile(r"(\w+)\s+(i?requires)\s+(\w+)")
COMMENT = re.compile(r"//.*|#.*|/\*(?>[^*/]|\*(?!/)|/(?!\*))*+\*/")


@dataclass
class _Task:
    """One operation, what it waits for, and the latest round that is over after it."""

    line: int
    kind: str
    size: int
    rank: int
    peer: int
    tag: int
    nic: int
    peer_nic: int = 0
    before: list[int] = field(default_factory=list)
    round: int = 0


def is_goal(source: Source) -> bool:
    """Whether the first line states the number of ranks as GOAL does."""
    first = [COMMENT.sub("", line).strip() for line in source.raw_lines]
    return bool(HEAD.fullmatch(next((line for line in first if line), "")))


def read_goal(source: Source, options: GraphOptions) -> Workload:
    """Return a workload: messages whose chains of dependencies are equally long share a round."""
    text = source.text
    n, tasks = _goal_tasks(text)
    # The number behind "nic" is a GPU of the rank: each GPU is a task.
    gpus = 1 + max((task.nic for task in tasks), default=0)
    n *= gpus
    options.agree(n, source.path)
    _match_receives(text, tasks)
    _set_rounds(text, tasks)
    sends = [
        (t.rank * gpus + t.nic, t.peer * gpus + t.peer_nic, t.size, t.round)
        for t in tasks
        if t.kind == "send"
    ]
    if not sends:
        raise text.fault("GOAL schedule without a send")
    src, dst, nbytes, rounds = np.array(sends, np.int64).T
    # Rounds without a send have no phase.
    numbers = np.unique(rounds)
    if numbers.size > _MAX_ROUNDS:
        raise text.fault("too many rounds", None, numbers.size, f"at most {_MAX_ROUNDS}")
    phases = [
        sum_edges(n, *(c[rounds == r] for c in (src, dst, nbytes)), name=options.name)
        for r in numbers
    ]
    return Workload(phases, name=options.name, dependent=True)


def _goal_tasks(text: Text) -> tuple[int, list[_Task]]:
    """The number of ranks, and all operations."""
    n, rank = 0, -1
    tasks: list[_Task] = []
    labels: dict[str, int] = {}
    needs: list[tuple[int, str, str]] = []
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = COMMENT.sub("", raw).strip().rstrip(";")
        if not line or line == "{":
            continue
        if n == 0 and (match := HEAD.fullmatch(line)):
            n = whole(text, number, "number of ranks", match[1], MAX_TASKS)
        elif match := RANK.fullmatch(line):
            if rank >= 0:
                raise text.fault("rank inside a rank", number, line, "} before it")
            rank = whole(text, number, "rank", match[1], n - 1)
        elif line == "}":
            for at, first, second in needs:
                for label in (first, second):
                    if label not in labels:
                        raise text.fault("unknown label", at, label, "one of this rank")
                tasks[labels[first]].before.append(labels[second])
            rank, labels, needs = -1, {}, []
        elif rank >= 0 and (match := TASK.fullmatch(line)):
            label, kind, size, peer, rest = match.groups()
            extra = rest.split()
            words = dict(zip(extra[::2], map(int, extra[1::2]), strict=True))
            if (peer is None) != (kind == "calc") or 2 * len(words) < len(extra):
                raise text.fault("bad GOAL line", number, line, _TASK_LINE)
            nbytes = whole(text, number, "size", size, 10**15)
            other = -1 if peer is None else whole(text, number, "rank", peer, n - 1)
            if label in labels:
                raise text.fault("label stands twice", number, label)
            if label:
                labels[label] = len(tasks)
            ends = rank, other, words.get("tag", 0), words.get("nic", 0)
            tasks.append(_Task(number, kind, nbytes, *ends))
        elif rank >= 0 and (match := NEEDS.fullmatch(line)):
            needs.append((number, match[1], match[3]))
        else:
            expected = f"{_TASK_LINE}, recv, calc, requires, rank N {{ or }}"
            raise text.fault("bad GOAL line", number, line, expected)
    if rank >= 0:
        raise text.fault("truncated GOAL schedule", None, f"rank {rank} without its end", "}")
    return n, tasks


def _match_receives(text: Text, tasks: list[_Task]) -> None:
    """Let each receive wait for its send, in the order of the file."""
    sent: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
    for i, task in enumerate(tasks):
        if task.kind == "send":
            sent[task.rank, task.peer, task.tag].append(i)
    for task in tasks:
        if task.kind == "recv":
            key = (task.peer, task.rank, task.tag)
            if not sent[key]:
                found = f"from {key[0]} to {key[1]}, tag {key[2]}"
                raise text.fault("receive without a send", task.line, found)
            send = sent[key].popleft()
            if tasks[send].size != task.size:
                expected = f"{tasks[send].size}, as sent on line {tasks[send].line}"
                raise text.fault("receive of another size", task.line, task.size, expected)
            task.before.append(send)
            tasks[send].peer_nic = task.nic
    for left in sent.values():
        if left:
            raise text.fault("send without a receive", tasks[left[0]].line)


def _set_rounds(text: Text, tasks: list[_Task]) -> None:
    """Number the rounds from 1: a send comes one after the latest message that it waits for."""
    order = topological_order([task.before for task in tasks])
    if len(order) < len(tasks):
        first = min({*range(len(tasks))} - {*order})
        raise text.fault("operations wait for each other", tasks[first].line)
    for task in map(tasks.__getitem__, order):
        # What waits for a send, or for its receive, falls into the next round.
        latest = max((tasks[other].round for other in task.before), default=0)
        task.round = latest + (task.kind == "send")


GOAL = Dialect(
    name="goal",
    holds="graph",
    title="GOAL schedule of LogGOPSim and ATLAHS",
    recognise=is_goal,
    read=read_goal,
    documentation="""
Sends, receives and what they wait for, rank by rank. It becomes a workload of dependent rounds: a
send falls into the round after the latest message that it waits for. Times of `calc` are not used.
The number behind `nic` is a GPU of the rank. Each GPU is then a task: with G of them, GPU g of rank
r is task r G + g.
""",
    example="""num_ranks 2
rank 0 {
l1: send 4096b to 1 tag 0
l2: recv 64b from 1 tag 1
l2 requires l1
}
rank 1 {
l1: recv 4096b from 0 tag 0
l2: send 64b to 0 tag 1
l2 requires l1
}
""",
)


MAGIC = b"\x03BOTF2"
SENDS = ("MpiSend", "MpiIsend")
RECEIVES = ("MpiRecv", "MpiIrecv")
_OTF2_COLLECTIVE = "MpiCollectiveEnd"
# Attributes of other events that move bytes, such as one-sided ones.
_OTF2_SIZES = ("bytes", "bytes_sent", "bytes_received", "size_sent", "size_received", "msg_length")
ROOTED = ("bcast", "reduce", "gather", "scatter")
# These synchronise at most.
SILENT = (
    *("BARRIER", "CREATE_HANDLE", "DESTROY_HANDLE", "ALLOCATE", "DEALLOCATE"),
    *("CREATE_HANDLE_AND_ALLOCATE", "DESTROY_HANDLE_AND_DEALLOCATE"),
)


def is_otf2(source: Source) -> bool:
    """Whether this is the anchor file of a trace, or a folder with one."""
    if source.is_file:
        return source.start.startswith(MAGIC)
    return _anchor_file(source) is not None


def _anchor_file(source: Source) -> Path | None:
    if source.is_file:
        return Path(source.path)
    try:
        files = [file for file in Path(source.path).iterdir() if file.suffix == ".otf2"]
    except (OSError, ValueError):
        return None
    return files[0] if len(files) == 1 else None


def read_otf2(source: Source, options: GraphOptions) -> Workload:
    """Return the rounds of all sends, and of collectives sent by a named algorithm."""
    try:
        import otf2
    except ImportError:
        raise InputError(
            "OTF2 traces need the package otf2", file=source.path, expected="pip install otf2"
        ) from None
    with (
        as_damaged(source.path, "OTF2 trace"),
        otf2.reader.open(str(_anchor_file(source))) as trace,
    ):
        n_tasks, program = _otf2_actions(trace, options)
    return program.rounds(source.path, n_tasks, options)


def _otf2_actions(trace: Any, options: GraphOptions) -> tuple[int, RankActions]:
    """Number of ranks, and what they did."""
    rank_of: dict[Any, int] = {}
    for group in trace.definitions.groups:
        kinds = (_constant_name(group.group_type), _constant_name(group.paradigm))
        if kinds == ("COMM_LOCATIONS", "MPI"):
            rank_of = {location: rank for rank, location in enumerate(group.members)}
    if not rank_of:
        raise InputError("OTF2 trace without ranks of MPI", expected="a trace of an MPI program")
    program = RankActions()
    numbers: dict[Any, int] = {}
    # The most that a rank sent and received, by call.
    amounts: dict[tuple[int, int], tuple[str, int, int]] = {}
    for location, event in trace.events:
        kind = type(event).__name__
        if kind not in (*SENDS, *RECEIVES, _OTF2_COLLECTIVE):
            sizes = [size for name in _OTF2_SIZES if (size := getattr(event, name, None))]
            if sizes and "Io" not in kind:
                options.omit(kind, nbytes=float(max(sizes)))
            continue
        task = rank_of[location]
        number = numbers.setdefault(event.communicator, len(numbers))
        if number not in program.members:
            members = event.communicator.group.members
            program.members[number] = tuple(rank_of[member] for member in members)
        # The group of a communicator of one rank lists none.
        ranks = program.members[number] or (task,)
        if kind in SENDS:
            peer = ranks[event.receiver]
            program.message(SEND, task, peer, event.msg_length, number, event.msg_tag)
        elif kind in RECEIVES:
            peer = ranks[event.sender]
            program.message(RECEIVE, task, peer, event.msg_length, number, event.msg_tag)
        elif len(ranks) > 1 and options.include != "point_to_point":
            collective = _collective_name(event)
            root = ranks[event.root] if collective in ROOTED else -1
            key = program.collective(task, number, collective, root)
            _, sent, received = amounts.get(key, ("", 0, 0))
            sent, received = max(sent, event.size_sent), max(received, event.size_received)
            amounts[key] = (collective, sent, received)
    for key, (collective, sent, received) in amounts.items():
        if collective:
            size = buffer_size(collective, len(program.members[key[0]]), sent, received)
            program.sizes[key] = size
    return len(rank_of), program


def _collective_name(event: Any) -> str:
    """Our name of a collective; "" for barriers and calls that make communicators."""
    word = _constant_name(event.collective_op)
    if word in SILENT:
        return ""
    collective = find_collective(word)
    if collective not in COLLECTIVES:
        raise InputError(
            "collective of no known algorithm",
            found=word,
            expected=f'one of {", ".join(sorted(COLLECTIVES))}, or include="point_to_point" '
            "(--include point_to_point)",
        )
    return collective


def buffer_size(collective: str, n_ranks: int, sent: int, received: int) -> float:
    """Return the bytes of a collective's whole buffer, from the most that one rank has written.

    Score-P counts the vector of an all-reduce, and that of the root of a broadcast or reduction,
    once for each rank. With MPI_IN_PLACE a rank leaves its own block out.
    """
    if collective == "bcast":
        return float(received or sent / n_ranks)
    if collective == "reduce":
        return float(sent or received / n_ranks)
    if collective == "gather":
        return float(sent * n_ranks if sent else received)
    if collective == "scatter":
        return float(received * n_ranks if received else sent)
    size = float(sent if collective == "reduce_scatter" else max(sent, received))
    if size % n_ranks and n_ranks > 1 and size % (n_ranks - 1) == 0:
        size += size / (n_ranks - 1)
    return size / n_ranks if collective == "allreduce" else size


def _constant_name(constant: Any) -> str:
    """Name of one of the package's constants, which are no enumeration of Python."""
    return str(constant).rpartition(".")[2]


OTF2 = Dialect(
    name="otf2",
    uses=("include", "collectives"),
    holds="graph",
    title="OTF2 trace of Score-P and others",
    recognise=is_otf2,
    read=read_otf2,
    needs="otf2",
    documentation="""
The anchor file `traces.otf2`, or its folder. Rounds and collectives are those of `chakra`. Amounts
are read as Score-P writes them: those of an all-reduce are as many vectors as there are ranks.
`--include point_to_point` leaves collectives out.
""",
)
DIALECTS = (GOAL, OTF2)
