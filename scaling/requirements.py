"""Requirements of applications: published ones [Calotoiu18], and a user's own files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import bisect

from toruscast.errors import InputError
from toruscast.files import as_string, parse_json, parse_toml, read_limited

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


def fill(
    used: Callable[[Any], Any], memory: float, smallest: float, name: str, file: str | None = None
) -> float:
    """Return n with used(n) = memory."""

    def shrinks(n: float, found: str) -> InputError:
        message = f"{name}: bytes_used shrinks beyond n = {n:.4g}"
        return InputError(message, file=file, found=found, expected="memory that grows with n")

    def sampled(start: float, end: float) -> tuple[Any, Any]:
        sizes = np.geomspace(start, end, _SAMPLES)
        with np.errstate(all="ignore"):
            return sizes, np.broadcast_to(used(sizes), sizes.shape).astype(float)

    low = high = smallest
    if used(low) > memory:
        if np.any(sampled(smallest, _LARGEST)[1] <= memory):
            raise shrinks(smallest, f"{used(low):.4g} there, at most {memory:.4g} later")
        raise DoesNotFitError(
            f"{name} does not fit",
            found=f"{used(low):.4g} bytes needed for n = {low:g}",
            expected=f"at most {memory:.4g} a process",
        )
    while used(high) < memory:
        low, high = high, 2 * high
        if high > _LARGEST:
            raise InputError(
                f"{name}: bytes_used does not fill the memory for any n",
                file=file,
                found=f"{used(low):.4g} bytes at n = {low:.1g}",
                expected=f"{memory:.4g}",
            )
    sizes, values = sampled(smallest, high)
    falls = ~(values[1:] >= values[:-1] * _LEVEL)
    if falls.any():
        k = int(np.argmax(falls))
        raise shrinks(sizes[k], f"{values[k + 1]:.4g} after {values[k]:.4g}")
    sizes, values = sampled(high, _LARGEST)
    free = values < memory * _LEVEL
    if free.any():
        k = int(np.argmax(free))
        found = f"{values[k]:.4g} at n = {sizes[k]:.4g}, less than the {memory:.4g} there are"
        raise shrinks(sizes[k - 1], found)
    # Bisection only asks whether a size needs more than the memory, so the upper end may be
    # infinite.
    return float(bisect(lambda n: used(n) - memory, low, high, xtol=low * 1e-14, rtol=1e-14))


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

    def __init__(
        self,
        name: str,
        requirements: Mapping[str, str | Formula | Fitted],
        notes: tuple[str, ...] | list[str] = (),
        smallest: float = 1.0,
        file: str | os.PathLike[str] | None = None,
    ) -> None:
        where = None if file is None else os.fspath(file)
        models = {}
        for key, text in requirements.items():
            if key not in REQUIREMENTS:
                raise InputError(
                    "unknown requirement", file=where, found=key, expected=", ".join(REQUIREMENTS)
                )
            source = Formula.of(text, 0, where, f"{name}, {key}").text
            models[key] = Formula(source, ("p", "n"), where, f"{name}, {key}")
        if "bytes_used" not in models:
            raise InputError(
                f"{name} lacks a requirement",
                file=where,
                found=", ".join(models) or "none",
                expected="bytes_used, which tells the problem size that fits",
            )
        try:
            least = float(smallest)
        except OverflowError:
            least = np.inf
        if not (np.isfinite(least) and least > 0):
            raise InputError(
                f"{name}: bad smallest problem", file=where, found=least, expected="above 0"
            )
        for key, value in (
            ("name", name),
            ("requirements", models),
            ("notes", tuple(notes)),
            ("smallest", least),
            ("file", where),
        ):
            object.__setattr__(self, key, value)

    def need(
        self, requirement: str, p: float, n: float, held: tuple[float, float] | None = None
    ) -> float:
        """Return what one process needs with p processes and n as its problem size.

        ``held`` are other p and n, for the logarithms alone.
        """
        if requirement not in self.requirements:
            raise InputError(
                f"{self.name} has no such requirement",
                file=self.file,
                found=requirement,
                expected=", ".join(self.requirements),
            )
        check_positive(p=p, n=n)
        value = float(self._values(requirement, p, n, held))
        if not (np.isfinite(value) and value >= 0):
            raise InputError(
                f"{self.name}, {requirement}: no usable value at p = {p:g}, n = {n:g}",
                file=self.file,
                found=value,
                expected="a finite number, 0 or more",
            )
        return value

    def largest(self, p: float, memory: float, held: tuple[float, float] | None = None) -> float:
        """Return the problem size with which one of p processes fills its memory (bytes).

        ``held`` are other p and n, for the logarithms alone. Raises `DoesNotFitError` if the
        smallest problem is too large already.
        """
        check_positive(p=p, memory=memory)
        if p < 1:
            raise InputError("too few processes", found=p, expected="1 or more")

        def used(n: Any) -> Any:
            # Single sizes are checked; arrays of samples only serve to see whether memory grows.
            if isinstance(n, np.ndarray):
                return self._values("bytes_used", p, n, held)
            # A power of a large n may overflow; that of the smallest problem must not.
            if n > self.smallest and self._values("bytes_used", p, n, held) == np.inf:
                return np.inf
            return self.need("bytes_used", p, n, held)

        return fill(used, memory, self.smallest, f"{self.name} on {p:g} processes", self.file)

    def _values(self, requirement: str, p: float, n: Any, held: tuple[float, float] | None) -> Any:
        logarithms = None if held is None else {"p": np.float64(held[0]), "n": np.float64(held[1])}
        return self.requirements[requirement](p=p, n=n, held=logarithms)


def check_positive(**values: Any) -> None:
    """Raise InputError for a value that is not a finite number above 0."""
    for name, value in values.items():
        try:
            number = math.nan if isinstance(value, bool | str) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise InputError(f"bad {name}", found=f"{value}", expected="a finite number above 0")


# Types and meanings of the keys of an application's file.
_KEYS: dict[str, tuple[Any, str]] = {
    "name": (str, "a text"),
    "requirements": (dict, "a table of expressions"),
    "notes": (list, "a list of texts"),
    "smallest": ((int, float), "a number above 0"),
}
_MOST_TOML, _MAX_JSON = 1_000_000, 50_000_000


@cache
def _models() -> dict[str, dict[str, Any]]:
    file = Path(__file__).with_name("applications.json")
    models: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return models


def application_names() -> list[str]:
    """Return the names of the applications with published models."""
    return list(_models())


def application(name: str) -> Application:
    """Return the requirement models of a published application.

    They hold the largest terms, as in [Calotoiu18]; ``notes`` names doubtful readings.

    Examples
    --------
    >>> application("kripke").largest(p=1e6, memory=2e9)
    20000.0
    """
    if name not in _models():
        raise InputError("unknown application", found=name, expected=", ".join(application_names()))
    return Application(name, **_models()[name])


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
    file = os.fspath(path)
    document = _document(Path(file), file)
    keys = {*document} if isinstance(document, dict) else set()
    keys |= {"measurements"} if document is None else set()
    if {"measurements", "models"} & keys:
        known = read_formulas(path) if "models" in keys else _measured(path)
        models = _of_models(known, file, metrics or {}, callpath)
        return Application(Path(file).stem, models, file=file)
    if metrics or callpath is not None:
        raise InputError(
            "metrics and call paths are those of measurements and fitted models",
            file=file,
            found="a file of requirements",
        )
    if not isinstance(document, dict) or "requirements" not in document:
        raise InputError(
            "is no application",
            file=file,
            expected=f"a table requirements with some of {', '.join(REQUIREMENTS)}",
        )
    for key, value in document.items():
        if key not in _KEYS:
            raise InputError("unknown key", file=file, found=key, expected=", ".join(_KEYS))
        kind, expected = _KEYS[key]
        bad = not isinstance(value, kind) or isinstance(value, bool)
        if bad or (key == "notes" and not all(isinstance(note, str) for note in value)):
            raise InputError(f"bad {key}", file=file, found=value, expected=expected)
    requirements = {
        key: _fitted(value, key, Path(file)) if isinstance(value, dict) else value
        for key, value in document["requirements"].items()
    }
    return Application(
        document.get("name", Path(file).stem),
        requirements,
        document.get("notes", []),
        document.get("smallest", 1.0),
        file,
    )


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
    wanted = {metric: name for name, metric in metrics.items()}
    named = {key: wanted.get(key[1], key[1]) for key in formulas if callpath in (None, key[0])}
    known = {key: name for key, name in named.items() if name in REQUIREMENTS}
    for name in set(known.values()):
        paths = [path for (path, _), each in known.items() if each == name]
        if len(paths) > 1:
            raise InputError(
                f"several call paths have {name}",
                file=file,
                found=", ".join(paths),
                expected="one: choose by --callpath",
            )
    if not known:
        raise InputError(
            "no model is of a requirement",
            file=file,
            found=", ".join(dict.fromkeys(metric for _, metric in named)) or f"no {callpath}",
            expected=f"metrics called {', '.join(REQUIREMENTS)}, or --metric bytes_used=NAME",
        )
    return {name: formulas[key] for key, name in known.items()}


def _fitted(table: dict[str, Any], key: str, path: Path) -> Formula:
    """Return the fitted model that a table {file, metric, callpath} names."""
    unknown = [name for name in table if name not in ("file", "metric", "callpath")]
    if unknown or not isinstance(table.get("file"), str):
        raise InputError(
            f"bad {key}",
            file=os.fspath(path),
            found=", ".join(unknown) or "no file",
            expected="file, and metric or callpath where the file holds several",
        )
    formulas = read_formulas(path.parent / table["file"])
    fits = [
        each
        for each in formulas
        if table.get("callpath", each[0]) == each[0] and table.get("metric", each[1]) == each[1]
    ]
    if len(fits) != 1:
        raise InputError(
            f"{key} needs one model",
            file=os.fspath(path),
            found="; ".join(", ".join(each) for each in fits) or "none",
            expected=f"callpath and metric of one of {'; '.join(map(', '.join, formulas))}",
        )
    return formulas[fits[0]]


def _document(path: Path, file: str) -> Any:
    """Return what a file of TOML or JSON holds; None for another kind of file."""
    if path.suffix in (".yaml", ".yml"):
        raise InputError(
            "unknown suffix", file=file, found=path.suffix, expected=".toml, .json or measurements"
        )
    if path.suffix not in (".toml", ".json"):
        return None
    raw = read_limited(path, _MAX_JSON if path.suffix == ".json" else _MOST_TOML)
    if path.suffix == ".toml":
        return parse_toml(raw, path)
    return parse_json(as_string(raw, file), file)
