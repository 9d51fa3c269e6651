"""Models of parallel programs composed from models of their sequential tasks."""

# A task pool of T workers hands out items in turn, so an item leaves every M(t) / T. A pipeline is
# as fast as its slowest stage. So the time of every composition is the maximum over its sequential
# tasks of M(task) / workers, and the list of (task, workers) is its normal form. The three laws
# (pipelines and pools are associative and commutative, a pool distributes over a pipeline) hold in
# it by construction. Source: [Calotoiu19].

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError
from toruscast.validation import one_of

from .range import RangePart, pieces
from .stage import Stage, acting, added, check_names, columns_of, slowest

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
    >>> program.formula()
    '0.019495 n log2(n)'
    >>> program.predict({"n": [2, 1024]}).round(4).tolist()
    [0.039, 199.6288]
    """

    def __init__(self, text: str, stages: tuple[Stage, ...], depth: int) -> None:
        if depth > DEEPEST:
            raise InputError("nested too deep", found=depth, expected=f"at most {DEEPEST}")
        self._text = text
        self.depth = depth
        self._normal = tuple(sorted(stages, key=lambda stage: stage.order))
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
        return Expression(text, self._normal, 1)

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
        """Time per item in the steady state.

        Parameters
        ----------
        at : mapping or DataFrame
            A value or an array of values for every parameter. A model without parameters takes any.
        maximum : {"point", "asymptotic"}
            Take the slowest stage at each point, or the one that is slowest for large parameters.

        Returns
        -------
        array
            In the unit of the tasks' models, of the shape of the values.

        Raises
        ------
        InputError
            If a parameter is missing, unknown, negative, or not a number.
        """
        check_names(self.parameters, at)
        return self._values(at, maximum)

    def latency(self, at: Mapping[str, ArrayLike]) -> Array:
        """Time from the arrival of an item to its departure, if it never waits.

        It runs through every stage of a pipeline, and through one worker of a pool, so that pools
        do not shorten it. It obeys the same laws as the time per item.

        Parameters
        ----------
        at : mapping or DataFrame
            As for `predict`.

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
        return added(str(self), [(1.0, stage) for stage in self._normal])

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

        Parameters
        ----------
        parameter : str
        low, high : float
            Range of the parameter, 0 < low < high.
        at : mapping, optional
            Values of the other parameters.

        Raises
        ------
        InputError
            If the range is empty or not positive, or `at` does not name the other parameters.
        """
        return pieces(self._normal, parameter, low, high, at or {})

    def relative_error(self, reference: Expression, at: Mapping[str, ArrayLike]) -> Array:
        """Return the distance of the prediction from another model's, as a share of the latter.

        `at` names the parameters of both.

        Examples
        --------
        >>> measured = sequential("measured", "0.01015 n log2(n)")
        >>> pool = tpool(sequential("qsort", "0.03899 n log2(n)"), 4)
        >>> round(float(pool.relative_error(measured, {"n": 1024})), 4)
        0.0397
        """
        check_names(sorted({*self.parameters, *reference.parameters}), at)
        true = reference._values(at)
        if (true == 0).any():
            raise InputError("the reference is 0 there; no relative error")
        error: Array = np.abs(self._values(at) - true) / np.abs(true)
        return error
