"""From the words of the command line to a torus: its network, its nodes and its links."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import click

import toruscast as tc
from toruscast.errors import InputError
from toruscast.text import closest
from toruscast.validation import read_bytes, read_seconds

from .options import Host, TorusOptions, read_pair
from .slow import sources, tables

if TYPE_CHECKING:
    from toruscast.mapping import Torus


def read_time(text: str, name: str) -> float:
    """Return the time that is given as ``name``, in seconds.

    Examples
    --------
    >>> read_time("1", "--interval")
    Traceback (most recent call last):
        ...
    toruscast.errors.InputError: --interval without a unit: found 1, expected 1us, 1ns or 1s
    """
    try:
        value = read_seconds(text)
    except InputError as error:
        raise error.replace(f"bad {name}") from None
    if text[-1:].isdigit() and value >= _LONG:
        expected = f"{text}us, {text}ns or {text}s"
        raise InputError(f"{name} without a unit", found=text, expected=expected)
    return value


def change_network(torus: Torus, changes: Sequence[str], unused: Collection[str] = ()) -> Torus:
    """Return the torus with constants of its network set by ``KEY=VALUE``.

    Also of the torus itself: ``order=1,0``, ``zones=0,1/2`` (groups of dimensions, or
    ``bluegene_q``), ``tie=random``, ``bandwidth=1e9`` or one for each dimension,
    ``bandwidth=1e9,2e9``. What is ``unused`` is of packets only: where there are none, it would
    change nothing. ``unknown`` alone is short for ``rules=unknown``.

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
    texts: dict[str, str] = {}
    for change in changes:
        # The short form for a machine whose rules are not public.
        change = "rules=unknown" if change.strip() == "unknown" else change
        key, text = read_pair(change, "--network")
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
        if key in texts:
            raise InputError("--network key given twice", found=change, expected="one value")
        texts[key] = text
    try:
        values = {key: _value_of(key, text) for key, text in texts.items()}
        of_torus = {key: values.pop(key) for key in _OF_THE_TORUS if key in values}
        return replace(torus.with_network(**values), **of_torus)  # type: ignore[arg-type]
    except InputError as error:
        raise error.replace(f"--network: {error.message}") from None


def _value_of(key: str, text: str) -> object:
    """Return the value of a constant: a number where the text is one, in the constant's unit."""
    if key in _TIMES:
        return read_time(text, key)
    if key == "order" or (key == "zones" and not text.isidentifier()):
        words = text.split("/") if key == "zones" else [text]
        zones = [[part.strip() for part in word.split(",")] for word in words]
        if not all(re.fullmatch("[0-9]{1,2}", part) for zone in zones for part in zone):
            expected = "numbers of dimensions such as 1,0"
            raise InputError(f"bad {key}", found=repr(text), expected=expected)
        groups = tuple(tuple(map(int, zone)) for zone in zones)
        return groups if key == "zones" else groups[0]
    if key == "bandwidth" and "," in text:
        return tuple(_value_of(key, part) for part in text.split(","))
    with suppress(ValueError):
        return int(text)
    with suppress(ValueError):
        return read_bytes(text.removesuffix("/s")) if key in _SIZES else float(text)
    with suppress(ValueError):
        return float(text)
    return text


# A time of a network that is longer than this many seconds lacks its unit.
_LONG = 1e-3
# Of the torus, but of the same kind for whoever sets them.
_OF_THE_TORUS = ("tie", "bandwidth", "order", "zones")
_TIMES = ("hop_latency", "overhead", "short_overhead", "start")
_SIZES = (
    *("bandwidth", "memory_bandwidth", "payload", "header"),
    *("eager_limit", "short_limit", "deterministic_limit"),
)


def only_nodes(torus: Torus, path: str) -> Torus:
    """Return the torus with the nodes alone that a file lists.

    A node is a number, or its coordinates; one a line, or in a CSV the column ``node``. A table of
    hosts, as of ``--hosts``, lists theirs.
    """
    text = sources.read_text(path)
    lines = list(text.lines())
    head = sources.cells(lines[0][1])[1] if lines else []
    nodes: dict[int, int] = {}
    if "host" in head:
        nodes = dict.fromkeys(tc.read_hosts(path, torus).node.tolist(), 1)
        lines = []
    place = head.index("node") if "node" in head else None
    for number, line in lines[place is not None :]:
        words = re.split(r"[,;\s]+", line.strip(" ()\t"))
        if place is not None:
            words = sources.cells(line)[1][place : place + 1]
        node = _node(torus, words)
        if node is None:
            expected = f"0 to {torus.n_nodes - 1} or {torus.ndim} coordinates, one node a line, "
            expected += "or a CSV with a column node"
            raise text.fault("bad node", number, line, expected)
        if nodes.setdefault(node, number) != number:
            raise text.fault("node stands twice", number, node, "each node once")
    if not nodes:
        raise text.fault("allocation without a node")
    return torus.without(nodes=sorted(set(range(torus.n_nodes)) - nodes.keys()))


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
    """Return the torus with links as slow as a CSV has them, and without those of bandwidth 0."""
    slow: dict[int, float] = {}
    missing: list[int] = []
    text = sources.read_text(path)
    names = ["link", "bandwidth"]
    _, rows = tables.read_words(text, text.lines(), lambda head: head == names, names)
    for number, row in rows:
        with text.at(number):
            link, bandwidth = torus.read_link(row[0]), _link_bandwidth(row[1])
            if link in slow or link in missing:
                raise InputError("link stands twice", found=row[0], expected="each link once")
            # Checked one by one, so that the line is known.
            torus.without(links=[link]) if bandwidth == 0 else torus.with_links({link: bandwidth})
        if bandwidth == 0:
            missing.append(link)
        else:
            slow[link] = bandwidth
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
