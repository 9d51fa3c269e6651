"""Whole systems: the largest problem that each holds, and the least time for a common one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from toruscast.errors import InputError

from .problem_size import DoesNotFitError
from .requirements import Application, check_positive


@dataclass(frozen=True)
class System:
    """A machine as a number of equal processes.

    Parameters
    ----------
    name : str
    processes : float
    memory : float
        Bytes a process.
    flops : float, optional
        Floating-point operations a second and process; without it there are no wall times.

    Raises
    ------
    InputError
        If a number is not finite and positive, or there is less than one process.

    Examples
    --------
    >>> System("small", 64, 2e9, 1e10).total_memory
    128000000000.0
    """

    name: str
    processes: float
    memory: float
    flops: float | None = None

    def __post_init__(self) -> None:
        try:
            check_positive(processes=self.processes, memory=self.memory)
            if self.flops is not None:
                check_positive(flops=self.flops)
            if self.processes < 1:
                raise InputError("bad processes", found=self.processes, expected="1 or more")
        except InputError as error:
            raise error.replace(f"system {self.name}: {error.message}") from None

    @property
    def total_memory(self) -> float:
        """Bytes of all processes together."""
        return self.processes * self.memory


# 10 PB of memory each [Calotoiu18].
STRAW_MEN = (
    System("massively-parallel", 2e9, 5e6, 5e8),
    System("vector", 5e7, 2e8, 2e10),
    System("hybrid", 1e8, 1e8, 1e10),
)


def compare_systems(
    application: Application, systems: Sequence[System] = STRAW_MEN
) -> pd.DataFrame:
    """Compare the largest problem of systems, and the wall time of the largest that all hold.

    Wall time counts floating-point operations at the full rate only, so that it is a lower bound.

    Parameters
    ----------
    application : Application
    systems : sequence of System

    Returns
    -------
    DataFrame
        A row for each system: ``application``, ``system``, ``n`` (problem size of a process that
        fills the memory), ``largest_problem`` (n times processes), ``common_problem`` (the least of
        these), ``wall_time`` (s) for it, and ``reason`` if there is none. A system that cannot hold
        the common problem's share of at least the smallest n has no wall time.

    Raises
    ------
    InputError
        If memory does not grow with n, or names of systems repeat.

    Examples
    --------
    >>> table = compare_systems(Application("a", {"bytes_used": "1e6 * n", "flop": "1e10 * n"}))
    >>> table[["system", "n", "largest_problem", "wall_time"]].round(6)
                   system      n  largest_problem  wall_time
    0  massively-parallel    5.0     1.000000e+10      100.0
    1              vector  200.0     1.000000e+10      100.0
    2              hybrid  100.0     1.000000e+10      100.0
    """
    names = [system.name for system in systems]
    if not systems or len(set(names)) < len(names):
        raise InputError("systems need different names", found=", ".join(names) or "no system")
    sizes: list[float | None] = []
    reasons: list[str] = []
    for system in systems:
        try:
            sizes.append(application.largest(system.processes, system.memory))
            reasons.append("")
        except DoesNotFitError as error:
            sizes.append(None)
            reasons.append(str(error))
    totals = [None if n is None else n * s.processes for n, s in zip(sizes, systems, strict=True)]
    held = [total for total in totals if total is not None]
    common = min(held) if len(held) == len(systems) else None
    rows = []
    for system, n, total, reason in zip(systems, sizes, totals, reasons, strict=True):
        time = None
        if common is None:
            reason = reason or "not every system holds a problem"
        elif "flop" not in application.requirements:
            reason = f"{application.name} has no model of flop"
        elif system.flops is None:
            reason = f"the system {system.name} has no flops"
        else:
            share = common / system.processes
            if share >= application.smallest * (1 - 1e-12):
                time = application.need("flop", system.processes, share) / system.flops
            else:
                reason = f"the common problem leaves n = {share:.3g} a process"
        rows.append((application.name, system.name, n, total, common, time, reason))
    columns = [
        "application",
        "system",
        "n",
        "largest_problem",
        "common_problem",
        "wall_time",
        "reason",
    ]
    table = pd.DataFrame(rows, columns=columns)
    numbers = columns[2:6]
    return table.astype(dict.fromkeys(numbers, float))
