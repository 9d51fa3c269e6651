"""From a file or the name of a dataset to what is sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from toruscast.report.units import part_of
from toruscast.wording import closest, printable, shortened

from .progress import working
from .records import Include

if TYPE_CHECKING:
    from toruscast.mapping import Workload


def read_traffic(comm: str, include: Include, **how: Any) -> tuple[Workload, float | None]:
    """Return the traffic of a file or dataset, and the dataset's iterations.

    ``how`` goes to `read_workload`.

    Raises
    ------
    InputError
        If the text names neither, or the file is not valid.
    """
    from toruscast import datasets
    from toruscast.errors import InputError, MissingFileError
    from toruscast.mapping import as_workload

    known = datasets.names()
    # A folder of results may be called as what was simulated.
    if is_file(comm) and not (comm in known and Path(comm).is_dir()):
        return _read(comm, include, how), None
    if comm in known:
        for option, value in how.items():
            if value not in (None, "auto", "refuse", {}):
                name = "--tasks" if option == "n_tasks" else f"--{option}"
                raise InputError(f"a shipped dataset takes no {name}", file=comm, found=value)
        iterations = datasets.provenance(comm).get("iterations")
        graph = datasets.load(comm, include=include)
        return as_workload(graph), None if iterations is None else float(iterations)
    # A path that does not exist may be the common prefix of per-rank files.
    try:
        return _read(comm, include, how), None
    except MissingFileError:
        if "/" in comm or "." in comm:
            raise
        raise InputError(
            "neither a file nor a shipped dataset",
            found=comm,
            expected=f"a file or {closest(comm, known)}",
        ) from None


def _read(comm: str, include: Include, how: dict[str, Any]) -> Workload:
    from toruscast.mapping.formats import read_workload

    with working(f"Reading {shortened(printable(comm), 40)}", part_of("bytes")) as progress:
        return read_workload(comm, include=include, progress=progress, **how)


def is_file(text: str) -> bool:
    """Whether a word of the command line names something that exists."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False
