"""``toruscast convert``: convert communication graphs, mappings and tori between formats."""

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

from .mappings import MappingFile, is_folder_path
from .options import (
    GraphFileOptions,
    MappingFileOptions,
    TorusOptions,
    argument,
    option,
    refuse_options,
    sub_command,
    tasks_option,
)
from .output import Output
from .problem import Occupancy, divide_by_iterations, format_graph, load_torus, read_traffic
from .slow import format_registry, permute


@dataclass(frozen=True)
class _ConvertGraphOptions(GraphFileOptions):
    tasks: int | None = tasks_option("Number of tasks of the graph.")
    messages: str | None = option("A second matrix, with the message counts.", "FILE")


@dataclass(frozen=True)
class _ConvertOptions:
    source: str = argument("IN")
    target: str = argument("OUT")
    mapping: bool = option(
        "IN is a file or folder of mappings, or a rank order of the machine such as TXYZ. It "
        "needs --torus.",
        default=False,
        group="Input",
    )
    machine: bool = option(
        "IN is a torus: sizes, a machine or a torus file. --network changes it.",
        default=False,
        group="Input",
    )
    out_format: str | None = option("Format of OUT.  [default: by suffix]", "NAME", group="Output")


@sub_command("convert")
def command(
    options: _ConvertOptions,
    machine: TorusOptions,
    mappings: MappingFileOptions,
    graph: _ConvertGraphOptions,
    output: Output,
) -> None:
    """Convert a graph, mappings or a torus to the format of OUT's suffix or --out-format.

    Graphs are written as .txt, .edges, .csv, .npz, .mtx, .graph (METIS), .grf (Scotch) or .parquet,
    and traces with their rounds as .goal. A mapping is written as .map, .csv or a launcher's file,
    and several are written to FOLDER/. A torus is written as a machine file or for other tools.
    'toruscast formats' lists all formats. IN is a file in any format, or a shipped dataset. Traffic
    is divided by iterations only with --iterations.

    \b
    toruscast convert app.prof app.npz
    toruscast convert --mapping --torus 8x8x8 best.map MPICH_RANK_ORDER
    toruscast convert --mapping --torus 8x8x8 best.map best.rankfile --hosts hosts.csv
    toruscast convert --mapping --torus 8x8x8 maps/ taskmaps/ --out-format flux
    toruscast convert trace app.goal
    toruscast convert --machine bluegene_q:1024 mine.toml --network hop_latency=90ns
    """  # noqa: D301
    output.check(others={"OUT": options.target})
    if options.mapping and options.machine:
        raise click.UsageError("--mapping and --machine exclude each other")
    graph_options, mapping_options = (
        [each.name for each in fields(group) if each.name != "form"]
        for group in (_ConvertGraphOptions, MappingFileOptions)
    )
    if options.machine:
        reason = "cannot be used with --machine"
        refuse_options(reason, *graph_options, *mapping_options, "form", "torus")
        content, summary = _convert_torus(options, machine)
    elif options.mapping:
        refuse_options("cannot be used with --mapping", *graph_options)
        if machine.torus is None:
            raise click.UsageError("--mapping needs --torus")
        content, summary = _convert_mappings(options, machine, mappings, output)
    else:
        refuse_options("needs --mapping", "torus", *mapping_options)
        refuse_options("needs --mapping or --machine", "changes")
        content, summary = _convert_graph(options, graph, output)
    table = Table(pd.DataFrame([content]), ())
    output.write_files(answers.blocks.table_answer("", table, content=content))
    output.print_line(f"{options.target}: {summary}")


def _convert_graph(
    options: _ConvertOptions, graph: _ConvertGraphOptions, output: Output
) -> tuple[dict[str, Any], str]:
    """Convert a graph; return JSON entries and a one-line summary."""
    target = options.target
    check_target(target)
    format_registry.dialect_to_write("graph", target, options.out_format)
    workload, _ = read_traffic(
        options.source,
        graph.include,
        n_tasks=graph.tasks,
        messages=graph.messages,
        **graph.reader_arguments,
    )
    workload = divide_by_iterations(workload, graph.iterations)
    comm = workload.total
    with output.progress("Writing"):
        tc.write_comm(workload, target, options.out_format)
    if target.endswith(".mtx") and (comm.n_messages != 1).any():
        output.message(f"{target}: Matrix Market files hold bytes only; message counts are lost")
    if workload.omitted:
        output.message(f"{options.source}: {describe_omissions(workload.omitted)}")
    content = {
        "out": target,
        "omitted": list(map(asdict, workload.omitted)),
        "tasks": comm.n_tasks,
        "edges": comm.n_edges,
        "bytes": float(comm.nbytes.sum()),
        "messages": float(comm.n_messages.sum()),
    }
    return content, format_graph(content)


def _convert_mappings(
    options: _ConvertOptions, machine: TorusOptions, reading: MappingFileOptions, output: Output
) -> tuple[dict[str, Any], str]:
    """Convert a mapping to a file, or several to a folder; return entries and a summary."""
    source, target = options.source, options.target
    file = MappingFile(target, options.out_format)
    file.check(reading.hosts, may_be_folder=True)
    torus = load_torus(machine)
    if permute.parse_rank_order(source, torus) and not Path(source).exists():
        mappings = [permute.map_ranks(source, torus, tasks_per_node=reading.tasks_per_node)]
    else:
        mappings = tc.read_mappings(source, torus, **reading.reader_arguments)
    advice = ""
    if is_folder_path(target):
        file.write_all(mappings, torus, reading.hosts, output)
    elif len(mappings) > 1:
        fault, expected = "one file cannot contain several mappings", "a folder, such as maps/"
        raise InputError(fault, file=target, found=len(mappings), expected=expected)
    else:
        advice = file.write(mappings[0], torus, reading.hosts).partition("; ")[2]
    content = {
        "out": target,
        "mappings": len(mappings),
        "tasks": mappings[0].n_tasks,
        "occupancy": str(Occupancy(mappings)),
        "advice": advice,
    }
    line = f"{counted(len(mappings), 'mapping')} of {counted(mappings[0].n_tasks, 'task')}"
    return content, f"{line}, {content['occupancy']}" + (f"; {advice}" if advice else "")


def _convert_torus(options: _ConvertOptions, machine: TorusOptions) -> tuple[dict[str, Any], str]:
    check_target(options.target)
    torus = load_torus(replace(machine, torus=options.source))
    advice = tc.write_torus(torus, options.target, options.out_format)
    content = {"out": options.target, "torus": str(torus), "nodes": torus.n_nodes, "advice": advice}
    line = f"{torus}, {counted(torus.n_nodes, 'node')}"
    return content, line + (f"; to use it: {advice}" if advice else "")
