"""Change constants of the network from the command line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from toruscast.wording import closest

from .simulate.options import read_seconds

if TYPE_CHECKING:
    from toruscast.mapping import Torus


def change_network(torus: Torus, changes: Sequence[str], unused: Collection[str] = ()) -> Torus:
    """Return the torus with constants of its network set by ``KEY=VALUE``.

    Also of the torus itself: ``order=1,0``, ``zones=0,1/2`` (groups of dimensions, or
    ``bluegene_q``), ``tie=random``, ``bandwidth=1e9`` or one for each dimension,
    ``bandwidth=1e9,2e9``. What is ``unused`` is of packets only: where there are none, it would
    change nothing.

    Raises
    ------
    InputError
        If a key is not known, unused or given twice, or its value not valid.

    Examples
    --------
    >>> from toruscast.mapping import Torus
    >>> change_network(Torus((4, 4)), ["deadlock=dateline", "overhead=1us"]).network.overhead
    1e-06
    >>> change_network(Torus((4, 4)), ["order=1,0", "zones=0/1", "bandwidth=1e9,2e9"]).order
    (1, 0)
    """
    from toruscast.errors import InputError
    from toruscast.mapping import Network

    everything = [field.name for field in fields(Network)] + list(_OF_THE_TORUS)
    known = [key for key in everything if key not in unused]
    values: dict[str, object] = {}
    for change in changes:
        key, equals, text = (part.strip() for part in change.partition("="))
        if not equals:
            raise InputError(
                "bad --network", found=change, expected="KEY=VALUE such as deadlock=dateline"
            )
        if key in unused:
            raise InputError(
                "--network key that changes nothing without packets",
                found=key,
                expected=f"one of {', '.join(known)}, or 'toruscast simulate'",
            )
        if key not in known:
            raise InputError(
                "unknown --network key", found=key, expected=closest(key, known, ", ".join(known))
            )
        if key in values:
            raise InputError("--network key given twice", found=change, expected="one value")
        values[key] = _READERS.get(key, _plain)(key, text)
    of_torus = {key: values.pop(key) for key in _OF_THE_TORUS if key in values}
    try:
        return replace(torus.with_network(**values), **of_torus)  # type: ignore[arg-type]
    except InputError as error:
        raise error.replace(f"--network: {error.message}") from None


def _dimensions(key: str, text: str) -> tuple[int, ...]:
    """Numbers of dimensions, separated by commas."""
    from toruscast.errors import InputError

    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 3 for part in parts):
        raise InputError(
            f"--network: bad {key}", found=repr(text), expected="numbers of dimensions such as 1,0"
        )
    return tuple(int(part) for part in parts)


def _zones(key: str, text: str) -> tuple[tuple[int, ...], ...] | str:
    """Groups of dimensions, separated by slashes, or the name of a rule."""
    if text.isidentifier():
        return text
    return tuple(_dimensions(key, part) for part in text.split("/"))


def _bandwidth(key: str, text: str) -> object:
    """Bytes per second, for all dimensions or for each."""
    values = [_bytes(key, part) for part in text.split(",")]
    return values[0] if len(values) == 1 else tuple(values)


def _bytes(key: str, text: str) -> object:
    """Bytes, or bytes per second, as a number or with their unit."""
    from toruscast.validation import read_bytes

    return _first(text, int, float, lambda word: read_bytes(word.strip().removesuffix("/s")))


def _seconds(key: str, text: str) -> object:
    """A time with its unit; without one only where it can be nothing but seconds."""
    from toruscast.errors import InputError

    try:
        value = read_seconds(text)
    except ValueError:
        raise InputError(
            f"--network: bad {key}", found=text, expected="a time such as 90ns, 1us or 2.5e-6"
        ) from None
    if text[-1:].isdigit() and value >= _LONG:
        raise InputError(
            f"--network: {key} without a unit",
            found=text,
            expected=f"{text}us, {text}ns or {text}s",
        )
    return value


def _plain(key: str, text: str) -> object:
    """A number where the text is one; the text otherwise."""
    return _first(text, int, float)


def _first(text: str, *readers: Callable[[str], object]) -> object:
    """What the first that can read the text makes of it; the text if none can."""
    for read in readers:
        with suppress(ValueError):
            return read(text)
    return text


# A constant of a network that is longer than this many seconds lacks its unit.
_LONG = 1e-3
# Of the torus, but of the same kind for whoever sets them.
_OF_THE_TORUS = ("tie", "bandwidth", "order", "zones")
_READERS: dict[str, Callable[[str, str], object]] = {
    **dict.fromkeys(
        ("memory_bandwidth", "payload", "header", "short_limit", "deterministic_limit"), _bytes
    ),
    "eager_limit": _bytes,
    "order": _dimensions,
    "zones": _zones,
    "bandwidth": _bandwidth,
    "hop_latency": _seconds,
    "overhead": _seconds,
    "short_overhead": _seconds,
    "start": _seconds,
}
