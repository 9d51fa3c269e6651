"""Settings of SST's torus.

Patterns: `src/sst/elements/merlin/tests/torus_64_test.py`, `torus_5_trafficgen.py` of SST elements
14 and older forms of both; `configurations/small_torus.ini`, `tests/test_configs/*torus*.ini` and
`examples/*.py` of SST-macro 14. Python is read, never run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from toruscast.units import read_bandwidth, read_seconds
from toruscast.validation import read_sizes

from ...torus import Torus
from ..dialect import Dialect
from ..source import Source, Text, warn_of, write_text
from .build import check_supported, torus_at, with_unit

# Of links beside each other in the slowest dimension.
_MOST_LINKS = 17
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
    lines = _start(source)
    if not _names_topology(lines):
        return False
    settings = _settings(enumerate(lines, start=1))
    return any(_SIZES.fullmatch(value) for _, _, value in _of_topology(settings, _SIZE_KEYS))


def _start(source: Source) -> list[str]:
    return source.start.decode("utf-8", "replace").splitlines()


def _names_topology(lines: list[str]) -> bool:
    words = "\n".join(lines)
    return bool(_TORUS.search(words) or _MESH.search(words))


def _settings(lines: Iterable[tuple[int, str]]) -> list[SstSetting]:
    """Settings of an ini file or of assignments and dictionaries of Python, with their sections."""
    found: list[SstSetting] = []
    sections: list[list[str]] = []
    for number, piece, mark in _pieces(lines):
        if mark == "{":
            sections.append(_words(piece.rstrip(" =:")))
            continue
        match = _SETTING.fullmatch(piece)
        if match and match[1].strip():
            inside = [word for section in sections for word in section]
            path = tuple(inside + _words(match[1]))
            value = match[2].strip().strip("\"'").strip()
            if path:
                found.append(SstSetting(number, path, value))
        if mark == "}" and sections:
            sections.pop()
    variables = {s.path[0]: s.value for s in found if len(s.path) == 1}
    return [s._replace(value=variables.get(s.value.lower(), s.value)) for s in found]


def _pieces(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
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
            elif letter in "{};" or (letter == "," and depth <= 0 and _ends(line, at)):
                yield number, piece.strip(), letter
                piece, depth = "", 0
                continue
            piece += letter
        yield number, piece.strip(), ""


def _ends(line: str, comma: int) -> bool:
    """Whether a comma ends an entry of a dictionary; within a value, numbers follow it."""
    rest = line[comma + 1 :].lstrip()
    return not rest or rest[0] in "\"'}#"


def _words(key: str) -> list[str]:
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
    settings = _settings(enumerate(raw, start=1))
    words = "\n".join(line.partition("#")[0] for line in raw)
    included = re.search(r"^\s*include\s+(\S+)", words, re.M)
    size = _one(text, _of_topology(settings, _SIZE_KEYS), "sizes")
    if size is None:
        found = f"include {included[1]}, which is not read" if included else None
        raise text.fault("no shape", None, found, 'shape = "4x4x8" or geometry = [4,4,8]')
    sizes = _sizes(text, size)
    width = _one(text, _of_topology(settings, _WIDTH_KEYS), "widths")
    widths = (1,) * len(sizes) if width is None else _sizes(text, width)
    if len(widths) != len(sizes) or 0 in widths:
        line, value = (size.line, "none") if width is None else (width.line, width.value)
        raise text.fault("bad width", line, value, "one a dimension")
    for setting in _of_topology(settings, ("local_ports", "concentration", "nodes_per_switch")):
        if setting.value != "1":
            plain = "x".join(map(str, sizes))
            expected = f"1; else {plain} as the torus, and a router's tasks in --tasks-per-node"
            raise text.fault(f"bad {setting.key}", setting.line, setting.value, expected)
    # The calls of a program say more than the names that it imports.
    called = {name.lower() for name in re.findall(r"\btopo(Torus|Mesh)\s*\(", words)}
    if len(called) > 1:
        raise text.fault("both a torus and a mesh", size.line, size.value, "one topology")
    is_mesh = called == {"mesh"} or (not called and not _TORUS.search(words))
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


def _one(text: Text, settings: list[SstSetting], what: str) -> SstSetting | None:
    """The only value of settings that a file may repeat."""
    for setting in settings[1:]:
        if _numbers(setting) != _numbers(settings[0]):
            found = f"{setting.value}, on line {settings[0].line} {settings[0].value}"
            expected = "one value; else give the sizes as the torus, such as 4x4x8"
            raise text.fault(f"two {what}", setting.line, found, expected)
    return settings[0] if settings else None


def _numbers(setting: SstSetting) -> list[str] | str:
    """The sizes of a value, however they are joined; another value as it stands."""
    value = setting.value
    return re.findall(r"[0-9]+", value) if _SIZES.fullmatch(value) else value


def _sizes(text: Text, setting: SstSetting) -> tuple[int, ...]:
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
        setting = _one(text, [s for s in settings if rule(s)], "values for the links")
        if setting is not None:
            return with_unit(text, setting.line, setting.key, setting.value, read)
    return None


def _are_whole(torus: Torus, parts: int) -> bool:
    """Whether every bandwidth is a whole number of links, the least of them so many."""
    links = [speed / min(torus.bandwidth) * parts for speed in torus.bandwidth]
    return all(abs(number - round(number)) < 1e-9 * number for number in links)


def write_torus_settings(torus: Torus, path: Path) -> None:
    """Write the lines of a configuration of merlin."""
    parts = [part for part in range(1, _MOST_LINKS) if _are_whole(torus, part)]
    expected = "all dimensions wrap, and bandwidths are whole multiples of one"
    check_supported(torus, "SST", expected, all(torus.wrap) and bool(parts))
    link = min(torus.bandwidth) / parts[0]
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
