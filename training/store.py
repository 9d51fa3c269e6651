"""Tables of samples on disk."""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, astuple
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import toruscast
from toruscast._features import FEATURES, Feature
from toruscast._features.registry import FORMER_NAMES
from toruscast._slow import pandas as pd
from toruscast._slow import parquet
from toruscast._slow import pyarrow as pa
from toruscast.errors import InputError, MissingFileError
from toruscast.files import (
    as_damaged,
    at_file,
    atomic_path,
    check_claim,
    check_path,
    check_regular,
    check_target,
    folder_to_fill,
    note_read,
    temporary_beside,
)
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.text import counted

if TYPE_CHECKING:
    from toruscast.mapping.problem import Mappings

# To be raised when the same names and numbers give other samples.
KEY_VERSION = 4
# Features that have had other values under the same name, and how many times: only they are
# computed anew.
CHANGED: dict[str, int] = {
    f"{aggregate}_{family}{suffix}": 1
    for family in ("buffer", "delay")
    for aggregate in ("avg", "max", "sum", "count", "std", "median", "q90", "q99")
    for suffix in ("", "_AO", "_TO")
}


class SampleOptions(NamedTuple):
    """What is computed of every mapping."""

    features: tuple[Feature, ...]
    coarsening: int | None = None
    iterations: int = 1


class SampleSet(NamedTuple):
    """Mappings of one problem, and the keys of their samples."""

    problem: MappingProblem
    mappings: tuple[TaskMapping, ...]
    keys: tuple[str, ...]

    @classmethod
    def from_mappings(
        cls, problem: MappingProblem, mappings: Mappings, how: SampleOptions
    ) -> SampleSet:
        """Return mappings of a problem with their keys; mappings that do not fit are an error."""
        several = problem.mappings(mappings)
        common = _key_of(problem, how)
        keys = (digest(common, mapping.node, mapping.slot) for mapping in several)
        return cls(problem, several, tuple(keys))

    def labels(self) -> pd.DataFrame:
        """Return what names each sample."""
        names = [mapping.name for mapping in self.mappings]
        values = [self.problem.workload.name, str(self.problem.torus), names, self.keys]
        return pd.DataFrame(dict(zip(LABELS, values, strict=True)), index=range(len(names)))


def _key_of(problem: MappingProblem, how: SampleOptions) -> str:
    """Hash everything that is simulated besides the mapping."""
    workload, torus = problem.workload, problem.torus
    arrays = [
        getattr(phase, field)
        for phase in workload
        for field in ("src", "dst", "nbytes", "n_messages")
    ]
    # The name of a torus and of its axes change nothing, nor do zones in dimension order, unless a
    # feature of somebody's own looks at them.
    adaptive = problem.common_routing != "deterministic"
    zones = torus.zones if adaptive or not all(f.is_built_in for f in how.features) else ()
    # Packets in dimension order go the same way under both.
    same = torus.tie_break == "bluegene" and not adaptive
    tie = "source_parity" if same else torus.tie_break
    sizes = torus.shape, torus.wrap, torus.bandwidth
    host: tuple[Any, ...] = (*sizes, torus.routing_order, tie, zones)
    if torus.twist or torus.exclusions:
        host += (torus.twist, astuple(torus.exclusions))
    repeated = (how.iterations,) if how.iterations > 1 else ()
    return digest(
        KEY_VERSION,
        toruscast.__version__,
        problem.routing,
        how.coarsening,
        host,
        # Whether rules are known changes no simulation.
        {key: value for key, value in asdict(torus.network).items() if key != "rules"},
        workload.n_tasks,
        workload.dependent,
        *arrays,
        *repeated,
    )


def mark_of(feature: Feature) -> str:
    """Name of a feature, and of one that is not toruscast's own its source, which may change."""
    function = feature.function
    if feature.is_built_in or not isinstance(function, FunctionType):
        changed = CHANGED.get(feature.name)
        return feature.name if changed is None else f"{feature.name} {changed}"
    try:
        source: str | bytes = inspect.getsource(function)
    except OSError:
        source = function.__code__.co_code
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    given = (cells, function.__defaults__, function.__kwdefaults__)
    return f"{feature.name} {digest(source, given)}"


def marks_of(features: Iterable[Feature]) -> dict[str, str]:
    """Return the mark of each feature whose name does not say it all."""
    marks = {feature.name: mark_of(feature) for feature in features}
    return {name: mark for name, mark in marks.items() if mark != name}


def changed_since(names: Iterable[str], marks: Mapping[str, str]) -> list[str]:
    """Return the features whose marks were others when a file was written.

    A file has no marks of those that have never changed, nor from before there were any.
    """
    known = [FEATURES[name] for name in names if name in FEATURES]
    return [
        feature.name
        for feature in known
        if (feature.is_built_in or feature.name in marks)
        and mark_of(feature) != marks.get(feature.name, feature.name)
    ]


def digest(*values: object) -> str:
    """Return a short hash of texts and arrays."""
    hasher = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            hasher.update(f"{value.dtype.str}{value.shape}".encode())
            hasher.update(np.ascontiguousarray(value).tobytes())
        else:
            hasher.update(repr(value).encode())
        hasher.update(b"\0")
    return hasher.hexdigest()[:24]


FORMAT = "toruscast samples"
VERSION = 1
_KEY = b"toruscast"
# Memory of a cell, most of them text.
_CELL_BYTES = 64
_EXPECTED = "one that toruscast train, evaluate or python -m studies build wrote, as it stands"
LABELS = ("workload", "torus", "mapping", "key")


def write_samples(
    table: pd.DataFrame, path: str | os.PathLike[str], provenance: dict[str, Any] | None = None
) -> None:
    """Write a table of samples and its provenance to a Parquet file, whole or not at all.

    Parameters
    ----------
    table : DataFrame
        A row per sample; columns ``workload``, ``torus``, ``mapping`` and ``key`` name it.
    path : path-like
        The file.
    provenance : dict, optional
        Anything that JSON can hold; that of ``table.attrs`` if not given.

    Examples
    --------
    >>> import tempfile
    >>> table = pd.DataFrame(
    ...     {"workload": ["a"], "torus": ["4x4"], "mapping": ["m"], "key": ["k"], "time": [1e-6]}
    ... )
    >>> path = tempfile.mkdtemp() + "/samples.parquet"
    >>> write_samples(table, path, {"command": "by hand"})
    >>> read_samples(path).attrs["provenance"]["command"]
    'by hand'
    """
    origin = table.attrs.get("provenance", {}) if provenance is None else provenance
    content = _encoded(table, origin)
    with atomic_path(path) as temporary:
        parquet.write_table(content, temporary)


def _encoded(table: pd.DataFrame, provenance: Mapping[str, Any]) -> Any:
    _check_labels(table)
    bare = table.copy(deep=False)
    bare.attrs = {}
    noted = {**provenance, "format": FORMAT, "version": VERSION, "n_samples": len(table)}
    try:
        text = json.dumps(noted)
        content = pa.Table.from_pandas(bare, preserve_index=False)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InputError("samples cannot be stored", found=error) from None
    return content.replace_schema_metadata({**(content.schema.metadata or {}), _KEY: text})


def read_samples(
    path: str | os.PathLike[str], changed: Literal["refuse", "keep"] = "refuse"
) -> pd.DataFrame:
    """Read a table of samples; its provenance is in ``attrs["provenance"]``.

    Features that have other values under their names since it was written are refused or kept.
    """
    began = time.perf_counter()
    check_regular(path)
    with at_file(path):
        stream = open(path, "rb")  # noqa: PTH123, SIM115
    # Damage of the metadata can show as nearly any error in the libraries underneath.
    with stream, as_damaged(path, "Parquet file"):
        # Threads that read ahead in a Python file may outlive the interpreter and abort it.
        file = parquet.ParquetFile(pa.PythonFile(stream), pre_buffer=False)
        n_rows, n_columns = file.metadata.num_rows, file.metadata.num_columns
        check_claim(path, _CELL_BYTES * n_rows * n_columns, counted(n_rows, "sample"))
        content = file.read(use_threads=False)
        origin = json.loads((content.schema.metadata or {}).get(_KEY, b"null"))
        _check_origin(origin, content.num_rows)
        table: pd.DataFrame = content.to_pandas().rename(columns=FORMER_NAMES)
        _check_labels(table)
        _check_values(table)
    others = changed_since(table.columns, dict(origin.get("marks", {})))
    if others and changed == "refuse":
        raise InputError(
            "features that were changed since the samples were made",
            file=path,
            found=", ".join(others),
            expected="samples made anew: --samples FILE beside --comm and --torus",
        )
    table.attrs["provenance"] = origin
    # What is kept of runs that have not ended is read by the hundred.
    if changed == "refuse":
        note_read("samples", path, began, samples=len(table))
    return table


class SampleFiles:
    """A table of samples, and beside it a folder of parts: tables of runs that have not ended.

    Several processes may use them at a time: every sample is in the table or in a part at any
    moment, and one process at a time changes them.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        check_path(path)
        self._path = path
        self._table = Path(os.path.realpath(path))
        self._folder = self._table.with_name(f"{self._table.name}.parts")

    def read(self) -> list[pd.DataFrame]:
        """Return the parts, the newest first, and then the table, if there are any."""
        if self._table.parent.is_dir():
            check_target(self._path)
        return list(self._read().values())

    def join(self, combine: Callable[[list[pd.DataFrame]], pd.DataFrame]) -> pd.DataFrame:
        """Replace the table and all parts by what a function makes of them; return it.

        Without locks the parts stay, since another run may replace the table by one without them.
        """
        with self._locked() as is_locked:
            found = self._read()
            table = combine(list(found.values()))
            write_samples(table, self._path)
            if is_locked:
                for path in found.keys() - {self._table}:
                    path.unlink()
                # A run that has not ended may have another part there.
                with suppress(OSError):
                    self._folder.rmdir()
        return table

    def add(self, table: pd.DataFrame, provenance: Mapping[str, Any]) -> None:
        """Keep samples as a part, which a run that is killed leaves."""
        content = _encoded(table, provenance)
        with self._locked(), temporary_beside(self._table) as temporary:
            parquet.write_table(content, temporary)
            self._folder.mkdir(exist_ok=True)
            # Names sort by time.
            temporary.rename(self._folder / f"{time.time_ns():020}-{temporary.stem[1:9]}.parquet")

    def _read(self) -> dict[Path, pd.DataFrame]:
        tables = {}
        for path in (*sorted(self._folder.glob("*.parquet"), reverse=True), self._table):
            # Another run may have joined it meanwhile.
            with suppress(MissingFileError):
                tables[path] = read_samples(path, changed="keep")
        return tables

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Keep other runs from changing the files; yield whether the file system has locks."""
        place = self._folder.with_suffix(".lock")
        with folder_to_fill(place.parent), ExitStack() as stack:
            is_locked, is_current = True, False
            while is_locked and not is_current:
                # NFS locks only files that are open for writing.
                file = stack.enter_context(place.open("a"))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX)
                except OSError:
                    is_locked = False
                # The previous holder removes the file.
                with suppress(FileNotFoundError):
                    is_current = os.path.samestat(os.fstat(file.fileno()), place.stat())
            stack.callback(place.unlink, missing_ok=True)
            yield is_locked


def up_to_date(
    tables: Iterable[pd.DataFrame], features: Iterable[Feature]
) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """Return tables without features of another function than asked for, and the marks of all.

    For features that are not asked for, the first table that has them decides.
    """
    tables = list(tables)
    marks: dict[str, str] = {}
    own = [{name: _marks_in(table).get(name, name) for name in table.columns} for table in tables]
    for each in reversed(own):
        marks |= each
    marks |= {feature.name: mark_of(feature) for feature in features}
    current = [
        table.drop(columns=[name for name, mark in each.items() if mark != marks[name]])
        for table, each in zip(tables, own, strict=True)
    ]
    return current, {name: mark for name, mark in marks.items() if mark != name}


def _marks_in(table: pd.DataFrame) -> dict[str, str]:
    return dict(table.attrs.get("provenance", {}).get("marks", {}))


def known(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return what tables hold of each sample, by its key; where several do, of the first."""
    some = [table for table in tables if len(table)]
    if not some:
        return pd.DataFrame()
    return pd.concat(some, ignore_index=True).groupby("key", sort=False).first()


def joined(tables: Sequence[pd.DataFrame], features: Iterable[Feature] = ()) -> pd.DataFrame:
    """Return the rows of several tables, the newest of which comes first, with all that is known.

    Rows go by their labels, values by their keys. The provenance is that of all tables.
    """
    current, marks = up_to_date(tables, features)
    # Rows of the newest table stay together, in its order.
    rows = pd.concat([table[list(LABELS)] for table in reversed(current) if len(table)])
    rows = rows.drop_duplicates(keep="last", ignore_index=True)
    values = known(current).drop(columns=list(LABELS), errors="ignore")
    whole = _ordered(rows.join(values, on="key"))
    origin: dict[str, Any] = {}
    for table in reversed(tables):
        origin = _both(origin, table.attrs.get("provenance", {}))
    whole.attrs["provenance"] = origin | _contents(whole) | {"marks": marks}
    return whole


def _both(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Join what is noted of two tables, the second of which is newer."""
    both = {**before, **now}
    for name in before.keys() & now.keys():
        if isinstance(now[name], dict) and isinstance(before[name], dict):
            both[name] = before[name] | now[name]
    for name in ("routing", "coarsening"):
        several = [each.get(name) for each in (before, now) if name in each]
        every = {v for value in several for v in (value if isinstance(value, list) else [value])}
        if len(every) > 1:
            both[name] = sorted(every, key=str)
    both["level"] = max(before.get("level", 1), now.get("level", 1))
    both["kinds"] = sorted({*before.get("kinds", []), *now.get("kinds", [])})
    return both


def noted(
    samples: pd.DataFrame, how: SampleOptions, provenance: Mapping[str, Any], *, is_new: bool
) -> dict[str, Any]:
    """Return what is noted with samples of one run, and, if it made any, by what and when."""
    made = {
        "toruscast": toruscast.__version__,
        "numpy": np.__version__,
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        **(made if is_new else {}),
        **provenance,
        "marks": marks_of(how.features),
        **_contents(samples),
    }


def _contents(samples: pd.DataFrame) -> dict[str, list[str]]:
    return {"graphs": sorted(set(samples["workload"])), "tori": sorted(set(samples["torus"]))}


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its features in the order of the registry, whoever added them when."""
    features = [name for name in FEATURES if name in table.columns]
    others = table.columns.difference([*LABELS, *features, "time"], sort=False)
    last = ["time"] if "time" in table.columns else []
    return table[[*LABELS, *features, *others, *last]]


def _check_origin(origin: Any, n_samples: int) -> None:
    """Raise unless this is what is noted with so many samples, in the format of this version."""
    if not isinstance(origin, dict) or origin.get("format") != FORMAT:
        raise InputError("not a table of samples", expected=_EXPECTED)
    # Files without a version are of the first.
    if origin.get("version", 1) != VERSION:
        raise InputError(
            "table of samples of a newer toruscast",
            found=f"version {origin['version']}, written by {origin.get('toruscast')}",
            expected=f"version {VERSION}; a newer toruscast reads it",
        )
    if n_samples != origin.get("n_samples"):
        raise InputError("samples missing", found=n_samples, expected=origin.get("n_samples"))


def _check_labels(table: pd.DataFrame) -> None:
    missing = [name for name in LABELS if name not in table.columns]
    if missing:
        raise InputError(
            "columns missing from samples", found=list(table.columns), expected=missing
        )


def _check_values(table: pd.DataFrame) -> None:
    """Raise where a label is no text, a number none, or rows of one key contradict each other."""
    for name in LABELS:
        bad = [value for value in table[name] if not isinstance(value, str)]
        if bad:
            raise InputError(
                f"column {name} of samples", found=bad[0], expected="text in every row"
            )
    numeric = [name for name in table.columns if pd.api.types.is_numeric_dtype(table[name])]
    for name in table.columns.difference([*LABELS, *numeric]):
        if name == "time" or name in FEATURES:
            found = str(table[name].dtype)
            raise InputError(f"column {name} of samples", found=found, expected="numbers")
    groups = table[table["key"].duplicated(keep=False)].groupby("key")[numeric]
    differ = (groups.max() != groups.min()).where(groups.count() > 0)
    if differ.any(axis=None):
        raise InputError(
            "samples with one key differ", expected="a key for each workload and mapping"
        )
