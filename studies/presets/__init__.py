"""Presets of accelerators beside public measurements of real slices.

``python -m studies.presets`` writes ``studies/results/presets.md``. What a preset says of a
measurement is simulated packet by packet. Its error is against the nearest value that a source
gives; where sources of one machine disagree, both are listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import toruscast as tc
from toruscast._mesh.step_times import CollectiveGroups, score_collective, simulate_collective
from toruscast._mesh.traffic import MeshTraffic

HERE = Path(__file__).parent
# Messages of a stream: its start and end count for little.
_STREAM = 500


@dataclass(frozen=True)
class Beside:
    """A public number and what the preset says of it."""

    row: dict[str, object]
    ours: float

    @property
    def error(self) -> float:
        """Relative difference from the nearest value that the sources give."""
        low, high = float(self.row["low"]), float(self.row["high"])  # type: ignore[arg-type]
        near = min(max(self.ours, low), high)
        return self.ours / near - 1


def measurements() -> pd.DataFrame:
    """Return the public numbers, a row each."""
    return pd.read_csv(HERE / "measured.csv", keep_default_na=False)


def compare(row: dict[str, object]) -> Beside:
    """Return what the preset of a row's machine says of its measurement."""
    torus, nbytes = tc.torus(str(row["torus"])), float(row["nbytes"])  # type: ignore[arg-type]
    ours = {"exchange": _exchange, "allgather": _allgather, "unicast": _unicast, "stream": _stream}
    return Beside(row, ours[str(row["modelled"])](torus, nbytes))


def beside() -> list[Beside]:
    """Return all that is modelled."""
    rows = measurements().to_dict("records")
    return [compare(row) for row in rows if row["modelled"]]  # type: ignore[arg-type]


def _exchange(torus: tc.Torus, nbytes: float) -> float:
    """Microseconds in which every chip sends to the next of a ring of four."""
    ring = torus.node([[0] * torus.ndim, _at(torus, 1), _at(torus, 0, 1), _at(torus, 1, 1)])
    lines = ring[[0, 1, 3, 2]].astype(np.int64)[None]
    return _time(torus, MeshTraffic("permute", nbytes, ("x",)), lines) * 1e6


def _allgather(torus: tc.Torus, nbytes: float) -> float:
    """GB/s of a chip, of the chips of one plane, whose two devices gather at once."""
    corners = [(0, 0), (1, 0), (1, 1), (0, 1)]
    lines = torus.node([[[x, y, 0, core] for x, y in corners] for core in (0, 1)])
    time = _time(torus, MeshTraffic("allgather", 4 * nbytes, ("x",)), lines.astype(np.int64))
    return 2 * 3 * nbytes / time / 1e9


def _unicast(torus: tc.Torus, nbytes: float) -> float:
    """Nanoseconds of one message over two hops."""
    there = torus.node([_at(torus, 2)])[0]
    comm = tc.CommGraph(2, [0], [1], [nbytes])
    return tc.simulate(comm, torus, tc.TaskMapping([0, int(there)], torus)).time * 1e9


def _stream(torus: tc.Torus, nbytes: float) -> float:
    """GB/s of a channel, of which a link has four and a sender feeds each."""
    comm = tc.CommGraph(8, range(4), range(4, 8), [nbytes] * 4)
    nodes = np.repeat(torus.node([_at(torus, 0), _at(torus, 1)]), 4)
    rounds = tc.Workload([comm] * _STREAM, dependent=True)
    time = tc.simulate(rounds, torus, tc.TaskMapping(nodes, torus, slot=[0, 1, 2, 3] * 2)).time
    return nbytes * _STREAM / time / 1e9


def _at(torus: tc.Torus, *along: int) -> list[int]:
    return [*along, *[0] * (torus.ndim - len(along))]


def _time(torus: tc.Torus, traffic: MeshTraffic, lines: np.ndarray) -> float:
    groups = CollectiveGroups(lines, torus)
    time = simulate_collective(traffic, groups, score_collective(traffic, groups).algorithm)
    assert time is not None
    return time


def page() -> str:
    """Return the page of the documentation."""
    found = beside()
    errors = [abs(each.error) for each in found]
    lines = [
        "# Machines compared with measurements",
        "",
        "This page compares the machines that are accelerators with public measurements.",
        "`python -m studies.presets` writes it. Times are simulated packet by packet. If",
        "sources, or versions of one source, give several values, the error is relative to the",
        "nearest one.",
        "",
        f"For {len(found)} public numbers, the largest error is {max(errors):.1%} and the median",
        f"is {float(np.median(errors)):.1%}. The constants of a machine come from some of these",
        "numbers. The table thus shows how well a few constants describe all numbers. It does",
        "not test predictions for other machines.",
        "",
        "| torus | what | bytes | measured | ours | error | source |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for each in found:
        row = each.row
        lines.append(
            f"| {row['torus']} | {row['what']} | {int(str(row['nbytes'])):,} | {_range(row)} | "
            f"{each.ours:.4g} | {each.error:+.1%} | {row['source']} |"
        )
    lines += ["", "Public numbers of effects that are not modelled:", ""]
    for row in measurements().to_dict("records"):
        if not row["modelled"]:
            lines.append(
                f"- {row['torus']}, {row['what']}, {row['nbytes']:,} bytes: {_range(row)}."
            )  # type: ignore[arg-type]
            lines.append(f"  {row['source']}.")
    lines += [
        "",
        "We found no measured number for TPU v2 to v5e, Trainium1 and Trainium2 (November",
        "2026). Their link bandwidths are those of the vendors or of the scaling book. The",
        "all-reduce over 32 devices of TPU7x (accelerator-microbenchmarks issue 71) is not",
        "used, because it was reported as a tenth of the expected bandwidth and the cause is",
        "unknown.",
        "",
    ]
    return "\n".join(lines)


def _range(row: dict[object, object] | dict[str, object]) -> str:
    low, high = row["low"], row["high"]  # type: ignore[index]
    text = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return f"{text} {row['unit']}"  # type: ignore[index]


__all__ = ["Beside", "beside", "compare", "measurements", "page"]
