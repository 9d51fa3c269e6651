"""Files at the door: regular ones only, and no text that costs more than it is long."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from .errors import InputError, MissingFileError

MAX_SETTINGS = 2**20
"""Most bytes of a file of settings."""
_MAX_DOTS = 16
# A key of many parts: dots outside of strings, before the equals sign or in the brackets.
_DOTTED = re.compile(rf"^[^=\"'#]*(?:\.[^=\"'#.]*){{{_MAX_DOTS},}}")


def check_regular(path: str | os.PathLike[str]) -> None:
    """Raise unless this names a regular file: reading a device or a pipe may never end.

    Raises
    ------
    MissingFileError
        If there is no such file.
    InputError
        If it is a folder, a device or a pipe, or cannot be looked at.
    """
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        raise MissingFileError("cannot be read", file=path, found="no such file") from None
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or error
        raise InputError("cannot be read", file=path, found=found) from None
    if not stat.S_ISREG(mode):
        found = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise InputError("not a regular file", file=path, found=found)


def read_settings(path: str | os.PathLike[str]) -> str:
    """Return the text of a small file, at most `MAX_SETTINGS` bytes long."""
    check_regular(path)
    if Path(path).stat().st_size > MAX_SETTINGS:
        raise InputError("file too large", file=path, expected=f"at most {MAX_SETTINGS} bytes")
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text", file=path, expected="text") from None
    except OSError as error:
        raise InputError("cannot be read", file=path, found=error.strerror or error) from None


def parse_toml(text: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what TOML text holds; keys of very many parts, which cost much memory, are refused.

    Raises
    ------
    InputError
        If it is no TOML, or a key has too many parts.

    Examples
    --------
    >>> parse_toml("shape = [4, 4]", "torus.toml")
    {'shape': [4, 4]}
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if _DOTTED.match(line):
            expected = f"fewer than {_MAX_DOTS} dots"
            raise InputError("key of too many parts", file=path, line=number, expected=expected)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError("is no TOML", file=path, found=error) from None
    except RecursionError:
        raise InputError("nested too deeply", file=path, expected="TOML") from None
