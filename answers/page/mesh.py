"""The page of a mesh: layouts of a sharded model, and what its step sends."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from toruscast.training.mesh import MeshForecast, link_seconds
from toruscast.wording import counted, shown_name

from ..units import nbytes, percent, seconds, time_unit
from . import learning_charts
from .html import Section, chart, code, details, paragraph, sentences, table
from .network import LinkUse, most_candidates
from .views import links_section, origin_section

# Devices up to which the program stands on the page.
_MOST_DEVICES = 20_000


def sections_of(found: MeshForecast, inputs: Sequence[tuple[str, str]]) -> list[Section]:
    """Return the parts of the page; ``inputs`` are what it was made from, by name."""
    facts = [
        ("mesh", str(found.axes)),
        ("torus", f"{found.torus}, {counted(found.torus.n_nodes, 'node')}"),
        ("collectives run", "at once" if found.overlap else "one after another"),
    ]
    return [
        _answer(found),
        _layouts(found),
        _step(found),
        _links(found),
        origin_section(*facts, *inputs),
    ]


def title(found: MeshForecast) -> str:
    """Return the title of the page."""
    return f"{found.axes} on {found.torus}"


def _answer(found: MeshForecast) -> Section:
    best = found.best
    text = f"The best layout takes {seconds(best.time)} for a step, {best.how}"
    if found.gain > 1 + 1e-6:
        text += f"; {found.gain:.2f} times as fast as the devices in order"
    content = f'<p class="answer">{sentences(text)}.</p>\n'
    content += paragraph(f"The axes lie so: {best.words}.")
    every = "all that there are" if found.all_considered else "not all that there are"
    content += paragraph(
        f"{counted(found.considered, 'layout')} were looked at, {every}.",
        "Only what the collectives send is in the time: computation is not.",
    )
    if found.idle:
        used = f"{found.axes.n_tasks} of {counted(found.devices.nodes.size, 'device')}"
        content += paragraph(f"The mesh uses {used}: {found.idle} stay idle.")
    if found.ids.size <= _MOST_DEVICES:
        content += details("The mesh as a JAX program", code("program", found.jax_program()))
    else:
        content += paragraph("The program is too long for a page: --write writes it.")
    return Section("The answer", content)


def _layouts(found: MeshForecast) -> Section:
    others = [each for each in (found.in_order, found.compared) if each is not None]
    several = [*found.layouts, *others]
    times = pd.DataFrame(
        {
            "mapping": [_called(found, i) for i in range(len(several))],
            "time": [each.time for each in several],
            "how": [each.how for each in several],
        }
    )
    scale, unit = time_unit(times["time"])
    content = chart(
        "layouts",
        "Times of the layouts",
        "Simulated packet by packet, or forecast by the busiest link.",
    )
    rows = [
        (_called(found, i), each.words, seconds(each.time), each.how)
        for i, each in enumerate(several)
    ]
    head = ["layout", "how the axes lie", "time of a step", "found out by"]
    content += table(head, rows, "Layouts, the fastest first", 2)
    charts = {"layouts": learning_charts.layouts(times, scale, unit)}
    return Section("Layouts", content, charts=charts)


def _called(found: MeshForecast, number: int) -> str:
    """Return a short name of a layout; those behind the ranked ones are for comparison."""
    if number < len(found.layouts):
        return f"layout {number + 1}"
    return "devices in order" if number == len(found.layouts) else "yours"


def _step(found: MeshForecast) -> Section:
    lines = found.lines()
    scale, unit = time_unit([lines["time"].max()])
    content = chart(
        "collectives",
        "What a step sends, in the best layout",
        "Time of all runs in a step. The bound is what no layout can be faster than, if a chip "
        "sends over all its links.",
    )
    head = ["what", "algorithm", "devices", "size", "time in the step", "bound", "GB/s", "share"]
    rows = [
        (
            row["what"],
            f"{row['algorithm']}, {row['how']}",
            str(row["devices"]),
            nbytes(row["nbytes"]) + (f" x {row['times']}" if row["times"] > 1 else ""),
            seconds(row["time"]),
            seconds(row["bound"]),
            f"{row['GBps']:.3g}" if row["time"] else "-",
            percent(row["share"]),
        )
        for row in lines.to_dict("records")
    ]
    content += table(head, rows, "Collectives of a step", 2)
    for row in lines.to_dict("records"):
        content += paragraph(f"{shown_name(row['what'])}: {row['why']}.")
    charts = {"collectives": learning_charts.collectives(lines, scale, unit)}
    return Section("The step", content, charts=charts)


def _links(found: MeshForecast) -> Section:
    others = [each for each in (found.in_order, found.compared) if each is not None]
    several = [*found.layouts, *others][: most_candidates(found.torus)]
    uses = [
        LinkUse(_called(found, i), layout.time, link_seconds(found, layout))
        for i, layout in enumerate(several)
    ]
    return links_section(found.torus, uses, [each.label for each in found.traffic])
