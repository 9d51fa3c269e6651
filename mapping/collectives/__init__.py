"""Collective algorithms as rounds of messages."""

# The modules register their algorithms.
from . import butterflies, trees  # noqa: F401
from .butterflies import butterfly_partners
from .schedules import Round, Schedule, merged, names, schedule

__all__ = ["Round", "Schedule", "butterfly_partners", "merged", "names", "schedule"]
