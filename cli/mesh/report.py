"""What ``toruscast mesh`` says, for people and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toruscast.report.units import nbytes, percent, seconds
from toruscast.wording import shown_name

from ..output import Output, new_table, print_table, records

if TYPE_CHECKING:
    from toruscast.training.mesh import MeshForecast

# Meshes of more devices are written to a file, not shown.
_MOST_SHOWN = 64


def content(answer: MeshForecast) -> dict[str, Any]:
    """Return the answer for JSON."""
    return {
        "torus": str(answer.torus),
        "axes": dict(zip(answer.axes.names, answer.axes.sizes, strict=True)),
        "order": "overlap" if answer.overlap else "in-turn",
        "layouts_considered": answer.considered,
        "all_considered": answer.all_considered,
        "idle": answer.idle,
        "not_simulated": list(answer.not_simulated),
        "ranking": records(answer.table),
        "devices_in_order": {"time": answer.in_order.time, "how": answer.in_order.how},
        "gain": answer.gain,
        "yours": answer.compared and {"time": answer.compared.time, "how": answer.compared.how},
        "traffic": records(answer.lines()),
        "ids": answer.ids,
        "nodes": answer.best.nodes,
    }


def show(answer: MeshForecast, output: Output) -> None:
    """Print the ranking, a line for everything that is sent, and the mesh."""
    console = output.console()
    how = "at once" if answer.overlap else "one after another"
    every = "" if answer.all_considered else ", not all that there are"
    console.print(
        f"{answer.axes} on {answer.torus}, what a step sends {how}; {answer.considered} layouts"
        f"{every}. simulated: packet by packet; forecast: by the busiest link"
    )
    if answer.torus.axes.endswith("C"):
        console.print("Dimension C counts the devices of a chip.")
    if answer.idle:
        devices = f"{answer.devices.nodes.size} devices"
        console.print(f"The mesh uses {answer.axes.n_tasks} of {devices}: {answer.idle} stay idle.")
    table = new_table("#", "time", "how", "layout", left=("how", "layout"))
    for number, layout in enumerate(answer.layouts, 1):
        table.add_row(str(number), seconds(layout.time), layout.how, layout.words)
    for layout in filter(None, (answer.in_order, answer.compared)):
        table.add_row("", seconds(layout.time), layout.how, layout.words)
    print_table(table, console, 4)
    if answer.best.how == "forecast":
        why = "run at once" if answer.overlap else "have too many messages"
        what = ", ".join(map(shown_name, answer.not_simulated))
        console.print(f"The first row is not simulated: its collectives {why}: {what}.")
    console.print()
    _show_lines(answer, output)
    if answer.gain > 1 + 1e-6:
        console.print(f"The best is {answer.gain:.2f} times as fast as the devices in order.")
    if answer.compared is not None and answer.best.time:
        times = answer.compared.time / answer.best.time
        console.print(f"It is {times:.2f} times as fast as yours.")
    if answer.ids.size <= _MOST_SHOWN:
        console.print()
        console.print(answer.jax_program(), end="", soft_wrap=True)


def _show_lines(answer: MeshForecast, output: Output) -> None:
    console = output.console()
    lines = records(answer.lines())
    table = new_table(
        "what", "devices", "size", "time", "bound", "GB/s", "share", "how", left=("what", "how")
    )
    for row in lines:
        often = f" x {row['times']}" if row["times"] > 1 else ""
        table.add_row(
            row["what"],
            str(row["devices"]),
            nbytes(row["nbytes"]) + often,
            seconds(row["time"]),
            seconds(row["bound"]),
            f"{row['GBps']:.3g}",
            percent(row["share"]),
            f"{row['algorithm']}, {row['how']}",
        )
    print_table(table, console, 6)
    for row in lines:
        console.print(f"{row['what']}: {row['why']}.")
    slowest = max(lines, key=lambda row: row["share"])
    if len(lines) > 1 and slowest["share"] > 0:
        share = percent(slowest["share"])
        console.print(f"Slowest: {slowest['what']}, {share} of the time.")
