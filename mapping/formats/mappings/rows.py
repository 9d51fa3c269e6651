"""Rows of whole numbers to a text file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def write_rows(path: Path, head: str, rows: NDArray[np.int64], separator: str) -> None:
    """Write a line for each row below ``head``."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(head)
        np.savetxt(file, rows, fmt="%d", delimiter=separator)


def write_lines(path: Path, text: str) -> None:
    """Write text as it stands."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
