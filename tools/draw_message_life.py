"""Draw the life of a message from the packet simulator's log: docs/figures/message-life.svg."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

sys.path.insert(0, str(Path(__file__).parents[1]))
from studies.drawing import figure, save
from toruscast.mapping import CommGraph, TaskMapping, Torus
from toruscast.simulation import simulate
from toruscast.simulation.message_life import (
    BUFFER,
    FIFO,
    RECEPTION,
    WIRE,
    message_life,
    watched_message,
)

# Task 0 sends four packets over two links in dimension 0 and one in dimension 1. The others cross
# its way: task 1 on the second link, task 3 on the third.
TORUS = Torus((8, 8))
PLACES = [(0, 0), (1, 0), (2, 0), (2, 7), (2, 1), (2, 2)]
COMM = CommGraph(6, [0, 1, 3], [4, 2, 5], [2048, 1024, 2048])
WATCHED = 0
COLOURS = ["#1b6ca8", "#d1495b", "#3a7d44", "#e08e1b"]
OTHERS = "#b5b5b5"
Row = tuple[str, int, str]


def lives() -> tuple[list[pd.DataFrame], float, float]:
    """Return the lives of all messages in ns, when the watched is handed over and arrives."""
    mapping = TaskMapping(TORUS.node(PLACES), TORUS)
    found = []
    for edge in range(COMM.n_edges):
        result = simulate(COMM, TORUS, mapping, watch=(0, edge))
        life = message_life(result)
        life[["begin", "end"]] *= 1e9
        found.append(life)
        if edge == WATCHED:
            message = watched_message(result)
            assert message is not None
            times = 1e9 * message.handed_over, 1e9 * message.arrived
    return found, *times


def draw(path: Path) -> None:
    """Draw each station as a row, each packet as a colour."""
    found, handed_over, arrived = lives()
    mine = found[WATCHED]
    links = list(dict.fromkeys(mine.loc[mine["station"] == WIRE, "place"]))
    fifo = int(mine.loc[mine["station"] == FIFO, "place"].iloc[0])
    packets = int(mine["packet"].max()) + 1
    rows: list[Row] = [(FIFO, fifo, f"injection FIFO {fifo}")]
    for link in links:
        near, far = link // (2 * TORUS.ndim), TORUS.neighbors.ravel()[link]
        rows.append((WIRE, link, f"link {place_of(near)} to {place_of(far)}"))
        rows.append((BUFFER, link, f"buffer at {place_of(far)}"))
    # At the receiver no packet waits here.
    rows[-1] = (RECEPTION, -1, f"reception at {place_of(far)}")

    with figure(8, 4.6) as drawn:
        axes = drawn.subplots()
        bar(axes, 0, 0, 1, 0, handed_over, "#555555")
        axes.text(handed_over / 2, 0, "overhead", color="white", ha="center", va="center")
        for y, (station, place, _) in enumerate(rows, start=1):
            here = (mine["station"] == station) & (mine["place"] == place)
            lanes = packets if station in (FIFO, BUFFER) else 1
            for row in mine[here].itertuples():
                lane = row.packet if lanes > 1 else 0
                bar(axes, y, lane, lanes, row.begin, row.end, COLOURS[row.packet])
                if lanes == 1:
                    middle = (row.begin + row.end) / 2
                    axes.text(middle, y, row.packet, color="white", ha="center", va="center")
            if station == WIRE:
                for other in found[:WATCHED] + found[WATCHED + 1 :]:
                    there = (other["station"] == WIRE) & (other["place"] == place)
                    for row in other[there].itertuples():
                        bar(axes, y, 0, 1, row.begin, row.end, OTHERS)
        notes(axes, mine, rows, arrived)
        axes.set_yticks(range(len(rows) + 1), ["task 0", *(label for *_, label in rows)])
        axes.set_ylim(len(rows) + 0.6, -0.6)
        axes.set_xlim(0, arrived + 180)
        axes.set_xlabel("time (ns)")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        for y in range(0, len(rows) + 1):
            axes.axhline(y + 0.5, color="#e6e6e6", linewidth=0.6, zorder=0)
        handles: list[Patch | Line2D] = [
            Patch(color=COLOURS[p], label=f"packet {p}") for p in range(packets)
        ]
        handles.append(Patch(color=OTHERS, label="other messages"))
        drawn.legend(handles=handles, loc="outside upper center", ncols=5)
        save(drawn, path)


def bar(axes: Axes, y: int, lane: int, lanes: int, begin: float, end: float, colour: str) -> None:
    """Draw a stay in one of a row's lanes."""
    height = 0.76 / lanes
    top = y - 0.38 + lane * height
    axes.barh(
        top + height / 2,
        end - begin,
        height * 0.94,
        begin,
        color=colour,
        edgecolor="white",
        linewidth=0.5,
    )


def notes(axes: Axes, mine: pd.DataFrame, rows: list[Row], arrived: float) -> None:
    """Explain what a newcomer cannot see."""
    first = mine[(mine["station"] == BUFFER)].sort_values("begin").iloc[0]
    latency = 1e9 * TORUS.network.hop_latency
    kind = {"color": "#444444", "fontsize": 8, "va": "center"}
    fifo, buffer = 1, 1 + [row[0] for row in rows].index(BUFFER)
    last = mine[mine["station"] == FIFO]["end"].max()
    axes.text(last + 12, fifo, "a FIFO sends one packet after the other", ha="left", **kind)
    axes.text(
        first["begin"] - 12,
        buffer,
        f"its head is here\n{latency:.0f} ns later",
        ha="right",
        **kind,
    )
    until = mine[(mine["station"] == BUFFER) & (mine["place"] == first["place"])]["end"].max()
    axes.text(
        until + 12, buffer, "packets wait while others\nhave the next link", ha="left", **kind
    )
    axes.text(
        20,
        len(rows),
        "taken in from the head on while the tail\nis still coming (virtual cut-through)",
        ha="left",
        **kind,
    )
    axes.axvline(arrived, color="#444444", linewidth=0.8, linestyle=(0, (4, 3)), zorder=0)
    axes.text(arrived + 12, 0, "arrived", ha="left", **kind)


def place_of(node: int) -> str:
    """Return the coordinates of a node."""
    return f"({','.join(map(str, TORUS.coords[node].tolist()))})"


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures/message-life.svg"))
