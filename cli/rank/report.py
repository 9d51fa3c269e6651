"""An answer as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toruscast.answers.units import byte_unit, nbytes, number, percent, seconds, time_unit
from toruscast.answers.words import answer, bound_line, link_note, trust
from toruscast.wording import printable, shown_name

from ..learning import METRICS, print_learned, score
from ..output import new_table, print_table, records, top_and_bottom
from ..phrases import application_line, occupancy

if TYPE_CHECKING:
    from rich.console import Console

    from toruscast.training import Forecast

    from ..inputs import LoadedTraffic
    from ..records import Basis

_NO_BOUND = (
    "No lower bound is shown: times of the machine lie below that of the network as it is given."
)
# Share above the lower bound over all mappings from which a search is worth its time.
_FAR = 0.05
_SCORES = ("rcc", "tau_b", "r2", "regret_1")


def print_answer(
    application: LoadedTraffic, found: Forecast, basis: Basis, top: int, console: Console
) -> None:
    """Print what is ranked, the table, the reasons, the quality, and the answer in words."""
    from toruscast.routing.routing import ways_are_open

    console.print(_header(application, found, basis))
    console.print()
    estimated = ways_are_open(found.workload, found.torus, found.routing)
    _print_table(found, top, console)
    console.print()
    _print_reasons(found, estimated, console)
    print_heat(found, console)
    if found.learned is not None:
        print_learned(found.learned, console)
    if found.table["lower_bound"].isna().all():
        console.print(_NO_BOUND)
    if found.scores:
        console.print(_quality(found))
        console.print()
    console.print(answer(found), style="bold")
    console.print(trust(found))
    if not found.table["lower_bound"].isna().all():
        console.print(_room_for_search(found), end="")


def _room_for_search(found: Forecast) -> str:
    """Say how far the best is from the lower bound over all mappings, if that is far."""
    from toruscast.search.lower_bounds import least_time

    bound = least_time(found.workload, found.torus, found.best.tasks_per_node).total
    above = float(found.table["time"].iloc[0]) / bound - 1 if bound > 0 else 0.0
    if above <= _FAR:
        return ""
    return (
        f"No mapping of these tasks takes less than {seconds(bound)}: the first is "
        f"{percent(above)} above that, so 'toruscast search' may find a faster one.\n"
    )


def _header(application: LoadedTraffic, found: Forecast, basis: Basis) -> str:
    from toruscast.wording import counted

    routing = {
        "adaptive": " with adaptive routing",
        "by_size": " with routing by message size",
    }.get(found.routing, "")
    model = basis.model
    origin = "the default model" if model == "default" else f"the model {printable(model)}"
    origin += f" ({found.fitted.n_samples_} samples)"
    decided = " and simulated where it decides"
    if basis.times is not None:
        origin, decided = f"measured times of {found.cost.measured} of them", ""
    elif found.fitted.target == "measured":
        decided = ", which learned from times of a machine"
    if found.networks is not None:
        several = f"simulated on {found.cost.networks} networks that the machine may have"
        weighed = f", weighed by measured times of {found.cost.measured} of them"
        origin, decided = several, weighed if found.cost.measured else ""
    else:
        origin = f"forecast by {origin}"
    return (
        f"{application_line(application)}; on torus {found.torus}{routing}; "
        f"{counted(len(found.mappings), 'candidate mapping')}, {occupancy(found.mappings)}; "
        f"{origin}{decided}."
    )


def _print_table(found: Forecast, top: int, console: Console) -> None:
    """Print the first and the last rows."""
    table = found.table
    scale, unit = time_unit(table[["time", "lower_bound"]].fillna(0).to_numpy().ravel())
    per_byte, byte_name = byte_unit(table["max_bytes"])
    checked = "observed_time" in table.columns
    shown = new_table(
        "#",
        "mapping",
        f"time\n{unit}",
        "how it was\nfound out",
        f"{percent(found.coverage)}\ninterval\n{unit}",
        "P(best)",
        *([f"simu-\nlated\n{unit}"] if checked else []),
        f"lower\nbound\n{unit}",
        f"max\nlink\n{byte_name}",
        "hops\nper\nbyte",
        "max\nFIFO",
        left=("mapping", "how it was\nfound out"),
    )
    everything = records(table)
    for i in top_and_bottom(len(table), top):
        if i is None:
            shown.add_row("...")
            continue
        row = everything[i]
        exact = row["how"] == "simulated" or row["low"] == row["high"]
        ends = "" if exact else f"{number(row['low'] / scale)} - {number(row['high'] / scale)}"
        shown.add_row(
            str(row["rank"]),
            row["mapping"],
            number(row["time"] / scale),
            row["how"],
            ends,
            percent(row["p_best"]),
            *([number(row["observed_time"] / scale)] if checked else []),
            number(row["lower_bound"] / scale) if row["lower_bound"] >= 0 else "-",
            number(row["max_bytes"] / per_byte),
            number(row["avg_hops_per_byte"]),
            f"{row['max_FIFO']:.0f}",
        )
    print_table(shown, console, keep=6 + checked)


def _print_reasons(found: Forecast, estimated: bool, console: Console) -> None:
    """Print the hottest links of the best and the worst, and what bounds them."""
    labels = []
    for place, name in zip(
        ("best", "worst"), found.table["mapping"].iloc[[0, -1]].unique(), strict=False
    ):
        why = found.reasons(name)
        labels += why.links["label"][:1].tolist()
        console.print(f"Hottest links of the {place}, {printable(name)}:", style="bold")
        links = new_table("link", "bytes", "times the mean", "busy", left=("link",))
        for row in records(why.links):
            links.add_row(
                row["label"], nbytes(row["nbytes"]), f"{row['over_mean']:.1f}", seconds(row["busy"])
            )
        if len(why.links):
            console.print(links)
        console.print(bound_line(why, estimated, found.workload.dependent))
        console.print()
    if labels:
        console.print(link_note(labels[0]), style="dim")
        console.print()


def _quality(found: Forecast) -> str:
    """Return how good the answer is where all candidates were simulated afterwards."""
    scores = found.scores
    if "rcc" not in scores:
        return "One candidate: there is no order to score."
    parts = [f"{METRICS[name][0]} {score(name, scores[name])}" for name in _SCORES]
    text = (
        f"All {len(found.table)} candidates were simulated to check the answer; the "
        f"{found.cost.simulated} simulated before count with their times: {', '.join(parts)}."
    )
    if "within_interval" in scores:
        text += (
            f" The {percent(found.coverage)} intervals hold {percent(scores['within_interval'])} "
            "of the times that were only forecast."
        )
    return f"{text} The lower bound alone orders with an RCC of {scores['rcc_of_bound']:.3f}."


# Columns that a terminal has at least, and those that a line takes at most.
_LEAST, _MOST = 80, 32
_LEGEND = (
    "A character is a coordinate: how long its busiest link works, on the left in plus direction, "
    "on the right in minus direction; a full block is the busiest link of all."
)


def print_heat(found: Forecast, console: Console) -> None:
    """Print a line for each dimension under the best and the worst; only on a wide terminal."""
    utf = (console.encoding or "").lower().replace("-", "").startswith("utf8")
    if not console.is_terminal or console.width < _LEAST or not utf:
        return
    from toruscast.answers.heat import heat_lines
    from toruscast.features import RoutedTraffic

    ends = found.table[["mapping", "time"]].iloc[[0, -1]].drop_duplicates("mapping")
    for place, (name, time) in zip(
        ("best", "worst"), ends.itertuples(index=False, name=None), strict=False
    ):
        traffic = RoutedTraffic(found.workload, found.torus, found.named(name), found.routing)
        busiest = float((traffic.all_wire_bytes / found.torus.link_bandwidth).max())
        share = percent(min(busiest / time, 1.0)) if time else "0 %"
        console.print(
            f"Links of the {place}, {shown_name(name)}; the busiest works {share} of the time:",
            style="bold",
        )
        for k, (axis, plus, minus) in enumerate(heat_lines(traffic, _MOST)):
            console.print(f"  dimension {k} ({axis})  +|{plus}|  -|{minus}|", soft_wrap=True)
    console.print(_LEGEND, style="dim")
    console.print()
