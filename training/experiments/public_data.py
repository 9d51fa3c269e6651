"""Where an experiment finds the public measurements."""

from __future__ import annotations

from pathlib import Path

from toruscast.mapping import InputError

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
    toruscast.mapping.errors.InputError: the public measurements are needed: expected their folder
    """
    if inputs.data is None:
        raise InputError("the public measurements are needed", expected="their folder")
    files = sorted(path for path in inputs.data.glob(pattern) if path.is_file())
    if not files:
        raise InputError("measurements not found", file=inputs.data, expected=f"files {pattern}")
    return files
