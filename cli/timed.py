"""Times that are computed for every candidate, several at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from toruscast.features.reasons import Reasons
    from toruscast.mapping import TaskMapping
    from toruscast.workers import Task

Tell = Callable[[int], None]


@dataclass(frozen=True)
class Timed:
    """What came out for a mapping."""

    time: float
    phase_times: tuple[float, ...]
    why: Reasons
    busiest_link: str | None
    """Its name; None where nothing leaves a node."""
    busy: float
    """Seconds that it takes for its bytes."""


T = TypeVar("T", bound=Timed)


def time_all(
    mappings: Sequence[TaskMapping],
    sizes: Sequence[int],
    time_one: Task[T],
    jobs: int,
    progress: Callable[[int, int], None],
) -> dict[str, T]:
    """Time each mapping, ``jobs`` at once; return them by name.

    ``sizes`` is the work that each of them is. ``time_one`` takes a mapping and what it tells how
    much of it is done.
    """
    total = _Total(sizes, progress)
    found: dict[int, T] = {}
    items = ((mapping, _Part(total, i)) for i, mapping in enumerate(mappings))
    for i, timed in time_one.each(items, jobs):
        found[i] = timed
        total.tell(i, sizes[i])
    return {mapping.name or str(i): found[i] for i, mapping in enumerate(mappings)}


class _Total:
    """How much of all is done."""

    def __init__(self, sizes: Sequence[int], progress: Callable[[int, int], None]) -> None:
        self.sizes, self.progress = sizes, progress
        self.done = [0] * len(sizes)

    def tell(self, i: int, now: int) -> None:
        # What begins again does not go back.
        self.done[i] = max(self.done[i], min(now, self.sizes[i]))
        self.progress(sum(self.done), sum(self.sizes))


class _Part:
    """Tells how much of one mapping is done, to the process that it is in: others hear no word."""

    def __init__(self, total: _Total, i: int) -> None:
        self.total, self.i = total, i

    def __call__(self, now: int) -> None:
        self.total.tell(self.i, now)

    def __reduce__(self) -> tuple[object, ...]:
        return _silent, ()


def _silent() -> Tell:
    return _say_nothing


def _say_nothing(now: int) -> None:
    pass
