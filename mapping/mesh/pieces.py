"""How axes of a mesh are laid over the dimensions of a torus: each takes pieces of them.

A dimension of 16 nodes may go to one axis whole, or be cut: 4 nodes side by side to one axis, and
the four such blocks to another, whose neighbours then lie 4 nodes apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..torus import Torus


class Piece(NamedTuple):
    """``size`` nodes along a dimension, ``stride`` apart."""

    dimension: int
    stride: int
    size: int


Pieces = tuple[Piece, ...]


def splits(shape: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[Pieces, ...]]:
    """Give every way to cut the dimensions into pieces for axes of these sizes.

    An axis takes at most one piece of a dimension. The plainest come first: those that cut least.

    Examples
    --------
    >>> for pieces in splits((4,), (2, 2)):
    ...     print(*pieces)
    (Piece(dimension=0, stride=1, size=2),) (Piece(dimension=0, stride=2, size=2),)
    (Piece(dimension=0, stride=2, size=2),) (Piece(dimension=0, stride=1, size=2),)
    """
    taken: list[list[Piece]] = [[] for _ in sizes]

    def cut(dimension: int, left: tuple[int, ...]) -> Iterator[tuple[Pieces, ...]]:
        if dimension == len(shape):
            if all(size == 1 for size in left):
                yield tuple(tuple(pieces) for pieces in taken)
            return
        for parts in sorted(_parts(shape[dimension], left), key=len):
            stride, rest = 1, list(left)
            for axis, size in parts:
                taken[axis].append(Piece(dimension, stride, size))
                stride *= size
                rest[axis] //= size
            yield from cut(dimension + 1, tuple(rest))
            for axis, _ in parts:
                taken[axis].pop()

    yield from cut(0, tuple(sizes))


def _parts(size: int, left: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Ordered cuts of a dimension among axes, inner first: (axis, size), each axis once."""
    if size == 1:
        yield ()
        return
    for axis, most in enumerate(left):
        for part in divisors(math.gcd(size, most)):
            if part > 1:
                others = tuple(1 if a == axis else n for a, n in enumerate(left))
                for rest in _parts(size // part, others):
                    yield ((axis, part), *rest)


def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number, rising.

    Examples
    --------
    >>> divisors(12)
    (1, 2, 3, 4, 6, 12)
    """
    low = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(low + [number // d for d in reversed(low) if d * d != number])


def node_strides(torus: Torus) -> NDArray[np.int64]:
    """Return how far apart the numbers of neighbouring nodes are, for each dimension."""
    return np.cumprod((1, *torus.shape[:0:-1]))[::-1].astype(np.int64)


def first_nodes(torus: Torus, pieces: Pieces) -> NDArray[np.int64]:
    """Return the nodes at which the lines along some pieces begin: those at the start of each."""
    begins = np.ones(torus.n_nodes, dtype=np.bool_)
    for dimension, stride, size in pieces:
        begins &= (torus.coords[:, dimension] // stride) % size == 0
    return np.flatnonzero(begins)


def names_of(torus: Torus, pieces: Pieces) -> str:
    """Return pieces in words.

    Examples
    --------
    >>> torus = Torus((16, 4))
    >>> names_of(torus, (Piece(0, 1, 4), Piece(1, 1, 4))), names_of(torus, (Piece(0, 4, 4),))
    ('4 of X, Y', 'every 4th of X')
    """
    words = []
    for dimension, stride, size in pieces:
        letter = torus.axes[dimension]
        if size == torus.shape[dimension]:
            words.append(letter)
        elif stride == 1:
            words.append(f"{size} of {letter}")
        elif stride * size == torus.shape[dimension]:
            words.append(f"every {_nth(stride)} of {letter}")
        else:
            words.append(f"{size} of every {_nth(stride)} of {letter}")
    return ", ".join(words) or "one device"


def _nth(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ending}"
