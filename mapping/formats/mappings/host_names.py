"""Lists of hosts with ranges, as Slurm and others write them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toruscast.errors import InputError

MOST = 2**20
# A name, or the pieces of one between ranges in brackets.
NAME = re.compile(r"[A-Za-z_][\w.-]*")
# What stands between commas, those in brackets left alone.
_PART = re.compile(r"(?:[^,\[]|\[[^\[\]]*\]|\[)+")
RANGED = re.compile(r"[A-Za-z_][\w.-]*(\[[0-9,-]+\][\w.-]*)*")


def split_list(text: str) -> list[str]:
    """Split at the commas that stand outside of brackets.

    Examples
    --------
    >>> split_list("n[1-2,5],login1")
    ['n[1-2,5]', 'login1']
    """
    return [part.strip() for part in _PART.findall(text) if part.strip()]


def expand(word: str) -> list[str]:
    """Return the hosts of a name with ranges in brackets, the last range fastest.

    Raises
    ------
    InputError
        If a range is not valid, or there are too many hosts.

    Examples
    --------
    >>> expand("nodes[021-022,7]"), expand("r[0-1]n[1-2]")
    (['nodes021', 'nodes022', 'nodes7'], ['r0n1', 'r0n2', 'r1n1', 'r1n2'])
    """
    if not RANGED.fullmatch(word):
        expected = "a host such as node7, or node[007-012,020]"
        raise InputError("bad name of a host", found=word, expected=expected)
    names = [""]
    for piece in re.split(r"(\[[^\]]*\])", word):
        ends = _range(piece[1:-1]) if piece.startswith("[") else [piece]
        if len(names) * len(ends) > MOST:
            raise InputError("too many hosts", found=word, expected=f"at most {MOST}")
        names = [name + end for name in names for end in ends]
    return names


def _range(text: str) -> list[str]:
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first or last - first >= MOST:
            raise InputError("bad range of hosts", found=f"[{text}]", expected="[low-high,...]")
        width = len(match[1]) if match[1].startswith("0") or match[2] else 0
        found += [f"{number:0{width}d}" for number in range(first, last + 1)]
    return found


def compress(names: Sequence[str]) -> str:
    """Return hosts as a list in which neighbours that count upwards become a range.

    Examples
    --------
    >>> compress(["n07", "n08", "n09", "login", "n3", "n3"])
    'n[07-09],login,n3,n3'
    """
    parts: list[str] = []
    at = 0
    while at < len(names):
        match = re.fullmatch(r"(.*?)(\d{1,9})", names[at], re.S)
        until = at + 1
        if match is not None:
            stem, digits = match[1], match[2]
            while until < len(names):
                following = f"{int(digits) + until - at:0{len(digits)}d}"
                if len(following) != len(digits) or names[until] != stem + following:
                    break
                until += 1
        if match is not None and until > at + 1:
            last = f"{int(match[2]) + until - at - 1:0{len(match[2])}d}"
            parts.append(f"{match[1]}[{match[2]}-{last}]")
        else:
            parts.append(names[at])
        at = until
    return ",".join(parts)
