"""Choice of the length of simulated packets from the error that a user accepts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .simulation import Simulation

LARGEST_PACKET = 2**26
"""Bytes of a packet at most: free ones behind a link are counted in 32 bits."""
# Part of the accepted error by which the time may change when packets are halved once more. Half
# would be enough if errors fell evenly, but they do not in a full network
# (docs/reference/simulator-cost.md). With an eighth, twice in a row, one mapping of fifty was 15 %
# off.
_STEP = 1 / 16
# How often in a row; once or twice may be chance.
_TIMES = 3
# From here on, two more steps cost about as much as real packets, which are certain.
_NEARLY_REAL = 8
# Fewer packet-hops take less than a second, so nothing is merged.
_CHEAP = 2**22
# Packets of the longest message in the first, coarsest attempt. Fewer would fit into the buffers on
# its way; the time would then change little for several steps, far from the true one.
_FEWEST = 64
# Least places of a buffer for merged packets, if it has as many for real ones.
PLACES = 3
# With fewer places than this, the time must be nearly the same as with this many. With eight, one
# mapping was 20 % off that was right with sixteen.
_MANY = 16
# Part of the accepted error by which the time may differ then.
_ROOM = 1 / 8


def attempts(longest: int, most: float = math.inf) -> list[int]:
    """Return the numbers of real packets in one that `refine` may simulate, the largest first.

    ``longest`` is the number of packets of the longest message, ``most`` that in one at most.
    """
    coarsening = 2 ** int(math.log2(max(1, min(longest / _FEWEST, most))))
    if coarsening <= _NEARLY_REAL:
        return [1]
    return [2**k for k in range(coarsening.bit_length() - 1, -1, -1)]


def refine(
    error: float,
    longest: int,
    hops: int,
    depth: int,
    run: Callable[[int, int], Simulation],
    most: float = math.inf,
) -> tuple[Simulation, float]:
    """Simulate with shorter and shorter packets until the time changes little.

    The change must be small three times in a row, or six times after a change by more than the
    error, because such a network may change abruptly. If there are few places behind every link,
    the time must then stay nearly the same with many places: in a full network the places decide
    the time, and it does not change while only the packets are halved.

    Parameters
    ----------
    error : float
        Accepted relative error of the time.
    longest : int
        Packets of the longest message.
    hops : int
        Packet-hops without merging; if there are few, nothing is merged.
    depth : int
        Real packets that a buffer holds.
    run : callable
        Simulates with a number of real packets in one, and a least number of places.
    most : float
        Most real packets that one may represent.

    Returns
    -------
    result, change
        The last simulation, and the relative change of its time from the one before; 0 if nothing
        is merged in it. Each attempt costs about twice the one before, and at most every second one
        is repeated with more places. So all together cost less than four times the last.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> result, change = refine(
    ...     0.5, 8192, 10**9, 32, lambda c, places: SimpleNamespace(time=1 + c / 1000, merged=c)
    ... )
    >>> result.merged, round(change, 3)
    (8, 0.008)
    """
    coarsening = 1 if hops < _CHEAP else attempts(longest, most)[0]
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
            # A negative count asks for as many more small changes.
            calm = 0 if change <= error else -_TIMES
        result = finer
        few = coarsening > 1 and depth / coarsening < _MANY
        if calm == _TIMES and few and _change(run(coarsening, _MANY), finer) > error * _ROOM:
            calm = 0
    return result, 0.0 if coarsening == 1 else change


def _change(before: Simulation, after: Simulation) -> float:
    """Return the relative change of the time; 0 if the time is 0."""
    return abs(after.time - before.time) / after.time if after.time else 0.0
