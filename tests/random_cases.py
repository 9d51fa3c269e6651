"""Awkward random input: tori with rings of 1, 2 and 3, meshes, ties; graphs with odd edges."""

import os
from dataclasses import replace
from itertools import pairwise
from typing import get_args

from hypothesis import settings
from hypothesis import strategies as st

from toruscast.mapping import CommGraph, Network, TaskMapping, TieRule, Torus
from toruscast.mapping.twist import default_twist

# Half of the weight lies on the sizes where plus and minus meet, and on even rings with ties.
SIZES = st.sampled_from([1, 2, 2, 3, 4, 4, 5, 6, 7, 8])
AMOUNTS = st.one_of(
    st.sampled_from([0.0, 1.0, 511.0, 512.0, 513.0, 0.1]),
    st.integers(0, 3000).map(float),
    st.floats(2**-10, 3000),
)
TIES = st.sampled_from(get_args(TieRule))
FIFO_RULES = st.sampled_from(["bluegene_q", "first_dimension", "round_robin"])


def examples(usual):
    """Let a law be tried on so many examples, or on as many as EXAMPLES says."""
    return settings(max_examples=int(os.environ.get("EXAMPLES", usual)), deadline=None)


def rounding(weight):
    """Return how far fixed point may put a sum of some of these weights from what it is."""
    return weight.size * weight.sum() * 2.0**-61


@st.composite
def tori(draw, max_nodes=120, max_dimensions=4, ties=TIES, network=None):
    shape = []
    for size in draw(st.lists(SIZES, min_size=1, max_size=max_dimensions)):
        if size * _product(shape) <= max_nodes:
            shape.append(size)
    ndim = len(shape)
    wrap = draw(st.lists(st.sampled_from([True, True, False]), min_size=ndim, max_size=ndim))
    speeds = draw(st.lists(st.sampled_from([1e9, 2e9, 4.5e9]), min_size=ndim, max_size=ndim))
    order = draw(st.permutations(range(ndim)))
    if network is None:
        network = draw(networks())
    return Torus(shape, wrap, speeds, order, draw(ties), network, zones=draw(zones(ndim)))


@st.composite
def twisted(draw, network=None):
    shape = draw(st.sampled_from([(2, 2, 4), (2, 4, 4), (4, 2, 2), (3, 3, 6), (4, 4, 8)]))
    twist = default_twist(shape)
    if draw(st.booleans()):
        # Any other one: only along the last dimension.
        shape = (draw(st.integers(2, 4)), draw(st.integers(2, 4)), draw(st.integers(2, 6)))
        by = [draw(st.integers(0, shape[2] - 1)) for _ in range(2)]
        twist = ((0, 0, by[0]), (0, 0, by[1]), (0, 0, 0))
    return Torus(
        shape,
        bandwidth=draw(st.sampled_from([(2e9,), (1e9, 2e9, 4.5e9)])),
        routing_order=draw(st.permutations(range(3))),
        tie_break=draw(st.sampled_from(["plus", "source_parity"])),
        network=draw(networks()) if network is None else network,
        zones=draw(st.sampled_from([(), ((1, 0), (2,)), ((2,), (1,), (0,))])),
        twist=twist,
    )


@st.composite
def zones(draw, ndim):
    """No zones, or the dimensions in any order, cut into groups."""
    if draw(st.booleans()):
        return ()
    dimensions = draw(st.permutations(range(ndim)))
    cuts = sorted(draw(st.sets(st.integers(1, ndim - 1), min_size=1))) if ndim > 1 else []
    return [dimensions[a:b] for a, b in pairwise([0, *cuts, ndim])]


@st.composite
def networks(draw):
    return Network(
        payload=draw(st.sampled_from([1, 100, 512])),
        header=draw(st.sampled_from([0, 32])),
        hop_latency=draw(st.sampled_from([0.0, 4e-8, 1e-6])),
        buffer_packets=draw(st.integers(2, 9)),
        fifos=draw(st.sampled_from([1, 3, 10])),
        fifo_rule=draw(FIFO_RULES),
        overhead=draw(st.sampled_from([0.0, 1e-8, 5e-7])),
        memory_bandwidth=draw(st.sampled_from([1e9, 2.8e10])),
    )


ARBITRATIONS = st.sampled_from(["first_come", "round_robin"])


@st.composite
def simulated_networks(draw):
    """Networks that vary what only the simulator knows; no message is of more than 47 packets."""
    short = draw(st.sampled_from([0, 1, 511, 600]))
    return replace(
        draw(networks()),
        payload=draw(st.sampled_from([64, 100, 512])),
        fifo_rule=draw(st.sampled_from(["bluegene_q", "first_dimension", "first_free"])),
        fifo_packets=draw(st.sampled_from([1, 1, 2, 5])),
        deadlock=draw(st.sampled_from(["bubble", "dateline"])),
        arbitration=draw(ARBITRATIONS),
        escape=draw(st.sampled_from(["returns", "stays"])),
        feeding=draw(st.sampled_from(["tasks", "messages", "packets"])),
        reception_ports=draw(st.integers(1, 3)),
        short_limit=short,
        short_overhead=draw(st.sampled_from([0.0, 5e-9, 2e-7])),
        eager_limit=draw(st.sampled_from([float("inf"), 0.0, 512.0, 2000.0])),
    )


def _product(sizes):
    product = 1
    for size in sizes:
        product *= size
    return product


@st.composite
def graphs(draw, n_tasks, max_edges=40, amounts=AMOUNTS, messages=None):
    task = st.integers(0, n_tasks - 1)
    edges = sorted(draw(st.sets(st.tuples(task, task), max_size=max_edges)))
    if messages is None:
        messages = st.sampled_from([0.0, 0.4, 0.5, 1.0, 1.0, 1.5, 2.0, 3.0])
    counts = [draw(messages) for _ in edges]
    # An edge without a message carries no byte.
    nbytes = [draw(amounts) if round(n) else 0.0 for n in counts]
    return CommGraph(n_tasks, [s for s, _ in edges], [d for _, d in edges], nbytes, counts)


@st.composite
def mapped(draw, torus, max_tasks=24):
    """A mapping: one task or many, nodes empty, full or with several tasks."""
    n_tasks = draw(st.integers(1, max_tasks))
    node = st.integers(0, torus.n_nodes - 1)
    nodes = draw(st.lists(node, min_size=n_tasks, max_size=n_tasks))
    return TaskMapping(nodes, torus, tasks_per_node=n_tasks)


@st.composite
def cases(draw, tori=tori, **graph_options):
    """Graph, torus and mapping that fit."""
    torus = draw(tori())
    mapping = draw(mapped(torus))
    return draw(graphs(mapping.n_tasks, **graph_options)), torus, mapping
