"""Sentences that several commands say: what is sent, what bounds a time, who is how much faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import printable
from .units import nbytes, percent, seconds

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.features.reasons import Reasons

    from .inputs import Application

# Share of the bytes that are left out.
_WORTH_SAYING = 0.001
# By how much all candidates differ at most where none is worth choosing.
_ALIKE = 0.01
BINDING = {
    "link": "the busiest link",
    "injection": "the busiest injection FIFO",
    "reception": "the busiest receiving node",
    "latency": "software overhead, hops and the longest message",
}
_CHAIN = "the longest chain of messages that wait for each other"


def application_line(application: Application) -> str:
    """Return what is sent, in words."""
    from toruscast.wording import counted

    comm = application.comm
    line = f"{printable(comm.name)}: {counted(comm.n_tasks, 'task')}, "
    line += f"{counted(comm.n_edges, 'edge')}, {nbytes(comm.nbytes.sum())}"
    if application.iterations is not None:
        line += f" per iteration (1/{application.iterations:g} of the capture)"
    if application.traffic != "all":
        line += f", {application.traffic.replace('_', '-')} only"
    if comm.n_edges and min(comm.src.min(), comm.dst.min()) > 0:
        line += "; task 0 neither sends nor receives (tasks are numbered from 0)"
    left_out = comm.nbytes[comm.whole_messages == 0].sum() / max(comm.nbytes.sum(), 1e-300)
    if left_out >= _WORTH_SAYING:
        line += f"; {left_out:.1%} of them in edges of less than half a message, not simulated"
    return line


def bound_line(why: Reasons, estimated: bool, dependent: bool = False) -> str:
    """Return what bounds the time of a mapping, in words; or by estimate, where ways are open.

    In ``dependent`` rounds messages wait for each other.
    """
    others = ", ".join(f"{k} {seconds(v)}" for k, v in why.bounds.items() if k != why.binding)
    least = seconds(why.bounds[why.binding])
    what = _CHAIN if dependent and why.binding == "latency" else BINDING[why.binding]
    if estimated:
        return f"Limited by {what}, an estimate of {least} ({others})."
    return f"Bound by {what}, {least} at least ({others})."


def link_note(label: str) -> str:
    """Return what the name of a link means, on an example."""
    node, _, way = label.partition(" ")
    sign = "plus" if way.startswith("+") else "minus"
    return f"{label}: the link that leaves node {node} in {sign} direction of dimension {way[1:]}."


def gains(names: pd.Series[str], times: pd.Series[float]) -> str:
    """Return how much less time the first takes than what it may be compared with."""
    text = ""
    others = names.iloc[1:]
    identity = times.iloc[1:][others == "identity"]
    for label, reference in (
        ("the identity mapping", float(identity.iloc[0]) if len(identity) else None),
        ("the median candidate", float(times.median()) if len(others) else None),
    ):
        if reference:
            text += f", {percent(1 - times.iloc[0] / reference)} less time than {label}"
    return text


def alike(times: pd.Series[float]) -> str:
    """Return that the mapping hardly matters, where it does not."""
    least, most = float(times.min()), float(times.max())
    if len(times) < 2 or most >= (1 + _ALIKE) * least > 0:
        return ""
    within = "take the same time" if most == least else f"lie within {percent(_ALIKE)} of it"
    return f" All candidates {within}: the mapping hardly matters here."
