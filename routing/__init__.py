"""Routes and ties, link loads, dilation, injection FIFOs, and lower bounds of the time."""

from toruscast.typing import Routing

from .bounds import Bounds, time_bounds
from .loads import link_loads
from .release import release_bound
from .routing import dilations, injection_fifos, routes

__all__ = [
    "Bounds",
    "Routing",
    "dilations",
    "injection_fifos",
    "link_loads",
    "release_bound",
    "routes",
    "time_bounds",
]
