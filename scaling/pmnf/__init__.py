"""Empirical scaling models in performance model normal form."""
