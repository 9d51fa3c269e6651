"""How fast work goes of late, and what time it still takes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

# What counts: so many seconds, or so many steps if they take longer. The first step may have taken
# long, for it compiled; and steps may become longer.
_SECONDS, _STEPS = 30.0, 8
# Steps that come faster are one.
_APART = 0.1


@dataclass
class Pace:
    """Moments at which so much was done; what was done at the first of them took no time.

    Examples
    --------
    >>> pace = Pace()
    >>> for seconds, done in ((0, 10), (5, 11), (10, 12)):
    ...     pace.tell(seconds, done)
    >>> pace.left(12, 20)
    38.0
    """

    told: deque[tuple[float, float]] = field(default_factory=deque)

    def tell(self, now: float, done: float) -> None:
        """Take in how much is done at a moment, in seconds."""
        told = self.told
        if told and done < told[-1][1]:
            # Other work has begun.
            told.clear()
        if len(told) > 1 and now - told[-2][0] < _APART:
            told.pop()
        told.append((now, done))
        while len(told) > _STEPS and told[1][0] < now - _SECONDS:
            told.popleft()

    def left(self, now: float, total: float) -> float | None:
        """Return the seconds that remain; None as long as nothing was done."""
        if not self.told:
            return None
        (began, first), (last, done) = self.told[0], self.told[-1]
        if done <= first:
            return None
        each = (last - began) / (done - first)
        # The step under way is at its end at the earliest: of one that takes long, the others
        # remain.
        return max((total - done) * each - (now - last), (total - done - 1) * each, 0.0)
