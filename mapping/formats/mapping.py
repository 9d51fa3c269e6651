"""Task mappings in and out, the format recognised."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from toruscast.errors import InputError
from toruscast.validation import whole_number

from ..task_mapping import MAX_SLOTS, TaskMapping, as_mapping, as_mappings, check_torus
from ..torus import Torus
from ._atomic import atomic_path
from ._source import at_file, check_path, read_text
from .mappings.table import read_many, read_one
from .registry import writer_of

SUFFIXES = (".map", ".txt", ".csv")


def read_mapping(
    path: str | os.PathLike[str], torus: Torus, *, tasks_per_node: int | None = None
) -> TaskMapping:
    r"""Read one task mapping. With D the dimensions of the torus, the first line tells the format.

    - A line of D + 1 numbers for each task: a Blue Gene/Q map file, coordinates and slot
      (``A B C D E T``); the order of the lines is that of the tasks.
    - One number on each line: the node of each task. All nodes on one line do as well, unless there
      are D + 1 of them.
    - Names of columns: task, node and maybe slot, in any order; the tasks too. Without the names
      such columns are refused, unless they are as many as coordinates and a slot; on a torus of one
      dimension also where they may be either. Named node and slot, the lines are in the order of
      the tasks.
    - A title, then a line of names ending in ``process_id(s)``: MapLib's, on each line D
      coordinates, the number of tasks there and the tasks. The title is the mapping's name.

    Commas or blanks separate; ``#`` starts a comment; the file may be gzip.

    Parameters
    ----------
    path : path-like
        The file. Its name without the suffix names the mapping.
    torus : Torus
        The host.
    tasks_per_node : int, optional
        Capacity of a node; as many as the file needs if not given.

    Raises
    ------
    InputError
        If the file cannot be read, or a line is not valid, leaves the torus, takes a place that is
        taken, or overfills a node.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "turned.map"
    >>> _ = path.write_text("0 1 0\n0 0 0\n0 1 1\n")
    >>> read_mapping(path, Torus((2, 2))).node
    array([1, 0, 1], dtype=int32)
    """
    check_path(path)
    _check_host(torus, tasks_per_node)
    text = read_text(path)
    mappings = read_many(text, torus, tasks_per_node)
    if mappings is None:
        return read_one(text, torus, tasks_per_node)
    if len(mappings) > 1:
        raise text.fault("several mappings in the file", None, len(mappings), 1)
    return mappings[0]


def read_mappings(
    path: str | os.PathLike[str], torus: Torus, *, tasks_per_node: int | None = None
) -> list[TaskMapping]:
    r"""Read many task mappings.

    Parameters
    ----------
    path : path-like
        A folder of files for `read_mapping` (``.map``, ``.txt``, ``.csv``, also ``.gz``; others are
        passed over), read in the order of their names; or one such file; or a file of lines
        ``name,node of task 0,node of task 1,...``.
    torus, tasks_per_node
        As for `read_mapping`.

    Raises
    ------
    InputError
        If a file is not valid, there is no mapping, or two share a name or differ in their tasks.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "all.csv"
    >>> _ = path.write_text("identity,0,1,2,3\nreversed,3,2,1,0\n")
    >>> [mapping.name for mapping in read_mappings(path, Torus((2, 2)))]
    ['identity', 'reversed']
    """
    check_path(path)
    _check_host(torus, tasks_per_node)
    with at_file(path):
        folder = Path(path)
        names = sorted(file.name for file in folder.iterdir()) if folder.is_dir() else []
    if not folder.is_dir():
        text = read_text(path)
        mappings = read_many(text, torus, tasks_per_node)
        return [read_one(text, torus, tasks_per_node)] if mappings is None else mappings
    files = [
        folder / name
        for name in names
        if name.removesuffix(".gz").lower().endswith(SUFFIXES) and not name.startswith(".")
    ]
    if not files:
        expected = f"files ending in {', '.join(SUFFIXES)}"
        raise InputError("no mappings in folder", file=path, expected=expected)
    mappings = [read_mapping(file, torus, tasks_per_node=tasks_per_node) for file in files]
    seen: dict[str, Path] = {}
    for file, mapping in zip(files, mappings, strict=True):
        if mapping.name in seen:
            raise InputError(
                "name of a mapping stands twice",
                file=file,
                found=f"{mapping.name}, also {seen[mapping.name].name}",
            )
        seen[mapping.name] = file
        if mapping.n_tasks != mappings[0].n_tasks:
            raise InputError(
                "mappings differ in their number of tasks",
                file=file,
                found=mapping.n_tasks,
                expected=mappings[0].n_tasks,
            )
    return mappings


def write_mapping(
    mapping: TaskMapping, torus: Torus, path: str | os.PathLike[str], dialect: str | None = None
) -> None:
    """Write a task mapping; without a dialect the suffix of ``path`` names the format.

    ``.map`` or ``.txt``: a Blue Gene/Q map file, on a torus of one dimension below the names of its
    columns, node and slot; ``.csv``: columns task, node, slot.
    The file appears whole or not at all.

    Raises
    ------
    InputError
        If the mapping is for another torus, the suffix not one of these, or the path not writable.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.map"
    >>> write_mapping(TaskMapping([3, 3], 4), Torus((2, 2)), path)
    >>> print(path.read_text(), end="")
    1 1 0
    1 1 1
    """
    check_path(path)
    write = writer_of("mapping", path, dialect)
    as_mapping(mapping).check(mapping.n_tasks, torus)
    with atomic_path(path) as temporary:
        write(mapping, torus, temporary)


def write_mappings(
    mappings: Iterable[TaskMapping], torus: Torus, folder: str | os.PathLike[str]
) -> None:
    """Write each mapping as ``<name>.map`` into ``folder``, which is made if missing.

    Raises
    ------
    InputError
        If a name is no file name or stands twice, a mapping is for another torus, or the folder is
        not writable. Names and mappings are checked before anything is written.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "maps"
    >>> write_mappings([TaskMapping([0, 1], 4, name="identity")], Torus((2, 2)), folder)
    >>> [file.name for file in folder.iterdir()]
    ['identity.map']
    """
    check_path(folder)
    mappings = as_mappings(mappings)
    seen: set[str] = set()
    for mapping in mappings:
        mapping.check(mapping.n_tasks, torus)
        name = mapping.name
        if name in seen:
            raise InputError("name of a mapping stands twice", found=name)
        if not name or name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
            raise InputError("name of a mapping is no file name", found=repr(name))
        seen.add(name)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or error
        raise InputError("folder cannot be made", file=folder, found=found) from None
    for mapping in mappings:
        write_mapping(mapping, torus, Path(folder) / f"{mapping.name}.map")


def _check_host(torus: Torus, tasks_per_node: int | None) -> None:
    check_torus(torus)
    if tasks_per_node is not None:
        whole_number(tasks_per_node, "tasks per node", 1, MAX_SLOTS)
