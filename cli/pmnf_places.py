"""Values of parameters by name, as in ``--at p=2,n=10``."""

from __future__ import annotations

import math

import click


def by_name(text: str) -> dict[str, float]:
    """Return the numbers by name.

    Raises
    ------
    UsageError
        If a part is no NAME=NUMBER, the number is negative or not finite, or a name stands twice.

    Examples
    --------
    >>> by_name("p=2,n=1e3")
    {'p': 2.0, 'n': 1000.0}
    """
    given: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        name = name.strip()
        if name in given:
            raise click.UsageError(f"bad --at: found {name} twice, expected each name once")
        try:
            given[name] = float(value)
        except ValueError:
            given[name] = math.nan
        if not 0 <= given[name] < math.inf:
            raise click.UsageError(f"bad --at: found {part}, expected NAME=NUMBER, 0 or more")
    return given
