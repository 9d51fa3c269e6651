"""What a simulation leaves in the log of whoever listens."""

from __future__ import annotations

import logging
import time
from typing import Any, Literal, TypeVar

from .message_times import MessageTimes

logger = logging.getLogger(__name__)
S = TypeVar("S", bound=MessageTimes[Any])


def noted(result: S, of: Literal["packets", "flows"], began: float) -> S:
    """Record a simulation that began at a moment of `time.perf_counter`, and return it."""
    if not logger.isEnabledFor(logging.INFO):
        return result
    mapping, torus, seconds = result.mapping.name, str(result.torus), time.perf_counter() - began
    logger.info(
        "simulated %s of %s on %s: it takes %.6g s there; simulated in %.3g s",
        of,
        mapping or "a mapping without a name",
        torus,
        result.time,
        seconds,
        extra={
            "event": "simulated",
            "of": of,
            "mapping": mapping,
            "torus": torus,
            "simulated_time": result.time,
            "seconds": seconds,
        },
    )
    return result
