"""HLO text: a phase for each collective of a compiled program."""

from __future__ import annotations

import re

import numpy as np

from ...comm_graph import MAX_TASKS, CommGraph, sum_edges
from ...hlo import HloCollective, step_of
from ...workload import Workload
from ..dialect import Dialect
from ..source import Source
from ._collectives import collective_total
from .options import GraphOptions

START = re.compile(rb"\s*HloModule\s")
# Algorithms where none is named.
USUAL = {
    "allreduce": "ring",
    "allgather": "ring",
    "reduce_scatter": "ring",
    "alltoall": "pairwise",
}


def is_hlo(source: Source) -> bool:
    """Whether the first line names a module."""
    return bool(START.match(source.start))


def read(source: Source, options: GraphOptions) -> Workload:
    """Return a phase for each collective; those that run several times send as much more."""
    options.refuse_include(source.path)
    options.refuse_messages()
    options.refuse_columns(source.path)
    text = source.text
    step = step_of(text)
    if not step.collectives:
        raise text.fault("HLO text without a collective", None, None, "such as all-reduce")
    n = max(step.n_devices, options.n_tasks or 0)
    if n > MAX_TASKS or options.n_tasks not in (None, n):
        most = options.n_tasks or MAX_TASKS
        raise text.fault("too many devices", None, step.n_devices, f"at most {most}")
    phases = [_phase(one, n, options) for one in step.collectives]
    return Workload(phases, name=options.name)


def _phase(one: HloCollective, n_tasks: int, options: GraphOptions) -> CommGraph:
    if one.kind == "permute":
        src, dst = one.groups.T
        sizes = np.full(src.size, one.nbytes * one.times)
        counts = np.full(src.size, float(one.times))
        return sum_edges(n_tasks, src, dst, sizes, counts, name=options.name)
    algorithm = options.collectives.get(one.kind, USUAL[one.kind])
    total = collective_total(one.kind, one.groups.shape[1], one.nbytes, algorithm)
    groups = len(one.groups)
    return sum_edges(
        n_tasks,
        one.groups[:, total.src].ravel(),
        one.groups[:, total.dst].ravel(),
        np.tile(total.nbytes * one.times, groups),
        np.tile(total.n_messages * one.times, groups),
        name=options.name,
    )


DIALECT = Dialect(
    name="hlo",
    holds="graph",
    title="HLO text of a compiled XLA program",
    recognise=is_hlo,
    read=read,
    documentation="""
What `jax.jit(step).lower(...).compile().as_text()` gives, or XLA dumps. Each all-reduce,
all-gather, reduce-scatter, all-to-all and collective-permute is a phase, among its
`replica_groups`; those of a loop with a known number of trips count as often. They are sent round
rings, an all-to-all in pairwise exchanges; `--collectives allreduce=rabenseifner` names another
algorithm. `toruscast mesh --hlo` lays the axes of such a program over a torus.
""",
    example="""HloModule step, num_partitions=4

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %sum = f32[8]{0} all-reduce(%p), replica_groups={{0,1},{2,3}}, to_apply=%add
}
""",
)
