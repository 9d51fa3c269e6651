"""Figures and pages made of results."""
