"""The patterns that compositions are built from: sequential tasks, task pools, pipelines.

Patterns in which several workers share one item are data: a list of steps, each a task that runs a
number of times on a part of the item.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from toruscast.errors import InputError
from toruscast.validation import one_of, whole_number

from ..formula import Fitted, Formula, Term
from .expression import Expression
from .stage import Stage, added, of_terms

MOST_WORKERS = 2**53
MOST_STAGES = 10_000
_WORKERS = "number of workers"


@dataclass(frozen=True)
class Pattern:
    """A pattern in which T workers share an item.

    Attributes
    ----------
    tasks : tuple of str
        What its tasks do, in the order in which they are given.
    steps : callable
        Returns for T the steps that follow each other: how often a step runs, the number of its
        task, and the part of the item that it works on; 0 stands for a single element.
    doubles : bool
        T must be a power of two.
    """

    tasks: tuple[str, ...]
    steps: Callable[[int], Sequence[tuple[int, int, float]]]
    doubles: bool = False


PATTERNS = {
    # Each worker scans its part; the T totals are combined in a tree; each adds what comes before.
    "scan": Pattern(
        ("scan", "combine"),
        lambda t: [(1, 0, 1 / t)] + [(math.ceil(math.log2(t)), 1, 0), (1, 1, 1 / t)] * (t > 1),
    ),
    # At every level of the tree the item is divided, and merged again later; leaves are solved.
    "dac": Pattern(
        ("divide", "solve", "merge"),
        lambda t: (
            [(1, k, 1 / 2**level) for level in range(t.bit_length() - 1) for k in (0, 2)]
            + [(1, 1, 1 / t)]
        ),
        doubles=True,
    ),
}


def sequential(name: str, model: str | Formula | Fitted, path: int = 0) -> Expression:
    """Return a sequential task with a scaling model of its time per item.

    Parameters
    ----------
    name : str
    model : str, Formula, PMNFRegressor or Models
        A formula, or a fitted model, whose formula is taken.
    path : int
        Number of the call path in `Models`.

    Raises
    ------
    InputError
        If the name is not an identifier, or the formula cannot be read.

    Examples
    --------
    >>> sequential("inc", "0.02599 n").predict({"n": 1000}).item()
    25.99
    """
    _check_name(name)
    parameters, terms = Formula.of(model, path, place=name).terms()
    return Expression(name, (of_terms(name, parameters, terms),), 0)


def shared(name: str, workers: int, *tasks: Expression, size: str = "n") -> Expression:
    """Return a pattern in which workers share every item.

    Parameters
    ----------
    name : str
        A key of `PATTERNS`: "scan" (of the parts of an item, and combining them) or "dac" (divide
        and conquer: dividing, solving and merging).
    workers : int
        For divide and conquer a power of two.
    *tasks : Expression
        The tasks of the pattern. A part of an item goes through all stages of a task.
    size : str
        Parameter that is the size of an item, at least the number of workers.

    Raises
    ------
    InputError
        If there is no such pattern, its tasks or workers are others, or a task has a fractional
        power of a logarithm of the size, of which no part can be taken.

    Examples
    --------
    >>> split, sort, merge = (sequential(name, model) for name, model in (
    ...     ("split", "3"), ("sort", "n log2(n)"), ("merge", "n")))
    >>> print(shared("dac", 4, split, sort, merge).formula())
    6 + n + 0.25 n log2(n)
    """
    one_of(name, "pattern", tuple(PATTERNS))
    pattern, count = PATTERNS[name], whole_number(workers, _WORKERS, 1, MOST_WORKERS)
    if len(tasks) != len(pattern.tasks):
        raise InputError(
            f"{name} takes {len(pattern.tasks)} tasks",
            found=len(tasks),
            expected=", ".join(pattern.tasks),
        )
    if pattern.doubles and count & (count - 1):
        raise InputError(
            f"{name} halves the item", found=f"{count} workers", expected="2, 4, 8, .."
        )
    for task in tasks:
        _check_expression(task)
    parts = [
        (times, _part(tasks[k].passage(), size, part)) for times, k, part in pattern.steps(count)
    ]
    text = f"{name}_{count}({', '.join(map(str, tasks))})"
    depth = 1 + max(task.depth for task in tasks)
    return Expression(text, (added(text, parts),), depth)


def _part(task: Stage, size: str, part: float) -> Stage:
    """Return the model of a task on a part of an item, multiplied out."""
    if size not in task.parameters or part == 1:
        return task
    q = task.parameters.index(size)
    terms: list[Term] = []
    for coefficient, exponents in task.terms:
        i, j = exponents[q]
        if j != int(j):
            raise InputError(
                f"no part of {task.name} can be taken",
                found=f"log2({size})^{j:g}",
                expected="a whole power of the logarithm",
            )
        if part == 0:
            powers = [(1.0, (0.0, 0.0))] if j == 0 else []
        else:
            # (log2(n) + log2(part))^j
            powers = [
                (math.comb(int(j), k) * math.log2(part) ** (j - k) * part**i, (i, float(k)))
                for k in range(int(j) + 1)
            ]
        terms += [
            (coefficient * factor, (*exponents[:q], pair, *exponents[q + 1 :]))
            for factor, pair in powers
        ]
    return Stage(task.name, task.parameters, tuple(terms))


def tpool(task: Expression, workers: int) -> Expression:
    """Return a pool of workers, each of which runs all of `task` for the items it takes.

    Examples
    --------
    >>> print(tpool(sequential("inc", "0.02599 n"), 4))
    tpool_4(inc)
    """
    _check_expression(task)
    count = whole_number(workers, _WORKERS, 1, MOST_WORKERS)
    if count * max(stage.workers for stage in task.stages) > MOST_WORKERS:
        raise InputError("too many workers", found=workers)
    stages = tuple(Stage(s.name, s.parameters, s.terms, s.workers * count) for s in task.stages)
    return Expression(f"tpool_{count}({task})", stages, task.depth + 1)


def pipe(*tasks: Expression) -> Expression:
    """Return a pipeline whose stages work on different items at the same time.

    Raises
    ------
    InputError
        If there is no stage, or two tasks of one name have different models.

    Examples
    --------
    >>> nop, inc = sequential("nop", "0.00864"), sequential("inc", "0.02599 n")
    >>> pipe(inc, nop).formula()
    '0.02599 n'
    """
    if not tasks:
        raise InputError("a pipeline needs a stage", found="none")
    if sum(len(getattr(task, "stages", ())) for task in tasks) > MOST_STAGES:
        raise InputError("too many stages", expected=f"at most {MOST_STAGES}")
    models: dict[str, tuple[Any, ...]] = {}
    for task in tasks:
        _check_expression(task)
        for stage in task.stages:
            model = (stage.parameters, stage.terms)
            if models.setdefault(stage.name, model) != model:
                raise InputError("two models for one task", found=stage.name)
    stages = tuple(stage for task in tasks for stage in task.stages)
    text = f"pipe({', '.join(map(str, tasks))})"
    return Expression(text, stages, 1 + max(task.depth for task in tasks))


def _check_expression(task: object) -> None:
    if not isinstance(task, Expression):
        raise InputError(
            "not a composition", found=repr(task), expected="sequential(..), tpool(..) or pipe(..)"
        )


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise InputError("bad name of a task", found=name, expected="letters and digits")
    if re.fullmatch(rf"pipe|log2|({'|'.join(['tpool', *PATTERNS])})(_\d+)?", name):
        raise InputError("a task cannot have the name of a pattern", found=name)
