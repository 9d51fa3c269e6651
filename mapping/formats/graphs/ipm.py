"""Communication graphs from the XML logs of IPM."""

from __future__ import annotations

import re
import warnings
from xml.etree import ElementTree

from toruscast.errors import InputWarning

from ...comm_graph import MAX_TASKS, CommGraph, sum_edges
from ..dialect import Dialect
from ..opening import Text, at_file
from ..source import Source
from .build import GraphOptions

START = re.compile(
    rb"\s*+(?><\?xml[^>]*\?>\s*+)?(?><!--.*?-->\s*+)*+<ipm(_job_profile)?[\s>]", re.S
)
SENDS = re.compile(r"MPI_(Send|I?[bsr]?send|Sendrecv(_replace)?)", re.I)
RECEIVES = re.compile(r"MPI_(I?recv|Wait.*|Test.*|I?probe)", re.I)
WHOLE = re.compile(r"[0-9]{1,15}")


def is_ipm(source: Source) -> bool:
    """Whether the root of the XML is IPM's."""
    return bool(START.match(source.start[:4096]))


def read(source: Source, options: GraphOptions) -> CommGraph:
    """Return the graph of all sends in the hash tables of the tasks."""
    options.only(source.path)
    text = source.text
    rows: list[tuple[int, int, int, int]] = []
    size, left_out = 0, 0.0
    for task in _root(text).iter("task"):
        rank = _whole(text, task, "mpi_rank")
        size = max(
            size,
            rank + 1,
            int(task.get("mpi_size", "0").strip() or 0)
            if WHOLE.fullmatch(task.get("mpi_size", "0").strip())
            else 0,
        )
        for entry in task.iter("hent"):
            call = entry.get("call", "")
            if SENDS.fullmatch(call):
                count, nbytes = _whole(text, entry, "count"), _whole(text, entry, "bytes")
                rows.append((rank, _whole(text, entry, "orank"), nbytes * count, count))
            elif not RECEIVES.fullmatch(call) and WHOLE.fullmatch(entry.get("bytes", "")):
                left_out += float(entry.get("bytes", 0)) * float(entry.get("count", "1") or 1)
    if not rows:
        raise text.fault(
            "IPM log without a message",
            None,
            "no hash entry of a send",
            'entries such as <hent call="MPI_Isend" bytes= orank= count=>, which IPM writes with '
            "IPM_LOG=full",
        )
    src, dst, nbytes_, counts = zip(*rows, strict=True)
    size = max(size, max(dst) + 1)
    if left_out:
        warnings.warn(
            f"{source.path}: {left_out:.15g} bytes of collective calls are left out",
            InputWarning,
            stacklevel=2,
        )
    with at_file(source.path):
        return sum_edges(options.n_tasks or size, src, dst, nbytes_, counts, name=options.name)


def _root(text: Text) -> ElementTree.Element:
    if b"<!DOCTYPE" in text.data or b"<!ENTITY" in text.data:
        raise text.fault("XML with entities", None, "<!DOCTYPE or <!ENTITY", "a log of IPM")
    try:
        return ElementTree.fromstring(text.data)
    except ElementTree.ParseError as error:
        found = str(error).partition(":")[0]
        raise text.fault("damaged XML", error.position[0], found, "a log of IPM") from None


def _whole(text: Text, element: ElementTree.Element, name: str) -> int:
    value = element.get(name, "").strip()
    most = MAX_TASKS - 1 if name in ("mpi_rank", "orank") else 10**15
    if not WHOLE.fullmatch(value) or int(value) > most:
        raise text.fault(f"bad {name} of <{element.tag}>", None, value or "none", f"0 to {most}")
    return int(value)


DIALECT = Dialect(
    name="ipm",
    holds="graph",
    summed=True,
    title="XML log of IPM",
    recognise=is_ipm,
    read=read,
    documentation="""
The hash tables of a full log (`IPM_LOG=full`): entries of sends with `bytes` of a message, `orank`
and `count`. Collective calls are left out, and a warning says how much they are.
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
