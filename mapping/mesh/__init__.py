"""Logical meshes: the axes of a sharded model, what is sent along them, and how they may lie."""

from .layouts import AxisLayout, cut_curves, lines_along, mesh_of
from .traffic import COLLECTIVES, MeshAxes, MeshTraffic, along, parse_axes

__all__ = [
    "COLLECTIVES",
    "AxisLayout",
    "MeshAxes",
    "MeshTraffic",
    "along",
    "cut_curves",
    "lines_along",
    "mesh_of",
    "parse_axes",
]
