"""Building blocks of models: terms x^i log2(x)^j, and structures of sums and products."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from toruscast.errors import InputError
from toruscast.typing import Floats
from toruscast.validation import one_of

from .formula import evaluate_term
from .measurements import as_real_array

Column = tuple[int, ...]

# Prior probabilities of three models: a constant, a single term without a constant, and two terms
# of one parameter.
_CONSTANT = 0.07
_NO_CONSTANT = 0.08
SECOND_TERM = 0.15
# Extra-P's default terms: exponents of powers, grouped by the exponents of the logarithm.
_PUBLISHED = {
    (1, 2): "0",
    (0, 1, 2): "1/4 1/3 1/2 2/3 3/4 1 3/2 2 5/2",
    (0, 1): "5/4 4/3 3",
    (0,): "4/5 5/3 7/4 9/4 7/3 8/3 11/4",
}
_FALLING = {(0, 1): "-1", (0,): "-1/4 -1/3 -1/2 -2/3 -3/4 -4/3 -3/2 -2"}
# Prior probability of all falling terms together, and of all terms that only the fine space has.
_FALLING_PRIOR, _FINE_PRIOR = 0.2, 0.1
# Relative prior of powers whose exponent is not a multiple of 1/3, such as x^(5/2). Multiples of
# 1/3 are likelier: if x is a volume, they are whole powers of its edge length.
_OTHER_GROWTH = 0.7
# Larger powers of a parameter may overflow.
_MAX_EXPONENT = 10


@dataclass(frozen=True, eq=False)
class TermSpace:
    """Exponents of the terms to search, with their prior probabilities.

    Parameters
    ----------
    polynomial, logarithm : array-like, shape (n_terms,)
        Exponents i and j of each term x^i log2(x)^j. The constant (0, 0) is implied.
    prior : array-like, shape (n_terms,), optional
        Relative prior probability of each term; equal by default.

    Examples
    --------
    >>> space = TermSpace([0, 1, 1], [1, 0, 1])
    >>> space.values([2.0, 4.0]).tolist()
    [[1.0, 2.0], [2.0, 4.0], [2.0, 8.0]]
    >>> TermSpace.published().n_terms, TermSpace.default().n_terms, TermSpace.fine().n_terms
    (42, 52, 165)
    """

    polynomial: Floats
    logarithm: Floats
    prior: Floats

    def __init__(
        self, polynomial: ArrayLike, logarithm: ArrayLike, prior: ArrayLike | None = None
    ) -> None:
        i = as_real_array(polynomial, "exponents of powers")
        j = as_real_array(logarithm, "exponents of logarithms")
        p = np.ones(i.shape) if prior is None else as_real_array(prior, "priors of terms")
        if i.ndim != 1 or not i.shape == j.shape == p.shape:
            found = f"shapes {i.shape}, {j.shape} and {p.shape}"
            raise InputError("exponents and priors must be lists of equal length", found=found)
        pairs = [*zip(i.tolist(), j.tolist(), strict=True)]
        if not pairs:
            expected = "pairs of exponents, in a list to use twice"
            raise InputError("a term space without a term", expected=expected)
        for pair, share in zip(pairs, p, strict=True):
            expected = ""
            if not all(abs(exponent) <= _MAX_EXPONENT for exponent in pair):
                expected = f"exponents from {-_MAX_EXPONENT} to {_MAX_EXPONENT}"
            elif pair == (0, 0):
                expected = "no constant term, because it is always searched"
            elif pair[1] < 0:
                expected = "no negative exponent of a logarithm, because log2(1) is 0"
            elif pairs.count(pair) > 1:
                expected = "each term once"
            elif not 0 < share < np.inf:
                expected = "a prior above 0"
            if expected:
                raise InputError("bad term", found=(*pair, float(share)), expected=expected)
        p = p / p.sum()
        for array in (i, j, p):
            array.setflags(write=False)
        vars(self).update(polynomial=i, logarithm=j, prior=p)

    @property
    def n_terms(self) -> int:
        """Number of terms, without the constant."""
        return self.polynomial.size

    @classmethod
    def published(cls) -> Self:
        """The 42 growing terms that Extra-P searches by default [Calotoiu13]."""
        return cls._from_pairs(_expand_table(_PUBLISHED))

    @classmethod
    def default(cls) -> Self:
        """The published terms and ten falling terms, for strong scaling."""
        growing, falling = _expand_table(_PUBLISHED), _expand_table(_FALLING)
        weights = [1.0 if (3 * i).is_integer() else _OTHER_GROWTH for i, _ in growing]
        growing_prior = (1 - _FALLING_PRIOR) / sum(weights) * np.array(weights)
        falling_prior = [_FALLING_PRIOR / len(falling)] * len(falling)
        return cls._from_pairs(growing + falling, [*growing_prior, *falling_prior])

    @classmethod
    def fine(cls) -> Self:
        """All i from 0 to 3 in steps of 1/8 and 1/3 with j in 0, 1/2, .. 2, and falling terms.

        The default terms keep most of the prior probability.
        """
        coarse = cls.default()
        known = coarse.pairs()
        powers = sorted({Fraction(n, 8) for n in range(25)} | {Fraction(n, 3) for n in range(10)})
        grid = [(float(i), j / 2) for i in powers for j in range(5)]
        added = [pair for pair in grid if any(pair) and pair not in known]
        prior = (1 - _FINE_PRIOR) * coarse.prior
        return cls._from_pairs(known + added, [*prior, *([_FINE_PRIOR / len(added)] * len(added))])

    @classmethod
    def from_exponents(cls, space: TermSpace | str | Iterable[tuple[float, float]]) -> TermSpace:
        """Return a space by its name, or from pairs of exponents."""
        if isinstance(space, TermSpace):
            return space
        if isinstance(space, str):
            named = {"default": cls.default, "published": cls.published, "fine": cls.fine}
            one_of(space, "term space", tuple(named))
            return named[space]()
        try:
            return cls._from_pairs([(float(i), float(j)) for i, j in space])
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("a term space is a name or pairs of exponents", found=space) from None

    @classmethod
    def _from_pairs(cls, pairs: list[tuple[float, float]], prior: ArrayLike | None = None) -> Self:
        return cls([i for i, _ in pairs], [j for _, j in pairs], prior)

    def pairs(self) -> list[tuple[float, float]]:
        """Return the exponents (i, j) of all terms."""
        return list(zip(self.polynomial.tolist(), self.logarithm.tolist(), strict=True))

    def above(self, minimum: float) -> TermSpace:
        """Return the terms that are defined for x >= `minimum`.

        Logarithms are excluded if `minimum` is below 1, where they are negative; falling powers are
        excluded if it is 0.
        """
        keep = np.ones(self.n_terms, dtype=bool)
        if minimum < 1:
            keep &= self.logarithm == 0
        if minimum <= 0:
            keep &= self.polynomial > 0
        if not keep.any():
            raise InputError(f"no term is defined for a parameter value of {minimum:g}")
        if keep.all():
            return self
        return TermSpace(self.polynomial[keep], self.logarithm[keep], self.prior[keep])

    def values(self, x: ArrayLike) -> Floats:
        """Return the values of the terms, shape (n_terms, n_points); log2(x) is 0 for x < 1."""
        return evaluate_term(self.polynomial[:, None], self.logarithm[:, None], x)


def _expand_table(table: dict[tuple[int, ...], str]) -> list[tuple[float, float]]:
    """Return the pairs of exponents in a table such as `_PUBLISHED`, sorted."""
    pairs = [
        (float(Fraction(i)), float(j))
        for logarithms, powers in table.items()
        for i in powers.split()
        for j in logarithms
    ]
    return sorted(pairs, key=lambda pair: (abs(pair[0]), pair[1]))


@dataclass(frozen=True)
class Structure:
    """At most four columns of a model; each column is a product of terms of some parameters.

    A column is a tuple of its parameters, which is empty for the constant.
    """

    columns: tuple[Column, ...]
    prior: float  # without the exponents' prior

    @property
    def active(self) -> Column:
        """Parameters of the columns."""
        return tuple(sorted({p for column in self.columns for p in column}))


def list_structures(n_parameters: int) -> list[Structure]:
    """Return all structures with at most one term of each parameter.

    For each set of active parameters, these are the sums of products for all partitions of the set,
    and the product of all its parameters plus the product of some of them.
    """
    result = [Structure(((),), _CONSTANT)]
    for size in range(1, n_parameters + 1):
        subsets = list(combinations(range(n_parameters), size))
        # Structures of more parameters are likelier, because users vary parameters that matter.
        share = (1 - _CONSTANT) * 2.0 ** (size - 1) / (2.0**n_parameters - 1) / len(subsets)
        for active in subsets:
            shapes = list(_iterate_shapes(active))
            for shape in shapes:
                prior = share / len(shapes)
                # Only a single product may lack the constant, as in a power law.
                no_constant = _NO_CONSTANT if len(shape) == 1 else 0.0
                result.append(Structure(((), *shape), prior * (1 - no_constant)))
                if no_constant:
                    result.append(Structure(shape, prior * no_constant))
    return [s for s in result if len(s.columns) <= 4]


def _iterate_shapes(active: Column) -> Iterator[tuple[Column, ...]]:
    """Yield the columns of each structure of the active parameters, except the constant."""
    yield from map(tuple, _iterate_partitions(active))
    for size in range(1, len(active)):
        for part in combinations(active, size):
            yield (active, part)


def _iterate_partitions(items: Column) -> Iterator[list[Column]]:
    """Yield all partitions of the items into groups, starting with a single group."""
    if len(items) == 1:
        yield [items]
        return
    first, others = items[:1], items[1:]
    for groups in _iterate_partitions(others):
        for k in range(len(groups)):
            yield [*groups[:k], first + groups[k], *groups[k + 1 :]]
        yield [first, *groups]
