"""Choose how long simulated packets may be from the error that a user accepts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

# How much less than the error accepted the time may change when packets are halved once more. Less
# than half would do if errors fell evenly; they do not where a network is full
# (docs/reference/simulator-cost.md). With an eighth, twice in a row, one mapping of fifty was
# 15 % off.
_STEP = 1 / 16
# How often in a row: once or twice may be by chance.
_TIMES = 3
# From here on two more steps cost about as much as real packets, which are certain.
_NEARLY_REAL = 8
# Packet-hops that take less than a second: nothing to save.
_CHEAP = 2**22
# Packets of the longest message in the first, coarsest attempt: fewer would fit into the buffers on
# its way, and times of messages that do change little for a while, far from the true ones.
_FEWEST = 64
# Places that a buffer of merged packets keeps at least, where it has that many for real ones.
PLACES = 3
# Places with which the time must be nearly the same, if there are fewer: with eight a mapping was a
# fifth off that was right with sixteen.
_MANY = 16
# How much of the error accepted they may change.
_ROOM = 1 / 8


class Timed(Protocol):
    """What has a time in seconds."""

    @property
    def time(self) -> float:
        """Seconds."""


T = TypeVar("T", bound=Timed)


def refine(
    error: float,
    longest: int,
    hops: int,
    depth: int,
    run: Callable[[int, int], T],
    most: float = math.inf,
) -> tuple[T, float]:
    """Simulate with ever shorter packets until the time changes by little.

    It must do so three times in a row, six after a change by more than the error, which shows a
    network about to tip over, and then with many places behind every link, if they are few: in a
    full network these tell the time, and it stands still while packets are halved and the places
    stay as few.

    Parameters
    ----------
    error : float
        Relative error of the time that will do.
    longest : int
        Packets of the longest message.
    hops : int
        Packet-hops without merging; few are simulated as they are.
    depth : int
        Real packets that a buffer holds.
    run : callable
        Simulates with the given number of real packets in one, and of places at least.
    most : float
        Real packets that one may stand for at most.

    Returns
    -------
    result, change
        The last simulation, and the relative change of its time from the one before; 0 if nothing
        is merged in it. Each attempt costs about twice the one before it, and at most every second
        one is repeated with more places: all together cost less than four times the last.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> result, change = refine(
    ...     0.5, 8192, 10**9, 32, lambda c, places: SimpleNamespace(time=1 + c / 1000, merged=c)
    ... )
    >>> result.merged, round(change, 3)
    (8, 0.008)
    """
    first = max(1, min(longest / _FEWEST, most))
    coarsening = 2 ** int(math.log2(first))
    if hops < _CHEAP or coarsening <= _NEARLY_REAL:
        coarsening = 1
    result = run(coarsening, PLACES)
    change = math.inf
    calm = 0
    while coarsening > 1 and calm < _TIMES:
        coarsening = 1 if calm <= 0 and coarsening <= _NEARLY_REAL else coarsening // 2
        finer = run(coarsening, PLACES)
        change = _change(result, finer)
        if change <= error * _STEP:
            calm += 1
        else:
            # Below zero so many more are owed.
            calm = 0 if change <= error else -_TIMES
        result = finer
        few = coarsening > 1 and depth / coarsening < _MANY
        if calm == _TIMES and few and _change(run(coarsening, _MANY), finer) > error * _ROOM:
            calm = 0
    return result, 0.0 if coarsening == 1 else change


def _change(before: Timed, after: Timed) -> float:
    """Relative change of the time; 0 if there is none to compare with."""
    return abs(after.time - before.time) / after.time if after.time else 0.0
