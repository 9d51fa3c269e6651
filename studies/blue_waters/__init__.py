"""Contention and multigrid measured on Blue Waters."""
