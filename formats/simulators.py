"""Readers and writers of tori for network simulators and Scotch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from keyword import iskeyword
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toruscast.mapping.torus import MAX_DIMENSIONS, TieRule, Torus
from toruscast.validation import read_bandwidth, read_seconds, read_sizes

from .dialect import Dialect
from .machine_file import build_torus, check_supported, parse_quantity, parse_sizes
from .source import (
    NUMBER,
    Source,
    TextFile,
    comment_pattern,
    name_from_path,
    parse_whole,
    warn_about,
    warn_about_unused,
    write_text,
)

_CLUSTER = re.compile(r"<cluster\b([^<>]*)>", re.S)
_ATTRIBUTE = re.compile(r"(?<![\w:.-])([\w:.-]++)\s*+=\s*(\"[^\"]*\"|'[^']*')")
# Attributes that are read, or that do not affect links; others cause a warning.
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
# Units of ASTRA-sim.
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
    *("topology", "k", "n", "routing_function", "num_vcs", "traffic", "injection_rate"),
    "link_failures",
}


def _read_simgrid(source: Source) -> Torus:
    """Read the only cluster of topology TORUS in a platform file."""
    text = source.text
    # Comments are replaced by their line ends, which keeps the line numbers.
    content = _XML_COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text.data.decode())
    clusters = []
    for match in _CLUSTER.finditer(content):
        keys = {key.lower(): value[1:-1] for key, value in _ATTRIBUTE.findall(match[1])}
        if keys.get("topology", "").upper() == "TORUS":
            clusters.append((content.count("\n", 0, match.start()) + 1, keys))
    if len(clusters) != 1:
        raise text.fault("no single torus", None, len(clusters), "one <cluster> of TORUS")
    number, keys = clusters[0]
    # Warn about other attributes and elements, and about text outside or inside of tags.
    names = (name for name, _ in _ATTRIBUTE.findall(content))
    unused = [name for name in names if name.lower() not in _CLUSTER_KEYS]
    unused += [*_ELEMENT.findall(content), *_TAG.sub(" ", content).split()]
    unused += _ATTRIBUTE.sub(" ", " ".join(_CLUSTER.findall(content))).strip("/ \n").split()
    warn_about_unused(text.file, unused)
    size_texts = [size.strip() for size in keys.get("topo_parameters", "").split(",")]
    sizes = parse_sizes(text, number, "topo_parameters", size_texts)
    bandwidth = parse_quantity(text, number, "bw", keys.get("bw", ""), read_bandwidth)
    latency = parse_quantity(text, number, "lat", keys.get("lat", "0s"), read_seconds)
    if keys.get("limiter_link", "0") != "0":
        raise text.fault("limiter_link is not supported", number, keys["limiter_link"], "none")
    policy = keys.get("sharing_policy", "SPLITDUPLEX").upper()
    if policy not in ("SPLITDUPLEX", "SHARED"):
        raise text.fault("bad sharing_policy", number, policy, "SPLITDUPLEX or SHARED")
    if policy == "SHARED":
        # Both directions share the bandwidth, so each gets half of it on average.
        bandwidth /= 2
    link = {"bandwidth": bandwidth, "hop_latency": latency, "tie_break": "simgrid"}
    name = keys.get("id") or name_from_path(source.path)
    torus = build_torus(source, number, sizes, name=name, **link)
    _check_radical(text, number, keys.get("radical", ""), torus)
    return torus


def _check_radical(text: TextFile, number: int, radical: str, torus: Torus) -> None:
    """Check that a radical such as ``0-31,40`` has as many host numbers as the torus has nodes."""
    parts = [re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", p) for p in radical.split(",")]
    hosts = sum(int(p[2] or p[1]) - int(p[1]) + 1 for p in parts if p)
    if all(parts) and hosts != torus.n_nodes:
        found = f"{hosts} hosts in radical {radical}"
        raise text.fault("wrong number of hosts", number, found, torus.n_nodes)


def _write_simgrid(torus: Torus, path: Path) -> None:
    """Write a platform file whose only cluster is the torus."""
    is_supported = all(torus.wrap) and len({*torus.bandwidth}) == 1
    expected = "wrap and equal bandwidth in all dimensions, no twist"
    check_supported(torus, "SimGrid", expected, is_supported)
    name = re.sub(r"[^\w-]", "_", torus.name) or "torus"
    sizes = ",".join(map(str, torus.shape))
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


def _is_astra(source: Source) -> bool:
    keys = {match[1] for line in source.raw_lines if (match := _ASTRA_LINE.fullmatch(line))}
    return {"topology", "npus_count"} <= keys


def _read_astra(source: Source) -> Torus:
    """Read the topology, size, bandwidth and latency of each dimension."""
    text = source.text
    lists = _read_astra_lists(text)
    for key, (_, number) in lists.items():
        # An unknown key with such a name is an error, because it may change the torus.
        if key not in _ASTRA_KEYS and re.search("link|count|dim|width|topolog", key):
            raise text.fault("unknown key", number, key, " or ".join(_ASTRA_KEYS))
    warn_about_unused(text.file, [key for key in lists if key not in _ASTRA_KEYS])
    topologies, line = lists.get("topology", ([], None))
    sizes, size_line = lists.get("npus_count", ([], None))
    if not topologies or len(topologies) != len(sizes):
        found = f"{len(topologies)} topologies and {len(sizes)} sizes"
        raise text.fault("lists differ in length", size_line, found, "one of each per dimension")
    shape = parse_sizes(text, size_line, "npus_count", sizes)
    for topology, size in zip(topologies, shape, strict=True):
        # All topologies of one or two chips are lines.
        if topology.lower() not in _ASTRA_SHAPES and size not in (1, 2):
            raise text.fault("not a torus", line, topology, "Ring (or Line) in every dimension")
    bandwidths = _parse_astra_numbers(text, lists, "bandwidth", len(sizes))
    latencies = _parse_astra_numbers(text, lists, "latency", len(sizes))
    longest = max(latencies)
    if min(latencies) < longest:
        message = f"latencies of dimensions differ; the longest, {longest:g} ns, is used for all"
        warn_about(text.file, message)
    link = {
        "wrap": tuple(_ASTRA_SHAPES.get(topology.lower(), False) for topology in topologies),
        "bandwidth": tuple(bandwidth * _GIGABYTE for bandwidth in bandwidths),
        "hop_latency": longest * _NANOSECOND,
    }
    return build_torus(source, size_line, shape, **link)


def _read_astra_lists(text: TextFile) -> dict[str, tuple[list[str], int]]:
    """Return the values of each key, in brackets or with an item per line, and its line number."""
    lists: dict[str, tuple[list[str], int]] = {}
    key = ""
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = comment_pattern("#").sub("", raw).rstrip()
        item = _ASTRA_ITEM.fullmatch(line)
        match = _ASTRA_LINE.fullmatch(line)
        if item and key:
            lists[key][0].append(item[1].strip("\"'"))
        elif match:
            key = match[1]
            if key in lists:
                raise text.fault("duplicate key", number, key, "each key once")
            value = match[2]
            if value.startswith("[") != value.endswith("]"):
                raise text.fault(f"bad {key}", number, value, "a list such as [ Ring, Ring ]")
            words = (word.strip().strip("\"'") for word in value.strip("[]").split(","))
            lists[key] = (list(filter(None, words)), number)
        elif line.strip():
            raise text.fault("bad line of a network", number, line, "key: [ value, value ]")
    return lists


def _parse_astra_numbers(
    text: TextFile, lists: dict[str, tuple[list[str], int]], key: str, count: int
) -> list[float]:
    """Return a key's list of numbers; there must be one per dimension, and none may be negative."""
    values, line = lists.get(key, ([], None))
    numbers = [float(value) for value in values if NUMBER.fullmatch(value) and len(value) < 40]
    if len(numbers) != len(values) or len(values) != count or any(value < 0 for value in numbers):
        expected = f"{count} numbers, one per dimension"
        raise text.fault(f"bad {key}", line, ", ".join(values) or "none", expected)
    return numbers


def _write_astra(torus: Torus, path: Path) -> None:
    """Write lists of topologies, sizes, bandwidths and latencies, with a value per dimension."""
    check_supported(torus, "ASTRA-sim", "no twist")
    # Twelve digits remove the rounding error of the division.
    latency = float(f"{torus.network.hop_latency / _NANOSECOND:.12g}")
    columns = {
        "topology": ["Ring" if wrap else "Line" for wrap in torus.wrap],
        "npus_count": [str(size) for size in torus.shape],
        "bandwidth": [repr(speed / _GIGABYTE) for speed in torus.bandwidth],
        "latency": [repr(latency)] * torus.ndim,
    }
    lines = [f"{key}: [ {', '.join(values)} ]" for key, values in columns.items()]
    write_text(path, "\n".join(lines) + "\n")


def _read_codes(source: Source) -> Torus:
    """Read the sizes and the bandwidth of a torus, which must be the only network."""
    text = source.text
    settings: dict[str, tuple[int | None, list[str]]] = {}
    unknown: list[str] = []
    for number, line_text in text.lines("#"):
        for key, value in _CODES_KEY.findall(line_text):
            parsed = [word.strip(' "') for word in value.strip("()").split(",")]
            if key in settings and settings[key][1] != parsed:
                raise text.fault("duplicate key", number, key, "one network")
            settings[key] = (number, parsed)
        words = re.sub("[{};]", " ", _CODES_KEY.sub(" ", line_text)).split()
        unknown += [word for word in words if not any(group in word for group in _CODES_GROUP)]
    warn_about_unused(text.file, [*(key for key in settings if key not in _CODES_KEYS), *unknown])
    networks = {key for key in settings if key.startswith("modelnet_")}
    others = networks - {"modelnet_torus", "modelnet_order", "modelnet_scheduler"}
    if others:
        name = min(others)
        raise text.fault("network besides a torus", settings[name][0], name, "only modelnet_torus")
    line, size_texts = settings.get("dim_length", (None, []))
    sizes = parse_sizes(text, line, "dim_length", size_texts)
    values = {
        key: parse_sizes(text, settings[key][0], key, settings[key][1][:1])[0]
        for key in _CODES_WHOLE
        if key in settings
    }
    if values.get("n_dims", len(sizes)) != len(sizes):
        raise text.fault("wrong n_dims", settings["n_dims"][0], values["n_dims"], len(sizes))
    # CODES gives bandwidths in GB/s; its default is 2.
    bandwidth_line, (bandwidth, *_) = settings.get("link_bandwidth", (None, ["2.0"]))
    if not NUMBER.fullmatch(bandwidth) or len(bandwidth) > 40:
        raise text.fault("bad link_bandwidth", bandwidth_line, bandwidth, "GB/s such as 5.0")
    torus = build_torus(source, line, sizes, bandwidth=float(bandwidth) * 1e9)
    count = values.get("repetitions", 1) * values.get("modelnet_torus", 1)
    if "repetitions" in values and count != torus.n_nodes:
        raise text.fault("wrong number of nodes", settings["repetitions"][0], count, torus.n_nodes)
    return torus


def _is_booksim(source: Source) -> bool:
    keys = {key for line in source.raw_lines for key, _ in _BOOKSIM.findall(line.split("//")[0])}
    return "topology" in keys and len(keys & _BOOKSIM_KEYS) > 1


def _read_booksim(source: Source) -> Torus:
    """Read a torus or mesh of ``k`` nodes in each of ``n`` dimensions."""
    text = source.text
    lines = [line.partition("//")[0] for line in text.raw_lines()]
    settings = {
        key: (number, value.strip())
        for number, line in enumerate(lines, start=1)
        for key, value in _BOOKSIM.findall(line)
    }
    unused = [key for key in settings if key not in _BOOKSIM_KEYS]
    unused += [line for line in (_BOOKSIM.sub("", line) for line in lines) if line.strip(" ;")]
    warn_about_unused(text.file, unused)
    number, topology = settings.get("topology", (None, "none"))
    if topology not in ("torus", "mesh"):
        raise text.fault("not a torus", number, topology, "topology = torus, or mesh")
    failures_line, failures = settings.get("link_failures", (None, "0"))
    if failures != "0":
        expected = "0, or a machine file with [exclusions]"
        raise text.fault("random link_failures", failures_line, failures, expected)
    k_line, k_text = settings.get("k", (number, "8"))
    n_line, n_text = settings.get("n", (number, "2"))
    (k,) = parse_sizes(text, k_line, "k", [k_text])
    (n,) = parse_sizes(text, n_line, "n", [n_text])
    if n > MAX_DIMENSIONS:
        raise text.fault("bad n", n_line, n, f"at most {MAX_DIMENSIONS} dimensions")
    # A mesh has no ties, so it keeps the default rule.
    tie: TieRule = "booksim" if topology == "torus" else "source_parity"
    return build_torus(source, number, [k] * n, wrap=topology == "torus", tie_break=tie)


def _read_scotch(source: Source) -> Torus:
    """Read a torus or mesh from the only line of a target file."""
    text = source.text
    lines = list(text.lines("#"))
    if not lines:
        raise text.fault("file without data")
    number, line = lines[0]
    match = _SCOTCH_LINE.fullmatch(line)
    if match is None or len(lines) > 1:
        error_line, found = (number, line) if match is None else lines[1]
        raise text.fault("bad Scotch target", error_line, found, "torus3D 8 8 8 on one line")
    sizes = [parse_whole(text, number, "size", word) for word in match[3].split()]
    # "3D" gives the number of dimensions; without it, or with "XD", the first number gives it.
    suffix = match[2]
    if suffix is None or suffix.upper() == "XD":
        n_dimensions, *sizes = sizes
        if len(sizes) != n_dimensions:
            found = f"{len(sizes)} sizes after {n_dimensions}"
            raise text.fault("wrong number of sizes", number, found, "as many as dimensions")
    elif len(sizes) != int(suffix[0]):
        raise text.fault("wrong number of sizes", number, len(sizes), suffix[0])
    return build_torus(source, number, sizes, wrap=match[1].lower() == "torus")


def _write_scotch(torus: Torus, path: Path) -> None:
    wraps = {wrap for wrap, size in zip(torus.wrap, torus.shape, strict=True) if size > 1}
    check_supported(torus, "Scotch", "all dimensions wrap, or none", len(wraps) < 2)
    kind = "mesh" if wraps == {False} else "torus"
    sizes = " ".join(map(str, torus.shape))
    dimensions = f"{torus.ndim}D" if torus.ndim in (2, 3) else f"XD {torus.ndim}"
    write_text(path, f"{kind}{dimensions} {sizes}\n")


_NETWORKS = (
    Dialect(
        name="simgrid",
        holds="torus",
        title="platform of SimGrid with a cluster of topology TORUS",
        recognise=lambda source: any(p.search(source.start) for p in (_TORUS_CLUSTER, _PLATFORM)),
        read=_read_simgrid,
        write=_write_simgrid,
        suffixes=(".xml",),
        documentation="""
`topo_parameters` are the sizes, `bw` is the bandwidth of a link in each direction, and `lat` the
latency of a hop. With `sharing_policy="SHARED"` each direction has half of the bandwidth. Ties
follow SimGrid's rule. In SimGrid's host numbers the first coordinate varies fastest.
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
        recognise=_is_astra,
        read=_read_astra,
        write=_write_astra,
        suffixes=(".yml", ".yaml"),
        documentation="""
For each dimension `topology` (`Ring`, or `Line` for a mesh; `Switch` and `FullyConnected` only up
to two chips), `npus_count`, `bandwidth` (GB/s of 2^30 bytes) and `latency` (nanoseconds; the
longest is used for all). In ASTRA-sim's chip numbers the first dimension varies fastest.
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
        read=_read_codes,
        documentation="""
`dim_length` gives the sizes and `link_bandwidth` the GB/s of a link. `repetitions` times
`modelnet_torus` must be the number of nodes. In CODES' node numbers the first dimension varies
fastest.
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
        recognise=_is_booksim,
        read=_read_booksim,
        documentation="""
`k` nodes in each of `n` dimensions (by default 8 and 2). Ties follow BookSim's rule. BookSim uses
flits and cycles, so bandwidths and latencies keep their defaults. In its node numbers the first
dimension varies fastest.
""",
        example="topology = torus;\nk = 4;\nn = 3;\nrouting_function = dim_order;\n",
    ),
    Dialect(
        name="scotch-target",
        holds="torus",
        title="target architecture of Scotch: torus3D, torusXD, mesh2D, ...",
        recognise=lambda source: bool(_SCOTCH_LINE.fullmatch(source.first_line()[1])),
        read=_read_scotch,
        write=_write_scotch,
        suffixes=(".tgt",),
        documentation="""
One line: `torus2D`, `torus3D` or `mesh3D` and the sizes, or `torusXD`, the number of dimensions and
the sizes; no bandwidths. In Scotch's node numbers the first coordinate varies fastest; `scotch-map`
converts them.
""",
        example="torusXD 3 4 4 8\n",
        advice="gmap GRAPH.grf {file} best.map",
    ),
)


# Maximum number of parallel links that the writer tries in the slowest dimension, and relative
# tolerance for whole numbers of links.
_MAX_LINKS, _TOLERANCE = 16, 1e-9
_SIZES = re.compile(r"\[?\s*+[0-9]++(?>\s*+[x,]\s*+[0-9]++|\s++[0-9]++)*+\s*+\]?")
_WORD = re.compile(r"\w+")
_TORUS = re.compile(r"\b(torus|hdtorus|topoTorus)\b|\btorus[:.]\w", re.I)
_MESH = re.compile(r"\btopoMesh\s*\(|\bmesh[:.]\w|name[\"']?\s*[=:]\s*[\"']?mesh\b", re.I)
# A key, and its value after an equals sign or, in a dictionary, after a colon.
_SETTING = re.compile(
    r"([^=\"']*+(?:[\"'][^\"']*+[\"'][^=\"':]*+)?)(?:=(?!=)|(?<=[\"'\s]):(?=\s))(.*)"
)
# Words in the paths of settings for other topologies, and for components other than links.
_OTHER_TOPOLOGIES = {"fattree", "dragonfly", "hyperx", "fully_connected", "switch"}
_OTHER_PARTS = (
    *("nic", "networkif", "linkcontrol", "memory", "proc", "xbar", "injection", "ejection"),
)
_OLD_KEY = re.compile(r"(topology|network|switch)_(\w+)")
_SIZE_KEYS = ("shape", "geometry")
_WIDTH_KEYS = ("width", "redundant")
_PORT_KEYS = ("local_ports", "concentration", "nodes_per_switch")
# Keys that are read, or that only give names; others cause a warning.
_READ_KEYS = {
    *(*_SIZE_KEYS, *_WIDTH_KEYS, *_PORT_KEYS, "name", "topology", "topo", "link_bw", "bandwidth"),
    *("link_latency", "link_lat", "latency", "sendlatency", "hop_latency"),
}
# Lines that are neither settings nor Python statements.
_STRAY = re.compile(r"\s*+(?!include\b)\w++(?:[ \t]++[\w.]++)*+\s*+|\s*+\[[\w. ]++\]\s*+")


class _SstSetting(NamedTuple):
    """A setting and its path: the names of its sections and then its key, in lower case."""

    line: int
    path: tuple[str, ...]
    value: str

    @property
    def key(self) -> str:
        return self.path[-1]


def _is_sst(source: Source) -> bool:
    content = source.start.decode("utf-8", "replace")
    if not (_TORUS.search(content) or _MESH.search(content)):
        return False
    settings = _read_settings(enumerate(content.splitlines(), start=1))
    return any(_SIZES.fullmatch(value) for _, _, value in _select_settings(settings, _SIZE_KEYS))


def _read_settings(lines: Iterable[tuple[int, str]]) -> list[_SstSetting]:
    """Return the settings of a Python or ini file, with variables replaced by their values."""
    settings: list[_SstSetting] = []
    sections: list[list[str]] = []
    for number, piece, delimiter in _split_lines(lines):
        if delimiter == "{":
            sections.append(_split_key(piece.rstrip(" =:")))
            continue
        match = _SETTING.fullmatch(piece)
        if match and match[1].strip():
            prefix = [word for section in sections for word in section]
            path = tuple(prefix + _split_key(match[1]))
            value = match[2].strip().strip("\"'").strip()
            if path:
                settings.append(_SstSetting(number, path, value))
        if delimiter == "}" and sections:
            sections.pop()
    variables = {s.path[0]: s.value for s in settings if len(s.path) == 1}
    return [s._replace(value=variables.get(s.value.lower(), s.value)) for s in settings]


def _split_lines(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Split lines at braces, semicolons and commas between settings.

    Yields the line number, the text before a delimiter, and the delimiter ("" at the line end).
    """
    for number, line in lines:
        piece, quote, depth = "", "", 0
        for at, char in enumerate(line):
            if quote:
                quote = "" if char == quote else quote
            elif char in "\"'":
                quote = char
            elif char == "#":
                break
            elif char in "[(":
                depth += 1
            elif char in "])":
                depth -= 1
            elif char in "{};" or (char == "," and depth <= 0 and _ends_entry(line, at)):
                yield number, piece.strip(), char
                piece, depth = "", 0
                continue
            piece += char
        yield number, piece.strip(), ""


def _ends_entry(line: str, comma: int) -> bool:
    """Whether a comma ends a dictionary entry, rather than separating two numbers of a value."""
    return line[comma + 1 :].lstrip()[:1] in ("", *"\"'}#")


def _split_key(key: str) -> list[str]:
    """Return the lower-case words of a key; split the pairs of old files: `topology_geometry`."""
    return _WORD.findall(re.sub(rf"\b{_OLD_KEY.pattern}\b", r"\1 \2", key.lower()))


def _select_settings(settings: list[_SstSetting], keys: tuple[str, ...]) -> list[_SstSetting]:
    """Return the settings with one of the keys that belong to a torus or mesh."""
    matching = (s for s in settings if s.key in keys and not _is_other(s))
    return [s for s in matching if not _OTHER_TOPOLOGIES & {*s.path}]


def _read_sst(source: Source) -> Torus:
    """Read a torus or mesh; parallel links become one link with their total bandwidth."""
    text = source.text
    lines = list(text.raw_lines())
    settings = _read_settings(enumerate(lines, start=1))
    content = "\n".join(line.partition("#")[0] for line in lines)
    included = re.search(r"^\s*include\s+(\S+)", content, re.M)
    size_setting = _find_single(text, _select_settings(settings, _SIZE_KEYS), "sizes")
    if size_setting is None:
        found = f"include {included[1]}, which is not read" if included else None
        raise text.fault("no shape", found=found, expected='shape = "4x4x8" or geometry = [4,4,8]')
    sizes, size_line = _read_shape(text, size_setting), size_setting.line
    width_setting = _find_single(text, _select_settings(settings, _WIDTH_KEYS), "widths")
    n_parallel = (1,) * len(sizes) if width_setting is None else _read_shape(text, width_setting)
    if width_setting and (len(n_parallel) != len(sizes) or 0 in n_parallel):
        expected = "one per dimension"
        raise text.fault("bad width", width_setting.line, width_setting.value, expected)
    for setting in _select_settings(settings, _PORT_KEYS):
        if setting.value != "1":
            sizes_text = "x".join(map(str, sizes))
            expected = f"1; for more, use torus {sizes_text}, and --tasks-per-node for each router"
            raise text.fault(f"bad {setting.key}", setting.line, setting.value, expected)
    # Only a call of topoTorus or topoMesh shows the topology, since a program may import both.
    topologies = {name.lower() for name in re.findall(r"\btopo(Torus|Mesh)\s*\(", content)}
    if len(topologies) > 1:
        raise text.fault("both a torus and a mesh", size_line, size_setting.value, "one topology")
    is_mesh = topologies == {"mesh"} or (not topologies and not _TORUS.search(content))
    unknown = [s for s in settings if s.key not in _READ_KEYS and not _is_other(s)]
    stray_lines = filter(_STRAY.fullmatch, content.splitlines())
    unused = [".".join(setting.path) for setting in unknown]
    unused += [line for line in stray_lines if not iskeyword(line.split()[0])]
    warn_about_unused(text.file, unused)
    bandwidth = _read_link_value(text, settings, _BANDWIDTHS, read_bandwidth)
    latency = _read_link_value(text, settings, _LATENCIES, read_seconds)
    if included:
        unread = "parallel links, nodes per router, bandwidth and latency set there are ignored"
        warn_about(text.file, f"{included[1]} is not read; {unread}")
    link_bandwidth = Torus.bandwidth[0] if bandwidth is None else bandwidth
    bandwidths = tuple(n_links * link_bandwidth for n_links in n_parallel)
    return build_torus(
        source, size_line, sizes, wrap=not is_mesh, bandwidth=bandwidths, hop_latency=latency
    )


def _find_single(text: TextFile, settings: list[_SstSetting], what: str) -> _SstSetting | None:
    """Return the first setting, None if there are none; raise an error if their values differ."""
    for setting in settings[1:]:
        if _normalize_value(setting) != _normalize_value(settings[0]):
            found = f"{setting.value}, on line {settings[0].line} {settings[0].value}"
            expected = "one value, or a torus such as 4x4x8 instead of this file"
            raise text.fault(f"different {what}", setting.line, found, expected)
    return settings[0] if settings else None


def _normalize_value(setting: _SstSetting) -> list[str] | str:
    """Return the numbers in a list of sizes with any separators; leave other values unchanged."""
    value = setting.value
    return re.findall(r"[0-9]+", value) if _SIZES.fullmatch(value) else value


def _read_shape(text: TextFile, setting: _SstSetting) -> tuple[int, ...]:
    """Return the sizes in a setting, which may be joined by x, commas or blanks."""
    sizes = None
    if _SIZES.fullmatch(setting.value):
        sizes = read_sizes(re.sub(r"\s*[x ,]\s*", "x", setting.value.strip("[] ")))
    if sizes is None:
        expected = "sizes such as 4x4x8, 4 4 8 or [4,4,8]"
        raise text.fault(f"bad {setting.key}", setting.line, setting.value, expected)
    return sizes


# Rules that select the settings of link parameters, the most specific first.
_Rule = Callable[[_SstSetting], bool]
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


def _is_other(setting: _SstSetting) -> bool:
    """Whether a setting belongs to a component other than links, such as memory."""
    return any(part.startswith(_OTHER_PARTS) for part in setting.path)


def _read_link_value(
    text: TextFile,
    settings: list[_SstSetting],
    rules: tuple[_Rule, ...],
    read: Callable[[str], float],
) -> float | None:
    """Return the value that the first applicable rule selects; None if no rule applies."""
    for rule in rules:
        setting = _find_single(text, [s for s in settings if rule(s)], "values for the links")
        if setting is not None:
            return parse_quantity(text, setting.line, setting.key, setting.value, read)
    return None


def _write_sst(torus: Torus, path: Path) -> None:
    """Write a torus with equal links; faster dimensions have several parallel ones."""
    # Use the smallest number of links in the slowest dimension for which all dimensions have a
    # whole number of links.
    ratios = np.array(torus.bandwidth) / min(torus.bandwidth)
    multiples = np.outer(np.arange(1, _MAX_LINKS + 1), ratios)
    is_whole = (abs(multiples - multiples.round()) < _TOLERANCE * multiples).all(axis=1)
    link_counts = 1 + np.flatnonzero(is_whole)
    expected = "wrap in all dimensions, and bandwidths that are multiples of one value"
    check_supported(torus, "SST", expected, all(torus.wrap) and link_counts.size > 0)
    link_bandwidth = min(torus.bandwidth) / int(link_counts[0])
    widths = [str(round(speed / link_bandwidth)) for speed in torus.bandwidth]
    write_text(
        path,
        "topo = topoTorus()\n"
        f'topo.shape = "{"x".join(map(str, torus.shape))}"\n'
        f'topo.width = "{"x".join(widths)}"\n'
        "topo.local_ports = 1\n"
        f'router.link_bw = "{link_bandwidth!r}B/s"\n'
        f'topo.link_latency = "{torus.network.hop_latency!r}s"\n',
    )


SST = Dialect(
    name="sst",
    holds="torus",
    title="torus settings of SST: shape and width of merlin, geometry of SST-macro",
    recognise=_is_sst,
    read=_read_sst,
    write=_write_sst,
    suffixes=(".py", ".ini"),
    documentation="""
Lines that set `shape` and `width` (merlin) or `geometry` and `redundant` (SST-macro) of a torus, in
Python, as `_params["torus:shape"]`, or in an ini file with dots or braces. Bandwidth and latency
(with units) are read from `link_bw` or `switch.link`, not from memory, interfaces or crossbars.
Parallel links become one link with their total bandwidth. `topoMesh` is a mesh. Included files are
not read.
""",
    example="""topo = topoTorus()
topo.shape = "4x4x8"
topo.width = "2x2x1"
topo.local_ports = 1
router.link_bw = "4GB/s"
""",
)
DIALECTS = (*_NETWORKS, SST)
