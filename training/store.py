"""Tables of samples in Parquet files, and keys that identify samples and features."""

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
from toruscast import files
from toruscast._features import FEATURES, Feature
from toruscast._features.registry import FORMER_NAMES
from toruscast._slow import pandas as pd
from toruscast._slow import parquet
from toruscast._slow import pyarrow as pa
from toruscast.errors import InputError, MissingFileError
from toruscast.formats.source import read_text, warn_about_unused
from toruscast.formats.tables import read_words
from toruscast.mapping import MappingProblem, TaskMapping
from toruscast.text import counted
from toruscast.validation import repeated

if TYPE_CHECKING:
    from toruscast.mapping.problem import Mappings

# Increase this version when the same inputs give other samples.
KEY_VERSION = 4
# Number of times that the definition of a built-in feature has changed.
CHANGED: dict[str, int] = {
    f"{aggregate}_{family}{suffix}": 1
    for family in ("buffer", "delay")
    for aggregate in ("avg", "max", "sum", "count", "std", "median", "q90", "q99")
    for suffix in ("", "_AO", "_TO")
}
FORMAT = "toruscast samples"
VERSION = 1
_KEY = b"toruscast"
# Estimated bytes of memory per cell; most cells are text.
_CELL_BYTES = 64
_EXPECTED = "a file of toruscast train, evaluate or python -m studies build"
LABELS = ("workload", "torus", "mapping", "key")


class SampleOptions(NamedTuple):
    """Options that all samples of a run share."""

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
        cls, problem: MappingProblem, mappings: Mappings, options: SampleOptions
    ) -> SampleSet:
        """Check the mappings of a problem, and return them with their keys."""
        checked = problem.mappings(mappings)
        common = _problem_key(problem, options)
        keys = (digest(common, mapping.node, mapping.slot) for mapping in checked)
        return cls(problem, checked, tuple(keys))

    def labels(self) -> pd.DataFrame:
        """Return a table of the samples with the columns `LABELS`."""
        names = [mapping.name for mapping in self.mappings]
        values = [self.problem.workload.name, str(self.problem.torus), names, self.keys]
        return pd.DataFrame(dict(zip(LABELS, values, strict=True)), index=range(len(names)))


def _problem_key(problem: MappingProblem, options: SampleOptions) -> str:
    """Hash all inputs that affect the result of a simulation, except the mapping."""
    workload, torus = problem.workload, problem.torus
    arrays = [
        getattr(phase, field)
        for phase in workload
        for field in ("src", "dst", "nbytes", "n_messages")
    ]
    # Zones affect only adaptive routing, and registered metrics that read them.
    adaptive = problem.common_routing != "deterministic"
    zones = torus.zones if adaptive or not all(f.is_built_in for f in options.features) else ()
    # With dimension-order routing, these two tie rules give the same routes.
    is_equal = torus.tie_break == "bluegene" and not adaptive
    tie = "source_parity" if is_equal else torus.tie_break
    sizes = torus.shape, torus.wrap, torus.bandwidth
    host: tuple[Any, ...] = (*sizes, torus.routing_order, tie, zones)
    if torus.twist or torus.exclusions:
        host += (torus.twist, astuple(torus.exclusions))
    iterations = (options.iterations,) if options.iterations > 1 else ()
    return digest(
        KEY_VERSION,
        toruscast.__version__,
        problem.routing,
        options.coarsening,
        host,
        # A simulation does not depend on which rules are unknown.
        {key: value for key, value in asdict(torus.network).items() if key != "unknown_rules"},
        workload.n_tasks,
        workload.dependent,
        *arrays,
        *iterations,
    )


def feature_mark(feature: Feature) -> str:
    """Return a feature's name with a version or hash that changes when its definition changes."""
    function = feature.function
    if feature.is_built_in or not isinstance(function, FunctionType):
        changed = CHANGED.get(feature.name)
        return feature.name if changed is None else f"{feature.name} {changed}"
    try:
        source: str | bytes = inspect.getsource(function)
    except OSError:
        source = function.__code__.co_code
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    values = (cells, function.__defaults__, function.__kwdefaults__)
    return f"{feature.name} {digest(source, values)}"


def feature_marks(features: Iterable[Feature]) -> dict[str, str]:
    """Return the mark of each feature whose mark differs from its name."""
    marks = {feature.name: feature_mark(feature) for feature in features}
    return {name: mark for name, mark in marks.items() if mark != name}


def changed_features(names: Iterable[str], marks: Mapping[str, str]) -> list[str]:
    """Return the features whose marks differ from those in a file.

    A file has no marks for built-in features that have never changed. Registered metrics without a
    mark, as in old files, are not compared.
    """
    registered = [FEATURES[name] for name in names if name in FEATURES]
    return [
        feature.name
        for feature in registered
        if (feature.is_built_in or feature.name in marks)
        and feature_mark(feature) != marks.get(feature.name, feature.name)
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


def write_samples(
    table: pd.DataFrame, path: str | os.PathLike[str], provenance: dict[str, Any] | None = None
) -> None:
    """Write a table of samples and its provenance to a Parquet file atomically.

    Parameters
    ----------
    table : DataFrame
        A row per sample, with the columns ``workload``, ``torus``, ``mapping`` and ``key``.
    provenance : dict, optional
        JSON data; by default, the provenance in ``table.attrs``.

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
    provenance = table.attrs.get("provenance", {}) if provenance is None else provenance
    content = _encode_table(table, provenance)
    with files.atomic_path(path) as temporary:
        parquet.write_table(content, temporary)


def _encode_table(table: pd.DataFrame, provenance: Mapping[str, Any]) -> Any:
    """Return samples as an Arrow table with the provenance in its metadata."""
    _check_labels(table)
    without_attrs = table.copy(deep=False)
    without_attrs.attrs = {}
    metadata = {**provenance, "format": FORMAT, "version": VERSION, "n_samples": len(table)}
    try:
        text = json.dumps(metadata)
        content = pa.Table.from_pandas(without_attrs, preserve_index=False)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InputError("samples cannot be stored", found=error) from None
    return content.replace_schema_metadata({**(content.schema.metadata or {}), _KEY: text})


def read_samples(
    path: str | os.PathLike[str], changed: Literal["refuse", "keep"] = "refuse"
) -> pd.DataFrame:
    r"""Read a table of samples; its provenance is in ``attrs["provenance"]``.

    A CSV or Parquet file from another program needs a column ``time`` (s). Its other numeric
    columns are features. The columns ``workload``, ``torus`` and ``mapping`` are optional.

    If the definition of a feature has changed since the file was written, `InputError` is raised,
    unless ``changed`` is "keep".

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "counters.csv"
    >>> _ = path.write_text("mapping,queue,time\nrow-major,3,1.25\nby-hand,1,0.75\n")
    >>> read_samples(path)[["workload", "mapping", "queue", "time"]]
       workload    mapping  queue  time
    0  counters  row-major      3  1.25
    1  counters    by-hand      1  0.75
    """
    start = time.perf_counter()
    is_text = Path(path).suffix == ".csv"
    table = _read_csv(path) if is_text else _read_parquet(path)
    outdated = changed_features(table.columns, table.attrs["provenance"].get("marks", {}))
    if outdated and changed == "refuse":
        message, found = "features have changed since the samples were computed", outdated
        expected = "new samples: --samples FILE with --comm and --torus"
        raise InputError(message, file=path, found=", ".join(found), expected=expected)
    files.note_read("samples", path, start, samples=len(table))
    return table


def _read_parquet(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read samples from a Parquet file, which another program may have written."""
    files.check_regular(path)
    with files.at_file(path):
        stream = open(path, "rb")  # noqa: PTH123, SIM115
    # Damaged metadata can make the libraries raise nearly any error.
    with stream, files.as_damaged(path, "Parquet file"):
        # Threads that read ahead could outlive the interpreter and crash it.
        file = parquet.ParquetFile(pa.PythonFile(stream), pre_buffer=False)
        n_rows, n_columns = file.metadata.num_rows, file.metadata.num_columns
        files.check_claim(path, _CELL_BYTES * n_rows * n_columns, counted(n_rows, "sample"))
        content = file.read(use_threads=False)
        text = (content.schema.metadata or {}).get(_KEY)
        table: pd.DataFrame = content.to_pandas()
        if text is None:
            return _label_samples(table, path)
        provenance = json.loads(text)
        _check_provenance(provenance, content.num_rows)
        table = table.rename(columns=FORMER_NAMES)
        _check_labels(table)
        _check_values(table)
    table.attrs["provenance"] = provenance
    return table


def _read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read another program's CSV table; each column must have only numbers or no numbers."""
    text = read_text(path)
    names, rows = read_words(text, text.lines("#"), lambda names: names)
    if twice := repeated(names):
        raise text.fault("column named twice", rows[0][0] - 1, twice[0], "each name once")
    table = pd.DataFrame([cells for _, cells in rows], columns=names, dtype=object)
    for name in table.columns.difference(list(LABELS)):
        numbers = pd.to_numeric(table[name], errors="coerce")
        is_text = (numbers.isna() & (table[name] != "")).to_numpy()
        if not is_text.any():
            table[name] = numbers
        elif name == "time" or not is_text.all():
            row = int(is_text.argmax())
            raise text.fault(f"bad {name}", rows[row][0], table[name][row], "a number")
    with files.at_file(path):
        return _label_samples(table, path, [line for line, _ in rows])


def _label_samples(
    table: pd.DataFrame, path: str | os.PathLike[str], lines: Sequence[int | None] = ()
) -> pd.DataFrame:
    """Check another program's table, add missing labels, and drop all other text columns."""
    numbers = table.select_dtypes("number")
    if "time" not in numbers:
        expected = f"a column time of seconds, or {_EXPECTED}"
        raise InputError("not a table of samples", found=list(table.columns), expected=expected)
    warn_about_unused(path, table.columns.difference([*LABELS, *numbers]), "unused columns")
    times = numbers["time"].to_numpy(dtype=float)
    is_bad = ~((times > 0) & (times < np.inf))
    if is_bad.any():
        row = int(is_bad.argmax())
        message, line = f"bad time of row {row}", lines[row] if lines else None
        raise InputError(message, line=line, found=times[row], expected="positive seconds")
    rows = [str(row) for row in range(len(table))]
    labels = {"workload": Path(path).stem, "torus": "unknown", "mapping": rows, "key": rows}
    given_labels = {name: table[name].astype(str) for name in LABELS[:-1] if name in table.columns}
    result = _sort_columns(numbers.assign(**(labels | given_labels)))
    result.attrs["provenance"] = {"source": os.fspath(path)}
    return result


class SampleFiles:
    """A file of samples, and a folder with the parts that unfinished runs wrote.

    Several processes may use them concurrently: a lock serialises changes, and at any time every
    sample is in the file or in a part.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        files.check_path(path)
        self._path = path
        self._table = Path(os.path.realpath(path))
        self._folder = self._table.with_name(f"{self._table.name}.parts")

    def read(self) -> list[pd.DataFrame]:
        """Return the existing parts, newest first, followed by the table."""
        if self._table.parent.is_dir():
            files.check_target(self._path)
        return list(self._read_by_path().values())

    def join(self, combine: Callable[[list[pd.DataFrame]], pd.DataFrame]) -> pd.DataFrame:
        """Combine the table and all parts; write the result as the new table, and return it.

        If locks are not supported, keep the parts: another run may write a table that lacks them.
        """
        with self._lock() as is_locked:
            tables = self._read_by_path()
            table = combine(list(tables.values()))
            write_samples(table, self._path)
            if is_locked:
                for path in tables.keys() - {self._table}:
                    path.unlink()
                # The folder may contain new parts of another run.
                with suppress(OSError):
                    self._folder.rmdir()
        return table

    def add(self, table: pd.DataFrame, provenance: Mapping[str, Any]) -> None:
        """Write samples as a part, which later runs can read if this run is killed."""
        content = _encode_table(table, provenance)
        with self._lock(), files.temporary_beside(self._table) as temporary:
            parquet.write_table(content, temporary)
            self._folder.mkdir(exist_ok=True)
            # Sorting these names sorts the parts by time.
            temporary.rename(self._folder / f"{time.time_ns():020}-{temporary.stem[1:9]}.parquet")

    def _read_by_path(self) -> dict[Path, pd.DataFrame]:
        """Return the parts, newest first, and then the table, each by its path."""
        tables = {}
        for path in (*sorted(self._folder.glob("*.parquet"), reverse=True), self._table):
            # Another run may have joined and removed the part meanwhile.
            with suppress(MissingFileError):
                tables[path] = _read_parquet(path)
                _check_provenance(tables[path].attrs["provenance"], len(tables[path]))
        return tables

    @contextmanager
    def _lock(self) -> Iterator[bool]:
        """Lock the files against other runs, and yield whether the file system supports locks.

        A run removes the lock file when it unlocks, so a lock on a removed file is not valid.
        """
        lock = self._folder.with_suffix(".lock")
        with files.folder_to_fill(lock.parent), ExitStack() as stack:
            is_locked, is_current = True, False
            while is_locked and not is_current:
                # NFS locks only files that are open for writing.
                file = stack.enter_context(lock.open("a"))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX)
                except OSError:
                    is_locked = False
                with suppress(FileNotFoundError):
                    is_current = os.path.samestat(os.fstat(file.fileno()), lock.stat())
            stack.callback(lock.unlink, missing_ok=True)
            yield is_locked


def drop_changed_features(
    tables: Iterable[pd.DataFrame], features: Iterable[Feature]
) -> tuple[list[pd.DataFrame], dict[str, str]]:
    """Return tables without outdated features, and the marks that differ from feature names.

    A feature is outdated in a table if its mark there differs from its mark in ``features`` or, if
    it is not in ``features``, from its mark in the first table that has it.
    """
    tables = list(tables)
    marks: dict[str, str] = {}
    stored = []
    for table in tables:
        noted = table.attrs.get("provenance", {}).get("marks", {})
        stored.append({name: noted.get(name, name) for name in table.columns})
    for marks_of_table in reversed(stored):
        marks |= marks_of_table
    marks |= {feature.name: feature_mark(feature) for feature in features}
    current = [
        table.drop(columns=[name for name, mark in marks_of_table.items() if mark != marks[name]])
        for table, marks_of_table in zip(tables, stored, strict=True)
    ]
    return current, {name: mark for name, mark in marks.items() if mark != name}


def merge_values(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return samples by key; each value comes from the first table that has this value."""
    filled = [table for table in tables if len(table)]
    if not filled:
        return pd.DataFrame()
    return pd.concat(filled, ignore_index=True).groupby("key", sort=False).first()


def join_tables(tables: Sequence[pd.DataFrame], features: Iterable[Feature] = ()) -> pd.DataFrame:
    """Join tables of samples, given newest first.

    Rows with equal labels are the same sample; the newest row is kept, and features that it lacks
    come from older tables. The provenance of all tables is combined.
    """
    current, marks = drop_changed_features(tables, features)
    # Keep the rows of the newest table together, in its order.
    rows = pd.concat([table[list(LABELS)] for table in reversed(current) if len(table)])
    rows = rows.drop_duplicates(keep="last", ignore_index=True)
    values = merge_values(current).drop(columns=list(LABELS), errors="ignore")
    table = _sort_columns(rows.join(values, on="key"))
    provenance: dict[str, Any] = {}
    for old in reversed(tables):
        provenance = _merge_provenance(provenance, old.attrs.get("provenance", {}))
    table.attrs["provenance"] = provenance | _list_contents(table) | {"marks": marks}
    return table


def _merge_provenance(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Combine two provenances; several routings or coarsenings become a list."""
    merged = {**old, **new}
    for name in old.keys() & new.keys():
        if isinstance(new[name], dict) and isinstance(old[name], dict):
            merged[name] = old[name] | new[name]
    for name in ("routing", "coarsening"):
        unique: set[Any] = set()
        for value in (provenance[name] for provenance in (old, new) if name in provenance):
            unique.update(value if isinstance(value, list) else [value])
        if len(unique) > 1:
            merged[name] = sorted(unique, key=str)
    merged["level"] = max(old.get("level", 1), new.get("level", 1))
    merged["kinds"] = sorted({*old.get("kinds", []), *new.get("kinds", [])})
    return merged


def make_provenance(
    samples: pd.DataFrame, options: SampleOptions, provenance: Mapping[str, Any], *, is_new: bool
) -> dict[str, Any]:
    """Return the provenance of a run's samples; if some are new, it has command and versions."""
    origin = {
        "toruscast": toruscast.__version__,
        "numpy": np.__version__,
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return {
        "format": FORMAT,
        "version": VERSION,
        **(origin if is_new else {}),
        **provenance,
        "marks": feature_marks(options.features),
        **_list_contents(samples),
    }


def _list_contents(samples: pd.DataFrame) -> dict[str, list[str]]:
    return {"graphs": sorted(set(samples["workload"])), "tori": sorted(set(samples["torus"]))}


def _sort_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with labels first, features in the order of the registry, and time last."""
    features = [name for name in FEATURES if name in table.columns]
    others = table.columns.difference([*LABELS, *features, "time"], sort=False)
    last = ["time"] if "time" in table.columns else []
    return table[[*LABELS, *features, *others, *last]]


def _check_provenance(provenance: Any, n_samples: int) -> None:
    """Raise `InputError` unless the format, version and number of samples are as expected."""
    if not isinstance(provenance, dict) or provenance.get("format") != FORMAT:
        raise InputError("not a table of samples", expected=_EXPECTED)
    # Old files of version 1 do not state a version.
    if provenance.get("version", 1) != VERSION:
        found = f"version {provenance['version']}, written by {provenance.get('toruscast')}"
        expected = f"version {VERSION}; a newer toruscast reads it"
        raise InputError("table of samples of a newer toruscast", found=found, expected=expected)
    if n_samples != provenance.get("n_samples"):
        raise InputError("samples missing", found=n_samples, expected=provenance.get("n_samples"))


def _check_labels(table: pd.DataFrame) -> None:
    missing = [name for name in LABELS if name not in table.columns]
    if missing:
        found = list(table.columns)
        raise InputError("columns missing from samples", found=found, expected=missing)


def _check_values(table: pd.DataFrame) -> None:
    """Raise `InputError` unless labels are text, values numbers, and rows with equal keys equal."""
    for name in LABELS:
        bad = [value for value in table[name] if not isinstance(value, str)]
        if bad:
            expected = "text in every row"
            raise InputError(f"column {name} of samples", found=bad[0], expected=expected)
    numeric = [name for name in table.columns if pd.api.types.is_numeric_dtype(table[name])]
    for name in table.columns.difference([*LABELS, *numeric]):
        if name == "time" or name in FEATURES:
            found = str(table[name].dtype)
            raise InputError(f"column {name} of samples", found=found, expected="numbers")
    groups = table[table["key"].duplicated(keep=False)].groupby("key")[numeric]
    differ = (groups.max() != groups.min()).where(groups.count() > 0)
    if differ.any(axis=None):
        expected = "a key for each workload and mapping"
        raise InputError("samples with one key differ", expected=expected)
