"""Tori in platform files of SimGrid."""

from __future__ import annotations

import math
import re
from pathlib import Path

from toruscast.errors import InputError

from ...torus import Torus
from .._source import label
from ..dialect import Dialect
from ..source import Source
from .units import bytes_a_second, seconds

CLUSTER = re.compile(r"<cluster\b([^<>]*)>", re.S)
ATTRIBUTE = re.compile(r"(?<![\w:.-])([\w:.-]++)\s*+=\s*(\"[^\"]*\"|'[^']*')")
PLATFORM = re.compile(rb"\A(?>\s++|<\?xml[^>]*>|<!DOCTYPE platform[^>]*>)*+<platform\b")
COMMENT = re.compile(r"<!--(?>[^<]|<(?!!--))*?-->")
TORUS = re.compile(rb"<cluster\b[^<>]*topology\s*=\s*[\"']TORUS[\"']", re.S | re.I)


def is_platform(source: Source) -> bool:
    """Whether XML is a platform, of which a cluster may be a torus."""
    return bool(TORUS.search(source.start) or PLATFORM.search(source.start))


def read(source: Source) -> Torus:
    """Return the torus of the cluster."""
    text = source.text
    words = COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text.data.decode())
    found = []
    for match in CLUSTER.finditer(words):
        keys = {key.lower(): value[1:-1] for key, value in ATTRIBUTE.findall(match[1])}
        if keys.get("topology", "").upper() == "TORUS":
            found.append((words.count("\n", 0, match.start()) + 1, keys))
    if len(found) != 1:
        raise text.fault("no single torus", None, f"{len(found)} of them", "one <cluster> of TORUS")
    number, keys = found[0]
    sizes = [size.strip() for size in keys.get("topo_parameters", "").split(",")]
    if not all(re.fullmatch(r"\d{1,9}", size) for size in sizes):
        found_sizes = keys.get("topo_parameters", "none")
        raise text.fault("bad topo_parameters", number, found_sizes, "sizes such as 4,4,4")
    bandwidth = bytes_a_second(keys.get("bw", ""))
    latency = seconds(keys.get("lat", "0s"))
    if bandwidth is None or latency is None:
        name = "bw" if bandwidth is None else "lat"
        expected = "a number with its unit, such as 125MBps, 50us"
        raise text.fault(f"bad {name}", number, keys.get(name, "none"), expected)
    if keys.get("sharing_policy", "").upper() == "SHARED":
        # Both ways share a link: on the average each has half of it.
        bandwidth /= 2
    try:
        torus = Torus(
            tuple(map(int, sizes)),
            bandwidth=(bandwidth,),
            tie="simgrid",
            name=keys.get("id") or label(source.path),
        ).with_network(hop_latency=latency)
    except InputError as error:
        raise text.fault(error.message, number, error.found, error.expected) from None
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


def write(torus: Torus, path: Path) -> None:
    """Write a platform with one cluster; all dimensions wrap and are as fast."""
    if not all(torus.wrap) or torus.twist or len({*torus.bandwidth}) > 1:
        expected = "all dimensions wrap and have one bandwidth, and there is no twist"
        raise InputError("SimGrid has no such torus", found=str(torus), expected=expected)
    name = re.sub(r"[^\w-]", "_", torus.name) or "torus"
    sizes = ",".join(map(str, torus.shape))
    if not math.isfinite(torus.bandwidth[0]):
        raise InputError("bad bandwidth", found=torus.bandwidth[0])
    path.write_text(
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        '<platform version="4.1">\n'
        f'  <cluster id="{name}" prefix="node-" suffix="" radical="0-{torus.n_nodes - 1}"\n'
        f'           speed="1Gf" bw="{torus.bandwidth[0]!r}Bps" '
        f'lat="{torus.network.hop_latency!r}s"\n'
        f'           topology="TORUS" topo_parameters="{sizes}"/>\n'
        "</platform>\n",
        encoding="utf-8",
    )


DIALECT = Dialect(
    name="simgrid",
    holds="torus",
    title="platform of SimGrid with a cluster of topology TORUS",
    recognise=is_platform,
    read=read,
    write=write,
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
)
