"""Network files of ASTRA-sim's analytical back end."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from toruscast.errors import InputError, InputWarning

from ...torus import Torus
from .._source import Text, label
from .._table import NUMBER
from ..dialect import Dialect
from ..source import Source

KEYS = ("topology", "npus_count", "bandwidth", "latency")
LINE = re.compile(r"\s*+([A-Za-z_][\w-]*+)\s*+:\s*+(.*+)")
ITEM = re.compile(r"\s*+-\s*+(.++)")
# Its gigabytes are binary ones, and its times nanoseconds.
GIGABYTE = 2**30
NANOSECOND = 1e-9
SHAPES = {"ring": True, "line": False, "mesh": False}


def is_network(source: Source) -> bool:
    """Whether the keys of a topology and of its sizes stand at the start of lines."""
    keys = {match[1] for line in source.raw_lines if (match := LINE.fullmatch(line))}
    return {"topology", "npus_count"} <= keys


def _may_be_network(source: Source) -> bool:
    keys = {match[1] for line in source.raw_lines if (match := LINE.fullmatch(line))}
    return len(keys & set(KEYS)) > 1


def read(source: Source) -> Torus:
    """Return the torus of rings and lines."""
    text = source.text
    lists = _lists(text)
    kinds, line = lists.get("topology", ([], None))
    sizes, size_line = lists.get("npus_count", ([], None))
    if not kinds or len(kinds) != len(sizes):
        found = f"{len(kinds)} topologies and {len(sizes)} sizes"
        raise text.fault("dimensions differ", size_line, found, "one of each for each dimension")
    wrap = []
    for kind, size in zip(kinds, sizes, strict=True):
        if kind.lower() in SHAPES or size in ("1", "2"):
            # Two chips have one link, whatever it is called.
            wrap.append(SHAPES.get(kind.lower(), False))
        else:
            raise text.fault("no torus", line, kind, "Ring (or Line) in every dimension")
        if not re.fullmatch(r"\d{1,9}", size):
            raise text.fault("bad npus_count", size_line, size, "whole numbers")
    speeds = _numbers(text, lists, "bandwidth", len(sizes))
    latencies = _numbers(text, lists, "latency", len(sizes))
    if len({*latencies}) > 1:
        warnings.warn(
            f"{text.file}: dimensions differ in their latency, of which a torus has one: "
            f"{max(latencies):g} ns, the longest, is taken",
            InputWarning,
            stacklevel=2,
        )
    try:
        return Torus(
            tuple(map(int, sizes)),
            wrap=tuple(wrap),
            bandwidth=tuple(speed * GIGABYTE for speed in speeds),
            name=label(source.path),
        ).with_network(hop_latency=max(latencies) * NANOSECOND)
    except InputError as error:
        raise text.fault(error.message, size_line, error.found, error.expected) from None


def _lists(text: Text) -> dict[str, tuple[list[str], int]]:
    """The lists of all keys with their lines: in brackets, or an item a line."""
    lists: dict[str, tuple[list[str], int]] = {}
    last = ""
    for number, raw in enumerate(text.raw_lines(), start=1):
        line = raw.partition("#")[0].rstrip()
        item = ITEM.fullmatch(line)
        match = LINE.fullmatch(line)
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


def _numbers(
    text: Text, lists: dict[str, tuple[list[str], int]], key: str, count: int
) -> list[float]:
    values, line = lists.get(key, ([], None))
    good = [float(value) for value in values if NUMBER.fullmatch(value) and len(value) < 40]
    if len(good) != len(values) or len(values) != count or any(value < 0 for value in good):
        expected = f"{count} numbers, one for each dimension"
        raise text.fault(f"bad {key}", line, ", ".join(values) or "none", expected)
    return good


def write(torus: Torus, path: Path) -> None:
    """Write rings and lines."""
    if torus.twist:
        raise InputError("ASTRA-sim has no such torus", found=str(torus), expected="no twist")
    columns = {
        "topology": ["Ring" if wrap else "Line" for wrap in torus.wrap],
        "npus_count": [str(size) for size in torus.shape],
        "bandwidth": [f"{speed / GIGABYTE!r}" for speed in torus.bandwidth],
        "latency": [f"{float(f'{torus.network.hop_latency / NANOSECOND:.12g}')!r}"] * torus.ndim,
    }
    lines = [f"{key}: [ {', '.join(values)} ]" for key, values in columns.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


DIALECT = Dialect(
    name="astra-sim",
    holds="torus",
    title="network of ASTRA-sim's analytical back end (YAML)",
    recognise=is_network,
    near=_may_be_network,
    read=read,
    write=write,
    suffixes=(".yml", ".yaml"),
    documentation="""
For each dimension `topology` (`Ring`, or `Line` for a mesh; a `Switch` or `FullyConnected` of more
than two is no torus), `npus_count`, `bandwidth` (GB/s of 2^30 bytes) and `latency` (nanoseconds, of
which a torus has one: the longest is taken). ASTRA-sim counts chips with the first dimension
fastest.
""",
    example="""topology: [ Ring, Ring ]
npus_count: [ 4, 8 ]
bandwidth: [ 50.0, 25.0 ]  # GB/s
latency: [ 500.0, 500.0 ]  # ns
""",
)
