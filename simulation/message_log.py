"""Events of the packets of a watched message."""

from __future__ import annotations

from collections.abc import Iterator

from toruscast.mapping import Torus

from ._state import ARRIVED, HANDED_OVER, INJECTED, SENT, TAKEN_IN
from .stretch import Stretch

_EVENTS = {
    HANDED_OVER: "handed over",
    INJECTED: "injected",
    SENT: "sent",
    ARRIVED: "arrived",
    TAKEN_IN: "taken in",
}


def log_rows(stretch: Stretch, torus: Torus) -> Iterator[tuple[float, str, int, str]]:
    """Yield time (seconds), event, packet and place of each entry in the log of ``stretch``.

    As `Simulation.log` describes them.
    """
    m = stretch.watched
    names = dict(_EVENTS)
    if stretch.messages.asks[m]:
        names[HANDED_OVER] = "released"
    number: dict[int, int] = {}
    injected = 0
    for time, code, slot, place in stretch.log.tolist():
        if code == INJECTED:
            # A slot of the simulator holds one packet after the other.
            number[slot] = injected
            injected += 1
        where = (
            torus.link_label(int(place))
            if code in (SENT, ARRIVED)
            else f"FIFO {int(place) % torus.network.fifos}"
            if place >= 0
            else ""
        )
        yield time, names[int(code)], number.get(slot, -1), where
    if stretch.messages.fifo[m] < 0:
        # A message that is copied within its node has no packet.
        yield float(stretch.arrived[m]), names[TAKEN_IN], -1, ""
