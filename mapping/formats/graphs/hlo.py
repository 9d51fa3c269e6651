"""HLO text: a phase for each collective of a compiled program.

Patterns were programs that JAX 0.4 to 0.9 compiled, and the printers of XLA (replica_group.cc and
mesh_and_axis.cc of 2026, named meshes as JAX 0.10 has them).
"""

from __future__ import annotations

import os
import re
import time
import warnings

import numpy as np

from toruscast.errors import InputWarning
from toruscast.files import check_claim, note_read
from toruscast.wording import counted

from ...collectives.schedule import collective_total, edges_of
from ...comm_graph import MAX_TASKS, CommGraph, sum_edges
from ...hlo import HloCollective, HloStep, step_of
from ...trace.library_rules import algorithm_of
from ...workload import Workload
from ..dialect import Dialect
from ..source import Source, as_text, read_text
from .build import GraphOptions

START = re.compile(rb"\s*HloModule\s")


def is_hlo(source: Source) -> bool:
    """Whether the first line names a module."""
    return bool(START.match(source.start))


def read(source: Source, options: GraphOptions) -> Workload:
    """Return a phase for each collective; those that run several times send as much more."""
    options.only(source.path, "collectives")
    text = source.text
    step = step_of(text)
    if not step.collectives:
        raise text.fault("HLO text without a collective", None, None, "such as all-reduce")
    n = max(step.n_devices, options.n_tasks or 0)
    if n > MAX_TASKS or options.n_tasks not in (None, n):
        most = options.n_tasks or MAX_TASKS
        raise text.fault("too many devices", None, step.n_devices, f"at most {most}")
    if step.left_out:
        warnings.warn(
            f"{source.path}: left out, as it is not known what they send: "
            f"{', '.join(step.left_out[:8])}",
            InputWarning,
            stacklevel=2,
        )
    # Sender and receiver of an all-to-all take eight bytes; its amounts are alike.
    held = sum(8 * edges_of(one.kind, one.groups) for one in step.collectives)
    n_edges = counted(held // 8, "message")
    check_claim(source.path, held, f"{counted(len(step.collectives), 'collective')} of {n_edges}")
    phases = [_phase(one, n, options).renamed(options.name) for one in step.collectives]
    return Workload(phases, name=options.name)


def _phase(one: HloCollective, n_tasks: int, options: GraphOptions) -> CommGraph:
    if one.kind == "permute":
        src, dst = one.groups.T
        sizes = np.full(src.size, one.nbytes * one.times)
        counts = np.full(src.size, float(one.times))
        return sum_edges(n_tasks, src, dst, sizes, counts)
    name = algorithm_of("", one.kind, one.groups.shape[1], one.nbytes)
    if one.kind in options.collectives:
        name = f"{one.kind}/{options.collectives[one.kind]}"
    return collective_total(name, one.groups, one.nbytes, n_tasks, one.times)


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


def read_hlo(path: str | os.PathLike[str]) -> HloStep:
    """Read the collectives of an HLO text dump.

    Raises
    ------
    InputError
        If the file cannot be read or is no such dump, or a collective's groups or sizes cannot be
        told.
    """
    began = time.perf_counter()
    step = step_of(read_text(path))
    note_read("HLO", path, began, collectives=len(step.collectives))
    return step


def parse_hlo(text: str) -> HloStep:
    """Return the collectives of HLO text.

    Raises
    ------
    InputError
        As of `read_hlo`.

    Examples
    --------
    >>> step = parse_hlo('''HloModule jit_f, num_partitions=4
    ... ENTRY %main (p: f32[8]) -> f32[32] {
    ...   %p = f32[8]{0} parameter(0)
    ...   ROOT %ag = f32[32]{0} all-gather(%p), replica_groups=[1,4]<=[4], dimensions={0}
    ... }''')
    >>> [(each.name, each.kind, each.nbytes) for each in step.collectives], step.n_devices
    ([('ag', 'allgather', 128.0)], 4)
    """
    return step_of(as_text("HLO text", text.encode()))
