"""What a table of samples is made of on disk: the finished table, and parts until it holds them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

import toruscast
from toruscast.features import FEATURES
from toruscast.mapping.formats import folder_to_fill

from ._keys import Job, SampleOptions, digest
from ._parts import known, marks_of, parts_of
from .store import FORMAT, LABELS, VERSION, locked, read_samples, write_samples


class SampleFiles:
    """A table of samples and the folder of its parts; several processes may use them at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Path(path)
        self._folder = self._store.with_name(self._store.name + ".parts")

    def read(self, how: SampleOptions) -> list[pd.DataFrame]:
        """Return the parts of runs that have not ended and the finished table, if there is one.

        They are without features of another function than that of their name today.
        """
        with locked(self._store):
            files = self._read()
        return list(_current(files, self._marks(files, how)).values())

    def keep(self, part: pd.DataFrame, how: SampleOptions) -> None:
        """Write a part, so that a run that is killed need not compute it again."""
        name = f"{digest(*part['key'], *part.columns)}.parquet"
        with locked(self._store), folder_to_fill(self._folder) as folder:
            write_samples(part, folder / name, {"marks": marks_of(how)})

    def merge(
        self,
        table: pd.DataFrame,
        jobs: Sequence[Job],
        how: SampleOptions,
        provenance: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Add samples to the table, with what parts hold of them; return what is noted.

        The parts that the table holds then are removed.
        """
        with locked(self._store):
            files = self._read()
            marks = self._marks(files, how)
            tables = _current(files, marks)
            finished = [tables[self._store]] if self._store in tables else []
            before = _provenance(files[self._store]) if finished else {}
            # Rows by their names; what they hold by their keys.
            rows = pd.concat([each[list(LABELS)] for each in (*finished, table)])
            rows = rows.drop_duplicates(keep="last", ignore_index=True)
            held = known([table, *tables.values()])
            whole = rows.join(held.drop(columns=list(LABELS), errors="ignore"), on="key")
            is_new = bool(parts_of(jobs, how, known(finished)))
            origin = noted(whole, how, provenance, marks, before, is_new=is_new)
            write_samples(_ordered(whole), self._store, origin)
            self._remove_parts(files, set(whole["key"]))
        return origin

    def _marks(self, files: Mapping[Path, pd.DataFrame], how: SampleOptions) -> dict[str, str]:
        """Return the marks of features: as asked for, as in the table, or as in the parts."""
        marks = marks_of(how)
        settled = {feature.name for feature in how.features}
        for path in sorted(files, key=lambda path: path != self._store):
            new = files[path].columns.difference(list(settled))
            stored = _provenance(files[path]).get("marks", {})
            marks |= {name: stored[name] for name in new if name in stored}
            settled.update(new)
        return marks

    def _read(self) -> dict[Path, pd.DataFrame]:
        finished = [self._store] if self._store.exists() else []
        parts = sorted(self._folder.glob("[!.]*.parquet"))
        return {path: read_samples(path, changed="keep") for path in (*parts, *finished)}

    def _remove_parts(self, files: Mapping[Path, pd.DataFrame], held: set[str]) -> None:
        """Remove the parts of samples that the table holds; the folder too if none are left."""
        left = False
        for path, table in files.items():
            if path != self._store:
                if held.issuperset(table["key"]):
                    path.unlink()
                else:
                    left = True
        if not left:
            shutil.rmtree(self._folder, ignore_errors=True)


def _provenance(table: pd.DataFrame) -> dict[str, Any]:
    origin: dict[str, Any] = table.attrs["provenance"]
    return origin


def noted(
    samples: pd.DataFrame,
    how: SampleOptions,
    provenance: Mapping[str, Any],
    marks: Mapping[str, str],
    before: Mapping[str, Any] = MappingProxyType({}),
    *,
    is_new: bool = True,
) -> dict[str, Any]:
    """Return what is noted with samples, beside what was noted with those of ``before``."""
    return {
        **before,
        "format": FORMAT,
        "version": VERSION,
        **(_made() if is_new else {}),
        "routing": _all(before.get("routing", how.routing), how.routing),
        "coarsening": _all(before.get("coarsening", how.coarsening), how.coarsening),
        **provenance,
        "level": max(before.get("level", 1), provenance["level"]),
        "kinds": sorted({*before.get("kinds", []), *provenance["kinds"]}),
        "marks": dict(marks),
        "graphs": sorted(set(samples["workload"])),
        "tori": sorted(set(samples["torus"])),
    }


def _current(
    files: Mapping[Path, pd.DataFrame], marks: Mapping[str, str]
) -> dict[Path, pd.DataFrame]:
    """Return tables without what has another mark: the values of another function."""
    tables = {}
    for path, table in files.items():
        stored = _provenance(table).get("marks", {})
        other = [name for name in table.columns if stored.get(name) != marks.get(name)]
        tables[path] = table.drop(columns=other)
    return tables


def _made() -> dict[str, str]:
    """Return by what and when samples are added."""
    return {
        "toruscast": toruscast.__version__,
        "numpy": np.__version__,
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _all(before: object, now: object) -> object:
    """Return what was noted before and now: a list if they differ."""
    every = {*(before if isinstance(before, list) else [before]), now}
    return now if len(every) == 1 else sorted(every, key=str)


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its features in the order of the registry, whoever added them when."""
    features = [name for name in FEATURES if name in table.columns]
    others = table.columns.difference([*LABELS, *features, "time"], sort=False)
    return table[[*LABELS, *features, *others, "time"]]
