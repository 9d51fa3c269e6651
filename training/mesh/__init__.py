"""Which way to lay the axes of a sharded model over a torus: forecast, ranked and explained."""

from .answer import MeshForecast, RankedLayout
from .rank import link_seconds, mesh, step_time
from .slices import RankedSlices, which_slice

__all__ = [
    "MeshForecast",
    "RankedLayout",
    "RankedSlices",
    "link_seconds",
    "mesh",
    "step_time",
    "which_slice",
]
