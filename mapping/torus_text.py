"""A torus from the text that a user types, or from the keys of a machine file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from toruscast.errors import InputError

from .machines.machine import (
    OF_NETWORK,
    OF_TORUS,
    WORDS,
    check_keys,
    read_machine,
    take_table,
)
from .machines.registry import get
from .torus import Torus, parse_sizes
from .twist import named_twist

# A suffix at the end of a name.
FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,9}$")
# Characters of sizes, even if they are mistyped.
SIZES = frozenset("0123456789xm ")
_OF_HOLES = ("nodes", "links", "slow")


def parse_torus(text: str) -> Torus:
    """Read a torus from ``8x8x8``, ``8x8x8m`` (a mesh in the last dimension), a machine or a file.

    A machine is a preset's short form, as in `machines.get`. The text of any of these tori,
    ``str(torus)``, reads back as the same torus. A text with a slash or a suffix, or of a file that
    is there, names a file, as in `read_torus`.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> parse_torus("4x4x8m").wrap, parse_torus("tpu_v4:4x4x8").n_nodes
    ((True, True, False), 128)
    """
    if isinstance(text, str) and _names_file(text.strip()):
        from .formats.torus import read_torus

        return read_torus(text.strip())
    machine = isinstance(text, str) and text.strip()[:1].isalpha()
    return get(text) if machine and set(text.lower()) - SIZES else parse_sizes(text)


def _names_file(text: str) -> bool:
    if not set(text.lower()) - SIZES or text.isidentifier():
        return False
    if text.startswith("/") or FILE.search(text):
        return True
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def torus_of(content: dict[str, Any], name: str) -> Torus:
    """Return the torus that the keys of a machine file describe.

    The keys are those of the files of the machines that come along, as of `read_machine`.
    ``machine`` names one of these, from which what the file does not tell is taken; ``twisted`` is
    a twist without its rows. A table ``holes`` has the ``nodes`` of others, missing ``links`` and
    ``slow`` ones as pairs of link and bytes per second; a link is a number or a label.

    Raises
    ------
    InputError
        If there is a key that is not known, or a value that is not valid.

    Examples
    --------
    >>> str(torus_of({"shape": [4, 8], "wrap": [True, False]}, "mine"))
    'mine 4x8m'
    """
    try:
        return _torus(dict(content), name)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("bad torus", found=error) from None


def _torus(content: dict[str, Any], name: str) -> Torus:
    holes = take_table(content, "holes")
    check_keys(holes, _OF_HOLES, "key of [holes]")
    machine, twisted = content.pop("machine", None), content.pop("twisted", None)
    if twisted is not None and (not isinstance(twisted, bool) or "twist" in content):
        raise InputError("bad twisted", found=twisted, expected="true or false, and no twist")
    torus = read_machine(content, name)() if machine is None else _changed(machine, content)
    if twisted is not None:
        torus = replace(torus, twist=named_twist(torus.shape) if twisted else ())
    return _with_holes(torus, **holes)


def _changed(machine: str, content: dict[str, Any]) -> Torus:
    """A machine that is known, with some of its numbers changed."""
    if "shape" in content:
        expected = "the shape behind the machine's name, as in tpu_v4:4x4x8"
        raise InputError("both a machine and a shape", found=machine, expected=expected)
    network = take_table(content, "network")
    check_keys(network, OF_NETWORK, "key of [network]")
    changes = {key: value for key, value in content.items() if key not in WORDS}
    check_keys(changes, OF_TORUS, "key of a torus")
    return replace(get(machine), **changes).with_network(**network)


def _with_holes(torus: Torus, nodes: Any = (), links: Any = (), slow: Any = ()) -> Torus:
    pairs = [pair for pair in slow if isinstance(pair, list) and len(pair) == 2]
    if len(pairs) < len(slow):
        expected = "pairs of link and bytes per second"
        raise InputError("bad slow links", found=slow, expected=expected)
    speeds = {_link(torus, link): bandwidth for link, bandwidth in pairs}
    if nodes or links:
        torus = torus.without(nodes=nodes, links=[_link(torus, link) for link in links])
    return torus.with_links(speeds) if speeds else torus


def _link(torus: Torus, link: object) -> int:
    return torus.read_link(link if isinstance(link, str) else str(link))
