"""Communication graphs from what profilers of MPI write: Open MPI's monitoring, mpiP and IPM."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from toruscast.files import at_file
from toruscast.mapping.comm_graph import MAX_TASKS, CommGraph, sum_edges
from toruscast.text import counted

from .dialect import Dialect
from .graphs import GraphOptions, both_ways, has_rank_files, missing_rank, rank_files
from .source import NUMBER, Source, Text, read_text, warn_of, whole

# E: sent by the application; I: sent within collectives; S, R: one-sided, put and got.
_KINDS = {"all": "EISR", "point_to_point": "E", "collective": "I"}
_AMOUNT = r"([0-9]{1,18}) bytes\t([0-9]{1,18}) msgs sent"
_EDGE = re.compile(rf"([EISRC])\t([0-9]{{1,9}})\t([0-9]{{1,9}})\t{_AMOUNT}(?:\t[0-9,]*)?")
_SUMMARY = re.compile(rf"(?:O2A|A2O|A2A)\t[0-9]{{1,9}}\t{_AMOUNT}")
_MONITORED = re.compile(rb"# POINT TO POINT|# OSC|# COLLECTIVES|([EISRC]|O2A|A2O|A2A|D)\t")
_COMMUNICATOR = re.compile(r"D\t.*\tprocs: ([0-9,]*)")


@dataclass
class _Traffic:
    """The lines read so far."""

    kinds: str
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    senders: set[int] = field(default_factory=set)
    largest: int = -1
    n_files: int = 0
    collective: float = 0
    """Bytes of the collective operations themselves, which their messages carry again."""
    inside: bool = False
    """Whether the messages of collective operations were monitored."""


def is_open_mpi(source: Source) -> bool:
    """Whether this is monitoring output, or a folder or prefix that may hold some."""
    if not source.is_file:
        return has_rank_files(source.path, "prof")
    return bool(_MONITORED.match(source.start.lstrip()[:200]))


def read_monitoring(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of a folder, of a prefix, or of all ranks in one file."""
    traffic = _Traffic(_KINDS[options.include])
    if source.is_file:
        _add_lines(source.text, traffic, None)
        size = max(traffic.largest + 1, traffic.n_files)
        if 0 < traffic.n_files < size:
            absent = next((r for r in range(size) if r not in traffic.senders), "not known")
            found = f"{traffic.n_files} of {size}; the first missing is {absent}"
            raise source.text.fault("ranks missing", None, found, "the output of all ranks")
    else:
        files = rank_files(source.path, "prof")
        size = len(files)
        for rank, file in files.items():
            traffic.senders = {rank}
            _add_lines(read_text(file), traffic, rank)
        if traffic.largest >= size:
            raise missing_rank(source.path, files, size)
    if traffic.collective and not traffic.inside and options.include != "point_to_point":
        why = "the messages of collective operations were not monitored"
        options.omit("amount of collective operations", "C", traffic.collective, why)
    columns = np.array(traffic.edges, dtype=np.int64).reshape(-1, 4).T
    with at_file(source.path):
        return sum_edges(options.at_least(size, source.path), *columns, name=options.name)


def _add_lines(text: Text, traffic: _Traffic, rank: int | None) -> None:
    """Add the lines of one file; ``rank``, where known, must be their sender."""
    opened = closed = 0
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = raw.rstrip()
        if not line or line.startswith("#"):
            opened += line == "# POINT TO POINT"
            closed += line == "# COLLECTIVES"
            continue
        if match := _EDGE.fullmatch(line):
            kind, s, d, nbytes, messages = match.groups()
            sender, other = int(s), int(d)
            if max(sender, other) >= MAX_TASKS:
                raise text.fault("bad rank", number, line, f"less than {MAX_TASKS}")
            if rank is not None and sender != rank:
                raise text.fault("sender is not the rank of the file", number, sender, rank)
            traffic.senders.add(sender)
            traffic.largest = max(traffic.largest, sender, other)
            if kind == "C":
                traffic.collective += int(nbytes)
            traffic.inside |= kind == "I"
            if kind in traffic.kinds:
                # What a rank got by one-sided reads travelled towards it.
                ends = (other, sender) if kind == "R" else (sender, other)
                traffic.edges.append((*ends, int(nbytes), int(messages)))
        elif match := _COMMUNICATOR.fullmatch(line):
            members = [int(r[:10]) for r in match[1].split(",") if r]
            traffic.largest = max(traffic.largest, *members, -1)
        elif not _SUMMARY.fullmatch(line):
            raise text.fault(
                "bad monitoring line",
                number,
                line,
                "E <source> <destination> <n> bytes <m> msgs sent, or I, S, R, C, D, O2A, A2O, A2A",
            )
    if opened != closed:
        raise text.fault("truncated monitoring output", None, f"{opened} starts, {closed} ends")
    traffic.n_files += opened


OPEN_MPI = Dialect(
    name="open-mpi",
    uses=("include",),
    holds="graph",
    summed=True,
    title="monitoring output of Open MPI (pml_monitoring_enable)",
    recognise=is_open_mpi,
    read=read_monitoring,
    documentation="""
A folder of files such as `app.0.prof`, `app.1.prof`, ..., their common prefix `folder/app`, or all
of them behind each other in one file. `--include` (`include=` in Python) chooses what the
application sent itself (lines `E`), what collective operations sent for it (`I`), or all, one-sided
traffic (`S` and `R`) too. Where Open MPI ran one-sided operations over messages, those count among
`I` already.
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
_NOT_IN_MATRIX = "the matrix holds only messages and operations with a root"
Matrix = NDArray[np.int64]


def read_mpip(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of the matrix; what is booked as rooted collectives can be chosen."""
    rows, stated = _mpip_rows(source.text, options)
    src, dst, nbytes, messages = np.array(rows, np.int64).reshape(-1, 4).T
    size = max(int(max(src.max(initial=0), dst.max(initial=0))) + 1, stated)
    n_tasks = options.at_least(size, source.path)
    apart = src != dst
    with at_file(source.path):
        # The diagonal holds what its row adds up to, not messages of a task to itself.
        total = sum_edges(n_tasks, *(c[apart] for c in (src, dst, nbytes, messages)))
    booked = booked_at_root(total)
    if booked.any() and options.include == "all":
        warn_of(
            source.path,
            f"{booked[0].sum():.15g} bytes between task 0 and all others look like "
            'rooted collectives, which mpiP books so; include="point_to_point" leaves them out '
            "(on the command line --include point_to_point)",
        )
    every = np.stack([total.nbytes, total.n_messages])
    amounts = {"all": every, "point_to_point": every - booked, "collective": booked}[
        options.include
    ]
    some = (amounts > 0).any(axis=0)
    return CommGraph(
        total.n_tasks, total.src[some], total.dst[some], *amounts[:, some], name=options.name
    )


def booked_at_root(comm: CommGraph) -> NDArray[np.float64]:
    """Return bytes and messages of each edge, (2, n_edges), that look like rooted collectives.

    mpiP books those as messages between task 0 and every other. They are the same on each of these
    edges, and all that there is on most of them.
    """
    n = comm.n_tasks
    booked = np.zeros((2, comm.n_edges))
    inner = (comm.src != 0) & (comm.dst != 0) & (comm.nbytes > 0)
    # In all-to-all traffic they cannot be told apart.
    if n < 4 or inner.sum() >= (n - 1) * (n - 2):
        return booked
    amounts = np.stack([comm.nbytes, comm.n_messages])
    for ends in (comm.src, comm.dst):
        at = np.flatnonzero((ends == 0) & (comm.n_messages > 0))
        if at.size == n - 1:
            least = amounts[:, at].min(axis=1, keepdims=True)
            if 2 * (amounts[:, at] == least).all(axis=0).sum() > n - 1:
                booked[:, at] = least
    return booked


def _mpip_rows(text: Text, options: GraphOptions) -> tuple[list[tuple[int, ...]], int]:
    """Source, target, bytes and messages of the matrix, and the number of tasks of the head."""
    rows: list[tuple[int, ...]] = []
    inside, closed, n_tasks, title = False, False, 0, ""
    collective: dict[str, float] = defaultdict(float)
    most = {"source": MAX_TASKS - 1, "target": MAX_TASKS - 1, "bytes": None, "messages": None}
    for number, line in enumerate(text.raw_lines(), start=1):
        if line.startswith(ASSIGNMENT):
            n_tasks += 1
        elif _MATRIX_START.fullmatch(line):
            inside = True
        elif inside and _MATRIX_END.fullmatch(line):
            inside, closed, title = False, True, ""
        elif not inside and (section := _SECTION.fullmatch(line)):
            title = section[1]
            if not _SECTIONS.match(title):
                options.omit("section", title)
        elif not inside and (call := _SENT_BY_RANK.fullmatch(line)) and title.startswith(_SENT):
            # Calls with a root are messages of the matrix.
            if not (SENDS.fullmatch(f"MPI_{call[1]}") or call[1] in _ROOTED):
                collective[call[1]] += float(call[2])
        elif not (inside or title or line.startswith("@ ") or not line.strip(" -")):
            options.omit("line", f"{number}: {line}")
        elif inside and (cells := line.split()) and not _MATRIX_HEAD.fullmatch(line.strip()):
            if len(cells) != len(most):
                expected = " ".join(most)
                raise text.fault("bad line of the communication matrix", number, line, expected)
            named = zip(most.items(), cells, strict=True)
            rows.append(tuple(whole(text, number, n, cell, top) for (n, top), cell in named))
    if options.include != "point_to_point":
        for name, nbytes in collective.items():
            options.omit("collective operation", f"MPI_{name}", nbytes, _NOT_IN_MATRIX)
    if inside:
        raise text.fault("truncated mpiP report", None, "no end of the communication matrix")
    if not closed:
        raise text.fault(
            "mpiP report without a communication matrix",
            None,
            "calls and their sites only",
            "a section 'Start Communication Matrix', which mpiP writes when built for it",
        )
    return rows, n_tasks


MPIP = Dialect(
    name="mpip",
    uses=("include",),
    holds="graph",
    summed=True,
    title="report of mpiP with a communication matrix",
    recognise=lambda source: source.start.lstrip()[:6] == b"@ mpiP",
    read=read_mpip,
    documentation="""
The section between `Start Communication Matrix` and its end: source, target, bytes and messages.
The diagonal holds the sums of the rows and is left out. mpiP books rooted collectives as messages
between task 0 and all others: the same amount on each of these edges. toruscast says how much that
seems to be; `--include point_to_point` leaves it out and `--include collective` keeps nothing else.
Other collective operations are not counted; their bytes are those of `Callsite Message Sent`.
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
# Lines of rules, and lines about the whole graph.
RULE = re.compile(r"-+.*|[A-Za-z][\w ]*:.*")
_STATISTICS = re.compile(
    r"-+( *(Graph|Connectivity|Centrality|Distance|Clustering) (Info|Stat)[A-Za-z ]*-+)?"
    r"|(Average|Standard|Degree|Scale|Characteristic|Graph|Global|Number) [A-Za-z ]*:.*",
    re.I,
)


def is_graph_stats(source: Source) -> bool:
    """Whether the first line is the title, or a pair with its bytes."""
    first = next((line for line in source.raw_lines if line.strip()), "")
    return bool(TITLE.fullmatch(first.strip()) or PAIR.fullmatch(first))


def read_graph_stats(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph: half of the bytes of a pair go each way, in one message."""
    text = source.text
    seen: dict[tuple[int, int], int] = {}
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
        ends = [whole(text, number, "task", match[i], MAX_TASKS - 1) for i in (1, 2)]
        pair = (min(ends), max(ends))
        if pair in seen:
            found = f"{pair[0]} , {pair[1]}, also on line {seen[pair]}"
            raise text.fault("pair stands twice", number, found, "each pair once")
        seen[pair] = number
        amounts.append(amount)
    if not seen:
        raise text.fault("file without data")
    a, b = np.array(list(seen), np.int64).T
    both, values = a != b, np.array(amounts)
    n_tasks = options.at_least(int(b.max()) + 1, source.path)
    # Both directions are summed in the file; messages of a task to itself have one only.
    nbytes = np.where(both, values / 2, values)
    with at_file(source.path):
        return CommGraph(n_tasks, *both_ways(a, b, nbytes), name=options.name)


GRAPH_STATS = Dialect(
    name="graph-stats",
    holds="graph",
    summed=True,
    title="pairs of tasks and their bytes: a , b = bytes",
    recognise=is_graph_stats,
    read=read_graph_stats,
    documentation="""
What scripts make of mpiP reports: a line for each pair of tasks with the bytes of both directions
together. Half of them go each way, in one message, because their number is not recorded.
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
    "IPM logs ranks within communicators, so messages inside of parts of MPI_COMM_WORLD may stand "
    "between other ranks"
)
# Elements and attributes of IPM 2.0; only those of sends hold messages between two ranks.
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


def read_ipm(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of all sends in the hash tables of the tasks."""
    text = source.text
    rows: list[tuple[int, int, int, int]] = []
    size = 0
    root = _xml_root(text)
    for element in root.iter():
        if element.tag not in _IPM_TAGS:
            options.omit(f"<{element.tag}>")
        if element.tag in _IPM_PARTS:
            for name in {*element.keys()} - _IPM_PARTS[element.tag]:
                options.omit(f"attribute {name} of <{element.tag}>")
            texts = (element.text, *(part.tail for part in element))
            if element.tag != "hent" and (found := "".join(filter(None, texts)).strip()):
                options.omit(f"text in <{element.tag}>", found[:80])
    for task in root.iter("task"):
        rank = _whole_of(text, task, "mpi_rank")
        stated = task.get("mpi_size", "").strip()
        size = max(size, rank + 1, int(stated) if _WHOLE.fullmatch(stated) else 0)
        for entry in task.iter("hent"):
            call = entry.get("call", "")
            if SENDS.fullmatch(call):
                count, nbytes = _whole_of(text, entry, "count"), _whole_of(text, entry, "bytes")
                rows.append((rank, _whole_of(text, entry, "orank"), nbytes * count, count))
            elif not RECEIVES.fullmatch(call):
                nbytes, count = (
                    _whole_of(text, entry, name) if entry.get(name) else least
                    for name, least in (("bytes", 0), ("count", 1))
                )
                if nbytes or not call.startswith("MPI_"):
                    amount = float(nbytes) * count
                    options.omit("call", call or "?", amount, times=max(1, count))
    if not rows:
        raise text.fault(
            "IPM log without a message",
            None,
            "no hash entry of a send",
            'entries such as <hent call="MPI_Isend" bytes= orank= count=>, which IPM writes with '
            "IPM_LOG=full",
        )
    src, dst, nbytes_, counts = zip(*rows, strict=True)
    n_tasks = options.at_least(max(size, max(dst) + 1), source.path)
    pairs = {*zip(src, dst, strict=True)}
    if alone := [(s, d) for s, d in pairs if (d, s) not in pairs]:
        warn_of(
            source.path,
            f"{counted(len(alone), 'pair')} of ranks with messages one way only, such as "
            f"{min(alone)[0]} -> {min(alone)[1]}: {_IPM_RANKS}",
        )
    with at_file(source.path):
        return sum_edges(n_tasks, src, dst, nbytes_, counts, name=options.name)


def _xml_root(text: Text) -> ElementTree.Element:
    if b"<!DOCTYPE" in text.data or b"<!ENTITY" in text.data:
        raise text.fault("XML with entities", None, "<!DOCTYPE or <!ENTITY", "a log of IPM")
    try:
        return ElementTree.fromstring(text.data)
    except ElementTree.ParseError as error:
        found = str(error).partition(":")[0]
        raise text.fault("damaged XML", error.position[0], found, "a log of IPM") from None


def _whole_of(text: Text, element: ElementTree.Element, name: str) -> int:
    value = element.get(name, "").strip()
    most = MAX_TASKS - 1 if name in ("mpi_rank", "orank") else 10**15
    if not _WHOLE.fullmatch(value) or int(value) > most:
        raise text.fault(f"bad {name} of <{element.tag}>", None, value or "none", f"0 to {most}")
    return int(value)


IPM = Dialect(
    name="ipm",
    holds="graph",
    summed=True,
    title="XML log of IPM",
    recognise=lambda source: bool(_IPM_START.match(source.start[:4096])),
    read=read_ipm,
    documentation="""
The hash tables of a full log (`IPM_LOG=full`): entries of sends with `bytes` of a message, `orank`
and `count`. Collective calls are not counted; the answer says how many bytes they are. IPM logs
the rank of a partner within the communicator of the call. The ranks of other communicators than
`MPI_COMM_WORLD` cannot be restored; a warning names pairs whose messages go one way only.
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
