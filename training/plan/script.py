"""A script of the user's that runs a mapping and prints seconds; what it prints outlives us."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

PLACE = "{map}"
"""Stands in a command for the file of the mapping."""
# The shell that runs the command notes how it ended, whether or not anybody waits for it.
_SHELL = 'sh -c "$1"; echo $? > "$2/status.part"; mv "$2/status.part" "$2/status"'
# Bytes that are read from the end of what a script prints.
_TAIL = 65_536
_POLL = 0.2
# Seconds between the request to end and the end by force.
_GRACE = 2.0
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE)
_NUMBER_LIKE = re.compile(r"[-+]?(?:\.?\d|nan\b|inf)", re.IGNORECASE)
_SECONDS = ("s", "sec", "secs", "second", "seconds")
_OTHER_UNITS = ("ms", "us", "ns", "min", "h", "msec", "usec", "minutes", "hours")


class RunError(RuntimeError):
    """A run on the machine failed, or gave no time."""


class Script:
    """A command that runs one mapping at a time, and a folder that holds its last run.

    The folder outlives this process: a run that ends later, or whose time nobody took, is found
    there.

    Parameters
    ----------
    command : str
        For the shell; `PLACE` stands for the file of the mapping.
    folder : path-like
        Holds the run that is under way, and nothing else; made when needed.
    timeout : float
        Seconds after which a run is ended.
    """

    def __init__(self, command: str, folder: str | os.PathLike[str], timeout: float) -> None:
        self.command, self.folder, self.timeout = command, Path(folder), timeout

    def run(self, name: str, write: Callable[[Path], Path], note: dict[str, Any]) -> float:
        """Run a mapping and return its seconds; what is noted is kept with them until `settle`.

        ``write`` makes the file of the mapping in the folder that it is given, or elsewhere.

        Raises
        ------
        RunError
            If the script fails, prints no time or takes too long.
        """
        self.settle()
        self.folder.mkdir(parents=True)
        try:
            file = write(self.folder)
        except BaseException:
            self.settle()
            raise
        self._path("run.part").write_text(json.dumps({"mapping": name, **note}))
        self._path("run.part").replace(self._path("run.json"))
        command = self.command.replace(PLACE, shlex.quote(str(file.absolute())))
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
                raise RunError("a run that was begun earlier still goes on")
            time.sleep(_POLL)
        # It may have ended between the two looks.
        with suppress(RunError):
            return self._outcome("")
        return None

    def settle(self) -> None:
        """Forget the run: its time stands elsewhere now, or is not wanted."""
        shutil.rmtree(self.folder, ignore_errors=True)

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


def last_seconds(text: str) -> float:
    r"""Return the last number of a text, a positive number of seconds.

    Raises
    ------
    ValueError
        If there is none, it is not positive, or has another unit.

    Examples
    --------
    >>> last_seconds("64 tasks\nelapsed: 1.25 s\n")
    1.25
    >>> last_seconds("took 25 ms")
    Traceback (most recent call last):
        ...
    ValueError: found 25 ms, expected positive seconds at the end of what the script prints
    """
    expected = "expected positive seconds at the end of what the script prints"
    words = [word.rstrip(".") for word in re.split(r"[\s=:,;()\[\]]+", text)]
    places = [i for i, word in enumerate(words) if _NUMBER_LIKE.match(word)]
    if not places:
        raise ValueError(f"found no number, {expected}")
    last = words[places[-1]]
    after = words[places[-1] + 1] if places[-1] + 1 < len(words) else ""
    number = _NUMBER.match(last)
    unit = last[number.end() :] if number else last
    found = f"{last} {after}" if after.lower() in _OTHER_UNITS else last
    if number and found == last and unit.lower() in ("", *_SECONDS):
        seconds = float(number[0])
        if 0 < seconds < float("inf"):
            return seconds
    raise ValueError(f"found {found[:40]}, {expected}")


def _tail(path: Path) -> str:
    """The end of what was printed."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL))
            return stream.read().decode(errors="replace")
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
