"""Reader of compositions such as "pipe(tpool_4(qsort), inc)"."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from itertools import accumulate

from toruscast.errors import InputError

from .expression import DEEPEST, Expression
from .patterns import PATTERNS, pipe, shared, tpool

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
        The expressions that names stand for.

    Raises
    ------
    InputError
        If the text cannot be read or a task is not known; the message names the place.

    Examples
    --------
    >>> from toruscast.scaling import sequential
    >>> tasks = {"qsort": sequential("qsort", "0.03899 n log2(n)")}
    >>> composed("tpool_2(tpool(qsort, 3))", tasks).formula()
    '0.0064983 n log2(n)'
    """
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
