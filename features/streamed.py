"""Routed traffic of a graph that is read in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from toruscast._lazy import lazy
from toruscast.errors import InputError
from toruscast.mapping import CommGraph, TaskMapping, Torus, Workload
from toruscast.mapping.comm_graph import GraphStream
from toruscast.mapping.task_mapping import as_mapping
from toruscast.mapping.workload import Unrolled
from toruscast.routing.loads import Along, loads_along_routes
from toruscast.routing.routing import check_routing
from toruscast.routing.tally import Tally, added, tally
from toruscast.typing import Routing

from .traffic import RoutedTraffic

NEED_ALL_EDGES = ("release_bound", "release_slowdown")
"""Level-1 features that need all messages at once, in the order in which they are ready."""


class _Tasks(Workload):
    """Tasks without their messages: a feature that asks for messages raises `InputError`."""

    @property
    def total(self) -> CommGraph:
        """Not known as a whole."""
        _refuse(self.name, "its edges")

    @property
    def unrolled(self) -> Unrolled:
        """Not known, either."""
        _refuse(self.name, "its edges")

    def __iter__(self) -> NoReturn:
        _refuse(self.name, "its phases")


@dataclass(frozen=True, eq=False)
class StreamedTraffic(RoutedTraffic):
    """Indicators of a graph that is not held: its edges are read twice, in pieces.

    What every piece adds is added up, so the indicators are those of the whole graph.

    Raises
    ------
    InputError
        If an indicator needs all edges at once, or the torus is twisted.
    """

    stream: GraphStream | None = None

    @classmethod
    def of(
        cls, stream: GraphStream, torus: Torus, mapping: TaskMapping, routing: Routing
    ) -> StreamedTraffic:
        """Route the graph under a mapping."""
        if routing == "by_size":
            is_long = stream.longest > torus.network.deterministic_limit
            routing = "adaptive" if is_long else "deterministic"
        if torus.twist or torus.network.fifo_rule == "round_robin":
            # Whose turn it is depends on all messages before.
            _refuse(stream.name, "its features where FIFOs take turns or the torus is twisted")
        return cls(_Tasks([stream.tasks_alone]), torus, mapping, routing, stream=stream)

    def __post_init__(self) -> None:
        as_mapping(self.mapping).check(self.workload.n_tasks, self.torus)
        check_routing(self.routing)

    @property
    def n_edges(self) -> int:
        """Edges of the graph."""
        return self._stream.n_edges

    @property
    def total_bytes(self) -> float:
        """Bytes of all edges."""
        return self._stream.nbytes

    @lazy
    def tally(self) -> Tally:
        """What a reading of the edges finds."""
        found = None
        for piece in self._stream.pieces():
            own = tally(piece, self.torus, self.mapping, routing=self.routing)
            found = own if found is None else added(found, own)
        if found is None:
            raise InputError("communication graph without an edge", found=self._stream.name)
        return found

    @property
    def all_link_bytes(self) -> NDArray[np.float64]:
        """Bytes routed over every place of a link, shape ``(n_links,)``."""
        return self.tally.link_bytes

    @lazy
    def along_routes(self) -> Along:
        """Link bytes along the edges' dimension-ordered routes: the second reading."""
        largest, total, most = 0.0, 0.0, 0.0
        for piece in self._stream.pieces():
            own = loads_along_routes(piece, self.torus, self.mapping, self.all_link_bytes)
            largest = max(largest, own.largest)
            total += own.total
            most += own.most
        return Along(largest, total, most)

    @lazy
    def release_bound(self) -> float:
        """Not known: the order of all messages belongs to it."""
        _refuse(self._stream.name, "its release bound")

    @property
    def _stream(self) -> GraphStream:
        if self.stream is None:
            raise TypeError("made without a stream")
        return self.stream


def _refuse(name: str, what: str) -> NoReturn:
    raise InputError(
        f"a graph that is streamed does not give {what}",
        found=name,
        expected="other --features, or a graph that is held",
    )
