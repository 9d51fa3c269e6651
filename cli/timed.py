"""Candidate mappings and the times that a simulation gives them, for the commands that rank so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pandas as pd

    from toruscast.features.reasons import Reasons
    from toruscast.mapping import TaskMapping

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
    time_one: Callable[[TaskMapping, Tell], T],
    jobs: int,
    progress: Callable[[int, int], None],
) -> dict[str, T]:
    """Time each mapping, ``jobs`` at once; return them by name.

    ``sizes`` is the work that each of them is; ``time_one`` tells how much of it is done.
    """
    import numpy as np
    from joblib import Parallel, delayed

    done = np.zeros(len(mappings), dtype=np.int64)
    total = sum(sizes)

    def one(i: int, mapping: TaskMapping) -> T:
        def tell(now: int) -> None:
            # What begins again does not go back.
            done[i] = max(int(done[i]), min(now, sizes[i]))
            progress(int(done.sum()), total)

        timed = time_one(mapping, tell)
        tell(sizes[i])
        return timed

    every: list[T] = Parallel(n_jobs=jobs, prefer="threads")(
        delayed(one)(i, mapping) for i, mapping in enumerate(mappings)
    )
    names = [mapping.name or str(i) for i, mapping in enumerate(mappings)]
    return dict(zip(names, every, strict=True))


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
