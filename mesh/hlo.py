"""Read the collectives of a compiled program, and how often a step runs them, from HLO text.

A program is a list of computations. A computation is a list of instructions, and some of these run
other computations: loops, conditionals, calls and fusions. The patterns are based on programs that
JAX 0.4 to 0.10 compiled.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

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

from .hlo_groups import count_bytes, find_attribute, list_arrays, parse_groups, split_tuple

# Opcodes of the counted collectives, and the kind of each. A broadcast counts as permutes, because
# the buffer passes from device to device along its group, as in NCCL's ring.
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
# Signs of communication: attributes, and parts of names of other instructions or custom calls.
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
# Lines of the tables with source locations, which follow the line with the module name.
_TABLES = re.compile(r"\s*(?:FileNames|FunctionNames|FileLocations|StackFrames|[0-9]+ [\"{].*)?")
_HEAD = re.compile(r"\b(num_partitions|replica_count)\s*=\s*([0-9]{1,9})")
# Maximum bytes of a collective, devices in all groups, trips of a loop, and runs of a computation.
# Real programs stay far below these limits.
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
    opcode: str  # without -start
    is_start: bool
    arguments: str  # text after the opening parenthesis: operands, then attributes


class _Call(NamedTuple):
    name: str
    opcode: str
    callees: list[str]
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
        # Names of the current computation, and of the entry computation, which starts the program.
        self.computation, self.entry, self.is_open = "", "", False
        self.defined: dict[str, None] = {}
        self.conditions: set[str] = set()  # computations that end loops
        self.collectives: list[tuple[str, HloCollective]] = []
        self.calls: dict[str, list[_Call]] = defaultdict(list)
        self.omitted: dict[str, list[Omission]] = defaultdict(list)
        self.has_ragged = False
        # Receives count as omitted unless their channel has a send.
        self.received: list[tuple[str | None, str, Omission]] = []
        self.sent_channels: set[str | None] = set()
        # Instructions of each computation, from its first all-reduce to its end.
        self.bodies: dict[str, list[_Instruction]] = {}
        # Groups by their text. Programs repeat groups, and sharing their arrays saves memory.
        self.groups: dict[tuple[str, bool], Ints] = {}
        # The user's trip counts by the name of the loop; the empty name means all loops.
        trips: Any = {} if options.trips is None else options.trips
        self.trips = trips if isinstance(trips, Mapping) else {"": trips}

    @property
    def n_devices(self) -> int:
        return math.prod(self.counts.values())

    def add_line(self, number: int, line: str) -> None:
        """Parse a line: record its instruction, or that a computation starts or ends there."""
        if line.lstrip().startswith("HloModule"):
            if "" in self.defined:
                expected = "one HloModule, so a file for each program"
                raise self.text.fault("several programs", number, line[:60], expected)
            self.counts |= {key: int(value) for key, value in _HEAD.findall(line)}
            self.defined[""] = None
        elif match := _INSTRUCTION.match(line):
            root, name, array_type, opcode, arguments = match.groups()
            base, is_start = opcode.removesuffix("-start"), opcode.endswith("-start")
            # Asynchronous instructions are counted at their start.
            if not opcode.endswith("-done"):
                instruction = _Instruction(bool(root), name, array_type, base, is_start, arguments)
                self._add_instruction(number, instruction)
        elif line.endswith("{") and (match := re.match(r"\s*(ENTRY\s+)?%?([\w.-]+)", line)):
            self.computation, self.is_open = match[2], True
            self.defined[self.computation] = None
            self.entry = self.computation if match[1] else self.entry
        elif line.lstrip().startswith("}"):
            self.is_open = False
        elif _TABLES.fullmatch(line) or line.lstrip().startswith("//"):
            pass
        elif self.is_open:
            expected = "an instruction on one line, such as %x = f32[8] add(%a, %b)"
            raise self.text.fault("no instruction", number, line.strip()[:60], expected)
        else:
            self.options.omit("line", f"line {number}", reason="unsupported")

    def _add_instruction(self, number: int, instruction: _Instruction) -> None:
        """Record the calls of an instruction, and its collective or omission."""
        computation = self.computation
        opcode, arguments = instruction.opcode, instruction.arguments
        self.defined[computation] = None
        callees: list[str] = []
        for key, name, several in _CALLED.findall(arguments):
            callees += re.findall(r"[\w.-]+", name or several)
            self.conditions |= {name} if key == "condition" else set()
        if callees:
            trips: int | None = 1
            if opcode == "while":
                known = _TRIPS.search(arguments)
                trips = int(known[1]) if known else None
            self.calls[computation].append(_Call(instruction.name, opcode, callees, trips))
        if (omission := self._find_omission(instruction)) is not None:
            self.omitted[computation].append(omission)
        elif opcode in KINDS:
            self.collectives.append((computation, self._parse_collective(number, instruction)))
        if computation != self.entry and (opcode == "all-reduce" or computation in self.bodies):
            self.bodies.setdefault(computation, []).append(instruction)

    def _find_omission(self, instruction: _Instruction) -> Omission | None:
        """Return an omission if the bytes or the receivers of an instruction are unknown.

        Record the channels of sends and receives, so that `build_step` can match them.
        """
        name, opcode, arguments = instruction.name, instruction.opcode, instruction.arguments
        reason = "unsupported"
        self.has_ragged |= opcode == "ragged-all-to-all"
        nbytes: float | None = None
        target = _TARGET.search(arguments) if opcode == "custom-call" else None
        what = f"{opcode} {target[1]}" if target else opcode
        if opcode in ("send", "recv", "infeed"):
            size = count_bytes(next(iter(split_tuple(instruction.type)), ""))
            nbytes = None if math.isnan(size) else size
        if opcode in ("infeed", "outfeed") or "is_host_transfer=true" in arguments:
            reason = "to or from the host"
        elif opcode == "send" and find_attribute(arguments, _PAIRS) is None:
            reason = "without receivers"
        elif opcode == "send":
            self.sent_channels.add(find_attribute(arguments, "channel_id"))
            return None
        elif opcode == "recv":
            omission = Omission(opcode, name, nbytes=nbytes, reason="without a sender")
            channel = find_attribute(arguments, "channel_id")
            self.received.append((channel, self.computation, omission))
            return None
        elif opcode == "ragged-all-to-all" and self.options.ragged_bytes is None:
            reason = "--ragged-bytes sets it"
        else:
            has_sign = _COMMUNICATES.search(what) or any(sign in arguments for sign in _SIGNS)
            is_known = opcode in (*KINDS, *_RUN, *_COMPUTE.split())
            if is_known or (opcode == "custom-call" and not has_sign):
                return None
        return Omission(what, name, nbytes=nbytes, reason=reason)

    def _parse_collective(self, number: int, instruction: _Instruction) -> HloCollective:
        """Return the collective of an instruction, with its bytes and the devices of its groups."""
        _, name, array_type, opcode, is_start, arguments = instruction
        kind = KINDS[opcode]
        groups = self._parse_groups(number, instruction, opcode in ("collective-permute", "send"))
        if not groups.size:
            return HloCollective(name, kind, 0.0, groups)
        groups = _expand_groups(groups, kind, arguments, self.counts)
        if 1 < self.n_devices <= (last := int(groups.max())):
            expected = f"0 to {self.n_devices - 1}, the devices of the program"
            raise self.text.fault(f"device of {name} out of range", number, last, expected)
        if opcode == "send" or is_start:
            array_type = _select_result_type(kind, array_type)
        nbytes = count_bytes(array_type)
        if opcode == "ragged-all-to-all":
            nbytes = real_number(self.options.ragged_bytes, "bytes of a ragged all-to-all", 0)
        if not nbytes <= _MAX_BYTES:
            expected = f"arrays such as f32[8], of at most {_MAX_BYTES:.0e} bytes"
            raise self.text.fault(f"bad type of {name}", number, array_type[:60], expected)
        if opcode == "collective-broadcast":
            groups = np.stack([groups[:, :-1], groups[:, 1:]], axis=-1).reshape(-1, 2)
        # An all-gather returns the whole buffer, but a reduce-scatter returns one piece of it.
        if kind == "reduce_scatter":
            nbytes *= groups.shape[1]
        return HloCollective(name, kind, nbytes, groups)

    def _parse_groups(self, number: int, instruction: _Instruction, is_message: bool) -> Ints:
        """Return a collective's groups, or the source and destination of each message."""
        name, arguments = instruction.name, instruction.arguments
        key, expected = "source_target_pairs", "{{0,1},{1,0}}"
        value = find_attribute(arguments, _PAIRS) or "none"
        if not is_message:
            expected = "groups of one size: {{0,1},{2,3}}, [2,2]<=[4] or mesh['a'=2,'b'=2] {'a'}"
            key = "replica_groups"
            # A collective without a list of groups has one group of all devices.
            value = find_attribute(arguments, key) or "{}"
        if (value, is_message) in self.groups:
            return self.groups[value, is_message]
        groups = parse_groups(value, 0 if is_message else self.n_devices)
        if is_message and value.replace(" ", "") == "{}":
            groups = np.zeros((0, 2), dtype=np.int64)
        if groups is None or (is_message and groups.shape[1] != 2):
            raise self.text.fault(f"bad {key} of {name}", number, value[:60], expected)
        columns = groups.T if is_message else groups.reshape(1, -1)
        if any(np.unique(column).size < column.size for column in columns):
            raise self.text.fault(f"duplicate device in {key} of {name}", number, value[:60])
        self.groups[value, is_message] = groups
        if sum(each.size for each in self.groups.values()) > _MAX_LISTED:
            expected = f"at most {_MAX_LISTED} devices in all groups together"
            raise self.text.fault("groups too large", number, value[:60], expected)
        return groups

    def build_step(self) -> HloStep:
        """Return the collectives, with the runs of each in a step; add omissions to the options."""
        for channel, computation, omission in self.received:
            if channel not in self.sent_channels:
                self.omitted[computation].append(omission)
        self._find_missing_computations()
        self._mark_reduce_scatters()
        runs = self._count_runs()
        for computation, omissions in self.omitted.items():
            for each in omissions if runs[computation] else ():
                nbytes = None if each.nbytes is None else each.nbytes * runs[computation]
                self.options.omitted.append(replace(each, nbytes=nbytes))
        merged: dict[Hashable, HloCollective] = {}
        for computation, one in self.collectives:
            if runs[computation]:
                key = one.kind, one.nbytes, one.groups.shape, one.groups.tobytes()
                first = merged.setdefault(key, replace(one, runs=0))
                merged[key] = replace(first, runs=first.runs + runs[computation])
        collectives = tuple(merged.values())
        n_listed = max((int(each.groups.max(initial=-1)) + 1 for each in collectives), default=0)
        omitted = merge_omissions(self.options.omitted)
        return HloStep(max(self.n_devices, n_listed), collectives, omitted)

    def _find_missing_computations(self) -> None:
        """Add an omission for each call of a missing computation that may communicate."""
        for computation, calls in self.calls.items():
            for call in calls:
                for name in call.callees:
                    is_known = name in self.defined or name in self.conditions
                    if not is_known and (call.opcode in _RUN[:-1] or _COMMUNICATES.search(name)):
                        reason = f"computation {name} is missing"
                        omission = Omission(call.opcode, call.name, reason=reason)
                        self.omitted[computation].append(omission)

    def _mark_reduce_scatters(self) -> None:
        """Make an all-reduce a reduce-scatter if its fusion keeps only slices of the result."""
        calls = (call for several in self.calls.values() for call in several)
        fused = {name for call in calls if call.opcode == "fusion" for name in call.callees}
        for i, (computation, one) in enumerate(self.collectives):
            if one.kind == "allreduce" and computation in fused:
                is_named = computation.startswith("all-reduce-scatter")
                if is_named or _keeps_only_slices(one, self.bodies.get(computation, ())):
                    self.collectives[i] = computation, replace(one, kind="reduce_scatter")

    def _sort_computations(self) -> list[str]:
        """Return the computations, sorted such that each one follows those that it runs."""
        graph = {
            computation: [name for call in self.calls.get(computation, ()) for name in call.callees]
            for computation in self.defined
        }
        try:
            return [*TopologicalSorter(graph).static_order()]
        except CycleError as error:
            found = " and ".join(map(str, error.args[1][:2]))
            raise InputError("computations that run each other", found=found) from None

    def _count_runs(self) -> Counter[str]:
        """Count the runs of each computation in a step; record assumed trips and branches.

        The bytes of a computation include those of all computations that it runs.
        """
        options, order = self.options, self._sort_computations()
        nbytes = dict.fromkeys(order, 0.0)
        for computation, one in self.collectives:
            nbytes[computation] += one.total_bytes
        sends = {computation for computation in order if nbytes[computation]} | {*self.omitted}
        unsized = {key for key, some in self.omitted.items() if any(x.nbytes is None for x in some)}
        # Calls that send something: caller, call, computations that run, and number of runs.
        counted: list[tuple[str, _Call, list[str], int]] = []
        for caller in order:
            for call in self.calls.get(caller, ()):
                if not sends.isdisjoint(call.callees):
                    sends.add(caller)
                    callees, trips = self._choose_callees(call, nbytes)
                    counted.append((caller, call, callees, trips))
                    nbytes[caller] += trips * sum(nbytes[name] for name in callees)
                    unsized |= set() if unsized.isdisjoint(callees) else {caller}
        called = {name for _, call, _, _ in counted for name in call.callees}
        runs = Counter([self.entry] if self.entry else self.defined.keys() - called)
        loops, conditionals = list[str](), list[str]()
        for caller, call, callees, trips in reversed(counted):
            if not runs[caller]:
                continue
            for name in callees:
                runs[name] += runs[caller] * trips
                if runs[name] > _MAX_RUNS:
                    expected = f"at most {_MAX_RUNS:.0e} runs in a step"
                    raise InputError(f"{name} runs too often", expected=expected)
            if call.trips is None:
                loops.append(call.name)
                if self.trips.keys().isdisjoint((call.name, "")):
                    size = None
                    if unsized.isdisjoint(callees):
                        size = runs[caller] * sum(nbytes[name] for name in callees)
                    reason = "unknown trip count; --trips N sets it"
                    options.omit("loop", call.name, size, reason, effect="counted once")
            elif call.opcode == "conditional":
                conditionals.append(call.name)
                branch = call.callees.index(callees[0])
                reason = f"{call.name}={branch} is counted; --branch chooses"
                for k, other in enumerate(call.callees):
                    if other != callees[0] and call.name not in options.branches:
                        size = None if other in unsized else runs[caller] * nbytes[other]
                        options.omit("branch", f"{call.name}={k} {other}", size, reason)
        # A trip count without a name applies to all loops.
        named = {*self.trips} - ({""} if loops else set())
        _check_names(named, loops, "loop with unknown trip count", "--trips")
        _check_names(options.branches, conditionals, "conditional that sends", "--branch")
        if options.ragged_bytes is not None and not self.has_ragged:
            raise InputError("no ragged-all-to-all in the program", expected="no --ragged-bytes")
        return runs

    def _choose_callees(self, call: _Call, nbytes: Mapping[str, float]) -> tuple[list[str], int]:
        """Return the computations that a call runs, and how often.

        A conditional runs the branch that sends the most bytes, unless the user chooses another.
        """
        callees, trips = call.callees, call.trips
        if call.opcode == "conditional":
            largest = max(range(len(callees)), key=lambda k: nbytes[callees[k]])
            branch = self.options.branches.get(call.name, largest)
            branch = whole_number(branch, f"branch of {call.name}", 0, len(callees) - 1)
            callees = [callees[branch]]
        if trips is None:
            trips = self.trips.get(call.name, self.trips.get("", 1))
            trips = whole_number(trips, f"trips of {call.name}", 1, _MAX_TRIPS)
        return callees, trips


def _check_names(names: Iterable[str], known: Sequence[str], what: str, option: str) -> None:
    """Raise `InputError` if an option names something that the program does not have."""
    for name in names:
        if name not in known:
            expected = closest(str(name), known) or f"no {option}"
            raise InputError(f"no {what}", found=name or None, expected=expected)


def _keeps_only_slices(allreduce: HloCollective, body: Sequence[_Instruction]) -> bool:
    """Return whether a computation uses only slices of the result of an all-reduce.

    If the all-reduce is over n devices, a slice may be at most an n-th of the result.
    """
    n_elements: dict[str, int] = {}  # of instructions that have the whole result
    is_sliced = False
    for instruction in body:
        arguments = split_tuple(f"({instruction.arguments}")
        operands = (argument.split()[-1].lstrip("%") for argument in arguments)
        inputs = [n_elements[operand] for operand in operands if operand in n_elements]
        size = sum(count for _, count in list_arrays(instruction.type))
        is_slice = instruction.opcode in ("slice", "dynamic-slice")
        if inputs and is_slice and allreduce.groups.shape[1] * size <= max(inputs):
            is_sliced = True
        elif inputs or instruction.name == allreduce.name:
            # Any other instruction may only pass on all elements, or take an array from a tuple.
            keeps_all = size in (inputs or [size]) or instruction.opcode == "get-tuple-element"
            if instruction.is_root or not keeps_all:
                return False
            n_elements[instruction.name] = size
    return is_sliced


def _expand_groups(groups: Ints, kind: str, line: str, counts: dict[str, int]) -> Ints:
    """Convert the groups of a collective from replicas or partitions to device numbers.

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
        # The groups list replicas. Each replica is expanded to all its partitions.
        return (groups[:, :, None] * partitions + partition).reshape(len(groups), -1)
    return (groups * partitions + partition[:, None, None]).reshape(-1, groups.shape[1])


def _select_result_type(kind: str, array_type: str) -> str:
    """Return the type of the result, without the operands in the type of a -start instruction."""
    items = split_tuple(array_type)
    if kind == "permute":
        return items[0] if items else array_type
    return array_type if kind == "allreduce" or len(items) < 2 else items[1]


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


def _build_phase(collective: HloCollective, n_tasks: int, options: GraphOptions) -> CommGraph:
    """Return the messages of a collective with its chosen algorithm, for all its runs in a step."""
    if collective.kind == "permute":
        src, dst = collective.groups.T
        sizes = np.full(src.size, collective.nbytes * collective.runs)
        return sum_edges(n_tasks, src, dst, sizes, np.full(src.size, float(collective.runs)))
    name = choose_algorithm("", collective.kind, collective.groups.shape[1], collective.nbytes)
    if collective.kind in options.collectives:
        name = f"{collective.kind}/{options.collectives[collective.kind]}"
    return collective_total(name, collective.groups, collective.nbytes, n_tasks, collective.runs)


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
phase, with its `replica_groups` or pairs. Most collectives use rings, an all-to-all uses pairwise
exchanges, and a broadcast uses a chain; `--collectives allreduce=rabenseifner` names another
algorithm. An all-reduce in a fusion that keeps only slices counts as a reduce-scatter. A loop
counts once per trip, or once if the program does not give its trip count (`--trips`). A conditional
counts the branch that sends most (`--branch`). A ragged all-to-all needs `--ragged-bytes`. The
answer lists communication that is counted once or not at all, such as host transfers and custom
calls.
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
