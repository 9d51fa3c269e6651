"""Which stage of a composition to replicate, and how often."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
from numpy.typing import ArrayLike

from toruscast.errors import InputError
from toruscast.validation import whole_number

from .expression import Expression
from .patterns import pipe, tpool
from .stage import columns_of

_MOST = 100_000


def replicate(
    program: Expression,
    workers: int,
    at: Mapping[str, ArrayLike],
    fixed: Sequence[str] = (),
) -> tuple[Expression, pd.DataFrame]:
    """Give workers, one after the other, to the slowest stage.

    The time per item is that of the slowest stage, so no other order gives a shorter one.

    Parameters
    ----------
    program : Expression
    workers : int
        More than the program has.
    at : mapping
        One value for each parameter.
    fixed : sequence of str
        Tasks that cannot be replicated, such as those with a state.

    Returns
    -------
    program : Expression
        With the workers.
    steps : DataFrame
        A row for each worker: ``stage`` that it goes to, its ``workers`` then, ``time`` per item,
        ``speed_up`` over the program as it is, and ``gain``, the speed-up over the row before. No
        row follows once a fixed stage is the slowest.

    Raises
    ------
    InputError
        If the workers are no whole number of 1 or more, or the places are not one.

    Examples
    --------
    >>> from toruscast.scaling import sequential
    >>> qsort, inc = sequential("qsort", "9 n"), sequential("inc", "4 n")
    >>> program, steps = replicate(pipe(qsort, inc), 3, {"n": 10})
    >>> print(program, steps["time"].tolist())
    pipe(tpool_3(qsort), tpool_2(inc)) [45.0, 40.0, 30.0]
    """
    count = whole_number(workers, "number of workers", 1, _MOST)
    before = program.predict(at)
    if before.size != 1:
        raise InputError("replicating needs one value of each parameter", found=dict(at))
    stages = program.stages
    places = columns_of(stages, at)
    alone = [float(stage.values(places).item()) * stage.workers for stage in stages]
    given = [stage.workers for stage in stages]
    order = [(-alone[k] / given[k], k) for k in range(len(stages))]
    heapq.heapify(order)
    rows, last = [], before.item()
    for _ in range(count):
        _, k = order[0]
        if stages[k].name in fixed or not alone[k] > 0:
            break
        given[k] += 1
        heapq.heapreplace(order, (-alone[k] / given[k], k))
        time = -order[0][0]
        rows.append((stages[k].name, given[k], time, before.item() / time, last / time))
        last = time
    tasks = [Expression(stage.name, (replace(stage, workers=1),), 0) for stage in stages]
    parts = [tpool(task, n) if n > 1 else task for task, n in zip(tasks, given, strict=True)]
    columns = ["stage", "workers", "time", "speed_up", "gain"]
    return parts[0] if len(parts) == 1 else pipe(*parts), pd.DataFrame(rows, columns=columns)
