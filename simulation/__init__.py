"""The packet simulator and the flow simulator, with their counters and traces."""

from .flow import FlowSimulation, simulate_flows
from .simulation import Simulation
from .simulator import simulate
from .stall import StallError

__all__ = ["FlowSimulation", "Simulation", "StallError", "simulate", "simulate_flows"]
