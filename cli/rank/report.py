"""A ranking as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..occupancy import occupancy
from ..output import records
from ..quality import COVERAGE, METRICS, between, score
from ..tables import new_table, print_table, printable, top_and_bottom
from ..units import byte_unit, nbytes, number, percent, seconds, time_unit

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from toruscast.features.reasons import Reasons

    from ..inputs import Application
    from .command import Ranking

# Share of the bytes that are left out.
_WORTH_SAYING = 0.001
# By how much all candidates differ at most where none is worth choosing.
_ALIKE = 0.01
SHOWN = ("rcc", "tau_b", "r2", "regret_1")
BINDING = {
    "link": "the busiest link",
    "injection": "the busiest injection FIFO",
    "reception": "the busiest receiving node",
    "latency": "software overhead, hops and the longest message",
}
_CHAIN = "the longest chain of messages that wait for each other"


def print_ranking(found: Ranking, top: int, console: Console) -> None:
    """Print what is ranked, the table, the reasons, the quality, and the answer in words."""
    from toruscast.routing.routing import ways_are_open

    console.print(_header(found))
    console.print()
    estimated = ways_are_open(found.application.comm, found.torus, found.routing)
    _print_table(found, top, estimated, console)
    console.print()
    _print_reasons(found, estimated, console)
    console.print()
    for line in _quality(found, estimated):
        console.print(line)
    console.print()
    console.print(f"{_answer(found)}{alike(found.table['predicted_time'])}", style="bold")


def application_line(application: Application) -> str:
    """Return what is sent, in words."""
    from toruscast.wording import counted

    comm = application.comm
    line = f"{printable(comm.name)}: {counted(comm.n_tasks, 'task')}, "
    line += f"{counted(comm.n_edges, 'edge')}, {nbytes(comm.nbytes.sum())}"
    if application.iterations is not None:
        line += f" per iteration (1/{application.iterations:g} of the capture)"
    if application.traffic != "all":
        line += f", {application.traffic.replace('_', '-')} only"
    if comm.n_edges and min(comm.src.min(), comm.dst.min()) > 0:
        line += "; task 0 neither sends nor receives (tasks are numbered from 0)"
    left_out = comm.nbytes[comm.whole_messages == 0].sum() / max(comm.nbytes.sum(), 1e-300)
    if left_out >= _WORTH_SAYING:
        line += f"; {left_out:.1%} of them in edges of less than half a message, not simulated"
    return line


def bound_line(why: Reasons, estimated: bool, dependent: bool = False) -> str:
    """Return what bounds the time of a mapping, in words; or by estimate, where ways are open.

    In ``dependent`` rounds messages wait for each other.
    """
    others = ", ".join(f"{k} {seconds(v)}" for k, v in why.bounds.items() if k != why.binding)
    least = seconds(why.bounds[why.binding])
    what = _CHAIN if dependent and why.binding == "latency" else BINDING[why.binding]
    if estimated:
        return f"Limited by {what}, an estimate of {least} ({others})."
    return f"Bound by {what}, {least} at least ({others})."


def link_note(label: str) -> str:
    """Return what the name of a link means, on an example."""
    node, _, way = label.partition(" ")
    sign = "plus" if way.startswith("+") else "minus"
    return f"{label}: the link that leaves node {node} in {sign} direction of dimension {way[1:]}."


def _header(found: Ranking) -> str:
    from toruscast.wording import counted

    model = found.model
    if found.training is not None:
        origin = f"a model trained on {model.n_samples_} other simulated mappings of it"
    elif found.source == "default":
        origin = f"the default model ({model.n_samples_} samples of other applications and tori)"
    else:
        origin = f"the model {found.source} ({model.n_samples_} samples)"
    routing = {
        "adaptive": " with adaptive routing",
        "by_size": " with routing by message size",
    }.get(found.routing, "")
    how = f"forecast by {origin}"
    if found.is_exact:
        how = "simulated, not forecast: no edge has more than one packet, which takes no longer"
    return (
        f"{application_line(found.application)}; on torus {found.torus}{routing}; "
        f"{counted(len(found.mappings), 'candidate mapping')}, {occupancy(found.mappings)}; {how}."
    )


def _print_table(found: Ranking, top: int, estimated: bool, console: Console) -> None:
    """Print the first and the last rows."""
    table = found.table
    forecast = not found.is_exact
    times = table[["predicted_time", "lower_bound"]].to_numpy().ravel()
    scale, unit = time_unit(times)
    per_byte, byte_name = byte_unit(table["max_bytes"])
    checked = "observed_time" in table.columns
    bound = "bound,\nesti-\nmated" if estimated else "lower\nbound"
    shown = new_table(
        "#",
        "mapping",
        f"pre-\ndicted\n{unit}" if forecast else f"time\n{unit}",
        *([f"{percent(COVERAGE)}\ninterval\n{unit}", "P(best)"] if forecast else []),
        *([f"simu-\nlated\n{unit}", "simu-\nlated\nrank"] if checked else []),
        f"{bound}\n{unit}",
        f"max\nlink\n{byte_name}",
        "hops\nper\nbyte",
        "max\nFIFO",
        left=("mapping",),
    )
    if checked:
        order = table["observed_time"].rank(method="min").astype(int).tolist()
    everything = records(table)
    for i in top_and_bottom(len(table), top):
        if i is None:
            shown.add_row("...")
            continue
        row = everything[i]
        shown.add_row(
            str(row["rank"]),
            row["mapping"],
            number(row["predicted_time"] / scale),
            *(
                [
                    f"{number(row['low'] / scale)} - {number(row['high'] / scale)}",
                    percent(row["p_best"]),
                ]
                if forecast
                else []
            ),
            *([number(row["observed_time"] / scale), str(order[i])] if checked else []),
            number(row["lower_bound"] / scale),
            number(row["max_bytes"] / per_byte),
            number(row["avg_hops_per_byte"]),
            f"{row['max_FIFO']:.0f}",
        )
    print_table(shown, console, keep=3 + 2 * forecast + 2 * checked)


def _print_reasons(found: Ranking, estimated: bool, console: Console) -> None:
    """Print the hottest links of the best and the worst, and what bounds them."""
    for place, name in zip(("best", "worst"), found.reasons, strict=False):
        why = found.reasons[name]
        console.print(f"Hottest links of the {place}, {printable(name)}:", style="bold")
        links = new_table("link", "bytes", "times the mean", "busy", left=("link",))
        for row in records(why.links):
            links.add_row(
                row["label"], nbytes(row["nbytes"]), f"{row['over_mean']:.1f}", seconds(row["busy"])
            )
        if len(why.links):
            console.print(links)
        console.print(bound_line(why, estimated))
        console.print()
    labels = [label for why in found.reasons.values() for label in why.links["label"][:1]]
    if labels:
        console.print(link_note(labels[0]), style="dim")


def _quality(found: Ranking, estimated: bool) -> list[str]:
    """Return how good the forecast is, in lines."""
    if found.is_exact:
        return ["Every time is that of a simulation, without the uncertainty of a forecast."]
    lines = []
    n = len(found.table)
    if found.checked is not None and n > 1:
        s = found.checked
        if found.training is not None:
            origin = f"all held out: the model learned from {found.model.n_samples_} others"
            if found.training.n_twins:
                origin += f", {found.training.n_twins} of them like a candidate or each other"
            else:
                origin += ", none of them a candidate turned or mirrored"
        elif found.source == "default":
            origin = "the model learned from other applications"
        else:
            origin = "whether the model learned from some of them is not known"
        lines.append(
            f"Forecast quality on the {n} candidates ({origin}): "
            f"{', '.join(f'{METRICS[m][0]} {score(m, s[m])}' for m in SHOWN)}; "
            f"the {percent(COVERAGE)} intervals hold "
            f"{percent(s['within_interval'])} of the simulated times."
        )
        sketch = s.get("rcc_of_sketch_time")
        bound = "estimated" if estimated else "lower"
        lines.append(
            f"Without learning: RCC {s['rcc_of_lower_bound']:.3f} by the {bound} bound"
            + (
                f", {sketch:.3f} by the sketch, a coarser simulation that the model reads."
                if sketch is not None
                else "."
            )
        )
    if found.training is not None:
        measured = {row["metric"]: row for row in records(found.training.quality)}
        parts = [
            f"{METRICS[name][0]} {score(name, measured[name]['mean'])} "
            f"({between(name, measured[name]['low'], measured[name]['high'])})"
            for name in SHOWN
        ]
        lines.append(
            f"Repeated splits of the {found.model.n_samples_} training mappings, 2/3 to train and "
            f"1/3 held out, mean (95 % of splits): {', '.join(parts)}."
        )
    if not lines:
        lines.append("Forecast quality is not known here: --check simulates the candidates.")
    return lines


def _answer(found: Ranking) -> str:
    """Return the result in a sentence."""
    table = found.table
    best = records(table.iloc[:1])[0]
    if found.is_exact:
        text = f"{printable(best['mapping'])} is fastest: {seconds(best['predicted_time'])}"
    else:
        text = (
            f"{printable(best['mapping'])} is predicted fastest: "
            f"{seconds(best['predicted_time'])} "
            f"({percent(COVERAGE)} interval {seconds(best['low'])} to {seconds(best['high'])})"
        )
    others = table.iloc[1:]
    text += gains(table["mapping"], table["predicted_time"])
    if found.is_exact:
        as_fast = int((others["predicted_time"] == best["predicted_time"]).sum())
        if not len(others):
            return f"{text}; there is no other candidate."
        verb = "take" if as_fast > 1 else "takes"
        return f"{text}; {as_fast or 'none'} of {len(others)} others {verb} as little."
    if len(others):
        text += f"; probability of being the best of the {len(table)}: {percent(best['p_best'])}"
    text += "."
    if found.checked is not None and len(table) > 1:
        fastest = min(records(table), key=lambda row: float(row["observed_time"]))
        text += f" Simulated, it takes {seconds(best['observed_time'])}"
        if fastest["observed_time"] == best["observed_time"]:
            text += "; no candidate is faster."
        else:
            name, time = printable(fastest["mapping"]), seconds(fastest["observed_time"])
            text += f"; the fastest, {name}, {time}."
    return text


def gains(names: pd.Series[str], times: pd.Series[float]) -> str:
    """Return how much less time the first takes than what it may be compared with."""
    text = ""
    others = names.iloc[1:]
    identity = times.iloc[1:][others == "identity"]
    for label, reference in (
        ("the identity mapping", float(identity.iloc[0]) if len(identity) else None),
        ("the median candidate", float(times.median()) if len(others) else None),
    ):
        if reference:
            text += f", {percent(1 - times.iloc[0] / reference)} less time than {label}"
    return text


def alike(times: pd.Series[float]) -> str:
    """Return that the mapping hardly matters, where it does not."""
    least, most = float(times.min()), float(times.max())
    if len(times) < 2 or most >= (1 + _ALIKE) * least > 0:
        return ""
    within = "take the same time" if most == least else f"lie within {percent(_ALIKE)} of it"
    return f" All candidates {within}: the mapping hardly matters here."
