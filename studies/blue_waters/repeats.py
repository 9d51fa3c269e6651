"""Runs that stand in several files of the same campaign."""

from __future__ import annotations

import pandas as pd


def drop_repeats(table: pd.DataFrame, run: list[str], what: list[str]) -> pd.DataFrame:
    """Leave out runs that stand in the table before, time for time.

    Parameters
    ----------
    table : DataFrame
    run : list of str
        Columns that tell runs apart.
    what : list of str
        Columns in which two runs do not all agree by chance: sizes and times.

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
