"""What whatever is raised means to the user: one line, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from toruscast.wording import shortened

FAILED = 1
WRONG_INPUT = 2
INTERRUPTED = 130
TRACEBACK = "TORUSCAST_TRACEBACK"

# Where the errors are defined whose message is for the user, and how they end the command.
_TOLD = (
    ("toruscast.errors", "InputError", WRONG_INPUT),
    ("toruscast.errors", "WorkersError", FAILED),
    ("toruscast.simulation.stall", "StallError", FAILED),
    ("toruscast.training.plan.script", "RunError", FAILED),
)
# Options whose readers recognise every format.
_RECOGNISED = {"--comm", "--mapping", "--mappings", "--torus", "--hosts"}


class Ended(SystemExit):
    """The system asked the program to end."""


def wants_traceback() -> bool:
    """Whether the user asked to see where the unexpected was raised."""
    return bool(os.environ.get(TRACEBACK))


def described(error: Exception, arguments: Sequence[str] = ()) -> tuple[str, int]:
    """Return a text for an error, and the exit code.

    Where a file is of another kind than its option among the ``arguments`` takes, the text says so.

    Examples
    --------
    >>> described(FileNotFoundError(2, "No such file", "a.txt"))
    ('a.txt: No such file', 1)
    """
    for module, name, code in _TOLD:
        # Whatever raised one of these has imported the module that defines it.
        if module in sys.modules and isinstance(error, getattr(sys.modules[module], name)):
            return str(error) + _purpose_of(getattr(error, "file", None), error, arguments), code
    if isinstance(error, MemoryError):
        return "out of memory", FAILED
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        where = shortened(str(error.filename), 1000) if error.filename else ""
        return f"{where}: {reason}" if where else reason, FAILED
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"unexpected {shortened(text, 1000)} (set {TRACEBACK}=1 to see where)", FAILED


def _purpose_of(file: str | None, error: Exception, arguments: Sequence[str]) -> str:
    """Say what a file is that the user gave an option which takes something else."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    if file is None or file not in words or not _is_file(file):
        return ""
    from toruscast.errors import InputError
    from toruscast.mapping.formats.registry import purpose
    from toruscast.mapping.formats.source import Source

    # Where the format is recognised, the readers say it themselves.
    given = {before for before, word in pairwise(words) if word == file} - _RECOGNISED
    if not given or words[0] in ("convert", "doctor"):
        return ""
    with suppress(InputError):
        what = purpose(Source(file), "times" if "--times" in given else None)
        if what and getattr(error, "line", None) in (None, 1):
            return f" (it looks like {what})"
    return ""


def _is_file(file: str) -> bool:
    try:
        return Path(file).is_file()
    except (OSError, ValueError):
        return False
