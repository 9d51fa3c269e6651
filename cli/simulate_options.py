"""What ``toruscast simulate`` reads from its own options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

from .inputs import closest

if TYPE_CHECKING:
    from toruscast.mapping import CommGraph, Torus

_EXPONENTS = {"s": 0, "": 0, "ms": -3, "us": -6, "ns": -9, "ps": -12}
_TIME = re.compile(r"([0-9.]+(?:e[-+]?[0-9]{1,3})?)\s*([mun\u00b5p]?s|)", re.I)
_PAIR = re.compile(r"([0-9]{1,9})\s*(?:->|[-:,])\s*([0-9]{1,9})")
# Of the torus, but of the same kind for whoever sets them.
_OF_THE_TORUS = ("tie", "bandwidth")
# Bytes that the snapshots of a time series may take together, and about what one takes.
_MOST_SNAPSHOT_BYTES = 2e9
_SNAPSHOT_BYTES, _BYTES_A_LINK = 1000, 12


def read_seconds(text: str) -> float:
    """Return a time in seconds; units from ``s`` to ``ps``, seconds without one.

    Raises
    ------
    ValueError
        If the text is not a time.

    Examples
    --------
    >>> read_seconds("5us"), read_seconds("0.25")
    (5e-06, 0.25)
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    exponent = _EXPONENTS[match[2].lower().replace("\u00b5", "u")]
    number, _, power = match[1].lower().partition("e")
    return float(f"{number}e{int(power or 0) + exponent}")


def read_interval(text: str) -> float:
    """Return the time between two snapshots.

    Raises
    ------
    InputError
        If it is not a time of more than 0.
    """
    from toruscast.mapping import InputError

    try:
        interval = read_seconds(text)
    except ValueError:
        interval = 0.0
    if not 0 < interval < float("inf"):
        raise InputError("bad --interval", found=text, expected="a time such as 500ns or 5us")
    return interval


def check_interval(interval: float, least_time: float, torus: Torus) -> None:
    """Raise `InputError` if a run of that time makes more snapshots than memory holds."""
    from toruscast.mapping import InputError

    from .units import seconds

    each = _SNAPSHOT_BYTES + _BYTES_A_LINK * torus.n_links
    least = least_time * each / _MOST_SNAPSHOT_BYTES
    if interval < least:
        raise InputError(
            "--interval too short for this run",
            found=seconds(interval),
            expected=f"at least {seconds(least)}",
        )


def change_network(torus: Torus, changes: Sequence[str]) -> Torus:
    """Return the torus with constants of its network set by ``KEY=VALUE``.

    Raises
    ------
    InputError
        If a key is not known or its value not valid.

    Examples
    --------
    >>> from toruscast.mapping import Torus
    >>> change_network(Torus((4, 4)), ["deadlock=dateline", "overhead=1us"]).network.overhead
    1e-06
    """
    from toruscast.mapping import InputError, Network

    known = [field.name for field in fields(Network)] + list(_OF_THE_TORUS)
    values: dict[str, object] = {}
    for change in changes:
        key, equals, text = (part.strip() for part in change.partition("="))
        if not equals:
            raise InputError(
                "bad --network", found=change, expected="KEY=VALUE such as deadlock=dateline"
            )
        if key not in known:
            raise InputError("unknown --network key", found=key, expected=closest(key, known))
        values[key] = _value(text)
    of_torus = {key: values.pop(key) for key in _OF_THE_TORUS if key in values}
    try:
        return replace(torus.with_network(**values), **of_torus)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(
            f"--network: {error.message}", found=error.found, expected=error.expected
        ) from None


def read_pair(text: str, comm: CommGraph) -> int:
    """Return the edge between two tasks, given such as ``3:7`` or ``3->7``.

    Raises
    ------
    InputError
        If there is no such pair, or it sends nothing.
    """
    import numpy as np

    from toruscast.mapping import InputError

    match = _PAIR.fullmatch(text.strip())
    if match is None:
        raise InputError("bad --watch", found=text, expected="two tasks such as 3:7")
    src, dst = int(match[1]), int(match[2])
    sends = np.rint(comm.n_messages) > 0
    edges = np.flatnonzero((comm.src == src) & (comm.dst == dst) & sends)
    if not edges.size:
        partners = comm.dst[(comm.src == src) & sends][:3].tolist()
        some = " or ".join(f"{src}:{partner}" for partner in partners)
        raise InputError(
            "--watch: no message between these tasks",
            found=text,
            expected=some or "a task that sends something",
        )
    return int(edges[0])


def check_options(coarsening: int | None, error: float | None, *files: str | None) -> None:
    """Raise where options exclude each other, or stdout is asked for what needs a file."""
    if coarsening is not None and error is not None:
        raise click.UsageError("--coarsening and --error exclude each other")
    if "-" in files:
        raise click.UsageError("--out and --trace cannot go to stdout")


def _value(text: str) -> object:
    """A number where the text is one, of seconds if it has their unit; the text otherwise."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return read_seconds(text)
    except ValueError:
        return text
