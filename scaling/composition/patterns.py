"""The patterns that compositions are built from: sequential tasks, task pools, pipelines."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np

from toruscast.errors import InputError

from ..formula import Fitted, Formula, Term, joined
from .expression import Expression
from .stage import Stage

MOST_WORKERS = 2**53
MOST_STAGES = 10_000
_RESERVED = re.compile(r"pipe|tpool(_\d+)?|log2")


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
    return Expression(name, (_reduced(name, parameters, terms),), 0)


def tpool(task: Expression, workers: int) -> Expression:
    """Return a pool of workers, each of which runs all of `task` for the items it takes.

    Examples
    --------
    >>> print(tpool(sequential("inc", "0.02599 n"), 4))
    tpool_4(inc)
    """
    _check_expression(task)
    try:
        count = operator.index(workers)
    except TypeError:
        count = 0
    if isinstance(workers, bool | np.bool_) or count < 1:
        raise InputError(
            "a task pool needs workers", found=workers, expected="a whole number, 1 or more"
        )
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
    if _RESERVED.fullmatch(name):
        raise InputError("a task cannot have the name of a pattern", found=name)


def _reduced(name: str, parameters: tuple[str, ...], terms: list[Term]) -> Stage:
    """Drop zero terms and parameters without effect, so that equal models compare equal."""
    terms = [term for term in terms if term[0] != 0]
    acts = sorted(
        (parameter, q)
        for q, parameter in enumerate(parameters)
        if any(any(exponents[q]) for _, exponents in terms)
    )
    kept = joined([(c, tuple(e[q] for _, q in acts)) for c, e in terms], len(acts))
    return Stage(name, tuple(parameter for parameter, _ in acts), tuple(kept))
