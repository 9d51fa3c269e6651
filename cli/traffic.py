"""From the words of the command line to what is sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import toruscast as tc
from toruscast import datasets
from toruscast.errors import InputError, MissingFileError
from toruscast.text import closest, part_of, printable, shortened
from toruscast.validation import read_bytes, read_sizes

from .options import Include, Traffic
from .progress import working

if TYPE_CHECKING:
    from toruscast.mapping import CommGraph, Workload


def read_traffic(comm: str, include: Include, **how: Any) -> tuple[Workload, float | None]:
    """Return the traffic of a file or dataset, and the dataset's iterations.

    ``how`` goes to `read_workload`.
    """
    known = datasets.names()
    # A folder of results may be called as what was simulated.
    if is_file(comm) and not (comm in known and Path(comm).is_dir()):
        return _read(comm, include, how), None
    if comm in known:
        for option, value in how.items():
            if value not in (None, "auto", "refuse", "each", {}):
                name = "--tasks" if option == "n_tasks" else f"--{option}"
                raise InputError(f"a shipped dataset takes no {name}", file=comm, found=value)
        iterations = datasets.provenance(comm).get("iterations")
        graph = datasets.load(comm, include=include)
        return tc.mapping.as_workload(graph), None if iterations is None else float(iterations)
    # A path that does not exist may be the common prefix of per-rank files.
    try:
        return _read(comm, include, how), None
    except MissingFileError:
        if "/" in comm or "." in comm:
            raise
        raise InputError(
            "neither a file nor a shipped dataset",
            found=comm,
            expected=f"a file or {closest(comm, known)}",
        ) from None


def _read(comm: str, include: Include, how: dict[str, Any]) -> Workload:
    with working(f"Reading {shortened(printable(comm), 40)}", part_of("bytes")) as progress:
        return tc.read_workload(comm, include=include, progress=progress, **how)


def is_file(text: str) -> bool:
    """Whether a word of the command line names something that exists."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


FORM = "ALGORITHM:SIZE[:PORTS] such as allreduce/ring:64MB or allreduce/ring:64MB:2"


def _load_collective(traffic: Traffic, text: str) -> LoadedTraffic:
    """Return the rounds of a collective; on all nodes if the number of tasks is not given.

    The algorithm sees the dimensions of the torus where there is a task a node.
    """
    if traffic.comms:
        raise click.UsageError("give --comm or --collective, not both")
    torus = tc.parse_torus(traffic.torus or "")
    name, *rest = text.split(":")
    if len(rest) not in (1, 2) or not (len(rest) == 1 or rest[1].isdecimal()):
        raise InputError("bad --collective", found=text, expected=FORM)
    collectives = tc.mapping.collectives
    known = collectives.names()
    if name not in known:
        of_kind = collectives.names(name.split("/")[0])
        expected = closest(name, known, " or ".join(of_kind or known))
        raise InputError("unknown collective algorithm", found=name, expected=expected)
    tasks = torus.n_nodes if traffic.tasks is None else traffic.tasks
    shape = torus.shape if tasks == torus.n_nodes else None
    ports = int(rest[1]) if len(rest) == 2 else 1
    rounds = collectives.schedule(name, tasks, read_bytes(rest[0]), shape, ports=ports)
    return LoadedTraffic(rounds.workload(), (text,), traffic.include, None)


@dataclass(frozen=True)
class LoadedTraffic:
    """What an application sends in one iteration, and how it came about."""

    workload: Workload
    sources: tuple[str, ...]
    """Files or datasets that it was read from, or the collective."""
    traffic: str
    iterations: float | None
    """Application steps by which the graphs were divided; None if not given."""

    @property
    def source(self) -> str:
        """Its files in one text."""
        return ", ".join(self.sources)

    def describe(self) -> dict[str, object]:
        """Return what JSON output says about it."""
        total = self.workload.total
        return {
            "name": self.workload.name,
            "source": self.source,
            "tasks": total.n_tasks,
            "edges": total.n_edges,
            "bytes": float(total.nbytes.sum()),
            "messages": float(total.n_messages.sum()),
            "traffic": self.traffic,
            "iterations": self.iterations,
            "phases": list(self.sources),
            "n_phases": len(self.workload),
            "dependent": self.workload.dependent,
            "summed": self.workload.summed,
        }


def load_application(traffic: Traffic, *, simulated: bool = True) -> LoadedTraffic:
    """Read what is sent: of one file, of several as phases after each other, or of a collective.

    Of several files, some may have nothing to send.
    """
    if traffic.collective is not None:
        return _load_collective(traffic, traffic.collective)
    if traffic.tasks is not None:
        raise click.UsageError("--tasks goes with --collective")
    if not traffic.comms:
        raise click.UsageError("missing --comm, or --collective")
    parts = [_read_application(comm, traffic) for comm in traffic.comms]
    if len(parts) == 1:
        check_any(float(parts[0].workload.total.n_messages.sum()), parts[0].source)
    found = parts[0] if len(parts) == 1 and not traffic.dependent else _joined(parts, traffic)
    if simulated:
        check_sends(found.workload, found.source)
    return found


def _joined(parts: Sequence[LoadedTraffic], traffic: Traffic) -> LoadedTraffic:
    """Return the phases of all parts, one after the other."""
    for part in parts[1:]:
        if part.workload.n_tasks != parts[0].workload.n_tasks:
            found = " and ".join(f"{p.workload.n_tasks} in {p.source}" for p in (parts[0], part))
            raise InputError(
                "phases differ in their number of tasks",
                found=found,
                expected="the same, which the first line of a file may tell (in CSV: # n_tasks N)",
            )
    phases = [phase for part in parts for phase in part.workload]
    if traffic.dependent and len(phases) < 2:
        raise click.UsageError("--dependent needs several --comm, a round each")
    rounds = [part.source for part in parts if part.workload.dependent and len(part.workload) > 1]
    if rounds and not traffic.dependent:
        raise InputError(
            "rounds of one file and a barrier before another cannot be one workload",
            file=rounds[0],
            found=f"{len(parts)} files",
            expected="that file alone, or --dependent: then all files are rounds without a barrier",
        )
    names = dict.fromkeys(part.workload.name for part in parts)
    divisors = {part.iterations for part in parts}
    return LoadedTraffic(
        tc.Workload(
            phases,
            ", ".join(names),
            traffic.dependent,
            any(part.workload.summed for part in parts),
        ),
        tuple(traffic.comms),
        traffic.include,
        divisors.pop() if len(divisors) == 1 else None,
    )


def check_any(n_messages: float, file: str) -> None:
    """Raise, naming the file, unless there is a message in it."""
    if not n_messages:
        raise InputError("communication graph without a message", file=file)


def _read_application(comm: str, traffic: Traffic) -> LoadedTraffic:
    """The traffic of a file, whether or not there is something in it to send."""
    read, known = read_traffic(comm, traffic.include, **traffic.how)
    iterations = known if traffic.iterations is None else traffic.iterations
    phases = [per_iteration(phase, iterations) for phase in read]
    if traffic.grid is not None:
        phases = [phase.renamed(phase.name, task_grid(traffic.grid)) for phase in phases]
    workload = tc.Workload(phases, read.name, read.dependent, read.summed)
    return LoadedTraffic(workload, (comm,), traffic.include, iterations)


def per_iteration(graph: CommGraph, iterations: float | None) -> CommGraph:
    """Divide a graph by the iterations that it was captured over."""
    factor = of_an_iteration(iterations)
    return graph if factor == 1 else graph.scaled(factor)


def of_an_iteration(iterations: float | None) -> float:
    """Return the part of a capture that is one iteration."""
    if iterations is None:
        return 1.0
    if not math.isfinite(iterations):
        raise InputError("bad --iterations", found=iterations, expected="a finite number")
    return 1 / iterations


def check_sends(workload: Workload, file: str) -> None:
    """Raise, naming the file, unless a simulation has something to send."""
    if not any(phase.whole_messages.any() for phase in workload):
        most = max(float(phase.n_messages.max(initial=0.0)) for phase in workload)
        raise InputError(
            "at most half a message on every edge: nothing to send",
            file=file,
            found=f"{most:.2g} at most",
            expected="one in each of the --iterations; a list of edges without a fourth column has "
            "one in all",
        )


def task_grid(text: str) -> tuple[int, ...]:
    """Return the sizes that a text tells."""
    sizes = read_sizes(text.strip())
    if sizes is None:
        raise InputError("bad task grid", found=text, expected="sizes such as 8x8x8")
    return sizes
