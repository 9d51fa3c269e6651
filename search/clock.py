"""Time that a search may take, counted fairly on a busy machine."""

from __future__ import annotations

import math
import time

BUSY = 2.0
"""How many times as long as promised a search takes where others keep the processors busy."""


class Clock:
    """Seconds of the processors that this thread has had since now.

    Where other programs have the processors, the wall's seconds count too, each as 1 / `BUSY`.

    Parameters
    ----------
    seconds : float or None
        Seconds after which it is over; None: never.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = math.inf if seconds is None else seconds
        self._thread, self._wall = time.thread_time(), time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds so far."""
        wall = time.monotonic() - self._wall
        return max(time.thread_time() - self._thread, wall / BUSY)

    @property
    def delay(self) -> float:
        """Seconds of the wall that passed for each that counts: 1 to `BUSY`."""
        wall, spent = time.monotonic() - self._wall, self.spent
        return min(max(wall / spent, 1.0), BUSY) if spent else 1.0

    @property
    def left(self) -> float:
        """Seconds until it is over; negative after that."""
        return self.seconds - self.spent

    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left < 0
