"""The names of a job's hosts, and the node of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.validation import repeated

from .task_mapping import TaskMapping
from .torus import Torus


@dataclass(frozen=True, eq=False)
class Hosts:
    """Names of hosts in the order of the allocation, and the node of the torus of each.

    Several hosts may stand at one node, as the two of a Cray Gemini router do.

    Parameters
    ----------
    names : sequence of str
        What the launcher calls the hosts, in its own order.
    node : array-like of int, shape (n_hosts,)
        Node of each host.
    torus : Torus
        The machine.
    aliases : mapping of str to str, optional
        Other names of hosts.

    Raises
    ------
    InputError
        If a name stands twice or a node is not one of the torus.

    Examples
    --------
    >>> hosts = Hosts(["nid00004", "nid00007"], [1, 0], Torus((2,)))
    >>> hosts.place("nid00007"), hosts.place("nid00007.site.org"), hosts.place("nid1")
    (1, 1, None)
    """

    names: Sequence[str]
    node: NDArray[np.int64]
    torus: Torus
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __init__(
        self,
        names: Sequence[str],
        node: ArrayLike,
        torus: Torus,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        nodes = torus.check_nodes(np.asarray(node)).astype(np.int64)
        if nodes.shape != (len(names),):
            raise InputError("nodes of hosts missing", found=nodes.size, expected=len(names))
        if len(set(names)) != len(names):
            twice = repeated(names)[0]
            raise InputError("host stands twice", found=twice, expected="each host once")
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "node", nodes)
        object.__setattr__(self, "torus", torus)
        object.__setattr__(self, "aliases", dict(aliases or {}))

    @lazy
    def _places(self) -> dict[str, int]:
        """Position of each name; names cut at their first dot too, where that is clear."""
        places = {name: i for i, name in enumerate(self.names)}
        known = dict(places)
        for other, name in self.aliases.items():
            known.setdefault(other, places[name])
        short: dict[str, list[int]] = {}
        for name, i in known.items():
            short.setdefault(name.partition(".")[0], []).append(i)
        return {name: at[0] for name, at in short.items() if len(set(at)) == 1} | known

    def place(self, name: str) -> int | None:
        """Return the position of a host in the allocation; None if it is not one of them."""
        found = self._places.get(name)
        return self._places.get(name.partition(".")[0]) if found is None else found

    @lazy
    def index(self) -> NDArray[np.int64]:
        """Which of the hosts of its node each host is, from 0."""
        by_node = np.argsort(self.node, kind="stable")
        ordered = self.node[by_node]
        index = np.empty(self.node.size, dtype=np.int64)
        index[by_node] = np.arange(ordered.size) - np.searchsorted(ordered, ordered)
        return index

    @property
    def most(self) -> int:
        """Hosts at the node that has most."""
        return int(self.index.max(initial=0)) + 1

    def places(self, mapping: TaskMapping) -> NDArray[np.int64]:
        """Return the position of each task's host; those of a node share its slots in order.

        Raises
        ------
        InputError
            If a task stands on a node without a host.
        """
        at = np.full((self.torus.n_nodes, self.most), -1, dtype=np.int64)
        at[self.node, self.index] = np.arange(self.node.size)
        here = (at >= 0).sum(axis=1)[mapping.node]
        if (here == 0).any():
            task = int(np.flatnonzero(here == 0)[0])
            node = int(mapping.node[task])
            place = ",".join(map(str, self.torus.coords[node].tolist()))
            raise InputError(
                f"no host at the node of task {task}",
                found=f"node {node} ({place})",
                expected="one of the table of hosts; toruscast search --allocation FILE keeps to "
                "the nodes that are yours",
            )
        share = -(-mapping.tasks_per_node // self.most)
        found: NDArray[np.int64] = at[mapping.node, np.minimum(mapping.slot // share, here - 1)]
        return found

    def of_tasks(self, mapping: TaskMapping) -> list[str]:
        """Return the name of each task's host; errors are those of `places`."""
        return [self.names[place] for place in self.places(mapping).tolist()]
