"""Communication graphs of real applications, with their provenance, and published tables.

Open MPI's monitoring recorded the graphs; ``PROVENANCE.md`` describes how. The tables
(`table_names`) contain numbers from papers, which the first lines of each file cite.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from toruscast._lazy import lazy_modules
from toruscast.validation import one_of

if TYPE_CHECKING:
    import numpy as np

    from toruscast.mapping import comm_graph
else:
    globals().update(lazy_modules(__name__))

KINDS = ("point_to_point", "collective")
__all__ = ["load", "names", "path", "provenance", "table_names", "table_path"]


def names() -> list[str]:
    """Return the names of the datasets, in alphabetical order.

    Examples
    --------
    >>> from toruscast import datasets
    >>> "lammps-lj-64" in datasets.names()
    True
    """
    return sorted(_register())


def path(name: str) -> Path:
    """Return the file of a dataset: Open MPI's monitoring output of all ranks.

    Examples
    --------
    >>> from toruscast import datasets
    >>> datasets.path("lammps-lj-64").name
    'lammps-lj-64.prof.gz'
    """
    return _folder() / str(_record(name)["file"])


def provenance(name: str) -> dict[str, Any]:
    """Return the provenance of a dataset.

    Keys include application, command, date, licence, ranks, iterations, process_grid and sha256.
    "traffic" has the numbers of edges, bytes and messages for each kind of communication,
    point-to-point or inside collectives.

    Examples
    --------
    >>> from toruscast import datasets
    >>> record = datasets.provenance("lammps-lj-64")
    >>> record["ranks"], record["process_grid"], record["licence"]
    (64, [4, 4, 4], 'BSD-3-Clause')
    """
    return deepcopy(_record(name))


def load(
    name: str, *, include: Literal["all", "point_to_point", "collective"] = "all"
) -> comm_graph.CommGraph:
    """Return the communication graph of a dataset: the traffic of the whole run.

    ``include`` selects point-to-point messages, messages of collectives, or all. The traffic covers
    all iterations; divide by ``provenance(name)["iterations"]`` to get the traffic of one
    iteration. The graph has the process grid of the application, if there is one.

    Examples
    --------
    >>> from toruscast import datasets
    >>> halo = datasets.load("lammps-lj-64", include="point_to_point")
    >>> halo.n_tasks, halo.n_edges, halo.grid
    (64, 384, (4, 4, 4))
    """
    record = _record(name)
    one_of(include, "include", ("all", *KINDS))
    kinds = KINDS if include == "all" else (include,)
    with np.load(_folder() / f"{name}.npz", allow_pickle=False) as arrays:
        columns = np.concatenate([arrays[kind] for kind in kinds], axis=1)
    return comm_graph.sum_edges(record["ranks"], *columns, grid=record["process_grid"], name=name)


def table_names() -> list[str]:
    """Return the names of the published tables, in alphabetical order.

    Examples
    --------
    >>> from toruscast import datasets
    >>> datasets.table_names()[:2]
    ['codesign-systems', 'codesign-upgrades']
    """
    return sorted(table.stem for table in _folder().glob("*.csv"))


def table_path(name: str) -> Path:
    """Return the CSV file of a published table; its first lines describe it.

    Examples
    --------
    >>> from toruscast import datasets
    >>> datasets.table_path("lsdyna-interconnect").name
    'lsdyna-interconnect.csv'
    """
    one_of(name, "table", tuple(table_names()))
    return _folder() / f"{name}.csv"


def _folder() -> Path:
    # The package data are ordinary files, because pip unpacks wheels.
    return Path(str(files(__name__)))


@cache
def _register() -> dict[str, dict[str, Any]]:
    text = (_folder() / "provenance.json").read_text(encoding="utf-8")
    return cast(dict[str, dict[str, Any]], json.loads(text))


def _record(name: str) -> dict[str, Any]:
    one_of(name, "dataset", tuple(names()))
    return _register()[name]
