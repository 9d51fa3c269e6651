"""Structures: which parameters act together in a model, whatever its exponents.

A structure lists columns, and a column lists the parameters whose terms it multiplies. All columns
share one term per parameter. Only a one-parameter model with several terms has a separate term for
each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

# Prior probabilities: of a constant; of a single term without a constant; of two added terms of one
# parameter.
_CONSTANT = 0.07
_NO_CONSTANT = 0.08
_SECOND_TERM = 0.15

Column = tuple[int, ...]


@dataclass(frozen=True)
class Structure:
    """Columns of a model, each a tuple of parameters; the empty tuple is the constant.

    Attributes
    ----------
    columns : tuple of tuple of int
        At most four.
    prior : float
        Prior probability, without that of the exponents.
    """

    columns: tuple[Column, ...]
    prior: float

    @property
    def active(self) -> Column:
        """Parameters that occur."""
        return tuple(sorted({p for column in self.columns for p in column}))


def structures(n_parameters: int) -> list[Structure]:
    """Return all structures of several parameters, each parameter with one term.

    The active parameters are split into groups in every way; terms multiply within a group, and
    groups add. There is also the product of all, with some of its factors added once more.

    Examples
    --------
    >>> for s in structures(2):
    ...     if () in s.columns:
    ...         print(s.columns)
    ((),)
    ((), (0,))
    ((), (1,))
    ((), (0, 1))
    ((), (0,), (1,))
    ((), (0, 1), (0,))
    ((), (0, 1), (1,))
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


def second_term_prior() -> float:
    """Return the prior probability that a one-parameter model has a second term."""
    return _SECOND_TERM


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
