"""``toruscast explain``: why a mapping takes its time, and what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toruscast.answers.units import nbytes, seconds
from toruscast.wording import printable

from . import options
from .inputs import load_application, load_mapping, load_torus
from .output import Output, new_table, print_table, records
from .placing_options import placing_options
from .records import Placing, Traffic, Work, as_record

if TYPE_CHECKING:
    from rich.console import Console

    from toruscast.mapping import Torus
    from toruscast.search.explain import Explanation


@click.command("explain")
@options.traffic_options
@click.option(
    "--mapping",
    required=True,
    metavar="FILE|STRATEGY",
    help=f"A file ({options.MAPPING_HELP}), or a strategy such as identity or random@2.",
)
@click.option(
    "--against",
    default="identity",
    show_default=True,
    metavar="FILE|STRATEGY",
    help="What it is compared with.",
)
@as_record("placing", Placing, *placing_options)
@options.top_option(5)
@options.routed_work_options
@options.output_record
def command(
    traffic: Traffic,
    mapping: str,
    against: str,
    placing: Placing,
    top: int,
    work: Work,
    output: Output,
) -> None:
    """Explain why a mapping takes its time.

    Which links are hot, which task pairs put the load there, what the model weighs, and which
    exchange of two blocks of nodes would help most.

    \b
    toruscast explain --comm lammps-droplet-128 --torus 4x4x8 --mapping random
    toruscast explain --comm app.prof --torus 8x8x8 --mapping my.map --against best.map
    """  # noqa: D301
    from toruscast.search.explain import explain

    output.check()
    workload = load_application(traffic).workload
    torus = load_torus(traffic)
    two = [load_mapping(workload, torus, name, placing, work.seed) for name in (mapping, against)]
    with output.progress("Explaining"):
        why = explain(workload, torus, *two, routing=work.routing, n=top)
    content = {
        "mapping": why.mapping.name,
        "against": why.against.name,
        "time": why.time,
        "against_time": why.against_time,
        "bounds": why.reasons.bounds,
        "binding": why.reasons.binding,
        "links": records(why.links),
        "pairs": records(why.pairs),
        "weights": records(why.weights),
        "exchanges": records(why.exchanges),
    }
    output.write(content, why.pairs)
    if output.for_people:
        _print(why, torus, output.console(), top)


def _print(why: Explanation, torus: Torus, console: Console, top: int) -> None:
    name, other = printable(why.mapping.name), printable(why.against.name)
    share = why.time / why.against_time - 1
    than = f"{abs(share):.1%} {'more' if share > 0 else 'less'} than {other}"
    console.print(f"{name}: {seconds(why.time)}, simulated, {than}.")
    console.print(f"Bound by {why.reasons.binding}: {seconds(why.reasons.lower_bound)} at least.\n")
    links = new_table(
        "hot link", "bytes", "times the mean", f"bytes under {other}", left=("hot link",)
    )
    for row in records(why.links):
        links.add_row(
            row["label"], nbytes(row["nbytes"]), f"{row['over_mean']:.1f}", nbytes(row["against"])
        )
    print_table(links, console, keep=2)
    console.print("\nWho puts it there:")
    pairs = new_table(
        "hot link",
        "phase",
        "tasks",
        "bytes",
        "of the link",
        "hops",
        f"in {other}",
        left=("hot link",),
    )
    for row in records(why.pairs.groupby("link", sort=False).head(max(1, top // 2))):
        label = torus.link_label(row["link"])
        ends = f"{row['src']} to {row['dst']}"
        pairs.add_row(
            label,
            str(row["phase"]),
            ends,
            nbytes(row["nbytes"]),
            f"{row['share']:.0%}",
            str(row["hops"]),
            str(row["against"]),
        )
    print_table(pairs, console, keep=3)
    console.print(f"\nWhat the forecast would be if one feature alone were that of {other}:")
    weights = new_table("feature", "value", f"in {other}", "forecast", left=("feature",))
    for row in records(why.weights):
        weights.add_row(
            row["feature"],
            f"{row['value']:.4g}",
            f"{row['against']:.4g}",
            f"{row['effect']:+.1%}",
        )
    print_table(weights, console, keep=2)
    if why.exchanges.empty:
        console.print("\nNo exchange of two blocks of nodes lowers the loads.")
        return
    best = why.exchanges.iloc[0]
    blocks = [" ".join(_place(torus, node) for node in best[key]) for key in ("block", "other")]
    if best["gain"] > 0:
        console.print(
            f"\nThe exchange of nodes that helps most: {blocks[0]} with {blocks[1]}; it takes "
            f"{seconds(best['time'])} then, simulated, {best['gain']:.1%} less."
        )
    else:
        console.print("\nExchanges of two blocks of nodes lower the loads, but not the time.")


def _place(torus: Torus, node: int) -> str:
    return "(" + ",".join(map(str, torus.coords[node].tolist())) + ")"
