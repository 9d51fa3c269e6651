"""Synthetic communication patterns: halos, all-to-alls, exchanges, pF3D, rings, random pairs.

The halo, sub-communicator and pF3D patterns are those of Jain, Bhatele, Robson, Gamblin and Kale,
"Predicting application performance using supervised learning on communication features", SC'13.
Every pattern is array arithmetic; ``nbytes`` is what a task sends over one edge and
``n_messages`` the messages that carry it.
"""

from .all_to_alls import all_to_all, sub_all_to_all
from .applications import pf3d
from .exchanges import pairwise_exchange, xor_exchange
from .halos import halo_2d, halo_3d, ring
from .random_graphs import random_pairs

__all__ = [
    "all_to_all",
    "halo_2d",
    "halo_3d",
    "pairwise_exchange",
    "pf3d",
    "random_pairs",
    "ring",
    "sub_all_to_all",
    "xor_exchange",
]
