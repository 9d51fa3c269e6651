"""Communication graphs, tori, machines, task mappings and mapping strategies."""

from toruscast.errors import InputError

from . import collectives, patterns, strategies
from .comm_graph import (
    CommGraph,
    Workload,
    as_workload,
    from_networkx,
    from_pandas,
    from_scipy,
    sum_edges,
)
from .machines import Machine
from .network import Arbitration, DeadlockRule, Feeding, FifoRule, Network
from .omissions import Omission
from .problem import MappingProblem
from .task_mapping import Hosts, TaskMapping
from .torus import TieRule, Torus

__all__ = [
    "Arbitration",
    "CommGraph",
    "DeadlockRule",
    "Feeding",
    "FifoRule",
    "Hosts",
    "InputError",
    "Machine",
    "MappingProblem",
    "Network",
    "Omission",
    "TaskMapping",
    "TieRule",
    "Torus",
    "Workload",
    "as_workload",
    "collectives",
    "from_networkx",
    "from_pandas",
    "from_scipy",
    "patterns",
    "strategies",
    "sum_edges",
]
