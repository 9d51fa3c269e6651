"""The page of a forecast: the answer, the candidates, the torus, the traffic, the model."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from toruscast.features.reasons import explain
from toruscast.mapping.formats import write_mapping
from toruscast.training import Forecast
from toruscast.wording import counted

from .. import words
from ..machine import describe_machine
from ..units import nbytes, number, percent, seconds, time_unit
from . import charts
from .html import Section, chart, details, paragraph, sentences, table
from .network import Candidate, binned, hop_shares, network_data

# Tasks up to which the launcher's file stands on the page.
_MOST_LINES = 20_000
_NODES_LISTED = 5


def sections_of(found: Forecast, inputs: Sequence[tuple[str, str]]) -> list[Section]:
    """Return the parts of the page; ``inputs`` are what it was made from, by name."""
    return [
        _answer(found),
        _candidates(found),
        _torus(found),
        _traffic(found),
        _model(found),
        _origin(found, inputs),
    ]


def _answer(found: Forecast) -> Section:
    workload = found.workload
    content = f'<p class="answer">{sentences(words.answer(found))}</p>\n'
    content += paragraph(words.trust(found))
    unknown = [
        "Times are of one exchange of messages on this network alone: computation and other jobs "
        "are not in them."
    ]
    if found.routing != "deterministic":
        unknown.append("Packets choose their way here, so loads of links are expected values.")
    content += paragraph(*unknown)
    if workload.n_tasks <= _MOST_LINES:
        content += details(
            "The file for the launcher",
            '<p><button type="button" data-copy="launcher-file">Copy the file</button></p>'
            f'<pre id="launcher-file" tabindex="0">{sentences(_launcher_file(found))}</pre>\n',
        )
    else:
        content += paragraph("The file for the launcher is too long for a page: --out writes it.")
    return Section("The answer", content)


def _launcher_file(found: Forecast) -> str:
    """Return the best mapping as a file for the launcher."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "best.map"
        write_mapping(found.best, path, torus=found.torus)
        return path.read_text(encoding="utf-8")


def _candidates(found: Forecast) -> Section:
    known = found.table
    scale, unit = time_unit(known["time"])
    best = known.iloc[0]
    described = (
        f"{counted(len(known), 'candidate')}, best first; the fastest takes "
        f"{seconds(best['time'])}, the slowest {seconds(known['time'].max())}."
    )
    several = {
        "candidate-times": charts.candidates(known, scale, unit, found.coverage),
        "hop-bytes": charts.scatter(known, "hop_bytes", "hop-bytes", scale, unit),
        "busiest-link": charts.scatter(
            known, "max_bytes", "bytes on the busiest link", scale, unit
        ),
    }
    content = chart("candidate-times", "Times of the candidates", described)
    if found.verdict.rivals:
        named = ", ".join(found.verdict.rivals[:10])
        content += paragraph(f"Cannot be told apart from the best: {named}.")
    content += '<div class="pair">'
    content += chart(
        "hop-bytes",
        "Time over hop-bytes",
        f"Rank correlation {_correlation(found, 'hop_bytes')}: hop-bytes alone do not order "
        "mappings where points lie off a line.",
    )
    content += chart(
        "busiest-link",
        "Time over the busiest link",
        f"Rank correlation {_correlation(found, 'max_bytes')}.",
    )
    content += "</div>\n"
    head = ["rank", "mapping", f"time, {unit}", "found out by", "interval", "chance to be fastest"]
    head += [f"lower bound, {unit}", "busiest link", "hops a byte", "fullest FIFO"]
    rows = [
        (
            str(row["rank"]),
            row["mapping"],
            number(row["time"] / scale),
            row["how"],
            "exact"
            if row["low"] == row["high"]
            else f"{number(row['low'] / scale)} to {number(row['high'] / scale)}",
            percent(row["p_best"]),
            number(row["lower_bound"] / scale),
            nbytes(row["max_bytes"]),
            number(row["avg_hops_per_byte"]),
            f"{row['max_FIFO']:.0f}",
        )
        for row in known.to_dict("records")
    ]
    content += details("All candidates as a table", table(head, rows, "Candidates, best first", 2))
    return Section("Candidates", content, charts=several)


def _correlation(found: Forecast, column: str) -> str:
    """Return how far a metric orders the candidates as their times do."""
    from scipy.stats import spearmanr

    values = found.table[[column, "time"]]
    if (values.nunique() < 2).any():
        return "not defined"
    return f"{spearmanr(values[column], values['time']).statistic:.2f}"


def _torus(found: Forecast) -> Section:
    known = found.table
    several = [
        Candidate(str(row["mapping"]), found.named(str(row["mapping"])), float(row["time"]))
        for row in known.to_dict("records")
    ]
    data = network_data(found.workload, found.torus, several, found.routing)
    called = data["dimensions"]
    planes = (
        f"Across the plane runs dimension {called[data['across']]}"
        + ("" if data["down"] is None else f", down it {called[data['down']]}")
        + "; other links leave their node at an angle. "
        "A stub stands for the link from its node towards the next one; what wraps around leaves "
        "at the edge. Colour and width are the share of the time for which the link is busy."
    )
    left_out = (
        f"{data['left_out']} candidates are left out, to keep the file small."
        if data["left_out"]
        else ""
    )
    content = paragraph(planes, left_out) + _CONTROLS
    return Section(f"The torus, {found.torus}", content, data={"network": data})


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


def _traffic(found: Forecast) -> Section:
    workload, torus, best = found.workload, found.torus, found.best
    comm = workload.total
    by_task, of_task = binned(workload, np.arange(comm.n_tasks), comm.n_tasks)
    by_node, of_node = binned(workload, best.node, torus.n_nodes)
    ends = found.table["mapping"].iloc[[0, -1]].unique()
    shares = hop_shares(workload, torus, [(name, found.named(name)) for name in ends])
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
        f"The same by node, under {best.name}",
        "Near the diagonal: nodes with numbers close to each other.",
    )
    content += "</div>\n"
    content += chart(
        "hops", "How far the bytes travel", f"Shares of the bytes by hops, {' and '.join(ends)}."
    )
    content += _phases(found) + _fullest_nodes(found)
    return Section("The traffic", content, charts=several)


def _phases(found: Forecast) -> str:
    """Return what bounds each phase under the best mapping."""
    rows = []
    for i, phase in enumerate(found.workload):
        why = explain(phase, found.torus, found.best, routing=found.routing)
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
    return table(head, rows, f"Phases under {found.best.name}")


def _fullest_nodes(found: Forecast) -> str:
    """Return the nodes whose injection FIFOs take most messages under the best mapping."""
    from toruscast.routing.routing import injection_fifos

    comm, torus, best = found.workload.total, found.torus, found.best
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
    return table(head, rows, f"Nodes with the fullest injection FIFOs under {best.name}")


def _model(found: Forecast) -> Section:
    model = found.model
    names = [str(feature) for feature in model.feature_names_in_]
    content = paragraph(
        f"The model learned from {model.n_samples_} samples; it reads "
        f"{counted(len(names), 'feature')} of each mapping."
    )
    several = {
        "importance": charts.importance(names, model.feature_importances_),
    }
    content += '<div class="pair">'
    content += chart(
        "importance", "What the forecast rests on", "Importance of the features in the trees."
    )
    if found.scores and "observed_time" in found.table:
        rows = found.table[found.table["how"] == "forecast"]
        if len(rows) > 1:
            scale, unit = time_unit(rows["time"])
            several["observed"] = charts.observed(rows, scale, unit)
            content += chart(
                "observed",
                "Forecast against simulated times",
                f"{counted(len(rows), 'candidate')} that only the check simulated; "
                f"RCC over all {found.scores['rcc']:.3f}.",
            )
    content += "</div>\n"
    return Section("The model", content, charts=several)


def _origin(found: Forecast, inputs: Sequence[tuple[str, str]]) -> Section:
    comm = found.workload.total
    facts = [
        ("application", f"{comm.name or 'without a name'}, {counted(comm.n_tasks, 'task')}"),
        ("torus", f"{found.torus}, {counted(found.torus.n_nodes, 'node')}"),
        ("candidates", str(len(found.mappings))),
        ("routing", found.routing),
        *inputs,
        *((key, str(value)) for key, value in describe_machine().items()),
    ]
    return Section("How to make it again", table(["what", "is"], facts, "Inputs and versions", 2))


def title(found: Forecast) -> str:
    """Return the title of the page."""
    return f"{found.workload.total.name or 'Application'} on {found.torus}"
