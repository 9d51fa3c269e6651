"""Requirements of applications, and the problems that they solve on upgraded or other systems."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from toruscast._slow import pandas as pd
from toruscast._slow import scipy
from toruscast.errors import InputError
from toruscast.files import as_string, at_file, check_path, parse_json, parse_toml, read_limited
from toruscast.validation import check_type, one_of

from .fit import fit_many
from .formula import Fitted, Formula
from .readers import read_formulas, read_measurements

_LARGEST = 1e30
_SAMPLES = 400
# A relative difference below this is rounding.
_LEVEL = 1 - 1e-9
REQUIREMENTS = {
    "bytes_used": "memory (bytes)",
    "flop": "floating-point operations",
    "bytes_sent": "bytes sent and received",
    "loads_stores": "loads and stores",
    "stack_distance": "stack distance",
}


class DoesNotFitError(InputError):
    """Not even the smallest problem fits the memory of a process."""


@dataclass(frozen=True)
class Application:
    """Requirements of one process, each a formula in p and n.

    Parameters
    ----------
    name : str
    requirements : mapping of str to str, Formula, PMNFRegressor or Models
        Formulas in p and n, or fitted models. Any of `REQUIREMENTS`; ``bytes_used`` must be there.
    notes : sequence of str
    smallest : float
        The least problem size a process.
    file : path-like, optional

    Examples
    --------
    >>> solver = Application("solver", {"bytes_used": "1e5 * n", "flop": "1e7 * n * log2(p)"})
    >>> solver.need("flop", p=1024, n=3)
    300000000.0
    >>> solver.largest(p=1024, memory=2e8)
    2000.0
    """

    name: str
    requirements: Mapping[str, Formula]
    notes: tuple[str, ...] = ()
    smallest: float = 1.0
    file: str | None = None
    held: Mapping[str, Any] | None = field(default=None, repr=False)

    def __init__(
        self,
        name: str,
        requirements: Mapping[str, str | Formula | Fitted],
        notes: tuple[str, ...] | list[str] = (),
        smallest: float = 1.0,
        file: str | os.PathLike[str] | None = None,
    ) -> None:
        where = None if file is None else os.fspath(file)
        fault = partial(InputError, file=where)
        check_type(name, "name", str, "a text")
        check_type(requirements, "requirements", Mapping, "formulas by requirement")
        check_type(notes, "notes", list | tuple, "a list of texts")
        for note in notes:
            check_type(note, "note", str, "a text")
        check_positive(**{f"smallest problem of {name}": smallest})
        models = {}
        for key, text in requirements.items():
            if key not in REQUIREMENTS:
                raise fault("unknown requirement", found=key, expected=", ".join(REQUIREMENTS))
            source = Formula.from_model(text, 0, where, f"{name}, {key}").text
            models[key] = Formula(source, ("p", "n"), where, f"{name}, {key}")
        if "bytes_used" not in models:
            found, expected = ", ".join(models) or "none", "bytes_used, which limits the problem"
            raise fault(f"{name} lacks a requirement", found=found, expected=expected)
        vars(self).update(
            name=name,
            requirements=models,
            notes=tuple(notes),
            smallest=float(smallest),
            file=where,
            held=None,
        )

    def with_logarithms_at(self, p: float, n: float) -> Application:
        """Return the application with every logarithm held at its value for p and n."""
        result = copy(self)
        vars(result).update(held={"p": np.float64(p), "n": np.float64(n)})
        return result

    def need(self, requirement: str, p: float, n: float) -> float:
        """Return what one process needs with p processes and n as its problem size."""
        fault = partial(InputError, file=self.file)
        if requirement not in self.requirements:
            message, known = f"{self.name} has no such requirement", ", ".join(self.requirements)
            raise fault(message, found=requirement, expected=known)
        check_positive(p=p, n=n)
        value = float(self.requirements[requirement](p=p, n=n, held=self.held))
        if not 0 <= value < np.inf:
            message = f"{self.name}, {requirement}: no usable value at p = {p:g}, n = {n:g}"
            raise fault(message, found=value, expected="a finite number, 0 or more")
        return value

    def largest(self, p: float, memory: float) -> float:
        """Return the problem size with which one of p processes fills its memory (bytes).

        Raises `DoesNotFitError` if the smallest problem is too large already.
        """
        check_positive(p=p, memory=memory)
        if p < 1:
            raise InputError("too few processes", found=p, expected="1 or more")

        def used(n: float) -> float:
            # A power of a large n may overflow; that of the smallest problem must not.
            model = self.requirements["bytes_used"]
            if n > self.smallest and model(p=p, n=n, held=self.held) == np.inf:
                return np.inf
            return self.need("bytes_used", p, n)

        where = f"{self.name} on {p:g} processes"
        low = high = self.smallest
        while used(high) < memory:
            low, high = high, 2 * high
            if high > _LARGEST:
                message = f"{where}: bytes_used does not fill the memory for any n"
                found, expected = f"{used(low):.4g} bytes at n = {low:.1g}", f"{memory:.4g}"
                raise InputError(message, file=self.file, found=found, expected=expected)
        below = self._sampled(self.smallest, high, p)
        beyond = self._sampled(high, _LARGEST, p)
        needed = used(low)
        free = beyond[1] < memory * _LEVEL
        if needed > memory and not free.any():
            found = f"{needed:.4g} bytes needed for n = {low:g}"
            expected = f"at most {memory:.4g} a process"
            raise DoesNotFitError(f"{where} does not fit", found=found, expected=expected)
        falls = np.append(False, ~(below[1][1:] >= below[1][:-1] * _LEVEL))
        if free.any() or falls.any():
            (sizes, values), at = (below, falls) if falls.any() else (beyond, free)
            k = int(at.argmax())
            start = low if needed > memory else sizes[k - 1]
            message = f"{where}: bytes_used shrinks beyond n = {start:.4g}"
            found = f"{values[k]:.4g} at n = {sizes[k]:.4g}"
            expected = "memory that grows with n"
            raise InputError(message, file=self.file, found=found, expected=expected)
        # Bisection only asks whether a size needs more than the memory, so the upper end may be
        # infinite.
        root = scipy.optimize.bisect
        return float(root(lambda n: used(n) - memory, low, high, xtol=low * 1e-14, rtol=1e-14))

    def _sampled(self, start: float, end: float, p: float) -> tuple[Any, Any]:
        """Return problem sizes and the bytes that they use, unchecked."""
        sizes = np.geomspace(start, end, _SAMPLES)
        values = self.requirements["bytes_used"](p=p, n=sizes, held=self.held)
        return sizes, np.broadcast_to(values, sizes.shape).astype(float)


def check_positive(**values: Any) -> None:
    """Raise InputError for a value that is not a finite number above 0."""
    for name, value in values.items():
        try:
            number = math.nan if isinstance(value, bool | str) else float(value)
        except OverflowError:
            value = number = math.inf
        except (TypeError, ValueError):
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise InputError(f"bad {name}", found=f"{value}", expected="a finite number above 0")


_MAX_TOML, _MAX_JSON = 1_000_000, 50_000_000


@cache
def _models() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("applications.toml").read_text(encoding="utf-8"))


def application_names() -> list[str]:
    """Return the names of the applications with published models."""
    return list(_models())


def application(name: str, printed: bool = False) -> Application:
    """Return the requirement models of a published application.

    They hold the largest terms, as in [Calotoiu18]. Some are readings of a damaged table; ``notes``
    gives the print and the reason of each. All are as printed if `printed` is true.

    Examples
    --------
    >>> application("kripke").largest(p=1e6, memory=2e9)
    20000.0
    """
    one_of(name, "application", tuple(_models()))
    known = _models()[name]
    models, notes = known["requirements"], known["notes"]
    for key, reading in known["readings"].items():
        if printed:
            models = models | {key: reading["printed"]}
        else:
            notes = [*notes, f"{key}: printed as {reading['printed']}; {reading['reason']}"]
    return Application(name, models, notes)


def read_application(
    path: str | os.PathLike[str],
    metrics: Mapping[str, str] | None = None,
    callpath: str | None = None,
) -> Application:
    """Read the requirement models of one application, or fit them to measurements.

    Parameters
    ----------
    path : path-like
        A ``.toml`` or ``.json`` file with a table ``requirements`` of formulas, and, if wanted,
        ``name``, ``notes`` (texts) and ``smallest`` (least problem size a process). Instead of a
        formula a table ``{file, metric, callpath}`` names a model that ``toruscast pmnf fit
        --json`` wrote. Such a file is itself read too, if its metrics have the names of
        requirements, and so is any file of measurements that `read_measurements` reads, with
        parameters p and n: its models are fitted.
    metrics : mapping, optional
        For the last two: the metric that holds each requirement, such as
        ``{"bytes_used": "VmPeak"}``.
    callpath : str, optional
        For the last two: the call path to take.

    Examples
    --------
    >>> from pathlib import Path
    >>> _ = Path("solver.toml").write_text('''
    ... [requirements]
    ... bytes_used = "1e5 * n + 200 * p"
    ... flop = "1e7 * n * log2(p)"
    ... ''')
    >>> solver = read_application("solver.toml")
    >>> solver.name, list(solver.requirements)
    ('solver', ['bytes_used', 'flop'])
    """
    check_path(path)
    file = os.fspath(path)
    fault = partial(InputError, file=file)
    document = _document(Path(file), file)
    keys = {*document} if isinstance(document, dict) else set()
    keys |= {"measurements"} if document is None else set()
    if {"measurements", "models"} & keys:
        known = read_formulas(path) if "models" in keys else _measured(path)
        models = _of_models(known, file, metrics or {}, callpath)
        return Application(Path(file).stem, models, file=file)
    if metrics or callpath is not None:
        message = "metrics and call paths are those of measurements and fitted models"
        raise fault(message, found="a file of requirements")
    if "requirements" not in keys:
        expected = f"a table requirements with some of {', '.join(REQUIREMENTS)}"
        raise fault("is no application", expected=expected)
    with at_file(file):
        for key in document:
            one_of(key, "key", ("name", "requirements", "notes", "smallest"))
        check_type(document["requirements"], "requirements", dict, "a table of expressions")
        requirements = {
            key: _fitted(value, key, Path(file)) if isinstance(value, dict) else value
            for key, value in document["requirements"].items()
        }
        own = {"name": Path(file).stem, **document, "requirements": requirements}
        return Application(**own, file=file)


def _measured(path: str | os.PathLike[str]) -> dict[tuple[str, str], Formula]:
    """Return the models of measurements by call path and metric."""
    found: dict[tuple[str, str], Formula] = {}
    for data in read_measurements(path):
        models = fit_many(data)
        keys = zip(data.callpaths, data.metrics, strict=True)
        found |= {key: models.formula(number) for number, key in enumerate(keys)}
    return found


def _of_models(
    formulas: Mapping[tuple[str, str], Formula],
    file: str,
    metrics: Mapping[str, str],
    callpath: str | None,
) -> dict[str, Formula]:
    """Return the models of requirements, by their metrics."""
    fault = partial(InputError, file=file)
    known = [metric for path, metric in formulas if callpath in (None, path)]
    with at_file(file):
        if not known:
            one_of(callpath, "call path", tuple(dict.fromkeys(path for path, _ in formulas)))
        for name, metric in metrics.items():
            one_of(name, "requirement", tuple(REQUIREMENTS))
            one_of(metric, f"metric of {name}", tuple(dict.fromkeys(known)))
    models = {}
    for name in REQUIREMENTS:
        metric = metrics.get(name, name)
        paths = [path for path, each in formulas if each == metric and callpath in (None, path)]
        if len(paths) > 1:
            found, expected = ", ".join(paths), "one: choose by --callpath"
            raise fault(f"several call paths have {name}", found=found, expected=expected)
        if paths:
            models[name] = formulas[paths[0], metric]
    if not models:
        expected = f"metrics called {', '.join(REQUIREMENTS)}, or --metric bytes_used=NAME"
        raise fault("no model is of a requirement", found=", ".join(known), expected=expected)
    return models


def _fitted(table: dict[str, Any], key: str, path: Path) -> Formula:
    """Return the fitted model that a table {file, metric, callpath} names."""
    fault = partial(InputError, file=os.fspath(path))
    unknown = [name for name in table if name not in ("file", "metric", "callpath")]
    if unknown or not isinstance(table.get("file"), str):
        expected = "file, and metric or callpath where the file holds several"
        raise fault(f"bad {key}", found=", ".join(unknown) or "no file", expected=expected)
    formulas = read_formulas(path.parent / table["file"])
    fits = [
        each
        for each in formulas
        if table.get("callpath", each[0]) == each[0] and table.get("metric", each[1]) == each[1]
    ]
    if len(fits) != 1:
        found = "; ".join(", ".join(each) for each in fits) or "none"
        expected = f"callpath and metric of one of {'; '.join(map(', '.join, formulas))}"
        raise fault(f"{key} needs one model", found=found, expected=expected)
    return formulas[fits[0]]


def _document(path: Path, file: str) -> Any:
    """Return what a file of TOML or JSON holds; None for another kind of file."""
    if path.suffix in (".yaml", ".yml"):
        expected = ".toml, .json or measurements"
        raise InputError("unknown suffix", file=file, found=path.suffix, expected=expected)
    if path.suffix == ".toml":
        return parse_toml(read_limited(path, _MAX_TOML), path)
    if path.suffix == ".json":
        return parse_json(as_string(read_limited(path, _MAX_JSON), file), file)
    return None


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
        for name, value in vars(self).items():
            if name in ("processes", "memory") or (name != "name" and value is not None):
                check_positive(**{f"{name} of system {self.name}": value})
        if self.processes < 1:
            message = f"bad processes of system {self.name}"
            raise InputError(message, found=self.processes, expected="1 or more")

    def wall_time(self, application: Application, n: float) -> tuple[float, str]:
        """Return the seconds of the requirement that takes longest, and its name.

        They are NaN and "" without the rate of any requirement.
        """
        rates = {"flop": self.flops, "bytes_sent": self.network, "loads_stores": self.accesses}
        known = {k: rate for k, rate in rates.items() if rate and k in application.requirements}
        distant = "stack_distance" in application.requirements and self.cache is not None
        if distant and application.need("stack_distance", self.processes, n) <= (self.cache or 0):
            known.pop("loads_stores", None)
        times = {k: application.need(k, self.processes, n) / rate for k, rate in known.items()}
        bound = max(times, key=lambda name: times[name], default="")
        return times.get(bound, math.nan), bound


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
    names = [_checked_system(system).name for system in systems]
    if not systems or len(set(names)) < len(names):
        raise InputError("systems need different names", found=", ".join(names) or "no system")
    found = [_filled(application, system) for system in systems]
    table = pd.DataFrame({"application": application.name, "system": names})
    table["n"] = [n for n, _ in found]
    table["largest_problem"] = table["n"] * [float(system.processes) for system in systems]
    table["common_problem"] = common = table["largest_problem"].min(skipna=False)
    times = [
        (math.nan, "", reason) if reason else _time(application, system, common)
        for system, (_, reason) in zip(systems, found, strict=True)
    ]
    columns = ["wall_time", "bound_by", "reason"]
    return table.join(pd.DataFrame(times, columns=columns).astype({"wall_time": float}))


def _checked_system(system: System) -> System:
    check_type(system, "system", System, "a System")
    return system


def _filled(application: Application, system: System) -> tuple[float, str]:
    """Return the problem size that fills the memory, or NaN and why there is none."""
    check_type(application, "application", Application, "an Application")
    try:
        return application.largest(system.processes, system.memory), ""
    except DoesNotFitError as error:
        return math.nan, str(error)


def _time(application: Application, system: System, common: float) -> tuple[float, str, str]:
    """Return the time for a problem and what it is bound by, or NaN and why there is none."""
    share = common / system.processes
    if math.isnan(common):
        return math.nan, "", "not every system holds a problem"
    if share < application.smallest * (1 - 1e-12):
        return math.nan, "", f"the common problem leaves n = {share:.3g} a process"
    time, bound = system.wall_time(application, share)
    reason = f"the system {system.name} has no flops"
    if "flop" not in application.requirements:
        reason = f"{application.name} has no model of flop"
    return time, bound, "" if bound else reason


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
            n, reason = _filled(app, own)
            alone, other = _filled(app, system)
            if reason or other:
                rows.append({**row, of: getattr(own, of), "reason": reason or other})
                continue
            time, bound = own.wall_time(app, n)
            size = n * own.processes
            row |= {"processes": own.processes, "memory": own.memory, "n": n}
            row |= {"largest_problem": size, "of_alone": size / (alone * system.processes)}
            rows.append({**row, "wall_time": time, "bound_by": bound, "reason": ""})
    columns = ["share", "application", "processes", "memory", "n", "largest_problem", "of_alone"]
    table = pd.DataFrame(rows, columns=[*columns, "wall_time", "bound_by", "reason"])
    return table.astype(dict.fromkeys((*columns[2:], "wall_time"), float))


@dataclass(frozen=True)
class Upgrade:
    """Factors of the number of processes, and of the memory a process."""

    name: str
    processes: float
    memory: float

    def __post_init__(self) -> None:
        check_positive(processes=self.processes, memory=self.memory)


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
    p = _checked_system(base).processes
    check_type(application, "application", Application, "an Application")
    n = application.largest(p, base.memory)
    held = application.with_logarithms_at(p, n)
    wanted = [name for name in application.requirements if name != "bytes_used"]
    before = {"problem_size": n} | {name: application.need(name, p, n) for name in wanted}
    rows = []
    for upgrade in upgrades:
        after = System(upgrade.name, p * upgrade.processes, base.memory * upgrade.memory)
        exact, reason = _ratios(application, before, after)
        growth, other = _ratios(held, before, after)
        reason = reason or (other and f"with logarithms held, {other}")
        for name, value in before.items():
            missing = "" if value else f"{application.name} needs no {name} before"
            ratios = (exact[name], growth[name], reason or missing)
            rows.append((application.name, name, upgrade.name, *ratios))
    rows.sort(key=lambda row: [*before].index(row[1]))
    columns = ["application", "requirement", "upgrade", "ratio", "growth_ratio", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _ratios(
    application: Application, before: dict[str, float], after: System
) -> tuple[dict[str, float], str]:
    """Return the ratios of problem size and requirements, or the reason for having none."""
    size, reason = _filled(application, after)
    if reason:
        return dict.fromkeys(before, np.nan), reason
    now = {name: application.need(name, after.processes, size) for name in [*before][1:]}
    now["problem_size"] = size
    return {name: now[name] / value if value else np.nan for name, value in before.items()}, ""
