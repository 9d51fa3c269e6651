"""All that a simulation has found, in a folder of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toruscast.atomic import folder_beside
from toruscast.errors import InputError

from ..output import check_folder, write_text
from ..recording import json_text
from ..slow import pd, simulation_trace

if TYPE_CHECKING:
    from toruscast.simulation import Simulation

_TABLES = ("messages", "tasks", "phases", "links", "fifos", "series")
_ALWAYS = ("summary.json", "trace.json")
_FILES = (*(f"{name}.csv" for name in _TABLES), *_ALWAYS)


def inside(folder: str | None) -> dict[str, str | None]:
    """Return the folder and the files in it that `write_folder` may write, by name."""
    if folder is None:
        return {}
    paths: dict[str, str | None] = {f"{file} of --out": str(Path(folder) / file) for file in _FILES}
    return paths | {"--out": folder}


def check_result_folder(folder: str) -> None:
    """Raise early what `write_folder` would raise after the work.

    Raises
    ------
    InputError
        If the folder cannot be written, or has files of these names that no simulation wrote.
    """
    check_folder(folder)
    standing = [name for name in _FILES if (Path(folder) / name).exists()]
    if standing and not set(_ALWAYS).issubset(standing):
        raise InputError(
            "would be replaced",
            file=Path(folder) / standing[0],
            expected="--out with a new folder, or that of an earlier simulation",
        )


def write_folder(
    folder: str, result: Simulation, links: pd.DataFrame, summary: dict[str, Any]
) -> None:
    """Write every table as CSV, ``summary.json`` and ``trace.json``; all of it or nothing.

    ``links`` is what `labelled` returns.
    A folder that stands already keeps its other files; those of an earlier run are replaced once
    all new ones are written, and a time series that this run has not is removed.
    """
    made: tuple[Callable[[], pd.DataFrame] | None, ...] = (
        result.messages,
        result.tasks,
        result.phases,
        lambda: links,
        result.fifos,
        result.series if any(s.snapshots for s in result.stretches) else None,
    )
    tables = dict(zip(_TABLES, made, strict=True))
    place = Path(os.path.realpath(folder))
    # In the place if it stands, else on the same disk.
    beside = place if place.exists() else place.parent
    with folder_beside(place, beside) as stage:
        for name, table in tables.items():
            if table is not None:
                found = table()
                text = found.to_csv(index=bool(found.index.name), lineterminator="\n")
                write_text(text, str(stage / f"{name}.csv"))
        simulation_trace.write_trace(result, stage / "trace.json")
        text = json_text(summary)
        write_text(text, str(stage / "summary.json"))
        _put(stage, place, [f"{name}.csv" for name in tables])


def _put(stage: Path, place: Path, ours: list[str]) -> None:
    """Let the files of a folder appear in their place, and remove what this run has not."""
    if not place.exists():
        stage.rename(place)
        return
    written = {path.name for path in stage.iterdir()}
    for name in written:
        (stage / name).replace(place / name)
    for name in set(ours) - written:
        (place / name).unlink(missing_ok=True)
