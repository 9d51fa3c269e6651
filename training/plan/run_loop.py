"""The loop that runs what a plan asks for and keeps every time in the file of runs."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from toruscast.errors import InputWarning
from toruscast.mapping import TaskMapping
from toruscast.mapping.formats.times import append_run

from .next_run import Plan
from .script import RunError, run_script

logger = logging.getLogger(__name__)


def folder_of(runs_file: str | os.PathLike[str]) -> Path:
    """Return the folder beside a file of runs that holds the mapping under way."""
    file = Path(os.path.realpath(runs_file))
    return file.with_name(f".{file.name}.run")


@contextmanager
def only_one(runs_file: str | os.PathLike[str]) -> Iterator[Path]:
    """Make the folder of `folder_of` and keep other processes from planning on the same runs.

    The lock is a file of its own, so that it holds where another program replaces the file of runs.

    Raises
    ------
    RunError
        If another process plans already.
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
    """Run mappings until the plan has enough, or so many runs are in the file.

    SIGTERM and SIGHUP end the run under way, as Ctrl-C does.

    Parameters
    ----------
    plan : Plan
        Knows the runs of the file.
    command : str
        As `run_script` takes it.
    write : callable
        Makes the file of a mapping in the folder that it is given; returns its path.
    timeout : float
        Seconds after which a run is ended.
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
    # `nohup` has SIGHUP ignored.
    ends = (n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN)
    before = {number: signal.signal(number, signal.default_int_handler) for number in ends}
    try:
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
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _size(runs_file: str | os.PathLike[str]) -> int:
    """Return the bytes of the file, none if there is none."""
    try:
        return Path(runs_file).stat().st_size
    except FileNotFoundError:
        return 0
