"""The host of each task: hostfiles of Open MPI, MPICH and Slurm."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from toruscast.errors import InputError

from ...task_mapping import TaskMapping
from .._source import Text
from ..dialect import Dialect
from ..source import Source
from .build import Whole, mapping_of, on_hosts, rows_of
from .host_names import NAME, RANGED, compress, expand, split_list
from .options import MappingOptions, Target
from .rows import write_lines

LINE = re.compile(
    r"([A-Za-z_][\w.-]*)(?:[:*](\d{1,9}))?((?:\s+(?:slots|max[_-]slots|cpu)\s*=\s*\d{1,9})*)"
)
SLOTS = re.compile(r"(?:slots|cpu)\s*=\s*(\d+)")
MOST = 2**20


def is_hostfile(source: Source) -> bool:
    """Whether each line is the name of a host, maybe with its slots."""
    lines = [line for _, line in source.lines[:8]]
    matches = [LINE.fullmatch(line.strip()) for line in lines]
    if not lines or not all(matches):
        return False
    # Bare words may be anything: several of them, or digits or slots beside, are hosts.
    return any(re.search(r"\d", line) for line in lines)


def is_slurm(source: Source) -> bool:
    """Whether hosts stand with commas between, or ranges in brackets."""
    lines = [line for _, line in source.lines[:8]]
    words = [word for line in lines for word in split_list(line)]
    if not words or not all(RANGED.fullmatch(word) for word in words):
        return False
    several = any(len(split_list(line)) > 1 for line in lines)
    named = all(re.search(r"\d", word) for word in words)
    return any("[" in word for word in words) or (several and named)


def _may_be_hosts(source: Source) -> bool:
    words = [word for _, line in source.lines[:8] for word in split_list(line)]
    return bool(words) and all(RANGED.fullmatch(word) for word in words)


def read_hostfile(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of a host a line; ``slots=2`` stands for two tasks in a row."""
    text = source.text
    at: list[int] = []
    names: list[str] = []
    for number, line in text.lines("#"):
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise text.fault("bad line of a hostfile", number, line, "HOST or HOST slots=N")
        slots = SLOTS.search(match[3])
        count = int(match[2] or (slots[1] if slots else 1))
        if len(names) + count > MOST:
            raise text.fault("too many slots", number, line, f"at most {MOST}")
        names += [match[1]] * count
        at += [number] * count
    return _placed(text, at, names, options)


def read_slurm(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of a list of hosts with ranges: a host for each task."""
    text = source.text
    at: list[int] = []
    names: list[str] = []
    for number, line in text.lines("#"):
        for word in split_list(line):
            try:
                hosts = expand(word)
            except InputError as error:
                raise text.fault(error.message, number, error.found, error.expected) from None
            names += hosts
            at += [number] * len(hosts)
    return _placed(text, at, names, options)


def _placed(text: Text, at: list[int], names: list[str], options: MappingOptions) -> TaskMapping:
    if not names:
        raise text.fault("file without data")
    nodes, places = on_hosts(text, at, names, options)
    table, (node, place) = rows_of(text, at, nodes, places)
    return mapping_of(table, node, options, slot=slots_of(place, options))


def slots_of(place: Whole, options: MappingOptions) -> Whole | None:
    """Slots of tasks on hosts in rank order; None where each node has one host, so by rank."""
    if options.hosts is None or options.hosts.most == 1:
        return None
    by = np.argsort(place, kind="stable")
    ordered = place[by]
    rank = np.empty_like(place)
    rank[by] = np.arange(place.size) - np.searchsorted(ordered, ordered)
    share = max(int(rank.max(initial=0)) + 1, options.tasks_of_host(0))
    slots: Whole = rank + share * options.hosts.index[place]
    return slots


def write_hostfile(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the host of each task, a line each."""
    write_lines(path, "".join(f"{name}\n" for name in target.named.of_tasks(mapping)))


def write_slurm(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the host of each task on one line, with ranges."""
    names = target.named.of_tasks(mapping)
    for name in names:
        if not NAME.fullmatch(name):
            raise InputError("name of a host that Slurm does not take", found=name)
    write_lines(path, compress(names) + "\n")


DIALECTS = (
    Dialect(
        name="hostfile",
        holds="mapping",
        title="the host of each task, a line each (Open MPI seq, MPICH, SLURM_HOSTFILE)",
        recognise=is_hostfile,
        read=read_hostfile,
        write=write_hostfile,
        on_hosts=True,
        suffixes=(".hosts", ".hostfile"),
        documentation="""
A host on each line, for one task after the other; `slots=2`, `:2` or `*2` behind it stands for two
tasks. `--hosts FILE` gives the node of each host.
""",
        example="c00 slots=1\nc01 slots=1\nc03 slots=1\nc02 slots=1\n",
        advice="mpirun --map-by seq --hostfile {file}, or SLURM_HOSTFILE={file} srun "
        "--distribution=arbitrary",
    ),
    Dialect(
        name="slurm",
        holds="mapping",
        title="the host of each task as a Slurm list with ranges",
        recognise=is_slurm,
        read=read_slurm,
        write=write_slurm,
        on_hosts=True,
        near=_may_be_hosts,
        suffixes=(".nodelist",),
        documentation="""
Hosts with commas between and ranges in brackets, such as `node[007-009],node002`, one for each
task. `--hosts FILE` gives the node of each host.
""",
        example="nodes[021-022],nodes[019,024]\n",
        advice="srun --distribution=arbitrary --nodelist=$(cat {file})",
    ),
)
