"""A user's own applications: files with requirement models in TOML or JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from toruscast.errors import InputError
from toruscast.files import parse_toml, read_limited

from ..formats.extrap_json import decoded
from .requirements import REQUIREMENTS, Application

_KEYS = {"name": str, "requirements": dict, "notes": list, "smallest": (int, float)}
MAX_BYTES = 1_000_000


def read_application(path: str | os.PathLike[str]) -> Application:
    """Read the requirement models of one application.

    Parameters
    ----------
    path : path-like
        A ``.toml`` or ``.json`` file with a table ``requirements`` of expressions, and, if wanted,
        ``name``, ``notes`` (texts) and ``smallest`` (least problem size a process).

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
    if not isinstance(document, dict) or "requirements" not in document:
        raise InputError(
            "is no application",
            file=file,
            expected=f"a table requirements with some of {', '.join(REQUIREMENTS)}",
        )
    for key, value in document.items():
        if key not in _KEYS:
            raise InputError("unknown key", file=file, found=key, expected=", ".join(_KEYS))
        if not isinstance(value, _KEYS[key]) or isinstance(value, bool):  # type: ignore[arg-type]
            raise InputError(f"bad {key}", file=file, found=value, expected=_described(key))
    notes = document.get("notes", [])
    if not all(isinstance(note, str) for note in notes):
        raise InputError("bad notes", file=file, found=notes, expected=_described("notes"))
    return Application(
        document.get("name", Path(file).stem),
        document["requirements"],
        notes,
        document.get("smallest", 1.0),
        file,
    )


def _document(path: Path, file: str) -> Any:
    if path.suffix not in (".toml", ".json"):
        raise InputError(
            "unknown suffix", file=file, found=path.suffix or "none", expected=".toml or .json"
        )
    raw = read_limited(path, MAX_BYTES)
    if path.suffix == ".toml":
        return parse_toml(raw, path)
    try:
        return decoded(raw.decode("utf-8-sig"), file)
    except UnicodeDecodeError:
        raise InputError("is no text in UTF-8", file=file) from None
    except json.JSONDecodeError as error:
        raise InputError("is no JSON", file=file, line=error.lineno, found=error.msg) from None
    except InputError:
        raise
    except (RecursionError, ValueError):
        raise InputError("is nested too deeply or holds a bad number", file=file) from None


def _described(key: str) -> str:
    return {
        "name": "a text",
        "requirements": "a table of expressions",
        "notes": "a list of texts",
        "smallest": "a number above 0",
    }[key]
