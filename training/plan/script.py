"""A script of the user's that runs a mapping and prints seconds; what it prints outlives us."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from toruscast.errors import InputError

PLACE = "{map}"
"""Stands in a command for the file of the mapping."""
# The path reaches the shell as the value of a variable: no shell reads it as a program.
_VARIABLE = "TORUSCAST_MAP"
# The shell that runs the command notes how it ended, whether or not anybody waits for it.
_SHELL = 'sh -c "$1"; echo $? > "$2/status.part"; mv "$2/status.part" "$2/status"'
# Bytes that are read from the end of what a script prints.
_TAIL = 65_536
_POLL = 0.2
# Seconds between the request to end and the end by force.
_GRACE = 2.0
# Files of a run, besides that of the mapping.
_FILES = ("run.part", "run.json", "out", "err", "running", "status.part", "status")
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


class RunError(RuntimeError):
    """A run on the machine failed, or gave no time."""


class Script:
    """A command that runs one mapping at a time, and a folder that holds its last run.

    The folder outlives this process: a run that ends later, or whose time nobody took, is found
    there.

    Parameters
    ----------
    command : str
        For the shell; `PLACE` means the file of the mapping.
    folder : path-like
        Holds the run that is under way; made when needed.
    timeout : float
        Seconds after which a run is ended.

    Raises
    ------
    InputError
        If the file stands within quotes, which would take it apart.
    """

    def __init__(self, command: str, folder: str | os.PathLike[str], timeout: float) -> None:
        check_command(command)
        self.command, self.folder, self.timeout = command, Path(folder), timeout

    def run(self, name: str, write: Callable[[Path], Path], note: dict[str, Any]) -> float:
        """Run a mapping and return its seconds; what is noted is kept with them until `settle`.

        ``write`` makes the file of the mapping in the folder that it is given.

        Raises
        ------
        RunError
            If the script fails, prints no time or takes too long.
        """
        self.settle()
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            file = write(self.folder)
        except BaseException:
            self.settle()
            raise
        noted = {"mapping": name, "file": file.name, **note}
        self._path("run.part").write_text(json.dumps(noted))
        self._path("run.part").replace(self._path("run.json"))
        command = self.command.replace(PLACE, f'"${_VARIABLE}"')
        with (
            self._path("out").open("wb") as out,
            self._path("err").open("wb") as err,
            self._path("running").open("wb") as running,
        ):
            # The shell holds the lock as long as the run goes on, even if we are gone.
            fcntl.flock(running, fcntl.LOCK_EX)
            process = subprocess.Popen(
                ["/bin/sh", "-c", _SHELL, "sh", command, str(self.folder.absolute())],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ | {_VARIABLE: str(file.absolute())},
                start_new_session=True,
                pass_fds=(running.fileno(),),
            )
        try:
            process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            self.settle()
            raise RunError(
                f"run of {name} ended after {self.timeout:g} s: it had not finished (--timeout)"
            ) from None
        except BaseException:
            _end(process)
            self.settle()
            raise
        try:
            return self._outcome(name)
        except RunError:
            self.settle()
            raise

    def left(self) -> dict[str, Any] | None:
        """Return what was noted of a run that an earlier process began, None if there is none."""
        with suppress(OSError, ValueError):
            note = json.loads(self._path("run.json").read_text())
            return note if isinstance(note, dict) else None
        return None

    def is_running(self) -> bool:
        """Whether the run of an earlier process still goes on."""
        if self._path("status").exists():
            return False
        try:
            with self._path("running").open("rb") as running:
                fcntl.flock(running, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def outcome_of_left(self) -> float | None:
        """Wait for the run of an earlier process; return its seconds, None if it gave none.

        Raises
        ------
        RunError
            If it takes too long.
        """
        until = time.monotonic() + self.timeout
        while self.is_running():
            if time.monotonic() > until:
                raise RunError("a run that was started earlier still goes on")
            time.sleep(_POLL)
        # It may have ended between the two looks.
        with suppress(RunError):
            return self._outcome("")
        return None

    def settle(self) -> None:
        """Forget the run: its time stands elsewhere now, or is not wanted.

        Only files of the run are removed, and the folder if nothing else is in it.
        """
        file = (self.left() or {}).get("file")
        own = [file] if isinstance(file, str) and Path(file).name == file else []
        for name in (*own, *_FILES):
            with suppress(OSError):
                self._path(name).unlink()
        with suppress(OSError):
            self.folder.rmdir()

    def _outcome(self, name: str) -> float:
        """Return the seconds that a run printed."""
        try:
            status = self._path("status").read_text().strip()
        except OSError:
            raise RunError(f"run of {name} was killed") from None
        if status != "0":
            lines = _tail(self._path("err")).strip().splitlines()
            said = f": {lines[-1].strip()}" if lines else ""
            raise RunError(f"run of {name} failed, exit status {status}{said}")
        try:
            return last_seconds(_tail(self._path("out")))
        except ValueError as error:
            raise RunError(f"run of {name} gave no time: {error}") from None

    def _path(self, name: str) -> Path:
        return self.folder / name


def check_command(command: str) -> None:
    """Raise unless the file of the mapping stands in a command, and nowhere within quotes.

    Examples
    --------
    >>> check_command('echo "job of $(wc -l < {map}) tasks"; ./job.sh {map}')
    >>> check_command("sh -c './job.sh {map}'")
    Traceback (most recent call last):
        ...
    toruscast.errors.InputError: {map} within quotes: found './job.sh {map}, expected ./job.sh {map}
    """
    if PLACE not in command:
        raise InputError(f"no {PLACE} in a command", found=command, expected=f"./job.sh {PLACE}")
    # What is open: "'", '"', "`", "}" of "${" and ")" of "$(" or "(".
    opened, began, at, here_document = [""], 0, 0, False
    while at < len(command):
        inner, sign, two = opened[-1], command[at], command[at : at + 2]
        if command.startswith(PLACE, at):
            if inner not in ("", ")"):
                found, expected = command[began : at + len(PLACE)], f"./job.sh {PLACE}"
                raise InputError(f"{PLACE} within quotes", found=found, expected=expected)
            at += len(PLACE)
            continue
        if sign == inner:
            opened.pop()
        elif inner == "'":
            pass
        elif sign == "\\":
            if command.startswith(PLACE, at + 1):
                found, expected = command[at : at + 1 + len(PLACE)], f"./job.sh {PLACE}"
                raise InputError(f"{PLACE} within quotes", found=found, expected=expected)
            at += 1
        elif two in ("$(", "${"):
            opened.append(")" if two == "$(" else "}")
            began, at = at, at + 1
        elif sign in '"`' or (sign == "'" and inner != '"'):
            opened.append(sign)
            began = at
        elif inner in ("", ")"):
            if sign == "(":
                opened.append(")")
            elif sign == "#" and (at == 0 or command[at - 1] in " \t\n;&|("):
                at = (command + "\n").index("\n", at) - 1
            here_document |= two == "<<"
            if here_document and sign == "\n" and PLACE in command[at:]:
                raise InputError(f"{PLACE} behind a here-document", expected=f"./job.sh {PLACE}")
        at += 1


def last_seconds(text: str) -> float:
    r"""Return the seconds that a text ends with: one plain number, with a label or without.

    Lines behind it hold no digits.

    Raises
    ------
    ValueError
        If there is no such number, or it is not positive, has another unit or stands beside another
        number, as in a clock's time or with a comma.

    Examples
    --------
    >>> last_seconds("64 tasks\nelapsed: 1.25 s\n")
    1.25
    >>> last_seconds("took 25 ms")
    Traceback (most recent call last):
        ...
    ValueError: found took 25 ms, expected positive seconds at the end, such as 'elapsed: 1.25 s'
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


def _tail(path: Path) -> str:
    """The end of what was printed, in whole lines."""
    try:
        with path.open("rb") as stream:
            start = max(0, stream.seek(0, os.SEEK_END) - _TAIL)
            stream.seek(start)
            # The first line may be a part of a line, and a part of a number another number.
            content = stream.read() if not start else stream.read().partition(b"\n")[2]
            return content.decode(errors="replace")
    except OSError:
        return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a shell and all that it started."""
    for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return
