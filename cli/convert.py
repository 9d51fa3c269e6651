"""``toruscast convert``: communication graphs and mappings between formats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from toruscast.units import nbytes

from . import options
from .inputs import load_torus, per_iteration, read_traffic
from .mapping_files import MappingFile, is_folder, write_to_folder
from .output import Output, check_writable
from .phrases import occupancy
from .placing_options import placing_options
from .reading_options import include_option, iterations_option, reading_options
from .records import Host, Placing, Reading, as_record, refuse


@dataclass(frozen=True)
class GraphFile(Reading):
    """How the graph of a file is read, and what the file does not tell."""

    tasks: int | None = None
    messages: str | None = None
    """A second matrix, with the message counts."""


@click.command("convert")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option(
    "--mapping",
    is_flag=True,
    help="IN holds mappings, not a communication graph; needs --torus. A folder; a file in any of "
    "the formats that are read; or the machine's own word for an order, such as TXYZ.",
)
@click.option(
    "--host",
    is_flag=True,
    help="IN is a torus: sizes, a machine or a file of one; --network changes it.",
)
@as_record(
    "place",
    Host,
    click.option("--torus", metavar="TORUS", help=options.TORUS_HELP),
    options.network_option,
)
@as_record("placing", Placing, *placing_options)
@as_record(
    "graph",
    GraphFile,
    include_option,
    iterations_option(),
    click.option("--tasks", type=options.TASKS, metavar="N", help="Number of tasks of the graph."),
    *reading_options,
    click.option("--messages", metavar="FILE", help="A second matrix, with the message counts."),
)
@click.option("--dialect", metavar="NAME", help="Format of OUT; by its suffix if not given.")
@options.output_record
def command(
    source: str,
    target: str,
    mapping: bool,
    host: bool,
    place: Host,
    placing: Placing,
    graph: GraphFile,
    dialect: str | None,
    output: Output,
) -> None:
    """Convert a communication graph, mappings or a torus; --dialect or OUT's suffix says to what.

    Graphs go to .txt, .edges, .csv, .npz, .mtx, .graph (METIS), .grf (Scotch) or .parquet, mappings
    to a launcher's file, .map, .csv or FOLDER/, tori to a machine file or those of other tools;
    'toruscast formats' lists all. IN is a file in any of the formats that are read, or a shipped
    dataset; it is not divided by its iterations unless --iterations says so.

    \b
    toruscast convert app.prof app.npz
    toruscast convert --mapping --torus 8x8x8 best.map MPICH_RANK_ORDER
    toruscast convert --mapping --torus 8x8x8 best.map best.rankfile --hosts hosts.csv
    toruscast convert --host bluegene_q:1024 mine.toml --network hop_latency=90ns
    """  # noqa: D301
    output.check(also={"OUT": target})
    if mapping and host:
        raise click.UsageError("--mapping and --host exclude each other")
    if host:
        refuse("without --host", GraphFile, Placing, "torus")
        content = _host(source, target, dialect, place)
    elif mapping:
        refuse("without --mapping", GraphFile)
        if place.torus is None:
            raise click.UsageError("--mapping needs --torus")
        content = _mappings(source, MappingFile(target, dialect), place, placing, output)
    else:
        refuse("with --mapping", "torus", Placing)
        refuse("with --mapping or --host", "changes")
        from toruscast.mapping.formats import write_comm
        from toruscast.mapping.formats.registry import dialect_to_write

        check_writable(target)
        dialect_to_write("graph", target, dialect)
        read, _ = read_traffic(
            source, graph.include, n_tasks=graph.tasks, messages=graph.messages, **graph.how
        )
        comm = per_iteration(read.total, graph.iterations)
        with output.progress("Writing"):
            write_comm(comm, target, dialect)
        if target.endswith(".mtx") and (comm.n_messages != 1).any():
            output.message(
                f"{target}: Matrix Market files hold bytes only; message counts are lost"
            )
        content = {
            "out": target,
            "tasks": comm.n_tasks,
            "edges": comm.n_edges,
            "bytes": float(comm.nbytes.sum()),
            "messages": float(comm.n_messages.sum()),
        }
    if output.json_path or output.csv_path:
        import pandas as pd

        output.write(content, pd.DataFrame([content]))
    output.say(_words(content))


def _mappings(
    source: str, to: MappingFile, place: Host, placing: Placing, output: Output
) -> dict[str, Any]:
    """Convert one mapping to a file, or several to a folder."""
    from toruscast.errors import InputError
    from toruscast.mapping.formats import read_mappings
    from toruscast.mapping.strategies.permute import is_order_word, ordered

    to.check(placing.hosts, folder=True)
    host = load_torus(place)
    if is_order_word(source, host) and not Path(source).exists():
        mappings = [ordered(source, host, tasks_per_node=placing.tasks_per_node)]
    else:
        mappings = read_mappings(source, host, **placing.how)
    target, advice = to.out or "", ""
    if is_folder(target):
        write_to_folder(mappings, host, target, output)
    elif len(mappings) > 1:
        raise InputError(
            "one file cannot take several mappings",
            file=target,
            found=len(mappings),
            expected="a folder, such as maps/",
        )
    else:
        advice = to.write(mappings[0], host, placing.hosts).partition("; ")[2]
    return {
        "out": target,
        "mappings": len(mappings),
        "tasks": mappings[0].n_tasks,
        "occupancy": occupancy(mappings),
        "advice": advice,
    }


def _host(source: str, target: str, dialect: str | None, place: Host) -> dict[str, Any]:
    """Write a torus of text or a file to a file."""
    from toruscast.mapping.formats import write_torus

    check_writable(target)
    torus = load_torus(replace(place, torus=source))
    advice = write_torus(torus, target, dialect)
    return {"out": target, "torus": str(torus), "nodes": torus.n_nodes, "advice": advice}


def _words(content: dict[str, Any]) -> str:
    from toruscast.wording import counted

    out = content["out"]
    if "torus" in content:
        advice = f"; to use it: {content['advice']}" if content["advice"] else ""
        return f"{out}: {content['torus']}, {counted(content['nodes'], 'node')}{advice}"
    tasks = counted(content["tasks"], "task")
    if "edges" in content:
        return (
            f"{out}: {tasks}, {counted(content['edges'], 'edge')}, {nbytes(content['bytes'])}, "
            f"{counted(round(content['messages']), 'message')}"
        )
    advice = f"; {content['advice']}" if content["advice"] else ""
    mappings = counted(content["mappings"], "mapping")
    return f"{out}: {mappings} of {tasks}, {content['occupancy']}{advice}"
