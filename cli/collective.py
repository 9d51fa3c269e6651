"""Collectives in the words of the command line: ``allreduce/ring:64MB``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toruscast.wording import closest

from .records import Traffic

if TYPE_CHECKING:
    from toruscast.mapping import Torus
    from toruscast.mapping.collectives import Schedule

FORM = "ALGORITHM:SIZE[:PORTS] such as allreduce/ring:64MB or allreduce/ring:64MB:2"


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
    from toruscast.validation import read_bytes

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
    return collectives.schedule(name, tasks, read_bytes(rest[0]), shape, ports=ports)
