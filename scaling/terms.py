"""What models are built from: terms x^i log2(x)^j, and which parameters act together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast.errors import InputError

from .formula import term_values
from .measurements import real_numbers

Array = NDArray[np.float64]
Column = tuple[int, ...]

# Prior probabilities: of a constant; of a single term without a constant; of two added terms of one
# parameter.
_CONSTANT = 0.07
_NO_CONSTANT = 0.08
SECOND_TERM = 0.15
# The pairs that Extra-P searches by default: exponents of powers by those of the logarithm.
_USUAL = {
    (1, 2): "0",
    (0, 1, 2): "1/4 1/3 1/2 2/3 3/4 1 3/2 2 5/2",
    (0, 1): "5/4 4/3 3",
    (0,): "4/5 5/3 7/4 9/4 7/3 8/3 11/4",
}
_FALLING = {(0, 1): "-1", (0,): "-1/4 -1/3 -1/2 -2/3 -3/4 -4/3 -3/2 -2"}
_FALLING_PRIOR = 0.2
_FINE_PRIOR = 0.1
# Largest size of an exponent; a larger power of a parameter may overflow.
_LARGEST = 10


@dataclass(frozen=True, eq=False)
class TermSpace:
    """Exponents of the terms to search, with their prior probabilities.

    Parameters
    ----------
    polynomial, logarithm : array-like, shape (n_terms,)
        Exponents i and j of each term x^i log2(x)^j. (0, 0), the constant, is always searched and
        must not be listed.
    prior : array-like, shape (n_terms,), optional
        Relative probability of each term before anything is measured; equal if left out.

    Examples
    --------
    >>> space = TermSpace([0, 1, 1], [1, 0, 1])
    >>> space.values([2.0, 4.0]).tolist()
    [[1.0, 2.0], [2.0, 4.0], [2.0, 8.0]]
    >>> TermSpace.published().n_terms, TermSpace.default().n_terms, TermSpace.fine().n_terms
    (42, 52, 165)
    """

    polynomial: Array
    logarithm: Array
    prior: Array

    def __init__(
        self, polynomial: ArrayLike, logarithm: ArrayLike, prior: ArrayLike | None = None
    ) -> None:
        i = real_numbers(polynomial, "exponents of powers")
        j = real_numbers(logarithm, "exponents of logarithms")
        p = np.ones(i.shape) if prior is None else real_numbers(prior, "priors of terms")
        if i.ndim != 1 or not i.shape == j.shape == p.shape:
            raise InputError(
                "exponents and their prior must be lists of one length",
                found=f"shapes {i.shape}, {j.shape} and {p.shape}",
            )
        pairs = [*zip(i.tolist(), j.tolist(), strict=True)]
        if not pairs:
            raise InputError(
                "a term space without a term", expected="pairs of exponents, in a list to use twice"
            )
        for pair, share in zip(pairs, p, strict=True):
            expected = ""
            if not all(abs(exponent) <= _LARGEST for exponent in pair):
                expected = f"exponents from {-_LARGEST} to {_LARGEST}"
            elif pair == (0, 0):
                expected = "no constant term, which is always searched"
            elif pair[1] < 0:
                expected = "no negative exponent of a logarithm: log2(1) is 0"
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
        """Number of terms, the constant not counted."""
        return self.polynomial.size

    @classmethod
    def published(cls) -> Self:
        """The 42 growing terms that Extra-P searches by default [Calotoiu13]."""
        return cls._of(_pairs(_USUAL))

    @classmethod
    def default(cls) -> Self:
        """The published terms and ten falling ones, for strong scaling."""
        falling = _pairs(_FALLING)
        usual = _pairs(_USUAL)
        share = _FALLING_PRIOR / len(falling)
        return cls._of(
            usual + falling,
            [(1 - _FALLING_PRIOR) / len(usual)] * len(usual) + [share] * len(falling),
        )

    @classmethod
    def fine(cls) -> Self:
        """Every i in 0..3 in steps of 1/8 and 1/3 with j in 0, 1/2, .. 2, and falling terms.

        The published terms keep most of the prior probability: an unusual exponent must earn its
        place.
        """
        coarse = cls.default()
        known = coarse.pairs()
        grid = sorted({Fraction(n, 8) for n in range(25)} | {Fraction(n, 3) for n in range(10)})
        more = [
            (float(i), j / 2)
            for i in grid
            for j in range(5)
            if (i or j) and (float(i), j / 2) not in known
        ]
        prior = (1 - _FINE_PRIOR) * coarse.prior
        return cls._of(known + more, [*prior, *([_FINE_PRIOR / len(more)] * len(more))])

    @classmethod
    def from_exponents(cls, space: TermSpace | str | Iterable[tuple[float, float]]) -> TermSpace:
        """Return a space from its name or from pairs of exponents."""
        if isinstance(space, TermSpace):
            return space
        if isinstance(space, str):
            named = {"default": cls.default, "published": cls.published, "fine": cls.fine}
            if space not in named:
                raise InputError("unknown term space", found=space, expected=" or ".join(named))
            return named[space]()
        try:
            return cls._of([(float(i), float(j)) for i, j in space])
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError("a term space is a name or pairs of exponents", found=space) from None

    @classmethod
    def _of(cls, pairs: list[tuple[float, float]], prior: ArrayLike | None = None) -> Self:
        return cls([i for i, _ in pairs], [j for _, j in pairs], prior)

    def pairs(self) -> list[tuple[float, float]]:
        """All (i, j)."""
        return list(zip(self.polynomial.tolist(), self.logarithm.tolist(), strict=True))

    def above(self, least: float) -> TermSpace:
        """Return the terms that are defined for every x >= `least`.

        Below 1 a logarithm turns negative; at 0 a falling power has no value.
        """
        keep = np.ones(self.n_terms, dtype=bool)
        if least < 1:
            keep &= self.logarithm == 0
        if least <= 0:
            keep &= self.polynomial > 0
        if not keep.any():
            raise InputError(f"no term holds for a parameter value of {least:g}")
        if keep.all():
            return self
        return TermSpace(self.polynomial[keep], self.logarithm[keep], self.prior[keep])

    def values(self, x: ArrayLike) -> Array:
        """Each term at each x > 0; logarithms below x = 1 count as 0. Shape (n_terms, n_points)."""
        return term_values(self.polynomial[:, None], self.logarithm[:, None], x)


def _pairs(table: dict[tuple[int, ...], str]) -> list[tuple[float, float]]:
    """Return all pairs of exponents, the smallest powers first."""
    pairs = [
        (float(Fraction(i)), float(j))
        for logarithms, powers in table.items()
        for i in powers.split()
        for j in logarithms
    ]
    return sorted(pairs, key=lambda pair: (abs(pair[0]), pair[1]))


@dataclass(frozen=True)
class Structure:
    """Columns of a model, at most four tuples of parameters; the empty tuple is the constant."""

    columns: tuple[Column, ...]
    prior: float  # without that of the exponents

    @property
    def active(self) -> Column:
        """Parameters that occur."""
        return tuple(sorted({p for column in self.columns for p in column}))


def structures(n_parameters: int) -> list[Structure]:
    """Return all structures of several parameters, each parameter with one term.

    The active parameters are split into groups in every way; terms multiply within a group, and
    groups add. There is also the product of all, with some of its factors added once more.
    """
    found = [Structure(((),), _CONSTANT)]
    for size in range(1, n_parameters + 1):
        subsets = list(combinations(range(n_parameters), size))
        # Parameters are varied on purpose, so each is likely to matter.
        share = (1 - _CONSTANT) * 2.0 ** (size - 1) / (2.0**n_parameters - 1) / len(subsets)
        for active in subsets:
            shapes = list(_shapes(active))
            for shape in shapes:
                prior = share / len(shapes)
                # A sum of terms always has a constant; a single term may be a power law.
                without = _NO_CONSTANT if len(shape) == 1 else 0.0
                found.append(Structure(((), *shape), prior * (1 - without)))
                if without:
                    found.append(Structure(shape, prior * without))
    return [s for s in found if len(s.columns) <= 4]


def _shapes(active: Column) -> Iterator[tuple[Column, ...]]:
    for groups in _splits(active):
        yield tuple(groups)
    for size in range(1, len(active)):
        for part in combinations(active, size):
            yield (active, part)


def _splits(items: Column) -> Iterator[list[Column]]:
    """Return every split of the items into groups; a single group comes first."""
    if len(items) == 1:
        yield [items]
        return
    first, rest = items[:1], items[1:]
    for groups in _splits(rest):
        for k in range(len(groups)):
            yield [*groups[:k], first + groups[k], *groups[k + 1 :]]
        yield [first, *groups]
