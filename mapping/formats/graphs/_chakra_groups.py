"""Which ranks take part in the collectives of a Chakra trace."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toruscast.errors import InputError

from ..source import Source
from .options import GraphOptions

# Kind and size of each collective, by rank, by the name of its process group.
Groups = dict[str, dict[int, Counter[tuple[str, float]]]]
# Names of the group of all ranks.
EVERYONE = ("", "0", "default_pg", "None")
LISTS = "comm_group.json"


def group_name(source: Source, node: Mapping[str, Any]) -> str:
    """Return the process group of a collective; "" for all ranks.

    Raises
    ------
    InputError
        If it goes along some dimensions of the simulator's network only.
    """
    dims = node.get("involved_dim")
    if isinstance(dims, dict):
        dims = dims.get("values")
    if isinstance(dims, list) and not all(dims):
        raise InputError(
            "Chakra collective along some dimensions only, which ASTRA-sim's network file tells",
            file=source.path,
            found=f"node {node.get('id', '?')}: involved_dim {dims}",
            expected="process groups (pg_name)",
        )
    name = node.get("pg_name", node.get("comm_group"))
    return "" if name is None or str(name) in EVERYONE else str(name)


def members(
    source: Source,
    files: Mapping[int, Source],
    seen: Groups,
    n_tasks: int,
    options: GraphOptions,
) -> list[tuple[list[int], Counter[tuple[str, float]]]]:
    """Return the ranks of each group and its collectives.

    Raises
    ------
    InputError
        If nothing tells who takes part, or the ranks of a group differ in their collectives.
    """
    alone = len(files) < 2
    lists = _lists(source) if set(seen) - {""} else {}
    found = []
    for name, by_rank in seen.items():
        if alone and not name and (n_tasks < 2 or options.n_tasks is None):
            raise InputError(
                "Chakra trace of one rank: nothing tells how many take part in its collectives",
                file=source.path,
                expected="the traces of all ranks (folder or NAME of NAME.0.et, NAME.1.et, ...), "
                "or the number of tasks (n_tasks=, --tasks)",
            )
        ranks = [*range(n_tasks)] if not name else lists.get(name, sorted(by_rank))
        if alone and name and name not in lists:
            raise InputError(
                "Chakra trace of one rank: nothing tells who is in its process groups",
                file=source.path,
                found=f"pg_name {name}",
                expected=f"the traces of all ranks, or {LISTS} beside it",
            )
        if not ranks or ranks[-1] >= n_tasks:
            raise InputError(
                "rank of a process group out of range",
                file=source.path,
                found=f"{ranks[-1:]} of pg_name {name}",
                expected=f"0 to {n_tasks - 1}",
            )
        shared = next(iter(by_rank.values()))
        for rank in ranks if not alone else by_rank:
            if by_rank.get(rank) != shared:
                where = f"rank {rank}" + (f", pg_name {name}" if name else "")
                raise InputError("collectives of the ranks differ", file=source.path, found=where)
        found.append((ranks, shared))
    return found


def _lists(source: Source) -> dict[str, list[int]]:
    """The ranks of groups that a file beside the traces lists."""
    place = Path(source.path)
    file = (place if place.is_dir() else place.parent) / LISTS
    if not file.is_file():
        return {}
    listed = Source(file)
    try:
        content = json.loads(listed.text.data)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise listed.text.fault("damaged JSON", line, None, '{"1": [0, 2]}') from None
    lists = content.items() if isinstance(content, dict) else ()
    good = {
        str(name): sorted(set(ranks))
        for name, ranks in lists
        if isinstance(ranks, list) and all(type(rank) is int and rank >= 0 for rank in ranks)
    }
    if not isinstance(content, dict) or len(good) < len(content):
        raise listed.text.fault("bad groups", 1, str(content)[:60], '{"1": [0, 2]}')
    return good
