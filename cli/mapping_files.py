"""Task mappings to a file, or several to a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click

import toruscast as tc
from toruscast.errors import InputError

from .options import option
from .output import Output, check_folder, check_writable
from .slow import registry

_NAMED = 3
OUT_FORMAT = (
    "Format of what is written, such as rank-order or rankfile; by its suffix if not given. "
    "'toruscast formats' lists all."
)


@dataclass(frozen=True)
class MappingFile:
    """Where the best mapping goes, and in which format."""

    GROUP: ClassVar = "Output"
    out: str | None = option(
        "Write the fastest mapping, with search from its start on, by its suffix or --out-format "
        "for a launcher; with rank all candidates to a FOLDER/.",
        "FILE",
    )
    out_format: str | None = option(OUT_FORMAT, "NAME")

    def check(self, hosts: str | None = None, *, folder: bool = False) -> None:
        """Raise early what writing would raise after the work.

        Parameters
        ----------
        hosts : str, optional
            The table of hosts that the command is given.
        folder : bool
            Whether ``out`` may be a folder for several mappings.

        Raises
        ------
        UsageError
            If there is a format and no file.
        InputError
            If nothing names a format that is written, the format needs a table of hosts, or the
            file cannot be written.
        """
        if self.out is None:
            if self.out_format is not None:
                raise click.UsageError("--out-format needs --out")
            return
        if folder and is_folder(self.out):
            if self.out_format is not None:
                raise click.UsageError("a folder takes .map files: --out-format needs a file")
            check_folder(self.out)
            return
        check_format(self.out, self.out_format, hosts)
        check_writable(self.out)

    def write(self, mapping: tc.TaskMapping, torus: tc.Torus, hosts: str | None = None) -> str:
        """Write a mapping where it is wanted; return a line that says where, and how to use it."""
        if self.out is None:
            return ""
        advice = tc.write_mapping(mapping, self.out, self.out_format, torus=torus, hosts=hosts)
        return f"{mapping.name} is in {self.out}" + (f"; to use it: {advice}" if advice else "")

    @contextmanager
    def only_if_done(self) -> Iterator[None]:
        """Put back what was in the file before, if the block that writes it fails."""
        path = None if self.out is None else Path(self.out)
        before = path.read_bytes() if path is not None and path.is_file() else None
        try:
            yield
        except BaseException:
            if path is not None and before is not None:
                path.write_bytes(before)
            elif path is not None:
                path.unlink(missing_ok=True)
            raise


def check_format(path: str, name: str | None, hosts: str | None) -> None:
    """Raise where no format to write is named, or it names hosts and no table of them is given."""
    chosen = registry.dialect_to_write("mapping", path, name)
    if chosen.on_hosts and hosts is None:
        expected = "add --hosts FILE, a CSV such as host,x,y,z"
        raise InputError(f"{chosen.name} needs host names", expected=expected)


def is_folder(path: str) -> bool:
    """Whether mappings that go to ``path`` go into a folder: one that stands, or ends in "/"."""
    # Unlike that of Path, this says no of what can be no name.
    return path.endswith("/") or os.path.isdir(path)  # noqa: PTH112


def write_to_folder(
    mappings: Sequence[tc.TaskMapping], torus: tc.Torus, folder: str, output: Output
) -> None:
    """Write mappings into a folder, and say which others stay in it.

    Of an earlier run or the user's own: nobody can tell, but both are read along with these.

    Raises
    ------
    InputError
        As `write_mappings`.
    """
    tc.write_mappings(mappings, folder, torus=torus)
    written = {f"{mapping.name}.map" for mapping in mappings}
    others = sorted({file.name for file in Path(folder).glob("[!.]*.map")} - written)
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        output.message(
            f"{folder} also holds mappings that this run has not written: "
            f"{', '.join(others[:_NAMED])}{more}"
        )
