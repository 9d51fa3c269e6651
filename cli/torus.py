"""From the words of the command line to a torus: its network, its nodes and its links."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

import toruscast as tc
from toruscast.errors import InputError
from toruscast.text import closest

from .options import Host, TorusOptions
from .slow import sources, validation

if TYPE_CHECKING:
    from toruscast.mapping import Torus


_EXPONENTS = {"s": 0, "": 0, "ms": -3, "us": -6, "ns": -9, "ps": -12}
_TIME = re.compile(r"([0-9.]+(?:e[-+]?[0-9]{1,3})?)\s*([mun\u00b5p]?s|)", re.I)


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


def read_time(text: str, name: str, option: str = "") -> float:
    """Return the time that is given as ``name``, in seconds.

    Raises
    ------
    InputError
        If it is no time, or a number so large that it lacks its unit.

    Examples
    --------
    >>> read_time("1", "--interval")
    Traceback (most recent call last):
        ...
    toruscast.errors.InputError: --interval without a unit: found 1, expected 1us, 1ns or 1s
    """
    try:
        value = read_seconds(text)
    except ValueError:
        expected = "a time such as 90ns, 1us or 2.5e-6"
        raise InputError(f"{option}bad {name}", found=text, expected=expected) from None
    if text[-1:].isdigit() and value >= _LONG:
        expected = f"{text}us, {text}ns or {text}s"
        raise InputError(f"{option}{name} without a unit", found=text, expected=expected)
    return value


def change_network(torus: Torus, changes: Sequence[str], unused: Collection[str] = ()) -> Torus:
    """Return the torus with constants of its network set by ``KEY=VALUE``.

    Also of the torus itself: ``order=1,0``, ``zones=0,1/2`` (groups of dimensions, or
    ``bluegene_q``), ``tie=random``, ``bandwidth=1e9`` or one for each dimension,
    ``bandwidth=1e9,2e9``. What is ``unused`` is of packets only: where there are none, it would
    change nothing. ``unknown`` alone is short for ``rules=unknown``.

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
    everything = [field.name for field in fields(tc.Network)] + list(_OF_THE_TORUS)
    known = [key for key in everything if key not in unused]
    values: dict[str, object] = {}
    for change in changes:
        # The short form for a machine whose rules are not public.
        change = "rules=unknown" if change.strip() == "unknown" else change
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
    return _first(
        text, int, float, lambda word: validation.read_bytes(word.strip().removesuffix("/s"))
    )


def _seconds(key: str, text: str) -> object:
    """A time with its unit; without one only where it can be nothing but seconds."""
    return read_time(text, key, "--network: ")


def _plain(key: str, text: str) -> object:
    """A number where the text is one; the text otherwise."""
    return _first(text, int, float)


def _first(text: str, *readers: Callable[[str], object]) -> object:
    """What the first that can read the text makes of it; the text if none can."""
    for read in readers:
        with suppress(ValueError):
            return read(text)
    return text


# A time of a network that is longer than this many seconds lacks its unit.
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


def only_nodes(torus: Torus, path: str) -> Torus:
    """Return the torus with the nodes alone that a file lists.

    A node is a number, or its coordinates; one a line, or in a CSV the column ``node``. A table of
    hosts, as of ``--hosts``, lists theirs.

    Raises
    ------
    InputError
        If the file cannot be read, or a line holds no node of the torus.
    """
    text = sources.read_text(path)
    if "host" in re.split(r"[,\s]+", next(text.lines(), (0, ""))[1]):
        ours = set(tc.read_hosts(path, torus).node.tolist())
        return torus.without(nodes=sorted(set(range(torus.n_nodes)) - ours))
    column: int | None = None
    nodes: dict[int, int] = {}
    for number, line in text.lines():
        fields = [field.strip() for field in line.split(",")]
        if "node" in fields and not nodes:
            column = fields.index("node")
            continue
        words = re.split(r"[,;\s]+", line.strip(" ()\t"))
        if column is not None:
            words = [fields[column]] if column < len(fields) else []
        node = _node(torus, words)
        if node is None:
            raise InputError(
                "bad node",
                file=path,
                line=number,
                found=line,
                expected=f"0 to {torus.n_nodes - 1} or {torus.ndim} coordinates, one node a line, "
                "or a CSV with a column node",
            )
        if node in nodes:
            raise InputError(
                "node stands twice", file=path, line=number, found=node, expected="each node once"
            )
        nodes[node] = number
    if not nodes:
        raise InputError("allocation without a node", file=path)
    return torus.without(nodes=sorted(set(range(torus.n_nodes)) - set(nodes)))


def _node(torus: Torus, words: Sequence[str]) -> int | None:
    if not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
        return None
    numbers = [int(word) for word in words]
    if len(numbers) == 1 and numbers[0] < torus.n_nodes:
        return numbers[0]
    sizes = torus.shape
    if len(numbers) != len(sizes) or any(c >= k for c, k in zip(numbers, sizes, strict=True)):
        return None
    return int(torus.node(numbers))


def change_links(torus: Torus, path: str) -> Torus:
    """Return the torus with links as slow as a CSV has them, and without those of bandwidth 0.

    Raises
    ------
    InputError
        If the file cannot be read, or a line names no link, or no bandwidth that it can have.
    """
    slow: dict[int, float] = {}
    missing: list[int] = []
    for number, line in sources.read_text(path).lines():
        try:
            row = [field.strip() for field in next(csv.reader([line], skipinitialspace=True))]
        except csv.Error as error:
            raise InputError("bad line", file=path, line=number, found=error) from None
        if row == ["link", "bandwidth"] and not slow and not missing:
            continue
        try:
            if len(row) != 2:
                raise InputError("bad line", found=line, expected="link,bandwidth")
            link, bandwidth = torus.read_link(row[0]), _link_bandwidth(row[1])
            if link in slow or link in missing:
                raise InputError("link stands twice", found=row[0], expected="each link once")
            # Checked one by one, so that the line is known.
            torus.without(links=[link]) if bandwidth == 0 else torus.with_links({link: bandwidth})
        except InputError as error:
            raise error.replace(file=path, line=number) from None
        if bandwidth == 0:
            missing.append(link)
        else:
            slow[link] = bandwidth
    if not slow and not missing:
        raise InputError("no link in it", file=path, expected="lines link,bandwidth")
    return torus.with_links(slow).without(links=missing)


def _link_bandwidth(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise InputError("bad bandwidth", found=word, expected="bytes per second") from None


def load_torus(traffic: TorusOptions, unused: Collection[str] = ()) -> Torus:
    """Read a torus or a machine, and change its network; what is ``unused`` must not be set."""
    if traffic.torus is None:
        raise click.UsageError("missing --torus")
    torus = tc.parse_torus(traffic.torus)
    if torus.twist and "twisted" not in traffic.torus.lower():
        sizes = "x".join(map(str, torus.shape))
        click.echo(
            f"toruscast: {torus.name}:{sizes} is a twisted torus; "
            f"{torus.name}:{sizes}:untwisted is a plain one",
            err=True,
        )
    torus = change_network(torus, traffic.changes, unused)
    if not isinstance(traffic, Host):
        return torus
    if traffic.allocation is not None:
        torus = only_nodes(torus, traffic.allocation)
    return torus if traffic.slow_links is None else change_links(torus, traffic.slow_links)
