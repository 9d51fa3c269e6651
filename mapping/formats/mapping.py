"""Task mappings in and out."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from toruscast.atomic import atomic_path, folder_beside, folder_to_fill
from toruscast.errors import InputError
from toruscast.files import note_read
from toruscast.validation import whole_number, whole_sizes

from ..allocation import Hosts
from ..comm_graph import MAX_TASKS
from ..task_mapping import MAX_SLOTS, TaskMapping, as_mapping, as_mappings, check_torus
from ..torus import Torus
from .guess import identify
from .mappings.build import MappingOptions, Target
from .registry import dialect_to_write
from .source import Source, at_file, check_path

SUFFIXES = (
    *(".map", ".txt", ".csv", ".rankfile", ".hosts", ".hostfile", ".nodelist", ".taskmap"),
    *(".vcoord", ".json", ".yaml", ".yml"),
)
AnyHosts = Hosts | str | os.PathLike[str]


def read_hosts(path: str | os.PathLike[str], torus: Torus) -> Hosts:
    r"""Read the names of a job's hosts and the node of each, in the order of the file.

    Parameters
    ----------
    path : path-like
        A table below the names of its columns: ``host``, and ``x``, ``y``, ``z`` (the dimensions
        of the torus) or ``node``; or, where there are as many as nodes, names alone.
    torus : Torus
        The machine.

    Raises
    ------
    InputError
        If the file cannot be read or is none, a host stands twice, or a node is not one of the
        torus.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "hosts.csv"
    >>> _ = path.write_text("host,x,y\nc01,0,1\nc10,1,0\n")
    >>> read_hosts(path, Torus((2, 2))).node.tolist()
    [1, 2]
    """
    check_path(path)
    check_torus(torus)
    source = Source(path, torus=torus)
    hosts: Hosts = identify(source, "hosts").read(source, torus)
    return hosts


def read_mapping(
    path: str | os.PathLike[str],
    torus: Torus,
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
        The file. Its name without the suffix names the mapping.
    torus : Torus
        The host.
    tasks_per_node : int, optional
        Capacity of a node; as many as the file needs if not given.
    n_tasks : int, optional
        Tasks of the job: a map of a whole partition is then read up to its last task, and some
        files that fit two formats fit one.
    hosts : Hosts or path-like, optional
        Names of hosts and their nodes, or a file of them as of `read_hosts`, for files that name
        hosts or count them in the order of an allocation.
    format : str
        The format's name, for a file that fits several.
    columns : mapping of str to str, optional
        Of tables: the file's names of task, node, slot, host or the torus's axes.

    Raises
    ------
    InputError
        If the file cannot be read or is ambiguous, or a line is not valid, leaves the torus, takes
        a place that is taken, or overfills a node.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "turned.map"
    >>> _ = path.write_text("0 1 0\n0 0 0\n0 1 1\n")
    >>> read_mapping(path, Torus((2, 2))).node
    array([1, 0, 1], dtype=int32)
    >>> _ = path.write_text("# grid_order\n0,2,1,3\n")
    >>> read_mapping(path, Torus((2, 2))).node
    array([0, 2, 1, 3], dtype=int32)
    """
    began = time.perf_counter()
    options = mapping_options(torus, tasks_per_node, n_tasks, hosts, columns)
    mappings = list(_read(path, options, format))
    if len(mappings) > 1:
        raise InputError("several mappings in the file", file=path, found=len(mappings), expected=1)
    note_read("mapping", path, began, tasks=mappings[0].n_tasks)
    return mappings[0]


def read_mappings(
    path: str | os.PathLike[str],
    torus: Torus,
    *,
    tasks_per_node: int | None = None,
    n_tasks: int | None = None,
    hosts: AnyHosts | None = None,
    format: str = "auto",
    columns: Mapping[str, str] | None = None,
) -> list[TaskMapping]:
    r"""Read many task mappings.

    Parameters
    ----------
    path : path-like
        A folder of files for `read_mapping` with the suffixes of their formats (also ``.gz``;
        others are passed over), read in the order of their names; or one such file; or a file of
        lines ``name,node of task 0,node of task 1,...``.
    torus, tasks_per_node, n_tasks, hosts, format, columns
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
    options = mapping_options(torus, tasks_per_node, n_tasks, hosts, columns)
    return list(each_mapping(path, options, format))


def each_mapping(
    path: str | os.PathLike[str], options: MappingOptions, format: str = "auto"
) -> Iterator[TaskMapping]:
    """Give the mappings of `read_mappings`, each read when it is asked for: they are not held."""
    files = mapping_files(path)
    began, n = time.perf_counter(), 0
    found = _read(path, options, format) if files is None else _each(files, options, format)
    for mapping in found:
        n += 1
        yield mapping
    note_read("mappings", path, began, mappings=n, tasks=mapping.n_tasks)


def _each(files: Sequence[Path], options: MappingOptions, format: str) -> Iterator[TaskMapping]:
    seen: dict[str, Path] = {}
    n_tasks = None
    for file in files:
        several = list(_read(file, options, format))
        if len(several) > 1:
            raise InputError("several mappings in a file of a folder", file=file)
        mapping = several[0]
        if mapping.name in seen:
            found = f"{mapping.name}, also {seen[mapping.name].name}"
            raise InputError("name of a mapping stands twice", file=file, found=found)
        seen[mapping.name] = file
        n_tasks = mapping.n_tasks if n_tasks is None else n_tasks
        if mapping.n_tasks != n_tasks:
            fault = "mappings differ in their number of tasks"
            raise InputError(fault, file=file, found=mapping.n_tasks, expected=n_tasks)
        yield mapping


def mapping_files(path: str | os.PathLike[str]) -> list[Path] | None:
    """Return the files of a folder that `read_mappings` reads, in order; None if it is none.

    Raises
    ------
    InputError
        If it cannot be read, or holds no such file.
    """
    check_path(path)
    with at_file(path):
        folder = Path(path)
        if not folder.is_dir():
            return None
        names = sorted(file.name for file in folder.iterdir())
    files = [
        folder / name
        for name in names
        if name.removesuffix(".gz").lower().endswith(SUFFIXES) and not name.startswith(".")
    ]
    if not files:
        expected = f"files ending in {', '.join(SUFFIXES)}"
        raise InputError("no mappings in folder", file=path, expected=expected)
    return files


def mapping_options(
    torus: Torus,
    tasks_per_node: int | None = None,
    n_tasks: int | None = None,
    hosts: AnyHosts | None = None,
    columns: Mapping[str, str] | None = None,
) -> MappingOptions:
    """Return the options of `read_mappings` for `each_mapping`."""
    check_torus(torus)
    if tasks_per_node is not None:
        whole_number(tasks_per_node, "tasks per node", 1, MAX_SLOTS)
    if n_tasks is not None:
        whole_number(n_tasks, "number of tasks", 1, MAX_TASKS)
    named = dict(columns or {})
    return MappingOptions(torus, tasks_per_node, n_tasks, _hosts(hosts, torus), named)


def _hosts(hosts: AnyHosts | None, torus: Torus | None) -> Hosts | None:
    if hosts is None or isinstance(hosts, Hosts):
        return hosts
    if torus is None:
        raise InputError("a table of hosts needs the torus", file=hosts, expected="torus=")
    return read_hosts(hosts, torus)


def _read(
    path: str | os.PathLike[str], options: MappingOptions, name: str
) -> Iterator[TaskMapping]:
    source = Source(path, n_tasks=options.n_tasks, torus=options.torus)
    if options.columns and name not in ("auto", "table"):
        found = ", ".join(options.columns.values())
        raise InputError("no table with named columns", file=path, found=found)
    dialect = identify(source, "mapping", "table" if options.columns else name)
    found = dialect.read(source, options)
    return found if isinstance(found, Iterator) else iter([found])


def write_mapping(
    mapping: TaskMapping,
    path: str | os.PathLike[str],
    dialect: str | None = None,
    *,
    torus: Torus | None = None,
    hosts: AnyHosts | None = None,
    shape: Sequence[int] | None = None,
) -> str:
    """Write a task mapping; without a dialect the suffix of ``path`` names the format.

    ``toruscast formats`` lists what is written. The file appears whole or not at all.

    Parameters
    ----------
    mapping : TaskMapping
        What to write.
    path : path-like
        Where to.
    dialect : str, optional
        The format's name, such as "rank-order", "rankfile", "hostfile", "vcoord" or "table".
    torus : Torus, optional
        The host, for a mapping that was not made with it.
    hosts : Hosts or path-like, optional
        Names of hosts and their nodes, or a file of them as of `read_hosts`.
    shape : sequence of int, optional
        Sizes of the mesh of tasks, in which "device-ids" nests its list.

    Returns
    -------
    str
        How the file is used, such as "mpiexec --vcoordfile best.vcoord"; empty where it needs no
        word.

    Raises
    ------
    InputError
        If the mapping is for another torus, the format cannot hold it or needs what is not given,
        the suffix is not known, or the path not writable.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "two.map"
    >>> advice = write_mapping(TaskMapping([3, 3], Torus((2, 2))), path)
    >>> print(path.read_text(), end="")
    1 1 0
    1 1 1
    """
    check_path(path)
    mapping = as_mapping(mapping)
    chosen = dialect_to_write("mapping", path, dialect)
    host = mapping.torus if torus is None else torus
    if host is not None:
        mapping.check(mapping.n_tasks, host)
    sizes = None if shape is None else whole_sizes(shape, "shape of the mesh")
    target = Target(host, _hosts(hosts, host), sizes)
    with atomic_path(path) as temporary:
        chosen.write(mapping, temporary, target)  # type: ignore[misc]
    advice = chosen.how_to_use(os.fspath(path), host.name if host is not None else "")
    if chosen.name == "device-ids" and mapping.tasks_per_node > 1:
        # The numbers alone do not tell how many devices a chip has.
        advice += f"; toruscast reads it with --tasks-per-node {mapping.tasks_per_node}"
    return advice


def write_mappings(
    mappings: Iterable[TaskMapping],
    folder: str | os.PathLike[str],
    *,
    torus: Torus | None = None,
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
    >>> write_mappings([TaskMapping([0, 1], Torus((2, 2)), name="identity")], folder)
    >>> [file.name for file in folder.iterdir()]
    ['identity.map']
    """
    check_path(folder)
    mappings = as_mappings(mappings)
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
