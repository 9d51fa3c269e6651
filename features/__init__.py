"""Routes, link loads, injection FIFOs, the packet simulator, and the named features."""

from .bounds import Bounds, time_bounds
from .flows import FlowSimulation, simulate_flows
from .loads import link_loads
from .outliers import average_outliers, top_outliers
from .registry import FEATURES, Feature, feature_names, register, unregister
from .release import release_bound
from .routing import Routing, dilations, injection_fifos, routes
from .simulation import Simulation
from .simulator import simulate
from .stall import StallError
from .table import extract
from .traffic import RoutedTraffic

__all__ = [
    "FEATURES",
    "Bounds",
    "Feature",
    "FlowSimulation",
    "RoutedTraffic",
    "Routing",
    "Simulation",
    "StallError",
    "average_outliers",
    "dilations",
    "extract",
    "feature_names",
    "injection_fifos",
    "link_loads",
    "register",
    "release_bound",
    "routes",
    "simulate",
    "simulate_flows",
    "time_bounds",
    "top_outliers",
    "unregister",
]
