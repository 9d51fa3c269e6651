"""Candidate mappings and the times that a simulation gives them, for the commands that rank so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pandas as pd

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


def ranked(found: Mapping[str, Timed]) -> pd.DataFrame:
    """Return a row for each mapping, the fastest first.

    Columns: ``rank``, ``mapping``, ``time``, ``lower_bound``, ``over_bound`` (the first over the
    second), ``busiest_link`` (its name; None where nothing leaves a node) and ``busy_share``, the
    share of the time that it is busy.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for name, timed in found.items():
        least, link = timed.why.lower_bound, timed.busiest_link
        rows.append(
            {
                "mapping": name,
                "time": timed.time,
                "lower_bound": least,
                "over_bound": timed.time / least if least else float("nan"),
                "busiest_link": link,
                "busy_share": timed.busy / timed.time if link else 0.0,
            }
        )
    table = pd.DataFrame(rows).sort_values("time", kind="stable", ignore_index=True)
    table.insert(0, "rank", table["time"].rank(method="min").astype(int))
    return table
