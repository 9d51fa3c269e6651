"""The flow simulator: messages share links, no packets are made."""

from .flows import FlowSimulation, simulate_flows

__all__ = ["FlowSimulation", "simulate_flows"]
