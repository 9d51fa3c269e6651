"""The short form of what a step sends: ``tensor:allreduce:64MB,data:allreduce/ring:1GB``."""

from __future__ import annotations

from toruscast.errors import InputError
from toruscast.validation import read_bytes

from .traffic import FORM, MeshTraffic


def parse_traffic(text: str) -> tuple[MeshTraffic, ...]:
    """Read traffic from its short form, ``AXIS:COLLECTIVE[/ALGORITHM]:SIZE[:TIMES]``, by commas.

    Several axes joined by ``+`` stand for groups of their product.

    Raises
    ------
    InputError
        If it is of another form.

    Examples
    --------
    >>> [(each.label, each.nbytes) for each in parse_traffic("t:allreduce:64MB,d+t:allgather:1e6")]
    [('t allreduce', 64000000.0), ('d+t allgather', 1000000.0)]
    """
    return tuple(_one(part.strip()) for part in text.split(","))


def _one(text: str) -> MeshTraffic:
    words = [word.strip() for word in text.split(":")]
    if len(words) not in (3, 4) or not all(words):
        raise InputError("bad traffic", found=text, expected=FORM)
    kind, _, algorithm = words[1].partition("/")
    times = words[3] if len(words) == 4 else "1"
    if not (times.isascii() and times.isdecimal() and 1 <= len(times) <= 9 and int(times)):
        raise InputError("bad traffic", found=text, expected=f"{FORM}, or :64MB:12 for 12 times")
    names = tuple(name.strip() for name in words[0].split("+"))
    return MeshTraffic(kind, read_bytes(words[2]), names, algorithm=algorithm, times=int(times))
