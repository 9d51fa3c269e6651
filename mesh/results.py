"""Results of `rank_layouts`: layouts by their time, and a row for each collective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.mapping import TaskMapping, Torus
from toruscast.mesh.devices import Devices
from toruscast.mesh.layouts import jax_program
from toruscast.mesh.traffic import MeshAxes, MeshTraffic
from toruscast.notebook import html_card
from toruscast.text import counted, seconds, shown_name

from .closed_form import Score, time_bound


def reason(score: Score, torus: Torus) -> str:
    """Return what slows a collective down, or that nothing does.

    Examples
    --------
    >>> import numpy as np
    >>> from toruscast.mesh.closed_form import score
    >>> lines = np.array([[0, 1, 2, 3]])
    >>> traffic = MeshTraffic("exchange", 4e6, ("x",))
    >>> torus = Torus((4,), wrap=False)
    >>> reason(score(traffic, lines, torus), torus)
    'hops up to 3, 1.5 on average; 2 messages of a step share the link (0) +X'
    """
    if score.algorithm == "none" or not score.farthest:
        return "nothing is sent"
    words = []
    if score.farthest > 1:
        words.append(f"hops up to {score.farthest}, {score.hops:.2g} on average")
    if score.sharing > 1:
        messages = counted(round(score.sharing), "message")
        words.append(f"{messages} of a step share the link {torus.link_label(score.busiest)}")
    if not words:
        return "neighbours are one hop apart, no link is shared"
    return "; ".join(words)


How = Literal["simulated", "forecast"]


@dataclass(frozen=True, eq=False)
class RankedLayout:
    """A layout and the time that a step communicates with it.

    Attributes
    ----------
    nodes : ndarray of int, in the shape of the mesh
        The node of the torus at each place.
    words : str
        How the axes lie.
    sent : tuple of Score
        The score of each collective.
    time : float
        Seconds that a step communicates.
    how : {"simulated", "forecast"}
        By simulated packets, or by link loads in closed form.
    """

    nodes: NDArray[np.int64]
    words: str
    sent: tuple[Score, ...]
    time: float
    how: How


@dataclass(frozen=True, eq=False)
class MeshForecast:
    """The layouts of a mesh on a torus, the fastest first.

    Attributes
    ----------
    torus, axes, traffic, overlap
        As given to `rank_layouts`.
    devices : Devices
        The devices that there are.
    layouts : tuple of RankedLayout
        Those that differ in time, the fastest first.
    in_order : RankedLayout
        The devices in the order of their numbers.
    compared : RankedLayout or None
        The layout that the caller brought.
    considered : int
        Layouts that were scored.
    all_considered : bool
        Whether these are all that the enumeration has.
    """

    torus: Torus
    axes: MeshAxes
    traffic: tuple[MeshTraffic, ...]
    devices: Devices
    layouts: tuple[RankedLayout, ...]
    in_order: RankedLayout
    compared: RankedLayout | None
    considered: int
    all_considered: bool
    overlap: bool

    def __repr__(self) -> str:
        best = self.best
        return (
            f"MeshForecast({self.axes} on {shown_name(self.torus)}: {seconds(best.time)} "
            f"{best.how}, {self.gain:.2f} times as fast as the devices in order)"
        )

    def _repr_html_(self) -> str:
        return html_card(self)

    @property
    def best(self) -> RankedLayout:
        """The fastest layout."""
        return self.layouts[0]

    @property
    def ids(self) -> NDArray[np.int64]:
        """The device at each place of the mesh in the best layout, in mesh shape.

        A device is counted by its place among all devices sorted by their ids.
        """
        return self.devices.places(self.best.nodes)

    def jax_program(self) -> str:
        """Return the lines that make the best mesh in a JAX program."""
        return jax_program(self.ids, self.axes)

    @property
    def mapping(self) -> TaskMapping:
        """The best layout as a task mapping, tasks in C order of the mesh."""
        return TaskMapping(self.best.nodes.ravel(), self.torus, name="mesh")

    @property
    def gain(self) -> float:
        """How many times faster a step communicates than with the devices in order."""
        return self.in_order.time / self.best.time if self.best.time else 1.0

    @property
    def table(self) -> pd.DataFrame:
        """A row for each layout: ``layout``, ``time`` (seconds), ``how``."""
        rows = [{"layout": each.words, "time": each.time, "how": each.how} for each in self.layouts]
        return pd.DataFrame(rows)

    @property
    def idle(self) -> int:
        """Devices that the mesh does not use."""
        return int(self.devices.nodes.size - self.axes.n_tasks)

    @property
    def not_simulated(self) -> tuple[str, ...]:
        """Labels of the collectives whose time in the best layout is in closed form."""
        if self.overlap:
            return tuple(traffic.label for traffic in self.traffic)
        pairs = zip(self.traffic, self.best.sent, strict=True)
        return tuple(traffic.label for traffic, sent in pairs if sent.simulated is None)

    def lines(self, layout: RankedLayout | None = None) -> pd.DataFrame:
        """Return a row for each collective of a step, in the best layout or another.

        Columns ``what``, ``collective``, ``devices`` (of a group), ``nbytes`` (of one run),
        ``times`` (runs in a step), ``time`` and ``bound`` (seconds of all its runs in a step; no
        layout is faster than the bound), ``GBps`` (the buffers over the time), ``share`` (of the
        times of the step), ``algorithm``, ``how`` and ``why``.
        """
        layout = layout or self.best
        total = sum(s.seconds * t.times for s, t in zip(layout.sent, self.traffic, strict=True))
        rows = []
        for traffic, sent in zip(self.traffic, layout.sent, strict=True):
            n = traffic.group_table(self.axes).shape[1]
            time = sent.seconds * traffic.times
            rows.append(
                {
                    "what": traffic.label,
                    "collective": traffic.collective,
                    "devices": n,
                    "nbytes": traffic.nbytes,
                    "times": traffic.times,
                    "time": time,
                    "bound": time_bound(traffic, n, self.torus) * traffic.times,
                    "GBps": traffic.nbytes * traffic.times / time / 1e9 if time else float("nan"),
                    "share": time / total if total else 0.0,
                    "algorithm": sent.algorithm,
                    "how": "forecast" if sent.simulated is None else "simulated",
                    "why": reason(sent, self.torus),
                }
            )
        return pd.DataFrame(rows)
