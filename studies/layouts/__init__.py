"""Pairs of layouts with public times, rebuilt: which is faster, and by how much.

``python -m studies.layouts`` writes ``studies/results/layouts.md``. What a program sends is
not public: sizes of buffers are assumed, the same for both of a pair. A measured step also
computes, so that its two times lie nearer together than those of communication alone.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import toruscast as tc
from toruscast._mesh.devices import default_devices

HERE = Path(__file__).parent
# What an axis of eight Wormhole chips is, joined by one Ethernet channel each.
_CHANNEL = 11.77e9


@dataclass(frozen=True)
class Pair:
    """A pair, and the seconds that a step of each communicates in the model."""

    row: dict[str, Any]
    times: tuple[float, float]
    others: tuple[float, float] | None = None
    """The same, if the other traffic was sent that is as likely."""

    @property
    def measured(self) -> float:
        """How many times as fast the second is, as published."""
        before, after = self.row["measured"]
        return float(before / after)

    @property
    def ours(self) -> float:
        """How many times as fast it communicates in the model."""
        return self.times[0] / self.times[1]

    @property
    def sign(self) -> str:
        """Whether both say that the same layout is faster, or whether that depends."""
        both = [first / second for first, second in filter(None, (self.times, self.others))]
        right = {(self.measured > 1) == (ours > 1 + 1e-3) for ours in both}
        return "depends" if len(right) > 1 else "right" if right.pop() else "wrong"


def rows() -> list[dict[str, Any]]:
    """Return the pairs."""
    return list(tomllib.loads((HERE / "pairs.toml").read_text())["pair"])


def compare(row: dict[str, Any]) -> Pair:
    """Return a pair with the times of the model, simulated packet by packet where it can be."""

    def both(traffic: str) -> tuple[float, float]:
        first, second = (
            _seconds(torus, row["axes"], traffic, layout)
            for torus, layout in zip(row["torus"], row["layouts"], strict=True)
        )
        return first, second

    return Pair(row, both(row["traffic"]), both(row["other"]) if "other" in row else None)


def _seconds(text: str, axes: str, traffic: str, layout: object) -> float:
    torus = _eight(wrap=text == "ring") if text in ("line", "ring") else tc.torus(text)
    nodes = default_devices(torus).nodes
    if isinstance(layout, str) and layout != "in order":
        layout = json.loads((HERE / "layouts.json").read_text())[layout]
    if not isinstance(layout, str):
        ids = np.array(layout)
        # Lists written here are by place, X slowest; those of the file by number of the device.
        nodes = ids.ravel() if ids.ndim == 1 else nodes[ids.ravel()]
    answer = tc.mesh(torus, axes, traffic, compare=nodes, top=1)
    assert answer.compared is not None
    return answer.compared.time


def _eight(wrap: bool) -> tc.Torus:
    network = tc.torus("galaxy").network
    return tc.Torus((8,), wrap=wrap, bandwidth=_CHANNEL, network=network, name="galaxy")


def page(pairs: list[Pair]) -> str:
    """Return the page of the documentation."""
    signs = [pair.sign for pair in pairs]
    told = len(signs) - signs.count("depends")
    lines = [
        "# Layouts with public times",
        "",
        "Sources give the measured times of two layouts of the same mesh. This page compares the",
        "faster one of each pair with our prediction. `python -m studies.layouts` writes it, and",
        "`studies/layouts/pairs.toml` has the times, their sources and the assumed traffic.",
        "",
        f"There are {len(pairs)} pairs from",
        f"{len({pair.row['source'].split(' (')[0] for pair in pairs})} sources. For {told} pairs",
        f"the prediction is clear, and it is right for {signs.count('right')} of them",
        f"({signs.count('right') / told:.0%}). For the others it depends on the assumed traffic.",
        "",
        "*measured* and *ours* are the speedup of the second layout of a pair over the first.",
        "The time of a *step* includes computation, so only the sign can be compared (which",
        "layout is faster). For a *collective* alone, the speedups can be compared too. The",
        "size of a buffer is assumed if the source does not give it.",
        "",
        "| pair | time of | measured | ours | sign | traffic (assumed) | source |",
        "|---|---|--:|--:|---|---|---|",
    ]
    for pair in pairs:
        row = pair.row
        lines.append(
            f"| {row['name']} | {row['of']} | {pair.measured:.2f} | {pair.ours:.2f} | "
            f"{pair.sign} | `{row['traffic']}` | {row['source']}, {row['date']} |"
        )
    lines += ["", "Pairs whose sign is not right:", ""]
    for pair in pairs:
        if pair.sign != "right":
            why = " ".join(pair.row.get("why", "Not explained.").split())
            if pair.others:
                ratio = pair.others[0] / pair.others[1]
                why += f" With `{pair.row['other']}` the speedup would be {ratio:.2f}."
            lines.append(f"- {pair.row['name']}: {why}")
    lines += [
        "",
        "The layouts of the first three pairs follow the descriptions in the pull requests. The",
        "layouts of v6e-8 are those of MaxText's code, which reverses the second half. Lines",
        "and rings of eight are Wormhole chips, joined by one Ethernet channel each, with the",
        "constants of the machine `galaxy`. The twist is that of `mapping.twist`, because the",
        "vendor's wiring is not completely public.",
        "",
    ]
    return "\n".join(lines)


__all__ = ["Pair", "compare", "page", "rows"]
