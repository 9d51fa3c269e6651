"""Mappings on their way to the machine: files for a launcher, and a script that runs them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

import toruscast as tc
from toruscast.errors import InputError
from toruscast.units import percent, seconds

from ..mapping_files import OUT_FORMAT
from ..options import ABOVE_0, check_format_of_hosts, option
from ..output import Output, check_folder

# Runs that a script makes at most unless another number is given.
_RUNS = 30


@dataclass(frozen=True)
class Launch:
    """Where mappings go, and what runs them."""

    GROUP: ClassVar = "Output"
    out: str | None = option(
        "Write the next mappings here; the best, once the runs are enough.", "FOLDER"
    )
    out_format: str | None = option(OUT_FORMAT, "NAME")
    script: str | None = option(
        "RUNS THIS COMMAND for each mapping that is chosen, {map} being its file, which needs "
        "no quotes. It prints its seconds last, such as 1.25 or 'elapsed: 1.25 s'; they go to "
        "--times. A run that was ended goes on when the same command is given again.",
        "'CMD {map}'",
        "--run",
        group="Work",
    )
    timeout: float = option(
        "Seconds after which a run of --run is ended.",
        "S",
        default=3600.0,
        type=ABOVE_0,
        group="Work",
    )

    def check(self, times: str | None, hosts: str | None) -> None:
        """Raise early what would be raised after the work.

        Raises
        ------
        UsageError
            If options do not go together.
        InputError
            If the folder cannot be written, or there is no such format.
        """
        from toruscast.mapping.formats.registry import dialect_to_write
        from toruscast.training.plan.script import PLACE, check_command

        if self.script is not None and times is None:
            raise click.UsageError("--run needs --times, the file that takes the runs")
        if self.script is not None and PLACE not in self.script:
            raise click.UsageError(f"--run needs {PLACE}, the file of the mapping")
        if self.script is not None:
            check_command(self.script)
        if self.out_format is not None:
            if self.script is None and self.out is None:
                raise click.UsageError("--out-format needs --out or --run")
            chosen = dialect_to_write("mapping", "", self.out_format)
            check_format_of_hosts(chosen.name, chosen.on_hosts, hosts)
        if self.out is not None:
            check_folder(self.out)

    def check_names(self, mappings: Sequence[tc.TaskMapping], times: str | None) -> None:
        """Raise early where files of these names cannot be written, or one is the file of runs.

        Raises
        ------
        InputError
            If it is so.
        """
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
        self, mapping: tc.TaskMapping, name: str, folder: Path, hosts: str | None
    ) -> tuple[Path, str]:
        """Write a mapping under its name into a folder.

        Returns
        -------
        tuple of Path and str
            The file, and how it is used; empty where that needs no word.
        """
        from toruscast.mapping.formats import folder_to_fill

        with folder_to_fill(folder):
            file = folder / f"{name}{self._suffix}"
            return file, tc.write_mapping(mapping, file, self.out_format, hosts=hosts)

    @property
    def _suffix(self) -> str:
        from toruscast.mapping.formats.registry import dialect_of

        if self.out_format is None:
            return ".map"
        known = dialect_of(self.out_format, "mapping").suffixes
        return next((each for each in known if each.startswith(".")), ".txt")

    def drive(
        self,
        made: tc.training.Plan,
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

        script = Script(self.script or "", folder_of(times), self.timeout)
        if script.is_running():
            output.message("waiting for a run that was started before the stop")
        taken = take_left(made, script, times)
        if taken is not None:
            time = seconds(made.runs.seconds[-1]) if made.runs is not None else ""
            output.message(f"{taken}: run started before the stop: counted, {time}")
        limit = _RUNS if most is None else most
        with output.progress("Running") as progress:

            def say(name: str, time: float) -> None:
                standing = made.standing
                output.message(
                    f"run {made.n_runs}: {name} took {seconds(time)}; {standing.best} leads, "
                    f"{percent(standing.certainty)} sure"
                )
                progress(made.n_runs, limit)

            def write(mapping: tc.TaskMapping, folder: Path) -> Path:
                # Whatever the script does with the path, no shell takes a part of it for a word.
                name = re.sub(r"^\.|[^\w.,=@%+-]", "_", made.name_of(mapping), flags=re.ASCII)
                return self.write(mapping, name, folder, hosts)[0]

            progress(made.n_runs, limit)
            drive(made, script, times, write, most=limit, batch=batch, observed=say)
