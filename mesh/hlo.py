"""Read the collectives of a compiled program, and how often a step runs them, from HLO text.

Groups are lists, a transposed iota, or axes of a mesh. The grammar of meshes follows XLA's printers
(mesh_and_axis.cc, replica_group.cc, 2025 and 2026): ``mesh['a'=2,'b'=4],
device_ids=([4,2]T(1,0)) {'a','b':(1)2}``, earlier ``@mesh<a=2,b=4>(...)``. The patterns were
written from programs that JAX 0.4 to 0.10 compiled.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from toruscast.errors import InputError
from toruscast.files import note_read
from toruscast.formats.dialect import Dialect
from toruscast.formats.graphs import GraphOptions, check_collectives
from toruscast.formats.rounds import choose_algorithm
from toruscast.formats.source import Source, TextFile, as_text, read_text
from toruscast.mapping.collectives.schedules import collective_total, estimate_edges
from toruscast.mapping.comm_graph import CommGraph, Workload, sum_edges
from toruscast.mapping.omissions import Omission, describe_omissions, merge_omissions
from toruscast.text import closest
from toruscast.typing import Ints
from toruscast.validation import check_type, real_number, whole_number

# Opcodes that are counted, and their collective. A broadcast passes the buffer along its group, as
# NCCL's ring does.
KINDS = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "alltoall",
    "ragged-all-to-all": "alltoall",
    "collective-permute": "permute",
    "collective-broadcast": "permute",
    "send": "permute",
}
_INSTRUCTION = re.compile(r"\s*(ROOT\s+)?%?([\w.-]+)\s*=\s*(.+?)\s([A-Za-z_][\w-]*+)\((.*)")
_CALLED = re.compile(
    r"\b(calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)"
    r"|\b(?:branch_computations|called_computations)=\{([^}]*)\}"
)
# Opcodes that only run other computations.
_RUN = ("while", "conditional", "call", "async", "fusion")
# Opcodes that only compute (xla/hlo/ir/hlo_opcode.h). Others are counted or reported as omitted.
_COMPUTE = """
abs acos acosh add add-dependency after-all and asin asinh async-update atan atan2 atanh
batch-norm-grad batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast cbrt
ceil cholesky clamp compare complex concatenate constant convert convolution copy cosh cosine
count-leading-zeros divide domain dot dynamic-reshape dynamic-slice dynamic-update-slice erf
exponential exponential-minus-one fft floor gather get-dimension-size get-tuple-element imag
iota is-finite log log-plus-one logistic map maximum minimum mulhi multiply negate not
opt-barrier or pad parameter partition-id popcnt power ragged-dot real reduce reduce-precision
reduce-window remainder replica-id reshape reverse rng rng-bit-generator
rng-get-and-update-state round-nearest-afz round-nearest-even rsqrt scaled-dot scan scatter
select select-and-scatter set-dimension-size shift-left shift-right-arithmetic
shift-right-logical shuffle sign sine sinh slice sort sqrt stochastic-convert subtract tan tanh
topk trace transpose triangular-solve tuple tuple-select xor
"""
# Attributes and names of other instructions and custom calls that communicate.
_SIGNS = ("replica_groups=", "source_target_pairs=", "channel_id=", '"has_communication"')
_COMMUNICATES = re.compile(
    r"all[-_]?(?:reduce|gather|to[-_]?all)|reduce[-_]?scatter|collective|ppermute|psum|bcast"
    r"|cross[-_]?replica|(?<![a-z])(?:send|recv|mpi|nccl|nvshmem)",
    re.I,
)
_TARGET = re.compile(r'\bcustom_call_target="([^"]*)"')
_PAIRS = "(?:_xla_send_recv_)?source_target_pairs"
_TRIPS = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?([0-9]{1,12})"?')
_COMMENT = re.compile(r"/\*(?>[^*/]|\*(?!/)|/(?!\*))*+\*/")
# Lines of the tables of source locations, which follow the name of the module.
_TABLES = re.compile(r"\s*(?:FileNames|FunctionNames|FileLocations|StackFrames|[0-9]+ [\"{].*)?")
_HEAD = re.compile(r"\b(num_partitions|replica_count)\s*=\s*([0-9]{1,9})")
# Maximum bytes of a collective, devices in all groups, trips of a loop, and runs of a computation.
# Real programs stay well below.
_MAX_BYTES = 1e18
_MAX_LISTED = 2**24
_MAX_TRIPS, _MAX_RUNS = 10**12, 10**15


@dataclass(frozen=True, eq=False)
class HloCollective:
    """A collective of a program."""

    name: str  # name of its instruction
    kind: str  # a value of `KINDS`
    nbytes: float  # bytes of the whole buffer, as in `MeshTraffic`
    groups: Ints  # devices of each group, (n_groups, n); for a permute, source and destination
    runs: int = 1  # runs in a step

    @property
    def total_bytes(self) -> float:
        """Bytes that all devices together send in one run of a ring algorithm."""
        n_groups, n = map(int, self.groups.shape)
        return self.nbytes * n_groups * (n - 1) * (2 if self.kind == "allreduce" else 1)


@dataclass(frozen=True, eq=False)
class HloStep:
    """The collectives of a program in the order of its text, with equal ones merged."""

    n_devices: int
    collectives: tuple[HloCollective, ...]
    omitted: tuple[Omission, ...] = ()  # communication that is not counted, or only once

    def check(self, file: str | None = None) -> None:
        """Raise `InputError` if there is no collective; the error lists the omissions."""
        if not self.collectives:
            omitted = f". {describe_omissions(self.omitted)}".rstrip(". ")
            raise InputError(f"no collective to count{omitted}", file=file)


class _Instruction(NamedTuple):
    is_root: bool
    name: str
    type: str
    opcode: str
    rest: str  # of the line, from the first operand on


class _Call(NamedTuple):
    name: str
    opcode: str
    called: list[str]
    trips: int | None  # None for a loop with unknown trip count


def parse_program(text: TextFile, options: GraphOptions) -> HloStep:
    """Return the collectives of HLO text, and add omissions to ``options.omitted``."""
    with text.locate_errors(None):
        check_type(options.branches, "branches", Mapping, 'names such as {"conditional.1": 0}')
    parser = _HloParser(text, options)
    for number, raw in enumerate(text.raw_lines(), start=1):
        parser.add_line(number, _COMMENT.sub("", raw).rstrip())
    if not parser.defined:
        first, line = text.first_line()
        raise text.fault("no HLO text", first, line[:60], "HloModule, or lines %x = f32[8] ...")
    with text.locate_errors(None):
        return parser.build_step()


class _HloParser:
    """Parser of HLO text; records the collectives, calls and omissions of each computation."""

    def __init__(self, text: TextFile, options: GraphOptions) -> None:
        self.text, self.options = text, options
        self.counts = dict.fromkeys(("num_partitions", "replica_count"), 1)
        # Name of the current computation, and of the one that starts the program.
        self.where, self.entry, self.is_open = "", "", False
        self.defined: dict[str, None] = {}
        self.conditions: set[str] = set()  # computations that end loops
        self.collectives: list[tuple[str, HloCollective]] = []
        self.calls: dict[str, list[_Call]] = defaultdict(list)
        self.omitted: dict[str, list[Omission]] = defaultdict(list)
        self.has_ragged = False
        # Receives count as omitted unless their channel has a send.
        self.received: list[tuple[str | None, str, Omission]] = []
        self.sent_channels: set[str | None] = set()
        # Instructions of a computation from its first all-reduce on.
        self.bodies: dict[str, list[_Instruction]] = {}
        # Groups by their text. Programs repeat the same groups, and sharing them limits the memory.
        self.groups: dict[tuple[str, bool], Ints] = {}

    @property
    def n_devices(self) -> int:
        return math.prod(self.counts.values())

    def add_line(self, number: int, line: str) -> None:
        if line.lstrip().startswith("HloModule"):
            if "" in self.defined:
                expected = "one HloModule, so a file for each program"
                raise self.text.fault("several programs", number, line[:60], expected)
            self.counts |= {key: int(value) for key, value in _HEAD.findall(line)}
            self.defined[""] = None
        elif match := _INSTRUCTION.match(line):
            one = _Instruction(bool(match[1]), *match.groups()[1:])
            # Asynchronous instructions are counted at their start.
            if not one.opcode.endswith("-done"):
                self._add_instruction(number, one, one.opcode.removesuffix("-start"))
        elif line.endswith("{") and (match := re.match(r"\s*(ENTRY\s+)?%?([\w.-]+)", line)):
            self.where, self.is_open = match[2], True
            self.defined[self.where] = None
            self.entry = self.where if match[1] else self.entry
        elif line.lstrip().startswith("}"):
            self.is_open = False
        elif _TABLES.fullmatch(line) or line.lstrip().startswith("//"):
            pass
        elif self.is_open:
            expected = "an instruction on one line, such as %x = f32[8] add(%a, %b)"
            raise self.text.fault("no instruction", number, line.strip()[:60], expected)
        else:
            self.options.omit("line", f"line {number}", reason="unsupported")

    def _add_instruction(self, number: int, one: _Instruction, opcode: str) -> None:
        self.defined[self.where] = None
        called: list[str] = []
        for key, name, several in _CALLED.findall(one.rest):
            called += re.findall(r"[\w.-]+", name or several)
            self.conditions |= {name} if key == "condition" else set()
        if called:
            trips: int | None = 1
            if opcode == "while":
                known = _TRIPS.search(one.rest)
                trips = int(known[1]) if known else None
            self.calls[self.where].append(_Call(one.name, opcode, called, trips))
        if (omission := self._find_omission(one, opcode)) is not None:
            self.omitted[self.where].append(omission)
        elif opcode in KINDS:
            self.collectives.append((self.where, self._parse_collective(number, one, opcode)))
        if self.where != self.entry and (opcode == "all-reduce" or self.where in self.bodies):
            self.bodies.setdefault(self.where, []).append(one)

    def _find_omission(self, one: _Instruction, opcode: str) -> Omission | None:
        """Return the omission if an instruction sends unknown bytes, or to unknown devices."""
        reason = "unsupported"
        self.has_ragged |= opcode == "ragged-all-to-all"
        nbytes: float | None = None
        target = _TARGET.search(one.rest) if opcode == "custom-call" else None
        what = f"{opcode} {target[1]}" if target else opcode
        if opcode in ("send", "recv", "infeed"):
            size = count_bytes(next(iter(split_tuple(one.type)), ""))
            nbytes = None if math.isnan(size) else size
        if opcode in ("infeed", "outfeed") or "is_host_transfer=true" in one.rest:
            reason = "to or from the host"
        elif opcode == "send" and find_attribute(one.rest, _PAIRS) is None:
            reason = "without receivers"
        elif opcode == "send":
            self.sent_channels.add(find_attribute(one.rest, "channel_id"))
            return None
        elif opcode == "recv":
            found = Omission(opcode, one.name, nbytes=nbytes, reason="without a sender")
            self.received.append((find_attribute(one.rest, "channel_id"), self.where, found))
            return None
        elif opcode == "ragged-all-to-all" and self.options.ragged_bytes is None:
            reason = "--ragged-bytes sets it"
        else:
            has_sign = _COMMUNICATES.search(what) or any(sign in one.rest for sign in _SIGNS)
            is_known = opcode in (*KINDS, *_RUN, *_COMPUTE.split())
            if is_known or (opcode == "custom-call" and not has_sign):
                return None
        return Omission(what, one.name, nbytes=nbytes, reason=reason)

    def _parse_collective(self, number: int, one: _Instruction, opcode: str) -> HloCollective:
        kind, shape = KINDS[opcode], one.type
        groups = self._find_groups(number, one, opcode in ("collective-permute", "send"))
        if not groups.size:
            return HloCollective(one.name, kind, 0.0, groups)
        groups = _expand_groups(groups, kind, one.rest, self.counts)
        if 1 < self.n_devices <= (last := int(groups.max())):
            expected = f"0 to {self.n_devices - 1}, the devices of the program"
            raise self.text.fault(f"device of {one.name} out of range", number, last, expected)
        if opcode == "send" or one.opcode.endswith("-start"):
            shape = _result_type(kind, shape)
        nbytes = count_bytes(shape)
        if opcode == "ragged-all-to-all":
            nbytes = real_number(self.options.ragged_bytes, "bytes of a ragged all-to-all", 0)
        if not nbytes <= _MAX_BYTES:
            expected = f"arrays such as f32[8], of at most {_MAX_BYTES:.0e} bytes"
            raise self.text.fault(f"bad type of {one.name}", number, shape[:60], expected)
        if opcode == "collective-broadcast":
            groups = np.stack([groups[:, :-1], groups[:, 1:]], axis=-1).reshape(-1, 2)
        # The result of an all-gather is the whole buffer, that of a reduce-scatter is one piece.
        if kind == "reduce_scatter":
            nbytes *= groups.shape[1]
        return HloCollective(one.name, kind, nbytes, groups)

    def _find_groups(self, number: int, one: _Instruction, is_message: bool) -> Ints:
        """Return the groups of a collective, or source and destination of each message."""
        key, expected = "source_target_pairs", "{{0,1},{1,0}}"
        words = find_attribute(one.rest, _PAIRS) or "none"
        if not is_message:
            expected = "groups of one size: {{0,1},{2,3}}, [2,2]<=[4] or mesh['a'=2,'b'=2] {'a'}"
            key = "replica_groups"
            # Without a list all devices take part.
            words = find_attribute(one.rest, key) or "{}"
        if (words, is_message) in self.groups:
            return self.groups[words, is_message]
        groups = parse_groups(words, 0 if is_message else self.n_devices)
        if is_message and words.replace(" ", "") == "{}":
            groups = np.zeros((0, 2), dtype=np.int64)
        if groups is None or (is_message and groups.shape[1] != 2):
            raise self.text.fault(f"bad {key} of {one.name}", number, words[:60], expected)
        columns = groups.T if is_message else groups.reshape(1, -1)
        if any(np.unique(column).size < column.size for column in columns):
            raise self.text.fault(f"duplicate device in {key} of {one.name}", number, words[:60])
        self.groups[words, is_message] = groups
        if sum(each.size for each in self.groups.values()) > _MAX_LISTED:
            expected = f"at most {_MAX_LISTED} devices in all groups together"
            raise self.text.fault("groups too large", number, words[:60], expected)
        return groups

    def build_step(self) -> HloStep:
        for channel, where, omission in self.received:
            if channel not in self.sent_channels:
                self.omitted[where].append(omission)
        self._find_missing_computations()
        self._mark_reduce_scatters()
        runs = self._count_runs()
        for where, omitted in self.omitted.items():
            for each in omitted if runs[where] else ():
                nbytes = None if each.nbytes is None else each.nbytes * runs[where]
                self.options.omitted.append(replace(each, nbytes=nbytes))
        merged: dict[Hashable, HloCollective] = {}
        for where, one in self.collectives:
            if runs[where]:
                key = one.kind, one.nbytes, one.groups.shape, one.groups.tobytes()
                first = merged.setdefault(key, replace(one, runs=0))
                merged[key] = replace(first, runs=first.runs + runs[where])
        collectives = tuple(merged.values())
        listed = max((int(each.groups.max(initial=-1)) + 1 for each in collectives), default=0)
        merged_omissions = merge_omissions(self.options.omitted)
        return HloStep(max(self.n_devices, listed), collectives, merged_omissions)

    def _find_missing_computations(self) -> None:
        calls = [(where, call) for where, several in self.calls.items() for call in several]
        for where, call in calls:
            for name in call.called:
                is_known = name in self.defined or name in self.conditions
                if not is_known and (call.opcode in _RUN[:-1] or _COMMUNICATES.search(name)):
                    reason = f"computation {name} is missing"
                    self.omitted[where].append(Omission(call.opcode, call.name, reason=reason))

    def _mark_reduce_scatters(self) -> None:
        """Replace the all-reduces of fusions that keep only slices of the result."""
        calls = (call for several in self.calls.values() for call in several)
        fused = {name for call in calls if call.opcode == "fusion" for name in call.called}
        for i, (where, one) in enumerate(self.collectives):
            if one.kind == "allreduce" and where in fused:
                is_named = where.startswith("all-reduce-scatter")
                if is_named or _keeps_only_slices(one, self.bodies.get(where, ())):
                    self.collectives[i] = where, replace(one, kind="reduce_scatter")

    def _sort_computations(self) -> list[str]:
        """Return the computations, each after those that it runs."""
        graph = {
            where: [name for call in self.calls.get(where, ()) for name in call.called]
            for where in self.defined
        }
        try:
            return [*TopologicalSorter(graph).static_order()]
        except CycleError as error:
            found = " and ".join(map(str, error.args[1][:2]))
            raise InputError("computations that run each other", found=found) from None

    def _count_runs(self) -> Counter[str]:
        """Return the runs of each computation in a step; record assumed trips and branches."""
        options, order = self.options, self._sort_computations()
        trips: Mapping[str, int] = {}
        if options.trips is not None:
            trips = options.trips if isinstance(options.trips, Mapping) else {"": options.trips}
        nbytes = dict.fromkeys(order, 0.0)
        for where, one in self.collectives:
            nbytes[where] += one.total_bytes
        sends = {where for where in order if nbytes[where]} | {*self.omitted}
        unsized = {w for w, each in self.omitted.items() if any(o.nbytes is None for o in each)}
        # Calls that send something: the caller, the computations that run, and how often.
        plan: list[tuple[str, _Call, list[str], int]] = []
        for where in order:
            for call in self.calls.get(where, ()):
                if sends.isdisjoint(call.called):
                    continue
                sends.add(where)
                names, n = call.called, call.trips
                if call.opcode == "conditional":
                    largest = max(range(len(names)), key=lambda k: nbytes[names[k]])
                    branch = options.branches.get(call.name, largest)
                    branch = whole_number(branch, f"branch of {call.name}", 0, len(names) - 1)
                    names = [names[branch]]
                if n is None:
                    n = trips.get(call.name, trips.get("", 1))
                    n = whole_number(n, f"trips of {call.name}", 1, _MAX_TRIPS)
                plan.append((where, call, names, n))
                nbytes[where] += n * sum(nbytes[name] for name in names)
                unsized |= set() if unsized.isdisjoint(names) else {where}
        inside = {name for _, call, _, _ in plan for name in call.called}
        runs = Counter([self.entry] if self.entry else [w for w in order if w not in inside])
        loops, conditionals = list[str](), list[str]()
        for caller, call, names, n in reversed(plan):
            if not runs[caller]:
                continue
            for name in names:
                runs[name] += runs[caller] * n
                if runs[name] > _MAX_RUNS:
                    expected = f"at most {_MAX_RUNS:.0e} runs in a step"
                    raise InputError(f"{name} runs too often", expected=expected)
            if call.trips is None:
                loops.append(call.name)
                if not {call.name, ""} & {*trips}:
                    known = unsized.isdisjoint(names)
                    size = runs[caller] * sum(nbytes[name] for name in names) if known else None
                    reason = "unknown trip count; --trips N sets it"
                    options.omit("loop", call.name, size, reason, effect="counted once")
            elif call.opcode == "conditional":
                conditionals.append(call.name)
                reason = f"{call.name}={call.called.index(names[0])} is counted; --branch chooses"
                for k, other in enumerate(call.called):
                    if other != names[0] and call.name not in options.branches:
                        size = None if other in unsized else runs[caller] * nbytes[other]
                        options.omit("branch", f"{call.name}={k} {other}", size, reason)
        # Trips without a name apply to all loops.
        named = {*trips} - ({""} if loops else set())
        _check_names(named, loops, "loop with unknown trip count", "--trips")
        _check_names(options.branches, conditionals, "conditional that sends", "--branch")
        if options.ragged_bytes is not None and not self.has_ragged:
            raise InputError("no ragged-all-to-all in the program", expected="no --ragged-bytes")
        return runs


def _check_names(given: Iterable[str], known: Sequence[str], what: str, option: str) -> None:
    for name in given:
        if name not in known:
            expected = closest(str(name), known) or f"no {option}"
            raise InputError(f"no {what}", found=name or None, expected=expected)


def _keeps_only_slices(one: HloCollective, body: Sequence[_Instruction]) -> bool:
    """Return whether a computation uses an all-reduce of n devices only by slices of an n-th."""
    whole: dict[str, int] = {}  # instructions with the whole result, and their elements
    is_sliced = False
    for each in body:
        operands = (part.split()[-1].lstrip("%") for part in split_tuple(f"({each.rest}"))
        inputs = [whole[operand] for operand in operands if operand in whole]
        size = sum(count for _, count in _list_arrays(each.type))
        is_slice = each.opcode in ("slice", "dynamic-slice")
        if inputs and is_slice and one.groups.shape[1] * size <= max(inputs):
            is_sliced = True
        elif inputs or each.name == one.name:
            # Other instructions may pass all elements on, or take an array from a tuple.
            keeps_all = size in (inputs or [size]) or each.opcode == "get-tuple-element"
            if each.is_root or not keeps_all:
                return False
            whole[each.name] = size
    return is_sliced


def _expand_groups(groups: Ints, kind: str, line: str, counts: dict[str, int]) -> Ints:
    """Return the groups of devices of a collective whose text may list replicas or partitions.

    Device number = replica * number of partitions + partition.
    """
    replicas, partitions = counts["replica_count"], counts["num_partitions"]
    has_channel = find_attribute(line, "channel_id") is not None
    lists_partitions = has_channel and kind in ("permute", "alltoall")
    is_expanded = groups.max() >= (partitions if lists_partitions else replicas)
    if partitions == 1 or "use_global_device_ids=true" in line or is_expanded:
        return groups
    replica, partition = partitions * np.arange(replicas), np.arange(partitions)
    if lists_partitions:
        return (groups + replica[:, None, None]).reshape(-1, groups.shape[1])
    if has_channel:
        # Groups of replicas, with all partitions of each.
        return (groups[:, :, None] * partitions + partition).reshape(len(groups), -1)
    return (groups * partitions + partition[:, None, None]).reshape(-1, groups.shape[1])


def _result_type(kind: str, shape: str) -> str:
    """Return the type of the result from that of a -start instruction, which has operands too."""
    items = split_tuple(shape)
    if kind == "permute":
        return items[0] if items else shape
    return shape if kind == "allreduce" or len(items) < 2 else items[1]


_ARRAY = re.compile(r"(?<![a-z0-9])([a-z][a-z0-9]*+)\[([<=0-9,\s]*)\]")
_BITS = re.compile(r"[a-z]+([0-9]+)")
_MAX_ELEMENTS = 10**30
_SPECIAL_BYTES = {"pred": 1.0, "token": 0.0, "opaque": 0.0}


def split_tuple(text: str) -> list[str]:
    """Return the items of a tuple type, or the type itself if it is not a tuple."""
    text = text.strip()
    if not text.startswith("("):
        return [text]
    depths = list(accumulate((letter in "([{") - (letter in ")]}") for letter in text))
    end = depths.index(0) if 0 in depths else len(text)
    commas = (at for at in range(end) if text[at] == "," and depths[at] == 1)
    parts = (text[low + 1 : high].strip() for low, high in pairwise([0, *commas, end]))
    return [part for part in parts if part]


def count_bytes(text: str) -> float:
    """Return the bytes of all arrays of a type, up to about 1e30; NaN without known arrays."""
    sizes = [count * _element_bytes(kind) for kind, count in _list_arrays(text)]
    return sum(sizes) if sizes else math.nan


def _list_arrays(text: str) -> Iterator[tuple[str, int]]:
    for kind, dims in _ARRAY.findall(text):
        count = 1
        # Cut longer numbers, which are not sizes, so that the product stays small.
        for digits in re.findall("[0-9]+", dims):
            count = min(count * int(digits[:20]), _MAX_ELEMENTS)
        yield kind, count


def _element_bytes(kind: str) -> float:
    # The first number in a name is the bits: f8e4m3fn has 8.
    bits = _BITS.match(kind)
    return _SPECIAL_BYTES.get(kind, int(bits[1][:4]) / 8 if bits else math.nan)


_IOTA = re.compile(r"\[([0-9,]+)\]\s*<=\s*\[([0-9,]+)\]\s*(?:T\(([0-9,]+)\))?")
_LISTED = re.compile(r"\{([0-9,\s]*)\}")
_BRACED = re.compile(r"\{(?:[^{}]|\{[^{}]*+\})*+\}|\w+")
# A list of devices may contain a permutation in parentheses.
_DEVICES = r"((?:[^()]|\([^()]*\))*+)"
_MESH = re.compile(
    r"@?mesh[\[<]([^\]>]*)[\]>]"
    rf"(?:\s*,\s*device_ids=\({_DEVICES}\)|\(devices={_DEVICES}\))?\s*\{{([^}}]*)\}}"
)
_MAXIMAL = re.compile(r"@?maximal_mesh[\[<]device_id=([0-9]+)[\]>]\s*\{\s*\}")
_AXIS = re.compile(r"['\"]?([^'\"=:]+)['\"]?\s*(?:=([0-9]+)|:\(([0-9]+)\)([0-9]+))?")
# Real programs have shorter lists of devices.
_MAX_DEVICES = 2**20


def find_attribute(line: str, key: str) -> str | None:
    """Return the value of ``key=`` in a line, up to the end of its brackets; None if absent."""
    match = re.search(rf"\b{key}\s*=\s*\"?", line)
    if match is None:
        return None
    rest = line[match.end() :]
    values = (form.match(rest) for form in (_IOTA, _MESH, _MAXIMAL, _BRACED))
    return next((value[0] for value in values if value), rest)


def parse_groups(text: str, n_devices: int) -> Ints | None:
    """Return the devices of each group, ``(n_groups, n)``; None if the text has another form.

    An empty list is one group of all devices.
    """
    text = text.strip()
    if mesh := _MESH.fullmatch(text):
        return _group_mesh_axes(mesh[1], mesh[2] or mesh[3] or "", mesh[4])
    if maximal := _MAXIMAL.fullmatch(text):
        return np.array([parse_numbers(maximal[1])])
    if iota := _IOTA.fullmatch(text):
        shape, order = parse_numbers(iota[1]), transpose_iota(iota[2], iota[3])
        fits = len(shape) == 2 and order is not None and math.prod(shape) == order.size
        return order.reshape(shape) if order is not None and fits else None
    if not re.fullmatch(r"\{[\s0-9,{}]*\}", text):
        return None
    inner = text[1:-1].strip()
    if not inner:
        return np.arange(n_devices)[None] if 0 < n_devices <= _MAX_DEVICES else None
    rows = [parse_numbers(each) for each in _LISTED.findall(inner)]
    if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        return None
    return np.array(rows, dtype=np.int64)


def transpose_iota(sizes: str, permutation: str | None) -> Ints | None:
    """Return device numbers of these sizes in C order, transposed; None if that is impossible."""
    dims = parse_numbers(sizes)
    order = parse_numbers(permutation) if permutation else list(range(len(dims)))
    if sorted(order) != list(range(len(dims))) or not 0 < math.prod(dims) <= _MAX_DEVICES:
        return None
    return np.arange(math.prod(dims)).reshape(dims).transpose(order).ravel()


def _group_mesh_axes(mesh: str, devices: str, axes: str) -> Ints | None:
    """Return groups along axes of a mesh, the last axis varying fastest; None for other text."""
    sizes: dict[str, int] = {}
    for part in filter(None, mesh.split(",")):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match[2] is None or match[1] in sizes:
            return None
        sizes[match[1]] = parse_numbers(match[2])[0]
    n = math.prod(sizes.values())
    if not sizes or not 0 < n <= _MAX_DEVICES or (order := _parse_device_order(devices, n)) is None:
        return None
    # 'b':(2)4 is the part of axis b from product 2 to 8 of its factors. Cut each axis at both ends.
    cuts = {name: {1, size} for name, size in sizes.items()}
    wanted: list[tuple[str, int, int]] = []
    for part in filter(None, axes.split(",")):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match[1] not in sizes or match[2] is not None:
            return None
        low, high = 1, sizes[match[1]]
        if match[3]:
            low = parse_numbers(match[3])[0]
            high = low * (parse_numbers(match[4])[0] or high)
        wanted.append((match[1], low, high))
        cuts[match[1]] |= {low, high}
    pieces = [(name, *pair) for name in sizes for pair in pairwise(sorted(cuts[name]))]
    pieces += [(name, 1, 1) for name, size in sizes.items() if size == 1]
    if any(low == 0 or high % low for _, low, high in pieces):
        return None
    inner = [place for each in wanted for place, piece in enumerate(pieces) if piece == each]
    if len(set(inner)) != len(wanted):
        return None
    outer = [place for place in range(len(pieces)) if place not in inner]
    shape = [high // low for _, low, high in pieces]
    width = math.prod(shape[place] for place in inner)
    return order.reshape(shape).transpose([*outer, *inner]).reshape(-1, width)


def _parse_device_order(devices: str, n: int) -> Ints | None:
    text = devices.replace(" ", "")
    if not text:
        return np.arange(n)
    permuted = re.fullmatch(r"(?:\[[0-9,]+\]<=)?\[([0-9,]+)\](?:T\(([0-9,]+)\))?", text)
    if permuted:
        order = transpose_iota(permuted[1], permuted[2])
        return order if order is not None and order.size == n else None
    listed = re.fullmatch(r"(?:\[[0-9,]+\])?([0-9,]+)", text)
    numbers = np.array(parse_numbers(listed[1]) if listed else [], dtype=np.int64)
    return numbers if sorted(numbers.tolist()) == list(range(n)) else None


def parse_numbers(text: str) -> list[int]:
    """Return the whole numbers of a text that are not part of a name."""
    numbers = re.findall(r"(?<![\w\"])[0-9]+(?![\w\"])", text)
    # Longer numbers are out of range for a device, and slow to convert.
    return [int(word) if len(word) < 10 else 10**9 for word in numbers]


_START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*+\n)*+HloModule\s")


def read(source: Source, options: GraphOptions) -> Workload:
    """Return a phase for each collective, with the bytes of all its runs in a step."""
    text = source.text
    step = parse_program(text, options)
    step.check(text.file)
    n = options.resolve_n_tasks(step.n_devices, source.path)
    n_edges = sum(estimate_edges(each.kind, each.groups) for each in step.collectives)
    check_collectives(source.path, n_edges)
    phases = [_build_phase(one, n, options).renamed(options.name) for one in step.collectives]
    return Workload(phases, name=options.name)


def _build_phase(one: HloCollective, n_tasks: int, options: GraphOptions) -> CommGraph:
    if one.kind == "permute":
        src, dst = one.groups.T
        sizes = np.full(src.size, one.nbytes * one.runs)
        return sum_edges(n_tasks, src, dst, sizes, np.full(src.size, float(one.runs)))
    name = choose_algorithm("", one.kind, one.groups.shape[1], one.nbytes)
    if one.kind in options.collectives:
        name = f"{one.kind}/{options.collectives[one.kind]}"
    return collective_total(name, one.groups, one.nbytes, n_tasks, one.runs)


DIALECT = Dialect(
    name="hlo",
    uses=("collectives", "trips", "branches", "ragged_bytes"),
    holds="graph",
    title="HLO text of a compiled XLA program",
    recognise=lambda source: bool(_START.match(source.start)),
    read=read,
    documentation="""
The output of `jax.jit(step).lower(...).compile().as_text()`, or a dump of XLA. Each all-reduce,
all-gather, reduce-scatter, all-to-all, collective-permute, collective-broadcast and send is a
phase, with its `replica_groups` or pairs. Collectives use rings, an all-to-all pairwise exchanges,
a broadcast a chain; `--collectives allreduce=rabenseifner` names another algorithm. An all-reduce
in a fusion that keeps only slices counts as a reduce-scatter. A loop counts once per trip, or once
if the program does not give its trip count (`--trips`). A conditional counts the branch that sends
most (`--branch`). A ragged all-to-all needs `--ragged-bytes`. The answer lists communication that
is counted once or not at all, such as host transfers and custom calls.
""",
    example="""HloModule step, num_partitions=4

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %sum = f32[8]{0} all-reduce(%p), replica_groups={{0,1},{2,3}}, to_apply=%add
}
""",
)
DIALECTS = (DIALECT,)


def read_hlo(
    path: str | os.PathLike[str],
    *,
    trips: int | Mapping[str, int] | None = None,
    branches: Mapping[str, int] | None = None,
    ragged_bytes: float | None = None,
) -> HloStep:
    """Read the collectives of an HLO text dump.

    Parameters
    ----------
    path : path-like
    trips, branches, ragged_bytes
        Values that the program does not give, as in `read_workload`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "step.txt"
    >>> _ = path.write_text(DIALECT.example)
    >>> [(each.kind, each.nbytes) for each in read_hlo(path).collectives]
    [('allreduce', 32.0)]
    """
    began = time.perf_counter()
    branches = {} if branches is None else branches
    options = GraphOptions(trips=trips, branches=branches, ragged_bytes=ragged_bytes)
    step = parse_program(read_text(path), options)
    step.check(os.fspath(path))
    note_read("HLO", path, began, collectives=len(step.collectives))
    return step


def parse_hlo(text: str) -> HloStep:
    """Return the collectives of HLO text."""
    return parse_program(as_text("HLO text", text.encode()), GraphOptions())
