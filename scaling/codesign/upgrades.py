"""Effect of an upgrade on an application that fills the memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from toruscast.errors import InputError

from .requirements import Application, check_positive
from .systems import System, fitting

_HELD = "with logarithms held"


@dataclass(frozen=True)
class Upgrade:
    """Factors that an upgrade brings.

    Parameters
    ----------
    name : str
    processes : float
        Factor of the number of processes.
    memory : float
        Factor of the memory a process.

    Examples
    --------
    >>> Upgrade("B", 2, 0.5).applied(System("base", 1000, 4e9)).memory
    2000000000.0
    """

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
    """Return the three upgrades with another factor than 2.

    Examples
    --------
    >>> [(upgrade.name, upgrade.processes, upgrade.memory) for upgrade in upgrades_by(4)]
    [('A', 4, 1.0), ('B', 4, 0.25), ('C', 1.0, 4)]
    """
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

    Parameters
    ----------
    application : Application
    base : System
        The system before.
    upgrades : sequence of Upgrade

    Returns
    -------
    DataFrame
        A row for each requirement and upgrade: ``application``, ``requirement`` ("problem_size"
        first), ``upgrade``, ``ratio``, ``growth_ratio`` and ``reason`` if there is none.
        ``growth_ratio`` holds every logarithm at its value before the upgrade, so that only powers
        count.

    Raises
    ------
    InputError
        If the application does not fit the base, or its memory does not grow with n.

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
