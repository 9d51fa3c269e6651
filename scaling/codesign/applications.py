"""Requirement models of five applications [Calotoiu18], and the choices made in reading them.

The source gives the largest terms of each model, without the base of the logarithms. Parts of its
table are hard to read; the notes of an application tell what was chosen.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from toruscast.errors import InputError

from .requirements import Application


@cache
def _models() -> dict[str, dict[str, Any]]:
    file = Path(__file__).with_suffix(".json")
    models: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return models


def application_names() -> list[str]:
    """Return the names of the applications with published models.

    Examples
    --------
    >>> application_names()
    ['kripke', 'lulesh', 'milc', 'relearn', 'icofoam']
    """
    return list(_models())


def application(name: str) -> Application:
    """Return the requirement models of a published application.

    Parameters
    ----------
    name : str
        One of `application_names`.

    Returns
    -------
    Application
        The largest terms of its models, as in [Calotoiu18]; ``notes`` names doubtful readings.

    Raises
    ------
    InputError
        If there is no such application.

    Examples
    --------
    >>> application("kripke").largest(p=1e6, memory=2e9)
    20000.0
    """
    if name not in _models():
        raise InputError("unknown application", found=name, expected=", ".join(application_names()))
    return Application(name, **_models()[name])
