"""Communication graphs from MPI profilers: Open MPI's monitoring, mpiP and IPM."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from xml.etree import ElementTree

import numpy as np

from toruscast.files import at_file
from toruscast.mapping.comm_graph import MAX_TASKS, CommGraph, sum_edges
from toruscast.text import counted
from toruscast.typing import Floats

from .dialect import Dialect
from .graphs import (
    GraphOptions,
    find_rank_files,
    has_rank_files,
    missing_rank_error,
    with_reverse_edges,
)
from .source import NUMBER, Source, TextFile, parse_whole, read_text, warn_about

# First letters of lines: E for point-to-point, I for messages of collectives, S and R for one-sided
# put and get, C for bytes passed to collectives.
_KINDS = {"all": "EISR", "point_to_point": "E", "collective": "I"}
_AMOUNT = r"([0-9]{1,18}) bytes\t([0-9]{1,18}) msgs sent"
_EDGE = re.compile(rf"([EISRC])\t([0-9]{{1,9}})\t([0-9]{{1,9}})\t{_AMOUNT}(?:\t[0-9,]*)?")
_SUMMARY = re.compile(rf"(?:O2A|A2O|A2A)\t[0-9]{{1,9}}\t{_AMOUNT}")
_MONITORED = re.compile(rb"# POINT TO POINT|# OSC|# COLLECTIVES|([EISRC]|O2A|A2O|A2A|D)\t")
_COMMUNICATOR = re.compile(r"D\t.*\tprocs: ([0-9,]*)")


@dataclass
class _MonitoringData:
    """Content of monitoring files."""

    kinds: str  # letters of the lines to read
    # Source, destination, bytes and messages.
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    senders: set[int] = field(default_factory=set)
    largest: int = -1  # largest rank
    n_files: int = 0
    collective_bytes: float = 0  # passed to collectives (lines C), whose messages are lines I
    has_collective_messages: bool = False


def _is_open_mpi(source: Source) -> bool:
    if not source.is_file:
        return has_rank_files(source.path, "prof")
    return bool(_MONITORED.match(source.start.lstrip()[:200]))


def _read_monitoring(source: Source, options: GraphOptions) -> CommGraph:
    """Read the file of each rank, or one file with the output of all ranks."""
    data = _MonitoringData(_KINDS[options.include])
    if source.is_file:
        _add_lines(source.text, data)
        n_ranks = max(data.largest + 1, data.n_files)
        if 0 < data.n_files < n_ranks:
            missing = next((r for r in range(n_ranks) if r not in data.senders), "not known")
            found = f"{data.n_files} of {n_ranks}; the first missing is {missing}"
            raise source.text.fault("ranks missing", None, found, "the output of all ranks")
    else:
        files = find_rank_files(source.path, "prof")
        n_ranks = len(files)
        for rank, file in files.items():
            _add_lines(read_text(file), data, rank)
        if data.largest >= n_ranks:
            raise missing_rank_error(source.path, files, n_ranks)
    is_missing = data.collective_bytes and not data.has_collective_messages
    if is_missing and options.include != "point_to_point":
        reason = "messages of collectives were not monitored"
        options.omit("collective operations", "C", data.collective_bytes, reason)
    n_tasks = options.resolve_n_tasks(n_ranks, source.path)
    columns = np.array(data.edges, dtype=np.int64).reshape(-1, 4).T
    with at_file(source.path):
        return sum_edges(n_tasks, *columns, name=options.name)


def _add_lines(text: TextFile, data: _MonitoringData, rank: int | None = None) -> None:
    """Add the lines of a file to ``data``; if a ``rank`` wrote the file, only it may send."""
    opened = closed = 0
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = raw.rstrip()
        if not line or line.startswith("#"):
            opened += line == "# POINT TO POINT"
            closed += line == "# COLLECTIVES"
            continue
        if match := _EDGE.fullmatch(line):
            kind, source, destination, nbytes, messages = match.groups()
            sender, other = int(source), int(destination)
            if max(sender, other) >= MAX_TASKS:
                raise text.fault("bad rank", number, line, f"less than {MAX_TASKS}")
            if rank is not None and sender != rank:
                raise text.fault("sender is not the rank of the file", number, sender, rank)
            data.senders.add(sender)
            data.largest = max(data.largest, sender, other)
            if kind == "C":
                data.collective_bytes += int(nbytes)
            data.has_collective_messages |= kind == "I"
            if kind in data.kinds:
                # The data of a one-sided get travels to the rank that reports it.
                endpoints = (other, sender) if kind == "R" else (sender, other)
                data.edges.append((*endpoints, int(nbytes), int(messages)))
        elif match := _COMMUNICATOR.fullmatch(line):
            members = [int(r[:10]) for r in match[1].split(",") if r]
            data.largest = max(data.largest, *members, -1)
        elif not _SUMMARY.fullmatch(line):
            expected = "E <source> <destination> <n> bytes <m> msgs sent, "
            expected += "or I, S, R, C, D, O2A, A2O, A2A"
            raise text.fault("bad monitoring line", number, line, expected)
    if opened != closed:
        raise text.fault("truncated monitoring output", None, f"{opened} starts, {closed} ends")
    data.n_files += opened


OPEN_MPI = Dialect(
    name="open-mpi",
    uses=("include",),
    holds="graph",
    summed=True,
    title="monitoring output of Open MPI (pml_monitoring_enable)",
    recognise=_is_open_mpi,
    read=_read_monitoring,
    documentation="""
A folder of files such as `app.0.prof`, `app.1.prof`, ..., their common prefix `folder/app`, or one
file with all of them. `--include` (`include=` in Python) selects point-to-point messages (lines
`E`), messages of collectives (`I`), or all, including one-sided traffic (`S` and `R`). If Open MPI
implements one-sided operations by messages, these messages are in lines `I`.
""",
    example="""# POINT TO POINT
E\t0\t1\t100 bytes\t4 msgs sent\t1,2,1
I\t0\t1\t8 bytes\t1 msgs sent\t0,1
# OSC
# COLLECTIVES
D\tMPI_COMM_WORLD\tprocs: 0,1
# POINT TO POINT
E\t1\t0\t50 bytes\t2 msgs sent\t2
# OSC
# COLLECTIVES
D\tMPI_COMM_WORLD\tprocs: 0,1
""",
)


_MATRIX_START = re.compile(r"[@\s-]*Start Communication Matrix[\s-]*", re.I)
_MATRIX_END = re.compile(r"[@\s-]*End( (of )?(Communication Matrix|Report))?[\s-]*", re.I)
_MATRIX_HEAD = re.compile(
    r"Statistics of rank: *[0-9]+"
    r"|(src|source)\s+(dst|target)\s+(bytes|total amount)\s+(total )?count",
    re.I,
)
ASSIGNMENT = "@ MPI Task Assignment"
_SECTION = re.compile(r"@-+ *(.*?) *-*")
_SECTIONS = re.compile(r"MPI Time|Callsite|Aggregate|MPI-IO|Message|Task|End\b", re.I)
_SENT = "Callsite Message Sent"
_SENT_BY_RANK = re.compile(
    r"(\w+) +[0-9]+ +[0-9]+ +[0-9]+(?: +[0-9.e+-]+){3} +([0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]{1,2})?)"
)
_ROOTED = ("Bcast", "Reduce", "Gather", "Gatherv", "Scatter", "Scatterv")
_NOT_IN_MATRIX = "the matrix contains only messages and rooted collectives"


def _read_mpip(source: Source, options: GraphOptions) -> CommGraph:
    """Read the communication matrix; ``include`` may select or exclude rooted collectives."""
    rows, n_assigned = _read_mpip_rows(source.text, options)
    columns = np.array(rows, np.int64).reshape(-1, 4).T
    size = max(int(columns[:2].max(initial=0)) + 1, n_assigned)
    n_tasks = options.resolve_n_tasks(size, source.path)
    is_remote = columns[0] != columns[1]
    with at_file(source.path):
        # The diagonal contains the sums of the rows, not self-messages.
        total = sum_edges(n_tasks, *columns[:, is_remote])
    rooted = _find_rooted_collectives(total)
    if rooted.any() and options.include == "all":
        found = f"{rooted[0].sum():.15g} bytes between task 0 and all others"
        hint = 'include="point_to_point" (--include point_to_point) excludes them'
        warn_about(source.path, f"{found} look like rooted collectives; {hint}")
    amounts = np.stack([total.nbytes, total.n_messages])
    if options.include != "all":
        amounts = rooted if options.include == "collective" else amounts - rooted
    used = (amounts > 0).any(axis=0)
    src, dst = total.src[used], total.dst[used]
    return CommGraph(n_tasks, src, dst, *amounts[:, used], name=options.name)


def _find_rooted_collectives(comm: CommGraph) -> Floats:
    """Estimate how much of each edge's traffic belongs to rooted collectives.

    Return bytes and messages, (2, n_edges). mpiP records such collectives as equal messages between
    task 0 and each other task. The estimate is the minimum over these edges, provided that most of
    them carry exactly this minimum.
    """
    n = comm.n_tasks
    rooted = np.zeros((2, comm.n_edges))
    is_other = (comm.src != 0) & (comm.dst != 0) & (comm.nbytes > 0)
    # If all other pairs communicate too, rooted collectives cannot be distinguished.
    if n < 4 or is_other.sum() >= (n - 1) * (n - 2):
        return rooted
    amounts = np.stack([comm.nbytes, comm.n_messages])
    for tasks in (comm.src, comm.dst):
        edges = np.flatnonzero((tasks == 0) & (comm.n_messages > 0))
        if edges.size == n - 1:
            minimum = amounts[:, edges].min(axis=1, keepdims=True)
            n_minimal = (amounts[:, edges] == minimum).all(axis=0).sum()
            if n_minimal > (n - 1) / 2:
                rooted[:, edges] = minimum
    return rooted


def _read_mpip_rows(text: TextFile, options: GraphOptions) -> tuple[list[tuple[int, ...]], int]:
    """Return (source, target, bytes, messages) of each matrix entry, and the number of tasks."""
    rows: list[tuple[int, ...]] = []
    in_matrix, has_end, n_tasks, title = False, False, 0, ""
    collective: dict[str, float] = defaultdict(float)
    limits = {"source": MAX_TASKS - 1, "target": MAX_TASKS - 1, "bytes": None, "messages": None}
    for number, line in enumerate(text.raw_lines(), start=1):
        if line.startswith(ASSIGNMENT):
            n_tasks += 1
        elif _MATRIX_START.fullmatch(line):
            in_matrix = True
        elif in_matrix and _MATRIX_END.fullmatch(line):
            in_matrix, has_end, title = False, True, ""
        elif not in_matrix and (section := _SECTION.fullmatch(line)):
            title = section[1]
            if not _SECTIONS.match(title):
                options.omit("section", title)
        elif not in_matrix and (call := _SENT_BY_RANK.fullmatch(line)) and title.startswith(_SENT):
            # The matrix already contains sends and rooted collectives.
            if not (SENDS.fullmatch(f"MPI_{call[1]}") or call[1] in _ROOTED):
                collective[call[1]] += float(call[2])
        elif not (in_matrix or title or line.startswith("@ ") or not line.strip(" -")):
            options.omit("line", f"{number}: {line}")
        elif in_matrix and (cells := line.split()) and not _MATRIX_HEAD.fullmatch(line.strip()):
            if len(cells) != len(limits):
                expected = " ".join(limits)
                raise text.fault("bad line of the communication matrix", number, line, expected)
            named_cells = zip(limits, cells, strict=True)
            values = (parse_whole(text, number, n, cell, limits[n]) for n, cell in named_cells)
            rows.append(tuple(values))
    if options.include != "point_to_point":
        for name, nbytes in collective.items():
            options.omit("collective operation", f"MPI_{name}", nbytes, _NOT_IN_MATRIX)
    if in_matrix:
        raise text.fault("truncated mpiP report", None, "no end of the communication matrix")
    if not has_end:
        message = "mpiP report without a communication matrix"
        expected = "a section 'Start Communication Matrix', which mpiP writes when built for it"
        raise text.fault(message, None, "only calls and their sites", expected)
    return rows, n_tasks


MPIP = Dialect(
    name="mpip",
    uses=("include",),
    holds="graph",
    summed=True,
    title="report of mpiP with a communication matrix",
    recognise=lambda source: source.start.lstrip()[:6] == b"@ mpiP",
    read=_read_mpip,
    documentation="""
The section `Communication Matrix`: source, target, bytes and messages. The diagonal contains the
sums of the rows and is ignored. mpiP records rooted collectives as equal messages between task 0
and all others. toruscast estimates their amount; `--include point_to_point` excludes them and
`--include collective` selects only them. Other collectives are not counted; the answer gives their
bytes from the section `Callsite Message Sent`.
""",
    example="""@ mpiP
@ Version                  : 3.5.0
@--- Start Communication Matrix ---
src\tdst\tbytes\tcount
0\t0\t8192\t4
0\t1\t8192\t4
1\t0\t4096\t2
1\t1\t4096\t2
@--- End ---
""",
)


PAIR = re.compile(r"\s*([0-9]{1,18})\s*,\s*([0-9]{1,18})\s*=\s*(\S+)\s*")
TITLE = re.compile(r"-+\s*Graph Information\s*-+")
# Lines to skip: horizontal rules, and statistics such as "Average degree: 4".
RULE = re.compile(r"-+.*|[A-Za-z][\w ]*:.*")
_STATISTICS = re.compile(
    r"-+( *(Graph|Connectivity|Centrality|Distance|Clustering) (Info|Stat)[A-Za-z ]*-+)?"
    r"|(Average|Standard|Degree|Scale|Characteristic|Graph|Global|Number) [A-Za-z ]*:.*",
    re.I,
)


def _is_graph_stats(source: Source) -> bool:
    first = next((line for line in source.raw_lines if line.strip()), "")
    return bool(TITLE.fullmatch(first.strip()) or PAIR.fullmatch(first))


def _read_graph_stats(source: Source, options: GraphOptions) -> CommGraph:
    """Read the bytes of each pair; each direction carries half of them as one message."""
    text = source.text
    line_of_pair: dict[tuple[int, int], int] = {}
    amounts: list[float] = []
    for number, line in enumerate(text.raw_lines(), start=1):
        if not line.strip() or RULE.fullmatch(line.strip()):
            if line.strip() and not _STATISTICS.fullmatch(line.strip()):
                options.omit("line", f"{number}: {line.strip()}")
            continue
        match = PAIR.fullmatch(line)
        amount = float(match[3]) if match and NUMBER.fullmatch(match[3]) else -1.0
        if match is None or not 0 <= amount <= 1e300:
            raise text.fault("bad line of a pair", number, line, "TASK , TASK = BYTES")
        tasks = [parse_whole(text, number, "task", match[i], MAX_TASKS - 1) for i in (1, 2)]
        text.record_once("pair", (min(tasks), max(tasks)), number, line_of_pair)
        amounts.append(amount)
    if not line_of_pair:
        raise text.fault("file without data")
    first, second = np.array(list(line_of_pair), np.int64).T
    is_remote, values = first != second, np.array(amounts)
    n_tasks = options.resolve_n_tasks(int(second.max()) + 1, source.path)
    # The bytes of a pair are the sum of both directions; self-messages have only one direction.
    nbytes = np.where(is_remote, values / 2, values)
    with at_file(source.path):
        return CommGraph(n_tasks, *with_reverse_edges(first, second, nbytes), name=options.name)


GRAPH_STATS = Dialect(
    name="graph-stats",
    holds="graph",
    summed=True,
    title="pairs of tasks and their bytes: a , b = bytes",
    recognise=_is_graph_stats,
    read=_read_graph_stats,
    documentation="""
Output of post-processing scripts for mpiP: a line for each pair of tasks with the bytes of both
directions. Half of the bytes go each way, in one message, because the message count is unknown.
""",
    example="--------------- Graph Information----------------\n0 , 1 = 8192.0\n1 , 2 = 64.0\n",
)


_IPM_START = re.compile(
    rb"\s*+(?><\?xml[^>]*\?>\s*+)?(?><!--.*?-->\s*+)*+<ipm(_job_profile)?[\s>]", re.S
)
SENDS = re.compile(r"MPI_(Send|I?[bsr]?send|Sendrecv(_replace)?)", re.I)
RECEIVES = re.compile(r"MPI_(I?recv|Wait.*|Test.*|I?probe)", re.I)
_WHOLE = re.compile(r"[0-9]{1,15}")
_IPM_RANKS = (
    "IPM logs ranks within communicators, so messages in sub-communicators may have wrong ranks"
)
# Known elements and attributes of IPM 2.0. Others are reported as omitted.
_IPM_TAGS = {
    *("ipm", "ipm_job_profile", "ipm_job_start", "ipm_job_end", "task", "job", "host", "perf"),
    *("switch", "cmdline", "exec", "exec_bin", "env", "modules", "module", "ru_s_ti", "ru_s_tf"),
    *("ru_c_ti", "ru_c_tf", "call", "calltable", "section", "entry", "regions", "region", "func"),
    *("hpm", "counter", "internal", "hash", "hent", "mpi", "posixio", "omp", "cuda", "papi"),
}
_IPM_PARTS = {
    "ipm": {"version", "ipm_version"},
    "task": {
        *("ipm_version", "cookie", "mpi_rank", "mpi_size", "stamp_init", "stamp_final"),
        *("username", "groupname", "flags", "hostname", "pid"),
    },
    "hash": {"nlog", "nkey"},
    "hent": {
        *("key", "key_hi", "key_lo", "call", "bytes", "orank", "region", "callsite", "count"),
        *("tid", "op", "dtype", "type"),
    },
}


def _read_ipm(source: Source, options: GraphOptions) -> CommGraph:
    """Read the sends in the hash tables of all ranks; other calls with bytes are omitted."""
    text = source.text
    root = _parse_xml(text)
    _omit_unknown_parts(root, options)
    rows: list[tuple[int, int, int, int]] = []  # source, destination, bytes and messages
    n_used = 0
    for task in root.iter("task"):
        rank = _parse_attribute(text, task, "mpi_rank")
        n_ranks = task.get("mpi_size", "").strip()
        n_used = max(n_used, rank + 1, int(n_ranks) if _WHOLE.fullmatch(n_ranks) else 0)
        for entry in task.iter("hent"):
            call = entry.get("call", "")
            if SENDS.fullmatch(call):
                count = _parse_attribute(text, entry, "count")
                nbytes = _parse_attribute(text, entry, "bytes")
                partner = _parse_attribute(text, entry, "orank")
                rows.append((rank, partner, nbytes * count, count))
            elif not RECEIVES.fullmatch(call):
                nbytes = _parse_attribute(text, entry, "bytes", "0")
                count = _parse_attribute(text, entry, "count", "1")
                if nbytes or not call.startswith("MPI_"):
                    total = float(nbytes) * count
                    options.omit("call", call or "?", total, times=max(1, count))
    if not rows:
        expected = 'entries such as <hent call="MPI_Isend" bytes= orank= count=>, '
        expected += "which IPM writes with IPM_LOG=full"
        raise text.fault("IPM log without a message", None, "no hash entry of a send", expected)
    n_tasks = options.resolve_n_tasks(max(n_used, 1 + max(row[1] for row in rows)), source.path)
    pairs = {row[:2] for row in rows}
    if one_way := [(src, dst) for src, dst in pairs if (dst, src) not in pairs]:
        found = f"{counted(len(one_way), 'pair')} of ranks with messages one way only"
        src, dst = min(one_way)
        warn_about(source.path, f"{found}, such as {src} -> {dst}: {_IPM_RANKS}")
    with at_file(source.path):
        return sum_edges(n_tasks, *zip(*rows, strict=True), name=options.name)


def _omit_unknown_parts(root: ElementTree.Element, options: GraphOptions) -> None:
    """Record unknown elements, attributes and texts of an IPM log as omitted."""
    for element in root.iter():
        if element.tag not in _IPM_TAGS:
            options.omit(f"<{element.tag}>")
        if element.tag in _IPM_PARTS:
            for name in {*element.keys()} - _IPM_PARTS[element.tag]:
                options.omit(f"attribute {name} of <{element.tag}>")
            texts = (element.text, *(part.tail for part in element))
            if element.tag != "hent" and (found := "".join(filter(None, texts)).strip()):
                options.omit(f"text in <{element.tag}>", found[:80])


def _parse_xml(text: TextFile) -> ElementTree.Element:
    """Return the root of a log; entities raise an error, because they may expand to any size."""
    if b"<!DOCTYPE" in text.data or b"<!ENTITY" in text.data:
        raise text.fault("XML with entities", None, "<!DOCTYPE or <!ENTITY", "a log of IPM")
    try:
        return ElementTree.fromstring(text.data)
    except ElementTree.ParseError as error:
        found = str(error).partition(":")[0]
        raise text.fault("damaged XML", error.position[0], found, "a log of IPM") from None


def _parse_attribute(
    text: TextFile, element: ElementTree.Element, name: str, default: str = ""
) -> int:
    """Return a whole number from an attribute, or ``default`` if it is missing or empty."""
    value = (element.get(name) or default).strip()
    top = MAX_TASKS - 1 if name in ("mpi_rank", "orank") else 10**15
    if not _WHOLE.fullmatch(value) or int(value) > top:
        raise text.fault(f"bad {name} of <{element.tag}>", None, value or "none", f"0 to {top}")
    return int(value)


IPM = Dialect(
    name="ipm",
    holds="graph",
    summed=True,
    title="XML log of IPM",
    recognise=lambda source: bool(_IPM_START.match(source.start[:4096])),
    read=_read_ipm,
    documentation="""
The hash tables of a full log (`IPM_LOG=full`): entries of sends with the `bytes` of a message,
`orank` and `count`. Collectives are not counted; the answer gives their bytes. IPM logs the partner
by its rank in the communicator of the call, and ranks of sub-communicators cannot be translated. A
warning counts pairs with messages in one direction only.
""",
    example="""<?xml version="1.0"?>
<ipm>
<task mpi_rank="0" mpi_size="2"><hash>
<hent call="MPI_Isend" bytes="4096" orank="1" count="2"/>
</hash></task>
<task mpi_rank="1" mpi_size="2"><hash>
<hent call="MPI_Isend" bytes="64" orank="0" count="1"/>
</hash></task>
</ipm>
""",
)
DIALECTS = (OPEN_MPI, MPIP, GRAPH_STATS, IPM)
