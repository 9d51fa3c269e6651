"""Collectives of a compiled XLA program, from its text."""

from .collectives import HloCollective, HloStep, step_of

__all__ = ["HloCollective", "HloStep", "step_of"]
