"""What the readers and writers of tori share: sizes, numbers with units, tori that name a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from toruscast.errors import InputError

from ...torus import Torus
from ..source import Source, Text, label

_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_BANDWIDTH = re.compile(r"([0-9.]+(?:e[+-]?\d+)?)\s*([kmgt]i?)?(b)(?:ps|/s)?", re.I)
_TIME = re.compile(r"([0-9.]+(?:e[+-]?\d+)?)\s*(s|ms|us|ns|ps)?", re.I)
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}


def bytes_a_second(text: str) -> float | None:
    """Return what a bandwidth such as 125MBps, 10Gbps or 4GB/s is; None if it is none.

    Examples
    --------
    >>> bytes_a_second("125MBps"), bytes_a_second("10Gbps"), bytes_a_second("4GB/s")
    (125000000.0, 1250000000.0, 4000000000.0)
    """
    match = _BANDWIDTH.fullmatch(text.strip())
    if match is None or match[1].count(".") > 1:
        return None
    prefix = (match[2] or "").lower()
    scale = _BINARY[prefix] if prefix in _BINARY else _PREFIX[prefix]
    return float(match[1]) * scale / (8 if match[3] == "b" else 1)


def seconds(text: str) -> float | None:
    """Return what a time such as 50us is; seconds without a unit; None if it is none.

    Examples
    --------
    >>> seconds("50us"), seconds("0.5"), seconds("fast")
    (5e-05, 0.5, None)
    """
    match = _TIME.fullmatch(text.strip())
    if match is None or match[1].count(".") > 1:
        return None
    return float(f"{float(match[1]) * _SECONDS[(match[2] or 's').lower()]:.12g}")


def with_unit(
    text: Text, line: int | None, key: str, value: str, convert: Callable[[str], float | None]
) -> float:
    """Return a bandwidth or time with its unit, or raise `InputError` at the line."""
    number = convert(value)
    if number is None:
        expected = "a number with its unit, such as 125MBps, 4GB/s, 20ns"
        raise text.fault(f"bad {key}", line, value or "none", expected)
    return number


def whole_words(text: Text, line: int | None, key: str, words: Sequence[str]) -> tuple[int, ...]:
    """Return one whole number or more, or raise `InputError` at the line."""
    if not words or not all(re.fullmatch(r"[0-9]{1,9}", word) for word in words):
        raise text.fault(f"bad {key}", line, ",".join(words) or "none", "sizes such as 4,4,8")
    return tuple(map(int, words))


def torus_at(source: Source, line: int | None, sizes: Sequence[int], **options: Any) -> Torus:
    """Return a torus, named after the file if nothing else is; errors name the line."""
    hop_latency = options.pop("hop_latency", None)
    with source.text.at(line):
        torus = Torus(tuple(sizes), **{"name": label(source.path)} | options)
        return torus if hop_latency is None else torus.with_network(hop_latency=hop_latency)


def check_supported(torus: Torus, tool: str, expected: str, good: bool = True) -> None:
    """Raise `InputError` if a torus is twisted or not as a tool's tori are."""
    if torus.twist or not good:
        raise InputError(f"{tool} has no such torus", found=str(torus), expected=expected)
