"""HLO text: the collectives of a compiled program, a phase each, and how often a step runs them.

Groups are listed, an iota that is reshaped and transposed, or axes of a mesh. The grammar of meshes
is that of XLA's printers (mesh_and_axis.cc, replica_group.cc, 2025 and 2026): ``mesh['a'=2,'b'=4],
device_ids=([4,2]T(1,0)) {'a','b':(1)2}``, before that ``@mesh<a=2,b=4>(...)``. Patterns were
programs that JAX 0.4 to 0.10 compiled.
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
from numpy.typing import NDArray

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
from toruscast.validation import check_type, real_number, whole_number

# Instructions that are counted, and the kind of traffic of each. A broadcast hands the buffer on
# through its group, as NCCL's ring does.
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
# Instructions that do nothing but run computations, which are read in their turn.
_RUN = ("while", "conditional", "call", "async", "fusion")
# Opcodes that only compute (xla/hlo/ir/hlo_opcode.h); all others are counted or listed.
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
# Attributes of custom calls that communicate, and names of those that do.
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
# Where instructions come from: tables behind the name of the module.
_TABLES = re.compile(r"\s*(?:FileNames|FunctionNames|FileLocations|StackFrames|[0-9]+ [\"{].*)?")
_HEAD = re.compile(r"\b(num_partitions|replica_count)\s*=\s*([0-9]{1,9})")
# Limits for a collective, for all groups together, and for a loop; real programs stay below.
_MAX_BYTES = 1e18
_MAX_LISTED = 2**24
_MAX_TRIPS, _MAX_TIMES = 10**12, 10**15


@dataclass(frozen=True, eq=False)
class HloCollective:
    """A collective of a program."""

    name: str  # of its instruction
    kind: str  # a value of `KINDS`
    nbytes: float  # of the whole buffer, as of `MeshTraffic`
    groups: NDArray[np.int64]  # (n_groups, n) devices; of a permute sender and receiver
    times: int = 1  # runs in a step: those of a loop count as many

    @property
    def sent(self) -> float:
        """Bytes that all devices together send in a run, round rings."""
        n_groups, n = map(int, self.groups.shape)
        return self.nbytes * n_groups * (n - 1) * (2 if self.kind == "allreduce" else 1)


@dataclass(frozen=True, eq=False)
class HloStep:
    """The collectives of a program in the order of its text, those alike put together."""

    n_devices: int
    collectives: tuple[HloCollective, ...]
    omitted: tuple[Omission, ...] = ()  # what the program has besides

    def check(self, file: str | None = None) -> None:
        """Raise `InputError` if nothing is counted; it says what the program has instead."""
        if not self.collectives:
            instead = f". {describe_omissions(self.omitted)}".rstrip(". ")
            raise InputError(f"no collective to count{instead}", file=file)


class _Instruction(NamedTuple):
    is_root: bool
    name: str
    type: str
    opcode: str
    rest: str  # of the line, from the first operand on


class _Call(NamedTuple):
    """An instruction that runs computations."""

    name: str
    opcode: str
    called: list[str]
    times: int | None = 1  # None for a loop with an unknown number of turns


def step_of(text: TextFile, options: GraphOptions) -> HloStep:
    """Return the collectives of HLO text; ``options`` record what is omitted."""
    expected = 'a dictionary such as {"conditional.1": 0}'
    with text.locate_errors(None):
        check_type(options.branches, "branches", Mapping, expected)
    program = _Program(text, options)
    for number, raw in enumerate(text.raw_lines(), start=1):
        program.add(number, _COMMENT.sub("", raw).rstrip())
    if not program.defined:
        first, line = text.first_line()
        raise text.fault("no HLO text", first, line[:60], "HloModule, or lines %x = f32[8] ...")
    with text.locate_errors(None):
        return program.step()


class _Program:
    """The computations of HLO text: what each sends, runs and omits."""

    def __init__(self, text: TextFile, options: GraphOptions) -> None:
        self.text, self.options = text, options
        self.sizes = dict.fromkeys(("num_partitions", "replica_count"), 1)
        self.where, self.entry = "", ""
        self.is_open = False
        # All computations, and those that decide whether a loop goes on.
        self.defined: dict[str, None] = {}
        self.conditions: set[str] = set()
        self.found: list[tuple[str, HloCollective]] = []
        self.calls: dict[str, list[_Call]] = defaultdict(list)
        self.omitted: dict[str, list[Omission]] = defaultdict(list)
        self.has_ragged = False
        # Receiving ends of messages, and the channels that have a sender.
        self.received: list[tuple[str | None, str, Omission]] = []
        self.channels: set[str | None] = set()
        # Instructions of a computation from its first all-reduce on.
        self.bodies: dict[str, list[_Instruction]] = {}
        # Programs repeat the same groups; together they must not claim more than a program has.
        self.groups: dict[tuple[str, int], NDArray[np.int64] | None] = {}

    def add(self, number: int, line: str) -> None:
        """Read a line."""
        if line.lstrip().startswith("HloModule"):
            if "" in self.defined:
                expected = "one HloModule, so a file for each program"
                raise self.text.fault("several programs", number, line[:60], expected)
            self.sizes |= {key: int(value) for key, value in _HEAD.findall(line)}
            self.defined[""] = None
        elif match := _INSTRUCTION.match(line):
            one = _Instruction(bool(match[1]), *match.groups()[1:])
            # What ends an instruction was counted where it starts.
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
            self.options.omit("line", f"line {number}", reason="not known here")

    def _add_instruction(self, number: int, one: _Instruction, opcode: str) -> None:
        self.defined[self.where] = None
        called: list[str] = []
        for key, name, several in _CALLED.findall(one.rest):
            words = (word.strip().lstrip("%") for word in (name or several).split(","))
            called += filter(None, words)
            self.conditions |= {name} if key == "condition" else set()
        if called:
            is_loop = opcode == "while"
            trips = _TRIPS.search(one.rest) if is_loop else None
            times = int(trips[1]) if trips else None if is_loop else 1
            self.calls[self.where].append(_Call(one.name, opcode, called, times))
        if (omission := self._uncounted(one, opcode)) is not None:
            self.omitted[self.where].append(omission)
        elif opcode in KINDS:
            self.found.append((self.where, self._collective(number, one, opcode)))
        if self.where != self.entry and (opcode == "all-reduce" or self.where in self.bodies):
            self.bodies.setdefault(self.where, []).append(one)

    def _uncounted(self, one: _Instruction, opcode: str) -> Omission | None:
        """Return an instruction that communicates if it is not known what it sends."""
        reason = "not known here"
        self.has_ragged |= opcode == "ragged-all-to-all"
        size: float | None = None
        target = _TARGET.search(one.rest) if opcode == "custom-call" else None
        what = f"{opcode} {target[1]}" if target else opcode
        if opcode in ("send", "recv", "infeed"):
            nbytes = bytes_of_type(next(iter(tuple_items(one.type)), ""))
            size = None if math.isnan(nbytes) else nbytes
        if opcode in ("infeed", "outfeed") or "is_host_transfer=true" in one.rest:
            reason = "to or from the host"
        elif opcode == "send" and attribute_of(one.rest, _PAIRS) is None:
            reason = "its receivers are not stated"
        elif opcode == "send":
            self.channels.add(attribute_of(one.rest, "channel_id"))
            return None
        elif opcode == "recv":
            found = Omission(opcode, one.name, nbytes=size, reason="its sender is not there")
            self.received.append((attribute_of(one.rest, "channel_id"), self.where, found))
            return None
        elif opcode == "ragged-all-to-all" and self.options.ragged_bytes is None:
            reason = "--ragged-bytes states it"
        else:
            is_known = opcode in (*KINDS, *_RUN, *_COMPUTE.split())
            is_sign = _COMMUNICATES.search(what) or any(sign in one.rest for sign in _SIGNS)
            if is_known or (opcode == "custom-call" and not is_sign):
                return None
        return Omission(what, one.name, nbytes=size, reason=reason)

    def _collective(self, number: int, one: _Instruction, opcode: str) -> HloCollective:
        kind, name, is_message = KINDS[opcode], one.name, opcode in ("collective-permute", "send")
        key = _PAIRS if is_message else "replica_groups"
        # Without a list all devices take part; a permute always has one.
        said = attribute_of(one.rest, key) or ("none" if is_message else "{}")
        n_devices = 0 if is_message else math.prod(self.sizes.values())
        if (said, n_devices) not in self.groups:
            found = self.groups[said, n_devices] = read_groups(said, n_devices)
            if sum(each.size for each in self.groups.values() if each is not None) > _MAX_LISTED:
                expected = f"groups of at most {_MAX_LISTED} devices together"
                raise self.text.fault("groups too large", number, said[:60], expected)
            columns = () if found is None else found.T if is_message else (found.ravel(),)
            if any(np.unique(column).size < column.size for column in columns):
                message = (
                    f"device stands twice in the {'pairs' if is_message else 'groups'} of {name}"
                )
                raise self.text.fault(message, number, said[:60], "each once")
        groups = self.groups[said, n_devices]
        if is_message and said.replace(" ", "") == "{}":
            return HloCollective(name, kind, 0.0, np.zeros((0, 2), dtype=np.int64))
        if groups is None or (is_message and groups.shape[1] != 2):
            expected = "groups of one size: {{0,1},{2,3}}, [2,2]<=[4] or mesh['a'=2,'b'=2] {'a'}"
            if is_message:
                key, expected = "source_target_pairs", "{{0,1},{1,0}}"
            raise self.text.fault(f"bad {key} of {name}", number, said[:60], expected)
        groups = _devices(groups, kind, one.rest, self.sizes)
        if 1 < math.prod(self.sizes.values()) <= (last := int(groups.max(initial=0))):
            expected = f"0 to {math.prod(self.sizes.values()) - 1}, the devices of the program"
            raise self.text.fault(f"device of {name} out of range", number, last, expected)
        shape = one.type
        if opcode == "send" or one.opcode.endswith("-start"):
            shape = _of_start(kind, shape)
        size = bytes_of_type(shape)
        if opcode == "ragged-all-to-all":
            size = real_number(self.options.ragged_bytes, "bytes of a ragged all-to-all", 0)
        if not size <= _MAX_BYTES:
            expected = f"arrays such as f32[8], of at most {_MAX_BYTES:.0e} bytes"
            raise self.text.fault(f"bad type of {name}", number, shape[:60], expected)
        if opcode == "collective-broadcast":
            groups = np.stack([groups[:, :-1], groups[:, 1:]], axis=-1).reshape(-1, 2)
        # An all-gather gives the whole buffer, a reduce-scatter one piece of it.
        if kind == "reduce_scatter":
            size *= groups.shape[1]
        return HloCollective(name, kind, size, groups)

    def step(self) -> HloStep:
        """Return what a step sends: every computation as often as it runs."""
        self._complete()
        often = self._runs()
        for where, omitted in self.omitted.items():
            for each in omitted if often[where] else ():
                size = None if each.nbytes is None else each.nbytes * often[where]
                self.options.omitted.append(replace(each, nbytes=size))
        alike: dict[Hashable, HloCollective] = {}
        for where, one in self.found:
            if often[where]:
                key = one.kind, one.nbytes, one.groups.shape, one.groups.tobytes()
                first = alike.setdefault(key, replace(one, times=0))
                alike[key] = replace(first, times=first.times + often[where])
        several = tuple(alike.values())
        most = max((int(each.groups.max(initial=-1)) + 1 for each in several), default=0)
        n_devices = max(math.prod(self.sizes.values()), most)
        return HloStep(n_devices, several, merge_omissions(self.options.omitted))

    def _complete(self) -> None:
        """Find what only the whole text shows: other ends of messages, and what fusions keep."""
        for channel, where, each in self.received:
            if channel not in self.channels:
                self.omitted[where].append(each)
        fused = set()
        for where, calls in self.calls.items():
            for call in calls:
                fused |= {*call.called} if call.opcode == "fusion" else set()
                for name in call.called:
                    if name in self.defined or name in self.conditions:
                        continue
                    if call.opcode in _RUN[:-1] or _COMMUNICATES.search(name):
                        missing = Omission(
                            call.opcode, call.name, reason=f"computation {name} is missing"
                        )
                        self.omitted[where].append(missing)
        for place, (where, one) in enumerate(self.found):
            if one.kind == "allreduce" and where in fused:
                is_named = where.startswith("all-reduce-scatter")
                if is_named or _keeps_pieces(one, self.bodies.get(where, ())):
                    self.found[place] = where, replace(one, kind="reduce_scatter")

    def _order(self) -> list[str]:
        """Return the computations, each behind those that it runs."""
        graph = {
            where: [name for call in self.calls.get(where, ()) for name in call.called]
            for where in self.defined
        }
        try:
            return [*TopologicalSorter(graph).static_order()]
        except CycleError as error:
            found = " and ".join(map(str, error.args[1][:2]))
            raise InputError("computations that run each other", found=found) from None

    def _runs(self) -> Counter[str]:
        """Return how often a step runs each computation; record the open loops and branches."""
        options, order = self.options, self._order()
        trips: Mapping[str, int] = {}
        if options.trips is not None:
            trips = options.trips if isinstance(options.trips, Mapping) else {"": options.trips}
        sent = dict.fromkeys(order, 0.0)
        for where, one in self.found:
            sent[where] += one.sent
        sends = {where for where in order if sent[where]} | {*self.omitted}
        unsized = {w for w, each in self.omitted.items() if any(o.nbytes is None for o in each)}
        plan: list[tuple[str, _Call, list[str], int]] = []
        for where in order:
            for call in self.calls.get(where, ()):
                if sends.isdisjoint(call.called):
                    continue
                sends.add(where)
                names, times = call.called, call.times
                if call.opcode == "conditional":
                    most = max(range(len(names)), key=lambda k: sent[names[k]])
                    branch = options.branches.get(call.name, most)
                    what = f"branch of {call.name}"
                    names = [names[whole_number(branch, what, 0, len(names) - 1)]]
                if times is None:
                    times = trips.get(call.name, trips.get("", 1))
                    times = whole_number(times, f"trips of {call.name}", 1, _MAX_TRIPS)
                plan.append((where, call, names, times))
                sent[where] += times * sum(sent[name] for name in names)
                unsized |= set() if unsized.isdisjoint(names) else {where}
        inside = {name for _, call, _, _ in plan for name in call.called}
        often = Counter([self.entry] if self.entry else [w for w in order if w not in inside])
        loops: list[str] = []
        choices: list[str] = []
        for caller, call, names, times in reversed(plan):
            if not often[caller]:
                continue
            for name in names:
                often[name] += often[caller] * times
                if often[name] > _MAX_TIMES:
                    expected = f"at most {_MAX_TIMES:.0e} runs in a step"
                    raise InputError(f"{name} runs too often", expected=expected)

            def size_of(names: Sequence[str], often: int = often[caller]) -> float | None:
                known = unsized.isdisjoint(names)
                return often * sum(sent[name] for name in names) if known else None

            if call.times is None:
                loops.append(call.name)
                if not {call.name, ""} & {*trips}:
                    reason = "number of turns unknown; --trips N states it"
                    options.omit("loop", call.name, size_of(names), reason, effect="counted once")
            elif call.opcode == "conditional":
                choices.append(call.name)
                reason = f"{call.name}={call.called.index(names[0])} is counted; --branch chooses"
                for k, other in enumerate(call.called):
                    if other != names[0] and call.name not in options.branches:
                        where = f"{call.name}={k} {other}"
                        options.omit("branch", where, size_of([other]), reason)
        # Without a name the turns are those of all loops.
        named = {*trips} - ({""} if loops else set())
        _check_names(named, loops, "loop with an unknown number of turns", "--trips")
        _check_names(options.branches, choices, "conditional that sends", "--branch")
        if options.ragged_bytes is not None and not self.has_ragged:
            raise InputError("no ragged-all-to-all in the program", expected="no --ragged-bytes")
        return often


def _check_names(given: Iterable[str], known: Sequence[str], what: str, option: str) -> None:
    """Raise `InputError` if the caller names a loop or conditional that is not there."""
    for name in given:
        if name not in known:
            expected = closest(str(name), known) or f"no {option}"
            raise InputError(f"no {what}", found=name or None, expected=expected)


def _keeps_pieces(one: HloCollective, body: Sequence[_Instruction]) -> bool:
    """Whether nothing but slices of an n-th of what an all-reduce gives leaves a computation."""
    held: dict[str, int] = {}
    sliced = False
    for each in body:
        operands = (part.split()[-1].lstrip("%") for part in tuple_items(f"({each.rest}"))
        inputs = [held[operand] for operand in operands if operand in held]
        size = sum(count for _, count in _arrays(each.type))
        n, is_slice = one.groups.shape[1], each.opcode in ("slice", "dynamic-slice")
        if inputs and is_slice and n * size <= max(inputs):
            sliced = True
        elif inputs or each.name == one.name:
            # Others hand all elements on, or those of an array of a tuple.
            is_whole = size in (inputs or [size]) or each.opcode == "get-tuple-element"
            if each.is_root or not is_whole:
                return False
            held[each.name] = size
    return sliced


def _devices(
    groups: NDArray[np.int64], kind: str, line: str, sizes: dict[str, int]
) -> NDArray[np.int64]:
    """Devices of groups, which may list replicas or partitions instead."""
    replicas, partitions = sizes["replica_count"], sizes["num_partitions"]
    channel = attribute_of(line, "channel_id") is not None
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
    if groups.max(initial=0) >= (partitions if channel else replicas):
        return groups
    if channel:
        each = groups[None] + (partitions * np.arange(replicas))[:, None, None]
    else:
        each = groups[None] * partitions + np.arange(partitions)[:, None, None]
    return each.reshape(-1, groups.shape[1])


def _of_start(kind: str, shape: str) -> str:
    """The type of the result of a -start instruction, whose own type holds the operands too."""
    inside = tuple_items(shape)
    if kind == "permute":
        return inside[0] if inside else shape
    if kind == "allreduce" or len(inside) < 2:
        return shape
    return inside[1]


_ARRAY = re.compile(r"(?<![a-z0-9])([a-z][a-z0-9]*+)\[([<=0-9,\s]*)\]")
_BITS = re.compile(r"[a-z]+([0-9]+)")
_MAX_ELEMENTS = 10**30
_NO_DIGITS = {"pred": 1.0, "token": 0.0, "opaque": 0.0}


def tuple_items(text: str) -> list[str]:
    """Return the items of a tuple's type, or the type itself if it is no tuple."""
    text = text.strip()
    if not text.startswith("("):
        return [text]
    depths = list(accumulate((letter in "([{") - (letter in ")]}") for letter in text))
    end = depths.index(0) if 0 in depths else len(text)
    commas = (at for at in range(end) if text[at] == "," and depths[at] == 1)
    parts = (text[low + 1 : high].strip() for low, high in pairwise([0, *commas, end]))
    return [part for part in parts if part]


def bytes_of_type(text: str) -> float:
    """Return the bytes of all arrays of a type, up to about 1e30; NaN if its arrays are unknown."""
    sizes = [count * _width(kind) for kind, count in _arrays(text)]
    return sum(sizes) if sizes else math.nan


def _arrays(text: str) -> Iterator[tuple[str, int]]:
    """Give element type and number of elements of each array of a type."""
    for kind, dims in _ARRAY.findall(text):
        count = 1
        # Longer numbers are no sizes; they must not overflow either.
        for digits in re.findall("[0-9]+", dims):
            count = min(count * int(digits[:20]), _MAX_ELEMENTS)
        yield kind, count


def _width(kind: str) -> float:
    """Bytes of an element: f8e4m3fn has 8 bits, c64 as many as it says."""
    if kind in _NO_DIGITS:
        return _NO_DIGITS[kind]
    match = _BITS.match(kind)
    return int(match[1][:4]) / 8 if match else math.nan


_IOTA = re.compile(r"\[([0-9,]+)\]\s*<=\s*\[([0-9,]+)\]\s*(?:T\(([0-9,]+)\))?")
_LISTED = re.compile(r"\{([0-9,\s]*)\}")
# A list of devices may hold a permutation, which has brackets of its own.
_DEVICES = r"((?:[^()]|\([^()]*\))*+)"
_MESH = re.compile(
    r"@?mesh[\[<]([^\]>]*)[\]>]"
    rf"(?:\s*,\s*device_ids=\({_DEVICES}\)|\(devices={_DEVICES}\))?\s*\{{([^}}]*)\}}"
)
_MAXIMAL = re.compile(r"@?maximal_mesh[\[<]device_id=([0-9]+)[\]>]\s*\{\s*\}")
_AXIS = re.compile(r"['\"]?([^'\"=:]+)['\"]?\s*(?:=([0-9]+)|:\(([0-9]+)\)([0-9]+))?")
# Longest list of devices; those of real programs are shorter.
_MAX_DEVICES = 2**20


def attribute_of(line: str, key: str) -> str | None:
    """Return the value of ``key=`` in a line, up to the end of its brackets; None without a key."""
    match = re.search(rf"\b{key}\s*=\s*\"?", line)
    if match is None:
        return None
    rest = line[match.end() :]
    for form in (_IOTA, _MESH, _MAXIMAL):
        if known := form.match(rest):
            return known[0]
    depth = 0
    for place, letter in enumerate(rest):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return rest[: place + 1]
    return rest


def read_groups(text: str, n_devices: int) -> NDArray[np.int64] | None:
    """Return the devices of each group, ``(groups, n)``; None if it is of no known form.

    An empty list is one group of all devices.
    """
    text = text.strip()
    if mesh := _MESH.fullmatch(text):
        return _along(mesh[1], mesh[2] or mesh[3] or "", mesh[4])
    if maximal := _MAXIMAL.fullmatch(text):
        return np.array([whole_numbers(maximal[1])])
    if iota := _IOTA.fullmatch(text):
        shape, order = whole_numbers(iota[1]), counted_along(iota[2], iota[3])
        fits = len(shape) == 2 and order is not None and math.prod(shape) == order.size
        return order.reshape(shape) if order is not None and fits else None
    if not re.fullmatch(r"\{[\s0-9,{}]*\}", text):
        return None
    inner = text[1:-1].strip()
    if not inner:
        return np.arange(n_devices)[None] if 0 < n_devices <= _MAX_DEVICES else None
    rows = [whole_numbers(each) for each in _LISTED.findall(inner)]
    if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        return None
    return np.array(rows, dtype=np.int64)


def counted_along(sizes: str, turned: str | None) -> NDArray[np.int64] | None:
    """Return devices counted along axes, read in another order; None if it is no order."""
    dims = whole_numbers(sizes)
    order = whole_numbers(turned) if turned else list(range(len(dims)))
    if sorted(order) != list(range(len(dims))) or not 0 < math.prod(dims) <= _MAX_DEVICES:
        return None
    return np.arange(math.prod(dims)).reshape(dims).transpose(order).ravel()


def _along(mesh: str, devices: str, axes: str) -> NDArray[np.int64] | None:
    """Groups along axes of a mesh: those that differ in these axes only, the last one fastest."""
    sizes: dict[str, int] = {}
    for part in filter(None, mesh.split(",")):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match[2] is None or match[1] in sizes:
            return None
        sizes[match[1]] = whole_numbers(match[2])[0]
    n = math.prod(sizes.values())
    if not sizes or not 0 < n <= _MAX_DEVICES or (order := _order(devices, n)) is None:
        return None
    # Where each axis is cut, in elements before the cut; a part of an axis lies between two cuts.
    cuts = {name: {1, size} for name, size in sizes.items()}
    wanted: list[tuple[str, int, int]] = []
    for part in filter(None, axes.split(",")):
        match = _AXIS.fullmatch(part.strip())
        if match is None or match[1] not in sizes or match[2] is not None:
            return None
        first, size = (
            (whole_numbers(match[3])[0], whole_numbers(match[4])[0]) if match[3] else (1, 0)
        )
        wanted.append((match[1], first, first * (size or sizes[match[1]])))
        cuts[match[1]] |= {*wanted[-1][1:]}
    pieces = [(name, *pair) for name in sizes for pair in pairwise(sorted(cuts[name]))]
    pieces += [(name, 1, 1) for name, size in sizes.items() if size == 1]
    if any(low == 0 or high % low for _, low, high in pieces):
        return None
    chosen = [place for each in wanted for place, piece in enumerate(pieces) if piece == each]
    if len(set(chosen)) != len(wanted):
        return None
    rest = [place for place in range(len(pieces)) if place not in chosen]
    width = math.prod(pieces[place][2] // pieces[place][1] for place in chosen)
    shape = [high // low for _, low, high in pieces]
    return order.reshape(shape).transpose([*rest, *chosen]).reshape(-1, width)


def _order(devices: str, n: int) -> NDArray[np.int64] | None:
    """The devices of a mesh in C order: counted up, permuted or listed."""
    text = devices.replace(" ", "")
    if not text:
        return np.arange(n)
    permuted = re.fullmatch(r"(?:\[[0-9,]+\]<=)?\[([0-9,]+)\](?:T\(([0-9,]+)\))?", text)
    if permuted:
        order = counted_along(permuted[1], permuted[2])
        return order if order is not None and order.size == n else None
    listed = re.fullmatch(r"(?:\[[0-9,]+\])?([0-9,]+)", text)
    numbers = np.array(whole_numbers(listed[1]) if listed else [], dtype=np.int64)
    return numbers if sorted(numbers.tolist()) == list(range(n)) else None


def whole_numbers(text: str) -> list[int]:
    """Return the numbers of a text that are no part of a name."""
    numbers = re.findall(r"(?<![\w\"])[0-9]+(?![\w\"])", text)
    # A number with more digits than any device's is out of range; reading it would be slow.
    return [int(word) if len(word) < 10 else 10**9 for word in numbers]


START = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*+\n)*+HloModule\s")


def is_hlo(source: Source) -> bool:
    """Whether the first line but comments names a module."""
    return bool(START.match(source.start))


def read(source: Source, options: GraphOptions) -> Workload:
    """Return a phase for each collective, with the bytes of all its runs in a step."""
    text = source.text
    step = step_of(text, options)
    step.check(text.file)
    n = options.resolve_n_tasks(step.n_devices, source.path)
    check_collectives(
        source.path, sum(estimate_edges(each.kind, each.groups) for each in step.collectives)
    )
    phases = [_phase(one, n, options).renamed(options.name) for one in step.collectives]
    return Workload(phases, name=options.name)


def _phase(one: HloCollective, n_tasks: int, options: GraphOptions) -> CommGraph:
    if one.kind == "permute":
        src, dst = one.groups.T
        sizes = np.full(src.size, one.nbytes * one.times)
        counts = np.full(src.size, float(one.times))
        return sum_edges(n_tasks, src, dst, sizes, counts)
    name = choose_algorithm("", one.kind, one.groups.shape[1], one.nbytes)
    if one.kind in options.collectives:
        name = f"{one.kind}/{options.collectives[one.kind]}"
    return collective_total(name, one.groups, one.nbytes, n_tasks, one.times)


DIALECT = Dialect(
    name="hlo",
    uses=("collectives", "trips", "branches", "ragged_bytes"),
    holds="graph",
    title="HLO text of a compiled XLA program",
    recognise=is_hlo,
    read=read,
    documentation="""
What `jax.jit(step).lower(...).compile().as_text()` gives, or XLA dumps. Each all-reduce,
all-gather, reduce-scatter, all-to-all, collective-permute, collective-broadcast and send is a
phase, among its `replica_groups` or pairs. They are sent round rings, an all-to-all in pairwise
exchanges, a broadcast along a chain; `--collectives allreduce=rabenseifner` names another
algorithm. An all-reduce in a fusion that keeps slices of it is a reduce-scatter. Loops count as
often as they turn, or once where the program does not say so (`--trips`); of a conditional the
branch that sends most counts (`--branch`); a ragged all-to-all counts with `--ragged-bytes`. The
answer lists what is counted once or not at all, such as transfers of the host and custom calls.
`toruscast mesh --hlo` lays the axes of such a program over a torus.
""",
    example="""HloModule step, num_partitions=4

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %sum = f32[8]{0} all-reduce(%p), replica_groups={{0,1},{2,3}}, to_apply=%add
}
""",
)


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
        What the program does not say, as of `read_workload`.

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
    options = GraphOptions(
        trips=trips, branches={} if branches is None else branches, ragged_bytes=ragged_bytes
    )
    step = step_of(read_text(path), options)
    step.check(os.fspath(path))
    note_read("HLO", path, began, collectives=len(step.collectives))
    return step


def parse_hlo(text: str) -> HloStep:
    """Return the collectives of HLO text."""
    return step_of(as_text("HLO text", text.encode()), GraphOptions())


DIALECTS = (DIALECT,)
