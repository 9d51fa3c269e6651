"""Public functions that read and write graphs, mappings and tori in any format."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

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
    as_mapping,
    as_mappings,
    check_tasks_fit,
)
from toruscast.mapping.torus import Torus
from toruscast.validation import (
    Progress,
    check_type,
    one_of,
    progress_of,
    whole_number,
    whole_sizes,
)

from .graphs import Duplicates, Gathered, GraphOptions, Include, find_isolated_tasks, one_way_edge
from .placements import MappingOptions, WriteOptions
from .registry import dialect_to_write, find_dialect, identify, match_dialects, suffixes_of
from .source import AnyPath, Source, name_from_path, split_cells, warn_about
from .traces import check_algorithms

if TYPE_CHECKING:
    from toruscast.mapping.task_mapping import MappingLike, Mappings

AnyHosts = Hosts | AnyPath


def read_hosts(path: AnyPath, torus: TorusLike) -> Hosts:
    r"""Read a job's host names and the node of each host, in the order of the file.

    The file is a table with columns ``host``, and either ``x``, ``y``, ``z`` (the dimensions of the
    torus) or ``node``. The file may also be a list of names, one for each node.

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

    ``toruscast formats`` lists the formats, and ``docs/reference/formats.md`` explains them: map
    files of Blue Gene, ``MPICH_RANK_ORDER``, rankfiles, hostfiles, taskmaps, vcoordfiles, device
    lists, results of partitioners, tables with named columns, and others.

    Parameters
    ----------
    path : path-like
        The file name without suffix is the name of the mapping.
    torus : Torus, str or sequence of int
        The torus of the mapping.
    tasks_per_node : int, optional
        Capacity of a node. Default: as many as the file needs.
    n_tasks : int, optional
        Tasks of the job. Further rows, as in a map of a whole partition, are not used. The number
        also decides between some formats.
    hosts : Hosts or path-like, optional
        Hosts and their nodes, or a file for `read_hosts`. Needed for files that contain host names
        or positions in an allocation.
    format : str
        Format name, for a file that fits several formats.
    columns : mapping of str to str, optional
        For tables: the file's column names for task, node, slot, host or the axes of the torus.

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
        A folder of files for `read_mapping`, read in the order of their names; files without the
        suffix of a format are skipped. Or one such file, or a file of lines
        ``name,node of task 0,node of task 1,...``.

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
    """Yield the file and the content of each mapping in several files or folders.

    Names must differ, and all mappings must have the same number of tasks.
    """
    file_of_name: dict[str, AnyPath] = {}
    n_tasks = 0
    for path in paths:
        files = mapping_files(path)
        began, n_before = time.perf_counter(), len(file_of_name)
        for file in [path] if files is None else files:
            for number, mapping in enumerate(_read_file(file, options, format)):
                if number and files is not None:
                    raise InputError("several mappings in a file of a folder", file=file)
                if mapping.name in file_of_name:
                    found = f"{mapping.name}, also {Path(file_of_name[mapping.name]).name}"
                    raise InputError("duplicate mapping name", file=file, found=found)
                file_of_name[mapping.name] = file
                n_tasks = n_tasks or mapping.n_tasks
                if mapping.n_tasks != n_tasks:
                    fault = "mappings differ in their number of tasks"
                    raise InputError(fault, file=file, found=mapping.n_tasks, expected=n_tasks)
                yield file, mapping
        note_read("mappings", path, began, mappings=len(file_of_name) - n_before, tasks=n_tasks)


def mapping_files(path: AnyPath) -> list[Path] | None:
    """Return the files in a folder that `read_mappings` reads, in order; None for other paths."""
    with at_file(path):
        folder = Path(path)
        if not folder.is_dir():
            return None
        names = sorted(file.name for file in folder.iterdir())
    suffixes = suffixes_of("mapping")
    files = [
        folder / name
        for name in names
        if name.removesuffix(".gz").lower().endswith(suffixes) and not name.startswith(".")
    ]
    if not files:
        expected = f"files ending in {', '.join(suffixes)}"
        raise InputError("no mappings in folder", file=path, expected=expected)
    return files


def mapping_options(
    torus: TorusLike,
    tasks_per_node: int | None = None,
    n_tasks: int | None = None,
    hosts: AnyHosts | None = None,
    columns: Mapping[str, str] | None = None,
) -> MappingOptions:
    """Return the checked options of `read_mappings`."""
    torus = as_torus(torus)
    if tasks_per_node is not None:
        whole_number(tasks_per_node, "tasks per node", 1, MAX_SLOTS)
    if n_tasks is not None:
        whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    table, names = _as_hosts(hosts, torus), _check_columns(columns)
    return MappingOptions(torus, tasks_per_node, n_tasks, hosts=table, columns=names)


def _check_columns(columns: Mapping[str, str] | None) -> dict[str, str]:
    expected = "a dictionary of column names"
    check_type(columns, "columns", Mapping | None, expected)
    names = dict(columns or {})
    for name in names.values():
        check_type(name, "name of a column", str, expected)
    return names


def _as_hosts(hosts: AnyHosts | None, torus: Torus | None) -> Hosts | None:
    if hosts is None or isinstance(hosts, Hosts):
        return hosts
    if torus is None:
        raise InputError("a host table needs the torus", file=hosts, expected="torus=")
    return read_hosts(hosts, torus)


def _read_file(path: AnyPath, options: MappingOptions, format: str) -> Iterator[TaskMapping]:
    """Return the mappings in a file; the format may be "auto"."""
    source = Source(path, n_tasks=options.n_tasks, torus=options.torus)
    if options.columns and format not in ("auto", "table"):
        found = ", ".join(options.columns.values())
        raise InputError("no table with named columns", file=path, found=found)
    dialect = identify(source, "mapping", "table" if options.columns else format)
    mappings = dialect.read(source, options)
    return mappings if isinstance(mappings, Iterator) else iter([mappings])


def write_mapping(
    mapping: MappingLike,
    path: AnyPath,
    format: str | None = None,
    *,
    torus: TorusLike | None = None,
    hosts: AnyHosts | None = None,
    shape: Sequence[int] | None = None,
) -> str:
    """Write a task mapping; without a format the suffix of ``path`` selects it.

    ``toruscast formats`` lists the formats. The file is written completely or not at all.

    Parameters
    ----------
    mapping : TaskMapping or array-like of int
    path : path-like
    format : str, optional
        Format name, such as "rank-order", "rankfile", "hostfile", "vcoord" or "table".
    torus : Torus, str or sequence of int, optional
        The torus, for an array, or a mapping without one.
    hosts : Hosts or path-like, optional
        Hosts and their nodes, or a file for `read_hosts`.
    shape : sequence of int, optional
        Sizes of the task mesh, which determine how "device-ids" nests its list.

    Returns
    -------
    str
        How to use the file, such as "mpiexec --vcoordfile best.vcoord"; may be empty.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.map"
    >>> advice = write_mapping(TaskMapping([3, 3], "2x2", tasks_per_node=2), path)
    >>> print(path.read_text(), end="")
    1 1 0
    1 1 1
    """
    placed = as_mapping(mapping, torus)
    chosen = dialect_to_write("mapping", path, format)
    host = placed.torus if torus is None else as_torus(torus)
    if host is not None:
        placed.check(placed.n_tasks, host)
    sizes = None if shape is None else whole_sizes(shape, "shape of the mesh")
    options = WriteOptions(host, _as_hosts(hosts, host), sizes)
    with atomic_path(path) as temporary:
        chosen.write(placed, temporary, options)  # type: ignore[misc]
    advice = chosen.usage(os.fspath(path), host.name if host is not None else "")
    if chosen.name == "device-ids" and placed.tasks_per_node > 1:
        # The reader needs this option because the file does not contain devices per chip.
        advice += f"; toruscast reads it with --tasks-per-node {placed.tasks_per_node}"
    return advice


def check_job(dialect: str, problem: MappingProblem, hosts: AnyHosts | None, share: int) -> None:
    """Raise the error that `write_mapping` raises for most mappings with ``share`` tasks a node."""
    options = WriteOptions(problem.torus, _as_hosts(hosts, problem.torus))
    nodes = problem.torus.usable_nodes
    if options.hosts is not None:
        nodes = np.intersect1d(nodes, options.hosts.node)
    check_tasks_fit(problem.n_tasks, nodes.size, share)
    find_dialect(dialect, "mapping").check_job(options, problem.n_tasks, share)


def write_mappings(
    mappings: Mappings,
    folder: AnyPath,
    format: str = "bluegene",
    *,
    torus: TorusLike | None = None,
    hosts: AnyHosts | None = None,
) -> None:
    """Write each mapping under its name into ``folder``, which is created if missing.

    The arguments are those of `write_mapping`.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "maps"
    >>> write_mappings([TaskMapping([0, 1], Torus((2, 2)), name="identity")], folder)
    >>> [file.name for file in folder.iterdir()]
    ['identity.map']
    """
    check_path(folder)
    torus = None if torus is None else as_torus(torus)
    several = as_mappings(mappings, torus)
    names: set[str] = set()
    for name in (mapping.name for mapping in several):
        if name in names:
            raise InputError("duplicate mapping name", found=name)
        if not name or name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
            raise InputError("mapping name is not a valid file name", found=repr(name))
        names.add(name)
    suffix = find_dialect(format, "mapping").file_suffix
    with folder_to_fill(folder) as place, folder_beside(place / "maps", place) as stage:
        for mapping in several:
            file = stage / f"{mapping.name}{suffix}"
            write_mapping(mapping, file, format, torus=torus, hosts=hosts)
        for file in stage.iterdir():
            file.replace(place / file.name)


def read_comm(path: AnyPath, **how: Any) -> CommGraph:
    r"""Read a communication graph, the sum of the phases that `read_workload` returns.

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
        warn_about(path, describe_omissions(workload.omitted))
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
    r"""Read a workload: all phases of a file such as a GOAL schedule, or else a single phase.

    ``docs/reference/formats.md`` explains the formats. Any file may be gzip.

    Parameters
    ----------
    path : path-like
        File, folder or prefix.
    include : {"all", "point_to_point", "collective"}
        For monitoring output and traces: point-to-point messages, messages of collectives, or all.
    n_tasks : int, optional
        Number of tasks. Default: the count in the file, or else the largest task plus one.
    messages : path-like, optional
        A second matrix with the message counts. Default: one message per edge.
    format : str
        Format name, for a file that fits several formats, such as "edges" or "matrix".
    name : str, optional
        Name of the graph. Default: the file name without its suffix.
    columns : mapping of str to str, optional
        What the file calls src, dst, nbytes and n_messages: columns of a table, column numbers of
        an edge list (from "1"), or arrays of an .npz archive.
    duplicates : {"refuse", "sum"}
        Whether repeated edges, as in a trace of messages, raise an error or are summed.
    collectives : mapping of str to str, optional
        For traces with collectives: the algorithm of each, such as ``{"allreduce": "ring"}``.
    gathered : {"each", "whole"}
        For Chakra traces: whether the size of a gather or all-gather is the contribution of one
        rank or the whole gathered buffer.
    trips : int or mapping of str to int, optional
        For HLO text: trip count of loops without a count in the program, or trip counts by the
        instruction name of the loop, with "" for all others. Default: 1.
    branches : mapping of str to int, optional
        For HLO text: the branch (from 0) that each conditional takes, by its instruction name.
        Default: the branch that sends most bytes.
    ragged_bytes : float, optional
        For HLO text: bytes that each device sends in a ragged all-to-all, in equal parts.
    progress : callable, optional
        Called with "bytes", the bytes read so far and the total.

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
    report = progress_of(progress, "bytes")
    check_type(trips, "trips", Real | Mapping | None, "a number, or a dictionary of numbers")
    check_type(branches, "branches", Mapping | None, "a dictionary of numbers")
    check_type(ragged_bytes, "ragged_bytes", Real | None, "a number")
    check_type(collectives, "collectives", Mapping | None, "a dictionary of algorithms")
    if messages is not None:
        check_path(messages)
    algorithms = dict(collectives or {})
    check_algorithms(algorithms)
    if n_tasks is not None:
        n_tasks = whole_number(n_tasks, "number of tasks", 0, MAX_TASKS)
    options = GraphOptions(
        name=name_from_path(path) if name is None else name,
        n_tasks=n_tasks,
        include=include,
        columns=_check_columns(columns),
        duplicates=duplicates,
        collectives=algorithms,
        gathered=gathered,
        trips=trips,
        branches=branches or {},
        ragged_bytes=ragged_bytes,
    )
    source = Source(path, n_tasks=n_tasks, progress=report)
    dialect = identify(source, "graph", _choose_format(source, format, options.columns))
    options.refuse_unused(path, *dialect.uses)
    workload = as_workload(dialect.read(source, options))
    options.resolve_n_tasks(workload.n_tasks, path)
    if messages is not None:
        has_counts = dialect.name == "npz" and b"n_messages.npy" in source.data
        if "messages" not in dialect.uses or has_counts:
            raise InputError("only a matrix takes a second file with message counts", file=messages)
        workload = as_workload(_add_message_counts(workload.total, messages, options))
    workload = replace(workload, summed=dialect.summed, omitted=merge_omissions(options.omitted))
    edges = sum(phase.n_edges for phase in workload)
    note_read("graph", path, began, tasks=workload.n_tasks, edges=edges, phases=len(workload))
    return workload


def _choose_format(source: Source, format_name: str, columns: Mapping[str, str]) -> str:
    """Return "table" if the chosen columns are names in the first line, else the given format."""
    # Digits are column numbers of an edge list.
    names = {*columns.values()} - {str(number) for number in range(10)}
    header = {*split_cells(source.first_line()[1])[1]} if names else set()
    return "table" if names and names <= header and format_name == "auto" else format_name


def _add_message_counts(graph: CommGraph, path: AnyPath, options: GraphOptions) -> CommGraph:
    """Return the graph with the message counts of a second matrix."""
    source = Source(path)
    matches = [dialect for dialect in match_dialects(source, "graph") if "messages" in dialect.uses]
    dialect = matches[0] if matches else find_dialect("matrix", "graph")
    options.refuse_unused(path, *dialect.uses)
    second = dialect.read(source, replace(options, n_tasks=None))
    with at_file(path):
        return from_scipy(graph.to_scipy(), second.to_scipy(), name=options.name)


def write_comm(comm: CommGraph | Workload, path: AnyPath, format: str | None = None) -> None:
    """Write a communication graph; without a format the suffix of ``path`` selects it.

    ``.goal`` keeps the rounds of a workload; other formats hold the sum of its phases.
    ``.txt`` or ``.edges``: an edge list after a line with the number of tasks. ``.csv``: named
    columns, with the number of tasks and the task grid in comments. ``.npz``: NumPy arrays n_tasks,
    src, dst, nbytes, n_messages and grid. ``.mtx``: Matrix Market, without message counts. The name
    is not written. The file is written completely or not at all.

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
    check_type(comm, "graph", CommGraph | Workload, "a CommGraph or a Workload")
    workload = as_workload(comm)
    chosen = dialect_to_write("graph", path, format)
    with atomic_path(path) as temporary:
        content = workload if chosen.writes_rounds else workload.total
        chosen.write(content, temporary)  # type: ignore[misc]


# Maximum size of a file with a torus.
_MAX_BYTES = 2**20
# Bytes of memory per directed link in a simulation.
_LINK_BYTES = 50


def read_torus(path: AnyPath, *, format: str = "auto") -> Torus:
    r"""Read a torus from a file.

    ``toruscast formats`` lists the formats: machine files, targets of Scotch, platforms of SimGrid,
    and others. ``format`` selects one, for a file that fits several.

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
    read_limited(path, _MAX_BYTES)
    source = Source(path)
    dialect = identify(source, "torus", format)
    with at_file(path):
        torus: Torus = dialect.read(source)
    n_links = 2 * torus.ndim * torus.n_nodes
    check_claim(path, _LINK_BYTES * n_links, f"{torus.n_nodes} nodes with {n_links} links")
    note_read("torus", path, began, nodes=torus.n_nodes)
    return torus


def write_torus(torus: TorusLike, path: AnyPath, format: str | None = None) -> str:
    """Write a torus; without a format the suffix of ``path`` selects it.

    Only a machine file keeps all parameters. The file is written completely or not at all.

    Returns
    -------
    str
        How to use the file; may be empty.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "mine.tgt"
    >>> advice = write_torus(Torus((4, 4, 8)), path)
    >>> print(path.read_text(), end="")
    torus3D 4 4 8
    """
    torus = as_torus(torus)
    chosen = dialect_to_write("torus", path, format)
    if torus.exclusions and chosen.name not in ("toml", "machine-json"):
        expected = "a machine file (.toml)"
        raise InputError(f"{chosen.name} cannot store missing or slow links", expected=expected)
    with atomic_path(path) as temporary:
        chosen.write(torus, temporary)  # type: ignore[misc]
    return chosen.usage(os.fspath(path))


# Maximum number of isolated tasks that `graph_facts` lists.
_MAX_LISTED_TASKS = 8


def graph_facts(traffic: Workload | CommGraph) -> dict[str, Any]:
    """Return tasks, edges, bytes, messages and isolated tasks of the sum of all phases."""
    workload = as_workload(traffic)
    total, n = workload.total, workload.n_tasks
    isolated = find_isolated_tasks(total.src, total.dst, n)
    return {
        "tasks": n,
        "grid": workload.grid,
        "edges": total.n_edges,
        "bytes": float(total.nbytes.sum()),
        "messages": float(total.n_messages.sum()),
        "symmetric": one_way_edge(total) is None,
        "to_itself": float(total.nbytes[total.src == total.dst].sum()),
        "isolated": isolated.size,
        "first_isolated": isolated[:_MAX_LISTED_TASKS].tolist(),
        "counted_from_1": n > 2 and isolated.size == 1 and not isolated[0],
        "phases": len(workload),
    }


_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,9}$")


def torus(of: TorusLike) -> Torus:
    """Return a torus from its sizes, a machine name, a file, or a shape.

    Parameters
    ----------
    of : str, sequence of int or Torus
        Sizes such as ``8x8x8``, where an ``m`` after a size makes that dimension a mesh; a machine
        such as ``tpu_v4:4x4x8`` or ``bluegene_q:1024``; the path of a file for `read_torus`; or the
        sizes as numbers. ``torus(str(t))`` returns the same torus as ``t``.

    Examples
    --------
    >>> torus("4x4x8m").wrap, torus("tpu_v4:4x4x8").n_nodes, torus((4, 4)).n_nodes
    ((True, True, False), 128, 16)
    """
    is_file = isinstance(of, str) and _names_file(of.strip())
    return read_torus(of.strip()) if is_file else as_torus(of)  # type: ignore[union-attr]


def _names_file(text: str) -> bool:
    """Whether a text is a file path, rather than a shape or the name of a machine."""
    if not set(text.lower()) - SIZE_LETTERS or text.isidentifier():
        return False
    if text.startswith("/") or _FILE.search(text):
        return True
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False
