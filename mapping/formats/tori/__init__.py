"""Dialects of tori."""
