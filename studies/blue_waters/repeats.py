"""Omit runs that several files of a campaign contain."""

from __future__ import annotations

import pandas as pd


def drop_repeats(table: pd.DataFrame, run: list[str], what: list[str]) -> pd.DataFrame:
    """Omit runs whose values all occur earlier in the table.

    Parameters
    ----------
    table : DataFrame
    run : list of str
        Columns that identify a run.
    what : list of str
        Columns that do not all agree by chance in two runs: sizes and times.

    Examples
    --------
    >>> table = pd.DataFrame({"file": ["a", "a", "b", "b", "c"], "time": [1.5, 2.5, 1.5, 2.5, 1.5]})
    >>> drop_repeats(table, ["file"], ["time"])["file"].tolist()
    ['a', 'a', 'c']
    """
    seen: set[tuple[tuple[object, ...], ...]] = set()
    dropped: list[int] = []
    for _, rows in table.groupby(run, sort=False):
        content = tuple(rows[what].itertuples(index=False, name=None))
        if content in seen:
            dropped += rows.index.tolist()
        seen.add(content)
    return table.drop(index=dropped).reset_index(drop=True)
