"""What is sent over which torus, for the commands that simulate phases: in words and for JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toruscast.wording import printable

from .phrases import application_line

if TYPE_CHECKING:
    from toruscast.mapping import Torus

    from .inputs import Application
    from .records import Traffic


@dataclass(frozen=True)
class Setting:
    """An application's phases, and the torus they go over."""

    application: Application
    traffic: Traffic
    torus: Torus

    def describe(self) -> dict[str, Any]:
        """Return what JSON output says about it."""
        torus = self.torus
        return {
            "application": self.application.describe(),
            "torus": {
                "name": str(torus),
                "nodes": torus.n_nodes,
                "bandwidth": torus.bandwidth,
                "order": torus.order,
                "tie": torus.tie,
                "zones": torus.zones,
            },
        }

    def in_words(self) -> str:
        """Return it as a line for people."""
        changes = self.traffic.changes
        changed = f"; {', '.join(map(printable, changes))}" if changes else ""
        return f"{application_line(self.application)}; on torus {self.torus}{changed}"
