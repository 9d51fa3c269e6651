"""Composed models against measured ones, on this machine [Calotoiu19].

``python -m studies.patterns --csv FILE`` runs the three tasks alone and in patterns, fits all of
them, and compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toruscast.errors import InputError
from toruscast.scaling import Expression, PMNFRegressor, composed, sequential

from .tasks import TASKS, Stream, Timing, run_alone, run_pipeline

SIZES = tuple(2**k for k in range(10, 19))
EXPRESSIONS = (
    "tpool_1(qsort)",
    "tpool_2(qsort)",
    "tpool_1(inc)",
    "tpool_2(inc)",
    "pipe(qsort, inc)",
    "pipe(inc, nop)",
    "tpool_2(nop)",
)
INTEGERS = 2**19
BLOCKS = 10
QUIET = 0.02  # a run counts as undisturbed if its share of waiting is below this
TRIES = 3


def measure(
    expressions: Sequence[str] = EXPRESSIONS,
    sizes: Sequence[int] = SIZES,
    repetitions: int = 5,
    integers: int = INTEGERS,
    blocks: int = BLOCKS,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> pd.DataFrame:
    """Run tasks alone and in patterns.

    Parameters
    ----------
    expressions : sequence of str
        Compositions of nop, inc and qsort; each task in them is run alone too.
    sizes : sequence of int
        Integers in an item.
    repetitions : int
        Runs to keep of each. Runs that waited for a processor are repeated, up to three times as
        many; those that waited least are kept, whatever their times.
    integers, blocks : int
        Integers in a block and blocks in the stream.
    progress : callable
        Called with the number of runs that are done or not needed, and the number of all.

    Returns
    -------
    DataFrame
        Columns: pattern, n, microseconds (per item), waited (for a processor, as a share of the
        elapsed time).

    Raises
    ------
    InputError
        If an expression cannot be read, or a size is not positive or larger than a block.

    Notes
    -----
    The normal form of the expression is run: a pipeline of task pools in the order written.
    """
    if not sizes or not all(isinstance(n, int) and 0 < n <= integers for n in sizes):
        raise InputError(
            "bad sizes of items", found=list(sizes), expected=f"whole numbers from 1 to {integers}"
        )
    known = {name: sequential(name, "1") for name in TASKS}
    patterns = {text: composed(text, known) for text in expressions}
    names = sorted({stage.name for pattern in patterns.values() for stage in pattern.stages})
    stream = Stream(integers, blocks)
    runs: dict[tuple[str, int], Callable[[], Timing]] = {}
    for n in sizes:
        for name in names:
            runs[name, n] = partial(run_alone, name, stream, n)
        for text, pattern in patterns.items():
            if text not in names:
                stages = [(stage.name, stage.workers) for stage in pattern.stages]
                runs[text, n] = partial(run_pipeline, stages, stream, n)
    kept: dict[tuple[str, int], list[Timing]] = {key: [] for key in runs}
    rounds = TRIES * repetitions
    for number in range(rounds):
        # Patterns take turns, so that a slow minute of the machine affects all of them.
        for place, (key, run) in enumerate(runs.items()):
            undisturbed = sum(not timing.waited > QUIET for timing in kept[key])
            if undisturbed < repetitions:
                kept[key].append(run())
            progress("runs", number * len(runs) + place + 1, rounds * len(runs))
    rows = [
        (pattern, n, 1e6 * timing.seconds, timing.waited)
        for (pattern, n), timings in kept.items()
        for timing in sorted(timings, key=_disturbance)[:repetitions]
    ]
    return pd.DataFrame(rows, columns=["pattern", "n", "microseconds", "waited"])


def compare(rows: pd.DataFrame) -> tuple[dict[str, Expression], pd.DataFrame]:
    """Fit tasks and patterns, and compare the composed model of each pattern with its own.

    Parameters
    ----------
    rows : DataFrame
        From `measure`.

    Returns
    -------
    tasks : dict of str to Expression
        Fitted models of the tasks alone, microseconds per item.
    table : DataFrame
        A row for each pattern: pattern, composed (formula), measured (formula fitted to the pattern
        itself), error (percent, composed from fitted model at the largest n), waited (median
        share), median_error and largest_error (percent, composed model from measured medians).

    Examples
    --------
    >>> n = [1, 2, 4, 8, 16]
    >>> alone = pd.DataFrame({"pattern": "inc", "n": n, "microseconds": n, "waited": 0.0})
    >>> pool = alone.assign(pattern="tpool_2(inc)", microseconds=alone.microseconds * 0.625)
    >>> tasks, table = compare(pd.concat([alone, pool]))
    >>> table[["composed", "measured", "error"]].round(3).to_numpy().tolist()
    [['0.5 n', '0.625 n', 20.0]]
    """
    fitted = {
        str(name): sequential("measured", _fitted(part))
        for name, part in rows.groupby("pattern", sort=False)
    }
    tasks = {
        name: sequential(name, _fitted(rows[rows["pattern"] == name]))
        for name in fitted
        if name in TASKS
    }
    table = [
        _row(composed(text, tasks), own, rows[rows["pattern"] == text])
        for text, own in fitted.items()
        if text not in tasks
    ]
    return tasks, pd.DataFrame(table)


def _row(program: Expression, own: Expression, rows: pd.DataFrame) -> Mapping[str, object]:
    medians = rows.groupby("n")["microseconds"].median()
    sizes: NDArray[np.float64] = medians.index.to_numpy(dtype=float)
    true = medians.to_numpy(dtype=float)
    errors = 100 * np.abs(program.predict({"n": sizes}) - true) / true
    return {
        "pattern": str(program),
        "composed": program.formula(4),
        "measured": own.formula(4),
        "error": 100 * float(program.relative_error(own, {"n": sizes.max()})),
        "waited": float(rows["waited"].median()),
        "median_error": float(np.median(errors)),
        "largest_error": float(errors.max()),
    }


def _fitted(rows: pd.DataFrame) -> PMNFRegressor:
    model = PMNFRegressor(warn=False)
    return model.fit(rows[["n"]].astype(float), rows["microseconds"].to_numpy())


def _disturbance(timing: Timing) -> float:
    return 0.0 if math.isnan(timing.waited) else timing.waited
