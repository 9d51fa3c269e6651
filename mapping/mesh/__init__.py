"""Logical meshes: the axes of a sharded model, what is sent along them, and how they may lie."""

from .layouts import AxisLayout, cut_curves, lines_along, mesh_of
from .traffic import COLLECTIVES, MeshAxes, MeshTraffic, groups_along, parse_axes

__all__ = [
    "COLLECTIVES",
    "AxisLayout",
    "MeshAxes",
    "MeshTraffic",
    "cut_curves",
    "groups_along",
    "lines_along",
    "mesh_of",
    "parse_axes",
]
