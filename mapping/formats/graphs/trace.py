"""Traces that ``toruscast trace`` recorded, as workloads of dependent rounds."""

from __future__ import annotations

import warnings
from pathlib import Path

from toruscast.errors import InputError, InputWarning
from toruscast.wording import counted

from ...trace.reading import Trace, is_trace, read_trace, settings_of
from ...trace.rounds import Rounds, rounds_of
from ...workload import Workload
from ..dialect import Dialect
from ..opening import at_file
from ..source import Source
from .build import GraphOptions

REGIONS = ("iteration", "all", "marked")


def read(source: Source, options: GraphOptions) -> Workload:
    """Return the rounds of the region that the trace was made for."""
    options.only(source.path, "collectives")
    trace, rounds = rounds_of_folder(Path(source.path), options)
    if options.n_tasks not in (None, trace.events.n_tasks):
        expected = f"{trace.events.n_tasks}, as traced"
        raise InputError(
            "wrong number of tasks", file=source.path, found=options.n_tasks, expected=expected
        )
    for fault in _faults(trace, rounds):
        warnings.warn(f"{source.path}: {fault}", InputWarning, stacklevel=2)
    return rounds.workload


def rounds_of_folder(folder: Path, options: GraphOptions) -> tuple[Trace, Rounds]:
    """Return a trace, and the rounds of its region."""
    region = settings_of(folder).get("region", "iteration")
    between = region_of(region)
    with at_file(folder):
        trace = read_trace(folder, between, marked=region == "marked")
        rounds = rounds_of(
            trace.events,
            name=options.name,
            algorithms=options.collectives,
            fold=region == "iteration",
        )
    return trace, rounds


def region_of(region: object) -> tuple[float, float] | None:
    """Return the seconds of a region such as "2.5-4"; None for one with a name.

    Raises
    ------
    InputError
        If it is neither.
    """
    if region in REGIONS:
        return None
    try:
        begin, end = (float(part) for part in str(region).split("-"))
    except ValueError:
        begin, end = 1.0, 0.0
    if not 0 <= begin < end:
        expected = f"{', '.join(REGIONS)}, or seconds such as 2.5-4"
        raise InputError("bad region", found=region, expected=expected)
    return begin, end


def described(folder: Path) -> list[str]:
    """Return what a trace holds, in lines for people."""
    trace, rounds = rounds_of_folder(folder, GraphOptions())
    found = f"{counted(rounds.n_rounds, 'round')} in {trace.seconds:.3g} s"
    if rounds.iterations > 1:
        found += (
            f", of which {len(rounds.workload)} repeat {rounds.iterations} times: "
            "one iteration is read, the mean of all"
        )
    lines = [f"{counted(trace.events.n_tasks, 'rank')} of {trace.library}; {found}"]
    if trace.share_in_mpi == trace.share_in_mpi:
        lines.append(f"{100 * trace.share_in_mpi:.0f} % of the time inside of MPI")
    return lines + _faults(trace, rounds)


def _faults(trace: Trace, rounds: Rounds) -> list[str]:
    faults = []
    if trace.killed:
        faults.append(f"{counted(trace.killed, 'rank')} did not end: the last messages may be lost")
    if rounds.unmatched:
        faults.append(f"{counted(rounds.unmatched, 'message')} without its other side")
    if rounds.unreached:
        waiting = counted(rounds.unreached, "operation")
        faults.append(f"{waiting} of ranks that wait for each other: their messages are left out")
    if trace.left_out:
        calls = ", ".join(f"{name} ({count})" for name, count in sorted(trace.left_out.items()))
        faults.append(f"calls that are left out: {calls}")
    return faults


DIALECT = Dialect(
    name="trace",
    holds="graph",
    title="trace of toruscast trace",
    recognise=lambda source: not source.is_file and is_trace(Path(source.path)),
    read=read,
    describe=lambda source: described(Path(source.path)),
    documentation="""
A folder that `toruscast trace -- mpirun ... app` wrote. It becomes a workload of dependent rounds:
a send falls into the round after the latest message that its rank had received before it, and a
collective begins when its last rank has reached it. Of an iteration that repeats, one is read: the
mean of all. `--collectives allreduce=rabenseifner` names the algorithm of a collective.
""",
)
