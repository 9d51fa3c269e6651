"""Dialects of communication graphs."""
