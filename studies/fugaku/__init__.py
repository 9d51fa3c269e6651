"""Measured collectives and jobs of Fugaku."""
