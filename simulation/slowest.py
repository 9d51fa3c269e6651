"""The messages that took longest, and the places where their packets wait."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from toruscast._slow import pandas as pd
from toruscast.mapping.ties import TIE_RULES
from toruscast.routing.packets import packet_counts
from toruscast.routing.routing import routes, ways_are_open

from .simulation import Simulation


def slowest_messages(simulation: Simulation, n: int = 5) -> pd.DataFrame:
    """Return the ``n`` messages that took longest from hand-over to arrival.

    Parameters
    ----------
    simulation : Simulation
    n : int

    Returns
    -------
    DataFrame
        The columns of `Simulation.messages`, then ``took`` (seconds). ``alone`` is the time in an
        idle network with room in every buffer, with question and answer. It is NaN if the message
        may go several ways at once and these decide how many slow reception ports take it.
        ``queued`` is the time until the messages before it in its FIFO have arrived; it waits
        behind them at most so long. With fixed routes there are also ``place``, the FIFO or buffer
        on its way where packets wait longest, and ``wait``, the mean wait there over all packets
        that pass.

    Examples
    --------
    >>> from toruscast.features import simulate
    >>> from toruscast.mapping import CommGraph, TaskMapping, Torus
    >>> comm, torus = CommGraph(3, [0, 1], [2, 2], [8192, 8192]), Torus((8,))
    >>> table = slowest_messages(simulate(comm, torus, TaskMapping([0, 1, 2], 8)), 1)
    >>> table[["src", "dst", "place"]].values.tolist()
    [[1, 2, 'in FIFO 1']]
    """
    messages = simulation.messages()
    messages["took"] = messages["arrived"] - messages["handed_over"]
    table = messages.nlargest(n, "took")
    table["queued"] = _queued(simulation, messages, table.index.to_numpy())
    table = table.reset_index(drop=True)
    table["alone"] = [
        _alone(simulation, phase, edge, hops)
        for phase, edge, hops in zip(table["phase"], table["edge"], table["hops"], strict=True)
    ]
    torus = simulation.torus
    if not ways_are_open(simulation.workload, torus, simulation.routing):
        links = simulation.buffered_seconds / np.maximum(simulation.packets, 1)
        fifos = simulation.fifos()["mean_wait"].to_numpy()
        node = simulation.mapping.node
        found = [
            _longest_wait(simulation, int(node[src]), int(node[dst]), fifo, links, fifos)
            for src, dst, fifo in zip(table["src"], table["dst"], table["fifo"], strict=True)
        ]
        table["place"] = [place for place, _ in found]
        table["wait"] = [wait for _, wait in found]
    return table


def _alone(simulation: Simulation, phase: int, edge: int, hops: int) -> float:
    """Return the seconds of an edge in an idle network: hops, then bytes at the slowest rate."""
    torus, workload = simulation.torus, simulation.workload
    network, comm = torus.network, workload.phases[phase]
    nbytes = float(comm.nbytes[edge])
    if hops == 0:
        return nbytes / network.memory_bandwidth
    src, dst = simulation.mapping.node[comm.src[edge]], simulation.mapping.node[comm.dst[edge]]
    if torus.twist:
        gap = np.abs(torus.twisted_hops(np.array([src]), np.array([dst]))[0])
    else:
        gap = np.abs(torus.coords[src] - torus.coords[dst])
    link = float(np.array(torus.bandwidth)[gap > 0].min())
    if torus.holes.slow:
        link = float(torus.link_bandwidth[routes(torus, [src], [dst])[1]].min(initial=link))
    port = network.memory_bandwidth / network.reception_ports
    rate = min(link, network.memory_bandwidth)
    # Rounds without a barrier have the same routing.
    together = workload if workload.dependent else comm
    fed = min(max(torus.bandwidth), network.memory_bandwidth)
    fixed = torus.twist or TIE_RULES[torus.tie].adaptive_fixed
    tied = np.array(torus.wrap) & (2 * gap == np.array(torus.shape))
    several = (gap > 0).sum() > 1 or (tied.any() and not fixed)
    # With several slow ports, the arrival of packets decides how many work at one time.
    if (
        several
        and (fed > rate or port < rate)
        and ways_are_open(together, torus, simulation.routing)
    ):
        return math.nan
    packets, wire = packet_counts(comm, torus)
    head = hops * network.hop_latency
    nth = int(packets[edge]) - 1
    each, last = (float(wire[edge]) / speed for speed in (link, min(link, port)))
    # The last packet arrives behind the others, or its port takes them first.
    before, turn = divmod(nth, network.reception_ports)
    alone = head + max(nth * each, turn * each + before * last) + last
    if nbytes / comm.whole_messages[edge] > network.eager_limit:
        # A question and its answer, a header each.
        alone += 2 * (head + network.header / min(link, port))
    return alone


def _queued(
    simulation: Simulation, messages: pd.DataFrame, chosen: NDArray[np.int64]
) -> list[float]:
    """Return the seconds until the messages before each chosen one in its FIFO have arrived."""
    node = simulation.mapping.node[messages["src"]]
    fifo, ready, arrived, took = (
        messages[name].to_numpy() for name in ("fifo", "handed_over", "arrived", "took")
    )
    queued = []
    for m in chosen.tolist():
        before = (node == node[m]) & (fifo == fifo[m]) & (ready < ready[m]) & (fifo[m] >= 0)
        last = float(arrived[before].max(initial=0.0))
        queued.append(min(max(last - float(ready[m]), 0.0), float(took[m])))
    return queued


def _longest_wait(
    simulation: Simulation,
    src: int,
    dst: int,
    fifo: int,
    links: NDArray[np.float64],
    fifos: NDArray[np.float64],
) -> tuple[str, float]:
    """Return the place between two nodes where packets wait longest."""
    if fifo < 0:
        return "", 0.0
    torus = simulation.torus
    _, way = routes(torus, [src], [dst])
    waits = {f"in FIFO {fifo}": float(fifos[src * torus.network.fifos + fifo])}
    waits |= {f"behind {torus.link_label(link)}": float(links[link]) for link in way.tolist()}
    place = max(waits, key=lambda name: waits[name])
    return place, waits[place]
