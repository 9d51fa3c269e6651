"""Tables that are written piece by piece, as their rows come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, TYPE_CHECKING, Any

from .output import STDOUT

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def growing(
    csv_path: str | None, parquet_path: str | None
) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Give a function that adds rows to a CSV and a Parquet file; "-" is stdout.

    Files appear whole, at the end, or not at all.
    """
    from toruscast.mapping.formats import atomic_path

    with ExitStack() as files:
        writers: list[Callable[[pd.DataFrame], None]] = []
        if csv_path == STDOUT:
            writers.append(_csv(sys.stdout))
        elif csv_path is not None:
            path = files.enter_context(atomic_path(csv_path))
            writers.append(_csv(files.enter_context(path.open("w", encoding="utf-8", newline=""))))
        if parquet_path is not None:
            writers.append(_parquet(files, files.enter_context(atomic_path(parquet_path))))

        def add(rows: pd.DataFrame) -> None:
            for write in writers:
                write(rows)

        yield add


def _csv(stream: IO[str]) -> Callable[[pd.DataFrame], None]:
    is_first = True

    def write(rows: pd.DataFrame) -> None:
        nonlocal is_first
        rows.to_csv(stream, header=is_first, lineterminator="\n")
        stream.flush()
        is_first = False

    return write


def _parquet(files: ExitStack, path: Any) -> Callable[[pd.DataFrame], None]:
    import pyarrow as pa
    from pyarrow import parquet

    writer: Any = None

    def write(rows: pd.DataFrame) -> None:
        nonlocal writer
        table = pa.Table.from_pandas(rows)
        if writer is None:
            writer = files.enter_context(parquet.ParquetWriter(path, table.schema))
        writer.write_table(table)

    return write
