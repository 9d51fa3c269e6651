"""The answer of `mesh`: the fastest layout of a sharded model on a torus, and its bottlenecks."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from toruscast._mesh import MeshLayouts, RankedLayout
from toruscast._mesh.devices import has_device_dimension
from toruscast.answers import svg
from toruscast.answers.blocks import Answer, Chart, File, Headline, Section, Sentence
from toruscast.answers.candidates import CandidateRanking, compare_times
from toruscast.answers.links import LinkMap, LinkUse
from toruscast.answers.table import Column, Table
from toruscast.text import counted, percent, seconds, shown_name, time_unit

# Maximum devices of a program that a page and a terminal show, and nodes in a picture of chips.
_MAX_PAGE_DEVICES, _MAX_TERMINAL_DEVICES, _MAX_DRAWN = 20_000, 64, 4096
_TABLE = "Collectives of a step"
# Minimum share of the time that a layout must save to be recommended, and to be called faster.
_MIN_GAIN, _MIN_DIFFERENCE = 0.01, 1e-6


def answer(found: MeshLayouts, *, setting: str = "") -> Answer:
    """Return the recommended layout, its gain, and what slows a step down."""
    head, badge = _headline(found)
    notes, sections = _write_notes(found), _build_sections(found)
    file = None
    if found.ids.size <= _MAX_PAGE_DEVICES and _is_recommended(found):
        title = f"JAX program of {_best_name(found)}"
        file = File("mesh.py", found.jax_program(), title, comes_first=True)
    elif _is_recommended(found):
        notes.append("The program is too long for a page; --write mesh.py writes it.")
    return Answer(
        setting=setting or f"{found.axes} on {found.torus}, collectives run {_order(found)}",
        title=f"{found.axes} on {found.torus}",
        headline=head,
        badge=badge,
        notes=notes,
        sections=sections,
        content=_build_content(found),
        table=Table(found.collective_rows(found.best), ()),
        file=file,
        omitted=found.problem.omitted,
        facts=[
            ("mesh", str(found.axes)),
            ("torus", f"{found.torus}, {counted(found.torus.n_nodes, 'node')}"),
            ("collectives run", _order(found)),
        ],
    )


def _headline(found: MeshLayouts) -> tuple[Headline, str]:
    """Return the headline, and whether its time is simulated or predicted."""
    best, baseline = found.best, found.compared or found.default
    baseline_name = _rank_candidates(found)[0].baseline_name
    if _is_recommended(found):
        source = " (predicted)" * ("predicted" in (best.source, baseline.source))
        change = compare_times(best.time, baseline.time, baseline_name)
        time = f"{seconds(best.time)} of communication per step{source}"
        message = f": {time}, {change} ({seconds(baseline.time)})"
        return Headline("Use ", _best_name(found), message), best.source
    is_faster = best.time < baseline.time * (1 - _MIN_DIFFERENCE)
    gain = percent(1 - best.time / (baseline.time or 1.0))
    reason = f"{_best_name(found)} takes {gain} less" if is_faster else "no layout is faster"
    message = f": {seconds(baseline.time)} of communication per step; {reason}"
    return Headline("Keep ", baseline_name, message), best.source


def _is_recommended(found: MeshLayouts) -> bool:
    """Whether changing to the best layout is worthwhile."""
    return found.best.time <= (1 - _MIN_GAIN) * (found.compared or found.default).time


def _best_name(found: MeshLayouts) -> str:
    return found.default_name if found.best is found.default else "layout 1"


def _write_notes(found: MeshLayouts) -> list[str]:
    """Return sentences about the best layout, and about the times and the idle devices."""
    best = found.best
    name = _best_name(found) if _is_recommended(found) else found.default_name
    shown = found.default if name == found.default_name else best
    scope = "the full enumeration" if found.all_considered else "part of the enumeration"
    n_simulated = sum(each.source == "simulated" for each in found.layouts)
    if 0 < n_simulated < len(found.layouts):
        scope += f"; {n_simulated} of the fastest {len(found.layouts)} were simulated"
    notes = [
        f"{name[0].upper()}{name[1:]}: {shown.description}.",
        f"{counted(found.considered, 'layout')} compared, {scope}.",
        *_compare_with_bound(found),
        "Times include communication only, not computation.",
    ]
    if found.compared is not None and found.default.time > best.time / (1 - _MIN_GAIN):
        change = compare_times(best.time, found.default.time, found.default_name)
        notes.append(f"It takes {change}.")
    if best.source == "predicted":
        reason = "run at the same time" if found.problem.overlap else "have too many messages"
        labels = ", ".join(map(shown_name, found.not_simulated))
        notes.append(f"The time is not simulated because these collectives {reason}: {labels}.")
    if found.idle:
        used = f"{found.axes.n_tasks} of {counted(found.devices.nodes.size, 'device')}"
        notes.append(f"The mesh uses {used}; {found.idle} stay idle.")
    if has_device_dimension(found.torus):
        notes.append("Dimension C numbers the devices within a chip.")
    return notes


def _build_sections(found: MeshLayouts) -> list[Section]:
    """Return the sections of the terminal and the page: layouts, collectives, chips and links."""
    sections = []
    if found.ids.size <= _MAX_TERMINAL_DEVICES:
        program = Sentence(found.jax_program().rstrip(), unwrapped=True)
        sections.append(Section("The mesh", [program], only="terminal"))
    sections += [
        Section("How much faster", [times_chart(found)], wide=False, only="page"),
        Section("Layouts", [layouts(found)], only="terminal"),
        Section(
            "Why: time of each collective", [_collective_chart(found)], wide=False, only="page"
        ),
        Section(_TABLE, [_collective_table(found)], only="terminal"),
        Section(
            f"Bottlenecks under {_best_name(found)}",
            [Sentence(line) for line in _list_reasons(found)],
            wide=False,
        ),
        Section("Layouts", [layouts(found)], only="page"),
        *_draw_chips(found),
        Section(_TABLE, [_collective_table(found, with_times=False)], only="page"),
    ]
    labels = [each.label for each in found.problem.traffic]
    view = LinkMap(found.torus, partial(_list_link_uses, found), labels)
    sections.append(Section("Where: time that each link is busy", [view], only="page"))
    return sections


def _draw_chips(found: MeshLayouts) -> list[Section]:
    """Draw the position of the chips along each axis, in the best layout and in the baseline."""
    if found.torus.n_nodes > _MAX_DRAWN:
        return []
    ranking, candidates = _rank_candidates(found)
    compared = dict.fromkeys([ranking.best, ranking.yours or 0, min(1, len(candidates) - 1)])
    return [
        Section(
            f"Position of the chips along each axis: {ranking.names[i]}",
            [_chip_chart(found, candidates[i], k, suffix) for k in range(len(found.axes.names))],
            "Each cell is a chip at its coordinates. Darker chips are farther along the axis. "
            "Chips of the same colour hold the same shard.",
            wide=False,
            only="page",
        )
        for i, suffix in zip(compared, ("", "-baseline"), strict=False)
    ]


def _order(found: MeshLayouts) -> str:
    return "at the same time" if found.problem.overlap else "one after another"


def _compare_with_bound(found: MeshLayouts) -> list[str]:
    """Return a sentence that compares the time with a lower bound for all layouts, if known."""
    bounds = [row["bound"] for row in found.collective_rows(found.best)]
    bound = (max if found.problem.overlap else math.fsum)(bounds)
    if not bound > 0:
        return []
    excess = max(found.best.time / bound - 1, 0.0)
    factor = f"{percent(excess)} longer" if excess < 1 else f"{1 + excess:.1f} times as long"
    scope = " for the counted collectives" if found.problem.omitted else ""
    return [f"No layout can be faster than {seconds(bound)}{scope}; this one takes {factor}."]


def _rank_candidates(found: MeshLayouts) -> tuple[CandidateRanking, list[RankedLayout]]:
    """Rank all layouts by time, the recommended one first; return the ranking and the layouts."""
    named = {found.default_name: found.default}
    if found.compared is not None:
        named["yours"] = found.compared
    yours, against = [*named][-1], "your layout" if found.compared else found.default_name
    others = (each for each in found.layouts if each is not found.default)
    named |= {f"layout {i + 1}": each for i, each in enumerate(others)}
    first = _best_name(found) if _is_recommended(found) else yours
    names = sorted(named, key=lambda name: (name != first, named[name].time))
    layouts = [named[name] for name in names]
    times = [each.time for each in layouts]
    predicted = [name for name in names if named[name].source == "predicted"]
    yours_at = names.index(yours)
    ranking = CandidateRanking(names, times, yours_at, baseline_name=against, predicted=predicted)
    return ranking, layouts


def times_chart(found: MeshLayouts) -> Chart:
    """Return the times of the five best layouts, the default, and your layout."""
    ranking, rows = _rank_candidates(found)
    more = " Slower layouts are not drawn."
    note = more if found.considered > len(found.layouts) else ""
    default = next(i for i, each in enumerate(rows) if each is found.default)
    chart = ranking.chart("Communication time of a step", note, extra_rows=[default])
    return replace(chart, key="layouts")


def layouts(found: MeshLayouts) -> Table:
    """Return a table of the layouts, the default and your layout, the recommended one first."""
    ranking, candidates = _rank_candidates(found)
    against = "vs yours" if found.compared else f"vs {found.default_name}"
    rows = [
        {"name": name, "time": each.time, "source": each.source, "axes": each.description}
        for name, each in zip(ranking.names, candidates, strict=True)
    ]
    columns = [
        Column("name", "layout", priority=0),
        Column("time", kind="seconds", priority=0),
        Column("time", against, "change", against=ranking.baseline),
        Column("source", "source"),
        Column("axes", priority=0),
    ]
    return Table(rows, columns, best=0, yours=ranking.yours)


def _collective_chart(found: MeshLayouts) -> Chart:
    """Return bars of each collective's time: best layout, default, and lower bound."""
    rows = found.collective_rows(found.best)
    baseline = found.collective_rows(found.default)
    scale, unit = time_unit([found.best.time])
    groups = [shown_name(row["what"]) for row in rows]
    kinds = ["best", "yours"] if _is_recommended(found) else ["yours", "best"]
    series = [
        (_best_name(found), kinds[0], [row["time"] for row in rows]),
        (found.default_name, kinds[1], [row["time"] for row in baseline]),
        ("lower bound", "other", [row["bound"] for row in rows]),
    ]
    return Chart(
        "collectives",
        "",
        f"Time of all runs in a step, {unit}. The lower bound holds for all layouts.",
        lambda: svg.draw_bars(groups, series[found.best is found.default :], scale, unit),
    )


def _collective_table(found: MeshLayouts, with_times: bool = True) -> Table:
    """Return a table of the best layout's collectives; ``with_times`` includes their times."""
    columns = [
        Column("what", priority=0),
        Column("time", kind="seconds", priority=0),
        Column("share", kind="share"),
        Column("bound", kind="seconds"),
        Column("nbytes", "size", "bytes"),
        Column("runs", kind="count", priority=2),
        Column("devices", kind="count", priority=3),
        Column("GBps", "GB/s", "number", priority=4),
        Column("algorithm", priority=4),
        Column("source", "source", priority=4),
    ]
    shown = [column for column in columns if with_times or column.kind != "seconds"]
    return Table(found.collective_rows(found.best), shown)


def _list_reasons(found: MeshLayouts) -> list[str]:
    """Return sentences about each collective's hops and shared links, and about the slowest."""
    rows = found.collective_rows(found.best)
    slowest = max(rows, key=lambda row: row["share"])
    reasons = [f"{shown_name(row['what'])}: {row['why']}." for row in rows]
    if len(rows) > 1 and slowest["share"] > 0:
        share = percent(slowest["share"])
        reasons.append(f"Slowest: {shown_name(slowest['what'])}, {share} of the time.")
    return reasons


def _chip_chart(found: MeshLayouts, layout: RankedLayout, axis: int, suffix: str) -> Chart:
    """Return a picture of the chips, shaded by their coordinate along an axis."""
    position = np.full(found.torus.n_nodes, -1)
    coordinate = np.indices(layout.nodes.shape)[axis]
    position[layout.nodes.ravel()] = coordinate.ravel()
    name, size = found.axes.names[axis], found.axes.sizes[axis]
    return Chart(
        f"chips-{axis}{suffix}",
        f"{shown_name(name)}: 0 (light) to {size - 1} (dark)",
        "",
        lambda: svg.draw_nodes(found.torus.shape, found.torus.axes, position, size),
    )


def _list_link_uses(found: MeshLayouts, max_layouts: int) -> list[LinkUse]:
    """Return each link's busy time by layout: the best first, then yours, then the others."""
    ranking, layouts = _rank_candidates(found)
    order = sorted(range(len(layouts)), key=lambda i: (i != ranking.best, i != ranking.yours))
    return [
        LinkUse(ranking.names[i], layouts[i].time, layouts[i].link_seconds)
        for i in order[:max_layouts]
    ]


def _build_content(found: MeshLayouts) -> dict[str, object]:
    """Return the content of the JSON output."""
    return {
        "torus": str(found.torus),
        "axes": dict(zip(found.axes.names, found.axes.sizes, strict=True)),
        "order": "overlap" if found.problem.overlap else "in-turn",
        "layouts_considered": found.considered,
        "all_considered": found.all_considered,
        "idle": found.idle,
        "not_simulated": list(found.not_simulated),
        "ranking": [
            {"layout": each.description, "time": each.time, "source": each.source}
            for each in found.layouts
        ],
        "default": {
            "name": found.default_name,
            "layout": found.default.description,
            "time": found.default.time,
            "source": found.default.source,
            "traffic": found.collective_rows(found.default),
        },
        "gain": found.gain,
        "yours": found.compared and {"time": found.compared.time, "source": found.compared.source},
        "traffic": found.collective_rows(found.best),
        "ids": found.ids,
        "nodes": found.best.nodes,
    }
