"""Parts of a file that a reader omits from its workload."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from toruscast.text import nbytes as size_text
from toruscast.text import printable
from toruscast.validation import one_of, real_number, whole_number

Effect = Literal["not counted", "counted once"]
# Maximum number of kinds and places that a message names; JSON output lists all of them.
_MAX_KINDS, _MAX_PLACES = 6, 3


@dataclass(frozen=True)
class Omission:
    """A part of a file that its workload omits or counts only once.

    Parameters
    ----------
    what : str
        Kind of the part, such as "ragged-all-to-all".
    where : str
        Name or line of the part in the file.
    times : int
        Number of occurrences.
    nbytes : float, optional
        Total bytes of the occurrences; None if unknown.
    effect : {"not counted", "counted once"}
    reason : str
        The reason for the omission, or the option that adds the missing information.

    Examples
    --------
    >>> print(describe_omissions([Omission("ragged-all-to-all", "d"), Omission("send", "e", 3, 8)]))
    Not counted: 1 ragged-all-to-all (d), size unknown; 3 send (e), 8.00 B.
    """

    what: str
    where: str = ""
    times: int = 1
    nbytes: float | None = None
    effect: Effect = "not counted"
    reason: str = ""

    def __post_init__(self) -> None:
        one_of(self.effect, "effect", get_args(Effect))
        whole_number(self.times, "number of omissions", 1)
        if self.nbytes is not None:
            real_number(self.nbytes, "omitted bytes", 0)


def merge_omissions(omitted: Iterable[Omission]) -> tuple[Omission, ...]:
    """Merge omissions that have the same kind, reason and place."""
    times: Counter[Omission] = Counter()
    nbytes: dict[Omission, float | None] = {}
    for omission in omitted:
        kind = replace(omission, times=1, nbytes=None)
        subtotal, size = nbytes.get(kind, 0.0), omission.nbytes
        nbytes[kind] = None if subtotal is None or size is None else subtotal + size
        times[kind] += omission.times
    return tuple(replace(kind, times=n, nbytes=nbytes[kind]) for kind, n in times.items())


def describe_omissions(omitted: Sequence[Omission]) -> str:
    """Return a sentence for each effect; empty if there are no omissions."""
    sentences = []
    for effect in get_args(Effect):
        kinds: dict[tuple[str, str], list[Omission]] = defaultdict(list)
        for omission in omitted:
            if omission.effect == effect:
                kinds[omission.what, omission.reason].append(omission)
        parts = [_describe_kind(group) for group in list(kinds.values())[:_MAX_KINDS]]
        if len(kinds) > _MAX_KINDS:
            parts.append(f"{len(kinds) - _MAX_KINDS} more kinds")
        if parts:
            sentences.append(f"{effect.capitalize()}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _describe_kind(group: list[Omission]) -> str:
    """Describe omissions of one kind and reason: number, kind, first places and total size."""
    first, times = group[0], sum(each.times for each in group)
    places = list(dict.fromkeys(printable(each.where) for each in group if each.where))
    more = ", ..." if len(places) > _MAX_PLACES else ""
    where = f" ({', '.join(places[:_MAX_PLACES])}{more})" if places else ""
    text = f"{times:,} {printable(first.what)}{where}"
    sizes = [each.nbytes for each in group if each.nbytes is not None]
    if len(sizes) == len(group):
        text += f", {size_text(sum(sizes))}"
    elif first.effect == "not counted":
        text += ", size unknown"
    return f"{text}, {first.reason}" if first.reason else text
