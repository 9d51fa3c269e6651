"""Loop that runs the mappings of a plan with the user's command."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shlex
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from toruscast.errors import InputError, InputWarning, ReportedError
from toruscast.formats.times import append_run
from toruscast.mapping import TaskMapping

from .planning import Plan

logger = logging.getLogger(__name__)
PLACEHOLDER = "{map}"
"""Placeholder in a command for the file of the mapping."""
# A path that every shell reads as one word, inside and outside quotes.
_PLAIN_PATH = re.compile(r"[\w/.,=@%+-]+", re.ASCII)
# Maximum number of bytes to read from the end of a command's output.
_TAIL_BYTES = 65_536
# Seconds between SIGTERM and SIGKILL.
_GRACE = 2.0
_SECOND_UNIT = r"s(?:ec(?:ond)?s?)?"
_OTHER_UNITS = (
    r"(?:[mun\xb5\u03bc]s(?:ecs?)?|(?:milli|micro|nano)s?(?:ec(?:ond)?s?)?"
    r"|m|min(?:ute)?s?|h|hrs?|hours?|days?)"
)
_SECONDS = re.compile(
    r"(?P<label>(?:.*?[\s=:(\[])?)(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)"
    rf"(?P<unit>\s*{_SECOND_UNIT}\b)?[\s.;)\]]*",
    re.IGNORECASE | re.ASCII,
)
# A line with a digit of any script, or with a word for infinity or "not a number".
_MAY_BE_TIME = re.compile(r"\d|\b(?:nan|inf|infinity)\b", re.IGNORECASE)
# A label of another unit, such as "elapsed (ms):", "time_us=", "timeMs" or "MB/s".
_OTHER_UNIT = re.compile(
    rf"(?i:(?<![a-z]){_OTHER_UNITS}(?![a-z])|milli|micro|nano|%|/\s*s\b|hz)|(?<=[a-z])[MUN]s(?![a-z])"
)
# A word with a letter that is not a number, such as "x2", "8x8x8" or "time[s".
_WORD = re.compile(r"(?![-+\d.]+(?:e[-+]?\d*)?$).*[^\W\d_].*", re.IGNORECASE)
# A number with a unit, such as the minutes in "2 min 30 s".
_AMOUNT = re.compile(rf"\d\s*(?:{_OTHER_UNITS}|{_SECOND_UNIT})(?![a-z])", re.IGNORECASE)


class RunError(ReportedError, RuntimeError):
    """A run on the machine failed, or printed no time."""


def run_script(command: str, mapping: str, file: Path, timeout: float) -> float:
    """Run a command on a mapping's file and return the seconds that the command prints.

    After a timeout or an interruption, the command and its child processes are killed.
    """
    shell_command = command.replace(PLACEHOLDER, shlex.quote(str(file.absolute())))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # In a new session, signals also reach the child processes.
        process = subprocess.Popen(
            shell_command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            message = f"run of {mapping} was killed after {timeout:g} s (--timeout)"
            raise RunError(message) from None
        finally:
            if process.returncode is None:
                _kill_session(process)
        if status < 0:
            raise RunError(f"run of {mapping} was killed")
        if status:
            lines = _read_tail(err).strip().splitlines()
            reason = f": {lines[-1].strip()}" if lines else ""
            raise RunError(f"run of {mapping} failed, exit status {status}{reason}")
        try:
            return last_seconds(_read_tail(out))
        except ValueError as error:
            raise RunError(f"run of {mapping} printed no time: {error}") from None


def check_command(command: str, folder: Path) -> None:
    """Raise `InputError` if a command has no placeholder, or if its quotes would split the path."""
    if PLACEHOLDER not in command:
        expected = f"./job.sh {PLACEHOLDER}"
        raise InputError(f"no {PLACEHOLDER} in the command", found=command, expected=expected)
    # The path is inserted with its own quotes; inside other quotes, a shell would split it.
    if not _PLAIN_PATH.fullmatch(str(folder)) and re.search(r"['\"`\\]|<<", command):
        message = "quotes in the command, and a folder that must be quoted"
        expected = "a folder of letters, digits and /._-, or a command without quotes"
        raise InputError(message, found=str(folder), expected=expected)


def last_seconds(text: str) -> float:
    """Return the seconds in the last line with a digit: a number, with or without a label."""
    expected = "expected positive seconds at the end, such as 'elapsed: 1.25 s'"
    lines = [line.strip() for line in text.splitlines() if _MAY_BE_TIME.search(line)]
    if not lines:
        raise ValueError(f"found no number, {expected}")
    match = _SECONDS.fullmatch(lines[-1])
    if match and _is_label(match["label"], has_unit=bool(match["unit"])):
        seconds = float(match["number"])
        if 0 < seconds < float("inf"):
            return seconds
    found = lines[-1] if len(lines[-1]) <= 60 else f"...{lines[-1][-57:]}"
    raise ValueError(f"found {found}, {expected}")


def _is_label(text: str, *, has_unit: bool) -> bool:
    """Return whether the text before a number is a label, without a unit other than seconds."""
    words = text.rstrip(" \t=:([").split()
    # A preceding number may belong to the time: "1 234.5", "12: 34.5", "1.5 +- 0.1".
    if words and (words[-1][0] in "+-" or not _WORD.fullmatch(words[-1])):
        return False
    return not _AMOUNT.search(text) and (has_unit or not _OTHER_UNIT.search(text))


def _read_tail(stream: IO[bytes]) -> str:
    """Return the last complete lines of the output."""
    start = max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES)
    stream.seek(start)
    # Drop the first line, which may be incomplete.
    content = stream.read() if not start else stream.read().partition(b"\n")[2]
    return content.decode(errors="replace")


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a shell and its child processes."""
    for number, timeout in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
            return


def run_folder(runs_file: str | os.PathLike[str]) -> Path:
    """Return the folder, next to a file of runs, that holds the mapping being run."""
    file = Path(os.path.realpath(runs_file))
    return file.with_name(f".{file.name}.run")


@contextmanager
def lock_runs(runs_file: str | os.PathLike[str]) -> Iterator[Path]:
    """Create the `run_folder` and lock it against other plans that use the same file of runs.

    The lock is a separate file, because another program may replace the file of runs.
    """
    folder = run_folder(runs_file)
    folder.mkdir(exist_ok=True)
    lock = folder / "lock"
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{os.fspath(runs_file)}: another plan is writing its runs here"
            raise RunError(message) from None
        try:
            yield folder
        finally:
            lock.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


def run_plan(
    plan: Plan,
    command: str,
    runs_file: str | os.PathLike[str],
    write: Callable[[TaskMapping, Path], Path],
    *,
    timeout: float,
    max_runs: int,
    batch: int = 1,
    observed: Callable[[str, float], None] | None = None,
) -> None:
    """Run mappings until the plan has enough runs, or ``max_runs`` runs.

    ``write`` writes a mapping to a folder and returns its file, on which ``command`` runs. Each run
    is appended to ``runs_file``, and ``observed`` is called with the mapping's name and the
    seconds.
    """
    while not plan.is_enough and plan.n_runs < max_runs:
        for mapping in plan.ask(min(batch, max_runs - plan.n_runs)):
            name, size = plan.name_of(mapping), _file_size(runs_file)
            file = write(mapping, run_folder(runs_file))
            try:
                seconds = run_script(command, name, file, timeout)
            finally:
                file.unlink(missing_ok=True)
            if _file_size(runs_file) != size:
                message = f"{runs_file}: another program wrote to it during the run"
                note = "the added lines are kept, and the next plan uses them"
                warnings.warn(f"{message}; {note}", InputWarning, stacklevel=2)
            # The plan checks the time before the file is changed.
            plan.observe(name, seconds)
            append_run(runs_file, name, seconds)
            fields = {"mapping": name, "time_on_machine": seconds, "runs": plan.n_runs}
            message = "run %d: %s took %.6g s"
            logger.info(message, plan.n_runs, name, seconds, extra={"event": "ran", **fields})
            if observed is not None:
                observed(name, seconds)


def _file_size(runs_file: str | os.PathLike[str]) -> int:
    try:
        return Path(runs_file).stat().st_size
    except FileNotFoundError:
        return 0
