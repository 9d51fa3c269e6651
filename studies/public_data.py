"""Where an experiment finds the public measurements."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from toruscast.errors import InputError

from .experiment import Inputs


def measurement_files(inputs: Inputs, pattern: str) -> list[Path]:
    """Return the files of one kind among the measurements, in order of their names.

    Parameters
    ----------
    inputs : Inputs
    pattern : str
        As in `Experiment.files`, such as ``boxfish/example-data/*.yaml``.

    Returns
    -------
    list of Path

    Raises
    ------
    InputError
        If no folder of measurements was given, or it lacks such files.

    Examples
    --------
    >>> measurement_files(Inputs(), "boxfish/*")
    Traceback (most recent call last):
        ...
    toruscast.errors.InputError: the public measurements are needed: expected their folder
    """
    if inputs.data is None:
        raise InputError("the public measurements are needed", expected="their folder")
    files = sorted(path for path in inputs.data.glob(pattern) if path.is_file())
    if not files:
        raise InputError("measurements not found", file=inputs.data, expected=f"files {pattern}")
    return files


def drop_repeats(
    table: pd.DataFrame, run: list[str], what: list[str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Leave out runs that stand in the table before, time for time.

    Parameters
    ----------
    table : DataFrame
    run : list of str
        Columns that tell runs apart, the first of them their files.
    what : list of str
        Columns in which two runs do not both agree by chance: sizes and times.

    Returns
    -------
    table : DataFrame
        Without the repeats.
    repeats : dict of str to str
        For each file that repeats runs, the first file that they stand in.

    Examples
    --------
    >>> table = pd.DataFrame({"file": ["a", "a", "b", "b", "c"], "time": [1.5, 2.5, 1.5, 2.5, 1.5]})
    >>> kept, repeats = drop_repeats(table, ["file"], ["time"])
    >>> kept["file"].tolist(), repeats
    (['a', 'a', 'c'], {'b': 'a'})
    """
    first: dict[tuple[tuple[object, ...], ...], str] = {}
    repeats = {}
    dropped: list[int] = []
    for key, rows in table.groupby(run, sort=False):
        content = tuple(rows[what].itertuples(index=False, name=None))
        source = first.setdefault(content, str(key[0]))
        if source != str(key[0]):
            repeats[str(key[0])] = source
            dropped += rows.index.tolist()
    return table.drop(index=dropped).reset_index(drop=True), repeats
