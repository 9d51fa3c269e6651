"""What a notebook shows of a torus and of a communication graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toruscast.notebook import html_facts

if TYPE_CHECKING:
    from .comm_graph import CommGraph
    from .torus import Torus


def torus_html(torus: Torus) -> str:
    """Return the facts of a torus as a table."""
    speeds = (f"{rate / 1e9:g}" for rate in dict.fromkeys(torus.bandwidth))
    closed = [axis for axis, wrap in zip(torus.axes, torus.wrap, strict=True) if wrap]
    facts = [
        ("nodes", f"{torus.n_nodes:,}"),
        ("links, one way each", f"{int(torus.link_exists.sum()):,}"),
        ("GB/s of a link", ", ".join(speeds)),
        ("dimensions that close to a ring", ", ".join(closed) or "none"),
        ("diameter, hops", torus.diameter),
    ]
    return html_facts(f"Torus {torus}", facts)


def graph_html(comm: CommGraph) -> str:
    """Return the facts of a communication graph as a table."""
    facts = [
        ("tasks", f"{comm.n_tasks:,}"),
        ("pairs that send", f"{comm.n_edges:,}"),
        ("bytes", f"{comm.nbytes.sum():,.0f}"),
        ("messages", f"{comm.n_messages.sum():,.0f}"),
    ]
    if comm.grid is not None:
        facts.append(("grid of the tasks", "x".join(map(str, comm.grid))))
    return html_facts(f"Communication graph {comm.name}".strip(), facts)
