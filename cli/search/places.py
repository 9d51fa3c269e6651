"""Nodes that are ours, and tasks bound to theirs, from files and words."""

from __future__ import annotations

import re
from collections.abc import Sequence


def read_allocation(path: str, n_nodes: int) -> list[int]:
    """Return the nodes that a file lists: a number a line, or the column ``node`` of a CSV.

    Raises
    ------
    InputError
        If the file cannot be read, or a line holds no node of the torus.
    """
    from toruscast.errors import InputError
    from toruscast.mapping.formats._source import read_text

    text = read_text(path)
    column = 0
    nodes: list[int] = []
    for number, line in text.lines():
        fields = [field.strip() for field in line.split(",")]
        if "node" in fields and not nodes:
            column = fields.index("node")
            continue
        word = fields[column] if column < len(fields) else ""
        if not re.fullmatch("[0-9]{1,9}", word) or int(word) >= n_nodes:
            raise InputError(
                "bad node",
                file=path,
                line=number,
                found=word or line,
                expected=f"0 to {n_nodes - 1}, one a line, or a CSV with a column node",
            )
        nodes.append(int(word))
    if not nodes:
        raise InputError("allocation without a node", file=path)
    return nodes


def read_fixed(words: Sequence[str]) -> dict[int, int]:
    """Return the node of each task in words such as ``0=17``.

    Raises
    ------
    InputError
        If a word is not such, or a task stands twice.
    """
    from toruscast.errors import InputError

    fixed: dict[int, int] = {}
    for word in words:
        match = re.fullmatch("([0-9]{1,9})=([0-9]{1,9})", word.strip())
        if match is None:
            raise InputError("bad --fix", found=word, expected="TASK=NODE, such as 0=17")
        task, node = map(int, match.groups())
        if fixed.setdefault(task, node) != node:
            raise InputError(
                "task bound to two nodes", found=word, expected=f"{task}={fixed[task]}"
            )
    return fixed
