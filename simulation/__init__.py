"""When messages arrive: the packet simulator, the flow simulator, their counters and traces."""

from .flow import FlowSimulation, simulate_flows
from .simulation import Simulation
from .simulator import simulate
from .stall import StallError

__all__ = ["FlowSimulation", "Simulation", "StallError", "simulate", "simulate_flows"]
