"""The flow simulator: messages share links, without packets."""

from .flows import FlowSimulation, simulate_flows

__all__ = ["FlowSimulation", "simulate_flows"]
