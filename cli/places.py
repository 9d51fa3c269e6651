"""Nodes that are ours, tasks bound to theirs, slow and missing links: from files and words."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping, Torus


def only_nodes(torus: Torus, path: str) -> Torus:
    """Return the torus with the nodes alone that a file lists.

    A node is a number, or its coordinates; one a line, or in a CSV the column ``node``. A table of
    hosts, as of ``--hosts``, lists theirs.

    Raises
    ------
    InputError
        If the file cannot be read, or a line holds no node of the torus.
    """
    from toruscast.errors import InputError
    from toruscast.mapping.formats._source import read_text

    text = read_text(path)
    if "host" in re.split(r"[,\s]+", next(text.lines(), (0, ""))[1]):
        from toruscast.mapping.formats import read_hosts

        ours = set(read_hosts(path, torus).node.tolist())
        return torus.without(nodes=sorted(set(range(torus.n_nodes)) - ours))
    column: int | None = None
    nodes: dict[int, int] = {}
    for number, line in text.lines():
        fields = [field.strip() for field in line.split(",")]
        if "node" in fields and not nodes:
            column = fields.index("node")
            continue
        words = re.split(r"[,;\s]+", line.strip(" ()\t"))
        if column is not None:
            words = [fields[column]] if column < len(fields) else []
        node = _node(torus, words)
        if node is None:
            raise InputError(
                "bad node",
                file=path,
                line=number,
                found=line,
                expected=f"0 to {torus.n_nodes - 1} or {torus.ndim} coordinates, one node a line, "
                "or a CSV with a column node",
            )
        if node in nodes:
            raise InputError(
                "node stands twice", file=path, line=number, found=node, expected="each node once"
            )
        nodes[node] = number
    if not nodes:
        raise InputError("allocation without a node", file=path)
    return torus.without(nodes=sorted(set(range(torus.n_nodes)) - set(nodes)))


def _node(torus: Torus, words: Sequence[str]) -> int | None:
    if not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
        return None
    numbers = [int(word) for word in words]
    if len(numbers) == 1 and numbers[0] < torus.n_nodes:
        return numbers[0]
    sizes = torus.shape
    if len(numbers) != len(sizes) or any(c >= k for c, k in zip(numbers, sizes, strict=True)):
        return None
    return int(torus.node(numbers))


def change_links(torus: Torus, path: str) -> Torus:
    """Return the torus with links as slow as a CSV has them, and without those of bandwidth 0.

    Raises
    ------
    InputError
        If the file cannot be read, or a line names no link, or no bandwidth that it can have.
    """
    from toruscast.errors import InputError
    from toruscast.mapping.formats._source import read_text

    slow: dict[int, float] = {}
    missing: list[int] = []
    for number, line in read_text(path).lines():
        try:
            row = [field.strip() for field in next(csv.reader([line], skipinitialspace=True))]
        except csv.Error as error:
            raise InputError("bad line", file=path, line=number, found=error) from None
        if row == ["link", "bandwidth"] and not slow and not missing:
            continue
        try:
            if len(row) != 2:
                raise InputError("bad line", found=line, expected="link,bandwidth")
            link, bandwidth = torus.read_link(row[0]), _bandwidth(row[1])
            if link in slow or link in missing:
                raise InputError("link stands twice", found=row[0], expected="each link once")
            # Checked one by one, so that the line is known.
            torus.without(links=[link]) if bandwidth == 0 else torus.with_links({link: bandwidth})
        except InputError as error:
            raise error.replace(file=path, line=number) from None
        if bandwidth == 0:
            missing.append(link)
        else:
            slow[link] = bandwidth
    if not slow and not missing:
        raise InputError("no link in it", file=path, expected="lines link,bandwidth")
    return torus.with_links(slow).without(links=missing)


def _bandwidth(word: str) -> float:
    from toruscast.errors import InputError

    try:
        return float(word)
    except ValueError:
        raise InputError("bad bandwidth", found=word, expected="bytes per second") from None


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


def put(
    mappings: Sequence[TaskMapping], torus: Torus, fixed: Mapping[int, int]
) -> list[TaskMapping]:
    """Return mappings of our own making with tasks put where they are bound, each once."""
    from toruscast.mapping.allocation import Allocation

    if not fixed:
        return list(mappings)
    confined = [
        Allocation(torus, tasks_per_node=mapping.tasks_per_node, fixed=fixed).confine(mapping)
        for mapping in mappings
    ]
    different = {mapping.node.tobytes(): mapping for mapping in reversed(confined)}
    return list(different.values())[::-1]


def check_fixed(mappings: Sequence[TaskMapping], file: str, fixed: Mapping[int, int]) -> None:
    """Raise, naming the file, if a mapping has a bound task elsewhere."""
    from toruscast.errors import InputError

    for mapping in mappings:
        for task, node in fixed.items():
            if task >= mapping.n_tasks or mapping.node[task] != node:
                there = f"on node {mapping.node[task]}" if task < mapping.n_tasks else "nowhere"
                raise InputError(
                    f"mapping {mapping.name} has a bound task elsewhere",
                    file=file,
                    found=f"task {task} {there}",
                    expected=f"on node {node}, as --fix has it",
                )
