"""What a page shows of traffic on a torus: the links, who sends to whom, and its origin."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toruscast.features.reasons import explain
from toruscast.mapping import Torus, Workload
from toruscast.mapping.formats import write_mapping
from toruscast.routing.routing import injection_fifos
from toruscast.typing import Routing
from toruscast.wording import counted, shown_name

from .. import words
from ..machine import describe_machine
from ..units import nbytes, number, seconds
from . import charts
from .html import Section, chart, code, details, paragraph, table
from .network import Candidate, LinkUse, binned, hop_shares, link_uses, network_data
from .picture import picture

# Tasks up to which the launcher's file stands on the page.
_MOST_LINES = 20_000
_NODES_LISTED = 5


@dataclass(frozen=True)
class View:
    """Traffic on a torus under several mappings, the best first."""

    workload: Workload
    torus: Torus
    candidates: Sequence[Candidate]
    routing: Routing


def launcher_file(view: View) -> str:
    """Return the first mapping as the launcher's file, with a button that copies it."""
    if view.workload.n_tasks > _MOST_LINES:
        return paragraph("The file for the launcher is too long for a page: --out writes it.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "best.map"
        write_mapping(view.candidates[0].mapping, path, torus=view.torus)
        content = path.read_text(encoding="utf-8")
    return details("The file for the launcher", code("launcher-file", content))


def torus_section(view: View) -> Section:
    """Return the picture of the links under each mapping."""
    uses = link_uses(view.workload, view.torus, view.candidates, view.routing)
    return links_section(view.torus, uses, left_out=len(view.candidates) - len(uses))


def links_section(
    torus: Torus, uses: Sequence[LinkUse], parts: Sequence[str] = (), left_out: int = 0
) -> Section:
    """Return the picture of links that are used so."""
    data = network_data(torus, uses, parts)
    data["picture"] = picture(data)
    called = data["dimensions"]
    planes = (
        f"Across the plane runs dimension {called[data['across']]}"
        + ("" if data["down"] is None else f", down it {called[data['down']]}")
        + "; other links leave their node at an angle. "
        "A stub stands for the link from its node towards the next one; what wraps around leaves "
        "at the edge. Colour and width are the share of the time for which the link is busy."
    )
    fewer = f"{left_out} candidates are left out, to keep the file small." if left_out else ""
    content = paragraph(planes, fewer) + _CONTROLS
    return Section(f"The torus, {torus}", content, data={"network": data})


_CONTROLS = """<div class="controls" id="network-controls">
<label>Candidate A <select id="first"></select></label>
<label>by rank <input id="slider" type="range" min="0" max="0" value="0" step="1"></label>
<label>Candidate B <select id="second"></select></label>
<fieldset><legend>Show</legend>
<label><input type="radio" name="shown" value="a" checked> A</label>
<label><input type="radio" name="shown" value="b"> B</label>
<label><input type="radio" name="shown" value="difference"> A minus B</label></fieldset>
</div>
<p class="quiet" id="compared" aria-live="polite"></p>
<div id="network-view" tabindex="0" role="region" aria-label="Links of the torus"></div>
<div class="links"><div><h3>Hottest links shown</h3><ol id="hottest"></ol></div>
<div><h3>Behind a link</h3><div id="pairs" aria-live="polite"><p>Choose a link in the picture or in
the list.</p></div></div></div>
"""


def traffic_section(view: View) -> Section:
    """Return who sends to whom, how far, and what bounds it under the first mapping."""
    workload, torus = view.workload, view.torus
    best = view.candidates[0].mapping
    comm = workload.total
    by_task, of_task = binned(workload, np.arange(comm.n_tasks), comm.n_tasks)
    by_node, of_node = binned(workload, best.node, torus.n_nodes)
    ends = {one.name: one.mapping for one in (view.candidates[0], view.candidates[-1])}
    shares = hop_shares(workload, torus, list(ends.items()))
    several = {
        "matrix-tasks": charts.matrix(by_task, of_task, "task", "bytes"),
        "matrix-nodes": charts.matrix(by_node, of_node, "node", "bytes"),
        "hops": charts.hops(shares),
    }
    sent = f"{counted(comm.n_edges, 'pair')} of tasks send {nbytes(comm.nbytes.sum())}"
    content = '<div class="pair">'
    content += chart("matrix-tasks", "Who sends to whom, by task", f"{sent}.")
    content += chart(
        "matrix-nodes",
        f"The same by node, under {view.candidates[0].name}",
        "Near the diagonal: nodes with numbers close to each other.",
    )
    content += "</div>\n"
    content += chart(
        "hops",
        "How far the bytes travel",
        f"Shares of the bytes by hops, {' and '.join(map(shown_name, ends))}.",
    )
    content += _phases(view) + _fullest_nodes(view)
    return Section("The traffic", content, charts=several)


def _phases(view: View) -> str:
    """Return what bounds each phase under the best mapping."""
    rows = []
    best = view.candidates[0].mapping
    for i, phase in enumerate(view.workload):
        why = explain(phase, view.torus, best, routing=view.routing)
        rate = phase.nbytes.sum() / why.lower_bound / 1e9 if why.lower_bound else 0.0
        rows.append(
            (
                str(i + 1),
                nbytes(phase.nbytes.sum()),
                seconds(why.lower_bound),
                words.BINDING[why.binding],
                number(rate),
            )
        )
    head = ["phase", "bytes", "lower bound", "bound by", "GB/s at most"]
    return table(head, rows, f"Phases under {view.candidates[0].name}")


def _fullest_nodes(view: View) -> str:
    """Return the nodes whose injection FIFOs take most messages under the best mapping."""
    comm, torus = view.workload.total, view.torus
    best = view.candidates[0].mapping
    fifo = injection_fifos(comm, torus, best)
    remote = fifo >= 0
    n_fifos = max(torus.network.fifos, int(fifo.max(initial=0)) + 1)
    sender = best.node[comm.src[remote]].astype(np.int64)
    shape = (torus.n_nodes, n_fifos)
    messages = np.bincount(
        sender * n_fifos + fifo[remote], comm.n_messages[remote], shape[0] * n_fifos
    ).reshape(shape)
    sent = np.bincount(sender, comm.nbytes[remote], torus.n_nodes)
    received = np.bincount(best.node[comm.dst[remote]], comm.nbytes[remote], torus.n_nodes)
    order = np.argsort(-messages.max(axis=1), kind="stable")[:_NODES_LISTED]
    rows = [
        (
            f"({','.join(map(str, torus.coords[node].tolist()))})",
            f"{messages[node].max():.0f}",
            nbytes(sent[node]),
            nbytes(received[node]),
        )
        for node in order.tolist()
    ]
    head = ["node", "messages in its fullest FIFO", "sent", "received"]
    return table(
        head, rows, f"Nodes with the fullest injection FIFOs under {view.candidates[0].name}"
    )


def facts_of(view: View) -> list[tuple[str, str]]:
    """Return what the traffic, the torus and the candidates are."""
    comm = view.workload.total
    return [
        ("application", f"{comm.name or 'without a name'}, {counted(comm.n_tasks, 'task')}"),
        ("torus", f"{view.torus}, {counted(view.torus.n_nodes, 'node')}"),
        ("candidates", str(len(view.candidates))),
        ("routing", view.routing),
    ]


def origin_section(*facts: tuple[str, str]) -> Section:
    """Return what the page was made from, so that it can be made again."""
    rows = [*facts, *((key, str(value)) for key, value in describe_machine().items())]
    return Section("How to make it again", table(["what", "is"], rows, "Inputs and versions", 2))
