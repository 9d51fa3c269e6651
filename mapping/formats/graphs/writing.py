"""Rows of numbers to a text file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_rows(path: Path, head: str, columns: Sequence[NDArray[Any]], separator: str) -> None:
    """Write a line for each row below ``head``; whole numbers without a point."""
    import pandas as pd

    table = pd.DataFrame({i: short(column) for i, column in enumerate(columns)})
    with path.open("w", encoding="utf-8", newline="") as stream:
        stream.write(head)
        table.to_csv(stream, sep=separator, header=False, index=False, lineterminator="\n")


def short(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers that are all whole as such, so that they are written without a point."""
    if values.dtype.kind != "f":
        return values
    exact = (values == np.floor(values)) & (values < 2**53)
    return values.astype(np.int64) if exact.all() else values
