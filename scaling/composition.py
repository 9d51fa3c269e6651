"""Models of parallel programs, composed from models of their tasks."""

from __future__ import annotations

import ast
import heapq
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.typing import Floats
from toruscast.validation import check_type, one_of, whole_number

from .formula import Formula, Powers, SupportsFormula
from .stages import (
    RangePart,
    Stage,
    broadcast_values,
    check_names,
    find_slowest,
    list_parameters,
    split_range,
)

# If T workers each take the time M per item, they finish an item every M / T. A pipeline is as fast
# as its slowest stage. So the time per item of a composition is the maximum of M / workers over its
# sequential tasks, and its normal form is the list of (task, workers). This implies the laws of
# [Calotoiu19] in `Expression`.

MAX_NESTING = 100
MAXIMA = ("point", "asymptotic")
MAX_WORKERS = 2**53
MAX_STAGES = 10_000
_WORKERS = "number of workers"
# Patterns in which workers share an item, and the tasks that each pattern needs.
PATTERNS = {"scan": ("scan", "combine"), "dac": ("divide", "solve", "merge")}
_MAX_NEW_WORKERS = 100_000
_STEP_COLUMNS = ["stage", "workers", "time", "speed_up", "gain"]
_MAX_CHARACTERS = 10_000
_POOL = re.compile(r"tpool(?:_(\d+))?")
# Converting very long numbers is slow.
_MAX_DIGITS = 20
_PATTERN = re.compile(rf"({'|'.join(PATTERNS)})_(\d{{1,{_MAX_DIGITS}}})")


class Expression:
    """A composition of sequential tasks; made by `sequential`, `tpool` and `pipe`.

    Two expressions are equal if these laws turn one into the other: pools and pipelines are
    associative and commutative, and a pool distributes over a pipeline.

    Attributes
    ----------
    stages : tuple of Stage
        Each sequential task with its number of workers, in the order of the text.
    parameters : tuple of str
        Parameters of all models.

    Examples
    --------
    >>> qsort = sequential("qsort", "0.03899 n log2(n)")
    >>> inc = sequential("inc", "0.02599 n")
    >>> program = tpool(pipe(qsort, inc), 2)
    >>> program == pipe(tpool(inc, 2), tpool(qsort, 2))
    True
    >>> print(program, "=", program.simplified())
    tpool_2(pipe(qsort, inc)) = pipe(tpool_2(inc), tpool_2(qsort))
    >>> program.formula(), program.predict({"n": [2, 1024]}).round(4).tolist()
    ('0.019495 n log2(n)', [0.039, 199.6288])
    """

    def __init__(self, text: str, stages: tuple[Stage, ...]) -> None:
        self._text = text
        self._normal = tuple(sorted(stages))
        self.stages = stages
        self.parameters = list_parameters(stages)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._text}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self._normal == other._normal

    def __hash__(self) -> int:
        return hash(self._normal)

    def simplified(self) -> Expression:
        """Return the normal form: one pipeline of task pools, sorted by name."""
        return _join_stages(self._normal)

    def slowest(self) -> tuple[Stage, ...]:
        """Return the stages that are the slowest for large parameters.

        Stages are compared by order of growth, then by leading coefficients. With several
        parameters, some stages may be incomparable.
        """
        return find_slowest(self._normal)

    def formula(self, digits: int = 5) -> str:
        """Return the time per item for large parameters as text; for several stages, max(..)."""
        parts = [stage.formula(digits) for stage in self.slowest()]
        return parts[0] if len(parts) == 1 else f"max({', '.join(parts)})"

    def predict(self, at: Mapping[str, ArrayLike], maximum: str = "point") -> Floats:
        """Return the time per item in the steady state, in the unit of the tasks' models.

        Parameters
        ----------
        at : mapping or DataFrame
            A value or an array of values for every parameter.
        maximum : {"point", "asymptotic"}
            Use the slowest stage at each point, or the slowest stage for large parameters.
        """
        check_names(self.parameters, at)
        return self._compute_times(at, maximum)

    def latency(self, at: Mapping[str, ArrayLike]) -> Floats:
        """Return the time from an item's arrival to its departure, if the item never waits.

        An item passes every stage of a pipeline but only one worker of a pool, so pools do not
        reduce the latency. The latency obeys the same laws as the time per item.

        Examples
        --------
        >>> program = tpool(pipe(sequential("a", "2 n"), sequential("b", "n + 5")), 4)
        >>> program.latency({"n": 10}).item(), program.predict({"n": 10}).item()
        (35.0, 5.0)
        """
        check_names(self.parameters, at)
        return self.passage().values(broadcast_values(self.stages, at))

    def passage(self) -> Stage:
        """Return one stage that models the latency: the sum of all tasks, each on one worker."""
        products = (product for stage in self._normal for product in stage.terms)
        return Stage.from_products(str(self), products)

    def _compute_times(self, at: Mapping[str, ArrayLike], maximum: str = "point") -> Floats:
        """Return the time per item of the slowest stage; `at` may have other parameters too."""
        one_of(maximum, "maximum", MAXIMA)
        columns = broadcast_values(self.stages, at)
        stages = self.slowest() if maximum == "asymptotic" else tuple(dict.fromkeys(self._normal))
        return np.asarray(np.max([stage.values(columns) for stage in stages], axis=0))

    def pieces(
        self, parameter: str, low: float, high: float, at: Mapping[str, float] | None = None
    ) -> list[RangePart]:
        """Split a parameter's range, 0 < low < high, into parts with one slowest stage each.

        ``at`` gives the values of the other parameters.
        """
        return split_range(self._normal, parameter, low, high, at or {})

    def relative_error(self, reference: Expression, at: Mapping[str, ArrayLike]) -> Floats:
        """Return the relative error of the predictions, compared with another composition.

        `at` gives the values of the parameters of both compositions.
        """
        _check_expression(reference)
        check_names(sorted({*self.parameters, *reference.parameters}), at)
        expected = reference._compute_times(at)
        if (expected == 0).any():
            raise InputError("the reference is 0, so the relative error is undefined")
        return np.asarray(np.abs(self._compute_times(at) - expected) / np.abs(expected))


def _list_steps(pattern: str, workers: int) -> list[tuple[int, int, float]]:
    """Return the steps of a pattern: (number of runs, index of the task, share of the item).

    The index is the task's position in `PATTERNS`. A share of 0 means a single element.
    """
    share = 1 / workers
    if pattern == "dac":
        divide, solve, merge = range(3)
        # Workers divide and merge the item on each level of a binary tree, and solve the leaves.
        parts = [1 / 2**level for level in range(workers.bit_length() - 1)]
        return [(1, task, part) for part in parts for task in (divide, merge)] + [(1, solve, share)]
    scan, combine = range(2)
    if workers == 1:
        return [(1, scan, share)]
    # Workers scan their parts, combine the parts' totals in a tree, and each add the preceding
    # total.
    n_levels = math.ceil(math.log2(workers))
    return [(1, scan, share), (n_levels, combine, 0.0), (1, combine, share)]


def sequential(name: str, model: str | Formula | SupportsFormula, path: int = 0) -> Expression:
    """Return a sequential task with a scaling model of its time per item.

    The model is a formula or a fitted model; ``path`` selects a call path of `Models` by number.

    Examples
    --------
    >>> sequential("inc", "0.02599 n").predict({"n": 1000}).item()
    25.99
    """
    _check_name(name)
    products = Formula.from_model(model, path, place=name).sum()
    return Expression(name, (Stage.from_products(name, products.items()),))


def shared(name: str, workers: int, *tasks: Expression, size: str = "n") -> Expression:
    """Return a pattern in which workers share every item.

    Parameters
    ----------
    name : {"scan", "dac"}
        "scan" needs two tasks: one scans a part of an item, the other combines two parts. "dac"
        (divide and conquer) needs three tasks: divide, solve and merge.
    workers : int
        Number of workers; for "dac", a power of two.
    *tasks : Expression
        Tasks of the pattern. Each part of an item passes through all stages of a task.
    size : str
        Parameter that gives the size of an item, which must be at least the number of workers.

    Examples
    --------
    >>> split, sort, merge = (sequential(name, model) for name, model in (
    ...     ("split", "3"), ("sort", "n log2(n)"), ("merge", "n")))
    >>> print(shared("dac", 4, split, sort, merge).formula())
    6 + n + 0.25 n log2(n)
    """
    one_of(name, "pattern", tuple(PATTERNS))
    count, names = whole_number(workers, _WORKERS, 1, MAX_WORKERS), PATTERNS[name]
    if len(tasks) != len(names):
        message, expected = f"{name} takes {len(names)} tasks", ", ".join(names)
        raise InputError(message, found=len(tasks), expected=expected)
    if name == "dac" and count & (count - 1):
        found, expected = f"{count} workers", "2, 4, 8, .."
        raise InputError(f"{name} halves the item", found=found, expected=expected)
    for task in tasks:
        _check_expression(task)
    products = [
        (powers, times * coefficient)
        for times, k, part in _list_steps(name, count)
        for powers, coefficient in _scale_size(tasks[k].passage(), size, part)
    ]
    text = f"{name}_{count}({', '.join(map(str, tasks))})"
    return Expression(text, (Stage.from_products(text, products),))


def _scale_size(task: Stage, size: str, part: float) -> Sequence[tuple[Powers, float]]:
    """Return a model's products for a part of an item, or for one element if `part` is 0."""
    if size not in task.parameters or part == 1:
        return task.terms
    products: list[tuple[Powers, float]] = []
    for powers, coefficient in task.terms:
        i, j = dict(powers).get(size, (0.0, 0.0))
        if j != int(j):
            message = f"workers cannot share an item of {task.name}"
            found, expected = f"log2({size})^{j:g}", "a logarithm with a whole exponent"
            raise InputError(message, found=found, expected=expected)
        if part == 0:
            # At n = 1, every power is 1 and the logarithm is 0.
            scaled_terms = [(1.0, (0.0, 0.0))] if j == 0 else []
        else:
            # Expand (part n)^i (log2(n) + log2(part))^j by the binomial theorem.
            scaled_terms = [
                (math.comb(int(j), k) * math.log2(part) ** (j - k) * part**i, (i, float(k)))
                for k in range(int(j) + 1)
            ]
        for factor, exponents in scaled_terms:
            scaled = {**dict(powers), size: exponents}
            new_powers = tuple(sorted((name, pair) for name, pair in scaled.items() if any(pair)))
            products.append((new_powers, coefficient * factor))
    return products


def tpool(task: Expression, workers: int) -> Expression:
    """Return a pool of workers, each of which applies the complete `task` to some of the items.

    Examples
    --------
    >>> print(tpool(sequential("inc", "0.02599 n"), 4))
    tpool_4(inc)
    """
    _check_expression(task)
    count = whole_number(workers, _WORKERS, 1, MAX_WORKERS)
    if count * max(stage.workers for stage in task.stages) > MAX_WORKERS:
        raise InputError("too many workers", found=workers)
    stages = tuple(replace(stage, workers=stage.workers * count) for stage in task.stages)
    return Expression(f"tpool_{count}({task})", stages)


def pipe(*tasks: Expression) -> Expression:
    """Return a pipeline whose stages work on different items at the same time.

    Examples
    --------
    >>> nop, inc = sequential("nop", "0.00864"), sequential("inc", "0.02599 n")
    >>> pipe(inc, nop).formula()
    '0.02599 n'
    """
    if not tasks:
        raise InputError("a pipeline needs a stage", found="none")
    if sum(len(getattr(task, "stages", ())) for task in tasks) > MAX_STAGES:
        raise InputError("too many stages", expected=f"at most {MAX_STAGES}")
    models: dict[str, object] = {}
    for task in tasks:
        _check_expression(task)
        for stage in task.stages:
            if models.setdefault(stage.name, stage.terms) != stage.terms:
                raise InputError("two models for one task", found=stage.name)
    stages = tuple(stage for task in tasks for stage in task.stages)
    return Expression(f"pipe({', '.join(map(str, tasks))})", stages)


def _check_expression(task: object) -> None:
    check_type(task, "composition", Expression, "sequential(..), tpool(..) or pipe(..)")


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise InputError("bad name of a task", found=name, expected="letters and digits")
    if re.fullmatch(rf"pipe|log2|({'|'.join(['tpool', *PATTERNS])})(_\d+)?", name):
        raise InputError("a task cannot have the name of a pattern", found=name)


def replicate(
    program: Expression, workers: int, at: Mapping[str, ArrayLike], fixed: Sequence[str] = ()
) -> tuple[Expression, pd.DataFrame]:
    """Add workers to a program, each to the slowest stage, to minimise the time per item.

    Parameters
    ----------
    program : Expression
    workers : int
        Number of additional workers.
    at : mapping
        One value of each parameter.
    fixed : sequence of str
        Tasks that cannot be replicated, such as tasks that keep a state.

    Returns
    -------
    program : Expression
    steps : DataFrame
        One row per added worker: its ``stage``, the stage's number of ``workers``, the ``time`` per
        item, ``speed_up`` over the given program, and ``gain`` (speed-up over the previous row).
        The table ends when a fixed stage is the slowest.

    Examples
    --------
    >>> qsort, inc = sequential("qsort", "9 n"), sequential("inc", "4 n")
    >>> program, steps = replicate(pipe(qsort, inc), 3, {"n": 10})
    >>> print(program, steps["time"].tolist())
    pipe(tpool_3(qsort), tpool_2(inc)) [45.0, 40.0, 30.0]
    """
    _check_expression(program)
    count = whole_number(workers, _WORKERS, 1, _MAX_NEW_WORKERS)
    initial = program.predict(at)
    if initial.size != 1:
        raise InputError("replicating needs one value of each parameter", found=dict(at))
    stages = program.stages
    columns = broadcast_values(stages, at)
    one_worker_times = [float(stage.values(columns).item()) * stage.workers for stage in stages]
    n_workers = [stage.workers for stage in stages]
    # The heap is sorted by negative time, so the slowest stage comes first.
    heap = [(-one_worker_times[k] / n_workers[k], k) for k in range(len(stages))]
    heapq.heapify(heap)
    rows, last = [], initial.item()
    for _ in range(count):
        _, k = heap[0]
        if stages[k].name in fixed or not one_worker_times[k] > 0:
            break
        n_workers[k] += 1
        heapq.heapreplace(heap, (-one_worker_times[k] / n_workers[k], k))
        time = -heap[0][0]
        rows.append((stages[k].name, n_workers[k], time, initial.item() / time, last / time))
        last = time
    replicated = (replace(stage, workers=n) for stage, n in zip(stages, n_workers, strict=True))
    return _join_stages(tuple(replicated)), pd.DataFrame(rows, columns=_STEP_COLUMNS)


def _join_stages(stages: tuple[Stage, ...]) -> Expression:
    """Return a pipeline of the stages, or the stage itself if there is only one."""
    text = ", ".join(map(str, stages))
    return Expression(text if len(stages) == 1 else f"pipe({text})", stages)


def composed(text: str, tasks: Mapping[str, Expression]) -> Expression:
    """Read a composition of named tasks.

    Parameters
    ----------
    text : str
        ``tpool_4(task)`` or ``tpool(task, 4)``; ``pipe(task, task, ...)``; or a pattern of
        `shared`: ``scan_4(scan, combine)`` or ``dac_4(divide, solve, merge)``. All can be nested.
    tasks : mapping
        Expressions by name.

    Examples
    --------
    >>> tasks = {"qsort": sequential("qsort", "0.03899 n log2(n)")}
    >>> composed("tpool_2(tpool(qsort, 3))", tasks).formula()
    '0.0064983 n log2(n)'
    """
    check_type(text, "expression", str, "text such as tpool_4(task)")
    if len(text) > _MAX_CHARACTERS:
        raise InputError("expression too long", found=f"{len(text)} characters")
    # Number of open parentheses after each character.
    depths = accumulate((sign == "(") - (sign == ")") for sign in text)
    if max(depths, default=0) > MAX_NESTING:
        raise InputError("nested too deep", expected=f"at most {MAX_NESTING} levels")
    line = " ".join(text.split())
    try:
        tree = ast.parse(line, mode="eval").body
    except (SyntaxError, ValueError) as error:
        column = getattr(error, "offset", None) or len(line) + 1
        raise _syntax_error(line, column - 1, "tasks, tpool_T(..) and pipe(.., ..)") from None
    return _compose_node(tree, line, tasks)


def _compose_node(node: ast.expr, text: str, tasks: Mapping[str, Expression]) -> Expression:
    """Convert a node of the syntax tree of `text` to a composition, recursively."""
    match node:
        case ast.Name(id=name) if name in tasks:
            return tasks[name]
        case ast.Name(id=name):
            if _POOL.fullmatch(name) or _PATTERN.fullmatch(name):
                expected = "tpool_T(..) with a whole number T of workers"
                raise _syntax_error(text, node.col_offset, expected)
            expected = " or ".join(tasks) or "a task with a model"
            raise InputError(f"unknown task in {text[:60]!r}", found=name, expected=expected)
        case ast.Call(func=ast.Name(id="pipe"), args=[_, *_] as parts, keywords=[]):
            return pipe(*(_compose_node(part, text, tasks) for part in parts))
        case ast.Call(func=ast.Name(id=name), args=[*parts], keywords=[]) if (
            pattern := _PATTERN.fullmatch(name)
        ):
            inner = [_compose_node(part, text, tasks) for part in parts]
            return shared(pattern[1], int(pattern[2]), *inner)
        case ast.Call(func=ast.Name(id=name), args=[task, *counts], keywords=[]) if (
            pool := _POOL.fullmatch(name)
        ):
            workers = pool[1] if pool[1] and not counts else ""
            if not pool[1] and len(counts) == 1 and isinstance(counts[0], ast.Constant):
                workers = str(counts[0].value)
            if not workers.isdecimal():
                expected = "tpool_T(task) or tpool(task, T), T a number of workers"
                raise _syntax_error(text, node.col_offset, expected)
            if len(workers) > _MAX_DIGITS:
                raise InputError("too many workers", found=workers)
            return tpool(_compose_node(task, text, tasks), int(workers))
        case _:
            patterns = ", ".join(f"{name}_T(..)" for name in PATTERNS)
            expected = f"a task, tpool_T(..), pipe(.., ..), {patterns}"
            raise _syntax_error(text, node.col_offset, expected)


def _syntax_error(text: str, column: int, expected: str) -> InputError:
    message = f"bad expression {text[:60]!r} at character {column + 1}"
    found = text[column : column + 30] or "the end"
    return InputError(message, found=found, expected=expected)
