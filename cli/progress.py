"""Progress and records of a command: bars, words on stderr, lines of JSON."""

from __future__ import annotations

import json
import logging
import math
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from toruscast import __version__
from toruscast.errors import InputError
from toruscast.text import one_line

# Seconds of past steps that the remaining time is estimated from: steps may take minutes.
_PAST = 600.0


@contextmanager
def working(
    what: str, count: Callable[[int, int], str] = "{}/{}".format
) -> Iterator[Callable[..., None]]:
    """Give a function of (done, all) that moves a bar; it does nothing where nobody would see it.

    Beside the bar stands the ``count`` of both, the time so far and, from the second step on, the
    time that remains. A third argument says what is done now. Where "all" is None, what is done
    alone is shown. The bar goes when the block ends.
    """
    if _is_quiet() or not sys.stderr.isatty():
        yield lambda done, total, now=what: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    with Progress(
        "{task.description}",
        BarColumn(),
        "{task.fields[count]}",
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=_PAST,
    ) as bar:
        task = bar.add_task(what, total=None, count="")

        def move(done: int, total: int | None, now: str = what) -> None:
            text = str(done) if total is None else count(done, total)
            bar.update(task, description=now, completed=done, total=total, count=text)

        yield move


LOGGER = logging.getLogger("toruscast")
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


class JsonLine(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message and the fields of its event."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": one_line(record.getMessage()),
            **{name: value for name, value in vars(record).items() if name not in _USUAL},
        }
        return json_text(line, indent=None).rstrip("\n")


class LogFile(logging.FileHandler):
    """A file to which each record is appended at once."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Say once that no more can be written: the work is worth more than its log."""
        reason = getattr(sys.exception(), "strerror", None) or sys.exception()
        LOGGER.removeHandler(self)
        with suppress(OSError):
            self.close()
        click.echo(f"toruscast: warning: {self.baseFilename}: {reason}; no more log", err=True)


class InWords(logging.Handler):
    """Lines on stderr, without what the command says there anyhow."""

    def emit(self, record: logging.LogRecord) -> None:
        """Say it."""
        if record.name != __name__:
            click.echo(f"toruscast: {one_line(record.getMessage())}", err=True)


def begin(verbose: bool, path: str | None, quiet: bool = False) -> None:
    """Record from now on what is done; warnings are shown unless ``quiet``."""
    if path is not None:
        if Path(path).is_fifo():
            expected = "a file; -v says on stderr what is done"
            raise InputError("cannot be written", file=path, found="a pipe", expected=expected)
        try:
            file = LogFile(path, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise InputError("cannot be written", file=path, found=error.strerror) from None
        file.setFormatter(JsonLine())
        LOGGER.addHandler(file)
    if not quiet:
        LOGGER.addHandler(InWords(logging.INFO if verbose else logging.WARNING))
    if verbose or path is not None:
        LOGGER.setLevel(logging.INFO)
        python = platform.python_version()
        words = f"toruscast {__version__} began, with Python {python}"
        note(words, "began", toruscast=__version__, python=python, arguments=sys.argv[1:])


def tell(text: str) -> None:
    """Say something on stderr, unless nobody wants to hear it."""
    note(text, "message")
    if not _is_quiet():
        click.echo(f"toruscast: {one_line(text)}", err=True)


def _is_quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("quiet"))


def note(words: str, event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Record what the command says or does itself."""
    logging.getLogger(__name__).log(level, words, extra={"event": event, **fields})


def end(code: int) -> None:
    """Record how the command ended, and stop recording."""
    note(f"ended with exit code {code}", "ended", code=code)
    for handler in [h for h in LOGGER.handlers if isinstance(h, LogFile | InWords)]:
        LOGGER.removeHandler(handler)
        handler.close()
    LOGGER.setLevel(logging.NOTSET)


def json_text(content: Any, indent: int | None = 2) -> str:
    r"""Return JSON that ends a line: NumPy's numbers as numbers, and no number as null.

    Examples
    --------
    >>> json_text({"a": (1.0, float("nan"))}, indent=None)
    '{"a": [1.0, null]}\n'
    """
    return json.dumps(_plain(content), indent=indent, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
