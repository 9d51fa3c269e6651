"""Collectives of a trace as the messages of a named algorithm, and what all ranks did as rounds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial

import numpy as np

from toruscast.errors import InputError
from toruscast.files import check_claim
from toruscast.text import counted

from ...collectives import names
from ...collectives.schedule import check_size, edges_of
from ...trace._round_kernels import COLLECTIVE, RECEIVE, SEND
from ...trace.library_rules import COLLECTIVES
from ...trace.rounds import Events, rounds_of
from ...workload import Workload
from ..source import at_file, warn_of
from .build import AnyPath, GraphOptions

# Bytes of an edge of a collective.
_HELD = 16
# Messages of collectives that are listed round by round.
_LISTED = 2**20
# Of more rounds than this, one iteration is read if there are several.
_LONG = 1000
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
    """What the ranks of a trace did, each in its own order, until it becomes rounds."""

    def __init__(self) -> None:
        self._rows: dict[int, list[tuple[int, int, int, int, float, str]]] = defaultdict(list)
        self._calls: Counter[tuple[int, int]] = Counter()
        self.members: dict[int, tuple[int, ...]] = {}
        """Tasks of each communicator."""
        self.sizes: dict[tuple[int, int], float] = {}
        """Whole buffer of each call of a communicator, as of `schedule`."""

    def send(
        self, task: int, peer: int, nbytes: float, communicator: int = 0, tag: int = 0
    ) -> None:
        """Let a task send."""
        self._rows[task].append((SEND, peer, communicator, tag, nbytes, ""))

    def receive(self, task: int, peer: int, communicator: int = 0, tag: int = 0) -> None:
        """Let a task wait for a message."""
        self._rows[task].append((RECEIVE, peer, communicator, tag, 0.0, ""))

    def collective(
        self, task: int, communicator: int, collective: str, root: int = -1
    ) -> tuple[int, int]:
        """Let a task take part in a call; return its key in `sizes`. A barrier has no name."""
        turn = self._calls[task, communicator]
        self._calls[task, communicator] += 1
        self._rows[task].append((COLLECTIVE, root, communicator, turn, 0.0, collective))
        return communicator, turn

    @property
    def n_tasks(self) -> int:
        """The largest task that sends to another or receives from one, plus one."""
        ends = (
            max(task, row[1])
            for task, rows in self._rows.items()
            for row in rows
            if row[0] != COLLECTIVE
        )
        return max(ends, default=-1) + 1

    def rounds(self, path: AnyPath, n_tasks: int, options: GraphOptions) -> Workload:
        """Return messages and collectives as rounds that depend on each other.

        Raises
        ------
        InputError
            If nothing is sent, tasks wait for each other, or the messages are too many.
        """
        wanted = {"point_to_point": (SEND, RECEIVE), "collective": (COLLECTIVE,)}.get(
            options.include, (SEND, RECEIVE, COLLECTIVE)
        )
        first, rows = [0], []
        for task in range(n_tasks):
            rows += [self._row(task, row) for row in self._rows[task] if row[0] in wanted]
            first.append(len(rows))
        self._check(path, n_tasks, COLLECTIVE in wanted)
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
        if found.iterations > 1:
            warn_of(
                path,
                f"{len(found.workload)} of {found.n_rounds} rounds repeat "
                f"{found.iterations} times: one iteration is read, the mean of all",
            )
        # Without receives nothing depends on a message, and none lacks its other side.
        if found.unmatched and RECEIVE in kind:
            other = counted(found.unmatched, "message")
            warn_of(path, f"{other} without its other side")
        return found.workload

    def _row(
        self, task: int, row: tuple[int, int, int, int, float, str]
    ) -> tuple[int, int, int, int, float, str]:
        kind, peer, communicator, tag, nbytes, word = row
        if kind != COLLECTIVE:
            return row
        # One task stands for all where the buffer is the sum of theirs.
        if word not in _SUMMED or task == self.members[communicator][0]:
            nbytes = self.sizes.get((communicator, tag), 0.0)
        return kind, peer, communicator, 0, nbytes, word

    def _check(self, path: AnyPath, n_tasks: int, with_collectives: bool) -> None:
        """Raise unless all tasks are there, and the messages of collectives may be listed."""
        if self.n_tasks > n_tasks:
            found, expected = self.n_tasks, f"{n_tasks}, as given"
            raise InputError("wrong number of tasks", file=path, found=found, expected=expected)
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
            claims += edges_of(word, group)
        check_claim(path, _HELD * claims, counted(claims, "message"))
