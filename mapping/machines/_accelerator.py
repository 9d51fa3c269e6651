"""What the presets of accelerators share."""

from __future__ import annotations

from ..network import Network


def accelerator_network(ndim: int, memory: float) -> Network:
    """Return a network with an injection queue for each port; memory in bytes per second."""
    return Network(fifos=2 * ndim, fifo_rule="first_dimension", memory_bandwidth=memory)
