"""Graphs, tori, task mappings, and everything that makes, reads or writes them."""

from toruscast.errors import InputError

from . import collectives, patterns, strategies
from .allocation import Hosts
from .comm_graph import CommGraph, from_networkx, from_pandas, from_scipy, sum_edges
from .machines import get as machine
from .machines.registry import parse_torus
from .network import Arbitration, DeadlockRule, Feeding, FifoRule, Network
from .task_mapping import TaskMapping
from .ties import TieRule
from .torus import Torus
from .workload import Workload, as_workload

__all__ = [
    "Arbitration",
    "CommGraph",
    "DeadlockRule",
    "Feeding",
    "FifoRule",
    "Hosts",
    "InputError",
    "Network",
    "TaskMapping",
    "TieRule",
    "Torus",
    "Workload",
    "as_workload",
    "collectives",
    "from_networkx",
    "from_pandas",
    "from_scipy",
    "machine",
    "parse_torus",
    "patterns",
    "strategies",
    "sum_edges",
]
