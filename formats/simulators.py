"""Tori in the files of network simulators and of Scotch."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from keyword import iskeyword
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toruscast.errors import InputError
from toruscast.mapping.torus import TieRule, Torus
from toruscast.validation import read_bandwidth, read_seconds, read_sizes

from .dialect import Dialect
from .machine_file import check_supported, torus_at, whole_words, with_unit
from .source import (
    NUMBER,
    Source,
    Text,
    comments,
    label,
    warn_of,
    warn_of_unused,
    whole,
    write_text,
)

_CLUSTER = re.compile(r"<cluster\b([^<>]*)>", re.S)
_ATTRIBUTE = re.compile(r"(?<![\w:.-])([\w:.-]++)\s*+=\s*(\"[^\"]*\"|'[^']*')")
# Names of hosts and what they compute say nothing about the links.
_CLUSTER_KEYS = {
    *("id", "prefix", "suffix", "radical", "speed", "core", "topology", "topo_parameters"),
    *("bw", "lat", "limiter_link", "sharing_policy", "version", "encoding", "routing"),
}
_ELEMENT = re.compile(r"<(?!(?:platform|cluster|zone|AS)\b)(\w+)[^<>]*>")
_TAG = re.compile(r"<[^<>]*>")
_PLATFORM = re.compile(rb"\A(?>\s++|<\?xml[^>]*>|<!DOCTYPE platform[^>]*>)*+<platform\b")
_XML_COMMENT = re.compile(r"<!--(?>[^<]|<(?!!--))*?-->")
_TORUS_CLUSTER = re.compile(rb"<cluster\b[^<>]*topology\s*=\s*[\"']TORUS[\"']", re.S | re.I)
_ASTRA_KEYS = ("topology", "npus_count", "bandwidth", "latency")
_ASTRA_LINE = re.compile(r"\s*+([A-Za-z_][\w-]*+)\s*+:\s*+(.*+)")
_ASTRA_ITEM = re.compile(r"\s*+-\s*+(.++)")
# Its gigabytes are binary ones, and its times nanoseconds.
_GIGABYTE = 2**30
_NANOSECOND = 1e-9
_ASTRA_SHAPES = {"ring": True, "line": False, "mesh": False}
_CODES = re.compile(rb"(?<![\w])modelnet_torus\s*+=")
_CODES_KEY = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+=\s*+(\"[^\"]*\"|\([^()]*\)|[\w.]+)\s*+;")
_CODES_WHOLE = ("n_dims", "repetitions", "modelnet_torus")
_CODES_KEYS = {
    *_CODES_WHOLE,
    *("dim_length", "link_bandwidth", "server", "modelnet_order", "modelnet_scheduler"),
}
_CODES_GROUP = ("LPGROUPS", "PARAMS", "GRP")
_BOOKSIM = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+=\s*+([^;={}]++);")
_SCOTCH_LINE = re.compile(r"(torus|mesh)(XD|[1-9]D)?((?:\s+\S+)+)\s*", re.I)
_BOOKSIM_KEYS = {
    "topology",
    "k",
    "n",
    "routing_function",
    "num_vcs",
    "traffic",
    "injection_rate",
} | {"link_failures"}


def read_simgrid(source: Source) -> Torus:
    """Return the torus of the cluster."""
    text = source.text
    words = _XML_COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text.data.decode())
    found = []
    for match in _CLUSTER.finditer(words):
        keys = {key.lower(): value[1:-1] for key, value in _ATTRIBUTE.findall(match[1])}
        if keys.get("topology", "").upper() == "TORUS":
            found.append((words.count("\n", 0, match.start()) + 1, keys))
    if len(found) != 1:
        raise text.fault("no single torus", None, f"{len(found)} of them", "one <cluster> of TORUS")
    number, keys = found[0]
    names = [name for name, _ in _ATTRIBUTE.findall(words) if name.lower() not in _CLUSTER_KEYS]
    others = [*names, *_ELEMENT.findall(words), *_TAG.sub(" ", words).split()]
    others += _ATTRIBUTE.sub(" ", " ".join(_CLUSTER.findall(words))).strip("/ \n").split()
    warn_of_unused(text.file, others)
    given = [size.strip() for size in keys.get("topo_parameters", "").split(",")]
    sizes = whole_words(text, number, "topo_parameters", given)
    bandwidth = with_unit(text, number, "bw", keys.get("bw", ""), read_bandwidth)
    latency = with_unit(text, number, "lat", keys.get("lat", "0s"), read_seconds)
    if keys.get("limiter_link", "0") != "0":
        expected = "none: a torus has no limit on all links of a node together"
        raise text.fault("limiter_link", number, keys["limiter_link"], expected)
    policy = keys.get("sharing_policy", "SPLITDUPLEX").upper()
    if policy not in ("SPLITDUPLEX", "SHARED"):
        expected = "SPLITDUPLEX or SHARED: links that messages share"
        raise text.fault("bad sharing_policy", number, policy, expected)
    if policy == "SHARED":
        # Both ways share a link: on the average each has half of it.
        bandwidth /= 2
    name = keys.get("id") or label(source.path)
    torus = torus_at(
        source,
        number,
        sizes,
        bandwidth=bandwidth,
        tie_break="simgrid",
        name=name,
        hop_latency=latency,
    )
    _check_radical(source, number, keys.get("radical"), torus)
    return torus


def _check_radical(source: Source, number: int, radical: str | None, torus: Torus) -> None:
    """Raise if the cluster has another number of hosts than the torus."""
    parts = [re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", p) for p in (radical or "").split(",")]
    if radical is None or not all(parts):
        return
    hosts = sum(int(p[2] or p[1]) - int(p[1]) + 1 for p in parts if p)
    if hosts != torus.n_nodes:
        found = f"{hosts} hosts in radical {radical}"
        raise source.text.fault("hosts and torus differ", number, found, torus.n_nodes)


def write_simgrid(torus: Torus, path: Path) -> None:
    """Write a platform with one cluster; all dimensions wrap and are as fast."""
    good = all(torus.wrap) and len({*torus.bandwidth}) == 1
    expected = "all dimensions wrap and have one bandwidth, and there is no twist"
    check_supported(torus, "SimGrid", expected, good)
    name = re.sub(r"[^\w-]", "_", torus.name) or "torus"
    sizes = ",".join(map(str, torus.shape))
    if not math.isfinite(torus.bandwidth[0]):
        raise InputError("bad bandwidth", found=torus.bandwidth[0])
    write_text(
        path,
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        '<platform version="4.1">\n'
        f'  <cluster id="{name}" prefix="node-" suffix="" radical="0-{torus.n_nodes - 1}"\n'
        f'           speed="1Gf" bw="{torus.bandwidth[0]!r}Bps" '
        f'lat="{torus.network.hop_latency!r}s"\n'
        f'           topology="TORUS" topo_parameters="{sizes}"/>\n'
        "</platform>\n",
    )


def is_network(source: Source) -> bool:
    """Whether the keys of a topology and of its sizes stand at the start of lines."""
    keys = {match[1] for line in source.raw_lines if (match := _ASTRA_LINE.fullmatch(line))}
    return {"topology", "npus_count"} <= keys


def read_astra(source: Source) -> Torus:
    """Return the torus of rings and lines."""
    text = source.text
    lists = _astra_lists(text)
    for key, (_, number) in lists.items():
        # Others, such as the links of a dimension, would change the answer.
        if key not in _ASTRA_KEYS and re.search("link|count|dim|width|topolog", key):
            raise text.fault("unknown key", number, key, " or ".join(_ASTRA_KEYS))
    warn_of_unused(text.file, [key for key in lists if key not in _ASTRA_KEYS])
    kinds, line = lists.get("topology", ([], None))
    sizes, size_line = lists.get("npus_count", ([], None))
    if not kinds or len(kinds) != len(sizes):
        found = f"{len(kinds)} topologies and {len(sizes)} sizes"
        raise text.fault("dimensions differ", size_line, found, "one of each for each dimension")
    numbers = whole_words(text, size_line, "npus_count", sizes)
    for kind, size in zip(kinds, numbers, strict=True):
        # Two chips have one link in any topology.
        if kind.lower() not in _ASTRA_SHAPES and size not in (1, 2):
            raise text.fault("no torus", line, kind, "Ring (or Line) in every dimension")
    speeds = _astra_numbers(text, lists, "bandwidth", len(sizes))
    latencies = _astra_numbers(text, lists, "latency", len(sizes))
    if len({*latencies}) > 1:
        warn_of(
            text.file,
            f"dimensions differ in their latency: {max(latencies):g} ns, the longest, is taken",
        )
    return torus_at(
        source,
        size_line,
        numbers,
        wrap=tuple(_ASTRA_SHAPES.get(kind.lower(), False) for kind in kinds),
        bandwidth=tuple(speed * _GIGABYTE for speed in speeds),
        hop_latency=max(latencies) * _NANOSECOND,
    )


def _astra_lists(text: Text) -> dict[str, tuple[list[str], int]]:
    """The lists of all keys with their lines: in brackets, or an item a line."""
    lists: dict[str, tuple[list[str], int]] = {}
    last = ""
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = comments("#").sub("", raw).rstrip()
        item = _ASTRA_ITEM.fullmatch(line)
        match = _ASTRA_LINE.fullmatch(line)
        if item and last:
            lists[last][0].append(item[1].strip("\"'"))
        elif match:
            last = match[1]
            if last in lists:
                raise text.fault("key stands twice", number, last, "each key once")
            value = match[2]
            if value.startswith("[") != value.endswith("]"):
                raise text.fault(f"bad {last}", number, value, "a list such as [ Ring, Ring ]")
            parts = [p.strip().strip("\"'") for p in value.strip("[]").split(",")]
            lists[last] = ([part for part in parts if part], number)
        elif line.strip():
            raise text.fault("bad line of a network", number, line, "key: [ value, value ]")
    return lists


def _astra_numbers(
    text: Text, lists: dict[str, tuple[list[str], int]], key: str, count: int
) -> list[float]:
    values, line = lists.get(key, ([], None))
    good = [float(value) for value in values if NUMBER.fullmatch(value) and len(value) < 40]
    if len(good) != len(values) or len(values) != count or any(value < 0 for value in good):
        expected = f"{count} numbers, one for each dimension"
        raise text.fault(f"bad {key}", line, ", ".join(values) or "none", expected)
    return good


def write_astra(torus: Torus, path: Path) -> None:
    """Write rings and lines."""
    check_supported(torus, "ASTRA-sim", "no twist")
    columns = {
        "topology": ["Ring" if wrap else "Line" for wrap in torus.wrap],
        "npus_count": [str(size) for size in torus.shape],
        "bandwidth": [f"{speed / _GIGABYTE!r}" for speed in torus.bandwidth],
        "latency": [f"{float(f'{torus.network.hop_latency / _NANOSECOND:.12g}')!r}"] * torus.ndim,
    }
    lines = [f"{key}: [ {', '.join(values)} ]" for key, values in columns.items()]
    write_text(path, "\n".join(lines) + "\n")


def read_codes(source: Source) -> Torus:
    """Return the torus of the parameters; it must have a place for each of the network's nodes."""
    text = source.text
    found: dict[str, tuple[int | None, list[str]]] = {}
    rest: list[str] = []
    for number, words in text.lines("#"):
        for key, value in _CODES_KEY.findall(words):
            plain = [word.strip(' "') for word in value.strip("()").split(",")]
            if key in found and found[key][1] != plain:
                raise text.fault("key stands twice", number, key, "one network")
            found[key] = (number, plain)
        left = _CODES_KEY.sub(" ", words).translate(dict.fromkeys(map(ord, "{};"), " ")).split()
        rest += [word for word in left if not any(group in word for group in _CODES_GROUP)]
    warn_of_unused(text.file, [*(key for key in found if key not in _CODES_KEYS), *rest])
    networks = {key for key in found if key.startswith("modelnet_")}
    other = networks - {"modelnet_torus", "modelnet_order", "modelnet_scheduler"}
    if other:
        raise text.fault(
            "more than a torus", found[min(other)][0], min(other), "modelnet_torus alone"
        )
    line, given = found.get("dim_length", (None, []))
    sizes = whole_words(text, line, "dim_length", given)
    values = {
        key: whole_words(text, found[key][0], key, found[key][1][:1])[0]
        for key in _CODES_WHOLE
        if key in found
    }
    if values.get("n_dims", len(sizes)) != len(sizes):
        raise text.fault("dimensions differ", found["n_dims"][0], values["n_dims"], len(sizes))
    # Bytes a nanosecond; CODES has 2 by default.
    at, speeds = found.get("link_bandwidth", (None, ["2.0"]))
    if not NUMBER.fullmatch(speeds[0]) or len(speeds[0]) > 40:
        raise text.fault("bad link_bandwidth", at, speeds[0], "GB/s such as 5.0")
    torus = torus_at(source, line, sizes, bandwidth=float(speeds[0]) * 1e9)
    count = values.get("repetitions", 1) * values.get("modelnet_torus", 1)
    if "repetitions" in values and count != torus.n_nodes:
        at = found["repetitions"][0]
        raise text.fault("nodes and torus differ", at, f"{count} nodes", torus.n_nodes)
    return torus


def is_booksim(source: Source) -> bool:
    """Whether lines of BookSim's settings choose a topology."""
    keys = {key for line in source.raw_lines for key, _ in _BOOKSIM.findall(line.split("//")[0])}
    return "topology" in keys and len(keys & _BOOKSIM_KEYS) > 1


def read_booksim(source: Source) -> Torus:
    """Return the torus or mesh of ``k`` nodes in each of ``n`` dimensions."""
    text = source.text
    lines = [line.partition("//")[0] for line in text.raw_lines()]
    found = {
        key: (number, value.strip())
        for number, line in enumerate(lines, start=1)
        for key, value in _BOOKSIM.findall(line)
    }
    rest = [line for line in (_BOOKSIM.sub("", line) for line in lines) if line.strip(" ;")]
    warn_of_unused(text.file, [*(key for key in found if key not in _BOOKSIM_KEYS), *rest])
    number, kind = found.get("topology", (None, "none"))
    if kind not in ("torus", "mesh"):
        raise text.fault("no torus", number, kind, "topology = torus, or mesh")
    at, failures = found.get("link_failures", (None, "0"))
    if failures != "0":
        expected = "0; a machine file says under [exclusions] which links are missing"
        raise text.fault("link_failures drawn at random", at, failures, expected)
    given = [(key, *found.get(key, (number, usual))) for key, usual in (("k", "8"), ("n", "2"))]
    k, n = (whole_words(text, line, key, [value])[0] for key, line, value in given)
    if n > 8:
        raise text.fault("bad n", found["n"][0], n, "at most 8 dimensions")
    # Its tie rule is for rings; a mesh has none.
    tie: TieRule = "booksim" if kind == "torus" else "source_parity"
    return torus_at(source, number, [k] * n, wrap=kind == "torus", tie_break=tie)


def read_scotch(source: Source) -> Torus:
    """Return the torus of a line such as ``torus3D 8 8 4`` or ``torusXD 3 8 8 4``."""
    text = source.text
    lines = list(text.lines("#"))
    if not lines:
        raise text.fault("file without data")
    number, line = lines[0]
    match = _SCOTCH_LINE.fullmatch(line)
    if match is None or len(lines) > 1:
        at, found = (number, line) if match is None else lines[1]
        raise text.fault("bad target of Scotch", at, found, "torus3D 8 8 8 on one line")
    words = [word for _, each in lines for word in each.split()][1:]
    numbers = [whole(text, number, "size", word) for word in words]
    count = match[2]
    if count is None or count.upper() == "XD":
        if len(numbers) != numbers[0] + 1:
            found = f"{len(numbers) - 1} sizes after {numbers[0]}"
            raise text.fault("wrong number of sizes", number, found, "as many as dimensions")
        numbers = numbers[1:]
    elif len(numbers) != int(count[0]):
        raise text.fault("wrong number of sizes", number, len(numbers), count[0])
    wrap = match[1].lower() == "torus"
    return torus_at(source, number, numbers, wrap=wrap)


def write_scotch(torus: Torus, path: Path) -> None:
    """Write the sizes; all dimensions must wrap, or none."""
    wraps = {wrap for wrap, size in zip(torus.wrap, torus.shape, strict=True) if size > 1}
    check_supported(torus, "Scotch", "all dimensions wrap, or none", len(wraps) < 2)
    kind = "mesh" if wraps == {False} else "torus"
    sizes = " ".join(map(str, torus.shape))
    counted = f"{torus.ndim}D" if torus.ndim in (2, 3) else f"XD {torus.ndim}"
    write_text(path, f"{kind}{counted} {sizes}\n")


_NETWORKS = (
    Dialect(
        name="simgrid",
        holds="torus",
        title="platform of SimGrid with a cluster of topology TORUS",
        recognise=lambda source: bool(
            _TORUS_CLUSTER.search(source.start) or _PLATFORM.search(source.start)
        ),
        read=read_simgrid,
        write=write_simgrid,
        suffixes=(".xml",),
        documentation="""
`topo_parameters` are the sizes; `bw` and `lat` the bandwidth of a link each way and the latency of
a hop; with `sharing_policy="SHARED"` each way has half. Ties go as SimGrid's do. SimGrid counts
hosts with the first coordinate fastest.
""",
        example="""<?xml version='1.0'?>
<platform version="4.1">
  <cluster id="ours" prefix="node-" suffix="" radical="0-63" speed="1Gf" bw="2GBps" lat="50ns"
           topology="TORUS" topo_parameters="4,4,4"/>
</platform>
""",
    ),
    Dialect(
        name="astra-sim",
        holds="torus",
        title="network of ASTRA-sim's analytical back end (YAML)",
        recognise=is_network,
        read=read_astra,
        write=write_astra,
        suffixes=(".yml", ".yaml"),
        documentation="""
For each dimension `topology` (`Ring`, or `Line` for a mesh; a `Switch` or `FullyConnected` of more
than two is no torus), `npus_count`, `bandwidth` (GB/s of 2^30 bytes) and `latency` (nanoseconds;
the longest is taken for all). ASTRA-sim counts chips with the first dimension fastest.
""",
        example="""topology: [ Ring, Ring ]
npus_count: [ 4, 8 ]
bandwidth: [ 50.0, 25.0 ]  # GB/s
latency: [ 500.0, 500.0 ]  # ns
""",
    ),
    Dialect(
        name="codes",
        holds="torus",
        title="configuration of CODES with modelnet_torus",
        recognise=lambda source: bool(_CODES.search(source.start)) and b"PARAMS" in source.start,
        read=read_codes,
        documentation="""
`dim_length` are the sizes, `link_bandwidth` the GB/s of a link; `repetitions` times
`modelnet_torus` must be its nodes. CODES counts nodes with the first dimension fastest.
""",
        example="""LPGROUPS { MODELNET_GRP { repetitions="32"; server="1"; modelnet_torus="1"; } }
PARAMS {
 modelnet_order=( "torus" );
 n_dims="3";
 dim_length="4,4,2";
 link_bandwidth="2.0";
}
""",
    ),
    Dialect(
        name="booksim",
        holds="torus",
        title="settings of BookSim: topology = torus (or mesh), k and n",
        recognise=is_booksim,
        read=read_booksim,
        documentation="""
`k` nodes in each of `n` dimensions (8 and 2 if not given). Ties go as BookSim's do. BookSim counts
in flits and cycles, so bandwidths and latencies stay at their defaults. It counts nodes with the
first dimension fastest.
""",
        example="topology = torus;\nk = 4;\nn = 3;\nrouting_function = dim_order;\n",
    ),
    Dialect(
        name="scotch-target",
        holds="torus",
        title="target architecture of Scotch: torus3D, torusXD, mesh2D, ...",
        recognise=lambda source: bool(_SCOTCH_LINE.fullmatch(source.first_line()[1])),
        read=read_scotch,
        write=write_scotch,
        suffixes=(".tgt",),
        documentation="""
One line: `torus2D`, `torus3D` or `mesh3D` and the sizes, or `torusXD` with the number of dimensions
before them. It has no bandwidths. Scotch counts nodes with the first coordinate fastest, which
`scotch-map` turns.
""",
        example="torusXD 3 4 4 8\n",
        advice="gmap GRAPH.grf {file} best.map",
    ),
)


# Parallel links in the slowest dimension.
_MAX_LINKS = 17
_SIZES = re.compile(r"\[?\s*+[0-9]++(?>\s*+[x,]\s*+[0-9]++|\s++[0-9]++)*+\s*+\]?")
_WORD = re.compile(r"\w+")
_TORUS = re.compile(r"\b(torus|hdtorus|topoTorus)\b|\btorus[:.]\w", re.I)
_MESH = re.compile(r"\btopoMesh\s*\(|\bmesh[:.]\w|name[\"']?\s*[=:]\s*[\"']?mesh\b", re.I)
_SETTING = re.compile(
    r"([^=\"']*+(?:[\"'][^\"']*+[\"'][^=\"':]*+)?)(?:=(?!=)|(?<=[\"'\s]):(?=\s))(.*)"
)
# Sections and keys of other topologies, and of parts that are no links of the network.
_OTHER_TOPOLOGIES = {"fattree", "dragonfly", "hyperx", "fully_connected", "switch"}
_OTHER_PARTS = (
    "nic",
    "networkif",
    "linkcontrol",
    "memory",
    "proc",
    "xbar",
    "injection",
    "ejection",
)
_OLD = re.compile(r"(topology|network|switch)_(\w+)")
_SIZE_KEYS = ("shape", "geometry")
_WIDTH_KEYS = ("width", "redundant")
_PORT_KEYS = ("local_ports", "concentration", "nodes_per_switch")
# Keys that are read, and those of names.
_READ_KEYS = {
    *(*_SIZE_KEYS, *_WIDTH_KEYS, *_PORT_KEYS, "name", "topology", "topo", "link_bw", "bandwidth"),
    *("link_latency", "link_lat", "latency", "sendlatency", "hop_latency"),
}


# Words that are neither a setting nor a statement of Python.
_STRAY = re.compile(r"\s*+(?!include\b)\w++(?:[ \t]++[\w.]++)*+\s*+|\s*+\[[\w. ]++\]\s*+")


class SstSetting(NamedTuple):
    """A key with the sections that it stands in, in lower case, and its value."""

    line: int
    path: tuple[str, ...]
    value: str

    @property
    def key(self) -> str:
        """The last word of the path."""
        return self.path[-1]


def is_settings(source: Source) -> bool:
    """Whether settings of SST have the shape or geometry of a torus."""
    words = source.start.decode("utf-8", "replace")
    if not (_TORUS.search(words) or _MESH.search(words)):
        return False
    settings = _read_settings(enumerate(words.splitlines(), start=1))
    return any(_SIZES.fullmatch(value) for _, _, value in _of_topology(settings, _SIZE_KEYS))


def _read_settings(lines: Iterable[tuple[int, str]]) -> list[SstSetting]:
    """Settings of an ini file or of assignments and dictionaries of Python, with their sections."""
    found: list[SstSetting] = []
    sections: list[list[str]] = []
    for number, piece, mark in _cut_lines(lines):
        if mark == "{":
            sections.append(_key_words(piece.rstrip(" =:")))
            continue
        match = _SETTING.fullmatch(piece)
        if match and match[1].strip():
            inside = [word for section in sections for word in section]
            path = tuple(inside + _key_words(match[1]))
            value = match[2].strip().strip("\"'").strip()
            if path:
                found.append(SstSetting(number, path, value))
        if mark == "}" and sections:
            sections.pop()
    variables = {s.path[0]: s.value for s in found if len(s.path) == 1}
    return [s._replace(value=variables.get(s.value.lower(), s.value)) for s in found]


def _cut_lines(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Lines cut at braces, and at commas and semicolons between settings; what ends each piece."""
    for number, line in lines:
        piece, quote, depth = "", "", 0
        for at, letter in enumerate(line):
            if quote:
                quote = "" if letter == quote else quote
            elif letter in "\"'":
                quote = letter
            elif letter == "#":
                break
            elif letter in "[(":
                depth += 1
            elif letter in "])":
                depth -= 1
            elif letter in "{};" or (letter == "," and depth <= 0 and _ends_entry(line, at)):
                yield number, piece.strip(), letter
                piece, depth = "", 0
                continue
            piece += letter
        yield number, piece.strip(), ""


def _ends_entry(line: str, comma: int) -> bool:
    """Whether a comma ends an entry of a dictionary; within a value, numbers follow it."""
    rest = line[comma + 1 :].lstrip()
    return not rest or rest[0] in "\"'}#"


def _key_words(key: str) -> list[str]:
    """The words of a key, in lower case; `topology_geometry` of older versions is two."""
    words = [word.lower() for word in _WORD.findall(key)]
    parts = ((old.groups() if (old := _OLD.fullmatch(word)) else (word,)) for word in words)
    return [part for several in parts for part in several]


def _of_topology(settings: list[SstSetting], keys: tuple[str, ...]) -> list[SstSetting]:
    known = (s for s in settings if s.key in keys and not _is_other(s))
    return [s for s in known if not _OTHER_TOPOLOGIES & {*s.path}]


def read_torus_settings(source: Source) -> Torus:
    """Return the torus of the settings; links beside each other are one, so much faster."""
    text = source.text
    raw = list(text.raw_lines())
    settings = _read_settings(enumerate(raw, start=1))
    words = "\n".join(line.partition("#")[0] for line in raw)
    included = re.search(r"^\s*include\s+(\S+)", words, re.M)
    size = _only_value(text, _of_topology(settings, _SIZE_KEYS), "sizes")
    if size is None:
        found = f"include {included[1]}, which is not read" if included else None
        raise text.fault("no shape", None, found, 'shape = "4x4x8" or geometry = [4,4,8]')
    sizes = _read_shape(text, size)
    width = _only_value(text, _of_topology(settings, _WIDTH_KEYS), "widths")
    widths = (1,) * len(sizes) if width is None else _read_shape(text, width)
    if len(widths) != len(sizes) or 0 in widths:
        line, value = (size.line, "none") if width is None else (width.line, width.value)
        raise text.fault("bad width", line, value, "one a dimension")
    for setting in _of_topology(settings, _PORT_KEYS):
        if setting.value != "1":
            plain = "x".join(map(str, sizes))
            expected = f"1; else {plain} as the torus, and a router's tasks in --tasks-per-node"
            raise text.fault(f"bad {setting.key}", setting.line, setting.value, expected)
    # The calls of a program say more than the names that it imports.
    called = {name.lower() for name in re.findall(r"\btopo(Torus|Mesh)\s*\(", words)}
    if len(called) > 1:
        raise text.fault("both a torus and a mesh", size.line, size.value, "one topology")
    is_mesh = called == {"mesh"} or (not called and not _TORUS.search(words))
    others = [s for s in settings if s.key not in _READ_KEYS and not _is_other(s)]
    stray = [line for line in words.splitlines() if _STRAY.fullmatch(line)]
    stray = [line for line in stray if not iskeyword(line.split()[0])]
    warn_of_unused(text.file, [*(".".join(setting.path) for setting in others), *stray])
    bandwidth = _of_links(text, settings, _BANDWIDTHS, read_bandwidth)
    latency = _of_links(text, settings, _LATENCIES, read_seconds)
    if included:
        warn_of(
            text.file,
            f"{included[1]} is not read, and what it sets is missing: links beside "
            "each other, nodes of a router, bandwidth and latency",
        )
    speed = Torus.bandwidth[0] if bandwidth is None else bandwidth
    speeds = tuple(width * speed for width in widths)
    return torus_at(
        source, size.line, sizes, wrap=not is_mesh, bandwidth=speeds, hop_latency=latency
    )


def _only_value(text: Text, settings: list[SstSetting], what: str) -> SstSetting | None:
    """The only value of settings that a file may repeat."""
    for setting in settings[1:]:
        if _value_numbers(setting) != _value_numbers(settings[0]):
            found = f"{setting.value}, on line {settings[0].line} {settings[0].value}"
            expected = "one value; else give the sizes as the torus, such as 4x4x8"
            raise text.fault(f"two {what}", setting.line, found, expected)
    return settings[0] if settings else None


def _value_numbers(setting: SstSetting) -> list[str] | str:
    """The sizes of a value, however they are joined; another value as it stands."""
    value = setting.value
    return re.findall(r"[0-9]+", value) if _SIZES.fullmatch(value) else value


def _read_shape(text: Text, setting: SstSetting) -> tuple[int, ...]:
    sizes = None
    if _SIZES.fullmatch(setting.value):
        sizes = read_sizes(re.sub(r"\s*[x ,]\s*", "x", setting.value.strip("[] ")))
    if sizes is None:
        expected = "sizes such as 4x4x8, 4 4 8 or [4,4,8]"
        raise text.fault(f"bad {setting.key}", setting.line, setting.value, expected)
    return sizes


# Which settings hold what a link does, those first that say it of the links themselves.
_Rule = Callable[[SstSetting], bool]
_BANDWIDTHS: tuple[_Rule, ...] = (
    lambda s: s.key == "link_bw" and not _is_other(s),
    lambda s: s.key == "bandwidth" and "link" in s.path and not _is_other(s),
    lambda s: s.key == "bandwidth" and s.path[-2:-1] != ("logp",) and not _is_other(s),
    lambda s: s.key == "bandwidth" and s.path[-2:-1] == ("logp",),
)
_LATENCIES: tuple[_Rule, ...] = (
    lambda s: s.key in ("link_latency", "link_lat") and not _is_other(s),
    lambda s: s.key in ("latency", "sendlatency") and "link" in s.path and not _is_other(s),
    lambda s: s.key in ("latency", "hop_latency") and "logp" not in s.path and not _is_other(s),
    lambda s: s.key == "hop_latency",
)


def _is_other(setting: SstSetting) -> bool:
    """Whether it is about memory, a network interface or another part, not a link."""
    return any(part.startswith(_OTHER_PARTS) for part in setting.path)


def _of_links(
    text: Text,
    settings: list[SstSetting],
    rules: tuple[_Rule, ...],
    read: Callable[[str], float],
) -> float | None:
    for rule in rules:
        setting = _only_value(text, [s for s in settings if rule(s)], "values for the links")
        if setting is not None:
            return with_unit(text, setting.line, setting.key, setting.value, read)
    return None


def write_torus_settings(torus: Torus, path: Path) -> None:
    """Write the lines of a configuration of merlin."""
    # Every bandwidth is a whole number of links, the smallest so many.
    ratios = np.array(torus.bandwidth) / min(torus.bandwidth)
    counts = np.outer(np.arange(1, _MAX_LINKS), ratios)
    parts = 1 + np.flatnonzero((abs(counts - counts.round()) < 1e-9 * counts).all(axis=1))
    expected = "all dimensions wrap, and bandwidths are whole multiples of one"
    check_supported(torus, "SST", expected, all(torus.wrap) and parts.size > 0)
    link = min(torus.bandwidth) / int(parts[0])
    widths = [str(round(speed / link)) for speed in torus.bandwidth]
    write_text(
        path,
        "topo = topoTorus()\n"
        f'topo.shape = "{"x".join(map(str, torus.shape))}"\n'
        f'topo.width = "{"x".join(widths)}"\n'
        "topo.local_ports = 1\n"
        f'router.link_bw = "{link!r}B/s"\n'
        f'topo.link_latency = "{torus.network.hop_latency!r}s"\n',
    )


SETTINGS = Dialect(
    name="sst",
    holds="torus",
    title="settings of SST's torus: merlin's shape and width, SST-macro's geometry",
    recognise=is_settings,
    read=read_torus_settings,
    write=write_torus_settings,
    suffixes=(".py", ".ini"),
    documentation="""
Lines that set `shape` and `width` (merlin) or `geometry` and `redundant` (SST-macro) of a torus, in
Python, as `_params["torus:shape"]`, or in an ini file with dots or braces. `link_bw` or the
bandwidth of `switch.link`, and its latency, with their units; those of memory, network interfaces
and crossbars are not taken. Links beside each other become one that is as fast as all of them.
`topoMesh` is a mesh. Included files are not read.
""",
    example="""topo = topoTorus()
topo.shape = "4x4x8"
topo.width = "2x2x1"
topo.local_ports = 1
router.link_bw = "4GB/s"
""",
)
DIALECTS = (*_NETWORKS, SETTINGS)
