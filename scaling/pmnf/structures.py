"""Which parameters act together: the shapes a model may have, whatever its exponents.

A structure lists columns; a column names the parameters whose terms it multiplies. All columns
share one term per parameter, as a kernel's loop bound does; only a one-parameter model with several
terms draws a separate term for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

# Beforehand: probability that nothing depends on anything; that one term has no constant; that two
# terms of one parameter add.
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
        Probability beforehand, the exponents not counted.
    """

    columns: tuple[Column, ...]
    prior: float

    @property
    def active(self) -> Column:
        """Parameters that occur."""
        return tuple(sorted({p for column in self.columns for p in column}))


def structures(n_parameters: int) -> list[Structure]:
    """All structures of several parameters, each parameter with one term.

    Every split of the active parameters into groups that multiply within and add between, and a
    product of all with one of its factors (or a part of them) added once more.

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
        # The more parameters were varied on purpose, the likelier each matters.
        share = (1 - _CONSTANT) * 2.0 ** (size - 1) / (2.0**n_parameters - 1) / len(subsets)
        for active in subsets:
            shapes = list(_shapes(active))
            for shape in shapes:
                prior = share / len(shapes)
                # A sum of terms hides a constant's absence; a single one is a power law.
                without = _NO_CONSTANT if len(shape) == 1 else 0.0
                found.append(Structure(((), *shape), prior * (1 - without)))
                if without:
                    found.append(Structure(shape, prior * without))
    return [s for s in found if len(s.columns) <= 4]


def second_term_prior() -> float:
    """Probability beforehand that a one-parameter model has a further term."""
    return _SECOND_TERM


def _shapes(active: Column) -> Iterator[tuple[Column, ...]]:
    for groups in _splits(active):
        yield tuple(groups)
    for size in range(1, len(active)):
        for part in combinations(active, size):
            yield (active, part)


def _splits(items: Column) -> Iterator[list[Column]]:
    """Every split of the items into groups, one group first."""
    if len(items) == 1:
        yield [items]
        return
    first, rest = items[:1], items[1:]
    for groups in _splits(rest):
        for k in range(len(groups)):
            yield [*groups[:k], first + groups[k], *groups[k + 1 :]]
        yield [first, *groups]
