"""Task mappings to a file, or several to a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .output import Output, check_folder, check_writable

if TYPE_CHECKING:
    from toruscast.mapping import TaskMapping, Torus

SUFFIXES = (".map", ".txt", ".csv")
_NAMED = 3


def is_folder(path: str) -> bool:
    """Whether mappings that go to ``path`` go into a folder: one that stands, or ends in "/"."""
    # Unlike that of Path, this says no of what can be no name.
    return path.endswith("/") or os.path.isdir(path)  # noqa: PTH112


def check_target(path: str) -> None:
    """Raise early what writing mappings to ``path`` would raise after the work.

    Raises
    ------
    InputError
        If the suffix names no format, or ``path`` cannot be written.
    """
    if is_folder(path):
        check_folder(path)
    else:
        check_writable(path, SUFFIXES)


def write_to_folder(
    mappings: Sequence[TaskMapping], torus: Torus, folder: str, output: Output
) -> None:
    """Write mappings into a folder, and say which others stay in it.

    Of an earlier run or the user's own: nobody can tell, but both are read along with these.

    Raises
    ------
    InputError
        As `write_mappings`.
    """
    from toruscast.mapping.formats import write_mappings

    write_mappings(mappings, torus, folder)
    written = {f"{mapping.name}.map" for mapping in mappings}
    others = sorted({file.name for file in Path(folder).glob("[!.]*.map")} - written)
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        output.message(
            f"{folder} also holds mappings that this run has not written: "
            f"{', '.join(others[:_NAMED])}{more}"
        )
