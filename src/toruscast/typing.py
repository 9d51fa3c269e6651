"""Types that several rooms share."""

from __future__ import annotations

from typing import Literal

Routing = Literal["deterministic", "adaptive", "by_size"]
"""How messages are routed: in dimension order, over any minimal route, or by their length."""
