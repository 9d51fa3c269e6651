"""Collectives in the words of the command line: ``allreduce/ring:64MB``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .names import closest
from .records import Traffic

if TYPE_CHECKING:
    from toruscast.mapping import Torus
    from toruscast.mapping.collectives import Schedule

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
FORM = "ALGORITHM:SIZE[:PORTS] such as allreduce/ring:64MB or allreduce/ring:64MB:2"


def read_size(text: str) -> float:
    """Read bytes such as ``64MB``, ``16KiB`` or ``1e6``.

    Raises
    ------
    InputError
        If it is no such amount.

    Examples
    --------
    >>> read_size("64MB"), read_size("16KiB"), read_size("8")
    (64000000.0, 16384.0, 8.0)
    """
    from toruscast.errors import InputError

    match = re.fullmatch(
        r"([0-9]+(?:\.[0-9]*)?(?:e[0-9]{1,2})?)\s*([kmg]i?|)b?", text.strip(), re.I
    )
    if match is None:
        raise InputError("bad size", found=text, expected="bytes such as 64MB, 16KiB or 1e6")
    return float(match[1]) * _UNITS[match[2].lower()]


def load_collective(traffic: Traffic, torus: Torus) -> Schedule:
    """Return the rounds of a collective; on all nodes if the number of tasks is not told.

    The algorithm sees the dimensions of the torus where there is a task a node.

    Raises
    ------
    InputError
        If the text is of another form, or the algorithm does not run so.
    """
    from toruscast.errors import InputError
    from toruscast.mapping import collectives

    name, *rest = (traffic.collective or "").split(":")
    if len(rest) not in (1, 2) or not (len(rest) == 1 or rest[1].isdecimal()):
        raise InputError("bad --collective", found=traffic.collective, expected=FORM)
    known = collectives.names()
    if name not in known:
        of_kind = collectives.names(name.split("/")[0])
        expected = closest(name, known, " or ".join(of_kind or known))
        raise InputError("unknown collective algorithm", found=name, expected=expected)
    tasks = torus.n_nodes if traffic.tasks is None else traffic.tasks
    shape = torus.shape if tasks == torus.n_nodes else None
    ports = int(rest[1]) if len(rest) == 2 else 1
    return collectives.schedule(name, tasks, read_size(rest[0]), shape, ports=ports)
