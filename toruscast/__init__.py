"""Forecast which task mapping of a parallel application runs fastest on a torus network."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
