"""Applications with requirement models: five published ones [Calotoiu18], and a user's own files.

The source gives the largest terms of each model, without the base of the logarithms. Parts of its
table are hard to read; the notes of an application tell what was chosen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from toruscast.errors import InputError
from toruscast.files import as_string, parse_json, parse_toml, read_limited

from ..formats.reading import read_measurements
from ..formula import MAX_BYTES, Formula, read_formulas
from ..pmnf.fit import fit_many
from .requirements import REQUIREMENTS, Application

# Types and meanings of the keys of an application's file.
_KEYS: dict[str, tuple[Any, str]] = {
    "name": (str, "a text"),
    "requirements": (dict, "a table of expressions"),
    "notes": (list, "a list of texts"),
    "smallest": ((int, float), "a number above 0"),
}
_MOST_TOML = 1_000_000


@cache
def _models() -> dict[str, dict[str, Any]]:
    file = Path(__file__).with_name("applications.json")
    models: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return models


def application_names() -> list[str]:
    """Return the names of the applications with published models.

    Examples
    --------
    >>> application_names()
    ['kripke', 'lulesh', 'milc', 'relearn', 'icofoam']
    """
    return list(_models())


def application(name: str) -> Application:
    """Return the requirement models of a published application.

    Parameters
    ----------
    name : str
        One of `application_names`.

    Returns
    -------
    Application
        The largest terms of its models, as in [Calotoiu18]; ``notes`` names doubtful readings.

    Raises
    ------
    InputError
        If there is no such application.

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
        For the last two: requirements and the metrics that stand for them, such as
        ``{"bytes_used": "VmPeak"}``.
    callpath : str, optional
        For the last two: the call path to take.

    Returns
    -------
    Application

    Raises
    ------
    InputError
        If the file cannot be read as such; the message names the key and the column.

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
        texts = key != "notes" or all(isinstance(note, str) for note in value)
        if not isinstance(value, kind) or isinstance(value, bool) or not texts:
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
    raw = read_limited(path, MAX_BYTES if path.suffix == ".json" else _MOST_TOML)
    if path.suffix == ".toml":
        return parse_toml(raw, path)
    return parse_json(as_string(raw, file), file)
