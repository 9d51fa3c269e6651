"""The loop that runs what a plan asks for, and the script of the user's that it runs."""

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

PLACE = "{map}"
"""Stands in a command for the file of the mapping."""
# A path that every shell takes for one word, within quotes and without.
_PLAIN_PATH = re.compile(r"[\w/.,=@%+-]+", re.ASCII)
# Bytes that are read from the end of what a script prints.
_TAIL = 65_536
# Seconds between the request to end and the end by force.
_GRACE = 2.0
_S = r"s(?:ec(?:ond)?s?)?"
_UNIT = (
    r"(?:[mun\xb5\u03bc]s(?:ecs?)?|(?:milli|micro|nano)s?(?:ec(?:ond)?s?)?"
    r"|m|min(?:ute)?s?|h|hrs?|hours?|days?)"
)
_SECONDS = re.compile(
    r"(?P<label>(?:.*?[\s=:(\[])?)(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)"
    rf"(?P<unit>\s*{_S}\b)?[\s.;)\]]*",
    re.IGNORECASE | re.ASCII,
)
# A line that may hold a time: with a digit of any script, or a word for what is no number.
_MAY_BE_TIME = re.compile(r"\d|\b(?:nan|inf|infinity)\b", re.IGNORECASE)
# A label of another unit, such as "elapsed (ms):", "time_us=", "timeMs" or "MB/s".
_OTHER_UNIT = re.compile(
    rf"(?i:(?<![a-z]){_UNIT}(?![a-z])|milli|micro|nano|%|/\s*s\b|hz)|(?<=[a-z])[MUN]s(?![a-z])"
)
# Holds a letter and is no number itself, such as "x2", "8x8x8" or "time[s".
_WORD = re.compile(r"(?![-+\d.]+(?:e[-+]?\d*)?$).*[^\W\d_].*", re.IGNORECASE)
# A part of a time before the number, such as "2 min 30 s".
_AMOUNT = re.compile(rf"\d\s*(?:{_UNIT}|{_S})(?![a-z])", re.IGNORECASE)


class RunError(ReportedError, RuntimeError):
    """A run on the machine failed, or gave no time."""


def run_script(command: str, mapping: str, file: Path, timeout: float) -> float:
    """Run a command on the file of a mapping and return the seconds that it prints.

    Where it takes too long, or this is interrupted, all that the command started ends too.
    """
    line = command.replace(PLACE, shlex.quote(str(file.absolute())))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # A session of its own, so that a signal reaches all that the command starts.
        process = subprocess.Popen(
            line,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            message = f"run of {mapping} ended after {timeout:g} s: it had not finished (--timeout)"
            raise RunError(message) from None
        finally:
            if process.returncode is None:
                _end(process)
        if status < 0:
            raise RunError(f"run of {mapping} was killed")
        if status:
            lines = _tail(err).strip().splitlines()
            reason = f": {lines[-1].strip()}" if lines else ""
            raise RunError(f"run of {mapping} failed, exit status {status}{reason}")
        try:
            return last_seconds(_tail(out))
        except ValueError as error:
            raise RunError(f"run of {mapping} gave no time: {error}") from None


def check_command(command: str, folder: Path) -> None:
    """Raise unless a command names the mapping's file, and a shell reads that path as a word."""
    if PLACE not in command:
        raise InputError(f"no {PLACE} in a command", found=command, expected=f"./job.sh {PLACE}")
    # The path is put in quotes, which other quotes would take apart.
    if not _PLAIN_PATH.fullmatch(str(folder)) and re.search(r"['\"`\\]|<<", command):
        raise InputError(
            "quotes in a command, and a folder that needs quotes itself",
            found=str(folder),
            expected="a folder named by letters, digits and /._-, or a command without quotes",
        )


def last_seconds(text: str) -> float:
    r"""Return the seconds that a text ends with: one plain number, with a label or without.

    Lines behind it hold no digits.
    """
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
    """Whether the number behind a text is whole, and in seconds as far as the text tells."""
    words = text.rstrip(" \t=:([").split()
    # Another number right before may belong to this one: "1 234.5", "12: 34.5", "1.5 +- 0.1".
    if words and (words[-1][0] in "+-" or not _WORD.fullmatch(words[-1])):
        return False
    return not _AMOUNT.search(text) and (has_unit or not _OTHER_UNIT.search(text))


def _tail(stream: IO[bytes]) -> str:
    """The end of what was printed, in whole lines."""
    start = max(0, stream.seek(0, os.SEEK_END) - _TAIL)
    stream.seek(start)
    # The first line may be a part of a line, and a part of a number another number.
    content = stream.read() if not start else stream.read().partition(b"\n")[2]
    return content.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a shell and all that it started."""
    for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return


logger = logging.getLogger(__name__)


def folder_of(runs_file: str | os.PathLike[str]) -> Path:
    """Return the folder beside a file of runs that holds the mapping under way."""
    file = Path(os.path.realpath(runs_file))
    return file.with_name(f".{file.name}.run")


@contextmanager
def only_one(runs_file: str | os.PathLike[str]) -> Iterator[Path]:
    """Make the folder of `folder_of` and keep other processes from planning on the same runs.

    The lock is a file of its own, so that it holds where another program replaces the file of runs.
    """
    folder = folder_of(runs_file)
    folder.mkdir(exist_ok=True)
    lock = folder / "lock"
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{os.fspath(runs_file)}: another plan writes its runs here"
            raise RunError(message) from None
        try:
            yield folder
        finally:
            lock.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


def drive(
    plan: Plan,
    command: str,
    runs_file: str | os.PathLike[str],
    write: Callable[[TaskMapping, Path], Path],
    *,
    timeout: float,
    most: int,
    batch: int = 1,
    observed: Callable[[str, float], None] | None = None,
) -> None:
    """Run mappings until the plan has enough, or so many runs are in the file."""
    while not plan.is_enough and plan.n_runs < most:
        for mapping in plan.ask(min(batch, most - plan.n_runs)):
            name, size = plan.name_of(mapping), _size(runs_file)
            file = write(mapping, folder_of(runs_file))
            try:
                seconds = run_script(command, name, file, timeout)
            finally:
                file.unlink(missing_ok=True)
            if _size(runs_file) != size:
                warnings.warn(
                    f"{runs_file}: another program wrote to it during the run; its lines stay, "
                    "and count when the plan is made anew",
                    InputWarning,
                    stacklevel=2,
                )
            # A time that the plan refuses must not get into the file.
            plan.observe(name, seconds)
            append_run(runs_file, name, seconds)
            ran = {"mapping": name, "time_on_machine": seconds, "runs": plan.n_runs}
            words = "run %d: %s took %.6g s"
            logger.info(words, plan.n_runs, name, seconds, extra={"event": "ran", **ran})
            if observed is not None:
                observed(name, seconds)


def _size(runs_file: str | os.PathLike[str]) -> int:
    try:
        return Path(runs_file).stat().st_size
    except FileNotFoundError:
        return 0
