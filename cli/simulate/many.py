"""``toruscast simulate`` of many mappings, as packets or as flows, ranked by time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import toruscast as tc
from toruscast import answers
from toruscast.text import part_of, percent

from ..output import Output, records
from ..phrases import Setting
from ..slow import pool, reasons, routes

if TYPE_CHECKING:
    from toruscast.workers import Task

# Of the network and the torus; without packets they change nothing.
OF_PACKETS = frozenset(
    (
        "buffer_packets",
        "fifo_packets",
        "deadlock",
        "arbitration",
        "deterministic_limit",
        "reception_ports",
        "zones",
        "escape",
        "rules",
    )
)
_NO_BUFFERS = (
    "No buffer is ever full: where routers push back on each other, packets take longer "
    "(simulate without --flows)."
)

Tell = Callable[[int], None]


def rank_packets(
    setting: Setting,
    mappings: Sequence[tc.TaskMapping],
    how: Mapping[str, Any],
    jobs: int,
    top: int,
    output: Output,
) -> None:
    """Simulate every mapping packet by packet, ``jobs`` at once, and write what came out.

    ``how`` goes to `simulate`.
    """
    torus, workload = setting.torus, setting.application.workload
    # Packet-hops as if no packets were merged.
    hops = [
        how["iterations"] * tc.features.RoutedTraffic(workload, torus, mapping).packet_hops
        for mapping in mappings
    ]
    with output.progress("Simulating", count=part_of("packet-hops")) as progress:
        one = pool.Task(_send_packets, workload, torus, how)
        found = _time_all(mappings, hops, one, jobs, progress)
    about = {name: value for name, value in how.items() if name != "coarsening"}
    merged = _merged([sent.coarsening for sent in found.values()], how["error"])
    _deliver(
        setting,
        mappings,
        found,
        f"{how['routing']} routing",
        about,
        ("phase_times", "coarsening", "change"),
        output,
        error=how["error"] or 0.0,
        top=top,
        estimated=routes.ways_are_open(workload, torus, how["routing"]),
        notes=[merged] if merged else [],
    )


def rank_flows(
    setting: Setting,
    mappings: Sequence[tc.TaskMapping],
    error: float,
    seed: int,
    jobs: int,
    top: int,
    output: Output,
) -> None:
    """Simulate the messages of every mapping as flows, and write what came out."""
    torus, workload = setting.torus, setting.application.workload
    sent = sum(int((phase.whole_messages > 0).sum()) for phase in workload)
    with output.progress("Simulating", count=part_of("messages")) as progress:
        one = pool.Task(_send_flows, workload, torus, error)
        found = _time_all(mappings, [sent] * len(mappings), one, jobs, progress)
    about = {"error": error, "seed": seed}
    how = "messages flow, in dimension order"
    _deliver(
        setting,
        mappings,
        found,
        how,
        about,
        ("phase_times",),
        output,
        error=error,
        top=top,
        notes=[_NO_BUFFERS],
    )


def _deliver(
    setting: Setting,
    mappings: Sequence[tc.TaskMapping],
    found: dict[str, answers.timed.Timed],
    routing: str,
    about: Mapping[str, object],
    more: Sequence[str],
    output: Output,
    **how: Any,
) -> None:
    """Write a ranking; JSON says ``about`` the simulations, and ``more`` of each of them."""
    table = answers.timed.ranked(found)
    ranking = [
        row | {name: getattr(found[row["mapping"]], name) for name in more}
        for row in records(table)
    ]
    network = asdict(setting.torus.network)
    output.deliver(
        answers.timed.answer(
            mappings,
            setting.torus,
            table,
            found[table["mapping"].iloc[0]].why,
            setting=f"{setting.of(mappings)}; {routing}.",
            content={**setting.describe(), "network": network, **about, "ranking": ranking},
            dependent=setting.application.workload.dependent,
            **how,
        )
    )


def _send_packets(
    workload: tc.Workload,
    torus: tc.Torus,
    how: Mapping[str, Any],
    item: tuple[tc.TaskMapping, Tell],
) -> answers.timed.Timed:
    mapping, tell = item
    result = tc.simulate(
        workload, torus, mapping, **how, progress=lambda done, _: tell(done * how["coarsening"])
    )
    why = reasons.explain(workload, torus, mapping, routing=how["routing"], n=1, simulation=result)
    busy = result.wire_bytes / torus.link_bandwidth / how["iterations"]
    link = int(busy.argmax())
    return answers.timed.Timed(
        result.time,
        result.phase_times,
        why,
        torus.link_label(link) if busy[link] else None,
        float(busy[link]),
        result.coarsening,
        result.change,
    )


def _send_flows(
    workload: tc.Workload, torus: tc.Torus, error: float, item: tuple[tc.TaskMapping, Tell]
) -> answers.timed.Timed:
    mapping, tell = item
    result = tc.simulate_flows(
        workload, torus, mapping, error=error, progress=lambda done, _: tell(done)
    )
    # Flows have no clock: their bound is exact.
    least = tc.routing.time_bounds(workload, torus, mapping).total
    why = replace(reasons.explain(workload, torus, mapping, n=1), lower_bound=least)
    links = why.links
    link, busy = (links["label"].iloc[0], links["busy"].iloc[0]) if len(links) else (None, 0.0)
    # The error accepted may shorten a time, but not below what it takes at least.
    time = max(result.time, why.lower_bound)
    return answers.timed.Timed(time, result.phase_times, why, link, busy)


def _merged(coarsening: Sequence[int], error: float | None) -> str:
    """How many real packets one represents in the simulations, in a sentence."""
    most = max(coarsening)
    merged = sum(each > 1 for each in coarsening)
    each_one = f"each simulated packet represents up to {most} real ones"
    if merged == len(coarsening):
        return f"{each_one.capitalize()}."
    if error is None:
        return ""
    asked = percent(error, digits=3)
    others = f"coarser ones would miss the error of {asked} asked for, or save little."
    if not merged:
        return f"No packets are merged: {others}"
    return f"In {merged} of {len(coarsening)} simulations {each_one}; in the others {others}"


def _time_all(
    mappings: Sequence[tc.TaskMapping],
    sizes: Sequence[int],
    time_one: Task[answers.timed.Timed],
    jobs: int,
    progress: Callable[[int, int], None],
) -> dict[str, answers.timed.Timed]:
    """Time each mapping, ``jobs`` at once; return them by name.

    ``sizes`` is the work that each of them is. ``time_one`` takes a mapping and a function that is
    called with how much of it is done.
    """
    total = _Total(sizes, progress)
    found: dict[int, answers.timed.Timed] = {}
    items = ((mapping, _Part(total, i)) for i, mapping in enumerate(mappings))
    for i, timed in time_one.each(items, jobs):
        found[i] = timed
        total.update(i, sizes[i])
    return {mapping.name or str(i): found[i] for i, mapping in enumerate(mappings)}


class _Total:
    """How much of all is done."""

    def __init__(self, sizes: Sequence[int], progress: Callable[[int, int], None]) -> None:
        self.sizes, self.progress = sizes, progress
        self.done = [0] * len(sizes)

    def update(self, i: int, now: int) -> None:
        # What begins again does not go back.
        self.done[i] = max(self.done[i], min(now, self.sizes[i]))
        self.progress(sum(self.done), sum(self.sizes))


class _Part:
    """Reports how much of one mapping is done, in the process of the bar; in others nothing."""

    def __init__(self, total: _Total, i: int) -> None:
        self.total, self.i = total, i

    def __call__(self, now: int) -> None:
        self.total.update(self.i, now)

    def __reduce__(self) -> tuple[object, ...]:
        return _silent, ()


def _silent() -> Tell:
    return _say_nothing


def _say_nothing(now: int) -> None:
    pass
