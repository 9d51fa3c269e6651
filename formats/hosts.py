"""The host of each task, and tables of hosts: lists, hostfiles, rankfiles, what launchers print.

Patterns: hostfiles and rankfiles of Open MPI 4 and 5, `SLURM_HOSTFILE` and node lists of Slurm 23,
`flux job taskmap --to=hosts` and `--to=multiline` of flux-core 0.60.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from toruscast.errors import InputError
from toruscast.mapping.task_mapping import Hosts, TaskMapping
from toruscast.mapping.torus import Torus
from toruscast.validation import repeated

from .dialect import Dialect
from .orders import axes_in, known_columns
from .placements import (
    MAX_RANKS,
    RANKS,
    MappingOptions,
    Target,
    mapping_on_hosts,
    place_of,
    read_ranks,
)
from .source import WHOLE, Source, Text, cells, warn_of_unused, whole, write_text
from .tables import read_words

# A name, or the pieces of one between ranges in brackets.
NAME = re.compile(r"[A-Za-z_][\w.-]*")
# Parts between commas outside of brackets.
_PART = re.compile(r"(?:[^,\[]|\[[^\[\]]*\]|\[)+")
RANGED = re.compile(r"[A-Za-z_][\w.#-]*(\[[0-9,-]+\][\w.#-]*)*")
HOST_LINE = re.compile(
    r"(?:[\w.-]+@)?([A-Za-z_][\w.#-]*)(?:[:*](\d{1,9}))?"
    r"((?:\s+(?:slots|max[_-]slots|cpu)\s*=\s*\d{1,9})*)"
)
SLOTS = re.compile(r"(?<![_-])(?:slots|cpu)\s*=\s*(\d+)")
RANK_LINE = re.compile(r"rank\s+(\d{1,9})\s*=\s*(\S+)(?:\s+slots?\s*=\s*([\w:,;*-]+))?\s*", re.I)
RANK_START = re.compile(r"rank\s+\d+\s*=", re.I)
RELATIVE = re.compile(r"\+n(\d{1,9})", re.I)
TASKS_LINE = re.compile(
    r"([A-Za-z_][\w.-]*):\s*(\d{1,9}(?:-\d{1,9})?(?:\s*,\s*\d{1,9}(?:-\d{1,9})?)*)"
)
# What programs print of ranks. A line without a host has that of its node, or of the line above;
# one without either is passed over.
_RANK, _HOST, _NODE = r"(?P<rank>\d{1,9})", r"(?P<host>[A-Za-z0-9_][\w.-]*)", r"(?P<node>\d{1,9})"
PRINTED_LINES = tuple(
    re.compile(line.format(rank=_RANK, host=_HOST, node=_NODE), re.I)
    for line in (
        # srun -l hostname; mpirun -l hostname of MPICH and Intel MPI; mpirun --tag-output hostname
        # of Open MPI 4 and 5, and of older ones.
        r"{rank}:\s*{host}",
        r"\[{rank}\]\s+{host}",
        r"\[(?:[\w.-]+@)?\d+,{rank}\](?:<stdout>)?\s*:\s*{host}",
        # MPICH_RANK_REORDER_DISPLAY of Cray MPICH.
        r"\[PE_\d+\]: rank {rank} is on {host}(?:[;,] originally was on .*)?",
        r"\[PE_\d+\]: MPI.*",
        # xthi of HPE, and of Archer2.
        r"Hello from rank {rank},(?P<thread> thread \d+,)? on {host}\s*\(core affinity = .*\)",
        r"Node\s+{node}, hostname {host}, .*",
        r"Node\s+{node}, rank\s+{rank},(?P<thread> thread\s+\d+), \(affinity = .*\)",
        r"(?:Node summary for|MPI summary:) .*",
        # --report-bindings and --display map of Open MPI 4 and 5.
        r"\[{host}:\d+\] (?:MCW )?rank {rank} (?:is not )?bound\b.*",
        r"Data for node: {host}\s.*",
        r"Process (?:OMPI )?jobid: .*Process rank: {rank}\b.*",
        r"Data for job .*|=+(?:\s+JOB MAP\s+=+)?",
        # I_MPI_DEBUG=4 of Intel MPI.
        r"\[\d+\] MPI startup\(\): {rank}\s+\d+\s+{host}\s+\S.*",
        r"\[\d+\] MPI startup\(\): (?!\d).*",
    )
)


def split_list(text: str) -> list[str]:
    """Split at the commas that stand outside of brackets."""
    return [part.strip() for part in _PART.findall(text) if part.strip()]


def expand(word: str) -> list[str]:
    """Return the hosts of a name with ranges in brackets, the last range fastest.

    Examples
    --------
    >>> expand("nodes[021-022,7]"), expand("r[0-1]n[1-2]")
    (['nodes021', 'nodes022', 'nodes7'], ['r0n1', 'r0n2', 'r1n1', 'r1n2'])
    """
    if not RANGED.fullmatch(word):
        expected = "a host such as node7, or node[007-012,020]"
        raise InputError("bad name of a host", found=word, expected=expected)
    names = [""]
    for piece in re.split(r"(\[[^\]]*\])", word):
        ends = _expand_range(piece[1:-1]) if piece.startswith("[") else [piece]
        if len(names) * len(ends) > MAX_RANKS:
            raise InputError("too many hosts", found=word, expected=f"at most {MAX_RANKS}")
        names = [name + end for name in names for end in ends]
    return names


def expand_list(text: str) -> list[str]:
    """Return the hosts of a list with commas between and ranges in brackets."""
    return [name for word in split_list(text) for name in expand(word)]


def _expand_range(text: str) -> list[str]:
    found = []
    for part in text.split(","):
        match = RANKS.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first or last - first >= MAX_RANKS:
            raise InputError("bad range of hosts", found=f"[{text}]", expected="[low-high,...]")
        width = len(match[1]) if match[1].startswith("0") or match[2] else 0
        found += [f"{number:0{width}d}" for number in range(first, last + 1)]
        if len(found) > MAX_RANKS:
            raise InputError(
                "too many hosts", found=f"[{text[:40]}...]", expected=f"at most {MAX_RANKS}"
            )
    return found


def compress(names: Sequence[str]) -> str:
    """Return hosts as a list in which neighbours that count upwards become a range."""
    parts: list[str] = []
    for _, several in groupby(enumerate(names), lambda item: _series_key(*item)):
        run = [name for _, name in several]
        stem, digits = _split_number(run[0])
        last = _split_number(run[-1])[1]
        parts.append(run[0] if len(run) == 1 else f"{stem}[{digits}-{last}]")
    return ",".join(parts)


def _split_number(name: str) -> tuple[str, str]:
    """A name without the digits at its end, and these."""
    stem = re.sub(r"\d{1,9}\Z", "", name)
    return stem, name[len(stem) :]


def _series_key(place: int, name: str) -> tuple[str, int, int | str]:
    """Equal for neighbours in a list that count upwards."""
    stem, digits = _split_number(name)
    return stem, len(digits), int(digits) - place if digits else place


def is_hostfile(source: Source) -> bool:
    """Whether each line is the name of a host, maybe with its slots."""
    # Bare words may be anything: several of them, or digits or slots beside, are hosts.
    digits = any(re.search(r"\d", line) for _, line in source.lines[:8])
    return digits and source.all_match(HOST_LINE)


def is_slurm(source: Source) -> bool:
    """Whether hosts stand with commas between, or ranges in brackets."""
    words = [word for _, line in source.lines[:8] for word in split_list(line)]
    if not words or not all(map(RANGED.fullmatch, words)):
        return False
    several = any(len(split_list(line)) > 1 for _, line in source.lines[:8])
    named = all(re.search(r"\d", word) for word in words)
    return any("[" in word for word in words) or (several and named)


def read_hostfile(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of a host a line; ``slots=2`` means two tasks in a row."""
    text = source.text
    at: list[int] = []
    names: list[str] = []
    stated = 1
    for number, match in text.matches(
        HOST_LINE, "line of a hostfile", "HOST or HOST slots=N, none with ^"
    ):
        slots = SLOTS.search(match[3])
        count = int(match[2] or (slots[1] if slots else 1))
        if len(names) + count > MAX_RANKS:
            raise text.fault("too many slots", number, match[0], f"at most {MAX_RANKS}")
        names += [match[1]] * count
        at += [number] * count
        stated = max(stated, count)
    return mapping_on_hosts(text, options, at, names, stated=stated)


def _listed_hosts(text: Text) -> tuple[list[int], list[str]]:
    """Line and name of each host of lists with ranges."""
    at: list[int] = []
    names: list[str] = []
    for number, line in text.lines("#"):
        with text.at(number):
            names += expand_list(line)
        at += [number] * (len(names) - len(at))
        if len(names) > MAX_RANKS:
            raise text.fault("too many hosts", number, len(names), f"at most {MAX_RANKS}")
    return at, names


def are_tasks_of_hosts(source: Source) -> bool:
    """Whether each line is a host, a colon and the tasks there."""
    # One label with numbers may be TreeMatch's.
    lines = [line.partition(":") for _, line in source.lines[:8]]
    sure = len(lines) > 1 or any(re.search(r"\d", host) or "-" in tasks for host, _, tasks in lines)
    return sure and source.all_match(TASKS_LINE)


def read_tasks_of_hosts(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``node017: 0-3,8``; a host may stand on several."""
    text = source.text
    lines = text.matches(TASKS_LINE, "line of hosts and tasks", "HOST: 0-3,8")
    rows = ((number, match[1], match[2]) for number, match in lines)
    at, names, tasks = read_ranks(text, rows)
    return mapping_on_hosts(text, options, at, names, task=tasks, stated=len(tasks))


def write_slurm(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write the host of each task on one line, with ranges."""
    check_slurm(target)
    write_text(path, compress(target.named.of_tasks(mapping)) + "\n")


def check_slurm(target: Target, *_: int) -> None:
    """Raise unless Slurm takes the names of the hosts."""
    for name in target.named.names:
        if not NAME.fullmatch(name):
            raise InputError("name of a host that Slurm does not take", found=name)


def read_rankfile(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines ``rank 3=host slot=1``; ``+n2`` is the third host."""
    text = source.text
    rows = list(text.matches(RANK_LINE, "line of a rankfile", "rank N=HOST slot=S"))
    at = [number for number, _ in rows]
    ranks = [int(match[1]) for _, match in rows]
    hosts: list[Any] = [
        int(relative[1]) if (relative := RELATIVE.fullmatch(match[2])) else match[2]
        for _, match in rows
    ]
    plain = [re.fullmatch(r"\d{1,7}", match[3] or "") for _, match in rows]
    slots = [int(match[0]) if match else -1 for match in plain]
    # Slots of cores, and slots that several ranks share, are not places.
    once = len(set(zip(hosts, slots, strict=True))) == len(slots)
    share = max(options.tasks_of_host(0), max(slots, default=0) + 1)
    fits = options.capacity is None or share * options.most <= options.capacity
    given = slots if once and fits and min(slots, default=-1) >= 0 else None
    # Cores by their names give each rank its own; one slot for two ranks may be a mistake.
    cores = {(host, match[3]) for host, (_, match) in zip(hosts, rows, strict=True) if match[3]}
    stated = len(rows) if len(cores) == len(rows) or max(slots, default=0) < 0 else 1
    return mapping_on_hosts(text, options, at, hosts, task=ranks, slot=given, stated=stated)


def write_rankfile(mapping: TaskMapping, path: Path, target: Target) -> None:
    """Write host and slot of each rank."""
    hosts = target.named
    place = hosts.places(mapping)
    share = -(-mapping.tasks_per_node // hosts.most)
    slot = mapping.slot - share * hosts.index[place]
    lines = (
        f"rank {rank}={hosts.names[host]} slot={s}\n"
        for rank, (host, s) in enumerate(zip(place.tolist(), slot.tolist(), strict=True))
    )
    write_text(path, "".join(lines))


def _match_printed(line: str) -> dict[str, str | None] | None:
    """What a line says of a rank, by name; None if no program is known to print it."""
    found = next(filter(None, (known.fullmatch(line) for known in PRINTED_LINES)), None)
    return None if found is None else found.groupdict()


def are_printed_ranks(source: Source) -> bool:
    """Whether the first lines are known ones, and a rank stands on one of them."""
    found = [_match_printed(line) for _, line in source.lines]
    return (
        bool(found) and None not in found[:8] and any(each and each.get("rank") for each in found)
    )


def read_labelled(source: Source, options: MappingOptions) -> TaskMapping:
    """Return the mapping of lines such as ``3: node017``, in any order."""
    text = source.text
    at: list[int] = []
    ranks: list[int] = []
    hosts: list[Any] = []
    # The host of a node by its number; "" is the line above.
    known: dict[str, str] = {}
    threads: set[tuple[str, str]] = set()
    for number, line in text.lines("#"):
        said = _match_printed(line)
        if said is None:
            raise text.fault("bad line of ranks", number, line, "RANK: HOST")
        node, rank = said.get("node") or "", said.get("rank")
        # xthi ends a sentence behind it.
        host = (said.get("host") or "").rstrip(".") or known.get(node)
        if host is not None and rank is None:
            known[node] = host
        # Other threads of a rank are where it is.
        if rank is None or (said.get("thread") and (rank, str(host)) in threads):
            continue
        if host is None:
            raise text.fault("rank without a host", number, line, "the line of its host above")
        threads.add((rank, host))
        at.append(number)
        ranks.append(int(rank))
        hosts.append(host)
    if all(WHOLE.fullmatch(host) and len(host) < 10 for host in hosts):
        hosts = list(map(int, hosts))
    return mapping_on_hosts(text, options, at, hosts, task=ranks, stated=len(ranks))


_LISTS = (
    Dialect(
        name="rankfile",
        holds="mapping",
        title="rankfile of Open MPI and PRRTE",
        recognise=lambda source: bool(RANK_START.match(source.first_line()[1])),
        read=read_rankfile,
        write=write_rankfile,
        on_hosts=True,
        suffixes=(".rankfile", ".rank"),
        documentation="""
A line `rank N=HOST slot=S` for each task, in any order. `--hosts FILE` gives the node of each host;
`+n2` is the third of them. Slots that are no single numbers (`0:1`, `0-3`), or that several ranks
share, are not kept: tasks of a node then take its slots in their order.
""",
        example="rank 0=c00 slot=0\nrank 1=c01 slot=0\nrank 2=c03 slot=0\nrank 3=c02 slot=0\n",
        advice="mpirun --map-by rankfile:file={file}, or mpirun --rankfile {file} (Open MPI 4)",
    ),
    Dialect(
        name="hostfile",
        holds="mapping",
        title="the host of each task, a line each (Open MPI seq, MPICH, SLURM_HOSTFILE)",
        recognise=is_hostfile,
        read=read_hostfile,
        write=lambda mapping, path, target: write_text(
            path, "\n".join([*target.named.of_tasks(mapping), ""])
        ),
        on_hosts=True,
        suffixes=(".hosts", ".hostfile"),
        documentation="""
A host on each line, for one task after the other; `slots=2`, `:2` or `*2` behind it means two
tasks, and a user before it (`me@c00`) is left out. `--hosts FILE` gives the node of each host.
""",
        example="c00 slots=1\nc01 slots=1\nc03 slots=1\nc02 slots=1\n",
        advice="mpirun --map-by seq --hostfile {file}, mpirun -machinefile {file} (MPICH), or "
        "SLURM_HOSTFILE={file} srun --distribution=arbitrary",
    ),
    Dialect(
        name="slurm",
        holds="mapping",
        title="the host of each task as a Slurm list with ranges",
        recognise=is_slurm,
        read=lambda source, options: mapping_on_hosts(
            source.text, options, *_listed_hosts(source.text)
        ),
        write=write_slurm,
        check_job=check_slurm,
        on_hosts=True,
        suffixes=(".nodelist",),
        documentation="""
Hosts with commas between and ranges in brackets, such as `node[007-009],node002`, one for each
task. `--hosts FILE` gives the node of each host.
""",
        example="nodes[021-022],nodes[019,024]\n",
        advice="srun --distribution=arbitrary --nodelist=$(cat {file})",
    ),
    Dialect(
        name="flux-hosts",
        holds="mapping",
        title="the tasks of each host, as flux job taskmap --to=hosts prints them",
        recognise=are_tasks_of_hosts,
        read=read_tasks_of_hosts,
        on_hosts=True,
        documentation="""
A host, a colon and its tasks with ranges on each line. `--hosts FILE` gives the node of each host.
""",
        example="c00: 0-1\nc01: 2-3\n",
    ),
    Dialect(
        name="labelled",
        holds="mapping",
        title="what launchers print of each rank: 3: host (srun -l hostname, flux job taskmap)",
        recognise=are_printed_ranks,
        read=read_labelled,
        documentation="""
A rank, a colon and its host, as `srun -l hostname` and `mpirun --tag-output hostname` print them,
in any order; or the number of its node in the order of the allocation. The same from the lines of
`mpirun -l hostname` of MPICH, `xthi`, `MPICH_RANK_REORDER_DISPLAY`, Open MPI's `--report-bindings`
and `--display map`, and Intel MPI's `I_MPI_DEBUG=4`; a line of none of them is refused.
`--hosts FILE` gives the node of each host.
""",
        example="0: c00\n2: c03\n1: c01\n3: c02\n",
    ),
)


PAIRS = re.compile(r"\w+\s*=\s*[^,\s]+(\s*,\s*\w+\s*=\s*[^,\s]+)+\s*,?")
# Cray's launchers call a node by its number.
NID = "nid{:05d}"


def is_table(source: Source) -> bool:
    """Whether the first line names hosts and their places, or each line does with = signs."""
    if not source.lines:
        return False
    line = source.lines[0][1]
    if PAIRS.fullmatch(line):
        return "x_coord" in line
    keys = {*_column_keys(cells(line)[1])}
    return bool(keys & {"host", "nid"}) and ("node" in keys or any(len(key) == 1 for key in keys))


def are_names(source: Source) -> bool:
    """Whether there is nothing but names of hosts."""
    words = [word for _, line in source.lines for word in split_list(line)]
    return bool(words) and all(map(RANGED.fullmatch, words))


def read_table(source: Source, torus: Torus) -> Hosts:
    """Return the hosts of a table."""
    text = source.text
    if PAIRS.fullmatch(source.first_line()[1]):
        rows = [(n, _read_pairs(text, n, line)) for n, line in text.lines("#")]
    else:
        names, cells_of = read_words(text, text.lines("#"), lambda _: True)
        keys = _column_keys(names)
        if twice := repeated(keys):
            raise text.fault("column stands twice", None, twice[0], "each column once")
        rows = [(number, dict(zip(keys, row, strict=True))) for number, row in cells_of]
    nodes: list[int] = []
    aliases: dict[str, str] = {}
    # Line of each host.
    lines: dict[str, int] = {}
    for number, row in rows:
        name, other = _host_names(text, number, row)
        if name in lines:
            found = f"{name}, also on line {lines[name]}"
            raise text.fault("host stands twice", number, found, "each host once")
        lines[name] = number
        if other:
            aliases[other] = name
        nodes.append(_node_of(text, number, row, torus))
    if not lines:
        raise text.fault("table without a host")
    known = {"host", "node", "nid", "processor_id", *torus.axes.lower()}
    others = (name for _, row in rows for name in row if name not in known)
    warn_of_unused(text.file, others, "columns that are not used")
    return Hosts(list(lines), nodes, torus, aliases)


def _column_keys(names: list[str]) -> list[str]:
    """What each column is called here: host, node, nid, a letter, or its own name."""
    names = [name.lower() for name in names]
    keys = [column or name for column, name in zip(known_columns(names), names, strict=True)]
    if "nid" in names and any(column and len(column) == 1 for column in keys):
        # With coordinates beside it, it is the number of a host, not of a node of the torus.
        keys[names.index("nid")] = "nid"
    return keys


def _read_pairs(text: Text, number: int, line: str) -> dict[str, str]:
    if not PAIRS.fullmatch(line):
        raise text.fault("bad line of a table of hosts", number, line, "name=value,name=value,...")
    pairs = [part.partition("=") for part in line.split(",") if part.strip()]
    values = [value.strip().strip("'\"") for _, _, value in pairs]
    return dict(zip(_column_keys([name.strip() for name, _, _ in pairs]), values, strict=True))


def _host_names(text: Text, number: int, row: dict[str, str]) -> tuple[str, str | None]:
    """The name of a row's host as launchers have it, and another one."""
    nid = row.get("nid") or row.get("processor_id")
    if nid is not None:
        name = NID.format(whole(text, number, "node number (nid)", nid, 10**7))
        return name, row.get("host")
    if not row.get("host"):
        raise text.fault("no name of a host", number, str(row)[:60], "a column host")
    return row["host"], None


def _node_of(text: Text, number: int, row: dict[str, str], torus: Torus) -> int:
    if axes := axes_in([*row], torus):
        return place_of(text, number, [row[axis] for axis in axes], torus)
    if "node" in row:
        return whole(text, number, "node", row["node"], torus.n_nodes - 1)
    found = ", ".join(row)
    expected = f"columns {', '.join(torus.axes.lower())}, the dimensions of {torus}, or node"
    raise text.fault("table of hosts without places", number, found, expected)


def read_names(source: Source, torus: Torus) -> Hosts:
    """Return the hosts of bare names, one for each node in C order."""
    text = source.text
    _, names = _listed_hosts(text)
    if len(names) != torus.n_nodes:
        expected = f"{torus.n_nodes}, one for each node of {torus}, or columns host,x,y,z"
        raise text.fault("names of hosts without places", None, len(names), expected)
    with text.at(None):
        return Hosts(names, range(torus.n_nodes), torus)


TABLES = (
    Dialect(
        name="host-table",
        holds="hosts",
        title="name and place of each host",
        recognise=is_table,
        read=read_table,
        documentation="""
Columns with names, in any order: `host`, and the coordinates (`x,y,z`) or `node`. The order of the
lines is that in which the launcher fills its hosts. Several hosts may have the same coordinates, as
those of a Cray Gemini router. A column `nid` (from `xtprocadmin` or the machine's database, also as
lines of `nid=...,x_coord=...`) gives hosts `nid00012`; the coordinates have to stand beside
it, for `xtprocadmin` and `xtnodestat` alone do not print them.
""",
        example="host,x,y\nc00,0,0\nc01,0,1\nc02,1,0\nc03,1,1\n",
    ),
    Dialect(
        name="host-names",
        holds="hosts",
        title="names of hosts alone, one for each node in C order",
        recognise=are_names,
        read=read_names,
        documentation="""
Names, a line each or as a Slurm list with ranges, as many as the torus has nodes.
""",
        example="",
    ),
)
DIALECTS = (*_LISTS, *TABLES)
