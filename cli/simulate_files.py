"""All that a simulation has found, in a folder of files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import plain, write_text

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.features import Simulation


def check_folder(folder: str) -> None:
    """Raise early what writing into ``folder`` would raise after the work.

    Raises
    ------
    InputError
        If it is something else than a folder, or cannot be made.
    """
    from toruscast.mapping import InputError

    place = Path(folder)
    if place.exists() and not place.is_dir():
        raise InputError("cannot be written", file=folder, found="a file", expected="a folder")
    if not place.exists() and not place.absolute().parent.is_dir():
        raise InputError("cannot be written", file=folder, found="no such folder")


def labelled_links(result: Simulation) -> pd.DataFrame:
    """Return the counters of every link, its name first."""
    table = result.links()
    table.insert(0, "label", [result.torus.link_label(int(link)) for link in table.index])
    return table


def write_folder(
    folder: str, result: Simulation, links: pd.DataFrame, summary: dict[str, Any]
) -> None:
    """Write every table as CSV, ``summary.json`` and ``trace.json``; all of it or no folder.

    A folder that stands already keeps its other files; those of an earlier run are replaced, and
    the time series and logs that this run has not are removed.
    """
    from toruscast.features.message_life import message_life
    from toruscast.features.trace import write_trace

    tables: dict[str, Callable[[], pd.DataFrame] | None] = {
        "messages": result.messages,
        "tasks": result.tasks,
        "phases": result.phases,
        "links": lambda: links,
        "fifos": result.fifos,
        "series": result.series if any(s.snapshots for s in result.stretches) else None,
        "log": result.log if any(len(s.log) for s in result.stretches) else None,
        "life": partial(message_life, result)
        if any(len(s.log) for s in result.stretches)
        else None,
    }
    place = Path(folder)
    fresh = not place.exists()
    place.mkdir(exist_ok=True)
    try:
        for name, table in tables.items():
            path = place / f"{name}.csv"
            if table is None:
                path.unlink(missing_ok=True)
                continue
            found = table()
            write_text(found.to_csv(index=bool(found.index.name), lineterminator="\n"), str(path))
        write_trace(result, place / "trace.json")
        text = json.dumps(plain(summary), indent=2, allow_nan=False) + "\n"
        write_text(text, str(place / "summary.json"))
    except BaseException:
        if fresh:
            shutil.rmtree(place, ignore_errors=True)
        raise
