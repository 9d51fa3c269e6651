"""Numbers of things and names, in words."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 200


def counted(number: float, noun: str) -> str:
    """Return a number and what it counts, in the plural unless it is one.

    Parameters
    ----------
    number : int or float
        How many; whole numbers are shown without a point.
    noun : str
        The singular, of a word that forms its plural with an "s".

    Examples
    --------
    >>> counted(1, "task"), counted(0, "edge"), counted(2.5, "message")
    ('1 task', '0 edges', '2.5 messages')
    """
    return f"{number:.15g} {noun}" + ("" if number == 1 else "s")


def printable(text: str) -> str:
    r"""Return a name as a terminal can show it: no control characters.

    Examples
    --------
    >>> printable("red\x1b[31m")
    'red?[31m'
    """
    return "".join(c if c.isprintable() else "?" for c in text)


def shown_name(value: object) -> str:
    """Return a name as it stands in a sentence or a table: printable, and cut if very long.

    Examples
    --------
    >>> shown_name("identity"), len(shown_name("x" * 10_000))
    ('identity', 200)
    """
    shown = printable(str(value))
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 1]}…"


def shortened(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters; dots show that something is left out.

    Examples
    --------
    >>> shortened("abcdefgh", 6)
    'abc...'
    """
    return text if len(text) <= limit else text[: limit - 3] + "..."


def one_line(text: str) -> str:
    """Return a text as one line that a terminal can show."""
    return printable(" ".join(text.split()))


def closest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the names like ``name``, or where there are none, ``otherwise`` or all.

    Examples
    --------
    >>> closest("identty", ["greedy", "identity", "random"])
    'identity'
    """
    names = list(known)
    close = get_close_matches(name, names, n=2, cutoff=0.6)
    return " or ".join(close) or otherwise or " or ".join(names)
