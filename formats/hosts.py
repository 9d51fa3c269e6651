"""Mappings that name hosts, and host tables.

Sources: hostfiles and rankfiles of Open MPI 4 and 5, `SLURM_HOSTFILE` and node lists of Slurm 23,
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
from .orders import find_axes, standard_columns
from .placements import (
    MAX_RANKS,
    RANKS,
    MappingOptions,
    WriteOptions,
    mapping_from_hosts,
    parse_node,
    read_ranks,
)
from .source import WHOLE, Source, TextFile, parse_whole, split_cells, warn_about_unused, write_text
from .tables import read_words

NAME = re.compile(r"[A-Za-z_][\w.-]*")
# An item of a comma-separated list; commas in brackets belong to the item.
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
# Lines that launchers print. If a line has no host, its rank is on the host of the same node
# number, or else on the host of the line above.
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
    """Split at the commas outside brackets."""
    return [part.strip() for part in _PART.findall(text) if part.strip()]


def expand_ranges(word: str) -> list[str]:
    """Expand a host name with ranges in brackets; the last range varies fastest.

    Examples
    --------
    >>> expand_ranges("nodes[021-022,7]"), expand_ranges("r[0-1]n[1-2]")
    (['nodes021', 'nodes022', 'nodes7'], ['r0n1', 'r0n2', 'r1n1', 'r1n2'])
    """
    if not RANGED.fullmatch(word):
        expected = "a host such as node7, or node[007-012,020]"
        raise InputError("bad host name", found=word, expected=expected)
    names = [""]
    for piece in re.split(r"(\[[^\]]*\])", word):
        expanded = _expand_range(piece[1:-1]) if piece.startswith("[") else [piece]
        # Check the number before building the names, because a short word may expand to very many.
        if len(names) * len(expanded) > MAX_RANKS:
            raise InputError("too many hosts", found=word, expected=f"at most {MAX_RANKS}")
        names = [name + part for name in names for part in expanded]
    return names


def expand_list(text: str) -> list[str]:
    """Expand a comma-separated list of host names with ranges in brackets."""
    return [name for word in split_list(text) for name in expand_ranges(word)]


def _expand_range(text: str) -> list[str]:
    """Return the numbers of a range such as ``007-012,020``, with leading zeros."""
    numbers: list[str] = []
    for part in text.split(","):
        match = RANKS.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first or last - first >= MAX_RANKS:
            raise InputError("bad host range", found=f"[{text}]", expected="[low-high,...]")
        width = len(match[1]) if match[1].startswith("0") or match[2] else 0
        numbers += [f"{number:0{width}d}" for number in range(first, last + 1)]
        if len(numbers) > MAX_RANKS:
            found, expected = f"[{text[:40]}...]", f"at most {MAX_RANKS}"
            raise InputError("too many hosts", found=found, expected=expected)
    return numbers


def _compress_ranges(names: Sequence[str]) -> str:
    """Join host names by commas, with ranges in brackets for consecutive numbers."""
    parts: list[str] = []
    rows: list[tuple[tuple[str, int, int], str]] = []
    for index, name in enumerate(names):
        stem, digits = re.sub(r"(\d{0,9})\Z", r" \1", name, count=1).rsplit(" ", 1)
        # Consecutive numbers have the same difference between number and index.
        rows.append(((stem, len(digits), int(digits or 0) - index), digits))
    for (stem, _, _), group in groupby(rows, lambda row: row[0]):
        members = [digits for _, digits in group]
        several = len(members) > 1
        parts.append(f"{stem}[{members[0]}-{members[-1]}]" if several else stem + members[0])
    return ",".join(parts)


def _is_hostfile(source: Source) -> bool:
    # Files without any digit are unlikely to list hosts.
    has_digits = any(re.search(r"\d", line) for _, line in source.lines[:8])
    return has_digits and source.all_match(HOST_LINE)


def _is_slurm(source: Source) -> bool:
    """Whether the first lines are host names with ranges, or lists of names with digits."""
    words = [word for _, line in source.lines[:8] for word in split_list(line)]
    if not words or not all(map(RANGED.fullmatch, words)):
        return False
    has_list = any(len(split_list(line)) > 1 for _, line in source.lines[:8])
    has_digits = all(re.search(r"\d", word) for word in words)
    return any("[" in word for word in words) or (has_list and has_digits)


def _read_hostfile(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the host of each task; a host with N slots takes N consecutive tasks."""
    text = source.text
    lines: list[int] = []
    names: list[str] = []
    max_slots = 1
    expected = "HOST or HOST slots=N, without ^"
    for number, match in text.matches(HOST_LINE, "line of a hostfile", expected):
        slots = SLOTS.search(match[3])
        count = int(match[2] or (slots[1] if slots else 1))
        if len(names) + count > MAX_RANKS:
            raise text.fault("too many slots", number, match[0], f"at most {MAX_RANKS}")
        names += [match[1]] * count
        lines += [number] * count
        max_slots = max(max_slots, count)
    return mapping_from_hosts(text, options, lines, names, file_capacity=max_slots)


def _read_host_list(text: TextFile) -> tuple[list[int], list[str]]:
    """Return the line and the name of each host in lists that may contain ranges."""
    lines: list[int] = []
    names: list[str] = []
    for number, line in text.lines("#"):
        with text.locate_errors(number):
            names += expand_list(line)
        lines += [number] * (len(names) - len(lines))
        if len(names) > MAX_RANKS:
            raise text.fault("too many hosts", number, len(names), f"at most {MAX_RANKS}")
    return lines, names


def _is_tasks_of_hosts(source: Source) -> bool:
    # A single line with a label and numbers may be output of TreeMatch instead.
    lines = [line.partition(":") for _, line in source.lines[:8]]
    has_digit_or_range = (re.search(r"\d", host) or "-" in tasks for host, _, tasks in lines)
    return (len(lines) > 1 or any(has_digit_or_range)) and source.all_match(TASKS_LINE)


def _read_tasks_of_hosts(source: Source, options: MappingOptions) -> TaskMapping:
    text = source.text
    lines = text.matches(TASKS_LINE, "line of hosts and tasks", "HOST: 0-3,8")
    rows = ((number, match[1], match[2]) for number, match in lines)
    at, names, tasks = read_ranks(text, rows)
    return mapping_from_hosts(text, options, at, names, task=tasks, file_capacity=len(tasks))


def _write_slurm(mapping: TaskMapping, path: Path, options: WriteOptions) -> None:
    _check_slurm(options)
    write_text(path, _compress_ranges(options.required_hosts.of_tasks(mapping)) + "\n")


def _check_slurm(options: WriteOptions, *_: int) -> None:
    for name in options.required_hosts.names:
        if not NAME.fullmatch(name):
            raise InputError("host name not accepted by Slurm", found=name)


def _read_rankfile(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the host of each rank.

    Slots are used if they are distinct numbers on each host and less than the node's capacity.
    """
    text = source.text
    rows = list(text.matches(RANK_LINE, "line of a rankfile", "rank N=HOST slot=S"))
    lines = [number for number, _ in rows]
    ranks = [int(match[1]) for _, match in rows]
    hosts: list[Any] = [
        int(relative[1]) if (relative := RELATIVE.fullmatch(match[2])) else match[2]
        for _, match in rows
    ]
    slot_texts = [match[3] or "" for _, match in rows]
    slots = [int(word) if re.fullmatch(r"\d{1,7}", word) else -1 for word in slot_texts]
    # Slots are used only if each is a single number and no two ranks of a host share one.
    are_unique = len(set(zip(hosts, slots, strict=True))) == len(slots)
    slots_per_host = max(options.tasks_per_host(0), max(slots, default=0) + 1)
    max_slots = slots_per_host * options.max_hosts_per_node
    fit = options.capacity is None or max_slots <= options.capacity
    usable_slots = slots if are_unique and fit and min(slots, default=-1) >= 0 else None
    # If all cores are distinct, a host may have any number of ranks. A repeated core may be a
    # mistake, so the number of ranks per host is then limited.
    cores = {(host, slot) for host, slot in zip(hosts, slot_texts, strict=True) if slot}
    file_capacity = len(rows) if len(cores) == len(rows) or max(slots, default=0) < 0 else 1
    return mapping_from_hosts(
        text, options, lines, hosts, task=ranks, slot=usable_slots, file_capacity=file_capacity
    )


def _write_rankfile(mapping: TaskMapping, path: Path, options: WriteOptions) -> None:
    """Write the host of each rank and its slot, counted from 0 on each host."""
    hosts = options.required_hosts
    position = hosts.places(mapping)
    slots_per_host = -(-mapping.tasks_per_node // hosts.most)
    slot_on_host = mapping.slot - slots_per_host * hosts.index[position]
    names, slots = hosts.of_tasks(mapping), slot_on_host.tolist()
    rows = enumerate(zip(names, slots, strict=True))
    write_text(path, "".join(f"rank {rank}={name} slot={slot}\n" for rank, (name, slot) in rows))


def _match_printed(line: str) -> dict[str, str | None] | None:
    """Return the rank, host and node in a line that a launcher printed; None for other lines."""
    match = next(filter(None, (pattern.fullmatch(line) for pattern in PRINTED_LINES)), None)
    return None if match is None else match.groupdict()


def _is_labelled(source: Source) -> bool:
    """Whether the first lines are output of a launcher, and one of them contains a rank."""
    reports = [_match_printed(line) for _, line in source.lines]
    are_known = bool(reports) and None not in reports[:8]
    return are_known and any(report and report.get("rank") for report in reports)


def _read_printed_ranks(source: Source, options: MappingOptions) -> TaskMapping:
    """Read the host of each rank from lines that a launcher printed.

    If a line has no host, its rank is on the host of the same node number, or else on the host of
    the line above.
    """
    text = source.text
    lines: list[int] = []
    ranks: list[int] = []
    hosts: list[Any] = []
    # The key "" holds the host of the line above.
    host_by_node: dict[str, str] = {}
    ranks_on_hosts: set[tuple[str, str]] = set()
    for number, line in text.lines("#"):
        fields = _match_printed(line)
        if fields is None:
            raise text.fault("unknown form of line", number, line, "RANK: HOST")
        node, rank = fields.get("node") or "", fields.get("rank")
        # xthi prints a full stop after the host name.
        host = (fields.get("host") or "").rstrip(".") or host_by_node.get(node)
        if host is not None and rank is None:
            host_by_node[node] = host
        # xthi prints a line for each thread of a rank.
        if rank is None or (fields.get("thread") and (rank, str(host)) in ranks_on_hosts):
            continue
        if host is None:
            raise text.fault("rank without a host", number, line, "a line with its host before it")
        ranks_on_hosts.add((rank, host))
        lines.append(number)
        ranks.append(int(rank))
        hosts.append(host)
    if all(WHOLE.fullmatch(host) and len(host) < 10 for host in hosts):
        hosts = list(map(int, hosts))
    return mapping_from_hosts(text, options, lines, hosts, task=ranks, file_capacity=len(ranks))


_MAPPINGS = (
    Dialect(
        name="rankfile",
        holds="mapping",
        title="rankfile of Open MPI and PRRTE",
        recognise=lambda source: bool(RANK_START.match(source.first_line()[1])),
        read=_read_rankfile,
        write=_write_rankfile,
        on_hosts=True,
        suffixes=(".rankfile", ".rank"),
        documentation="""
One line `rank N=HOST slot=S` per task, in any order. `--hosts FILE` gives the node of each host;
`+n2` is the third host. If slots are not single numbers (`0:1`, `0-3`) or several ranks share one,
the tasks of a node take its slots in rank order.
""",
        example="rank 0=c00 slot=0\nrank 1=c01 slot=0\nrank 2=c03 slot=0\nrank 3=c02 slot=0\n",
        advice="mpirun --map-by rankfile:file={file}, or mpirun --rankfile {file} (Open MPI 4)",
    ),
    Dialect(
        name="hostfile",
        holds="mapping",
        title="hostfile: one line per task (Open MPI seq, MPICH, SLURM_HOSTFILE)",
        recognise=_is_hostfile,
        read=_read_hostfile,
        write=lambda mapping, path, options: write_text(
            path, "\n".join([*options.required_hosts.of_tasks(mapping), ""])
        ),
        on_hosts=True,
        suffixes=(".hosts", ".hostfile"),
        documentation="""
One host per line, in task order; `slots=2`, `:2` or `*2` after the host means two tasks, and a user
name before it (`me@c00`) is ignored. `--hosts FILE` gives the node of each host.
""",
        example="c00 slots=1\nc01 slots=1\nc03 slots=1\nc02 slots=1\n",
        advice="mpirun --map-by seq --hostfile {file}, mpirun -machinefile {file} (MPICH), or "
        "SLURM_HOSTFILE={file} srun --distribution=arbitrary",
    ),
    Dialect(
        name="slurm",
        holds="mapping",
        title="Slurm node list with a host for each task",
        recognise=_is_slurm,
        read=lambda source, options: mapping_from_hosts(
            source.text, options, *_read_host_list(source.text)
        ),
        write=_write_slurm,
        check_job=_check_slurm,
        on_hosts=True,
        suffixes=(".nodelist",),
        documentation="""
A comma-separated list with ranges such as `node[007-009],node002`, one host per task.
`--hosts FILE` gives the node of each host.
""",
        example="nodes[021-022],nodes[019,024]\n",
        advice="srun --distribution=arbitrary --nodelist=$(cat {file})",
    ),
    Dialect(
        name="flux-hosts",
        holds="mapping",
        title="tasks of each host (flux job taskmap --to=hosts)",
        recognise=_is_tasks_of_hosts,
        read=_read_tasks_of_hosts,
        on_hosts=True,
        documentation="""
On each line a host, a colon and its tasks with ranges. `--hosts FILE` gives the node of each host.
""",
        example="c00: 0-1\nc01: 2-3\n",
    ),
    Dialect(
        name="labelled",
        holds="mapping",
        title="launcher output with the host of each rank (srun -l hostname, flux job taskmap)",
        recognise=_is_labelled,
        read=_read_printed_ranks,
        documentation="""
On each line a rank, a colon and its host, as `srun -l hostname` and `mpirun --tag-output hostname`
print them; lines may be in any order. A number instead of a host is a position in the allocation.
Output of `mpirun -l hostname` of MPICH, `xthi`, `MPICH_RANK_REORDER_DISPLAY`, Open MPI's
`--report-bindings` and `--display map`, and Intel MPI's `I_MPI_DEBUG=4` is read too; other lines
are refused. `--hosts FILE` gives the node of each host.
""",
        example="0: c00\n2: c03\n1: c01\n3: c02\n",
    ),
)


PAIRS = re.compile(r"\w+\s*=\s*[^,\s]+(\s*,\s*\w+\s*=\s*[^,\s]+)+\s*,?")
# Host names of Cray systems.
NID = "nid{:05d}"


def _is_table(source: Source) -> bool:
    """Whether the first line names hosts and their nodes or coordinates."""
    if not source.lines:
        return False
    line = source.lines[0][1]
    if PAIRS.fullmatch(line):
        return "x_coord" in line
    keys = {*_match_keys(split_cells(line)[1])}
    return bool(keys & {"host", "nid"}) and ("node" in keys or any(len(key) == 1 for key in keys))


def _is_name_list(source: Source) -> bool:
    words = [word for _, line in source.lines for word in split_list(line)]
    return bool(words) and all(map(RANGED.fullmatch, words))


def _read_table(source: Source, torus: Torus) -> Hosts:
    """Read a host and its coordinates or node from each row, below a header or as name=value."""
    text = source.text
    if PAIRS.fullmatch(source.first_line()[1]):
        rows = [(n, _read_pairs(text, n, line)) for n, line in text.lines("#")]
    else:
        names, cell_rows = read_words(text, text.lines("#"), lambda _: True)
        keys = _match_keys(names)
        if duplicates := repeated(keys):
            raise text.fault("duplicate column", None, duplicates[0], "each column once")
        rows = [(number, dict(zip(keys, row, strict=True))) for number, row in cell_rows]
    nodes: list[int] = []
    aliases: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, row in rows:
        name, alias = _read_host_name(text, number, row)
        text.record_once("host", name, number, lines)
        if alias:
            aliases[alias] = name
        nodes.append(_read_node(text, number, row, torus))
    if not lines:
        raise text.fault("table without a host")
    used = {"host", "node", "nid", "processor_id", *torus.axes.lower()}
    unused = (name for _, row in rows for name in row if name not in used)
    warn_about_unused(text.file, unused, "unused columns")
    return Hosts(list(lines), nodes, torus, aliases)


def _match_keys(names: list[str]) -> list[str]:
    """Return the standard key of each column (host, node, nid or an axis), or else its name."""
    names = [name.lower() for name in names]
    keys = [column or name for column, name in zip(standard_columns(names), names, strict=True)]
    if "nid" in names and any(column and len(column) == 1 for column in keys):
        # If there are coordinates, ``nid`` is the number of a host instead of a torus node.
        keys[names.index("nid")] = "nid"
    return keys


def _read_pairs(text: TextFile, number: int, line: str) -> dict[str, str]:
    """Return the values of a line such as ``nid=12,x_coord=0,y_coord=1`` by standard key."""
    if not PAIRS.fullmatch(line):
        raise text.fault("bad line of a host table", number, line, "name=value,name=value,...")
    pairs = [part.partition("=") for part in line.split(",") if part.strip()]
    values = [value.strip().strip("'\"") for _, _, value in pairs]
    return dict(zip(_match_keys([name.strip() for name, _, _ in pairs]), values, strict=True))


def _read_host_name(text: TextFile, number: int, row: dict[str, str]) -> tuple[str, str | None]:
    """Return the name of a host, and its alias if the row has both a nid and a name."""
    nid = row.get("nid") or row.get("processor_id")
    if nid is not None:
        name = NID.format(parse_whole(text, number, "node number (nid)", nid, 10**7))
        return name, row.get("host")
    if not row.get("host"):
        raise text.fault("row without a host name", number, str(row)[:60], "a column host")
    return row["host"], None


def _read_node(text: TextFile, number: int, row: dict[str, str], torus: Torus) -> int:
    """Return the node of a row, from its coordinates if all are present, else its node number."""
    if axes := find_axes([*row], torus):
        return parse_node(text, number, [row[axis] for axis in axes], torus)
    if "node" in row:
        return parse_whole(text, number, "node", row["node"], torus.n_nodes - 1)
    found = ", ".join(row)
    expected = f"columns {', '.join(torus.axes.lower())}, the dimensions of {torus}, or node"
    raise text.fault("host table without coordinates or nodes", number, found, expected)


def _read_names(source: Source, torus: Torus) -> Hosts:
    """Read a host name for each node of the torus, in the order of the node numbers."""
    text = source.text
    _, names = _read_host_list(text)
    if len(names) != torus.n_nodes:
        expected = f"{torus.n_nodes}, one per node of {torus}, or columns host,x,y,z"
        raise text.fault("wrong number of hosts", None, len(names), expected)
    with text.locate_errors(None):
        return Hosts(names, range(torus.n_nodes), torus)


_TABLES = (
    Dialect(
        name="host-table",
        holds="hosts",
        title="table of host names and coordinates",
        recognise=_is_table,
        read=_read_table,
        documentation="""
Named columns in any order: `host`, and either coordinates (`x,y,z`) or `node`. The rows are in the
order in which the launcher fills the hosts. Hosts may share coordinates, as the two hosts of a Cray
Gemini router do. A column `nid` (also as lines `nid=...,x_coord=...`) gives hosts such as
`nid00012`. It needs coordinate columns, which `xtprocadmin` and `xtnodestat` do not print.
""",
        example="host,x,y\nc00,0,0\nc01,0,1\nc02,1,0\nc03,1,1\n",
    ),
    Dialect(
        name="host-names",
        holds="hosts",
        title="host names, one per node in C order",
        recognise=_is_name_list,
        read=_read_names,
        documentation="""
One name per line, or a Slurm list with ranges; one host for each node of the torus.
""",
    ),
)
DIALECTS = (*_MAPPINGS, *_TABLES)
