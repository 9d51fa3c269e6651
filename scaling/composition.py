"""Models of parallel programs, composed from models of their tasks."""

from __future__ import annotations

import ast
import heapq
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._slow import pandas as pd
from toruscast.errors import InputError
from toruscast.validation import check_type, one_of, whole_number

from .formula import Fitted, Formula, Powers
from .stages import (
    RangePart,
    Stage,
    acting,
    check_names,
    columns_of,
    pieces,
    slowest,
)

# A task pool of T workers hands out items in turn, so an item leaves every M(t) / T. A pipeline is
# as fast as its slowest stage. So the time of every composition is the maximum over its sequential
# tasks of M(task) / workers, and the list of (task, workers) is its normal form. The three laws
# (pipelines and pools are associative and commutative, a pool distributes over a pipeline) hold in
# it by construction. Source: [Calotoiu19].


Array = NDArray[np.float64]
DEEPEST = 100
MAXIMA = ("point", "asymptotic")


class Expression:
    """A composition of sequential tasks; made by `sequential`, `tpool` and `pipe`.

    Two expressions are equal if the laws turn one into the other: pools and pipelines are
    associative and commutative, and a pool distributes over a pipeline.

    Attributes
    ----------
    stages : tuple of Stage
        Each sequential task with the workers that its pools give it, in the order written.
    parameters : tuple of str
        All parameters that the models depend on.

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
        self.parameters = acting(stages)

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
        parts = [str(stage) for stage in self._normal]
        text = parts[0] if len(parts) == 1 else f"pipe({', '.join(parts)})"
        return Expression(text, self._normal)

    def slowest(self) -> tuple[Stage, ...]:
        """Return the stages that are the slowest once every parameter is large.

        The order of growth decides, then the lead coefficients. With one parameter that is one
        stage; with several, all that no other stage outgrows.
        """
        return slowest(self._normal)

    def formula(self, digits: int = 5) -> str:
        """Return the time per item for large parameters, as text.

        It is a max(..) if no single stage is the slowest.
        """
        parts = [stage.formula(digits) for stage in self.slowest()]
        return parts[0] if len(parts) == 1 else f"max({', '.join(parts)})"

    def predict(self, at: Mapping[str, ArrayLike], maximum: str = "point") -> Array:
        """Time per item in the steady state, in the unit of the tasks' models.

        Parameters
        ----------
        at : mapping or DataFrame
            A value or an array of values for every parameter. A model without parameters takes any.
        maximum : {"point", "asymptotic"}
            Take the slowest stage at each point, or the one that is slowest for large parameters.
        """
        check_names(self.parameters, at)
        return self._values(at, maximum)

    def latency(self, at: Mapping[str, ArrayLike]) -> Array:
        """Time from the arrival of an item to its departure, if it never waits.

        It runs through every stage of a pipeline, and through one worker of a pool, so that pools
        do not shorten it. It obeys the same laws as the time per item.

        Examples
        --------
        >>> program = tpool(pipe(sequential("a", "2 n"), sequential("b", "n + 5")), 4)
        >>> program.latency({"n": 10}).item(), program.predict({"n": 10}).item()
        (35.0, 5.0)
        """
        check_names(self.parameters, at)
        return self.passage().values(columns_of(self.stages, at))

    def passage(self) -> Stage:
        """Return all stages one after the other, on one worker each: the model of the latency."""
        products = (product for stage in self._normal for product in stage.terms)
        return Stage.from_products(str(self), products)

    def _values(self, at: Mapping[str, ArrayLike], maximum: str = "point") -> Array:
        one_of(maximum, "maximum", MAXIMA)
        columns = columns_of(self.stages, at)
        stages = self.slowest() if maximum == "asymptotic" else tuple(dict.fromkeys(self._normal))
        slowest_of_all: Array = np.max([stage.values(columns) for stage in stages], axis=0)
        return slowest_of_all

    def pieces(
        self, parameter: str, low: float, high: float, at: Mapping[str, float] | None = None
    ) -> list[RangePart]:
        """Return which stage is the slowest in which part of a parameter's range.

        The range is 0 < low < high; ``at`` holds the values of the other parameters.
        """
        return pieces(self._normal, parameter, low, high, at or {})

    def relative_error(self, reference: Expression, at: Mapping[str, ArrayLike]) -> Array:
        """Return the distance of the prediction from another model's, as a share of the latter.

        `at` names the parameters of both.
        """
        _check_expression(reference)
        check_names(sorted({*self.parameters, *reference.parameters}), at)
        true = reference._values(at)
        if (true == 0).any():
            raise InputError("the reference is 0 there; no relative error")
        error: Array = np.abs(self._values(at) - true) / np.abs(true)
        return error


MAX_WORKERS = 2**53
MAX_STAGES = 10_000
_WORKERS = "number of workers"


@dataclass(frozen=True)
class Pattern:
    """A pattern in which T workers share an item."""

    tasks: tuple[str, ...]
    # Maps T to the steps in order: how often a step runs, the index of its task, and the share of
    # the item that it processes (0: a single element).
    steps: Callable[[int], Sequence[tuple[int, int, float]]]
    doubles: bool = False  # T must be a power of two


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

    The model is a formula or a fitted model, whose formula is taken; ``path`` is the number of the
    call path in `Models`.

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
    name : str
        A key of `PATTERNS`: "scan" (tasks that scan a part of an item and combine two parts) or
        "dac" (divide and conquer, with tasks that divide, solve and merge).
    workers : int
        For divide and conquer a power of two.
    *tasks : Expression
        A part of an item goes through all stages of a task.
    size : str
        Parameter that is the size of an item, at least the number of workers.

    Examples
    --------
    >>> split, sort, merge = (sequential(name, model) for name, model in (
    ...     ("split", "3"), ("sort", "n log2(n)"), ("merge", "n")))
    >>> print(shared("dac", 4, split, sort, merge).formula())
    6 + n + 0.25 n log2(n)
    """
    one_of(name, "pattern", tuple(PATTERNS))
    pattern, count = PATTERNS[name], whole_number(workers, _WORKERS, 1, MAX_WORKERS)
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
    products = [
        (powers, times * coefficient)
        for times, k, part in pattern.steps(count)
        for powers, coefficient in _part(tasks[k].passage(), size, part)
    ]
    text = f"{name}_{count}({', '.join(map(str, tasks))})"
    return Expression(text, (Stage.from_products(text, products),))


def _part(task: Stage, size: str, part: float) -> Sequence[tuple[Powers, float]]:
    """Return the model of a task on a part of an item, multiplied out."""
    if size not in task.parameters or part == 1:
        return task.terms
    products: list[tuple[Powers, float]] = []
    for powers, coefficient in task.terms:
        i, j = dict(powers).get(size, (0.0, 0.0))
        if j != int(j):
            raise InputError(
                f"no part of {task.name} can be taken",
                found=f"log2({size})^{j:g}",
                expected="a whole power of the logarithm",
            )
        if part == 0:
            factors = [(1.0, (0.0, 0.0))] if j == 0 else []
        else:
            # (log2(n) + log2(part))^j
            factors = [
                (math.comb(int(j), k) * math.log2(part) ** (j - k) * part**i, (i, float(k)))
                for k in range(int(j) + 1)
            ]
        for factor, pair in factors:
            own = {**dict(powers), size: pair}
            kept = tuple(sorted((name, each) for name, each in own.items() if any(each)))
            products.append((kept, coefficient * factor))
    return products


def tpool(task: Expression, workers: int) -> Expression:
    """Return a pool of workers; each runs the whole of `task` for the items it takes.

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


_MAX_ADDED = 100_000


def replicate(
    program: Expression,
    workers: int,
    at: Mapping[str, ArrayLike],
    fixed: Sequence[str] = (),
) -> tuple[Expression, pd.DataFrame]:
    """Give workers, one after the other, to the slowest stage.

    The time per item is that of the slowest stage, so no other order gives a shorter one.

    The program gets ``workers`` additional workers; ``at`` has one value for each parameter. Name
    tasks that cannot be replicated, such as those with a state, in ``fixed``.

    Returns
    -------
    program : Expression
    steps : DataFrame
        A row for each worker: ``stage`` that it goes to, its ``workers`` then, ``time`` per item,
        ``speed_up`` over the program as it is, and ``gain``, the speed-up over the row before. No
        row follows once a fixed stage is the slowest.

    Examples
    --------
    >>> qsort, inc = sequential("qsort", "9 n"), sequential("inc", "4 n")
    >>> program, steps = replicate(pipe(qsort, inc), 3, {"n": 10})
    >>> print(program, steps["time"].tolist())
    pipe(tpool_3(qsort), tpool_2(inc)) [45.0, 40.0, 30.0]
    """
    _check_expression(program)
    count = whole_number(workers, "number of workers", 1, _MAX_ADDED)
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
    tasks = [Expression(stage.name, (replace(stage, workers=1),)) for stage in stages]
    parts = [tpool(task, n) if n > 1 else task for task, n in zip(tasks, given, strict=True)]
    columns = ["stage", "workers", "time", "speed_up", "gain"]
    return parts[0] if len(parts) == 1 else pipe(*parts), pd.DataFrame(rows, columns=columns)


_LONGEST = 10_000
_POOL = re.compile(r"tpool(?:_(\d+))?")
_SHARED = re.compile(rf"({'|'.join(PATTERNS)})_(\d{{1,20}})")


def composed(text: str, tasks: Mapping[str, Expression]) -> Expression:
    """Read a composition of named tasks.

    Parameters
    ----------
    text : str
        ``tpool_4(task)`` or ``tpool(task, 4)``, ``pipe(task, task, ...)``, and the patterns
        in which workers share an item, ``scan_4(scan, combine)`` and ``dac_4(divide, solve,
        merge)``; nested at will.
    tasks : mapping
        The expression of each name.

    Examples
    --------
    >>> tasks = {"qsort": sequential("qsort", "0.03899 n log2(n)")}
    >>> composed("tpool_2(tpool(qsort, 3))", tasks).formula()
    '0.0064983 n log2(n)'
    """
    check_type(text, "expression", str, "text such as tpool_4(task)")
    if len(text) > _LONGEST:
        raise InputError("expression too long", found=f"{len(text)} characters")
    levels = accumulate((sign == "(") - (sign == ")") for sign in text)
    if max(levels, default=0) > DEEPEST:
        raise InputError("nested too deep", expected=f"at most {DEEPEST} levels")
    line = " ".join(text.split())
    try:
        tree = ast.parse(line, mode="eval").body
    except (SyntaxError, ValueError) as error:
        place = getattr(error, "offset", None) or len(line) + 1
        raise _fault(line, place - 1, "tasks, tpool_T(..) and pipe(.., ..)") from None
    return _composed(tree, line, tasks)


def _composed(node: ast.expr, text: str, tasks: Mapping[str, Expression]) -> Expression:
    match node:
        case ast.Name(id=name) if name in tasks:
            return tasks[name]
        case ast.Name(id=name):
            if _POOL.fullmatch(name) or _SHARED.fullmatch(name):
                raise _fault(text, node.col_offset, "tpool_T(..) with a whole number T of workers")
            raise InputError(
                f"unknown task in {text[:60]!r}",
                found=name,
                expected=" or ".join(tasks) or "a task with a model",
            )
        case ast.Call(func=ast.Name(id="pipe"), args=[_, *_] as parts, keywords=[]):
            return pipe(*(_composed(part, text, tasks) for part in parts))
        case ast.Call(func=ast.Name(id=name), args=[*parts], keywords=[]) if (
            of_shared := _SHARED.fullmatch(name)
        ):
            inner = [_composed(part, text, tasks) for part in parts]
            return shared(of_shared[1], int(of_shared[2]), *inner)
        case ast.Call(func=ast.Name(id=name), args=[part, *rest], keywords=[]) if (
            pool := _POOL.fullmatch(name)
        ):
            workers = pool[1] if pool[1] and not rest else ""
            if not pool[1] and len(rest) == 1 and isinstance(rest[0], ast.Constant):
                workers = str(rest[0].value)
            if not workers.isdecimal():
                expected = "tpool_T(task) or tpool(task, T), T a number of workers"
                raise _fault(text, node.col_offset, expected)
            if len(workers) > 20:
                raise InputError("too many workers", found=workers)
            return tpool(_composed(part, text, tasks), int(workers))
        case _:
            raise _fault(
                text,
                node.col_offset,
                f"a task, tpool_T(..), pipe(.., ..), {', '.join(f'{n}_T(..)' for n in PATTERNS)}",
            )


def _fault(text: str, place: int, expected: str) -> InputError:
    return InputError(
        f"bad expression {text[:60]!r} at character {place + 1}",
        found=text[place : place + 30] or "the end",
        expected=expected,
    )
