"""What several commands say besides their tables: their setting and occupancy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import toruscast as tc
from toruscast._slow import numpy as np
from toruscast.text import counted, nbytes, percent, printable

from .options import Traffic
from .torus import load_torus
from .traffic import LoadedTraffic, load_application

if TYPE_CHECKING:
    from toruscast.mapping import MappingProblem, TaskMapping
    from toruscast.validation import Routing

# Share of the bytes that are left out.
_NOTABLE = 0.001


def graph_line(facts: Mapping[str, Any]) -> str:
    """Return tasks, edges, bytes and messages in words."""
    counts = [counted(round(facts[key]), key[:-1]) for key in ("tasks", "edges", "messages")]
    return ", ".join([*counts[:2], nbytes(facts["bytes"]), counts[2]])


def application_line(application: LoadedTraffic) -> str:
    """Return what is sent, in words."""
    workload = application.workload
    comm = workload.total
    line = f"{printable(workload.name)}: {counted(comm.n_tasks, 'task')}, "
    line += f"{counted(comm.n_edges, 'edge')}, {nbytes(comm.nbytes.sum())}"
    if workload.summed:
        line += ", summed over a run"
    if len(workload) > 1:
        line += f" in {counted(len(workload), 'round' if workload.dependent else 'phase')}"
    if application.iterations is not None:
        line += f" per iteration (1/{application.iterations:g} of the capture)"
    if application.traffic != "all":
        line += f", {application.traffic.replace('_', '-')} only"
    silent = np.setdiff1d(np.arange(comm.n_tasks), np.concatenate([comm.src, comm.dst]))
    # Where it alone is silent, the warning of the file's reader says so.
    if silent.size > 1 and silent[0] == 0:
        line += "; task 0 neither sends nor receives (tasks are numbered from 0)"
    left = sum(float(phase.nbytes[phase.whole_messages == 0].sum()) for phase in workload)
    left_out = left / max(float(comm.nbytes.sum()), 1e-300)
    if left_out >= _NOTABLE:
        line += (
            f"; {percent(left_out, digits=2)} of them in edges of less than half a message, not "
            "simulated"
        )
    return line


@dataclass(frozen=True)
class Setting:
    """A problem, where its traffic is from, and the ``changes`` of its network."""

    application: LoadedTraffic
    problem: MappingProblem
    changes: Sequence[str] = ()

    def describe(self) -> dict[str, Any]:
        """Return what JSON output says about it."""
        torus = self.problem.torus
        return {
            "application": self.application.describe(),
            "torus": {
                "name": str(torus),
                "nodes": torus.n_nodes,
                "bandwidth": torus.bandwidth,
                "order": torus.order,
                "tie": torus.tie,
                "zones": torus.zones,
            },
        }

    def in_words(self) -> str:
        """Return it as a line for people."""
        changed = f"; {', '.join(map(printable, self.changes))}" if self.changes else ""
        return f"{application_line(self.application)}; on torus {self.problem.torus}{changed}"

    def of(self, mappings: Sequence[TaskMapping]) -> str:
        """Return it with the candidates, as a line for people."""
        n = counted(len(mappings), "candidate mapping")
        return f"{self.in_words()}; {n}, {occupancy(mappings)}"


def load_setting(
    traffic: Traffic,
    routing: Routing,
    unused: Collection[str] = (),
    *,
    simulated: bool = True,
) -> Setting:
    """Read what is sent and the torus; keys of its network that are ``unused`` must not be set."""
    application = load_application(traffic, simulated=simulated)
    torus = load_torus(traffic, unused)
    problem = tc.MappingProblem(application.workload, torus, routing)
    return Setting(application, problem, traffic.changes)


def occupancy(mappings: Sequence[TaskMapping]) -> str:
    """Return the tasks on a node that has any, and how many nodes have, where not all do.

    Examples
    --------
    >>> from toruscast.mapping import TaskMapping
    >>> occupancy([TaskMapping([3, 2, 1, 0], 4)]), occupancy([TaskMapping([0, 0, 0, 1], 4)])
    ('1 task a node', '1 to 3 tasks a node on 2 of 4 nodes')
    """
    seen = Occupancy()
    for mapping in mappings:
        seen.note(mapping)
    return str(seen)


class Occupancy:
    """How many tasks share a node in the mappings noted so far, none of which is kept."""

    def __init__(self) -> None:
        self.n = 0
        self.n_nodes = 0
        self.tasks: list[int] = []
        self.used: list[int] = []

    def note(self, mapping: TaskMapping) -> TaskMapping:
        """Count a mapping in, and return it."""
        load = mapping.occupancy[mapping.occupancy > 0]
        self.n += 1
        self.n_nodes = mapping.n_nodes
        self.tasks = _range([*self.tasks, int(load.min()), int(load.max())])
        self.used = _range([*self.used, load.size])
        return mapping

    def __str__(self) -> str:
        alike = len(self.tasks) == 1
        text = f"{counted(self.tasks[0], 'task') if alike else f'{_to(self.tasks)} tasks'} a node"
        if self.used == [self.n_nodes]:
            return text
        return f"{text} on {_to(self.used)} of {counted(self.n_nodes, 'node')}"


def _range(values: list[int]) -> list[int]:
    return sorted({min(values), max(values)})


def _to(ends: list[int]) -> str:
    return " to ".join(map(str, ends))
