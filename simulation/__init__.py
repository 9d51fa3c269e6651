"""The packet simulator and the flow simulator, with their counters and traces."""

from .flow.flows import FlowSimulation, simulate_flows
from .simulation import Simulation
from .simulator import simulate

__all__ = ["FlowSimulation", "Simulation", "simulate", "simulate_flows"]
