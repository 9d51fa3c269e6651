"""The loop that runs what a plan asks for, keeps every time, and goes on where it was ended."""

from __future__ import annotations

import fcntl
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from toruscast.errors import InputWarning
from toruscast.mapping import TaskMapping
from toruscast.mapping.formats.times import append_run, is_logged

from .next_run import Plan
from .script import RunError, Script

logger = logging.getLogger(__name__)
Observed = Callable[[str, float], None]
Write = Callable[[TaskMapping, Path], Path]


def folder_of(runs_file: str | os.PathLike[str]) -> Path:
    """Return the folder beside a file of runs that holds the run under way."""
    file = Path(os.path.realpath(runs_file))
    return file.with_name(f".{file.name}.run")


@contextmanager
def only_one(runs_file: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes from planning on the same file of runs.

    An empty file beside it is locked, so that no file that may hold runs is made or removed, and
    the lock holds where another program replaces the file of runs.

    Raises
    ------
    RunError
        If another process plans already.
    """
    runs = Path(os.path.realpath(runs_file))
    lock = runs.with_name(f".{runs.name}.lock")
    handle = _locked(lock, runs_file)
    try:
        yield
    finally:
        if not os.fstat(handle).st_size:
            lock.unlink(missing_ok=True)
        os.close(handle)


def _locked(lock: Path, runs_file: str | os.PathLike[str]) -> int:
    """Open and lock a file, made if it is missing."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The process before may have removed it meanwhile.
            if os.path.samestat(os.fstat(handle), lock.stat()):
                return handle
        except BlockingIOError:
            os.close(handle)
            raise RunError(f"{os.fspath(runs_file)}: another plan writes its runs here") from None
        except FileNotFoundError:
            pass
        os.close(handle)


def take_left(plan: Plan, script: Script, runs_file: str | os.PathLike[str]) -> str | None:
    """Take in the run of an earlier process that was ended before it could write the time.

    Returns
    -------
    str or None
        The mapping whose time was taken in; None if there was none to take.
    """
    note = script.left()
    if note is None:
        script.settle()
        return None
    name: Any = note.get("mapping")
    size: Any = note.get("size")
    seconds = script.outcome_of_left()
    taken = None
    is_ours = isinstance(name, str) and name in plan.names
    # A shorter file is another one.
    is_ours = is_ours and isinstance(size, int) and _size(runs_file) >= size
    if seconds is not None and is_ours and not is_logged(runs_file, size, name, seconds):
        _keep(plan, runs_file, name, seconds)
        taken = name
    script.settle()
    return taken


def drive(
    plan: Plan,
    script: Script,
    runs_file: str | os.PathLike[str],
    write: Write,
    *,
    most: int,
    batch: int = 1,
    observed: Observed | None = None,
) -> None:
    """Run mappings until the plan has enough, or so many runs stand in the file.

    Parameters
    ----------
    plan : Plan
        Knows the runs of the file.
    write : callable
        Makes the file of a mapping in the folder that it is given; returns its path.
    most : int
        Runs in all, those of the file included.
    batch : int
        Mappings that are run before the plan looks again.
    observed : callable, optional
        Called with mapping and seconds once a time is in the file.

    Raises
    ------
    RunError
        If the script fails, takes too long or prints no time.
    """
    while not plan.is_enough and plan.n_runs < most:
        for mapping in plan.ask(min(batch, most - plan.n_runs)):
            name = plan.name_of(mapping)
            note = {"size": _size(runs_file)}
            seconds = script.run(name, partial(write, mapping), note)
            if _size(runs_file) != note["size"]:
                warnings.warn(
                    f"{runs_file}: another program wrote to it during the run; its lines stay, and "
                    "count when the plan is made anew",
                    InputWarning,
                    stacklevel=2,
                )
            try:
                _keep(plan, runs_file, name, seconds)
            finally:
                script.settle()
            if observed is not None:
                observed(name, seconds)


def _keep(plan: Plan, runs_file: str | os.PathLike[str], name: str, seconds: float) -> None:
    """Write a time to the file if the plan can use it."""
    plan.observe(name, seconds)
    append_run(runs_file, name, seconds)
    ran = {"event": "ran", "mapping": name, "time_on_machine": seconds, "runs": plan.n_runs}
    logger.info("run %d: %s took %.6g s", plan.n_runs, name, seconds, extra=ran)


def _size(runs_file: str | os.PathLike[str]) -> int:
    """Return the bytes of the file, none if there is none."""
    try:
        return Path(runs_file).stat().st_size
    except FileNotFoundError:
        return 0
