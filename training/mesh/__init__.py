"""Which way to lay the axes of a sharded model over a torus: forecast, ranked and explained."""

from .answer import MeshForecast, RankedLayout
from .rank import mesh, step_time

__all__ = ["MeshForecast", "RankedLayout", "mesh", "step_time"]
