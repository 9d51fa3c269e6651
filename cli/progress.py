"""Progress bars, messages on stderr, and the log of a command."""

from __future__ import annotations

import json
import logging
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
from toruscast.text import one_line, plain

# Seconds over which rich averages the speed. The period is long because a step may take minutes.
_SPEED_PERIOD = 600.0
LOGGER = logging.getLogger("toruscast")
_STANDARD_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
# Texts of a progress bar that has several stages.
_STAGES = {"features": "Routing", "simulations": "Simulating", "splits": "Measuring quality"}


@contextmanager
def show_progress(
    text: str, count: Callable[[int, int], str] = "{}/{}".format
) -> Iterator[Callable[..., None]]:
    """Yield a function of (stage, done, total) that moves a progress bar on stderr.

    The bar shows ``text`` or the text of the stage, the count of steps, the elapsed time and the
    remaining time. The count is ``count(done, total)``, or ``done`` if ``total`` is None; it
    disappears after the last step. With --quiet or without a terminal, there is no bar.
    """
    if _is_quiet() or not sys.stderr.isatty():
        yield lambda stage, done, total: None
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
        speed_estimate_period=_SPEED_PERIOD,
    ) as bar:
        task = bar.add_task(text, total=None, count="")

        def move(stage: str, done: int, total: int | None) -> None:
            is_open = total is None or done < total
            amount = str(done) if total is None else count(done, total)
            description = _STAGES.get(stage, text) if is_open else text
            amount = amount if is_open else ""
            bar.update(task, description=description, completed=done, total=total, count=amount)
            if not is_open:
                # rich moves a bar without a total back and forth.
                bar.tasks[task].total = None

        yield move


class _JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON with the fields of its event."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": one_line(record.getMessage()),
            **{name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS},
        }
        return format_json(line, indent=None).rstrip("\n")


class _LogFile(logging.FileHandler):
    """A log file that is closed after the first write error."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        reason = getattr(sys.exception(), "strerror", None) or sys.exception()
        LOGGER.removeHandler(self)
        with suppress(OSError):
            self.close()
        click.echo(f"toruscast: warning: {self.baseFilename}: {reason}; no more log", err=True)


class _StderrHandler(logging.Handler):
    """Print the library's log records on stderr; the command prints its own messages itself."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != __name__:
            click.echo(f"toruscast: {one_line(record.getMessage())}", err=True)


def start_log(verbose: bool, path: str | None, quiet: bool = False) -> None:
    """Log to the file ``path``; print warnings unless ``quiet``, and all records if ``verbose``."""
    if path is not None:
        if Path(path).is_fifo():
            expected = "a file, or -v for messages on stderr"
            raise InputError("cannot be written", file=path, found="a pipe", expected=expected)
        try:
            file = _LogFile(path, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise InputError("cannot be written", file=path, found=error.strerror) from None
        file.setFormatter(_JsonFormatter())
        LOGGER.addHandler(file)
    if not quiet:
        LOGGER.addHandler(_StderrHandler(logging.INFO if verbose else logging.WARNING))
    if verbose or path is not None:
        LOGGER.setLevel(logging.INFO)
        python = platform.python_version()
        message = f"toruscast {__version__} started with Python {python}"
        log_event(message, "began", toruscast=__version__, python=python, arguments=sys.argv[1:])


def print_message(text: str) -> None:
    """Print a message on stderr unless --quiet is given."""
    log_event(text, "message")
    if not _is_quiet():
        click.echo(f"toruscast: {one_line(text)}", err=True)


def _is_quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("quiet"))


def log_event(message: str, event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log an event of the command itself."""
    logging.getLogger(__name__).log(level, message, extra={"event": event, **fields})


def stop_log(code: int) -> None:
    """Log the exit code, and close the log."""
    log_event(f"ended with exit code {code}", "ended", code=code)
    for handler in [h for h in LOGGER.handlers if isinstance(h, _LogFile | _StderrHandler)]:
        LOGGER.removeHandler(handler)
        handler.close()
    LOGGER.setLevel(logging.NOTSET)


def format_json(content: Any, indent: int | None = 2) -> str:
    r"""Return JSON text with a newline at its end; NaN and infinity become null.

    Examples
    --------
    >>> format_json({"a": (1.0, float("nan"))}, indent=None)
    '{"a": [1.0, null]}\n'
    """
    return json.dumps(plain(content), indent=indent, allow_nan=False) + "\n"
