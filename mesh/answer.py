"""The answer of `mesh`: how to lay the axes of a sharded model over a torus."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from toruscast._mesh import MeshLayouts, RankedLayout
from toruscast._mesh.devices import counts_devices
from toruscast.answers import svg
from toruscast.answers.blocks import Answer, Chart, File, Headline, Section, Sentence
from toruscast.answers.candidates import CandidateRanking, compare_times
from toruscast.answers.links import LinkMap, LinkUse
from toruscast.answers.table import Column, Table
from toruscast.text import counted, percent, seconds, shown_name, time_unit

# Most devices for a program on a page, for one in a terminal, and for a picture of the chips.
_MOST_DEVICES, _MOST_SHOWN, _MOST_DRAWN = 20_000, 64, 4096
# Share of the time that is not worth another layout.
_WORTH, _EQUAL = 0.01, 1e-6


def answer(found: MeshLayouts, *, setting: str = "") -> Answer:
    """Return how to lay a mesh, how much that gains, and what slows a step down."""
    head, badge = _headline(found)
    notes, sections = _notes(found), _sections(found)
    file = None
    if found.ids.size <= _MOST_DEVICES:
        file = File("mesh.py", found.jax_program(), "JAX program")
    else:
        notes.append("The program is too long for a page: --write mesh.py writes it.")
    return Answer(
        setting=setting or f"{found.axes} on {found.torus}, what a step sends {_order(found)}",
        title=f"{found.axes} on {found.torus}",
        headline=head,
        badge=badge,
        notes=notes,
        sections=sections,
        content=_content(found),
        table=Table(found.step_rows(found.best), ()),
        file=file,
        omitted=found.omitted,
        facts=[
            ("mesh", str(found.axes)),
            ("torus", f"{found.torus}, {counted(found.torus.n_nodes, 'node')}"),
            ("collectives run", _order(found)),
        ],
    )


def _headline(found: MeshLayouts) -> tuple[Headline, str]:
    """Return which layout to use, and out of how many it is the best."""
    best, yours = found.best, found.compared or found.in_order
    against = _ranking(found)[0].baseline_name
    gain = 1 - best.time / yours.time if yours.time else 0.0
    badge = f"best of {'all' if found.all_considered else 'those compared'}"
    if gain >= _WORTH:
        source = " predicted" * ("predicted" in (best.source, yours.source))
        less = compare_times(best.time, yours.time, against)
        rest = f": {seconds(best.time)} a step{source}, {less}"
        return Headline("Use ", "layout 1", rest), badge
    rest = f"layout 1 takes {percent(gain)} less" if gain > _EQUAL else "no layout is faster"
    return Headline("Keep ", against, f": {seconds(yours.time)} a step; {rest}"), badge


def _notes(found: MeshLayouts) -> list[str]:
    """Return what the layout is, how far it is from a bound, and what is not in its time."""
    best = found.best
    every = "all that there are" if found.all_considered else "not all that there are"
    notes = [
        f"Layout 1: {best.words}.",
        f"{counted(found.considered, 'layout')} compared, {every}.",
        *_distance(found),
        "Only what the collectives send is in the time: computation is not.",
    ]
    if found.compared is not None and found.in_order.time > best.time / (1 - _WORTH):
        notes.append(
            f"It takes {compare_times(best.time, found.in_order.time, 'the devices in order')}."
        )
    if best.source == "predicted":
        why = "run at once" if found.overlap else "have too many messages"
        what = ", ".join(map(shown_name, found.not_simulated))
        notes.append(f"The time is not simulated, since these collectives {why}: {what}.")
    if found.idle:
        used = f"{found.axes.n_tasks} of {counted(found.devices.nodes.size, 'device')}"
        notes.append(f"The mesh uses {used}: {found.idle} stay idle.")
    if counts_devices(found.torus):
        notes.append("Dimension C counts the devices of a chip.")
    return notes


def _sections(found: MeshLayouts) -> list[Section]:
    """Return the tables and charts that support the answer."""
    sections = [
        Section("Layouts", [layouts(found)], only="terminal"),
        Section("How much faster", [times_chart(found)], wide=False, only="page"),
        *_drawn(found),
        Section("Why: time in the step", [_collectives(found), _step(found)], wide=False),
        Section("What slows them", [Sentence(line) for line in _reasons(found)], wide=False),
        Section("All layouts", [layouts(found)], only="page"),
    ]
    view = LinkMap(found.torus, partial(_uses, found), [each.label for each in found.traffic])
    sections.append(Section("Where: how long each link works in a step", [view], only="page"))
    if found.ids.size <= _MOST_SHOWN:
        sections.append(
            Section("The mesh", [Sentence(found.jax_program().rstrip())], only="terminal")
        )
    return sections


def _drawn(found: MeshLayouts) -> list[Section]:
    """Return the layout as pictures, one for each axis of the mesh."""
    if found.torus.n_nodes > _MOST_DRAWN:
        return []
    return [
        Section(
            "Layout 1: chips by their place along each axis",
            [_chips(found, k) for k in range(len(found.axes.names))],
            "A cell is a chip, at its coordinates; the darker, the farther along the axis. "
            "Chips of one colour hold the same shard.",
            wide=False,
            only="page",
        )
    ]


def _order(found: MeshLayouts) -> str:
    return "at once" if found.overlap else "one after another"


def _distance(found: MeshLayouts) -> list[str]:
    """Return how far a step is above the lower bound over all layouts, where one is known."""
    bounds = [row["bound"] for row in found.step_rows(found.best)]
    floor = (max if found.overlap else math.fsum)(bounds)
    if not floor > 0:
        return []
    above = max(found.best.time / floor - 1, 0.0)
    far = f"{percent(above)} longer" if above < 1 else f"{1 + above:.1f} times as long"
    scope = " for what is counted" if found.omitted else ""
    return [
        f"No layout can be faster than {seconds(floor)}{scope}, with all links at work; this one "
        f"takes {far}."
    ]


def _ranking(found: MeshLayouts) -> tuple[CandidateRanking, list[RankedLayout]]:
    """Return the layouts by name, and those that they are compared with."""
    several = {f"layout {i + 1}": each for i, each in enumerate(found.layouts)}
    several["devices in order"] = found.in_order
    if found.compared is not None:
        several["yours"] = found.compared
    times = [each.time for each in several.values()]
    against = "the devices in order" if found.compared is None else "your layout"
    return CandidateRanking(list(several), times, len(several) - 1, baseline_name=against), [
        *several.values()
    ]


def times_chart(found: MeshLayouts) -> Chart:
    """Return the times of the five best layouts and those compared with."""
    chart = _ranking(found)[0].chart("Time of what a step sends", extra_rows=[len(found.layouts)])
    return replace(chart, key="layouts")


def layouts(found: MeshLayouts) -> Table:
    """Return the layouts, the fastest first, and those that they are compared with."""
    ranking, several = _ranking(found)
    against = "vs yours" if found.compared else "vs in order"
    rows = [
        {"name": name, "time": each.time, "source": each.source, "axes": each.words}
        for name, each in zip(ranking.names, several, strict=True)
    ]
    columns = [
        Column("name", "layout", priority=0),
        Column("time", kind="seconds", priority=0),
        Column("time", against, "change", against=ranking.baseline),
        Column("source", "source"),
        Column("axes", priority=0),
    ]
    return Table(rows, columns, best=0, yours=ranking.yours)


def _collectives(found: MeshLayouts) -> Chart:
    """Return the time of all runs of each collective in a step, and its bound."""
    rows = found.step_rows(found.best)
    scale, unit = time_unit([max(row["time"] for row in rows)])
    groups = [shown_name(row["what"]) for row in rows]
    series = [
        ("time", "best", [row["time"] for row in rows]),
        ("bound", "other", [row["bound"] for row in rows]),
    ]
    return Chart(
        "collectives",
        "",
        f"All runs of a step, {unit}. Grey: the least that any layout takes, with all links at "
        "work.",
        lambda: svg.draw_bars(groups, series, scale, unit),
    )


def _step(found: MeshLayouts) -> Table:
    columns = [
        Column("what", priority=0),
        Column("time", kind="seconds", priority=0),
        Column("share", kind="share"),
        Column("bound", kind="seconds"),
        Column("nbytes", "size", "bytes"),
        Column("times", "runs", "count", priority=2),
        Column("devices", kind="count", priority=3),
        Column("GBps", "GB/s", "number", priority=4),
        Column("algorithm", priority=4),
        Column("source", "source", priority=4),
    ]
    return Table(found.step_rows(found.best), columns, "Collectives of a step")


def _reasons(found: MeshLayouts) -> list[str]:
    lines = found.step_rows(found.best)
    slowest = max(lines, key=lambda row: row["share"])
    reasons = [f"{shown_name(row['what'])}: {row['why']}." for row in lines]
    if len(lines) > 1 and slowest["share"] > 0:
        share = percent(slowest["share"])
        reasons.append(f"Slowest: {shown_name(slowest['what'])}, {share} of the time.")
    return reasons


def _chips(found: MeshLayouts, axis: int) -> Chart:
    """Return the chips coloured by their place along an axis of the mesh."""
    place = np.full(found.torus.n_nodes, -1)
    coordinate = np.indices(found.best.nodes.shape)[axis]
    place[found.best.nodes.ravel()] = coordinate.ravel()
    name, size = found.axes.names[axis], found.axes.sizes[axis]
    return Chart(
        f"chips-{axis}",
        f"{shown_name(name)}: 0 (light) to {size - 1} (dark)",
        "",
        lambda: svg.draw_nodes(found.torus.shape, found.torus.axes, place, size),
    )


def _uses(found: MeshLayouts, most: int) -> list[LinkUse]:
    ranking, layouts = _ranking(found)
    order = sorted(range(len(layouts)), key=lambda i: (i != ranking.best, i != ranking.yours))
    return [
        LinkUse(ranking.names[i], layouts[i].time, layouts[i].link_seconds()) for i in order[:most]
    ]


def _content(found: MeshLayouts) -> dict[str, object]:
    """Return the answer for programs."""
    return {
        "torus": str(found.torus),
        "axes": dict(zip(found.axes.names, found.axes.sizes, strict=True)),
        "order": "overlap" if found.overlap else "in-turn",
        "layouts_considered": found.considered,
        "all_considered": found.all_considered,
        "idle": found.idle,
        "not_simulated": list(found.not_simulated),
        "ranking": found.rows,
        "devices_in_order": {"time": found.in_order.time, "source": found.in_order.source},
        "gain": found.gain,
        "yours": found.compared and {"time": found.compared.time, "source": found.compared.source},
        "traffic": found.step_rows(found.best),
        "ids": found.ids,
        "nodes": found.best.nodes,
    }
