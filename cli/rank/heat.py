"""How busy the links of a candidate are, in a few characters of a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toruscast.report.units import percent
from toruscast.wording import shown_name

if TYPE_CHECKING:
    from rich.console import Console

    from toruscast.training import Forecast

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
    from toruscast.features import RoutedTraffic
    from toruscast.report.heat import heat_lines

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
