"""Requirement models of applications, and the largest problems that fit on a system."""

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
from .formula import Formula, SupportsFormula
from .measurements import to_float
from .readers import read_formulas, read_measurements

# The memory is sampled at `_N_SIZES` problem sizes, up to `_MAX_FACTOR` times the smallest one.
_MAX_FACTOR = 1e30
_N_SIZES = 1000
# Relative differences below this are rounding errors.
_TOLERANCE = 1e-9
REQUIREMENTS = {
    "bytes_used": "memory (bytes)",
    "flop": "floating-point operations",
    "bytes_sent": "bytes sent and received",
    "loads_stores": "loads and stores",
    "stack_distance": "stack distance",
}
# Maximum number of bytes of a file.
_MAX_TOML, _MAX_JSON = 1_000_000, 50_000_000


class InsufficientMemoryError(InputError):
    """The smallest problem exceeds the memory of a process."""


@dataclass(frozen=True)
class Application:
    """Requirements of one process, each a formula in p (processes) and n (problem size).

    Parameters
    ----------
    name : str
    requirements : mapping of str to str, Formula, PMNFRegressor or Models
        Formulas in p and n, or fitted models, of any `REQUIREMENTS`. ``bytes_used`` is required.
    notes : sequence of str
    smallest : float
        Smallest problem size of a process.
    file : path-like, optional
        File of the models, for error messages.

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
    # Values of p and n inside logarithms, if they differ from those outside.
    held: Mapping[str, Any] | None = field(default=None, repr=False)

    def __init__(
        self,
        name: str,
        requirements: Mapping[str, str | Formula | SupportsFormula],
        notes: tuple[str, ...] | list[str] = (),
        smallest: float = 1.0,
        file: str | os.PathLike[str] | None = None,
    ) -> None:
        source_file = None if file is None else os.fspath(file)
        fault = partial(InputError, file=source_file)
        check_type(name, "name", str, "a text")
        check_type(requirements, "requirements", Mapping, "formulas by requirement")
        check_type(notes, "notes", list | tuple, "a list of texts")
        for note in notes:
            check_type(note, "note", str, "a text")
        check_positive(**{f"smallest problem of {name}": smallest})
        formulas = {}
        for key, model in requirements.items():
            if key not in REQUIREMENTS:
                raise fault("unknown requirement", found=key, expected=", ".join(REQUIREMENTS))
            text = Formula.from_model(model, 0, source_file, f"{name}, {key}").text
            formulas[key] = Formula(text, ("p", "n"), source_file, f"{name}, {key}")
        if "bytes_used" not in formulas:
            found, expected = ", ".join(formulas) or "none", "bytes_used, which limits the problem"
            raise fault(f"{name} lacks a requirement", found=found, expected=expected)
        vars(self).update(name=name, requirements=formulas, notes=tuple(notes))
        vars(self).update(smallest=float(smallest), file=source_file, held=None)

    def with_logarithms_at(self, p: float, n: float) -> Application:
        """Return a copy whose logarithms keep their values for p and n."""
        result = copy(self)
        vars(result).update(held={"p": np.float64(p), "n": np.float64(n)})
        return result

    def need(self, requirement: str, p: float, n: float) -> float:
        """Return a requirement of one process, for p processes and problem size n per process."""
        if requirement not in self.requirements:
            message, known = f"bad requirement of {self.name}", ", ".join(self.requirements)
            raise InputError(message, file=self.file, found=requirement, expected=known)
        check_positive(p=p, n=n)
        value = float(self.requirements[requirement](p=p, n=n, held=self.held))
        if not 0 <= value < np.inf:
            message = f"{self.name}, {requirement}: no usable value at p = {p:g}, n = {n:g}"
            expected = "a finite number, 0 or more"
            raise InputError(message, file=self.file, found=value, expected=expected)
        return value

    def largest(self, p: float, memory: float) -> float:
        """Return the problem size that fills the memory (bytes) of each of p processes.

        Raises `InsufficientMemoryError` if the smallest problem does not fit.
        """
        check_positive(p=p, memory=memory)
        if p < 1:
            raise InputError("too few processes", found=p, expected="1 or more")
        where, fault = f"{self.name} on {p:g} processes", partial(InputError, file=self.file)
        bytes_used = partial(self.requirements["bytes_used"], p=p, held=self.held)
        needed = self.need("bytes_used", p, self.smallest)
        sizes = np.geomspace(self.smallest, self.smallest * _MAX_FACTOR, _N_SIZES)
        # Values that overflow are infinite, which is more than any memory.
        values = np.broadcast_to(bytes_used(n=sizes), sizes.shape)
        fills = values >= memory
        first_full = int(fills.argmax()) if fills.any() else sizes.size - 1
        # `need` raises an error for a value that is not a number.
        for n in sizes[: first_full + 1][np.isnan(values[: first_full + 1])]:
            self.need("bytes_used", p, n)
        # The largest size is unique if memory grows up to the first size that fills it, and if no
        # larger size fits.
        shrinks = ~(values[1 : first_full + 1] >= values[:first_full] * (1 - _TOLERANCE))
        fits_again = values[first_full + 1 :] < memory * (1 - _TOLERANCE)
        has_shrunk = np.append(shrinks, fits_again)
        if has_shrunk.any():
            k = int(has_shrunk.argmax())
            start = self.smallest if needed > memory else sizes[k]
            message = f"{where}: bytes_used shrinks beyond n = {start:.4g}"
            found = f"{values[k + 1]:.4g} at n = {sizes[k + 1]:.4g}"
            raise fault(message, found=found, expected="memory that grows with n")
        if not fills.any():
            message = f"{where}: bytes_used does not fill the memory for any n"
            found = f"{values[-1]:.4g} bytes at n = {sizes[-1]:.4g}"
            raise fault(message, found=found, expected=f"{memory:.4g}")
        if needed > memory:
            found = f"{needed:.4g} bytes needed for n = {self.smallest:g}"
            expected = f"at most {memory:.4g} a process"
            raise InsufficientMemoryError(f"{where} does not fit", found=found, expected=expected)
        low, high = sizes[max(first_full - 1, 0)], sizes[first_full]
        find_root = partial(scipy.optimize.brentq, xtol=low * 1e-15, rtol=1e-15)
        # The root finder needs finite values.
        return float(find_root(lambda n: min(bytes_used(n=n), 2 * memory) - memory, low, high))


def check_positive(**values: Any) -> None:
    """Raise `InputError` unless all values are finite numbers above 0."""
    for name, value in values.items():
        number = math.nan if isinstance(value, str) else to_float(value)
        if not 0 < number < math.inf:
            found = f"{value if math.isnan(number) else number}"
            raise InputError(f"bad {name}", found=found, expected="a finite number above 0")


@cache
def _load_models() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("applications.toml").read_text(encoding="utf-8"))


def application_names() -> list[str]:
    """Return the names of the applications with published models."""
    return list(_load_models())


def application(name: str, printed: bool = False) -> Application:
    """Return the requirement models of a published application.

    The models contain the largest terms only, as in [Calotoiu18]. Corrections of misprints are
    explained in ``notes``. With `printed`, the models are returned without corrections.

    Examples
    --------
    >>> application("kripke").largest(p=1e6, memory=2e9)
    20000.0
    """
    one_of(name, "application", tuple(_load_models()))
    published = _load_models()[name]
    models, notes = published["requirements"], published["notes"]
    for key, reading in published["readings"].items():
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
        One of three kinds of file:

        - a ``.toml`` or ``.json`` file with a table ``requirements`` of formulas and the optional
          keys ``name``, ``notes`` (texts) and ``smallest`` (smallest problem size of a process); a
          table ``{file, metric, callpath}`` in place of a formula names a model that ``toruscast
          pmnf fit --json`` wrote;
        - the output of ``toruscast pmnf fit --json``;
        - measurements in any format of `read_measurements`, with parameters p and n, to which
          models are fitted.
    metrics : mapping, optional
        Metric of each requirement in fitted models or measurements, such as
        ``{"bytes_used": "VmPeak"}``; by default, each metric has the name of its requirement.
    callpath : str, optional
        Call path in fitted models or measurements; needed if several have the same metric.

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
    document = _parse_document(Path(file), file)
    keys = {*document} if isinstance(document, dict) else set()
    keys |= {"measurements"} if document is None else set()
    if {"measurements", "models"} & keys:
        formulas = read_formulas(path) if "models" in keys else _fit_measurements(path)
        models = _select_models(formulas, file, metrics or {}, callpath)
        return Application(Path(file).stem, models, file=file)
    if metrics or callpath is not None:
        message = "only measurements and fitted models have metrics and call paths"
        raise fault(message, found="a file of requirements")
    if "requirements" not in keys:
        expected = f"a table requirements with some of {', '.join(REQUIREMENTS)}"
        raise fault("is not an application", expected=expected)
    with at_file(file):
        for key in document:
            one_of(key, "key", ("name", "requirements", "notes", "smallest"))
        check_type(document["requirements"], "requirements", dict, "a table of expressions")
        requirements = {
            key: _read_fitted(value, key, Path(file)) if isinstance(value, dict) else value
            for key, value in document["requirements"].items()
        }
        document = {"name": Path(file).stem, **document, "requirements": requirements}
        return Application(**document, file=file)


def _fit_measurements(path: str | os.PathLike[str]) -> dict[tuple[str, str], Formula]:
    """Return the fitted model of each call path and metric in a file of measurements."""
    formulas: dict[tuple[str, str], Formula] = {}
    for data in read_measurements(path):
        models = fit_many(data)
        keys = zip(data.callpaths, data.metrics, strict=True)
        formulas |= {key: models.formula(number) for number, key in enumerate(keys)}
    return formulas


def _select_models(
    formulas: Mapping[tuple[str, str], Formula],
    file: str,
    metrics: Mapping[str, str],
    callpath: str | None,
) -> dict[str, Formula]:
    """Return the model of each requirement; `metrics` lists metrics that have other names."""
    fault = partial(InputError, file=file)
    available = [metric for path, metric in formulas if callpath in (None, path)]
    with at_file(file):
        if not available:
            one_of(callpath, "call path", tuple(dict.fromkeys(path for path, _ in formulas)))
        for name, metric in metrics.items():
            one_of(name, "requirement", tuple(REQUIREMENTS))
            one_of(metric, f"metric of {name}", tuple(dict.fromkeys(available)))
    models = {}
    for requirement in REQUIREMENTS:
        metric = metrics.get(requirement, requirement)
        paths = [path for path, name in formulas if name == metric and callpath in (None, path)]
        if len(paths) > 1:
            found, expected = ", ".join(paths), "one call path, chosen with --callpath"
            raise fault(f"several call paths have {requirement}", found=found, expected=expected)
        if paths:
            models[requirement] = formulas[paths[0], metric]
    if not models:
        expected = f"metrics called {', '.join(REQUIREMENTS)}, or --metric bytes_used=NAME"
        found = ", ".join(available)
        raise fault("no metric is a requirement", found=found, expected=expected)
    return models


def _read_fitted(table: dict[str, Any], key: str, path: Path) -> Formula:
    """Read the model for requirement ``key`` that a table {file, metric, callpath} names."""
    fault = partial(InputError, file=os.fspath(path))
    unknown = [name for name in table if name not in ("file", "metric", "callpath")]
    if unknown or not isinstance(table.get("file"), str):
        expected = "file, and metric or callpath if the file contains several"
        raise fault(f"bad {key}", found=", ".join(unknown) or "no file", expected=expected)
    formulas = read_formulas(path.parent / table["file"])
    matches = [
        (callpath, metric)
        for callpath, metric in formulas
        if table.get("callpath", callpath) == callpath and table.get("metric", metric) == metric
    ]
    if len(matches) != 1:
        found = "; ".join(map(", ".join, matches)) or "none"
        expected = f"callpath and metric of one of {'; '.join(map(', '.join, formulas))}"
        raise fault(f"{key} needs one model", found=found, expected=expected)
    return formulas[matches[0]]


def _parse_document(path: Path, file: str) -> Any:
    """Return the content of a TOML or JSON file, or None for any other file."""
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
    """A machine described by identical processes.

    Without any rate (flops, network, accesses), wall times are NaN.

    Parameters
    ----------
    name : str
    processes : float
    memory : float
        Bytes per process.
    flops : float, optional
        Floating-point operations per second and process.
    network : float, optional
        Bytes that a process can send and receive per second.
    accesses : float, optional
        Loads and stores per second that the memory can serve for a process.
    cache : float, optional
        Distinct locations that fit in the cache of a process. Loads and stores with at most this
        stack distance do not reach the memory.
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
        """Return the time (s) and the name of the slowest requirement.

        Returns NaN and "" if the rates of all requirements are unknown.
        """
        rates = {"flop": self.flops, "bytes_sent": self.network, "loads_stores": self.accesses}
        known = {k: rate for k, rate in rates.items() if rate and k in application.requirements}
        if (
            self.cache is not None
            and "stack_distance" in application.requirements
            and application.need("stack_distance", self.processes, n) <= self.cache
        ):
            known.pop("loads_stores", None)
        times = {k: application.need(k, self.processes, n) / rate for k, rate in known.items()}
        slowest = max(times, key=lambda name: times[name], default="")
        return times.get(slowest, math.nan), slowest


# Each has 10 PB of memory in total [Calotoiu18].
STRAW_MEN = (
    System("massively-parallel", 2e9, 5e6, 5e8),
    System("vector", 5e7, 2e8, 2e10),
    System("hybrid", 1e8, 1e8, 1e10),
)


def compare_systems(
    application: Application, systems: Sequence[System] = STRAW_MEN
) -> pd.DataFrame:
    """Compare the largest problems of systems, and their wall times for a common problem.

    The common problem is the largest one that fits every system. Its wall time is a lower bound,
    because it assumes that the slowest requirement runs at the full rate of the system.

    Returns
    -------
    DataFrame
        One row per system: ``application``, ``system``, ``n`` (problem size per process that fills
        the memory), ``largest_problem`` (n times processes), ``common_problem``, ``wall_time`` (s),
        ``bound_by`` (the slowest requirement), and ``reason`` if there is no wall time.

    Examples
    --------
    >>> table = compare_systems(Application("a", {"bytes_used": "1e6 * n", "flop": "1e10 * n"}))
    >>> table[["system", "n", "largest_problem", "wall_time"]].round(6)
                   system      n  largest_problem  wall_time
    0  massively-parallel    5.0     1.000000e+10      100.0
    1              vector  200.0     1.000000e+10      100.0
    2              hybrid  100.0     1.000000e+10      100.0
    """
    for system in systems:
        check_type(system, "system", System, "a System")
    names = [system.name for system in systems]
    if not systems or len(set(names)) < len(names):
        raise InputError("systems need different names", found=", ".join(names) or "no system")
    sizes = [_fill_memory(application, system) for system in systems]
    table = pd.DataFrame({"application": application.name, "system": names})
    table["n"] = [n for n, _ in sizes]
    table["largest_problem"] = table["n"] * [float(system.processes) for system in systems]
    table["common_problem"] = common = table["largest_problem"].min(skipna=False)
    times = [
        (math.nan, "", reason) if reason else _time_problem(application, system, common)
        for system, (_, reason) in zip(systems, sizes, strict=True)
    ]
    columns = ["wall_time", "bound_by", "reason"]
    return table.join(pd.DataFrame(times, columns=columns).astype({"wall_time": float}))


def _fill_memory(application: Application, system: System) -> tuple[float, str]:
    """Return the problem size that fills the memory, or NaN and the reason."""
    check_type(application, "application", Application, "an Application")
    try:
        return application.largest(system.processes, system.memory), ""
    except InsufficientMemoryError as error:
        return math.nan, str(error)


def _time_problem(application: Application, system: System, size: float) -> tuple[float, str, str]:
    """Return the wall time (s) and slowest requirement of a problem, and a reason if unknown."""
    if math.isnan(size):
        return math.nan, "", "the smallest problem does not fit every system"
    n = size / system.processes
    # Allow for rounding errors of the division.
    if n < application.smallest * (1 - 1e-12):
        return math.nan, "", f"the common problem leaves only n = {n:.3g} per process"
    time, bound = system.wall_time(application, n)
    if bound:
        return time, bound, ""
    if "flop" not in application.requirements:
        return time, "", f"{application.name} has no model of flop"
    return time, "", f"the system {system.name} has no flops"


def share_system(
    applications: Sequence[Application],
    system: System,
    shares: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
    of: str = "processes",
) -> pd.DataFrame:
    """Return the largest problems of two applications that share one system.

    The first application gets each share of the processes, or of the memory of each process; the
    second application gets the rest.

    Returns
    -------
    DataFrame
        Two rows per share: ``share`` (of the first application), ``application``, ``processes``,
        ``memory`` (bytes per process), ``n``, ``largest_problem``, ``of_alone`` (relative to the
        largest problem on the whole system), ``wall_time`` (s) and ``bound_by`` as in
        `compare_systems`, and ``reason`` if the application does not fit.

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
            partition = replace(system, **{of: getattr(system, of) * part})
            row = {"share": share, "application": app.name}
            n, reason = _fill_memory(app, partition)
            n_alone, reason_alone = _fill_memory(app, system)
            if reason := reason or reason_alone:
                rows.append({**row, of: getattr(partition, of), "reason": reason})
                continue
            time, bound = partition.wall_time(app, n)
            size = n * partition.processes
            row |= {"processes": partition.processes, "memory": partition.memory, "n": n}
            row |= {"largest_problem": size, "of_alone": size / (n_alone * system.processes)}
            rows.append({**row, "wall_time": time, "bound_by": bound, "reason": ""})
    columns = ["share", "application", "processes", "memory", "n", "largest_problem", "of_alone"]
    table = pd.DataFrame(rows, columns=[*columns, "wall_time", "bound_by", "reason"])
    return table.astype(dict.fromkeys((*columns[2:], "wall_time"), float))


@dataclass(frozen=True)
class Upgrade:
    """Factors for the number of processes and for the memory per process."""

    name: str
    processes: float
    memory: float

    def __post_init__(self) -> None:
        check_positive(processes=self.processes, memory=self.memory)


def upgrades_by(factor: float) -> tuple[Upgrade, ...]:
    """Return the three upgrades of [Calotoiu18] with any factor."""
    check_positive(factor=factor)
    return Upgrade("A", factor, 1.0), Upgrade("B", factor, 1 / factor), Upgrade("C", 1.0, factor)


# Double the racks, the sockets (which share the memory of their node), or the memory [Calotoiu18].
UPGRADES = upgrades_by(2.0)

# The memory is large enough for n to dominate p in sums.
LARGE_BASE = System("base", 1e5, 1e12)


def upgrade_ratios(
    application: Application, base: System = LARGE_BASE, upgrades: Sequence[Upgrade] = UPGRADES
) -> pd.DataFrame:
    """Return the ratios of a process's requirements after upgrades to those before.

    Returns
    -------
    DataFrame
        One row per requirement and upgrade: ``application``, ``requirement`` ("problem_size"
        first), ``upgrade``, ``ratio``, ``growth_ratio``, and ``reason`` for a missing ratio. In
        ``growth_ratio``, logarithms keep their values before the upgrade, so only powers count.

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
    check_type(base, "system", System, "a System")
    check_type(application, "application", Application, "an Application")
    p = base.processes
    n = application.largest(p, base.memory)
    fixed_logarithms = application.with_logarithms_at(p, n)
    needs = {k: application.need(k, p, n) for k in application.requirements if k != "bytes_used"}
    needs_before = {"problem_size": n} | needs
    rows = []
    for upgrade in upgrades:
        after = System(upgrade.name, p * upgrade.processes, base.memory * upgrade.memory)
        ratio, reason = _compute_ratios(application, needs_before, after)
        growth, growth_reason = _compute_ratios(fixed_logarithms, needs_before, after)
        reason = reason or (growth_reason and f"with logarithms held constant, {growth_reason}")
        for name, value in needs_before.items():
            missing = "" if value else f"{application.name} needs no {name} before the upgrade"
            values = (ratio[name], growth[name], reason or missing)
            rows.append((application.name, name, upgrade.name, *values))
    rows.sort(key=lambda row: [*needs_before].index(row[1]))
    columns = ["application", "requirement", "upgrade", "ratio", "growth_ratio", "reason"]
    return pd.DataFrame(rows, columns=columns)


def _compute_ratios(
    application: Application, before: dict[str, float], after: System
) -> tuple[dict[str, float], str]:
    """Return each requirement's ratio (after an upgrade to before it), or NaN and the reason."""
    n, reason = _fill_memory(application, after)
    if reason:
        return dict.fromkeys(before, np.nan), reason
    ratios = {}
    for name, value in before.items():
        need = n if name == "problem_size" else application.need(name, after.processes, n)
        ratios[name] = need / value if value else np.nan
    return ratios, ""
