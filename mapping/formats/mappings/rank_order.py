"""MPICH_RANK_ORDER of Cray MPICH: which rank stands at each position.

Patterns: what `grid_order` and `pat_report` of Cray's perftools 7 write.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.wording import counted

from ...task_mapping import TaskMapping
from ..dialect import Dialect
from ..source import LINES, Source, Text, spans
from .build import MappingOptions, Target, mapping_of, rows_of, write_lines

SIGN = re.compile(r"\s*#.*(grid_order|MPICH_RANK|rank[ _-]?(re)?order)", re.I)
# What the writer says of the ranks that a host takes.
SHARE = re.compile(r"#.*\b([0-9]{1,6}) ranks a node")
ITEM = re.compile(r"(\d{1,9})(-(\d{1,9}))?")
MOST = 2**20
A_LINE = 16


def is_rank_order(source: Source) -> bool:
    """Whether numbers and ranges stand below a comment of Cray's tools, or a range among them."""
    if not source.lines or not all(_items(line) for _, line in source.lines[:8]):
        return False
    return _is_named(source) or has_sign(source) or _may_be_order(source)


def _may_be_order(source: Source) -> bool:
    """Whether numbers with commas between may be an order of ranks, and not the same as nodes.

    They fill the torus or have a comment, as an order has. What is its own inverse is the same
    mapping, read as ranks or as nodes.
    """
    lines = [line.strip().rstrip(",") for _, line in source.lines]
    if len(lines) == LINES or not all("," in line for line in lines):
        return False
    ranks = [int(item) for line in lines for item in line.split(",") if item.strip().isdecimal()]
    if sorted(ranks) != list(range(len(ranks))):
        return False
    fills = source.torus is None or len(ranks) >= source.torus.n_nodes
    if not fills and not any(line.lstrip().startswith("#") for line in source.raw_lines):
        return False
    return any(ranks[rank] != place for place, rank in enumerate(ranks))


def has_sign(source: Source) -> bool:
    """Whether a comment of Cray's tools, or a range of ranks, tells what it is."""
    ranged = any("-" in line for _, line in source.lines)
    return ranged or any(SIGN.match(line) for line in source.raw_lines)


def _is_named(source: Source) -> bool:
    return Path(source.path).name.upper().startswith("MPICH_RANK_ORDER")


def _items(line: str) -> list[str] | None:
    items = [item.strip() for item in line.strip().rstrip(",").split(",")]
    return items if all(ITEM.fullmatch(item) for item in items) else None


def _may_be_ranks(source: Source) -> bool:
    """Whether the first lines are ranks, none of them twice."""
    found = [_items(line) for _, line in source.lines[:8]]
    ranks = [rank for items in found if items for rank in items]
    return bool(found) and all(found) and len({*ranks}) == len(ranks)


def read(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping: the rank at each position, positions filling host after host."""
    text = source.text
    at, ranks = _ranks(text)
    table, (rank,) = rows_of(text, at, ranks)
    share = options.tasks_of_host(rank.size)
    said = next((m for line in source.raw_lines if (m := SHARE.match(line))), None)
    if said and options.capacity is None:
        share = max(share, int(said[1]))
    if rank.size > share * options.n_hosts:
        expected = f"at most {share * options.n_hosts}, {share} on each"
        raise text.fault("more positions than places", None, rank.size, expected)
    position = np.arange(rank.size)
    node, slot = options.on_host(position // share, position % share, share)
    return mapping_of(table, node, options, slot=slot, task=rank)


def _ranks(text: Text) -> tuple[list[int], list[int]]:
    """The line and the rank at each position."""
    at: list[int] = []
    ranks: list[int] = []
    for number, line in text.lines("#"):
        for first, last in spans(text, number, line, MOST - len(ranks)):
            ranks += range(first, last + 1)
        at += [number] * (len(ranks) - len(at))
    if not ranks:
        raise text.fault("file without data")
    return at, ranks


def packed(mapping: TaskMapping, target: Target) -> tuple[NDArray[np.int64], int]:
    """Return the rank at each position, and how many of them a host has.

    Raises
    ------
    InputError
        If a host has fewer tasks than the launcher gives it before it goes on.
    """
    host = target.positions(mapping)
    rank = np.lexsort((mapping.slot, host))
    share = int(np.bincount(host).max())
    full = np.arange(rank.size) // share
    wrong = np.flatnonzero(full != host[rank])
    if wrong.size:
        place = int(full[wrong[0]])
        what = f"node {place}" if target.hosts is None else f"host {target.hosts.names[place]}"
        raise InputError(
            "mapping that this launcher cannot lay out: it fills node after node",
            found=f"{what} with {counted(int((host == place).sum()), 'task')}",
            expected=f"{share} on each but the last; --hosts FILE lists the nodes that are yours, "
            "in the launcher's order",
        )
    return rank, share


def write(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the rank at each position."""
    rank, share = packed(mapping, target)
    lines = [",".join(map(str, rank[i : i + A_LINE].tolist())) for i in range(0, rank.size, A_LINE)]
    head = f"# MPICH_RANK_REORDER_METHOD=3, {share} ranks a node\n"
    write_lines(path, head + ",\n".join(lines) + "\n")


DIALECT = Dialect(
    name="rank-order",
    holds="mapping",
    title="MPICH_RANK_ORDER of Cray MPICH: the rank at each position",
    recognise=is_rank_order,
    read=read,
    write=write,
    weak=lambda source: not has_sign(source),
    near=_may_be_ranks,
    suffixes=("mpich_rank_order",),
    documentation="""
The rank at each position, with commas between and ranges such as `4-7`: the inverse of a mapping.
Positions fill node after node, `--tasks-per-node` each, in the order of `--hosts` or else in C
order. A comment of Cray's tools (`# grid_order ...`) or a range is the sign. The same numbers on
one line without either may be the node of each task as well: where they fill the torus, have
another comment or the file has that name, `--mapping-format` must say which, unless both are the
same mapping.
""",
    example="# grid_order -R -c 2,1 -g 2,4\n0,4,1,5,2,6,3,7\n",
    advice="MPICH_RANK_REORDER_METHOD=3, the file being MPICH_RANK_ORDER in the working folder",
)
