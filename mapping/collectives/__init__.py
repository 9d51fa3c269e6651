"""Collective algorithms as rounds of messages."""

# Importing the module registers the algorithms.
from .algorithms import butterfly_partners
from .schedules import Round, Schedule, merged, names, schedule

__all__ = ["Round", "Schedule", "butterfly_partners", "merged", "names", "schedule"]
