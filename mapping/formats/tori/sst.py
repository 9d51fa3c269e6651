"""Tori of SST: merlin's shape and width, SST-macro's geometry and redundant links."""

from __future__ import annotations

import re
from pathlib import Path

from toruscast.errors import InputError
from toruscast.validation import read_sizes

from ...torus import Torus
from .._source import Text, label
from ..dialect import Dialect
from ..source import Source
from .units import bytes_a_second, seconds

# Of links beside each other in the slowest dimension.
_MOST_LINKS = 17
SETTING = re.compile(
    r"[\"']?(?:[\w]+[.:])*(shape|width|geometry|redundant|local_ports|concentration|"
    r"link_bw|bandwidth|link_latency|link_lat|latency|name)[\"']?\s*[=:,]\s*[\"']?([^\"'#,)}]++)[\"']?"
    r"\s*+[,)}]?\s*+(?:#.*)?"
)
TORUS = re.compile(r"\b(torus|hdtorus|topoTorus|merlin\.torus)\b", re.I)
SIZE = re.compile(r"\s*+\d++(?>\s*+[x,]\s*+\d++|\s++\d++)*+\s*+")


def is_settings(source: Source) -> bool:
    """Whether lines set the shape or geometry of a torus of SST."""
    settings = _settings(source.raw_lines)
    sized = any(key in ("shape", "geometry") and SIZE.fullmatch(v) for _, key, v in settings)
    return sized and any(TORUS.search(line) for line in source.raw_lines)


def _settings(lines: list[str]) -> list[tuple[int, str, str]]:
    found = []
    for number, line in enumerate(lines, start=1):
        match = SETTING.fullmatch(line.strip())
        if match and not line.lstrip().startswith("#"):
            found.append((number, match[1], match[2].strip()))
    return found


def read(source: Source) -> Torus:
    """Return the torus of the settings; links beside each other are one, so much faster."""
    text = source.text
    settings = {key: (number, value) for number, key, value in _settings(list(text.raw_lines()))}
    key = "shape" if "shape" in settings else "geometry"
    if key not in settings:
        raise text.fault("no shape", None, None, 'shape = "4x4x8" or geometry = "4 4 8"')
    line = settings[key][0]
    sizes = _sizes(text, *settings[key], key)
    many = settings.get("width") or settings.get("redundant")
    widths = (1,) * len(sizes) if many is None else _sizes(text, *many, "width")
    if len(widths) != len(sizes) or 0 in widths:
        number, value = many or (line, "none")
        raise text.fault("bad width", number, value, "one a dimension")
    for name in ("local_ports", "concentration"):
        number, value = settings.get(name, (line, "1"))
        if value != "1":
            expected = "1, a node for each router; several a router go into --tasks-per-node"
            raise text.fault(f"bad {name}", number, value, expected)
    bandwidth = _with_unit(text, settings, ("link_bw", "bandwidth"), bytes_a_second)
    latency = _with_unit(text, settings, ("link_latency", "link_lat", "latency"), seconds)
    try:
        torus = Torus(sizes, name=label(source.path))
        speed = torus.bandwidth[0] if bandwidth is None else bandwidth
        torus = Torus(sizes, bandwidth=tuple(w * speed for w in widths), name=torus.name)
        return torus if latency is None else torus.with_network(hop_latency=latency)
    except InputError as error:
        raise text.fault(error.message, line, error.found, error.expected) from None


def _sizes(text: Text, line: int, value: str, what: str) -> tuple[int, ...]:
    sizes = read_sizes(re.sub(r"\s*[x ,]\s*", "x", value.strip()))
    if sizes is None:
        raise text.fault(f"bad {what}", line, value, "sizes such as 4x4x8 or 4 4 8")
    return sizes


def _with_unit(
    text: Text, settings: dict[str, tuple[int, str]], names: tuple[str, ...], convert: object
) -> float | None:
    for name in names:
        if name in settings:
            line, value = settings[name]
            number: float | None = convert(value)  # type: ignore[operator]
            if number is None:
                expected = "a number with its unit, such as 4GB/s, 20ns"
                raise text.fault(f"bad {name}", line, value, expected)
            return number
    return None


def _are_whole(torus: Torus, parts: int) -> bool:
    """Whether every bandwidth is a whole number of links, the least of them so many."""
    links = [speed / min(torus.bandwidth) * parts for speed in torus.bandwidth]
    return all(abs(number - round(number)) < 1e-9 * number for number in links)


def write(torus: Torus, path: Path) -> None:
    """Write the lines of a configuration of merlin."""
    parts = [part for part in range(1, _MOST_LINKS) if _are_whole(torus, part)]
    if not all(torus.wrap) or torus.twist or not parts:
        expected = "all dimensions wrap, and bandwidths are whole multiples of one"
        raise InputError("SST has no such torus", found=str(torus), expected=expected)
    link = min(torus.bandwidth) / parts[0]
    widths = [str(round(speed / link)) for speed in torus.bandwidth]
    path.write_text(
        "topo = topoTorus()\n"
        f'topo.shape = "{"x".join(map(str, torus.shape))}"\n'
        f'topo.width = "{"x".join(widths)}"\n'
        "topo.local_ports = 1\n"
        f'router.link_bw = "{link!r}B/s"\n'
        f'topo.link_latency = "{torus.network.hop_latency!r}s"\n',
        encoding="utf-8",
    )


DIALECT = Dialect(
    name="sst",
    holds="torus",
    title="settings of SST's torus: merlin's shape and width, SST-macro's geometry",
    recognise=is_settings,
    read=read,
    write=write,
    suffixes=(".py", ".ini"),
    documentation="""
Lines that set `shape` and `width` (merlin) or `geometry` and `redundant` (SST-macro), in Python or
an ini file, beside the word torus; `link_bw` or `bandwidth` and `link_latency` with their units.
Links beside each other become one that is as fast as all of them. The file is read, never run.
""",
    example="""topo = topoTorus()
topo.shape = "4x4x8"
topo.width = "2x2x1"
topo.local_ports = 1
router.link_bw = "4GB/s"
""",
)
