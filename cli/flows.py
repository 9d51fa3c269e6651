"""``toruscast flows``: candidate mappings ranked by a simulation without packets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from . import options
from .inputs import check_sends, load_mappings, load_phases, load_torus
from .output import Output, records
from .setting import Setting
from .simulate_network import change_network
from .units import large

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.mapping import TaskMapping, Torus, Workload
    from toruscast.training.reasons import Reasons

# Of the network and the torus; without packets they change nothing.
OF_PACKETS = frozenset(
    ("buffer_packets", "fifo_packets", "window", "deadlock", "virtual_channels", "arbitration",
     "deterministic_limit", "reception_ports", "zones")
)  # fmt: skip


@dataclass(frozen=True)
class Flown:
    """What came out for a mapping."""

    time: float
    phase_times: tuple[float, ...]
    why: Reasons


@click.command("flows")
@options.phased_traffic_options
@options.mapping_options
@options.network_option("feeding=messages or eager_limit=65536")
@click.option(
    "--error", type=float, default=0.01, show_default=True, metavar="E",
    help="Accept times that are off by about this part of them; the larger, the faster.",
)  # fmt: skip
@options.top_option(10)
@options.work_options
@options.output_options
def command(
    comm: tuple[str, ...],
    dependent: bool,
    form: options.Format,
    iterations: float | None,
    traffic: Literal["all", "point_to_point", "collective"],
    grid: str | None,
    torus: str,
    mappings: str | None,
    candidates: int | None,
    tasks_per_node: int | None,
    changes: tuple[str, ...],
    error: float,
    top: int,
    seed: int,
    jobs: int,
    json_path: str | None,
    csv_path: str | None,
    quiet: bool,
) -> None:
    """Rank candidate mappings by simulated flows, whatever the messages' length.

    Messages that use a link at the same time share it, as connections do, and no packets are made:
    gigabytes take no longer to simulate than kilobytes. Routes are in dimension order, so there is
    no --routing. No buffer is ever full: where routers push back on each other, packets take
    longer, and 'toruscast simulate' shows by how much.

    \b
    toruscast flows --comm lammps-salt-64 --torus 4x4x4
    toruscast flows --comm app.edges --torus 8x8x8 --mappings maps/ --csv flows.csv
    """  # noqa: D301
    output = Output(json_path, csv_path, quiet)
    if not 0 <= error < 1:
        raise click.UsageError(f"bad --error: found {error:g}, expected from 0 to less than 1")
    output.check()
    application, workload = load_phases(comm, traffic, iterations, grid, dependent, form)
    check_sends(workload, comm[0])
    host = change_network(load_torus(torus), changes, OF_PACKETS)
    chosen = load_mappings(application.comm, host, mappings, candidates, tasks_per_node, seed)
    with output.progress("Simulating", count=_messages) as progress:
        flown = _fly(workload, host, chosen, error, jobs, progress)
    names = [mapping.name or str(i) for i, mapping in enumerate(chosen)]
    found = dict(zip(names, flown, strict=True))
    table = ranked(found)
    setting = Setting(application, comm, dependent, host, changes)
    content = {
        **setting.describe(),
        "network": asdict(host.network),
        "error": error,
        "seed": seed,
        "ranking": [
            {**row, "phase_times": found[row["mapping"]].phase_times} for row in records(table)
        ],
    }
    output.write(content, table)
    if output.for_people:
        from .flows_report import print_flows

        why = found[table["mapping"].iloc[0]].why
        print_flows(setting, chosen, table, why, error, top, output.console())


def _fly(
    workload: Workload,
    torus: Torus,
    mappings: list[TaskMapping],
    error: float,
    jobs: int,
    progress: Callable[[int, int], None],
) -> list[Flown]:
    """Simulate each mapping; progress is told in messages of them all."""
    import numpy as np
    from joblib import Parallel, delayed

    from toruscast.features import simulate_flows
    from toruscast.training.reasons import explain

    arrived = np.zeros(len(mappings), dtype=np.int64)

    def one(i: int, mapping: TaskMapping) -> Flown:
        def move(done: int, total: int) -> None:
            arrived[i] = done
            progress(int(arrived.sum()), total * len(mappings))

        result = simulate_flows(workload, torus, mapping, error=error, progress=move)
        return Flown(result.time, result.phase_times, explain(workload, torus, mapping, n=1))

    flown: list[Flown] = Parallel(n_jobs=jobs, prefer="threads")(
        delayed(one)(i, mapping) for i, mapping in enumerate(mappings)
    )
    return flown


def ranked(found: dict[str, Flown]) -> pd.DataFrame:
    """Return a row for each mapping, the fastest first.

    Columns: ``rank``, ``mapping``, ``time``, ``lower_bound``, ``over_bound`` (the first over the
    second), ``busiest_link`` (its name; None where nothing leaves a node) and ``busy_share``, the
    share of the time that it is busy.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name, flown in found.items():
        links, least = flown.why.links, flown.why.lower_bound
        rows.append(
            {
                "mapping": name,
                "time": flown.time,
                "lower_bound": least,
                "over_bound": flown.time / least if least else float("nan"),
                "busiest_link": links["label"].iloc[0] if len(links) else None,
                "busy_share": links["busy"].iloc[0] / flown.time if len(links) else 0.0,
            }
        )
    table = pd.DataFrame(rows).sort_values("time", kind="stable", ignore_index=True)
    table.insert(0, "rank", table["time"].rank(method="min").astype(int))
    return table


def _messages(done: int, total: int) -> str:
    """Part of them that has arrived, in words."""
    return f"{done / max(total, 1):.0%} of {large(total)} messages"
