"""Files that no dialect reads: what each is, and what to do with it."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .source import Source

START = 4096
# A number that may have a decimal comma.
NUMBER = re.compile(r"[+-]?[0-9]*([.,][0-9]+)?([eE][+-]?[0-9]+)?")
COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile("[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
_JSON = re.compile(r"\s*[\[{]\s*([\"\[{\]}]|-?[0-9]|$)")
_XML = re.compile(r"\s*<[?!a-zA-Z]")
_RATE = re.compile(r"[^\s=]+\s+[^\s=]+\s+[0-9.]+\s*(k|M|G|T)?i?(bps|bit/s|b/s|Bps|B/s)\b.*", re.I)


@dataclass(frozen=True)
class Foreign:
    """What a file is, and the remedy.

    Parameters
    ----------
    name : str
        What it is.
    remedy : str
        What to use in its place; empty where nothing better is known than a format that is read.
        If it is ours: what takes it.
    ours : bool
        Whether toruscast wrote it or reads it elsewhere.
    sure : bool
        Whether it is this even where a dialect would take it.
    line : int or None
        Where it shows, from 1.
    """

    name: str
    remedy: str = ""
    ours: bool = False
    sure: bool = False
    line: int | None = None


_GRAPHS = "NetworkX to read it and CommGraph.from_networkx to take it over, or a CSV src,dst,nbytes"
_UNPACK = "the file unpacked, or packed with gzip"
_EXPORT = "a CSV with the columns src,dst,nbytes"
_TORUS = "the sizes of the torus, such as 4x4x8"
_TOOL = "the answer of the program that was given it"


def _known(
    sign: bytes, name: str, remedy: str = "", **more: bool
) -> tuple[re.Pattern[bytes], Foreign]:
    return re.compile(sign, re.S | re.I), Foreign(name, remedy, **more)


# What may stand above the first word of a file.
_ABOVE = re.compile(
    rb"(?:\xef\xbb\xbf|\s++|<\?[^>]*+>|<!--(?:[^-]|-(?!->))*+-->|//[^\n]*+\n|/\*(?:[^*]|\*(?!/))*+\*/"
    rb"|[#%][^\n]*+\n)*+"
)
_BY_START = (
    _known(rb"\x89HDF", "HDF5", _EXPORT),
    _known(rb"CDF[\x01\x02\x05]", "NetCDF", _EXPORT),
    _known(rb"\x28\xb5\x2f\xfd", "Zstandard, which is not unpacked", _UNPACK),
    _known(rb"\xfd7zXZ", "xz, which is not unpacked", _UNPACK),
    _known(rb"BZh[1-9]", "bzip2, which is not unpacked", _UNPACK),
    _known(rb"7z\xbc\xaf", "7-Zip, which is not unpacked", _UNPACK),
    _known(rb"\x80[\x02-\x05]", "a pickle, which is never loaded", "an .npz or a CSV"),
    _known(rb"\x93NUMPY", "an array of NumPy", "an .npz, or the matrix as text"),
    _known(rb"\x7fELF", "a program", _TOOL),
    _known(rb"%PDF", "PDF", _EXPORT),
    _known(rb"\x89PNG|GIF8|\xff\xd8\xff", "a picture", _EXPORT),
    _known(rb"#Paraver", "a trace of Paraver", "OTF2, mpiP or a CSV src,dst,nbytes"),
    _known(
        rb"[0-9]+ templated_functions", "a profile of TAU", "OTF2, mpiP or a CSV src,dst,nbytes"
    ),
    _known(rb"<graphml", "GraphML", _GRAPHS),
    _known(rb"<gexf", "GEXF", _GRAPHS),
    _known(
        rb"\{(?=.{0,300}\"(directed|multigraph)\"\s*:)(?=.{0,300}\"(nodes|links|edges)\"\s*:)"
        rb"|\{\s*\"(nodes|links|edges)\"\s*:\s*\[\s*\{\s*\"(id|source|name)\"",
        "a JSON graph of nodes and links",
        _GRAPHS,
    ),
    _known(rb"(strict\s+)?(di)?graph\b[^\[{\n]{0,200}\s*\{", "DOT", _GRAPHS),
    _known(rb"((Creator|Version)\b[^\n]*+\n\s*)*graph\s*\[", "GML", _GRAPHS),
    _known(
        rb"\(\s*(block|cyclic|plane)\b",
        "a distribution of tasks by a word",
        "the nodes of the tasks: flux job taskmap, or (vector,(first node, nodes, tasks a node))",
    ),
    _known(rb"\*(Vertices|Network)\b", "Pajek", _GRAPHS),
    _known(rb"@(nodes|arcs|edges)\b", "LGF, a graph of LEMON", _EXPORT),
    _known(rb"LEDA\.GRAPH", "LEDA", _GRAPHS),
    _known(rb">>(graph|sparse|digraph)6<<", "graph6 or sparse6", _GRAPHS),
    _known(
        rb"(c\b[^\n]*+\n)*+p\s+(sp|edge|edges|col|max|min)\s+[0-9]+\s+[0-9]+", "DIMACS", _EXPORT
    ),
    _known(rb"dl\s+n\s*=", "UCINET DL", _EXPORT),
    _known(
        rb"\{\s*\"displayTimeUnit\":\s*\"ns\",\s*\"otherData\":\s*\{\s*\"workload\"",
        "a trace of toruscast simulate",
        "ui.perfetto.dev shows it",
        ours=True,
    ),
    _known(rb"\{.{0,150}\"traceEvents\"", "a Chrome trace", "Chakra or OTF2"),
    _known(
        rb"\{[^\n]{0,200}\"logger\": \"toruscast",
        "a log of toruscast (--log-file)",
        "no command reads it",
        ours=True,
    ),
    _known(
        rb"PARAMETER\s+\w|POINTS\s|\{.{0,500}\"(parameters|measurements|params)\"\s*:",
        "measurements of Extra-P",
        "'toruscast pmnf fit' reads it",
        ours=True,
    ),
    _known(
        rb"\{.{0,120}\"(toruscast|application)\"\s*:",
        "an answer of toruscast (--json)",
        "no command reads it",
        ours=True,
    ),
    _known(
        rb"\[?requirements\b",
        "an application for co-design",
        "'toruscast codesign' reads it",
        ours=True,
    ),
    _known(
        rb"\[(slurm|pbs|lsf|sge|oar|htcondor)\]",
        "a cluster's file",
        "--cluster takes it",
        ours=True,
    ),
    _known(
        rb"(tleaf|ltleaf|deco|cmpltw?|hcub|sub)\b[ \t]*[0-9]",
        "a target of Scotch that is no torus",
        "torus3D 4 4 8 or mesh2D 4 4, or sizes such as 4x4x8",
        sure=True,
    ),
    _known(
        rb"(SwitchName|NodeName|PartitionName|ClusterName)=", "a configuration of Slurm", _TORUS
    ),
    _known(rb"(import[^\n;]*+;\s*)*(simple|network|module)\s+\w+\s*[{:]?", "OMNeT++ NED", _TORUS),
    _known(rb"Switch\s+[0-9]+\s+\"|vendid=", "output of ibnetdiscover", _TORUS),
    _known(
        rb"router\s+[0-9]+\s+(node|router)\s+[0-9]+", "links of BookSim (anynet)", _TORUS, sure=True
    ),
)


def _table(*columns: str, name: str, remedy: str, sure: bool = False) -> tuple[set[str], Foreign]:
    return set(columns), Foreign(name, remedy, ours=True, sure=sure)


_BY_COLUMNS = (
    _table(
        *("mapping", "p_best"),
        name="an answer of toruscast rank (--csv)",
        remedy="its times are forecasts, not measured",
        sure=True,
    ),
    _table(
        *("link", "wire_bytes"),
        name="links of toruscast simulate (--links)",
        remedy="no command reads it",
    ),
    _table("link", "bandwidth", name="slow links", remedy="--slow-links takes it"),
    _table(
        *("job", "interconnect"),
        name="jobs on several interconnects",
        remedy="'toruscast interconnect' reads it",
    ),
    _table(
        *("mapping", "avg_bytes"),
        name="features of mappings (toruscast features)",
        remedy="no command reads it",
    ),
)


def are_numbers(line: str) -> bool:
    """Whether a line holds numbers separated by semicolons, and nothing else.

    Examples
    --------
    >>> are_numbers("0;1;64,5"), are_numbers("a;1"), are_numbers("1")
    (True, False, False)
    """
    parts = [part.strip() for part in line.split(";")]
    return any(parts) and len(parts) > 1 and all(NUMBER.fullmatch(part) for part in parts)


def foreign(source: Source) -> Foreign | None:
    """Return what a file is that no dialect reads; None if it looks like nothing known.

    What is not ``sure`` only looks so: a dialect that recognises the file is right.
    """
    return next(iter(source.known), None)


def surely_foreign(source: Source) -> Foreign | None:
    """Return what a file is although its numbers fit a dialect; None if nothing speaks for that."""
    return next((found for found in source.known if found.sure), None)


def known_files(source: Source) -> Iterator[Foreign]:
    """Give all that a file may be, by its first bytes and lines."""
    start = source.start[:START]
    bare = start[_ABOVE.match(start).end() :]  # type: ignore[union-attr]
    for sign, known in _BY_START:
        if sign.match(bare) or sign.match(start):
            yield known
    looks: tuple[Callable[[Source, bytes], Foreign | None], ...] = (
        *(_archive, _page, _columns, _rates, _decimal_comma, _hypergraph, _jobs, _ranges),
        *(_tasks_of_hosts,),
        _look,
    )
    for look in looks:
        if (found := look(source, bare)) is not None:
            yield found


def _archive(source: Source, _: bytes) -> Foreign | None:
    """Models and samples in the containers of other formats."""
    if source.start.startswith(b"PK\x03\x04"):
        mark = "toruscast predictor"
        if any(text.encode(code) in _members(source) for text in [mark] for code in _TEXTS):
            return Foreign("a model of toruscast train", "--model takes it", True, True)
    if source.start.startswith((b"PAR1", b"SQLite format 3")):
        if b"toruscast samples" in source.data:
            return Foreign("a table of samples", "--samples takes it", True, True)
        if source.start.startswith(b"SQLite"):
            return Foreign("an SQLite database", _EXPORT)
    return None


_TEXTS = ("utf-8", "utf-32-le")
_PEEKED = 2**16


def _members(source: Source) -> bytes:
    """The start of each of the first members of a zip archive."""
    found = []
    with suppress(Exception), zipfile.ZipFile(io.BytesIO(source.data)) as archive:
        for name in archive.namelist()[:64]:
            with archive.open(name) as member:
                found.append(member.read(_PEEKED))
    return b"\0".join(found)


def _page(_: Source, bare: bytes) -> Foreign | None:
    if not bare[:15].lower().startswith((b"<!doctype html", b"<html")):
        return None
    return Foreign("a web page", _EXPORT)


def _columns(source: Source, _: bytes) -> Foreign | None:
    names = set(re.split(r"[,;\t ]+", source.first_line()[1]))
    return next((known for columns, known in _BY_COLUMNS if columns <= names), None)


def _rates(source: Source, _: bytes) -> Foreign | None:
    """Lines of two ends and a rate with its unit, as ns-3, HPCC and SimAI have them."""
    for number, line in source.lines:
        if _RATE.fullmatch(line):
            return Foreign("links of a network with their rates", _TORUS, sure=True, line=number)
    return None


def _decimal_comma(source: Source, _: bytes) -> Foreign | None:
    """Numbers between blanks or semicolons, of which one has a comma."""
    if any("process_id" in line.lower() for _, line in source.lines[:2]):
        # MapLib's tasks of a place.
        return None
    for number, line in source.lines:
        words = [word.strip() for word in line.split(";" if ";" in line else None)]
        if len(words) < 2 or COMMA.fullmatch(words[0]):
            continue
        if not all(NUMBER.fullmatch(word) or _THOUSANDS.fullmatch(word) for word in words):
            continue
        many = next((word for word in words if word.count(",") > 1), None)
        if many is not None:
            remedy = f"a number without commas: {many.replace(',', '')}"
            return Foreign(f"{many}, with commas", remedy, sure=True, line=number)
        if comma := next((word for word in words if COMMA.fullmatch(word)), None):
            remedy = f"a decimal point: {comma.replace(',', '.')}"
            if _THOUSANDS.fullmatch(comma):
                remedy += f"; or {comma.replace(',', '')} if the comma parts the thousands"
            return Foreign(f"{comma}, a decimal comma", remedy, sure=True, line=number)
    return None


def _numbers(line: str) -> list[int]:
    words = line.split()
    return [int(word) for word in words] if all(map(_WHOLE.fullmatch, words)) else []


_WHOLE = re.compile("[0-9]{1,10}")
_NETS = "edges src dst bytes: a net of several vertices is none"
_HYPERGRAPHS = (".hgr", ".hg", ".hmetis", ".patoh", ".u", ".netd")


def _hypergraph(source: Source, _: bytes) -> Foreign | None:
    """Nets below the header of hMETIS, or of PaToH and Zoltan, where it is no graph of METIS."""
    lines = [line for _, line in source.lines]
    head = _numbers(lines[0]) if lines else []
    rows = [_numbers(line) for line in lines[1:]]
    named = Path(source.path).name.lower().removesuffix(".gz").endswith(_HYPERGRAPHS)
    if len(head) < 2 or not rows or not all(rows):
        return None
    whole = len(lines) < _MANY
    if len({len(row) for row in (head, *rows)}) == 1 and not named:
        return None
    if len(head) >= 4 and head[0] in (0, 1):
        base, vertices, nets, pins = head[:4]
        weights = len(head) > 4 and head[4] in (2, 3)
        nodes = [row[weights:] for row in rows[:nets]]
        inside = all(base <= node < vertices + base for row in nodes for node in row)
        fits = not whole or (len(nodes) == nets and sum(map(len, nodes)) == pins)
        return (
            Foreign("a hypergraph of PaToH or Zoltan", _NETS, sure=True)
            if inside and fits
            else None
        )
    if len(head) > 3 or (len(head) == 3 and head[2] not in (0, 1, 10, 11)):
        return None
    weighed = len(head) == 3 and head[2] in (1, 11)
    for nets, vertices in ((head[0], head[1]), (head[1], head[0])):
        nodes = [row[weighed:] for row in rows[:nets]]
        inside = all(1 <= node <= vertices for row in nodes for node in row)
        counted = not whole or len(rows) in (nets, nets + vertices)
        if inside and counted and (named or not _mutual(nodes, head)):
            return Foreign("a hypergraph of hMETIS", _NETS, sure=True)
    return None


def _mutual(rows: list[list[int]], head: list[int]) -> bool:
    """Whether rows may be the neighbours of vertices, of which most name each other."""
    if len(head) == 3 and head[2]:
        # Behind each neighbour stands its weight; with weights of vertices nothing is known.
        return head[2] != 1 or not any(len(row) % 2 == 0 for row in rows)
    pairs = {(vertex, other) for vertex, row in enumerate(rows, 1) for other in row}
    if any(vertex == other for vertex, other in pairs):
        return False
    seen = [pair for pair in pairs if pair[1] <= len(rows)]
    return 2 * sum(pair[::-1] in pairs for pair in seen) > len(seen)


_MANY = 64


def _jobs(source: Source, _: bytes) -> Foreign | None:
    """Rising numbers of nodes, each once, on lines of different lengths."""
    rows = [_numbers(line) for _, line in source.lines]
    # One number above the others may be the number of tasks above edges.
    body = rows[1:] if rows and len(rows[0]) == 1 else rows
    widths = {len(row) for row in body}
    if len(rows) < 2 or not all(rows) or (len(widths) == 1 and widths <= {1, 3, 4}):
        return None
    nodes = [node for row in rows for node in row]
    rising = all(row == sorted(row) for row in rows) and max(map(len, rows)) > 3
    if not rising or len({*nodes}) < len(nodes):
        return None
    return Foreign(
        "nodes of several jobs (an allocation of CODES)",
        "the traffic of one job; --allocation takes its nodes, one a line",
        sure=True,
    )


_SPAN = r"[0-9]+(?:-[0-9]+)?"
_SPANS = re.compile(rf"{_SPAN}(?:\s*,\s*{_SPAN})*")
_ORDER = re.compile(r"\s*#.*(grid_order|MPICH_RANK|rank[ _-]?(re)?order)", re.I)
_OF_HOSTS = re.compile(rf"[A-Za-z_][\w.\[\],-]*(?:\s*:\s*|\s+)({_SPANS.pattern})")


def _ranges(source: Source, _: bytes) -> Foreign | None:
    """Ranges on several lines, each closed: the tasks of a node, or the next ranks of an order."""
    lines = [line for _, line in source.lines]
    if len(lines) < 2 or not all(map(_SPANS.fullmatch, lines)) or "-" not in "".join(lines):
        return None
    named = Path(source.path).name.upper().startswith("MPICH_RANK_ORDER")
    if named or any(map(_ORDER.match, source.raw_lines)):
        return None
    return Foreign(
        "ranges of tasks, which may be those of each node or an order of ranks (Cray)",
        "with semicolons between the nodes (0-3;4-7), or below '# MPICH_RANK_ORDER'",
        sure=True,
        line=source.lines[0][0],
    )


def _tasks_of_hosts(source: Source, _: bytes) -> Foreign | None:
    """Tasks of hosts as launchers print them, where a line names several or has no colon."""
    lines = [line for _, line in source.lines[:8]]
    matches = [match for line in lines if (match := _OF_HOSTS.fullmatch(line))]
    if not lines or len(matches) < len(lines) or not any("-" in m[1] for m in matches):
        return None
    return Foreign("tasks of hosts", "a host, a colon and its tasks on each line: node017: 0-3,8")


def _look(source: Source, _: bytes) -> Foreign | None:
    """What the text looks like by its first signs."""
    start = source.start[:200].decode(errors="replace")
    if _JSON.match(start):
        return Foreign("JSON")
    if _XML.match(start):
        return Foreign("XML")
    return None
