"""Routes and ties, link loads, dilation, injection FIFOs, and lower bounds of the time."""

from toruscast.validation import Routing

from .bounds import Bounds, release_bound, time_bounds
from .loads import link_loads
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
