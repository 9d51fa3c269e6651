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
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from toruscast.files import check_claim, note_read
from toruscast.formats.dialect import Dialect
from toruscast.formats.graphs import GraphOptions
from toruscast.formats.rounds import algorithm_of
from toruscast.formats.source import Source, Text, as_text, read_text, warn_of
from toruscast.mapping.collectives.schedules import collective_total, edges_of
from toruscast.mapping.comm_graph import MAX_TASKS, CommGraph, Workload, sum_edges
from toruscast.text import counted

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
# Limits for a collective, for all groups together, and for a loop; real programs stay below.
_MAX_BYTES = 1e18
_MAX_LISTED = 2**24
_MAX_TIMES = 10**15


@dataclass(frozen=True, eq=False)
class HloCollective:
    """A collective of a program."""

    name: str  # of its instruction
    kind: str  # a value of `KINDS`
    nbytes: float  # of the whole buffer, as of `MeshTraffic`
    groups: NDArray[np.int64]  # (n_groups, n) devices; of a permute sender and receiver
    times: int = 1  # runs in a step: loops with a known number of trips count as many


@dataclass(frozen=True, eq=False)
class HloStep:
    """The collectives of a program in the order of its text, those alike put together."""

    n_devices: int
    collectives: tuple[HloCollective, ...]
    left_out: tuple[str, ...] = ()  # instructions that communicate and are not known here


def step_of(text: Text) -> HloStep:
    """Return the collectives of HLO text that was read."""
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
        # The instruction that started it has been counted.
        ends = operation.endswith(("-done", "-update"))
        for called in () if ends else _called(line):
            calls.append((where, called, int(trips[1]) if trips and operation == "while" else 1))
        plain = operation.removesuffix("-start")
        if plain in _LEFT_OUT:
            left_out.append(name)
        if plain in KINDS:
            one = _collective(text, number, line, (name, kind, operation), sizes, groups)
            found.append((where, one))
            if sum(each.size for each in groups.values() if each is not None) > _MAX_LISTED:
                expected = f"groups of at most {_MAX_LISTED} devices together"
                raise text.fault("groups too large", number, line.strip()[:60], expected)
    if not known and not found:
        first, line = text.first_line()
        raise text.fault("no HLO text", first, line[:60], "HloModule, or lines %x = f32[8] ...")
    often = _counts(calls, order, entry)
    collectives: dict[Hashable, HloCollective] = {}
    for where, each in found:
        if often[where] > _MAX_TIMES:
            expected = f"at most {_MAX_TIMES:.0e} runs in a step"
            raise text.fault(f"loops round {each.name} run too often", None, None, expected)
        if often[where]:
            key = each.kind, each.nbytes, each.groups.shape, each.groups.tobytes()
            alike = collectives.setdefault(key, replace(each, times=0))
            collectives[key] = replace(alike, times=alike.times + often[where])
    several = tuple(collectives.values())
    most = max((int(each.groups.max(initial=-1)) + 1 for each in several), default=0)
    n_devices = max(sizes["num_partitions"] * sizes["replica_count"], most)
    return HloStep(n_devices, several, tuple(left_out))


def _called(line: str) -> list[str]:
    """Computations that an instruction runs."""
    names = _CALLED.findall(line)
    for branches in _BRANCHES.findall(line):
        names += [each.strip().lstrip("%") for each in branches.split(",")]
    return names


def _collective(
    text: Text,
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
    # Without a list all devices take part; a permute always has one.
    said = attribute_of(line, key) or ("none" if kind == "permute" else "{}")
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
    size = bytes_of_type(shape)
    if size > _MAX_BYTES:
        expected = f"at most {_MAX_BYTES:.0e} bytes"
        raise text.fault(f"type of {name} too large", number, shape[:60], expected)
    # An all-gather gives the whole buffer, a reduce-scatter one piece of it.
    if kind == "reduce_scatter":
        size *= groups.shape[1]
    return HloCollective(name, kind, size, groups)


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
        return inside[0]
    if kind == "allreduce" or len(inside) < 2:
        return shape
    return inside[1]


def _counts(calls: list[tuple[str, str, int]], order: list[str], entry: str | None) -> Counter[str]:
    """How often a step runs each computation; once each without an entry computation."""
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
    """Return the bytes of a type, of all arrays in it together, up to about 1e30."""
    total = 0.0
    for kind, dims in _ARRAY.findall(text):
        count = 1
        for size in dims.split(","):
            # Longer numbers are no sizes; they must not overflow either.
            if digits := size.strip("<= "):
                count = min(count * int(digits[:20]), _MAX_ELEMENTS)
        total += count * _width(kind)
    return total


def _width(kind: str) -> float:
    """Bytes of an element: f8e4m3fn has 8 bits, c64 as many as it says."""
    if kind in _NO_DIGITS:
        return _NO_DIGITS[kind]
    match = _BITS.match(kind)
    return int(match[1][:4]) / 8 if match else 0.0


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
    match = re.search(rf"\b{key}\s*=\s*", line)
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
    if mesh := _MESH.fullmatch(text.strip()):
        return _along(mesh[1], mesh[2] or mesh[3] or "", mesh[4])
    if maximal := _MAXIMAL.fullmatch(text.strip()):
        return np.array([_numbers(maximal[1])])
    iota = _IOTA.fullmatch(text.strip())
    if iota is not None:
        shape, order = _numbers(iota[1]), counted_along(iota[2], iota[3])
        fits = len(shape) == 2 and order is not None and math.prod(shape) == order.size
        return order.reshape(shape) if order is not None and fits else None
    if not re.fullmatch(r"\{[\s0-9,{}]*\}", text.strip()):
        return None
    inner = text.strip()[1:-1].strip()
    if not inner:
        return np.arange(n_devices)[None] if 0 < n_devices <= _MAX_DEVICES else None
    rows = [_numbers(each) for each in _LISTED.findall(inner)]
    if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        return None
    return np.array(rows, dtype=np.int64)


def counted_along(sizes: str, turned: str | None) -> NDArray[np.int64] | None:
    """Return devices counted along axes, read in another order; None if it is no order."""
    dims = _numbers(sizes)
    order = _numbers(turned) if turned else list(range(len(dims)))
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
        sizes[match[1]] = _numbers(match[2])[0]
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
        first, size = (_numbers(match[3])[0], _numbers(match[4])[0]) if match[3] else (1, 0)
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
    numbers = np.array(_numbers(listed[1]) if listed else [], dtype=np.int64)
    return numbers if sorted(numbers.tolist()) == list(range(n)) else None


def _numbers(text: str) -> list[int]:
    # Blanks separate as commas do. Longer numbers are no devices; they must not overflow either.
    return [min(int(part[-19:]), 2**40) for part in text.replace(",", " ").split()]


START = re.compile(rb"\s*HloModule\s")


def is_hlo(source: Source) -> bool:
    """Whether the first line names a module."""
    return bool(START.match(source.start))


def read(source: Source, options: GraphOptions) -> Workload:
    """Return a phase for each collective, with the bytes of all its runs in a step."""
    text = source.text
    step = step_of(text)
    if not step.collectives:
        raise text.fault("HLO text without a collective", None, None, "such as all-reduce")
    n = max(step.n_devices, options.n_tasks or 0)
    if n > MAX_TASKS or options.n_tasks not in (None, n):
        most = options.n_tasks or MAX_TASKS
        raise text.fault("too many devices", None, step.n_devices, f"at most {most}")
    if step.left_out:
        warn_of(
            source.path,
            f"left out, as it is not known what they send: {', '.join(step.left_out[:8])}",
        )
    # Sender and receiver of an all-to-all take eight bytes; its amounts are alike.
    held = sum(8 * edges_of(one.kind, one.groups) for one in step.collectives)
    n_edges = counted(held // 8, "message")
    check_claim(source.path, held, f"{counted(len(step.collectives), 'collective')} of {n_edges}")
    phases = [_phase(one, n, options).renamed(options.name) for one in step.collectives]
    return Workload(phases, name=options.name)


def _phase(one: HloCollective, n_tasks: int, options: GraphOptions) -> CommGraph:
    if one.kind == "permute":
        src, dst = one.groups.T
        sizes = np.full(src.size, one.nbytes * one.times)
        counts = np.full(src.size, float(one.times))
        return sum_edges(n_tasks, src, dst, sizes, counts)
    name = algorithm_of("", one.kind, one.groups.shape[1], one.nbytes)
    if one.kind in options.collectives:
        name = f"{one.kind}/{options.collectives[one.kind]}"
    return collective_total(name, one.groups, one.nbytes, n_tasks, one.times)


DIALECT = Dialect(
    name="hlo",
    uses=("collectives",),
    holds="graph",
    title="HLO text of a compiled XLA program",
    recognise=is_hlo,
    read=read,
    documentation="""
What `jax.jit(step).lower(...).compile().as_text()` gives, or XLA dumps. Each all-reduce,
all-gather, reduce-scatter, all-to-all and collective-permute is a phase, among its
`replica_groups`; those of a loop with a known number of trips count as often. They are sent round
rings, an all-to-all in pairwise exchanges; `--collectives allreduce=rabenseifner` names another
algorithm. `toruscast mesh --hlo` lays the axes of such a program over a torus.
""",
    example="""HloModule step, num_partitions=4

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %sum = f32[8]{0} all-reduce(%p), replica_groups={{0,1},{2,3}}, to_apply=%add
}
""",
)


def read_hlo(path: str | os.PathLike[str]) -> HloStep:
    """Read the collectives of an HLO text dump."""
    began = time.perf_counter()
    step = step_of(read_text(path))
    note_read("HLO", path, began, collectives=len(step.collectives))
    return step


def parse_hlo(text: str) -> HloStep:
    """Return the collectives of HLO text."""
    return step_of(as_text("HLO text", text.encode()))


DIALECTS = (DIALECT,)
