"""Reader of compositions such as "pipe(tpool_4(qsort), inc)"."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toruscast.errors import InputError

from .expression import DEEPEST, Expression
from .patterns import pipe, tpool

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|\d+|\S)")
_LONGEST = 10_000


def composed(text: str, tasks: Mapping[str, Expression]) -> Expression:
    """Read a composition of named tasks.

    Parameters
    ----------
    text : str
        ``tpool_4(task)`` or ``tpool(task, 4)``, ``pipe(task, task, ...)``, nested at will.
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
    reader = _Reader(text, tasks)
    result = reader.expression(0)
    if reader.token:
        raise reader.fault("the end")
    return result


class _Reader:
    def __init__(self, text: str, tasks: Mapping[str, Expression]) -> None:
        self.text = text
        self.tasks = tasks
        self.tokens = [(m.group(1), m.start(1)) for m in _TOKEN.finditer(text)]
        self.next = 0

    @property
    def token(self) -> str:
        return self.tokens[self.next][0] if self.next < len(self.tokens) else ""

    def expression(self, depth: int) -> Expression:
        if depth > DEEPEST:
            raise InputError("nested too deep", expected=f"at most {DEEPEST} levels")
        name = self.token
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise self.fault("a task, tpool(..) or pipe(..)")
        following = self.tokens[self.next + 1][0] if self.next + 1 < len(self.tokens) else ""
        is_pool = re.fullmatch(r"tpool_\d+", name) and following == "("
        if name.startswith("tpool_") and name not in self.tasks and not is_pool:
            raise InputError(
                f"bad task pool in {self.text.strip()[:60]!r}",
                found=self.text[self.tokens[self.next][1] :].partition("(")[0],
                expected="tpool_T with a whole number T of workers, 1 or more",
            )
        self.next += 1
        if self.token != "(":
            return self._task(name)
        pool = re.fullmatch(r"tpool(?:_(\d+))?", name)
        if not pool and name != "pipe":
            self.next -= 1
            raise self.fault("tpool or pipe")
        self.next += 1
        parts = [self.expression(depth + 1)]
        if not pool:
            while self.token == ",":
                self.next += 1
                parts.append(self.expression(depth + 1))
            self._take(")")
            return pipe(*parts)
        workers = pool.group(1)
        if workers is None:
            self._take(",")
            workers = self.token
            if not re.fullmatch(r"[0-9]+", workers):
                raise self.fault("a number of workers")
            self.next += 1
        self._take(")")
        if len(workers) > 20:
            raise InputError("too many workers", found=workers)
        return tpool(parts[0], int(workers))

    def _task(self, name: str) -> Expression:
        if name not in self.tasks:
            raise InputError(
                f"unknown task in {self.text.strip()[:60]!r}",
                found=name,
                expected=" or ".join(self.tasks) or "a task with a model",
            )
        return self.tasks[name]

    def _take(self, mark: str) -> None:
        if self.token != mark:
            raise self.fault(mark)
        self.next += 1

    def fault(self, expected: str) -> InputError:
        end = self.next >= len(self.tokens)
        place = len(self.text) if end else self.tokens[self.next][1]
        return InputError(
            f"bad expression {self.text.strip()[:60]!r} at character {place + 1}",
            found=self.token or "the end",
            expected=expected,
        )
