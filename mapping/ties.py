"""The tie rules: which way a route goes where both ways round a ring are equally long.

With ``a`` the source's coordinate in the dimension, dimension-ordered routing goes

- ``source_parity``: plus if ``a`` is even, else minus, as in routes recorded on Blue Gene/Q
  (Fujiwara et al., VAST'17 data);
- ``sum_parity``: plus if ``a`` and the destination's coordinates in all other dimensions have an
  even sum, else minus: static routes that spread the ties of a source over its destinations;
- ``plus``: always plus;
- ``simgrid``: plus, but minus towards coordinate 0, as SimGrid's torus has it (TorusZone.cpp);
- ``random``: each packet either way, at random;
- ``split``: half of the packets each way; of an odd number the odd one goes plus if ``a`` and both
  ends' coordinates in all other dimensions have an even sum, else minus;
- ``booksim``: as ``random``, but adaptive packets go minus, as in BookSim 2 (routefunc.cpp);
- ``bluegene``: as ``source_parity``, and adaptive packets too: the machine settles which way they
  go along each dimension when they set out (hint bits: Adiga et al., "Blue Gene/L torus
  interconnection network", IBM J. Res. Dev. 49, 2005).

Expected loads are the same for ``random`` and ``split``. Adaptive routing takes both ways of a tie
as minimal, whatever the rule, but for the last two. With ``booksim`` an adaptive packet goes minus,
and one that goes on in dimension order for want of room either way, at random.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

TieRule = Literal[
    "plus", "source_parity", "sum_parity", "simgrid", "random", "split", "booksim", "bluegene"
]


class Tie(NamedTuple):
    """A rule as routing, link loads and the simulators read it; each field is 0 or 1.

    Examples
    --------
    >>> TIE_RULES["booksim"].adaptive_minus
    1
    """

    by_parity: int = 0  # minus from an odd coordinate
    with_others: int = 0  # the parity is that of the source's plus the destination's others
    by_target: int = 0  # minus to coordinate 0
    is_open: int = 0  # packets of a message may go either way
    is_drawn: int = 0  # each of them draws its way; else they alternate
    adaptive_minus: int = 0  # adaptive packets that find room go minus
    adaptive_fixed: int = 0  # adaptive packets go as those in dimension order


# `Torus` describes each rule; a new one is a row here, and a field above where it needs one.
TIE_RULES: dict[TieRule, Tie] = {
    "plus": Tie(),
    "source_parity": Tie(by_parity=1),
    "sum_parity": Tie(by_parity=1, with_others=1),
    "simgrid": Tie(by_target=1),
    "split": Tie(is_open=1),
    "random": Tie(is_open=1, is_drawn=1),
    "booksim": Tie(is_open=1, is_drawn=1, adaptive_minus=1),
    "bluegene": Tie(by_parity=1, adaptive_fixed=1),
}
