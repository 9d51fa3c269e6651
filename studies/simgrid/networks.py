"""Our torus as SimGrid's, and what else we know of a machine, one thing at a time."""

from __future__ import annotations

import toruscast as tc

BANDWIDTH, HOP = 2e9, 50e-9
# No message waits for another at its sender, and none for room in a memory.
_FREE = {"fifos": 1024, "fifo_rule": "round_robin"}
_FAST_MEMORY = 1e15


def whole(shape: tuple[int, ...]) -> tc.Torus:
    """Return a torus with all that we know of a Blue Gene/Q besides its links."""
    torus = tc.Torus(shape, bandwidth=BANDWIDTH, tie_break="simgrid")
    return torus.with_network(hop_latency=HOP, unknown_rules=())


def links_alone(shape: tuple[int, ...]) -> tc.Torus:
    """Return a torus that has what SimGrid's has: links with a bandwidth and a latency."""
    return whole(shape).with_network(header=0, overhead=0.0, memory_bandwidth=_FAST_MEMORY, **_FREE)


def variants(shape: tuple[int, ...]) -> dict[str, tc.Torus]:
    """Return the torus of links alone, with one thing more each, and with all of them.

    Examples
    --------
    >>> list(variants((4, 4, 4)))[:3]
    ['links alone', 'with headers', 'with software']
    """
    bare, full = links_alone(shape), whole(shape)
    known = full.network
    return {
        "links alone": bare,
        "with headers": bare.with_network(header=known.header),
        "with software": bare.with_network(overhead=known.overhead),
        "with FIFOs": bare.with_network(fifos=known.fifos, fifo_rule=known.fifo_rule),
        "with reception": bare.with_network(memory_bandwidth=known.memory_bandwidth),
        "whole machine": full,
    }
