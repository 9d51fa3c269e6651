"""``toruscast machines``: the machines that are known, and where their numbers come from."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from toruscast.answers.tables import new_table, print_table

from . import options
from .output import Output

if TYPE_CHECKING:
    from rich.console import Console

    from toruscast.mapping import Torus


@click.command("machines")
@click.argument("name", metavar="[NAME]", required=False)
@options.output_record
def command(name: str | None, output: Output) -> None:
    """List the machines that --torus knows; with a NAME, all that is known of one.

    A machine is typed as its name, alone or with sizes. An m after a size makes that dimension a
    mesh, where the site or the job decides what wraps; other machines decide that by the sizes.

    \b
    toruscast machines
    toruscast machines tpu_v6e:8x16
    toruscast rank --comm lammps-lj-64 --torus bluegene_q:64
    """  # noqa: D301
    import pandas as pd

    from toruscast.mapping import machines

    output.check()
    if name is None:
        chosen = [(known, machines.named(known)()) for known in machines.names()]
    else:
        torus = machines.get(name)
        chosen = [(torus.name, torus)]
    rows = [_row(known, torus) for known, torus in chosen]
    output.write({"machines": rows}, pd.DataFrame(rows).drop(columns=["about", "sources"]))
    if not output.for_people:
        return
    if name is None:
        _list(rows, output.console())
    else:
        _tell(rows[0], chosen[0][1], output.console())


def _row(name: str, torus: Torus) -> dict[str, Any]:
    """What programs are told of a machine."""
    from toruscast.mapping import machines

    known = machines.named(name)
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


def _list(rows: list[dict[str, Any]], console: Console) -> None:
    table = new_table("machine", "what", "such as", "nodes", left=("machine", "what", "such as"))
    for row in rows:
        table.add_row(row["machine"], row["what"], row["torus"], f"{row['nodes']:,}")
    print_table(table, console, 2)
    console.print(
        "The name alone stands for the sizes shown. 'toruscast machines NAME' tells where"
    )
    console.print("the numbers come from. Any torus: --torus 8x8x8, or 8x8x8m, a mesh in the last.")


def _tell(row: dict[str, Any], torus: Torus, console: Console) -> None:
    from toruscast.mapping import machines

    network = torus.network
    rates = ", ".join(
        f"{axis} {rate / 1e9:g}" for axis, rate in zip(torus.axes, torus.bandwidth, strict=True)
    )
    console.print(f"{row['torus']}: {row['what']}", soft_wrap=True)
    console.print(f"{torus.n_nodes:,} nodes, {torus.n_existing_links:,} links one way")
    kinds = (
        f"{axis} {size} ({'ring' if ring else 'line'})"
        for axis, size, ring in zip(torus.axes, torus.shape, torus.wrap, strict=True)
    )
    console.print(f"dimensions: {', '.join(kinds)}")
    console.print(f"GB/s of a link each way: {rates}")
    console.print(
        f"packets of {network.payload} + {network.header} bytes, "
        f"{network.hop_latency * 1e9:g} ns a hop, {network.fifos} injection queues, "
        f"{network.memory_bandwidth / 1e9:g} GB/s into memory"
    )
    if network.start:
        console.print(f"{network.start * 1e6:g} us to start a transfer")
    if row["about"]:
        console.print()
        console.print(row["about"].replace("`", ""))
    console.print()
    for source in machines.named(torus.name).sources:
        console.print(f"{', '.join(source.of)}. {source}".replace("`", ""))
