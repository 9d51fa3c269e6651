"""Read GOAL and OTF2 traces, and build workloads from recorded messages and collectives."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toruscast.errors import InputError
from toruscast.files import as_damaged, at_file
from toruscast.mapping.collectives import names
from toruscast.mapping.collectives.schedules import check_size, estimate_edges, find_collective
from toruscast.mapping.comm_graph import MAX_TASKS, Workload, sum_edges
from toruscast.text import counted

from ._round_kernels import COLLECTIVE, RECEIVE, SEND, trace_paths
from .dialect import Dialect
from .graphs import GraphOptions, check_collectives
from .rounds import COLLECTIVES, Events, build_rounds
from .source import AnyPath, Source, TextFile, parse_whole, warn_about

# If the collectives of a trace have more messages, each call becomes a single round.
_MAX_EXPANDED_MESSAGES = 2**20
# If a trace has more rounds, repeated iterations are replaced by their mean.
_MAX_UNFOLDED_ROUNDS = 1000
# Simulations of more rounds would take too long.
_MAX_ROUNDS = 100_000
# Collectives whose buffer consists of the contributions of all ranks.
_CONCATENATING = ("allgather", "gather", "scatter")


def check_algorithms(chosen: Mapping[str, str]) -> None:
    """Raise `InputError` for an unknown collective, or an algorithm that it does not have."""
    for collective, algorithm in chosen.items():
        if collective not in COLLECTIVES:
            valid = ", ".join(sorted(COLLECTIVES))
            raise InputError("unknown collective", found=collective, expected=valid)
        if f"{collective}/{algorithm}" not in names():
            valid = ", ".join(name.partition("/")[2] for name in names(collective))
            raise InputError(f"unknown algorithm of {collective}", found=algorithm, expected=valid)


class _Action(NamedTuple):
    """A message or collective call of a rank."""

    kind: int  # SEND, RECEIVE or COLLECTIVE
    peer: int  # the other rank of a message, or the root of a collective; -1 for none
    communicator: int
    tag: int  # of a message, or the number of the call on its communicator
    nbytes: float
    collective: str = ""  # "" for messages and barriers


class RankActions:
    """Messages and collectives of each rank of a trace in program order."""

    def __init__(self) -> None:
        self._actions: dict[int, list[_Action]] = defaultdict(list)
        self._calls: Counter[tuple[int, int]] = Counter()
        self.members: dict[int, tuple[int, ...]] = {}  # tasks of each communicator
        # Bytes of the whole buffer (see `schedule`) by communicator and call number.
        self.sizes: dict[tuple[int, int], float] = {}
        self.largest = -1  # largest task that sends or receives a message

    def add_message(
        self, kind: int, task: int, peer: int, nbytes: float, communicator: int = 0, tag: int = 0
    ) -> None:
        """Record that a task sends a message (``kind`` SEND) or waits for one (RECEIVE)."""
        self._actions[task].append(_Action(kind, peer, communicator, tag, nbytes))
        self.largest = max(self.largest, task, peer)

    def add_collective(
        self, task: int, communicator: int, collective: str, root: int = -1
    ) -> tuple[int, int]:
        """Record a collective of a task ("" for a barrier), and return its key in `sizes`."""
        call_number = self._calls[task, communicator]
        self._calls[task, communicator] += 1
        action = _Action(COLLECTIVE, root, communicator, call_number, 0.0, collective)
        self._actions[task].append(action)
        return communicator, call_number

    def build_workload(self, path: AnyPath, n_tasks: int, options: GraphOptions) -> Workload:
        """Return the recorded actions that the options include, as a workload of dependent rounds.

        The workload has at least ``n_tasks`` tasks. ``path`` is named in errors and warnings.
        """
        kinds = {"point_to_point": (SEND, RECEIVE), "collective": (COLLECTIVE,)}.get(
            options.include, (SEND, RECEIVE, COLLECTIVE)
        )
        n_tasks = options.resolve_n_tasks(max(n_tasks, self.largest + 1), path)
        first: list[int] = [0]
        included: list[_Action] = []
        for task in range(n_tasks):
            actions = (action for action in self._actions.get(task, ()) if action.kind in kinds)
            included += [self._add_call_size(task, action) for action in actions]
            first.append(len(included))
        if COLLECTIVE in kinds:
            self._check_collectives(path)
        if not included:
            raise InputError("trace without a message", file=path)
        operations = ("", *COLLECTIVES)
        operation = [operations.index(action.collective) for action in included]
        events = Events(
            first=np.array(first),
            kind=np.array([action.kind for action in included], np.uint8),
            peer=np.array([action.peer for action in included], np.int64),
            communicator=np.array([action.communicator for action in included], np.int64),
            tag=np.array([action.tag for action in included], np.int64),
            nbytes=np.array([action.nbytes for action in included], float),
            operation=np.array(operation, np.int64),
            members=self.members,
            operations=operations,
        )
        build = partial(
            build_rounds,
            events,
            name=options.name,
            algorithms=options.collectives,
            max_messages=_MAX_EXPANDED_MESSAGES,
        )
        with at_file(path):
            result = build(fold=False)
            if result.n_rounds > _MAX_UNFOLDED_ROUNDS:
                result = build(fold=True)
            if result.unreached:
                found = counted(result.unreached, "event") + " in a cyclic wait"
                expected = "matching sends, and collectives in the same order on all ranks"
                raise InputError("tasks wait for each other", found=found, expected=expected)
            if (n_rounds := len(result.workload)) > _MAX_ROUNDS:
                expected = f"at most {_MAX_ROUNDS}"
                raise InputError("too many rounds", found=n_rounds, expected=expected)
        options.omitted.extend(result.omitted)
        # Some traces record no receives at all; their sends do not count as unmatched.
        unmatched = result.unmatched_text if RECEIVE in events.kind else ""
        for warning in filter(None, (result.repeats_text, unmatched)):
            warn_about(path, warning)
        return result.workload

    def _add_call_size(self, task: int, action: _Action) -> _Action:
        """Return an action; for a collective call, replace the call number by the bytes."""
        if action.kind != COLLECTIVE:
            return action
        nbytes = self.sizes.get((action.communicator, action.tag), 0.0)
        # `build_rounds` sums these bytes over the ranks, so only the first rank has them.
        if action.collective in _CONCATENATING and task != self.members[action.communicator][0]:
            nbytes = 0.0
        return action._replace(tag=0, nbytes=nbytes)

    def _check_collectives(self, path: AnyPath) -> None:
        """Raise `InputError` for collectives of too many ranks, or with too many messages."""
        calls = {
            (action.communicator, action.tag): action.collective
            for action in chain.from_iterable(self._actions.values())
            if action.kind == COLLECTIVE and action.collective
        }
        n_messages = 0
        for (communicator, _), collective in calls.items():
            group = np.array([self.members[communicator]])
            with at_file(path):
                check_size(collective, group.size)
            n_messages += estimate_edges(collective, group)
        check_collectives(path, n_messages)


_GOAL_HEAD = re.compile(r"num_ranks\s+([0-9]+)")
_GOAL_RANK = re.compile(r"rank\s+([0-9]+)\s*\{?")
_GOAL_OPERATION = re.compile(
    r"(?:(\w+)\s*:\s*)?(send|recv|calc)\s+([0-9]+)b?(?:\s+(?:to|from)\s+([0-9]+))?"
    r"((?:\s+(?:tag|cpu|nic)\s+[0-9]{1,18})*)"
)
_GOAL_FORM = "send SIZEb to RANK [tag TAG] [cpu CPU] [nic GPU]"
_GOAL_REQUIREMENT = re.compile(r"(\w+)\s+(i?requires)\s+(\w+)")
_GOAL_COMMENT = re.compile(r"//.*|#.*|/\*(?>[^*/]|\*(?!/)|/(?!\*))*+\*/")


@dataclass
class _GoalOperation:
    """A send, a receive or a computation of a rank."""

    line: int
    kind: str  # "send", "recv" or "calc"
    nbytes: int
    rank: int
    peer: int
    tag: int
    nic: int
    peer_nic: int = 0
    before: list[int] = field(default_factory=list)  # indexes of operations it waits for


def _is_goal(source: Source) -> bool:
    first = [_GOAL_COMMENT.sub("", line).strip() for line in source.raw_lines]
    return bool(_GOAL_HEAD.fullmatch(next((line for line in first if line), "")))


def _read_goal(source: Source, options: GraphOptions) -> Workload:
    """Read the sends of a schedule, in rounds that follow from their dependencies."""
    text = source.text
    n_ranks, operations = _read_goal_operations(text)
    # The number after "nic" is a GPU of the rank. Each GPU is a task.
    n_gpus = 1 + max((operation.nic for operation in operations), default=0)
    n_tasks = n_ranks * n_gpus
    options.check_n_tasks(n_tasks, source.path)
    _match_receives(text, operations)
    sends = [
        (op.rank * n_gpus + op.nic, op.peer * n_gpus + op.peer_nic, op.nbytes, number)
        for op, number in zip(operations, _number_rounds(text, operations), strict=True)
        if op.kind == "send"
    ]
    if not sends:
        raise text.fault("GOAL schedule without a send")
    src, dst, nbytes, rounds = np.array(sends, np.int64).T
    # Rounds without a send have no phase.
    used_rounds = np.unique(rounds)
    if used_rounds.size > _MAX_ROUNDS:
        raise text.fault("too many rounds", None, used_rounds.size, f"at most {_MAX_ROUNDS}")
    phases = []
    for number in used_rounds:
        sent = rounds == number
        phases.append(sum_edges(n_tasks, src[sent], dst[sent], nbytes[sent], name=options.name))
    return Workload(phases, name=options.name, dependent=True)


def _read_goal_operations(text: TextFile) -> tuple[int, list[_GoalOperation]]:
    """Return the number of ranks, and the operations of all ranks in file order."""
    n_ranks, rank = 0, -1
    operations: list[_GoalOperation] = []
    # For the current rank: the index of each labelled operation, and the requirements as (line,
    # waiting label, required label).
    labels: dict[str, int] = {}
    requirements: list[tuple[int, str, str]] = []
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = _GOAL_COMMENT.sub("", raw).strip().rstrip(";")
        if not line or line == "{":
            continue
        if n_ranks == 0 and (match := _GOAL_HEAD.fullmatch(line)):
            n_ranks = parse_whole(text, number, "number of ranks", match[1], MAX_TASKS)
        elif match := _GOAL_RANK.fullmatch(line):
            if rank >= 0:
                raise text.fault("nested rank", number, line, "} before it")
            rank = parse_whole(text, number, "rank", match[1], n_ranks - 1)
        elif line == "}":
            for line_number, waiting, required in requirements:
                for label in (waiting, required):
                    if label not in labels:
                        raise text.fault("unknown label", line_number, label, "one of this rank")
                operations[labels[waiting]].before.append(labels[required])
            rank, labels, requirements = -1, {}, []
        elif rank >= 0 and (match := _GOAL_OPERATION.fullmatch(line)):
            label, kind, size, peer, options = match.groups()
            words = options.split()
            parameters = dict(zip(words[::2], map(int, words[1::2]), strict=True))
            # Only computations have no peer, and no parameter may occur twice.
            if (peer is None) != (kind == "calc") or 2 * len(parameters) < len(words):
                raise text.fault("bad GOAL line", number, line, _GOAL_FORM)
            nbytes = parse_whole(text, number, "size", size, 10**15)
            peer_rank = -1 if peer is None else parse_whole(text, number, "rank", peer, n_ranks - 1)
            if label in labels:
                raise text.fault("duplicate label", number, label)
            if label:
                labels[label] = len(operations)
            endpoints = rank, peer_rank, parameters.get("tag", 0), parameters.get("nic", 0)
            operations.append(_GoalOperation(number, kind, nbytes, *endpoints))
        elif rank >= 0 and (match := _GOAL_REQUIREMENT.fullmatch(line)):
            requirements.append((number, match[1], match[3]))
        else:
            expected = f"{_GOAL_FORM}, recv, calc, requires, rank N {{ or }}"
            raise text.fault("bad GOAL line", number, line, expected)
    if rank >= 0:
        raise text.fault("truncated GOAL schedule", None, f"rank {rank} without }}", "}")
    return n_ranks, operations


def _match_receives(text: TextFile, operations: list[_GoalOperation]) -> None:
    """Make each receive wait for the next send with its source, destination and tag."""
    unmatched_sends: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
    for i, operation in enumerate(operations):
        if operation.kind == "send":
            unmatched_sends[operation.rank, operation.peer, operation.tag].append(i)
    for operation in operations:
        if operation.kind == "recv":
            key = (operation.peer, operation.rank, operation.tag)
            if not unmatched_sends[key]:
                found = f"from {key[0]} to {key[1]}, tag {key[2]}"
                raise text.fault("receive without a send", operation.line, found)
            send = unmatched_sends[key].popleft()
            if operations[send].nbytes != operation.nbytes:
                expected = f"{operations[send].nbytes}, as sent on line {operations[send].line}"
                raise text.fault("wrong size", operation.line, operation.nbytes, expected)
            operation.before.append(send)
            operations[send].peer_nic = operation.nic
    for remaining in unmatched_sends.values():
        if remaining:
            raise text.fault("send without a receive", operations[remaining[0]].line)


def _number_rounds(text: TextFile, operations: list[_GoalOperation]) -> list[int]:
    """Return the round number of each operation, counted from 1.

    A send is one round after the latest message that it waits for.
    """
    is_send = [operation.kind == "send" for operation in operations]
    # Other operations are in the round of the latest message that they wait for.
    arcs = [
        (earlier, later, is_send[later])
        for later, operation in enumerate(operations)
        for earlier in operation.before
    ]
    rounds = np.array(is_send, np.int64)
    is_traced = trace_paths(np.array(arcs, np.int32).reshape(-1, 3).T, rounds)
    if not is_traced.all():
        blocked = operations[int(is_traced.argmin())]
        raise text.fault("operations depend on each other", blocked.line)
    numbers: list[int] = rounds.tolist()
    return numbers


def _write_goal(workload: Workload, path: Path) -> None:
    """Write a schedule in which a rank starts a round after all messages of its previous round.

    Each round of a rank ends with an empty computation, which the next round requires.
    """
    if len(workload) > 1 and not workload.dependent:
        found, expected = f"{len(workload)} phases", "dependent rounds, or one phase"
        raise InputError("GOAL has no barrier between phases", found=found, expected=expected)
    if not any(phase.n_edges for phase in workload):
        raise InputError("no message to write", expected="GOAL schedules with a send")
    lines: list[list[str]] = [[] for _ in range(workload.n_tasks)]
    finished: dict[int, str] = {}
    for number, phase in enumerate(workload, start=1):
        operations: dict[int, list[str]] = defaultdict(list)
        columns = phase.src, phase.dst, np.rint(phase.nbytes), np.maximum(phase.whole_messages, 1)
        edges = zip(*(column.astype(np.int64).tolist() for column in columns), strict=True)
        for src, dst, nbytes, n_messages in edges:
            quotient, remainder = divmod(nbytes, n_messages)
            for i in range(n_messages):
                size = quotient + (i < remainder)
                operations[src].append(f"send {size}b to {dst} tag {number}")
                operations[dst].append(f"recv {size}b from {src} tag {number}")
        for rank, messages in operations.items():
            end = f"r{number}"
            lines[rank].append(f"{end}: calc 0")
            for i, operation in enumerate(messages):
                lines[rank] += [f"{end}_{i}: {operation}", f"{end} requires {end}_{i}"]
                if rank in finished:
                    lines[rank].append(f"{end}_{i} requires {finished[rank]}")
            finished[rank] = end
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"num_ranks {workload.n_tasks}\n")
        for rank, body in enumerate(lines):
            file.write("\n".join([f"rank {rank} {{", *body, "}\n"]))


GOAL = Dialect(
    name="goal",
    holds="graph",
    title="GOAL schedule of LogGOPSim and ATLAHS",
    recognise=_is_goal,
    read=_read_goal,
    write=_write_goal,
    writes_rounds=True,
    suffixes=(".goal",),
    documentation="""
Sends, receives and their dependencies for each rank. They become a workload of dependent rounds, in
which a send is one round after the latest message it waits for. Times of `calc` are not used. The
number after `nic` is a GPU of the rank, and each GPU is a task: with G GPUs per rank, GPU g of rank
r is task r G + g. In a written file, a rank starts a round after all its messages of the previous
round; bytes are rounded to whole numbers.
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
# Attributes with the sizes of other events, such as one-sided operations.
_OTF2_SIZES = ("bytes", "bytes_sent", "bytes_received", "size_sent", "size_received", "msg_length")
ROOTED = ("bcast", "reduce", "gather", "scatter")
# Collectives that send no data.
SILENT = (
    *("BARRIER", "CREATE_HANDLE", "DESTROY_HANDLE", "ALLOCATE", "DEALLOCATE"),
    *("CREATE_HANDLE_AND_ALLOCATE", "DESTROY_HANDLE_AND_DEALLOCATE"),
)


def _is_otf2(source: Source) -> bool:
    return source.start.startswith(MAGIC) if source.is_file else bool(_find_anchor_file(source))


def _find_anchor_file(source: Source) -> Path | None:
    """Return the anchor file of a trace; None if a folder does not contain exactly one."""
    if source.is_file:
        return Path(source.path)
    files: list[Path] = []
    with suppress(OSError, ValueError):
        files = [file for file in Path(source.path).iterdir() if file.suffix == ".otf2"]
    return files[0] if len(files) == 1 else None


def _read_otf2(source: Source, options: GraphOptions) -> Workload:
    """Read a trace with the package otf2, which is optional."""
    try:
        import otf2
    except ImportError:
        message = "OTF2 traces need the package otf2"
        raise InputError(message, file=source.path, expected="pip install otf2") from None
    anchor = str(_find_anchor_file(source))
    with as_damaged(source.path, "OTF2 trace"), otf2.reader.open(anchor) as trace:
        n_tasks, program = _read_otf2_actions(trace, options)
    return program.build_workload(source.path, n_tasks, options)


def _read_otf2_actions(trace: Any, options: GraphOptions) -> tuple[int, RankActions]:
    """Return the number of ranks in an open trace, and their messages and collectives."""
    rank_of: dict[Any, int] = {}
    for group in trace.definitions.groups:
        kinds = (_name_constant(group.group_type), _name_constant(group.paradigm))
        if kinds == ("COMM_LOCATIONS", "MPI"):
            rank_of = {location: rank for rank, location in enumerate(group.members)}
    if not rank_of:
        raise InputError("OTF2 trace without ranks of MPI", expected="a trace of an MPI program")
    program = RankActions()
    numbers: dict[Any, int] = {}
    # For each call: its collective's name, and the maximum bytes that a rank sends and receives.
    sizes_by_call: dict[tuple[int, int], tuple[str, int, int]] = {}
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
        # The group of MPI_COMM_SELF is empty in the trace.
        ranks = program.members[number] or (task,)
        if kind in (*SENDS, *RECEIVES):
            is_send = kind in SENDS
            peer = ranks[event.receiver if is_send else event.sender]
            direction = SEND if is_send else RECEIVE
            program.add_message(direction, task, peer, event.msg_length, number, event.msg_tag)
        elif len(ranks) > 1 and options.include != "point_to_point":
            collective = _name_collective(event)
            root = ranks[event.root] if collective in ROOTED else -1
            key = program.add_collective(task, number, collective, root)
            _, sent, received = sizes_by_call.get(key, ("", 0, 0))
            sent, received = max(sent, event.size_sent), max(received, event.size_received)
            sizes_by_call[key] = (collective, sent, received)
    for key, (collective, sent, received) in sizes_by_call.items():
        if collective:
            size = buffer_size(collective, len(program.members[key[0]]), sent, received)
            program.sizes[key] = size
    return len(rank_of), program


def _name_collective(event: Any) -> str:
    """Return the name of a collective in this package; "" for calls that send no data."""
    word = _name_constant(event.collective_op)
    if word in SILENT:
        return ""
    collective = find_collective(word)
    if collective not in COLLECTIVES:
        expected = f"one of {', '.join(sorted(COLLECTIVES))}, or "
        expected += 'include="point_to_point" (--include point_to_point)'
        raise InputError("collective without a known algorithm", found=word, expected=expected)
    return collective


def buffer_size(collective: str, n_ranks: int, sent: int, received: int) -> float:
    """Return a collective's whole buffer in bytes from the most that a rank sends and receives.

    Score-P records the size of the vector times the number of ranks for an all-reduce, and for the
    root of a broadcast or reduction. With MPI_IN_PLACE it leaves out the rank's own block.
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
    # A size that is a multiple of n - 1 rather than n ranks lacks the rank's own block.
    if size % n_ranks and n_ranks > 1 and size % (n_ranks - 1) == 0:
        size += size / (n_ranks - 1)
    return size / n_ranks if collective == "allreduce" else size


def _name_constant(constant: Any) -> str:
    """Return the name of a constant; the constants of the otf2 package are not enums."""
    return str(constant).rpartition(".")[2]


OTF2 = Dialect(
    name="otf2",
    uses=("include", "collectives"),
    holds="graph",
    title="OTF2 trace of Score-P and others",
    recognise=_is_otf2,
    read=_read_otf2,
    needs="otf2",
    documentation="""
The anchor file `traces.otf2`, or its folder. Rounds and collectives are defined as for `chakra`.
Bytes are read as Score-P writes them; for an all-reduce, these are the bytes of the vector times
the number of ranks. `--include point_to_point` excludes collectives.
""",
)
DIALECTS = (GOAL, OTF2)
