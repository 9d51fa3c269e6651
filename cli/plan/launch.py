"""Mappings on their way to the machine: files for a launcher, and a script that runs them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..output import Output, check_folder

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping
    from toruscast.training import Plan

# Runs that a script makes at most unless told otherwise.
_RUNS = 30


@dataclass(frozen=True)
class Launch:
    """Where mappings go, and what runs them."""

    out: str | None = None
    dialect: str | None = None
    script: str | None = None
    timeout: float = 3600.0

    def check(self, times: str | None, hosts: str | None) -> None:
        """Raise early what would be raised after the work.

        Raises
        ------
        UsageError
            If options do not go together.
        InputError
            If the folder cannot be written, or there is no such format.
        """
        from toruscast.errors import InputError
        from toruscast.mapping.formats.registry import dialect_to_write
        from toruscast.training.plan.script import PLACE, check_command

        if self.script is not None and times is None:
            raise click.UsageError("--run needs --times, the file that takes the runs")
        if self.script is not None and PLACE not in self.script:
            raise click.UsageError(f"--run needs {PLACE}, the file of the mapping")
        if self.script is not None:
            check_command(self.script)
        if self.dialect is not None:
            if self.script is None and self.out is None:
                raise click.UsageError("--dialect needs --out or --run")
            if dialect_to_write("mapping", "", self.dialect).on_hosts and hosts is None:
                expected = "add --hosts FILE, a CSV such as host,x,y,z"
                raise InputError(f"{self.dialect} needs host names", expected=expected)
        if self.out is not None:
            check_folder(self.out)

    def check_names(self, mappings: Sequence[TaskMapping], times: str | None) -> None:
        """Raise early where files of these names cannot be written, or one is the file of runs.

        Raises
        ------
        InputError
            If it is so.
        """
        from toruscast.errors import InputError
        from toruscast.mapping.formats.times import check_appendable
        from toruscast.training.forecast.answer import names_of

        names = names_of(mappings)
        if self.script is not None and times is not None:
            check_appendable(times, names)
        if self.out is None:
            return
        for name in names:
            if name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
                raise InputError("name of a mapping is no file name", found=repr(name))
            file = os.path.realpath(Path(self.out) / f"{name}{self._suffix}")
            if times is not None and file == os.path.realpath(times):
                found = f"mapping {name!r} in --out {self.out}"
                raise InputError("file of runs would be overwritten", file=times, found=found)

    def write(
        self, mapping: TaskMapping, name: str, folder: Path, hosts: str | None
    ) -> tuple[Path, str]:
        """Write a mapping under its name into a folder.

        Returns
        -------
        tuple of Path and str
            The file, and how it is used; empty where that needs no word.
        """
        from toruscast.mapping.formats import folder_to_fill, write_mapping

        with folder_to_fill(folder):
            file = folder / f"{name}{self._suffix}"
            return file, write_mapping(mapping, file, self.dialect, hosts=hosts)

    @property
    def _suffix(self) -> str:
        from toruscast.mapping.formats.registry import dialect_of

        if self.dialect is None:
            return ".map"
        known = dialect_of(self.dialect, "mapping").suffixes
        return next((each for each in known if each.startswith(".")), ".txt")

    def drive(
        self,
        made: Plan,
        times: str,
        hosts: str | None,
        *,
        most: int | None,
        batch: int,
        output: Output,
    ) -> None:
        """Run the script until the runs are enough, and say how each of them went."""
        from toruscast.training.plan.run_loop import drive, folder_of, take_left
        from toruscast.training.plan.script import Script
        from toruscast.units import percent, seconds

        script = Script(self.script or "", folder_of(times), self.timeout)
        if script.is_running():
            output.message("waiting for a run that was started before the stop")
        taken = take_left(made, script, times)
        if taken is not None:
            time = seconds(made.runs.seconds[-1]) if made.runs is not None else ""
            output.message(f"{taken}: run started before the stop: counted, {time}")
        limit = _RUNS if most is None else most
        with output.progress("Running") as progress:

            def told(name: str, time: float) -> None:
                standing = made.standing
                output.message(
                    f"run {made.n_runs}: {name} took {seconds(time)}; {standing.best} leads, "
                    f"{percent(standing.certainty)} sure"
                )
                progress(made.n_runs, limit)

            def write(mapping: TaskMapping, folder: Path) -> Path:
                # Whatever the script does with the path, no shell takes a part of it for a word.
                name = re.sub(r"^\.|[^\w.,=@%+-]", "_", made.name_of(mapping), flags=re.ASCII)
                return self.write(mapping, name, folder, hosts)[0]

            progress(made.n_runs, limit)
            drive(
                made,
                script,
                times,
                write,
                most=limit,
                batch=batch,
                told=told,
            )
