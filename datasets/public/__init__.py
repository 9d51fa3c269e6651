"""Readers of public measurements of real torus machines; the files themselves are not included.

Each module reads the layout of one published source and says where that source is found. The files
are checked as they are read: what does not fit ends in an `InputError` with its file and line.
"""

from .amg_messages import read_amg_messages
from .line_contention import read_line_contention
from .link_counters import read_link_counters
from .static_routes import read_hop_bytes, read_static_routes

__all__ = [
    "read_amg_messages",
    "read_hop_bytes",
    "read_line_contention",
    "read_link_counters",
    "read_static_routes",
]
