"""``toruscast convert``: communication graphs and mappings between formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from toruscast.report.units import nbytes

from . import options
from .inputs import per_iteration, read_traffic
from .mapping_files import check_target, is_folder, write_to_folder
from .occupancy import occupancy
from .output import Output, check_writable
from .reading_options import include_option, iterations_option, reading_options
from .records import Reading, as_record, refuse


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
    help="IN holds mappings, not a communication graph; needs --torus. A folder; a file "
    f"({options.MAPPING_HELP}); or lines of name,node,node,...",
)
@click.option("--torus", metavar="TORUS", help=options.TORUS_HELP)
@options.tasks_per_node_option
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
    torus: str | None,
    tasks_per_node: int | None,
    graph: GraphFile,
    dialect: str | None,
    output: Output,
) -> None:
    """Convert a communication graph or mappings; --dialect or the suffix of OUT names the format.

    Graphs go to .txt, .edges, .csv, .npz, .mtx, .graph (METIS), .grf (Scotch) or .parquet, mappings
    to .map, .txt, .csv or FOLDER/; 'toruscast formats' lists all. IN is a file in any of the
    formats that are read, or a shipped dataset; it is not divided by its iterations unless
    --iterations says so.

    \b
    toruscast convert app.prof app.npz
    toruscast convert --mapping --torus 8x8x8 nodes.csv best.map
    """  # noqa: D301
    output.check(also={"OUT": target})
    if mapping:
        refuse("without --mapping", GraphFile)
        if torus is None:
            raise click.UsageError("--mapping needs --torus")
        content = _mappings((source, target, dialect), torus, tasks_per_node, output)
    else:
        refuse("with --mapping", "torus", "tasks_per_node")
        from toruscast.mapping.formats import write_comm
        from toruscast.mapping.formats.registry import writer_of

        check_writable(target)
        writer_of("graph", target, dialect)
        traffic, _ = read_traffic(
            source, graph.include, n_tasks=graph.tasks, messages=graph.messages, **graph.how
        )
        comm = per_iteration(traffic.total, graph.iterations)
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
    if output.for_people and not output.quiet:
        click.echo(_words(content))


def _mappings(
    files: tuple[str, str, str | None], torus: str, capacity: int | None, output: Output
) -> dict[str, Any]:
    """Convert one mapping to a file, or several to a folder; ``files``: from, to, dialect."""
    from toruscast.errors import InputError
    from toruscast.mapping import parse_torus
    from toruscast.mapping.formats import read_mappings, write_mapping

    source, target, dialect = files
    if dialect is None:
        check_target(target)
    host = parse_torus(torus)
    mappings = read_mappings(source, host, tasks_per_node=capacity)
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
        write_mapping(mappings[0], host, target, dialect)
    return {
        "out": target,
        "mappings": len(mappings),
        "tasks": mappings[0].n_tasks,
        "occupancy": occupancy(mappings),
    }


def _words(content: dict[str, Any]) -> str:
    from toruscast.wording import counted

    out, tasks = content["out"], counted(content["tasks"], "task")
    if "edges" in content:
        return (
            f"{out}: {tasks}, {counted(content['edges'], 'edge')}, {nbytes(content['bytes'])}, "
            f"{counted(round(content['messages']), 'message')}"
        )
    return f"{out}: {counted(content['mappings'], 'mapping')} of {tasks}, {content['occupancy']}"
