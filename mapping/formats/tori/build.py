"""What the readers and writers of tori share: sizes, numbers with units, tori that name a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from toruscast.errors import InputError

from ...torus import Torus
from ..source import Source, Text, label


def with_unit(
    text: Text, line: int | None, key: str, value: str, read: Callable[[str], float]
) -> float:
    """Return a bandwidth or time with its unit, or raise `InputError` at the line."""
    try:
        return read(value)
    except InputError as error:
        raise text.fault(f"bad {key}", line, value or "none", error.expected) from None


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
