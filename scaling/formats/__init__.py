"""Readers of measurement files."""

from .reading import read_measurements

__all__ = ["read_measurements"]
