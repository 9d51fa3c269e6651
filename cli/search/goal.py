"""What is searched for, and from where, as the command is told."""

from __future__ import annotations

from dataclasses import dataclass

from ..records import Placing


@dataclass(frozen=True)
class Search(Placing):
    """Starts, bounds and goal of a search."""

    mappings: str | None = None
    seconds: float = 30.0
    objective: str = "time"
    also: tuple[str, ...] = ()
    """Other programs."""
