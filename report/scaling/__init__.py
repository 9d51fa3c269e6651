"""Figures of scaling models."""
