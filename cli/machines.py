"""``toruscast machines``: the machines that are known, and where their numbers come from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Column, Table

from .options import argument, sub_command
from .output import Output


@dataclass(frozen=True)
class Named:
    """One of them."""

    name: str | None = argument("[NAME]")


@sub_command("machines")
def command(which: Named, output: Output) -> None:
    """List the machines that --torus knows; with a NAME, all that is known of one.

    A machine is typed as its name, alone or with sizes. An m after a size makes that dimension a
    mesh, where the site or the job decides what wraps; other machines decide that by the sizes.

    \b
    toruscast machines
    toruscast machines tpu_v6e:8x16
    toruscast rank --comm lammps-lj-64 --torus bluegene_q:64
    """  # noqa: D301
    machines = tc.machines
    output.check()
    if which.name is None:
        chosen = [(known, machines.named(known)()) for known in machines.names()]
    else:
        torus = machines.get(which.name)
        chosen = [(torus.name, torus)]
    rows = [_row(known, torus) for known, torus in chosen]
    frame = pd.DataFrame(rows).drop(columns=["about", "sources"])
    if which.name is not None:
        shown = _one(rows[0], chosen[0][1], Table(frame, ()))
    else:
        shown = answers.blocks.of_table(
            f"{len(rows)} machines", Table(frame, _COLUMNS), below=_NOTES
        )
    output.deliver(replace(shown, content={"machines": rows}))


def _row(name: str, torus: tc.Torus) -> dict[str, Any]:
    """Return what programs get to know of a machine."""
    known = tc.machines.named(name)
    return {
        "machine": name,
        "torus": str(torus).replace(" ", ":"),
        "nodes": torus.n_nodes,
        "what": known.title,
        "link_GBps": "/".join(f"{rate / 1e9:g}" for rate in dict.fromkeys(torus.bandwidth)),
        "wraps": "".join("-" if not w else a for a, w in zip(torus.axes, torus.wrap, strict=True)),
        "about": known.about,
        "sources": [asdict(source) for source in known.sources],
    }


_COLUMNS = [
    Column("machine", kind="name"),
    Column("what", priority=0),
    Column("torus", "such as", "label"),
    Column("nodes", kind="count"),
]
_NOTES = (
    "The name alone means the sizes shown. 'toruscast machines NAME' says where the numbers "
    "come from.",
    "Any torus: --torus 8x8x8, or 8x8x8m, a mesh in the last.",
)


def _one(row: dict[str, Any], torus: tc.Torus, table: Table) -> answers.blocks.Answer:
    network = torus.network
    rates = ", ".join(
        f"{axis} {rate / 1e9:g}" for axis, rate in zip(torus.axes, torus.bandwidth, strict=True)
    )
    kinds = (
        f"{axis} {size} ({'ring' if ring else 'line'})"
        for axis, size, ring in zip(torus.axes, torus.shape, torus.wrap, strict=True)
    )
    notes = [
        f"{torus.n_nodes:,} nodes, {torus.n_existing_links:,} links one way",
        f"dimensions: {', '.join(kinds)}",
        f"GB/s of a link each way: {rates}",
        f"packets of {network.payload} + {network.header} bytes, "
        f"{network.hop_latency * 1e9:g} ns a hop, {network.fifos} injection queues, "
        f"{network.memory_bandwidth / 1e9:g} GB/s into memory",
    ]
    if network.start:
        notes.append(f"{network.start * 1e6:g} us to start a transfer")
    sources = [
        f"{', '.join(source.of)}. {source}".replace("`", "")
        for source in tc.machines.named(torus.name).sources
    ]
    about = [row["about"].replace("`", "")] if row["about"] else []
    head = f"{row['torus']}: {row['what']}"
    return answers.blocks.of_table(head, table, notes=notes, below=[*about, *sources])
