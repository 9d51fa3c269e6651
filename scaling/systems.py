"""Requirements and problem sizes of applications on upgraded or other systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan, nan

import numpy as np
import pandas as pd

from toruscast.errors import InputError
from toruscast.validation import one_of

from .requirements import Application, DoesNotFitError, check_positive


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
        Floating-point operations a second and process.
    network : float, optional
        Bytes that a process can send and receive a second.
    accesses : float, optional
        Loads and stores of a process that its memory can serve a second.
    cache : float, optional
        Distinct locations that the cache of a process holds. Loads and stores whose stack distance
        is within it do not reach the memory.

    Without any rate there are no wall times.
    """

    name: str
    processes: float
    memory: float
    flops: float | None = None
    network: float | None = None
    accesses: float | None = None
    cache: float | None = None

    def __post_init__(self) -> None:
        for name in ("processes", "memory", "flops", "network", "accesses", "cache"):
            if name in ("processes", "memory") or getattr(self, name) is not None:
                check_positive(**{f"{name} of system {self.name}": getattr(self, name)})
        if self.processes < 1:
            message = f"bad processes of system {self.name}"
            raise InputError(message, found=self.processes, expected="1 or more")

    def times(self, application: Application, n: float) -> dict[str, float]:
        """Return the seconds of each requirement for which the system has a rate."""
        rates = {"flop": self.flops, "bytes_sent": self.network, "loads_stores": self.accesses}
        known = {k: rate for k, rate in rates.items() if rate and k in application.requirements}
        distant = "stack_distance" in application.requirements and self.cache is not None
        if distant and application.need("stack_distance", self.processes, n) <= (self.cache or 0):
            known.pop("loads_stores", None)
        return {k: application.need(k, self.processes, n) / rate for k, rate in known.items()}


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

    The wall time is that of the requirement that takes longest at the full rate of the system, so
    that it is a lower bound. A system that cannot hold the common problem's share of at least the
    smallest n has none.

    A row for each system: ``application``, ``system``, ``n`` (problem size of a process that fills
    the memory), ``largest_problem`` (n times processes), ``common_problem`` (the least of these),
    ``wall_time`` (s) for it, ``bound_by`` (the requirement that takes so long), and ``reason`` if
    there is none.

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
    found = [fitting(application, system.processes, system.memory) for system in systems]
    table = pd.DataFrame({"application": application.name, "system": names})
    table["n"] = [n for n, _ in found]
    table["largest_problem"] = table["n"] * [float(system.processes) for system in systems]
    table["common_problem"] = common = table["largest_problem"].min(skipna=False)
    times = [
        (nan, "", reason) if reason else _time(application, system, common)
        for system, (_, reason) in zip(systems, found, strict=True)
    ]
    columns = ["wall_time", "bound_by", "reason"]
    return table.join(pd.DataFrame(times, columns=columns).astype({"wall_time": float}))


def fitting(
    application: Application, p: float, memory: float, held: tuple[float, float] | None = None
) -> tuple[float, str]:
    """Return the problem size that fills the memory, or NaN and why there is none."""
    try:
        return application.largest(p, memory, held), ""
    except DoesNotFitError as error:
        return nan, str(error)


def _time(application: Application, system: System, common: float) -> tuple[float, str, str]:
    """Return the time for a problem and what it is bound by, or NaN and why there is none."""
    share = common / system.processes
    if isnan(common):
        return nan, "", "not every system holds a problem"
    if share < application.smallest * (1 - 1e-12):
        return nan, "", f"the common problem leaves n = {share:.3g} a process"
    times = system.times(application, share)
    if times:
        bound = max(times, key=lambda name: times[name])
        return times[bound], bound, ""
    if "flop" not in application.requirements:
        return nan, "", f"{application.name} has no model of flop"
    return nan, "", f"the system {system.name} has no flops"


def share_system(
    applications: Sequence[Application],
    system: System,
    shares: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
    of: str = "processes",
) -> pd.DataFrame:
    """Say what two applications can do side by side on one system.

    The first application gets each share, the second the rest: of the processes, or of the memory
    of each process, where both run on all. The result has two rows for each share: ``share`` (of
    the first), ``application``, ``processes``, ``memory`` (bytes a process), ``n``,
    ``largest_problem``, ``of_alone`` (that problem over the one that it could do alone),
    ``wall_time`` (s) of it and ``bound_by``, as in `compare_systems`, and ``reason`` if it does not
    fit.

    Examples
    --------
    >>> a = Application("a", {"bytes_used": "1e6 * n"})
    >>> b = Application("b", {"bytes_used": "1e3 * n * p"})
    >>> table = share_system([a, b], System("base", 1000, 1e9), [0.5])
    >>> table[["application", "processes", "n", "of_alone"]].round(9)
      application  processes       n  of_alone
    0           a      500.0  1000.0       0.5
    1           b      500.0  2000.0       1.0
    """
    one_of(of, "what is shared", ("processes", "memory"))
    if len(applications) != 2 or applications[0].name == applications[1].name:
        names = ", ".join(app.name for app in applications)
        raise InputError("a system is shared by two applications", found=names or "none")
    for share in shares:
        check_positive(share=share)
        if share >= 1:
            raise InputError("bad share", found=share, expected="between 0 and 1")
    rows = []
    for share in shares:
        for app, part in zip(applications, (share, 1 - share), strict=True):
            own = replace(system, **{of: getattr(system, of) * part})
            row = {"share": share, "application": app.name}
            n, reason = fitting(app, own.processes, own.memory)
            alone, other = fitting(app, system.processes, system.memory)
            if reason or other:
                rows.append({**row, of: getattr(own, of), "reason": reason or other})
                continue
            times = own.times(app, n)
            bound = max(times, key=lambda name: times[name], default="")
            size = n * own.processes
            row |= {"processes": own.processes, "memory": own.memory, "n": n}
            row |= {"largest_problem": size, "of_alone": size / (alone * system.processes)}
            rows.append({**row, "wall_time": times.get(bound), "bound_by": bound, "reason": ""})
    columns = ["share", "application", "processes", "memory", "n", "largest_problem", "of_alone"]
    table = pd.DataFrame(rows, columns=[*columns, "wall_time", "bound_by", "reason"])
    return table.astype(dict.fromkeys((*columns[2:], "wall_time"), float))


_HELD = "with logarithms held"


@dataclass(frozen=True)
class Upgrade:
    """Factors of the number of processes, and of the memory a process."""

    name: str
    processes: float
    memory: float

    def __post_init__(self) -> None:
        check_positive(processes=self.processes, memory=self.memory)

    def applied(self, base: System) -> System:
        """Return the system after the upgrade."""
        return System(
            self.name, base.processes * self.processes, base.memory * self.memory, base.flops
        )


def upgrades_by(factor: float) -> tuple[Upgrade, ...]:
    """Return the three upgrades with another factor than 2."""
    check_positive(factor=factor)
    return Upgrade("A", factor, 1.0), Upgrade("B", factor, 1 / factor), Upgrade("C", 1.0, factor)


# Double the racks, the sockets (which share their node's memory), the memory [Calotoiu18].
UPGRADES = upgrades_by(2.0)

# The memory is so large that n dominates p in a sum of both.
LARGE_BASE = System("base", 1e5, 1e12)


def upgrade_ratios(
    application: Application,
    base: System = LARGE_BASE,
    upgrades: Sequence[Upgrade] = UPGRADES,
) -> pd.DataFrame:
    """Divide the requirements of a process after an upgrade by those before.

    A row for each requirement and upgrade: ``application``, ``requirement`` ("problem_size" first),
    ``upgrade``, ``ratio``, ``growth_ratio`` and ``reason`` if there is none. ``growth_ratio`` holds
    every logarithm at its value before the upgrade, so that only powers count.

    Examples
    --------
    >>> solver = Application("a", {"bytes_used": "1e5 * n", "flop": "1e7 * n * log2(p)"})
    >>> table = upgrade_ratios(solver, System("base", 1024, 1e9))
    >>> table.pivot(index="requirement", columns="upgrade", values="ratio")
    upgrade         A     B    C
    requirement
    flop          1.1  0.55  2.0
    problem_size  1.0  0.50  2.0
    """
    names = [upgrade.name for upgrade in upgrades]
    if not upgrades or len(set(names)) < len(names):
        raise InputError("upgrades need different names", found=", ".join(names) or "no upgrade")
    p = base.processes
    n = application.largest(p, base.memory)
    wanted = [name for name in application.requirements if name != "bytes_used"]
    before = {name: application.need(name, p, n) for name in wanted}
    ratios = []
    for upgrade in upgrades:
        after = upgrade.applied(base)
        exact, reason = _ratios(application, before, n, after, None)
        held, other = _ratios(application, before, n, after, (p, n))
        ratios.append((upgrade.name, exact, held, reason or (other and f"{_HELD}, {other}")))
    rows = [
        (
            application.name,
            name,
            upgraded,
            exact[name],
            held[name],
            reason or ("" if before.get(name, n) else f"{application.name} needs no {name} before"),
        )
        for name in ["problem_size", *wanted]
        for upgraded, exact, held, reason in ratios
    ]
    columns = ["application", "requirement", "upgrade", "ratio", "growth_ratio", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _ratios(
    application: Application,
    before: dict[str, float],
    n: float,
    after: System,
    held: tuple[float, float] | None,
) -> tuple[dict[str, float], str]:
    """Return the ratios of problem size and requirements, or the reason for having none."""
    p = after.processes
    size, reason = fitting(application, p, after.memory, held)
    if reason:
        return dict.fromkeys(["problem_size", *before], np.nan), reason
    now = {name: application.need(name, p, size, held) for name in before}
    ratios = {name: now[name] / value if value else np.nan for name, value in before.items()}
    return {"problem_size": size / n, **ratios}, ""
