"""The rounds of collective algorithms: who sends how much to whom, and when."""

from .partners import butterfly_partners
from .registry import names, schedule
from .schedule import Round, Schedule, merged

__all__ = ["Round", "Schedule", "butterfly_partners", "merged", "names", "schedule"]
