"""The collectives of an HLO module: what each sends among whom, and how often a step runs it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from .groups import after, read_groups
from .shapes import nbytes, parts

KINDS = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "alltoall",
    "collective-permute": "permute",
}
_LEFT_OUT = ("ragged-all-to-all", "collective-broadcast")
_INSTRUCTION = re.compile(
    r"\s*(?:ROOT\s+)?%?([\w.-]+)\s*=\s*(.+?)\s((?:ragged-)?[a-z]+(?:-[a-z]+)*)\("
)
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)"
)
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?([0-9]{1,12})"?')
_COMMENT = re.compile(r"/\*(?>[^*/]|\*(?!/)|/(?!\*))*+\*/")
_HEAD = re.compile(r"\b(num_partitions|replica_count)\s*=\s*([0-9]{1,9})")


# Of one collective, of all groups together, and of a loop: more is no program's.
_MOST_BYTES = 1e18
_MOST_LISTED = 2**24
_MOST_TIMES = 10**15


@dataclass(frozen=True, eq=False)
class HloCollective:
    """A collective of a program.

    Attributes
    ----------
    name : str
        Of its instruction.
    kind : str
        ``allreduce``, ``allgather``, ``reduce_scatter``, ``alltoall`` or ``permute``.
    nbytes : float
        Size of the whole buffer, as of `MeshTraffic`.
    groups : ndarray of int, shape (n_groups, n)
        Devices of each group; of a permute sender and receiver.
    times : int
        How often a step runs it: loops with a known number of trips count as many.
    """

    name: str
    kind: str
    nbytes: float
    groups: NDArray[np.int64]
    times: int = 1

    def alike(self, other: HloCollective) -> bool:
        """Whether both send the same."""
        same = (self.kind, self.nbytes) == (other.kind, other.nbytes)
        alike = self.groups is other.groups or np.array_equal(self.groups, other.groups)
        return same and alike


@dataclass(frozen=True, eq=False)
class HloStep:
    """The collectives of a program in the order of its text, those alike put together.

    Attributes
    ----------
    n_devices : int
    collectives : tuple of HloCollective
    left_out : tuple of str
        Instructions that communicate and are not known here.
    """

    n_devices: int
    collectives: tuple[HloCollective, ...]
    left_out: tuple[str, ...] = ()


class Lines(Protocol):
    """A text that is read line by line, and words its faults."""

    def raw_lines(self, skip: int = 0) -> Iterator[str]:
        """Lines as they stand."""

    def first_line(self) -> tuple[int, str]:
        """Number and content of the first line with data."""

    def fault(
        self,
        message: str,
        line: int | None = None,
        found: object = None,
        expected: object = None,
    ) -> InputError:
        """An error that names the file and the line."""


def step_of(text: Lines) -> HloStep:
    """Return the collectives of HLO text that was read.

    Raises
    ------
    InputError
        If it is no such text, or a collective's groups or sizes cannot be told.
    """
    sizes = dict.fromkeys(("num_partitions", "replica_count"), 1)
    where, entry, order = "", None, [""]
    found: list[tuple[str, HloCollective]] = []
    calls: list[tuple[str, str, int]] = []
    left_out: list[str] = []
    known = False
    # Programs repeat the same groups; together they must not claim more than a program has.
    groups: dict[tuple[str, int], NDArray[np.int64] | None] = {}
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = _COMMENT.sub("", raw).rstrip()
        if line.lstrip().startswith("HloModule"):
            sizes |= {key: int(value) for key, value in _HEAD.findall(line)}
            known = True
            continue
        if line.endswith("{") and (match := re.match(r"\s*(ENTRY\s+)?%?([\w.-]+)", line)):
            where = match[2]
            order.append(where)
            known = True
            entry = where if match[1] else entry
            continue
        instruction = _INSTRUCTION.match(line)
        if instruction is None:
            continue
        name, kind, operation = instruction.groups()
        trips = _TRIPS.search(line)
        # What is started elsewhere runs once.
        ends = operation.endswith(("-done", "-update"))
        for called in () if ends else _called(line):
            calls.append((where, called, int(trips[1]) if trips and operation == "while" else 1))
        plain = operation.removesuffix("-start")
        if plain in _LEFT_OUT:
            left_out.append(name)
        if plain in KINDS:
            one = _collective(text, number, line, (name, kind, operation), sizes, groups)
            found.append((where, one))
            if sum(each.size for each in groups.values() if each is not None) > _MOST_LISTED:
                expected = f"groups of at most {_MOST_LISTED} devices together"
                raise text.fault("groups too large", number, line.strip()[:60], expected)
    if not known and not found:
        first, line = text.first_line()
        raise text.fault("no HLO text", first, line[:60], "HloModule, or lines %x = f32[8] ...")
    often = _counts(calls, order, entry)
    collectives: list[HloCollective] = []
    for where, each in found:
        if often[where] > _MOST_TIMES:
            expected = f"at most {_MOST_TIMES:.0e} runs in a step"
            raise text.fault(f"loops round {each.name} run too often", None, None, expected)
        if often[where]:
            _add(collectives, replace(each, times=often[where]))
    most = max((int(each.groups.max(initial=-1)) + 1 for each in collectives), default=0)
    n_devices = max(sizes["num_partitions"] * sizes["replica_count"], most)
    return HloStep(n_devices, tuple(collectives), tuple(left_out))


def _called(line: str) -> list[str]:
    """Computations that an instruction runs."""
    names = _CALLED.findall(line)
    for branches in _BRANCHES.findall(line):
        names += [each.strip().lstrip("%") for each in branches.split(",")]
    return names


def _collective(
    text: Lines,
    number: int,
    line: str,
    instruction: tuple[str, str, str],
    sizes: dict[str, int],
    known: dict[tuple[str, int], NDArray[np.int64] | None],
) -> HloCollective:
    name, shape, operation = instruction
    starts = operation.endswith("-start")
    kind = KINDS[operation.removesuffix("-start")]
    key = "source_target_pairs" if kind == "permute" else "replica_groups"
    # Without a list everybody takes part, but a permute says who.
    said = after(line, key) or ("none" if kind == "permute" else "{}")
    n_devices = 0 if kind == "permute" else sizes["num_partitions"] * sizes["replica_count"]
    if (said, n_devices) not in known:
        known[said, n_devices] = read_groups(said, n_devices)
    groups = known[said, n_devices]
    if groups is None or (kind == "permute" and groups.shape[1] != 2):
        if kind == "permute" and said.replace(" ", "") == "{}":
            return HloCollective(name, kind, 0.0, np.zeros((0, 2), dtype=np.int64))
        expected = "groups of one size: {{0,1},{2,3}}, [2,2]<=[4] or mesh['a'=2,'b'=2] {'a'}"
        if kind == "permute":
            expected = "{{0,1},{1,0}}"
        raise text.fault(f"bad {key} of {name}", number, said[:60], expected)
    groups = _devices(groups, kind, line, sizes)
    if starts:
        shape = _of_start(kind, shape)
    size = nbytes(shape)
    if size > _MOST_BYTES:
        expected = f"at most {_MOST_BYTES:.0e} bytes"
        raise text.fault(f"type of {name} too large", number, shape[:60], expected)
    # An all-gather gives the whole buffer, a reduce-scatter one piece of it.
    if kind == "reduce_scatter":
        size *= groups.shape[1]
    return HloCollective(name, kind, size, groups)


def _devices(
    groups: NDArray[np.int64], kind: str, line: str, sizes: dict[str, int]
) -> NDArray[np.int64]:
    """Devices of groups, which may list replicas or partitions instead.

    As XLA's GetCollectiveOpGroupMode has it. With one replica and no channel ids are taken as
    devices, as there is nothing else to communicate among.
    """
    replicas, partitions = sizes["replica_count"], sizes["num_partitions"]
    channel = after(line, "channel_id") is not None
    if partitions == 1 or "use_global_device_ids=true" in line:
        return groups
    in_pairs = kind in ("permute", "alltoall")
    if channel and not in_pairs:
        # Groups of replicas, all partitions of each.
        if groups.max(initial=0) >= replicas:
            return groups
        each = groups[:, :, None] * partitions + np.arange(partitions)
        return each.reshape(groups.shape[0], -1)
    if replicas == 1:
        return groups
    if channel:
        if groups.max(initial=0) >= partitions:
            return groups
        each = groups[None] + (partitions * np.arange(replicas))[:, None, None]
    else:
        if groups.max(initial=0) >= replicas:
            return groups
        each = groups[None] * partitions + np.arange(partitions)[:, None, None]
    return each.reshape(-1, groups.shape[1])


def _of_start(kind: str, shape: str) -> str:
    """What an instruction that only starts gives in the end: its type holds the operands too."""
    inside = parts(shape)
    if kind == "permute":
        return inside[0]
    if kind == "allreduce" or len(inside) < 2:
        return shape
    return inside[1]


def _counts(calls: list[tuple[str, str, int]], order: list[str], entry: str | None) -> Counter[str]:
    """How often a step runs each computation; once where no entry tells."""
    if entry is None:
        return Counter(order)
    inside: dict[str, list[tuple[str, int]]] = {}
    for caller, called, trips in calls:
        inside.setdefault(caller, []).append((called, trips))
    often = Counter({entry: 1})
    # Computations stand before those that run them.
    for caller in reversed(order):
        for called, trips in inside.get(caller, ()):
            often[called] += often[caller] * trips
    return often


def _add(collectives: list[HloCollective], one: HloCollective) -> None:
    for place, other in enumerate(collectives):
        if one.alike(other):
            collectives[place] = replace(other, times=other.times + one.times)
            return
    collectives.append(one)
