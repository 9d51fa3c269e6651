"""Graphs, mappings and tori in and out, the format recognised."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from toruscast.errors import InputError
from toruscast.files import (
    at_file,
    atomic_path,
    check_claim,
    check_path,
    folder_beside,
    folder_to_fill,
    note_read,
    read_limited,
)
from toruscast.mapping.comm_graph import MAX_TASKS, CommGraph, Workload, as_workload, from_scipy
from toruscast.mapping.machines import SIZE_LETTERS, TorusLike, as_torus
from toruscast.mapping.omissions import describe_omissions, merge_omissions
from toruscast.mapping.problem import MappingProblem
from toruscast.mapping.task_mapping import (
    MAX_SLOTS,
    Hosts,
    TaskMapping,
    check_tasks_fit,
)
from toruscast.mapping.torus import Torus
from toruscast.validation import check_call, check_type, one_of, whole_number, whole_sizes

from .graphs import AnyPath, Duplicates, Gathered, GraphOptions, Include, one_way_edge
from .placements import MappingOptions, Target
from .registry import dialect_of, dialect_to_write, formats_of, identify, suffixes_of
from .source import Progress, Source, cells, label, warn_of
from .traces import check_algorithms

AnyHosts = Hosts | AnyPath


def read_hosts(path: AnyPath, torus: TorusLike) -> Hosts:
    r"""Read the names of a job's hosts and the node of each, in the order of the file.

    That is a table below the names of its columns: ``host``, and ``x``, ``y``, ``z`` (the
    dimensions of the torus) or ``node``; or, where there are as many as nodes, names alone.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "hosts.csv"
    >>> _ = path.write_text("host,x,y\nc01,0,1\nc10,1,0\n")
    >>> read_hosts(path, Torus((2, 2))).node.tolist()
    [1, 2]
    """
    torus = as_torus(torus)
    source = Source(path, torus=torus)
    hosts: Hosts = identify(source, "hosts").read(source, torus)
    return hosts


def read_mapping(
    path: AnyPath,
    torus: TorusLike,
    *,
    tasks_per_node: int | None = None,
    n_tasks: int | None = None,
    hosts: AnyHosts | None = None,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
) -> TaskMapping:
    r"""Read one task mapping. The file may be gzip.

    ``toruscast formats`` lists what is read, and ``docs/reference/formats.md`` explains it: map
    files of Blue Gene, ``MPICH_RANK_ORDER``, rankfiles, hostfiles, taskmaps, vcoordfiles, device
    lists, results of partitioners, tables with named columns, and others.

    Parameters
    ----------
    path : path-like
        Its name without the suffix names the mapping.
    torus : Torus, str or sequence of int
        The host.
    tasks_per_node : int, optional
        Capacity of a node; as many as the file needs if not given.
    n_tasks : int, optional
        Tasks of the job: a map of a whole partition is then read up to its last task, and some
        files that fit two formats fit one.
    hosts : Hosts or path-like, optional
        Hosts and their nodes, or a file for `read_hosts`, for files that name hosts or count them
        in the order of an allocation.
    format : str
        The format's name, for a file that fits several.
    columns : mapping of str to str, optional
        For tables: the file's names of task, node, slot, host or the torus's axes.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "turned.map"
    >>> _ = path.write_text("0 1 0\n0 0 0\n0 1 1\n")
    >>> read_mapping(path, Torus((2, 2))).node
    array([1, 0, 1], dtype=int32)
    """
    began = time.perf_counter()
    options = mapping_options(torus, tasks_per_node, n_tasks, hosts, columns)
    mappings = list(_read_file(path, options, format))
    if len(mappings) > 1:
        raise InputError("several mappings in the file", file=path, found=len(mappings), expected=1)
    note_read("mapping", path, began, tasks=mappings[0].n_tasks)
    return mappings[0]


def read_mappings(
    path: AnyPath, torus: TorusLike, *, format: str = "auto", **how: Any
) -> list[TaskMapping]:
    r"""Read many task mappings; the options are those of `read_mapping`.

    Parameters
    ----------
    path : path-like
        A folder of files for `read_mapping` with the suffixes of their formats (also ``.gz``;
        others are passed over), read in the order of their names; or one such file; or a file of
        lines ``name,node of task 0,node of task 1,...``.
    torus : Torus, str or sequence of int
        The host.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "all.csv"
    >>> _ = path.write_text("identity,0,1,2,3\nreversed,3,2,1,0\n")
    >>> [mapping.name for mapping in read_mappings(path, Torus((2, 2)))]
    ['identity', 'reversed']
    """
    options = mapping_options(torus, **how)
    return [mapping for _, mapping in each_mapping([path], options, format)]


def each_mapping(
    paths: Sequence[AnyPath], options: MappingOptions, format: str = "auto"
) -> Iterator[tuple[AnyPath, TaskMapping]]:
    """Yield the mappings of `read_mappings` and their files, each read when it is needed."""
    seen: dict[str, AnyPath] = {}
    n_tasks = 0
    for path in paths:
        files = mapping_files(path)
        began, before = time.perf_counter(), len(seen)
        for file in [path] if files is None else files:
            for number, mapping in enumerate(_read_file(file, options, format)):
                if number and files is not None:
                    raise InputError("several mappings in a file of a folder", file=file)
                if mapping.name in seen:
                    found = f"{mapping.name}, also {Path(seen[mapping.name]).name}"
                    raise InputError("name of a mapping stands twice", file=file, found=found)
                seen[mapping.name] = file
                n_tasks = n_tasks or mapping.n_tasks
                if mapping.n_tasks != n_tasks:
                    fault = "mappings differ in their number of tasks"
                    raise InputError(fault, file=file, found=mapping.n_tasks, expected=n_tasks)
                yield file, mapping
        note_read("mappings", path, began, mappings=len(seen) - before, tasks=n_tasks)


def mapping_files(path: AnyPath) -> list[Path] | None:
    """Return the files of a folder that `read_mappings` reads, in order; None if it is none."""
    with at_file(path):
        folder = Path(path)
        if not folder.is_dir():
            return None
        names = sorted(file.name for file in folder.iterdir())
    known = suffixes_of("mapping")
    files = [
        folder / name
        for name in names
        if name.removesuffix(".gz").lower().endswith(known) and not name.startswith(".")
    ]
    if not files:
        expected = f"files ending in {', '.join(known)}"
        raise InputError("no mappings in folder", file=path, expected=expected)
    return files


def mapping_options(
    torus: TorusLike,
    tasks_per_node: int | None = None,
    n_tasks: int | None = None,
    hosts: AnyHosts | None = None,
    columns: Mapping[str, str] | None = None,
) -> MappingOptions:
    """Return the options of `read_mappings` for `each_mapping`."""
    torus = as_torus(torus)
    if tasks_per_node is not None:
        whole_number(tasks_per_node, "tasks per node", 1, MAX_SLOTS)
    if n_tasks is not None:
        whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    return MappingOptions(
        torus, tasks_per_node, n_tasks, _as_hosts(hosts, torus), _names_of_columns(columns)
    )


def _names_of_columns(columns: Mapping[str, str] | None) -> dict[str, str]:
    """Our names of columns and the file's."""
    expected = "a dictionary of names of columns"
    check_type(columns, "columns", Mapping | None, expected)
    known = dict(columns or {})
    for name in known.values():
        check_type(name, "name of a column", str, expected)
    return known


def _as_hosts(hosts: AnyHosts | None, torus: Torus | None) -> Hosts | None:
    if hosts is None or isinstance(hosts, Hosts):
        return hosts
    if torus is None:
        raise InputError("a table of hosts needs the torus", file=hosts, expected="torus=")
    return read_hosts(hosts, torus)


def _read_file(path: AnyPath, options: MappingOptions, name: str) -> Iterator[TaskMapping]:
    source = Source(path, n_tasks=options.n_tasks, torus=options.torus)
    if options.columns and name not in ("auto", "table"):
        found = ", ".join(options.columns.values())
        raise InputError("no table with named columns", file=path, found=found)
    dialect = identify(source, "mapping", "table" if options.columns else name)
    found = dialect.read(source, options)
    return found if isinstance(found, Iterator) else iter([found])


def write_mapping(
    mapping: TaskMapping,
    path: AnyPath,
    dialect: str | None = None,
    *,
    torus: TorusLike | None = None,
    hosts: AnyHosts | None = None,
    shape: Sequence[int] | None = None,
) -> str:
    """Write a task mapping; without a dialect the suffix of ``path`` names the format.

    ``toruscast formats`` lists what is written. The file appears whole or not at all.

    Parameters
    ----------
    mapping : TaskMapping
    path : path-like
    dialect : str, optional
        The format's name, such as "rank-order", "rankfile", "hostfile", "vcoord" or "table".
    torus : Torus, str or sequence of int, optional
        The host, for a mapping that was not made with it.
    hosts : Hosts or path-like, optional
        Hosts and their nodes, or a file for `read_hosts`.
    shape : sequence of int, optional
        Sizes of the mesh of tasks, in which "device-ids" nests its list.

    Returns
    -------
    str
        How the file is used, such as "mpiexec --vcoordfile best.vcoord"; empty where it needs no
        word.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.map"
    >>> advice = write_mapping(TaskMapping([3, 3], "2x2", tasks_per_node=2), path)
    >>> print(path.read_text(), end="")
    1 1 0
    1 1 1
    """
    check_path(path)
    check_type(mapping, "mapping", TaskMapping, "a TaskMapping")
    chosen = dialect_to_write("mapping", path, dialect)
    host = mapping.torus if torus is None else as_torus(torus)
    if host is not None:
        mapping.check(mapping.n_tasks, host)
    sizes = None if shape is None else whole_sizes(shape, "shape of the mesh")
    target = Target(host, _as_hosts(hosts, host), sizes)
    with atomic_path(path) as temporary:
        chosen.write(mapping, temporary, target)  # type: ignore[misc]
    advice = chosen.how_to_use(os.fspath(path), host.name if host is not None else "")
    if chosen.name == "device-ids" and mapping.tasks_per_node > 1:
        # The file does not hold the number of devices of a chip.
        advice += f"; toruscast reads it with --tasks-per-node {mapping.tasks_per_node}"
    return advice


def check_job(dialect: str, problem: MappingProblem, hosts: AnyHosts | None, share: int) -> None:
    """Raise, before the work, what `write_mapping` would for most mappings of ``share`` a node."""
    target = Target(problem.torus, _as_hosts(hosts, problem.torus))
    nodes = problem.torus.usable_nodes
    if target.hosts is not None:
        nodes = np.intersect1d(nodes, target.hosts.node)
    check_tasks_fit(problem.n_tasks, nodes.size, share)
    dialect_of(dialect, "mapping").check_job(target, problem.n_tasks, share)


def write_mappings(
    mappings: Iterable[TaskMapping],
    folder: AnyPath,
    *,
    torus: TorusLike | None = None,
) -> None:
    """Write each mapping as ``<name>.map`` into ``folder``, which is made if missing.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "maps"
    >>> write_mappings([TaskMapping([0, 1], Torus((2, 2)), name="identity")], folder)
    >>> [file.name for file in folder.iterdir()]
    ['identity.map']
    """
    check_path(folder)
    check_type(mappings, "mappings", Iterable | TaskMapping, "TaskMappings")
    mappings = [mappings] if isinstance(mappings, TaskMapping) else list(mappings)
    for mapping in mappings:
        check_type(mapping, "mapping", TaskMapping, "a TaskMapping")
    torus = None if torus is None else as_torus(torus)
    seen: set[str] = set()
    for mapping in mappings:
        host = mapping.torus if torus is None else torus
        if host is not None:
            mapping.check(mapping.n_tasks, host)
        name = mapping.name
        if name in seen:
            raise InputError("name of a mapping stands twice", found=name)
        if not name or name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
            raise InputError("name of a mapping is no file name", found=repr(name))
        seen.add(name)
    with folder_to_fill(folder) as place, folder_beside(place / "maps", place) as stage:
        for mapping in mappings:
            write_mapping(mapping, stage / f"{mapping.name}.map", torus=torus)
        for file in stage.iterdir():
            file.replace(place / file.name)


def read_comm(path: AnyPath, **how: Any) -> CommGraph:
    r"""Read a communication graph: all phases of what `read_workload` reads, together.

    The options are those of `read_workload`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "ring.txt"
    >>> _ = path.write_text("4\n0 1 100\n1 2 50 # short\n")
    >>> read_comm(path)
    CommGraph(ring: 4 tasks, 2 edges, 150 bytes, 2 messages)
    """
    workload = read_workload(path, **how)
    if workload.omitted:
        warn_of(path, describe_omissions(workload.omitted))
    return workload.total


def read_workload(
    path: AnyPath,
    *,
    include: Include = "all",
    n_tasks: int | None = None,
    messages: AnyPath | None = None,
    format: str = "auto",
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
    duplicates: Duplicates = "refuse",
    collectives: Mapping[str, str] | None = None,
    gathered: Gathered = "each",
    trips: int | Mapping[str, int] | None = None,
    branches: Mapping[str, int] | None = None,
    ragged_bytes: float | None = None,
    progress: Progress | None = None,
) -> Workload:
    r"""Read traffic: the phases of a file that has some, such as a GOAL schedule, or one phase.

    ``docs/reference/formats.md`` explains what is read. Any file may be gzip.

    Parameters
    ----------
    path : path-like
        File, folder or prefix.
    include : {"all", "point_to_point", "collective"}
        In monitoring output and traces: the application's own messages, those of its collective
        operations, or all.
    n_tasks : int, optional
        Number of tasks; if not given, the file's own count, or the largest task plus one.
    messages : path-like, optional
        A second matrix with the message counts; one message an edge if not given.
    format : str
        The format's name, for a file that fits several, such as "edges" or "matrix".
    name : str, optional
        Name of the graph; that of the file without its suffix if not given.
    columns : mapping of str to str, optional
        For tables: the file's names of src, dst, nbytes and n_messages; for lists of edges without
        names, their positions from "1"; for .npz archives the names of arrays.
    duplicates : {"refuse", "sum"}
        Whether pairs on several lines are added up, as in a trace of messages.
    collectives : mapping of str to str, optional
        For traces with collectives: the algorithm of each, such as ``{"allreduce": "ring"}``.
    gathered : {"each", "whole"}
        For Chakra traces: whether the size of a gather or all-gather is what each rank puts in, or
        the whole gathered buffer.
    trips : int or mapping of str to int, optional
        For HLO text: turns of the loops whose number the program does not state, or of each by the
        name of its instruction; "" is for all others. If not given they count once.
    branches : mapping of str to int, optional
        For HLO text: which branch of a conditional runs, from 0, by the name of its instruction; if
        not given, the branch that sends most.
    ragged_bytes : float, optional
        For HLO text: bytes that each device sends in a ragged all-to-all, as many to each other.
    progress : callable, optional
        Called with the bytes of a long text that were read, and all of them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "ping.goal"
    >>> _ = path.write_text("num_ranks 2\nrank 0 {\nsend 8b to 1\n}\nrank 1 {\nrecv 8b from 0\n}\n")
    >>> workload = read_workload(path)
    >>> len(workload), workload.dependent
    (1, True)
    """
    began = time.perf_counter()
    check_path(path)
    one_of(include, "include", get_args(Include))
    one_of(duplicates, "duplicates", get_args(Duplicates))
    one_of(gathered, "gathered", get_args(Gathered))
    check_call(progress)
    check_type(collectives, "collectives", Mapping | None, "a dictionary of algorithms")
    if messages is not None:
        check_path(messages)
    algorithms = dict(collectives or {})
    check_algorithms(algorithms)
    if n_tasks is not None:
        n_tasks = whole_number(n_tasks, "number of tasks", 0, MAX_TASKS)
    options = GraphOptions(
        label(path) if name is None else name,
        n_tasks,
        include,
        _names_of_columns(columns),
        duplicates,
        algorithms,
        gathered,
        trips,
        branches or {},
        ragged_bytes,
    )
    source = Source(path, n_tasks=n_tasks, progress=progress)
    dialect = identify(source, "graph", _format_name(source, format, options.columns))
    options.only(path, *dialect.uses)
    workload = as_workload(dialect.read(source, options))
    options.at_least(workload.n_tasks, path)
    if messages is not None:
        counted = dialect.name == "npz" and b"n_messages.npy" in source.data
        if "messages" not in dialect.uses or counted:
            raise InputError("message counts stand apart for matrices only", file=messages)
        workload = as_workload(_with_counts(workload.total, messages, options))
    workload = replace(workload, summed=dialect.summed, omitted=merge_omissions(options.omitted))
    edges = sum(phase.n_edges for phase in workload)
    note_read("graph", path, began, tasks=workload.n_tasks, edges=edges, phases=len(workload))
    return workload


def _format_name(source: Source, form: str, columns: Mapping[str, str]) -> str:
    """The format's name: a table where the caller gives the names above it."""
    names = {*columns.values()} - {str(place) for place in range(10)}
    is_open = form == "auto" and bool(names)
    return "table" if is_open and names <= {*cells(source.first_line()[1])[1]} else form


def _with_counts(graph: CommGraph, path: AnyPath, options: GraphOptions) -> CommGraph:
    """Return the graph with the message counts of a second matrix."""
    source = Source(path)
    fits = [dialect for dialect in formats_of(source, "graph") if "messages" in dialect.uses]
    dialect = fits[0] if fits else dialect_of("matrix", "graph")
    options.only(path, *dialect.uses)
    second = dialect.read(source, replace(options, n_tasks=None))
    with at_file(path):
        return from_scipy(graph.to_scipy(), second.to_scipy(), name=options.name)


def write_comm(comm: CommGraph, path: AnyPath, dialect: str | None = None) -> None:
    """Write a communication graph; without a dialect the suffix of ``path`` names the format.

    ``.txt`` or ``.edges``: an edge list after a line with the number of tasks. ``.csv``: named
    columns, number of tasks and task grid in comments. ``.npz``: NumPy arrays n_tasks, src, dst,
    nbytes, n_messages and grid. ``.mtx``: Matrix Market; message counts are lost. The name
    is not written. The file appears whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "pair.csv"
    >>> write_comm(CommGraph(2, [0], [1], [64]), path)
    >>> print(path.read_text(), end="")
    # n_tasks 2
    src,dst,nbytes,n_messages
    0,1,64,1
    """
    check_path(path)
    check_type(comm, "graph", CommGraph, "a CommGraph")
    chosen = dialect_to_write("graph", path, dialect)
    with atomic_path(path) as temporary:
        chosen.write(comm, temporary)  # type: ignore[misc]


_MAX_BYTES = 2**20
# Bytes of a directed link in a simulation.
_LINK_BYTES = 50


def read_torus(path: AnyPath, *, format: str = "auto") -> Torus:
    r"""Read a torus from a file.

    ``toruscast formats`` lists what is read: a machine file, a target of Scotch, a platform of
    SimGrid, and others. ``format`` names one, for a file that fits several.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "mine.toml"
    >>> _ = path.write_text('shape = [4, 8]\nwrap = [true, false]\n')
    >>> str(read_torus(path))
    'mine 4x8m'
    """
    began = time.perf_counter()
    check_path(path)
    read_limited(path, _MAX_BYTES)
    source = Source(path)
    dialect = identify(source, "torus", format)
    with at_file(path):
        torus: Torus = dialect.read(source)
    n_links = 2 * torus.ndim * torus.n_nodes
    check_claim(path, _LINK_BYTES * n_links, f"{torus.n_nodes} nodes with {n_links} links")
    note_read("torus", path, began, nodes=torus.n_nodes)
    return torus


def write_torus(torus: TorusLike, path: AnyPath, dialect: str | None = None) -> str:
    """Write a torus; without a dialect the suffix of ``path`` names the format.

    Only a machine file holds everything. The file appears whole or not at all.

    Returns
    -------
    str
        How the file is used; empty where it needs no word.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "mine.tgt"
    >>> advice = write_torus(Torus((4, 4, 8)), path)
    >>> print(path.read_text(), end="")
    torus3D 4 4 8
    """
    check_path(path)
    torus = as_torus(torus)
    chosen = dialect_to_write("torus", path, dialect)
    if torus.exclusions and chosen.name not in ("toml", "machine-json"):
        expected = "a machine file (.toml), which does"
        raise InputError(f"{chosen.name} holds no missing or slow links", expected=expected)
    with atomic_path(path) as temporary:
        chosen.write(torus, temporary)  # type: ignore[misc]
    return chosen.how_to_use(os.fspath(path))


# Isolated tasks that are listed.
NAMED = 8


def graph_facts(traffic: Workload | CommGraph) -> dict[str, Any]:
    """Return tasks, edges, bytes, messages, and how they are spread, of all phases together."""
    workload = as_workload(traffic)
    total, n = workload.total, workload.n_tasks
    seen = np.zeros(n, bool)
    seen[total.src] = seen[total.dst] = True
    silent = np.flatnonzero(~seen)
    return {
        "tasks": n,
        "grid": workload.grid,
        "edges": total.n_edges,
        "bytes": float(total.nbytes.sum()),
        "messages": float(total.n_messages.sum()),
        "symmetric": one_way_edge(total) is None,
        "to_itself": float(total.nbytes[total.src == total.dst].sum()),
        "isolated": silent.size,
        "first_isolated": silent[:NAMED].tolist(),
        "counted_from_1": n > 2 and silent.size == 1 and not silent[0],
        "phases": len(workload),
    }


_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,9}$")


def torus(of: TorusLike) -> Torus:
    """Return a torus from its sizes, a machine's name, a file, or a shape.

    Parameters
    ----------
    of : str, sequence of int or Torus
        Sizes such as ``8x8x8``, where an ``m`` after a size makes that dimension a mesh; a machine
        such as ``tpu_v4:4x4x8`` or ``bluegene_q:1024``; the path of a file that `read_torus` reads;
        or the sizes as numbers. The text of any torus, ``str(torus)``, gives the same torus.

    Examples
    --------
    >>> torus("4x4x8m").wrap, torus("tpu_v4:4x4x8").n_nodes, torus((4, 4)).n_nodes
    ((True, True, False), 128, 16)
    """
    is_file = isinstance(of, str) and _names_file(of.strip())
    return read_torus(of.strip()) if is_file else as_torus(of)  # type: ignore[union-attr]


def _names_file(text: str) -> bool:
    if not set(text.lower()) - SIZE_LETTERS or text.isidentifier():
        return False
    if text.startswith("/") or _FILE.search(text):
        return True
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
