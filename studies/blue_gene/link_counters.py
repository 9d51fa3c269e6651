"""Tables of Boxfish: packet counters of Blue Gene/P by link and code region.

Published as ``example-data`` of github.com/LLNL/boxfish, BSD licence (LLNL-CODE-599192).
"""

from __future__ import annotations

import os
import re

import numpy as np
import pandas as pd

from ..lines import Lines

_COLUMN = re.compile(r"-\s*\[\s*([A-Za-z_]\w*)\s*,\s*(int32|int64)\s*\]")


def read_link_counters(path: str | os.PathLike[str]) -> pd.DataFrame:
    r"""Read a table of whole numbers under a YAML header that names its columns.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    DataFrame
        The columns of the header, as 64-bit integers. Counters by link have ``linkid``, the
        coordinates of both its ends (``sx sy sz tx ty tz``), ``code_region`` and ``packets``; a
        link has a row for each time that a region was entered.

    Raises
    ------
    InputError
        If the file cannot be read, names no columns, or a row does not fit them; says file, line,
        what was found and what was expected.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "links.yaml"
    >>> _ = file.write_text('''---
    ... key: TEST
    ... ---
    ... - [linkid, int32]
    ... - [packets, int64]
    ... ...
    ... 0 126
    ... 1 0
    ... ''')
    >>> read_link_counters(file).to_dict("list")
    {'linkid': [0, 1], 'packets': [126, 0]}
    """
    text = Lines(path)
    columns: list[str] = []
    rows: list[list[int]] = []
    header = True
    for number, line in text:
        if line.startswith("#"):
            continue
        if header:
            if match := _COLUMN.fullmatch(line):
                if match[1] in columns:
                    raise text.fault("column named twice", number, match[1])
                columns.append(match[1])
            elif line.startswith("-") and line != "---":
                raise text.fault("bad column", number, line, "'- [name, int32]' or int64")
            header = line != "..."
            continue
        tokens = line.split()
        if len(tokens) != len(columns):
            wanted = f"{len(columns)} numbers: {' '.join(columns)}"
            raise text.fault("row of another length", number, line, wanted)
        for token in tokens:
            if not re.fullmatch(r"-?[0-9]{1,18}", token):
                raise text.fault("bad number", number, token, "a whole number")
        rows.append([int(token) for token in tokens])
    if header or not columns:
        raise text.fault("no table found", expected="columns '- [name, int32]', '...', then rows")
    if not rows:
        raise text.fault("table without rows", expected=f"{len(columns)} numbers a row")
    return pd.DataFrame(np.array(rows, dtype=np.int64), columns=columns)
