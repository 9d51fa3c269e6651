"""``toruscast simulate --mappings``: many mappings packet by packet, ranked by time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from toruscast.typing import Routing
from toruscast.units import part_of

from ..output import Output, records
from ..phrases import Setting
from ..timed import Tell, Timed, time_all

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping, Torus, Workload


@dataclass(frozen=True)
class SimulationOptions:
    """How each of the mappings is simulated."""

    routing: Routing
    coarsening: int
    error: float | None
    iterations: int
    seed: int


@dataclass(frozen=True)
class SimulatedMapping(Timed):
    """What came out for a mapping whose messages were sent as packets."""

    coarsening: int
    change: float
    """As in `Simulation`, both."""


def rank_simulated(
    setting: Setting,
    workload: Workload,
    mappings: Sequence[TaskMapping],
    how: SimulationOptions,
    jobs: int,
    top: int,
    output: Output,
) -> None:
    """Simulate every mapping, ``jobs`` at once, and write what came out."""
    from toruscast.answers.timed import answer, ranked
    from toruscast.routing.routing import ways_are_open

    torus = setting.torus
    with output.progress("Simulating", count=part_of("packet-hops")) as progress:
        found = _simulated(workload, torus, mappings, how, jobs, progress)
    table = ranked(found)
    in_order = [found[name] for name in table["mapping"]]
    content = {
        **setting.describe(),
        "routing": how.routing,
        "network": asdict(torus.network),
        "error": how.error,
        "iterations": how.iterations,
        "seed": how.seed,
        "ranking": [
            {
                **row,
                "phase_times": sent.phase_times,
                "coarsening": sent.coarsening,
                "change": sent.change,
            }
            for row, sent in zip(records(table), in_order, strict=True)
        ],
    }
    merged = _merged([sent.coarsening for sent in in_order], how.error)
    output.deliver(
        answer(
            mappings,
            torus,
            table,
            in_order[0].why,
            setting=f"{setting.of(mappings)}; {how.routing} routing.",
            content=content,
            error=how.error or 0.0,
            top=top,
            estimated=ways_are_open(workload, torus, how.routing),
            dependent=workload.dependent,
            notes=[merged] if merged else [],
        )
    )


def _simulated(
    workload: Workload,
    torus: Torus,
    mappings: Sequence[TaskMapping],
    how: SimulationOptions,
    jobs: int,
    progress: Callable[[int, int], None],
) -> dict[str, SimulatedMapping]:
    """Simulate each mapping; progress is told in packet-hops of all, as if none were merged."""
    from toruscast.features import RoutedTraffic
    from toruscast.workers import Task

    once = [RoutedTraffic(workload, torus, mapping).packet_hops for mapping in mappings]
    hops = [how.iterations * number for number in once]
    return time_all(mappings, hops, Task(_time_one, workload, torus, how), jobs, progress)


def _time_one(
    workload: Workload, torus: Torus, how: SimulationOptions, item: tuple[TaskMapping, Tell]
) -> SimulatedMapping:
    from toruscast.features.reasons import explain
    from toruscast.simulation import StallError, simulate

    mapping, tell = item
    try:
        result = simulate(
            workload,
            torus,
            mapping,
            **asdict(how),
            progress=lambda done, _: tell(done * how.coarsening),
        )
    except StallError as error:
        raise StallError(f"{mapping.name}: {error}") from None
    why = explain(workload, torus, mapping, routing=how.routing, n=1, simulation=result)
    busy = result.wire_bytes / torus.link_bandwidth / how.iterations
    link = int(busy.argmax())
    return SimulatedMapping(
        result.time,
        result.phase_times,
        why,
        torus.link_label(link) if busy[link] else None,
        float(busy[link]),
        result.coarsening,
        result.change,
    )


def _merged(coarsening: Sequence[int], error: float | None) -> str:
    """How many real packets one stands for in the simulations, in a sentence."""
    most = max(coarsening)
    merged = sum(each > 1 for each in coarsening)
    stands = f"each simulated packet stands for up to {most} real ones"
    if merged == len(coarsening):
        return f"{stands.capitalize()}."
    if error is None:
        return ""
    others = f"coarser ones would miss the error of {100 * error:.3g} % asked for, or save little."
    if not merged:
        return f"No packets are merged: {others}"
    return f"In {merged} of {len(coarsening)} simulations {stands}; in the others {others}"
