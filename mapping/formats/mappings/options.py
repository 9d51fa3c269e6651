"""What readers and writers of mappings are told besides the file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toruscast.errors import InputError

from ...hosts import Hosts
from ...task_mapping import TaskMapping
from ...torus import Torus


@dataclass(frozen=True)
class MappingOptions:
    """Options of `read_mapping`."""

    torus: Torus
    capacity: int | None = None
    """Tasks that a node takes; as many as the file needs if None."""
    n_tasks: int | None = None
    """Tasks of the job, where the caller knows it."""
    hosts: Hosts | None = None

    @property
    def n_hosts(self) -> int:
        """Hosts of the allocation; the nodes that are ours without a table of them."""
        return self.torus.usable_nodes.size if self.hosts is None else len(self.hosts.names)

    def tasks_of_host(self, n_tasks: int) -> int:
        """Return how many tasks a host takes, of so many in all."""
        if self.capacity is None:
            return max(-(-n_tasks // self.n_hosts), 1)
        return self.capacity if self.hosts is None else max(self.capacity // self.hosts.most, 1)

    def on_host(
        self, host: NDArray[np.int64], slot: NDArray[np.int64], share: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return node and slot of places of hosts, by the hosts' positions in the allocation.

        A host's slots are ``share``; the hosts of a node follow each other in it.
        """
        if self.hosts is None:
            return self.torus.usable_nodes[host], slot
        return self.hosts.node[host], slot + share * self.hosts.index[host]


@dataclass(frozen=True)
class Target:
    """Options of `write_mapping`."""

    host: Torus | None = None
    hosts: Hosts | None = None
    shape: tuple[int, ...] | None = None
    """Of the task grid, where a format nests its list so."""

    @property
    def torus(self) -> Torus:
        """The host, which coordinates need."""
        if self.host is None:
            raise InputError(
                "this format has coordinates, so it needs the torus",
                expected="torus=, or a mapping that was made with its Torus",
            )
        return self.host

    @property
    def named(self) -> Hosts:
        """The hosts, which launchers call by their names."""
        if self.hosts is None:
            raise InputError(
                "this format has names of hosts, so it needs their table",
                expected="--hosts FILE (hosts= in Python), a CSV such as host,x,y,z",
            )
        return self.hosts

    def positions(self, mapping: TaskMapping) -> NDArray[np.int64]:
        """Return the position of each task's host in the allocation.

        Without a table of hosts it is that of its node among those that are ours.
        """
        if self.hosts is not None:
            return self.hosts.places(mapping)
        nodes = mapping.node.astype(np.int64)
        if self.host is None or not self.host.holes.nodes:
            return nodes
        return np.searchsorted(self.host.usable_nodes, nodes)
