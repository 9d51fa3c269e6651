"""The packet simulator and the flow simulator, with their counters and traces."""

from .flows import FlowSimulation, simulate_flows
from .results import Simulation
from .simulator import simulate

__all__ = ["FlowSimulation", "Simulation", "simulate", "simulate_flows"]
