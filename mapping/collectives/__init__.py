"""The rounds of collective algorithms: who sends how much to whom, and when."""

# The modules register their algorithms.
from . import butterflies, trees  # noqa: F401
from .butterflies import butterfly_partners
from .schedules import Round, Schedule, merged, names, schedule

__all__ = ["Round", "Schedule", "butterfly_partners", "merged", "names", "schedule"]
