"""Collectives of a compiled XLA program, from its text."""

from .collectives import HloCollective, HloStep, parse_hlo, read_hlo

__all__ = ["HloCollective", "HloStep", "parse_hlo", "read_hlo"]
