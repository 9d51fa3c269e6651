"""GOAL schedules of LogGOPSim and ATLAHS, as workloads of dependent rounds."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np

from ...comm_graph import MAX_TASKS, sum_edges
from ...workload import Workload
from ..dialect import Dialect
from ..source import Source, Text, whole
from .build import GraphOptions, topological_order

HEAD = re.compile(r"num_ranks\s+([0-9]+)")
RANK = re.compile(r"rank\s+([0-9]+)\s*\{?")
TASK = re.compile(
    r"(?:(\w+)\s*:\s*)?(send|recv|calc)\s+([0-9]+)b?(?:\s+(?:to|from)\s+([0-9]+))?((?:\s+\w+\s+[0-9]+)*)"
)
NEEDS = re.compile(r"(\w+)\s+(i?requires)\s+(\w+)")
COMMENT = re.compile(r"//.*|#.*|/\*(?>[^*/]|\*(?!/)|/(?!\*))*+\*/")
# More rounds than this are no schedule that anybody simulates.
MAX_ROUNDS = 100_000


@dataclass
class _Task:
    """One operation: its line, what it waits for, and the latest round that is over after it."""

    line: int
    kind: str
    size: int = 0
    peer: int = -1
    before: list[int] = field(default_factory=list)
    round: int = 0


def is_goal(source: Source) -> bool:
    """Whether the first line states the number of ranks as GOAL does."""
    first = [COMMENT.sub("", line).strip() for line in source.raw_lines]
    return bool(HEAD.fullmatch(next((line for line in first if line), "")))


def read(source: Source, options: GraphOptions) -> Workload:
    """Return a workload: messages whose chains of dependencies are equally long share a round."""
    options.only(source.path)
    text = source.text
    n, tasks, ends = _tasks(text)
    if options.n_tasks not in (None, n):
        raise text.fault("wrong number of tasks", None, n, options.n_tasks)
    _match(text, tasks, ends)
    _set_rounds(text, tasks)
    sends = [(ends[i][0], t.peer, t.size, t.round) for i, t in enumerate(tasks) if t.kind == "send"]
    if not sends:
        raise text.fault("GOAL schedule without a send")
    src, dst, nbytes, rounds = np.array(sends, np.int64).T
    # Rounds without a send have no phase.
    numbers = np.unique(rounds)
    if numbers.size > MAX_ROUNDS:
        raise text.fault("too many rounds", None, numbers.size, f"at most {MAX_ROUNDS}")
    phases = [
        sum_edges(n, *(c[rounds == r] for c in (src, dst, nbytes)), name=options.name)
        for r in numbers
    ]
    return Workload(phases, name=options.name, dependent=True)


def _tasks(text: Text) -> tuple[int, list[_Task], list[tuple[int, int]]]:
    """All operations, and rank and tag of each."""
    n, rank = 0, -1
    tasks: list[_Task] = []
    ends: list[tuple[int, int]] = []
    labels: dict[str, int] = {}
    needs: list[tuple[int, str, str]] = []
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = COMMENT.sub("", raw).strip().rstrip(";")
        if not line or line == "{":
            continue
        if match := HEAD.fullmatch(line):
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
            if (peer is None) != (kind == "calc"):
                raise text.fault("bad GOAL line", number, line, "send SIZEb to RANK tag TAG")
            task = _Task(number, kind, whole(text, number, "size", size, 10**15))
            if peer is not None:
                task.peer = whole(text, number, "rank", peer, n - 1)
            extra = rest.split()
            tag = int(dict(zip(extra[::2], extra[1::2], strict=True)).get("tag", "0")[:18])
            if label in labels:
                raise text.fault("label stands twice", number, label)
            if label:
                labels[label] = len(tasks)
            tasks.append(task)
            ends.append((rank, tag))
        elif rank >= 0 and (match := NEEDS.fullmatch(line)):
            needs.append((number, match[1], match[3]))
        else:
            expected = "send, recv, calc, requires, rank N { or }"
            raise text.fault("bad GOAL line", number, line, expected)
    if rank >= 0:
        raise text.fault("truncated GOAL schedule", None, f"rank {rank} without its end", "}")
    return n, tasks, ends


def _match(text: Text, tasks: list[_Task], ends: list[tuple[int, int]]) -> None:
    """Let each receive wait for its send, in the order of the file."""
    sent: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
    for i, task in enumerate(tasks):
        if task.kind == "send":
            sent[ends[i][0], task.peer, ends[i][1]].append(i)
    for i, task in enumerate(tasks):
        if task.kind == "recv":
            key = (task.peer, ends[i][0], ends[i][1])
            if not sent[key]:
                found = f"from {key[0]} to {key[1]}, tag {key[2]}"
                raise text.fault("receive without a send", task.line, found)
            send = sent[key].popleft()
            if tasks[send].size != task.size:
                expected = f"{tasks[send].size}, as sent on line {tasks[send].line}"
                raise text.fault("receive of another size", task.line, task.size, expected)
            task.before.append(send)
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


DIALECT = Dialect(
    name="goal",
    holds="graph",
    title="GOAL schedule of LogGOPSim and ATLAHS",
    recognise=is_goal,
    read=read,
    documentation="""
Sends, receives and what they wait for, rank by rank. It becomes a workload of dependent rounds: a
send falls into the round after the latest message that it waits for. Times of `calc` are not used.
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
