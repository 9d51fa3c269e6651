"""``toruscast convert``: communication graphs and mappings between formats."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import click

import toruscast as tc
from toruscast import answers
from toruscast._slow import pandas as pd
from toruscast.answers.table import Table
from toruscast.errors import InputError
from toruscast.files import check_target
from toruscast.mapping.omissions import describe_omissions
from toruscast.text import counted

from .mappings import MappingFile, is_folder, write_to_folder
from .options import (
    Placing,
    Reading,
    TorusOptions,
    argument,
    option,
    refuse,
    sub_command,
    tasks_option,
)
from .output import Output
from .problem import graph_line, load_torus, occupancy, per_iteration, read_traffic
from .slow import rank_orders, registry


@dataclass(frozen=True)
class GraphFile(Reading):
    """How the graph of a file is read, and what the file does not say."""

    tasks: int | None = tasks_option("Number of tasks of the graph.")
    messages: str | None = option("A second matrix, with the message counts.", "FILE")


@dataclass(frozen=True)
class Conversion:
    """From where to where."""

    source: str = argument("IN")
    target: str = argument("OUT")
    mapping: bool = option(
        "IN holds mappings, not a communication graph; needs --torus. A folder; a file in any of "
        "the formats that are read; or the machine's own word for an order, such as TXYZ.",
        default=False,
        group="Input",
    )
    machine: bool = option(
        "IN is a torus: sizes, a machine or a file of one; --network changes it.",
        default=False,
        group="Input",
    )
    out_format: str | None = option(
        "Format of OUT; by its suffix if not given.", "NAME", group="Output"
    )


@sub_command("convert")
def command(
    what: Conversion, place: TorusOptions, placing: Placing, graph: GraphFile, output: Output
) -> None:
    """Convert a communication graph, mappings or a torus, by OUT's suffix or --out-format.

    Graphs go to .txt, .edges, .csv, .npz, .mtx, .graph (METIS), .grf (Scotch) or .parquet, mappings
    to a launcher's file, .map, .csv or FOLDER/, tori to a machine file or those of other tools;
    'toruscast formats' lists all. IN is a file in any of the formats that are read, or a shipped
    dataset; it is not divided by its iterations unless --iterations says so.

    \b
    toruscast convert app.prof app.npz
    toruscast convert --mapping --torus 8x8x8 best.map MPICH_RANK_ORDER
    toruscast convert --mapping --torus 8x8x8 best.map best.rankfile --hosts hosts.csv
    toruscast convert --machine bluegene_q:1024 mine.toml --network hop_latency=90ns
    """  # noqa: D301
    output.check(also={"OUT": what.target})
    if what.mapping and what.machine:
        raise click.UsageError("--mapping and --machine exclude each other")
    graphs, placings = (
        [each.name for each in fields(record) if each.name != "form"]
        for record in (GraphFile, Placing)
    )
    if what.machine:
        refuse("without --machine", *graphs, *placings, "form", "torus")
        content, words = _machine(what, place)
    elif what.mapping:
        refuse("without --mapping", *graphs)
        if place.torus is None:
            raise click.UsageError("--mapping needs --torus")
        content, words = _mappings(what, place, placing, output)
    else:
        refuse("with --mapping", "torus", *placings)
        refuse("with --mapping or --machine", "changes")
        content, words = _graph(what, graph, output)
    output.save(answers.blocks.of_table("", Table(pd.DataFrame([content]), ()), content=content))
    output.say(f"{what.target}: {words}")


def _graph(what: Conversion, graph: GraphFile, output: Output) -> tuple[dict[str, Any], str]:
    """Convert a graph; return what was written, and a line about it."""
    target = what.target
    check_target(target)
    registry.dialect_to_write("graph", target, what.out_format)
    read, _ = read_traffic(
        what.source, graph.include, n_tasks=graph.tasks, messages=graph.messages, **graph.how
    )
    comm = per_iteration(read.total, graph.iterations)
    with output.progress("Writing"):
        tc.write_comm(comm, target, what.out_format)
    if target.endswith(".mtx") and (comm.n_messages != 1).any():
        output.message(f"{target}: Matrix Market files hold bytes only; message counts are lost")
    if read.omitted:
        output.message(f"{what.source}: {describe_omissions(read.omitted)}")
    content = {
        "out": target,
        "omitted": list(map(asdict, read.omitted)),
        "tasks": comm.n_tasks,
        "edges": comm.n_edges,
        "bytes": float(comm.nbytes.sum()),
        "messages": float(comm.n_messages.sum()),
    }
    return content, graph_line(content)


def _mappings(
    what: Conversion, place: TorusOptions, placing: Placing, output: Output
) -> tuple[dict[str, Any], str]:
    """Convert one mapping to a file, or several to a folder."""
    source, to = what.source, MappingFile(what.target, what.out_format)
    to.check(placing.hosts, folder=True)
    host = load_torus(place)
    if rank_orders.parse_rank_order(source, host) and not Path(source).exists():
        mappings = [rank_orders.map_ranks(source, host, tasks_per_node=placing.tasks_per_node)]
    else:
        mappings = tc.read_mappings(source, host, **placing.how)
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
    content = {
        "out": target,
        "mappings": len(mappings),
        "tasks": mappings[0].n_tasks,
        "occupancy": occupancy(mappings),
        "advice": advice,
    }
    of = f"{counted(len(mappings), 'mapping')} of {counted(mappings[0].n_tasks, 'task')}"
    return content, f"{of}, {content['occupancy']}" + (f"; {advice}" if advice else "")


def _machine(what: Conversion, place: TorusOptions) -> tuple[dict[str, Any], str]:
    """Write a torus of text or a file to a file."""
    check_target(what.target)
    torus = load_torus(replace(place, torus=what.source))
    advice = tc.write_torus(torus, what.target, what.out_format)
    content = {"out": what.target, "torus": str(torus), "nodes": torus.n_nodes, "advice": advice}
    words = f"{torus}, {counted(torus.n_nodes, 'node')}"
    return content, words + (f"; to use it: {advice}" if advice else "")
