"""Level 2: the packet-level simulator."""

from __future__ import annotations

import time
from dataclasses import replace

from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload, as_workload
from toruscast.mapping.task_mapping import as_mapping
from toruscast.routing.loads import check_ways
from toruscast.routing.messages import list_messages
from toruscast.routing.packets import longest_message
from toruscast.routing.routing import check_routing
from toruscast.typing import Routing
from toruscast.validation import real_number, whole_number

from .coarsening import LARGEST_PACKET, PLACES, refine
from .iterations import between_barriers, first_alone, part_of, repeated
from .message_times import noted
from .run import Options, Progress, Steps, packet_hops, run_stretch
from .simulation import Simulation


def simulate(
    traffic: Workload | CommGraph,
    torus: Torus,
    mapping: TaskMapping,
    *,
    routing: Routing = "deterministic",
    coarsening: int = 1,
    error: float | None = None,
    iterations: int = 1,
    seed: int = 0,
    interval: float | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Send the messages of each phase packet by packet and count what links and FIFOs see.

    Parameters
    ----------
    traffic : Workload or CommGraph
        Phases run one after the other, with a barrier between them. Those of a workload with
        ``dependent=True`` are rounds: each task enters a round when it has finished the one before.
        An edge sends its bytes in `CommGraph.whole_messages`, spread evenly over their packets; an
        edge of half a message or less sends nothing.
    torus, mapping
        Where the tasks run. The constants are those of ``torus.network``.
    routing : {"deterministic", "adaptive", "by_size"}
        Dimension order. Or minimal adaptive: a packet takes the emptiest productive output of its
        zone, and falls back to dimension order. Or the second for phases whose longest message has
        more than ``torus.network.deterministic_limit`` bytes, and the first for the others
        (dependent rounds are one phase here).
    coarsening : int
        Real packets that one simulated packet carries, with header and payload of each; a shorter
        message is one packet. Buffers hold fewer of the longer packets, but at least three if they
        held as many real ones. With ``first_come``, a longer packet of a FIFO lets others go first
        as often as the real packets would. Loads do not change; pipelining becomes coarser.
    error : float, optional
        Accepted relative error of the time, such as 0.03. Packets are halved until the time changes
        by much less, three times in a row (six after a jump) and with more room behind the links,
        or until they are real ones. Not together with `coarsening`.
    iterations : int
        How many times all phases are run. No barrier stands between two iterations: a task begins
        the next when it has handed over its messages, and all that are sent to it have arrived. The
        time is then the mean of all but the first, which begins on an idle network and is simulated
        once more alone; see `Simulation.time`. The result counts the phases of all iterations.
    seed : int
        Seed of random choices: the way round at ties if the torus has that rule, and with datelines
        the channel of packets that cross none.
    interval : float, optional
        Seconds between the snapshots that `Simulation.series` shows: at most 100,000 of them and
        2 GB.
    progress : callable, optional
        Called from time to time with the packet-hops done and those of the whole run.

    Returns
    -------
    Simulation

    Raises
    ------
    InputError
        If the mapping does not fit, an option is not valid, or times, packets or snapshots are more
        than can be counted or kept.

    Notes
    -----
    A task prepares its messages one after the other, starting with its next higher partner and
    going round, and hands each to an injection FIFO. A FIFO sends one packet after the other. A
    router forwards a packet when its head has arrived (virtual cut-through) and the buffer behind
    the next link has room; a packet from a slower link goes on no faster than it comes. A place is
    free again when its packet begins to leave. With the bubble rule, entering a ring takes two free
    places and staying on it one, so that a ring never fills up. With datelines there are two
    channels: one for packets that cross the ring's edge, one for packets that cross its middle;
    other packets take either. `docs/reference/simulator.md` has the model in full, with its
    sources.

    The first call on a machine compiles the simulator, which takes 10 to 15 seconds.

    Time runs in ticks of at most 1/1024 of a full packet's time on the fastest link. Ticks are
    longer if the run would take more than 2**31 of them.

    Examples
    --------
    One packet: overhead + hops x latency + serialisation.

    >>> torus = Torus((8,))
    >>> result = simulate(CommGraph(2, [0], [1], [512]), torus, TaskMapping([0, 3], 8))
    >>> round(result.time * 1e9), 500 + 3 * 40 + 544 // 2
    (892, 892)
    """
    began = time.perf_counter()
    workload = repeated(as_workload(traffic), iterations)
    as_mapping(mapping).check(workload.n_tasks, torus)
    check_ways(workload, torus, mapping, routing)
    check_routing(routing)
    coarsening = whole_number(coarsening, "coarsening", 1, 2**53)
    seed = whole_number(seed, "seed", 0, 2**63 - 1)
    if error is not None and coarsening != 1:
        raise InputError("both error and coarsening given", expected="one of them")
    if error is not None and not 0 < real_number(error, "error", 0) < 1:
        raise InputError("bad error", found=error, expected="more than 0, less than 1")
    if interval is not None and not real_number(interval, "interval", 0) > 0:
        raise InputError("bad interval", found=interval, expected="seconds, more than 0")
    if progress is not None and not callable(progress):
        raise InputError("bad progress", found=progress, expected="a function of two numbers")

    options = Options(workload.phases, torus, mapping, routing, seed, interval, progress, PLACES)
    if error is None:
        return noted(_simulate(workload, options, coarsening, iterations), "packets", began)
    hops = packet_hops(list_messages(workload, torus, mapping, 1), torus)
    network = torus.network
    result, change = refine(
        error,
        longest_message(workload, torus),
        hops,
        network.buffer_packets,
        lambda merged, places: _simulate(
            workload, options._replace(places=places), merged, iterations
        ),
        LARGEST_PACKET // (network.payload + network.header),
    )
    return noted(replace(result, error=error, change=change), "packets", began)


def _simulate(workload: Workload, options: Options, coarsening: int, iterations: int) -> Simulation:
    """Simulate the phases; those between two barriers run together."""
    torus, mapping = options.torus, options.mapping
    together = between_barriers(workload, iterations)
    first = first_alone(workload, iterations)
    listed = [
        list_messages(part_of(workload, several), torus, mapping, coarsening)
        for several in (*first, *together)
    ]
    total = 0
    if options.progress is not None:
        total = sum(packet_hops(messages, torus) for messages in listed)
    steps = Steps(options.progress, total)
    begin = alone = 0.0
    before = options._replace(interval=None)
    for several, messages in zip(first, listed, strict=False):
        alone = run_stretch(messages, several, alone, before, steps).end
    stretches = []
    for several, messages in zip(together, listed[len(first) :], strict=True):
        stretches.append(run_stretch(messages, several, begin, options, steps))
        begin = stretches[-1].end
    return Simulation(
        workload,
        torus,
        mapping,
        tuple(stretches),
        options.routing,
        coarsening,
        iterations=iterations,
        alone=alone,
    )
